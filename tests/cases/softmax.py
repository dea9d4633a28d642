"""Softmax, LogSoftmax and Hardmax over every axis, with infinities and equal elements."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from cases.case import Case, module, node

RNG = np.random.default_rng(3)
SHAPES = ((2, 5, 3, 7), (3, 10), (1, 1000), (7,), (2, 5, 9), (2, 3, 4, 5, 6))
LARGE_VALUES = (RNG.normal(0, 30, (2, 5, 3, 7)) + 500).astype(np.float32)
MASKED = RNG.normal(0, 1, (2, 5, 3, 7)).astype(np.float32)
MASKED[RNG.random(MASKED.shape) < 0.5] = -np.inf
MASKED[0, :, 1, 2] = -np.inf
MASKED[1, :, 2, 3] = np.inf
MASKED[1, 2, 1, 4] = np.nan
TIES = RNG.integers(0, 3, (2, 5, 3, 7)).astype(np.float32)


class FlattenedSoftmax(nn.Module):
    """Softmax of flattened maps."""

    def forward(self, x):
        return (x.flatten(2).softmax(-1), x.flatten(1).log_softmax(1), x.flatten(2).softmax(1))


class ScaledDotAttention(nn.Module):
    """torch.nn.functional's attention with any number of axes: Hiera has windows before heads."""

    def __init__(self, *, causal=False, mask=None, grouped=False):
        super().__init__()
        self.causal, self.grouped = causal, grouped
        self.register_buffer("mask", mask)

    def forward(self, q, k, v):
        more = {"enable_gqa": self.grouped}
        found = F.scaled_dot_product_attention(q, k, v, self.mask, is_causal=self.causal, **more)
        return F.scaled_dot_product_attention(found, k, v, scale=0.3, **more)


def array_case(name, make, array):
    return Case(name, lambda: (make().eval(), (array,)))


CASES = [
    *(
        node(f"{op} of {shape} over {axis}", op, [shape], axis=axis)
        for op in ("Softmax", "LogSoftmax", "Hardmax")
        for shape in SHAPES
        for axis in range(-1, len(shape))
    ),
    *(array_case(f"softmax of a mask over {axis}", lambda axis=axis: nn.Softmax(axis), MASKED) for axis in (1, 2, 3)),
    *(array_case(f"log softmax of a mask over {axis}", lambda axis=axis: nn.LogSoftmax(axis), MASKED) for axis in (1, 2, 3)),
    *(array_case(f"softmax of large numbers over {axis}", lambda axis=axis: nn.Softmax(axis), LARGE_VALUES) for axis in (1, 2, 3)),
    node("Softmax of equal elements", "Softmax", [np.full((2, 7, 1, 3), 1e30, np.float32)], axis=1),
    *(node(f"Hardmax of ties over {axis}", "Hardmax", [TIES], axis=axis) for axis in range(4)),
    module("softmax 2-D", lambda: nn.Softmax2d(), (2, 5, 3, 7)),
    module("softmin", lambda: nn.Softmin(1), (2, 5, 3, 7)),
    module("softmax of 513 channels", lambda: nn.Softmax(1), (1, 513, 3, 2)),
    module("softmax of one element", lambda: nn.Softmax(1), (3, 1)),
    module("softmax over reshaped maps", FlattenedSoftmax, (2, 5, 6, 7)),
    module("attention of a sequence", ScaledDotAttention, (5, 4), (5, 4), (5, 4)),
    module("attention of rank 3, causal", lambda: ScaledDotAttention(causal=True), (2, 5, 4), (2, 5, 4), (2, 5, 4)),
    module("attention of groups of heads, causal", lambda: ScaledDotAttention(causal=True, grouped=True), (2, 6, 5, 4), (2, 3, 5, 4), (2, 3, 5, 4)),
    module("attention with a mask of which a row is empty", lambda: ScaledDotAttention(mask=torch.arange(5)[:, None] > torch.arange(7)), (2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4)),
    module("attention of rank 4", ScaledDotAttention, (2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4)),
    module(
        "attention of windows, with a mask", lambda: ScaledDotAttention(mask=torch.arange(3 * 5 * 7).view(3, 5, 7) % 3 > 0),
        (1, 2, 3, 5, 4), (1, 2, 3, 7, 4), (1, 2, 3, 7, 4),
    ),
]  # fmt: skip
