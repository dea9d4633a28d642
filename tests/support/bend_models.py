"""Random networks of modules, and a reference for bends by plain forward hooks."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

from nbglcnn import Session, transforms
from nbglcnn.features.edits.records import Edit
from nbglcnn.features.edits.reference import apply_edits
from nbglcnn.plan.schema import Plan

CHANNELS = 5
STEP_KINDS = (
    "conv",
    "relu",
    "norm",
    "block",
    "again",
    "skip",
    "idle",
    "pair",
    "named",
    "join",
    "act",
)


class TwoTensors(nn.Module):
    """Returns two tensors, one of them the other's ReLU, in a tuple or a dict."""

    def __init__(self, conv: nn.Module, named: bool) -> None:
        super().__init__()
        self.conv, self.named, self.act = conv, named, nn.Tanh()

    def forward(self, x: torch.Tensor) -> Any:
        a = self.conv(x)
        b = self.act(a)
        return {"raw": a, "act": b} if self.named else (a, b)


class RandomNet(nn.Module):
    """Random steps by a seed; `tap` receives forward's intermediate values, and their names."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        rng = np.random.default_rng(seed)
        torch.manual_seed(seed)
        self.flat = bool(rng.integers(3) == 0)  # a 1-D network
        self.steps = [str(name) for name in rng.choice(STEP_KINDS, 6)]
        self.tail = str(rng.choice(["plain", "flatten", "flatten beside"]))
        self.parts = nn.ModuleList(self.make_step(name) for name in self.steps)
        self.size = (9,) if self.flat else (7, 6)
        self.flatten = nn.Flatten()
        self.head = nn.Linear(CHANNELS * int(np.prod(self.size)), 3)
        self.tap: Callable[[str, torch.Tensor], torch.Tensor] = lambda _, value: value
        self.eval()

    def make_conv(self, in_channels: int = CHANNELS) -> nn.Module:
        kind = nn.Conv1d if self.flat else nn.Conv2d
        return kind(in_channels, CHANNELS, 3, padding=1)

    def make_step(self, name: str) -> nn.Module:
        norm = nn.BatchNorm1d if self.flat else nn.BatchNorm2d
        makers = {
            "conv": self.make_conv,
            "relu": nn.ReLU,
            "norm": partial(norm, CHANNELS),
            "block": lambda: nn.Sequential(self.make_conv(), nn.Sequential(nn.ReLU())),
            "again": lambda: nn.Sequential(self.make_conv(), nn.Tanh()),
            "skip": lambda: nn.Sequential(nn.LeakyReLU(), self.make_conv()),
            "idle": lambda: nn.Sequential(self.make_conv(), nn.Dropout(), nn.Identity(), nn.ELU()),
            "pair": lambda: TwoTensors(self.make_conv(), named=False),
            "named": lambda: TwoTensors(self.make_conv(), named=True),
            "join": lambda: self.make_conv(2 * CHANNELS),
            "act": nn.Identity,
        }
        return makers[name]()

    def forward(self, image: torch.Tensor) -> Any:
        h = image
        for name, part in zip(self.steps, self.parts, strict=True):
            if name == "again":
                h = part(part(h))
            elif name == "skip":
                h = self.tap("add", h + part(h))
            elif name == "pair":
                a, b = part(h)
                h = self.tap("add", a + b)
            elif name == "named":
                found = part(h)
                h = self.tap("mul", found["raw"] * found["act"])
            elif name == "join":
                h = part(self.tap("cat", torch.cat([h, image], 1)))
            elif name == "act":
                before, passed = h, part(h)
                h = self.tap("relu", torch.relu(passed))
                h = self.tap("add", h + passed)  # read after the Identity
                h = self.tap("mul", h * before)  # and before it
            else:
                h = part(h)
        if self.tail == "plain":
            return h
        flat = self.flatten(h)
        scores = self.head(flat)
        return scores if self.tail == "flatten" else {"scores": scores, "maps": h}


def random_network(seed: int) -> tuple[RandomNet, torch.Tensor]:
    """A network and an input for it."""
    net = RandomNet(seed)
    return net, torch.randn(2, CHANNELS, *net.size)


def add_random_bends(session: Session, seed: int, count: int = 4) -> None:
    """Add several random transforms to randomly chosen values."""
    rng = np.random.default_rng(seed)
    choices = [
        transforms.rotate(30), transforms.rotate(90), transforms.flip_h(), transforms.flip_v(),
        transforms.multiply(-0.7), transforms.add(0.3), transforms.invert(), transforms.ablate(),
        transforms.blur(0.8), transforms.sharpen(0.5), transforms.erode(1), transforms.dilate(2),
        transforms.translate(0.2, -0.1), transforms.scale(1.4), transforms.noise(0.2, 7),
        transforms.clamp(-0.5, 0.5), transforms.contrast(1.3), transforms.edges(),
        transforms.pixelate(3), transforms.salt_and_pepper(0.2, 5), transforms.occlude(0.3, 0.6, 3),
    ]  # fmt: skip
    values = session.plan.values
    for _ in range(count):
        value = values[rng.integers(len(values))]
        some = rng.permutation(value.nchw[1])[: 1 + rng.integers(value.nchw[1])]
        session.bend(
            value.key,
            choices[rng.integers(len(choices))],
            channels=None if rng.integers(2) else sorted(int(c) for c in some),
            mix=float(rng.choice([1.0, 0.6])),
        )


def bend_by_hooks(
    net: RandomNet, x: torch.Tensor, plan: Plan, edits: Sequence[Edit],
    arrays: Mapping[str, Any] = {},
) -> dict[str, np.ndarray]:  # fmt: skip
    """Every key's value after its edits, by plain forward hooks that apply numpy formulas."""
    shown = {value.key: value.nchw for value in plan.values}
    found: dict[str, np.ndarray] = {}
    calls: Counter[str] = Counter()

    def bent(key: str, tensor: torch.Tensor) -> torch.Tensor:
        array = tensor.detach().numpy()
        own = [edit for edit in edits if edit.layer == key]
        if own:
            array = apply_edits(array, shown[key], own, arrays)
        found[key] = array.copy()
        return torch.from_numpy(array.copy())

    def through(name: str, output: Any) -> Any:
        if isinstance(output, tuple):
            return tuple(bent(f"{name}[{k}]", one) for k, one in enumerate(output))
        if isinstance(output, dict):
            return {k: bent(f"{name}[{k!r}]", one) for k, one in output.items()}
        return bent(name, output)

    def numbered(name: str) -> str:
        calls[name] += 1
        return name if calls[name] == 1 else f"{name}:{calls[name] - 1}"

    open_calls: list[str] = []
    handles = []
    for path, module in net.named_modules():
        if path:
            handles += [
                module.register_forward_pre_hook(
                    lambda *_, path=path: open_calls.append(numbered(path))
                ),
                module.register_forward_hook(
                    lambda _, __, output: through(open_calls.pop(), output)
                ),
            ]
    net.tap = lambda name, value: bent(numbered(name), value)
    try:
        with torch.no_grad():
            through("output", net(bent("image", x)))
    finally:
        net.tap = lambda _, value: value
        for handle in handles:
            handle.remove()
    return found
