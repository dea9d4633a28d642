"""The networks of the Viewer's tests, for this process and for notebook kernels."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from torch import nn

# A kernel's first cell.
IMPORTS_CELL = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
import asyncio, threading, time, warnings
import numpy as np, torch, ipywidgets
from torch import nn
from IPython.display import display
from nbglcnn import Viewer
import timeouts
from viewer_models import autoencoder, hook_values, layer_chain, pictures
"""


def autoencoder(seed: int) -> nn.Module:
    """A random convolutional autoencoder with odd sizes and BatchNorm running statistics."""
    torch.manual_seed(seed)
    code = 3 + seed % 4
    model = nn.Sequential()
    model.encoder = nn.Sequential(
        nn.Conv2d(1, 9, 3, stride=2, padding=1),
        nn.BatchNorm2d(9),
        nn.LeakyReLU(0.2),
        nn.Conv2d(9, code, 3, padding=1),
        nn.ReLU(),
    )
    model.decoder = nn.Sequential(
        nn.ConvTranspose2d(code, 7, 4, stride=2, padding=1),
        nn.BatchNorm2d(7),
        nn.ReLU(),
        nn.Conv2d(7, 1, 3, padding=1),
        nn.Sigmoid(),
    )
    with torch.no_grad():
        model.train()
        model(torch.randn(8, 1, 22, 18))
    return model.eval()


def pictures(seed: int, count: int = 2) -> np.ndarray:
    """A batch of inputs for `autoencoder`."""
    return np.random.default_rng(seed).normal(size=(count, 1, 22, 18)).astype(np.float32)


def hook_values(model: nn.Module, x: np.ndarray) -> dict[str, np.ndarray]:
    """The outputs seen by forward hooks of leaves and containers, by activation name."""
    seen: dict[str, np.ndarray] = {"input": x}
    handles = [
        module.register_forward_hook(
            lambda _, __, y, name=name: seen.__setitem__(name, y.detach().numpy().copy())
        )
        for name, module in model.named_modules()
        if name
    ]
    with torch.no_grad():
        seen["output"] = model(torch.from_numpy(x)).numpy()
    for handle in handles:
        handle.remove()
    return seen


class TwoInputs(nn.Module):
    """Two inputs; a tuple of outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3, padding=1)

    def forward(self, image: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mixed = self.conv(image) + noise
        return mixed, torch.relu(mixed)


class NamedOutputs(nn.Module):
    """A dict of outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.conv(x)
        return {"map": y, "sign": torch.sigmoid(y)}


def layer_chain(kinds: Iterable[str], seed: int) -> tuple[nn.Module, np.ndarray]:
    """A network with a layer per letter, of random widths and weights, and a random input."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    width = int(rng.integers(1, 9))
    n, h, w = int(rng.integers(1, 4)), int(rng.integers(9, 17)), int(rng.integers(9, 17))
    x = torch.randn(n, width, h, w)
    parts: list[nn.Module] = []
    for kind in kinds:
        after = int(rng.integers(1, 11)) if kind in "cdt" else width
        made = {
            "c": lambda i, o: nn.Conv2d(i, o, 3, padding=1),
            "d": lambda i, o: nn.Conv2d(i, o, 4, 2, 1),
            "t": lambda i, o: nn.ConvTranspose2d(i, o, 4, 2, 1),
            "b": lambda i, _: nn.BatchNorm2d(i),
            "r": lambda *_: nn.LeakyReLU(0.1),
            "s": lambda *_: nn.Sigmoid(),
            "p": lambda *_: nn.MaxPool2d(3, 1, 1),
        }[kind](width, after)
        if kind == "b":
            made.running_mean.normal_()
            made.running_var.uniform_(0.5, 2)
        parts.append(made)
        width = after
        if min(nn.Sequential(*parts)(x).shape[2:]) < 2:
            break
    return nn.Sequential(*parts).eval(), x.numpy()


class LargeProducts(nn.Module):
    """The products exceed 16-bit range; the final values don't."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow = nn.Conv2d(1, 2, 1)
        self.wide = nn.Conv2d(2, 2, 1)
        with torch.no_grad():
            self.wide.weight.fill_(1e5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.wide(self.narrow(x)))
