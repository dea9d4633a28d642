"""Elementwise operators of two or three inputs: every broadcast, and extreme values."""

import numpy as np
from torch import nn

from cases.case import module, node

RNG = np.random.default_rng(7)


class MixedBlocksSum(nn.Module):
    """An addition of operands in different block layouts: one is a transposed convolution's output."""

    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 5, 2, 2)
        self.plain = nn.Conv2d(4, 5, 3, padding=1)

    def forward(self, x, y):
        return self.up(x) * self.plain(y), self.plain(y) - self.up(x)


class ChannelGate(nn.Module):
    """A channel gate, as in squeeze and excitation."""

    def forward(self, x, y):
        return x * y.view(y.shape[0], y.shape[1], 1, 1)


SPECIAL_VALUES = np.array(
    [0.0, -0.0, 1, -1, 0.5, -3, 1e30, -1e30, np.inf, -np.inf, np.nan], np.float32
)
SPECIAL_LEFT, SPECIAL_RIGHT = (
    a.reshape(1, 1, 11, 11) for a in np.meshgrid(SPECIAL_VALUES, SPECIAL_VALUES)
)
POWER_BASES = np.array(
    [0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3.7, -3.7, 1e-6, 1e5, np.inf, -np.inf, np.nan],
    np.float32,
)
EXPONENTS = np.array(
    [0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, 2.5, -1.5, 1 / 3, 7, np.inf, -np.inf, np.nan], np.float32
)
SHAPES = {
    "equal": ((2, 5, 3, 7), (2, 5, 3, 7)),
    "513 channels": ((1, 513, 3, 2), (1, 513, 3, 2)),
    "number": ((2, 5, 3, 7), ()),
    "number first": ((), (2, 5, 3, 7)),
    "vector of channels": ((2, 5, 3, 7), (1, 5, 1, 1)),
    "channels of rank 3": ((2, 5, 3, 7), (5, 1, 1)),
    "last axis": ((2, 5, 3, 7), (7,)),
    "rows": ((2, 5, 3, 7), (3, 1)),
    "images": ((5, 3, 4, 4), (5, 1, 1, 1)),
    "one channel": ((2, 1, 3, 7), (2, 5, 3, 7)),
    "outer product": ((2, 1, 3, 1), (1, 5, 1, 7)),
    "matrix and row": ((5, 6), (6,)),
    "matrix and column": ((5, 6), (5, 1)),
    "vectors": ((5,), (5,)),
    "numbers": ((), ()),
    "rank 3 and 2": ((3, 5, 6), (5, 6)),
    "rank 3 and column": ((3, 5, 6), (3, 5, 1)),
    "rank 4 and 1": ((1, 1, 1, 1), (4,)),
    "rank 5": ((2, 3, 4, 5, 6), (2, 3, 4, 5, 6)),
    "rank 5 and number": ((2, 3, 4, 5, 6), (1,)),
    "rank 5 and channels": ((2, 3, 4, 5, 6), (3, 1, 1, 1)),
    "rank 5 inside folded axes": ((2, 3, 4, 5, 6), (2, 3, 1, 5, 6)),
    "rank 5 alternating": ((2, 1, 4, 1, 6), (1, 3, 1, 5, 1)),
    "rank 6": ((2, 3, 2, 3, 2, 3), (2, 1, 2, 1, 2, 1)),
    "rank 6 and 2": ((2, 3, 2, 3, 2, 3), (2, 3)),
}  # fmt: skip


def nonzero(rng, shape):
    return rng.uniform(0.5, 2, shape) * rng.choice([-1, 1], shape)


