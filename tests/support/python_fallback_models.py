"""Networks with layers that cannot run on the GPU, and the hook values of all their calls."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

Array = np.ndarray


class NumpyCumsum(nn.Module):
    """Cumulative sums along rows by NumPy, which no exporter can trace, times channel weights."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(np.cumsum(x.numpy(), axis=-1)) * self.weight


class NumpySort(nn.Module):
    """Two named outputs, one of them in a list beside a non-tensor."""

    def forward(self, x: Tensor) -> dict[str, Any]:
        ordered = torch.from_numpy(np.sort(x.numpy(), axis=-1))
        return {"sorted": ordered, "rest": [ordered.mean((2, 3)), 3]}


class _TanhFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.from_numpy(np.tanh(x.detach().numpy()))


class CustomTanh(nn.Module):
    """A custom autograd function."""

    def forward(self, x: Tensor) -> Tensor:
        return _TanhFunction.apply(x)  # type: ignore[no-any-return]


class SingularValues(nn.Module):
    """Singular values, which ONNX has no operator for."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.linalg.svd(x)[1]


class LstmNet(nn.Module):
    """An LSTM between two convolutions; two of its outputs are used."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Conv1d(3, 8, 3, padding=1)
        self.relu = nn.ReLU()
        self.lstm = nn.LSTM(8, 6, batch_first=True)
        self.after = nn.Conv1d(6, 5, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y, (hidden, _) = self.lstm(self.relu(self.before(x)).transpose(1, 2))
        return self.after(y.transpose(1, 2)) + hidden.mean()  # type: ignore[no-any-return]


class SortedTwice(nn.Module):
    """A layer with two outputs that is called twice, the second time on its own output."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.sort = NumpySort()
        self.last = nn.Conv2d(4, 2, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first = self.sort(self.conv(x))
        second = self.sort(-first["sorted"])
        return self.last(second["sorted"]), first["rest"][0]


class DeterminantBlock(nn.Module):
    """A transformer block whose attention mixes tokens by a determinant."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        scores = torch.softmax(q @ k.transpose(1, 2), -1)
        scale = torch.linalg.det(scores)[:, None, None]
        return x + self.proj(scores @ v) * (1 + scale)  # type: ignore[no-any-return]


class SmallViT(nn.Module):
    """A ViT: patches as tokens, two blocks, each with an operator that can't run, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.blocks = nn.Sequential(DeterminantBlock(8), DeterminantBlock(8))
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.blocks(tokens).mean(1))  # type: ignore[no-any-return]


class WrittenInPlace(nn.Module):
    """A Python layer, containing a module with weights, whose output is modified in place."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Conv2d(3, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.from_numpy(self.inner(x).numpy() * 2)


def conv3x3(inputs: int, outputs: int) -> nn.Module:
    return nn.Conv2d(inputs, outputs, 3, padding=1)


# By name: the network, its input shape, and the layers that Python computes.
NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], tuple[str, ...]]] = {
    "LSTM": (LstmNet, (2, 3, 10), ("lstm[0]", "lstm[1][0]", "lstm[1][1]")),
    "ViT": (SmallViT, (2, 3, 8, 8), ("blocks.0: linalg_det", "blocks.1: linalg_det")),
    "first": (lambda: nn.Sequential(NumpyCumsum(3), conv3x3(3, 4)), (2, 3, 7, 5), ("0",)),
    "last": (lambda: nn.Sequential(conv3x3(3, 4), SingularValues()), (2, 3, 7, 5), ("1",)),
    "one after the other": (
        lambda: nn.Sequential(
            conv3x3(3, 4), NumpyCumsum(4), CustomTanh(), conv3x3(4, 4), NumpyCumsum(4), nn.ReLU()
        ),
        (2, 3, 7, 5),
        ("1", "2", "4"),
    ),
    "two outputs": (
        SortedTwice,
        (2, 3, 9, 7),
        ("sort['sorted']", "sort['rest'][0]", "sort:1['sorted']", "sort:1['rest'][0]"),
    ),
    "in place": (
        lambda: nn.Sequential(WrittenInPlace(), nn.ReLU(inplace=True), conv3x3(3, 2)),
        (2, 3, 7, 5),
        ("0",),
    ),
}


def make_network(name: str, seed: int = 0) -> tuple[nn.Module, Array, tuple[str, ...]]:
    """Build a network, an input and the names of the layers that Python computes."""
    make, shape, own = NETWORKS[name]
    torch.manual_seed(seed)
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return make().eval(), x, own


def record_calls(model: nn.Module, x: Array) -> dict[str, Array]:
    """The values that hooks see in all calls.

    Keys are `path`, `path:1` for a second call, and a selector of a tensor in a nested output.
    """
    seen: dict[str, Array] = {}
    counts: dict[str, int] = {}

    def note(name: str, value: Any) -> None:
        if isinstance(value, Tensor):
            seen[name] = value.detach().numpy().copy()
        elif isinstance(value, dict):
            for key, one in value.items():
                note(f"{name}[{key!r}]", one)
        elif isinstance(value, tuple | list):
            for k, one in enumerate(value):
                note(f"{name}[{k}]", one)

    def hook(path: str) -> Any:
        def after(_: nn.Module, __: Any, value: Any) -> None:
            number = counts[path] = counts.get(path, -1) + 1
            note(f"{path}:{number}" if number else path, value)

        return after

    handles = [m.register_forward_hook(hook(p)) for p, m in model.named_modules() if p]
    with torch.no_grad():
        note("output", model(torch.from_numpy(x.copy())))
    for handle in handles:
        handle.remove()
    return seen
