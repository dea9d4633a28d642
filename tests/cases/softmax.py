"""Softmax, LogSoftmax and Hardmax over every axis, with infinities and equal elements."""

import numpy as np
from torch import nn

from cases.case import Case, module, node

RNG = np.random.default_rng(3)
SHAPES = ((2, 5, 3, 7), (3, 10), (1, 1000), (7,), (2, 5, 9), (2, 3, 4, 5, 6))
LARGE = (RNG.normal(0, 30, (2, 5, 3, 7)) + 500).astype(np.float32)
MASKED = RNG.normal(0, 1, (2, 5, 3, 7)).astype(np.float32)
MASKED[RNG.random(MASKED.shape) < 0.5] = -np.inf
MASKED[0, :, 1, 2] = -np.inf
MASKED[1, :, 2, 3] = np.inf
MASKED[1, 2, 1, 4] = np.nan
TIES = RNG.integers(0, 3, (2, 5, 3, 7)).astype(np.float32)


class Attention(nn.Module):
    """Softmax of what lies in a folded frame."""

    def forward(self, x):
        return (x.flatten(2).softmax(-1), x.flatten(1).log_softmax(1), x.flatten(2).softmax(1))


def given(name, make, array):
    return Case(name, lambda: (make().eval(), (array,)))


CASES = [
    *(
        node(f"{op} of {shape} over {axis}", op, [shape], axis=axis)
        for op in ("Softmax", "LogSoftmax", "Hardmax")
        for shape in SHAPES
        for axis in range(-1, len(shape))
    ),
    *(given(f"softmax of a mask over {axis}", lambda axis=axis: nn.Softmax(axis), MASKED) for axis in (1, 2, 3)),
    *(given(f"log softmax of a mask over {axis}", lambda axis=axis: nn.LogSoftmax(axis), MASKED) for axis in (1, 2, 3)),
    *(given(f"softmax of large numbers over {axis}", lambda axis=axis: nn.Softmax(axis), LARGE) for axis in (1, 2, 3)),
    node("Softmax of equal elements", "Softmax", [np.full((2, 7, 1, 3), 1e30, np.float32)], axis=1),
    *(node(f"Hardmax of ties over {axis}", "Hardmax", [TIES], axis=axis) for axis in range(4)),
    module("softmax 2-D", lambda: nn.Softmax2d(), (2, 5, 3, 7)),
    module("softmin", lambda: nn.Softmin(1), (2, 5, 3, 7)),
    module("softmax of 513 channels", lambda: nn.Softmax(1), (1, 513, 3, 2)),
    module("softmax of one element", lambda: nn.Softmax(1), (3, 1)),
    module("softmax over reshaped maps", Attention, (2, 5, 6, 7)),
]  # fmt: skip