CASES = [
    *(node(f"Sub {name}", "Sub", shapes) for name, shapes in SHAPES.items()),
    *(node(f"Add {name}, constant", "Add", shapes, constants=[1]) for name, shapes in SHAPES.items()),
    *(
        node(f"{op} with special values", op, [SPECIAL_LEFT, SPECIAL_RIGHT])
        for op in (
            "Add", "Sub", "Mul", "Div", "Max", "Min", "Equal", "Greater", "GreaterOrEqual", "Less",
            "LessOrEqual", "PRelu",
        )
    ),
    node("Mul", "Mul", [(2, 5, 3, 7), (5, 1, 1)]),
    node("Div", "Div", [(2, 5, 3, 7), (1, 5, 3, 1)], values=nonzero),
    node("Div of integers", "Div", [np.arange(-40, 41).reshape(9, 9), np.array([7, -7, 1, 3, -3, 40, 9, -9, 2])]),
    node("Pow", "Pow", [(2, 5, 3, 7), (5, 1, 1)], values=lambda r, s: r.uniform(0.1, 4, s)),
    *(
        node(f"Pow of {exponent}", "Pow", [(2, 5, 3, 7), np.array(exponent, np.float32)], constants=[1], values=lambda r, s: r.uniform(0.2, 4, s))
        for exponent in (2, 0.5, -1, 3, 0, 1, 1.7, -0.5, 40)
    ),
    node("Pow of all pairs", "Pow", [POWER_BASES.reshape(1, 1, -1, 1), EXPONENTS]),
    node("Pow of large results", "Pow", [RNG.uniform(0, 9, (1, 3, 4, 5)).astype(np.float32), np.array(17.3, np.float32)], constants=[1]),
    node("Pow of negative numbers", "Pow", [(2, 5, 3, 7), np.arange(7).astype(np.float32)]),
    node("Mod of integers", "Mod", [np.arange(-40, 41).reshape(9, 9), np.array([7, -7, 1, 3, -3, 40, 9, -9, 2])]),
    node("Mod with fmod", "Mod", [RNG.normal(0, 50, (2, 5, 3, 7)).astype(np.float32), (5, 1, 1)], fmod=1, values=nonzero),
    node("Mod with fmod of special values", "Mod", [SPECIAL_LEFT, SPECIAL_RIGHT], fmod=1),
    node("Sum of three", "Sum", [(2, 5, 3, 7), (5, 1, 1), (7,)]),
    node("Sum of one", "Sum", [(2, 5, 3, 7)]),
    node("Mean of three", "Mean", [(2, 5, 3, 7), (5, 1, 1), (2, 1, 3, 7)]),
    node("Max of five", "Max", [(2, 5, 3, 7), (5, 1, 1), (7,), (), (2, 5, 3, 7)]),
    node("Min of two", "Min", [(2, 5, 3, 7), (2, 5, 3, 1)]),
    node("PRelu with one slope", "PRelu", [(2, 5, 3, 7), (1,)], constants=[1]),
    module("PReLU with a slope per channel", lambda: nn.PReLU(5), (2, 5, 3, 7)),
    module("PReLU of a matrix", lambda: nn.PReLU(6, 0.1), (5, 6)),
    node("And", "And", [RNG.random((2, 5, 3, 7)) < 0.5, RNG.random((5, 1, 1)) < 0.5]),
    node("Or", "Or", [RNG.random((2, 5, 3, 7)) < 0.5, RNG.random((5, 1, 1)) < 0.5]),
    node("Xor", "Xor", [RNG.random((2, 5, 3, 7)) < 0.5, RNG.random((5, 1, 1)) < 0.5]),
    node("Not", "Not", [RNG.random((2, 5, 3, 7)) < 0.5]),
    node("Where", "Where", [RNG.random((2, 1, 3, 7)) < 0.5, (5, 1, 1), (2, 5, 3, 7)]),
    node("Where with a number", "Where", [RNG.random((2, 5, 3, 7)) < 0.5, np.array(-np.inf, np.float32), (2, 5, 3, 7)], constants=[1]),
    node("IsNaN", "IsNaN", [SPECIAL_VALUES.reshape(1, 1, 1, -1)]),
    node("IsInf", "IsInf", [SPECIAL_VALUES.reshape(1, 1, 1, -1)]),
    node("IsInf, positive alone", "IsInf", [SPECIAL_VALUES.reshape(1, 1, 1, -1)], detect_negative=0),
    module("operands in different blocks", MixedBlocksSum, (1, 3, 5, 7), (1, 4, 10, 14)),
    module("channel gate, batch 1", ChannelGate, (1, 6, 5, 7), (1, 6)),
    module("channel gate, batch 5", ChannelGate, (5, 6, 5, 7), (5, 6)),
    module("channel gate of vectors", ChannelGate, (5, 6, 1, 1), (5, 6)),
]  # fmt: skip
