"""Small networks drawn by hypothesis: branches, reused values and layers, broadcasting."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Operation = Callable[..., Tensor]
MAX_ELEMENTS = 700  # per value

POINTWISE: list[Operation] = [
    torch.tanh, torch.sigmoid, torch.sin, F.gelu, F.silu, F.softplus, F.elu, F.mish, torch.abs,
    torch.atan, F.relu, lambda a: (a * a + 0.5).sqrt(), lambda a: (a * a + 0.5).log(),
    lambda a: 1 / (1.5 + a * a), lambda a: a.clamp(-0.7, 0.6), lambda a: F.leaky_relu(a, 0.2),
]  # fmt: skip
BINARY: list[Operation] = [
    torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum,
    lambda a, b: a / (b * b + 0.7), lambda a, b: torch.where(a > b, a * 0.5, b),
    lambda a, b: (a * a + 0.3) ** torch.tanh(b), torch.add, torch.mul,
]  # fmt: skip
REDUCTIONS: list[Operation] = [torch.mean, torch.sum, torch.amax, torch.amin, torch.logsumexp]


def pointwise(a: Tensor, b: Tensor, rng: random.Random) -> Operation:
    return rng.choice(POINTWISE)


def binary(a: Tensor, b: Tensor, rng: random.Random) -> Operation:
    """A binary operation; the second operand is narrowed to broadcast, or loses axes."""
    function, lost = rng.choice(BINARY), rng.choice([0, 0, 1, 2])

    def step(a: Tensor, b: Tensor) -> Tensor:
        for axis, (n, m) in enumerate(zip(a.shape, b.shape, strict=True)):
            if n != m and 1 not in (n, m):
                b = b.narrow(axis, m - 1, 1)
        for _ in range(lost):
            b = b[0] if b.shape[0] == 1 else b
        return function(a, b)

    return step


def conv(a: Tensor, b: Tensor, rng: random.Random) -> Operation:
    channels = a.shape[1]
    groups = rng.choice([g for g in (1, 1, 2, 3, channels) if channels % g == 0])
    kernel = rng.randint(1, 3), rng.randint(1, 3)
    stride, dilation = rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2])
    outputs, padding = groups * rng.randint(1, 3), (rng.randint(0, 2), rng.randint(0, 2))
    if rng.random() < 0.3:
        return nn.ConvTranspose2d(channels, outputs, kernel, stride, 0, groups=groups)
    return nn.Conv2d(channels, outputs, kernel, stride, padding, dilation, groups)


def linear(a: Tensor, b: Tensor, rng: random.Random) -> Operation:
    return nn.Linear(a.shape[-1], rng.randint(1, 5), bias=rng.random() < 0.7)


def norm(a: Tensor, b: Tensor, rng: random.Random) -> Operation:
    channels = a.shape[1]
    groups = rng.choice([g for g in (1, 2, 3, channels) if channels % g == 0])
    made = rng.choice([nn.BatchNorm2d(channels), nn.GroupNorm(groups, channels),
                     nn.LayerNorm(a.shape[rng.randint(1, 3) :])])  # fmt: skip
    for one in made.parameters():
        nn.init.uniform_(one, 0.3, 1.3)
    return made


def pool(a: Tensor, b: Tensor, rng: random.Random) -> Operation:
    sizes = [min(n, rng.randint(1, 3)) for n in a.shape[2:]]
    stride, padding = rng.randint(1, 2), [rng.randint(0, k // 2) for k in sizes]
    if rng.random() < 0.5:
        return nn.MaxPool2d(sizes, stride, padding, ceil_mode=rng.random() < 0.3)
    return nn.AvgPool2d(sizes, stride, padding, False, rng.random() < 0.5)


def reduction(a: Tensor, b: Tensor, rng: random.Random) -> Operation:
    function, axes = rng.choice(REDUCTIONS), tuple(sorted(rng.sample(range(4), rng.randint(1, 2))))
    return lambda a: function(a, axes, keepdim=True)


def softmax(a: Tensor, b: Tensor, rng: random.Random) -> Operation:
    axis, logarithm = rng.randint(1, 3), rng.random() < 0.4
    return lambda a: a.log_softmax(axis) * 0.3 if logarithm else a.softmax(axis)


def matmul(a: Tensor, b: Tensor, rng: random.Random) -> Operation:
    """A matrix product, batched or with one matrix for all."""

    def step(a: Tensor, b: Tensor) -> Tensor:
        inner = min(a.shape[-1], b.shape[-1])
        right = b[..., :inner].transpose(-1, -2)
        if 1 not in (b.shape[0], a.shape[0]) and a.shape[0] != b.shape[0]:
            right = right[:1]
        if 1 not in (b.shape[1], a.shape[1]) and a.shape[1] != b.shape[1]:
            right = right[:, :1]
        return a[..., :inner] @ right / inner

    return step


def rearrangement(a: Tensor, b: Tensor, rng: random.Random) -> Operation:
    axis, other = rng.sample(range(1, 4), 2)
    length = a.shape[axis]
    start, step = rng.randrange(length), rng.randint(1, 2)
    order = [0, *rng.sample(range(1, 4), 3)]
    rows = torch.tensor([rng.randrange(length) for _ in range(rng.randint(1, 4))])
    before, after = rng.randint(0, min(2, a.shape[3] - 1)), rng.randint(0, min(2, a.shape[2] - 1))
    mode = rng.choice(["constant", "replicate", "reflect"])
    block = next((k for k in (2, 3) if a.shape[1] % (k * k) == 0), 1)
    shape = (a.shape[0], a.shape[2], a.shape[3], a.shape[1])
    moves: list[Operation] = [
        lambda a: a.transpose(axis, other) * 1,
        lambda a: a.permute(order) * 1,
        lambda a: a.flip(axis),
        lambda a: a.roll(start, axis),
        lambda a: a.narrow(axis, start, length - start) * 1,
        lambda a: torch.cat([a, a.flip(other)], axis),
        lambda a: a.index_select(axis, rows),
        lambda a: a.reshape(shape) * 1,
        lambda a: a[:, :, ::step, start % a.shape[3] :] * 1,
        lambda a: F.pad(a, (before, 0, 0, after), mode),
        lambda a: F.pixel_shuffle(a, block),
        lambda a: F.interpolate(a, scale_factor=2, mode="nearest"),
        lambda a: torch.stack(a.chunk(2, axis)[:1] * 2, 0).sum(0),
    ]
    return rng.choice(moves)


def concat(a: Tensor, b: Tensor, rng: random.Random) -> Operation:
    """Concatenation along an axis; the other axes are cropped to the shorter length."""
    axis = rng.randint(1, 3)

    def step(a: Tensor, b: Tensor) -> Tensor:
        for k, (n, m) in enumerate(zip(a.shape, b.shape, strict=True)):
            if k != axis:
                a, b = a.narrow(k, 0, min(n, m)), b.narrow(k, 0, min(n, m))
        return torch.cat([a, b, a], axis)

    return step


OPERATION_KINDS = {
    "pointwise": pointwise, "binary": binary, "conv": conv, "linear": linear, "norm": norm,
    "pool": pool, "reduction": reduction, "shares": softmax, "product": matmul,
    "movement": rearrangement, "joined": concat,
}  # fmt: skip
BINARY_KINDS = ("binary", "product", "joined")


class RandomGraph(nn.Module):
    """Steps over two inputs, each on one or two earlier values; all unused values are outputs.

    `steps` lists (kind, first operand, second operand); operands count back from the last value. A
    step that doesn't fit is skipped. "again" reuses a layer with parameters.
    """

    def __init__(self, steps: Sequence[tuple[str, int, int]], seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        r = random.Random(seed)
        size = [r.randint(1, 2), r.choice([1, 2, 3, 4, 5, 6, 9]), r.randint(2, 6), r.randint(2, 6)]
        other = [n if r.random() < 0.6 else 1 for n in size]
        self.inputs = torch.rand(size) * 2 - 1, torch.rand(other) * 2 - 1
        self.layers = nn.ModuleList()
        self.steps: list[tuple[str, Operation | int, tuple[int, ...]]] = []
        self.names: list[str] = []
        values = [*self.inputs]
        for kind, first, second in steps:
            at = [len(values) - 1 - k % len(values) for k in (first, second)]
            made = self._make_operation(kind, *(values[k] for k in at), r)
            operands = tuple(at[: 1 + (kind in BINARY_KINDS)])
            try:
                with torch.no_grad():
                    found = self._apply_operation(made, [values[k] for k in operands])
            except (RuntimeError, IndexError, TypeError, ValueError):
                continue
            if found.dim() == 4 and 0 < found.numel() <= MAX_ELEMENTS:
                values.append(found)
                self.steps.append((kind, made, operands))
        self.eval()

    def _make_operation(
        self, kind: str, a: Tensor, b: Tensor, rng: random.Random
    ) -> Operation | int:
        if kind == "again":
            return rng.randrange(len(self.layers)) if len(self.layers) else torch.tanh
        with torch.no_grad():
            made = OPERATION_KINDS[kind](a, b, rng)
        if not isinstance(made, nn.Module):
            return made
        self.layers.append(made.eval())
        return len(self.layers) - 1

    def _apply_operation(self, operation: Operation | int, operands: Sequence[Tensor]) -> Tensor:
        return (self.layers[operation] if isinstance(operation, int) else operation)(*operands)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        values, unused = [x, y], {0, 1}
        for _, made, operands in self.steps:
            values.append(self._apply_operation(made, [values[k] for k in operands]))
            unused = (unused - {*operands}) | {len(values) - 1}
        return torch.cat([values[k].reshape(-1) for k in sorted(unused)])

    def __repr__(self) -> str:
        shapes = " and ".join(str(tuple(one.shape)) for one in self.inputs)
        steps = "; ".join(f"{kind} of {operands}" for kind, _, operands in self.steps)
        return f"{shapes}: {steps}; {self.layers}"
