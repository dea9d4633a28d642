"""Scatter operators: updates written to indexed positions."""

import numpy as np
import torch
from torch import nn

from cases.case import module, node

SCATTER_INDICES = np.array([[[0, 4, -5]], [[2, 1, 0]]])
REPEATED_INDICES = np.array([[1, 1, 0], [-1, 1, 2]])
INDEX_ROWS = np.array([[1, 2], [0, 0], [-1, 1]])
REDUCTIONS = ("add", "mul", "max", "min")


class SliceAssign(nn.Module):
    def forward(self, x, y):
        x = x.clone()
        x[:, 1, ::2] = y
        return x


class MaxUnpool(nn.Module):
    """Exported as a ScatterND whose indices are computed with a MaxPool of stride 1."""

    def forward(self, x):
        y, places = nn.functional.max_pool2d(x, 2, return_indices=True)
        return nn.functional.max_unpool2d(y, places, 2)


class ScatterAdd(nn.Module):
    def forward(self, x):
        return torch.zeros(2, 3).scatter_add(1, torch.tensor([[0, 2, 2, 1, 0]] * 2), x)


CASES = [
    node("ScatterElements", "ScatterElements", [(2, 5, 3), SCATTER_INDICES, (2, 1, 3)], axis=1),
    node("ScatterElements constant", "ScatterElements", [(2, 5, 3), SCATTER_INDICES, (2, 1, 3)], constants=[1], axis=-2),
    node("ScatterElements of a vector", "ScatterElements", [(7,), np.array([3, -1]), (2,)]),
    node("ScatterElements of 5 axes", "ScatterElements", [(2, 1, 3, 2, 2), np.arange(8).reshape(2, 1, 2, 2, 1) % 2, (2, 1, 2, 2, 1)], axis=4),
    *(node(f"ScatterElements {join} twice", "ScatterElements", [(3, 3), REPEATED_INDICES, (2, 3)], axis=0, reduction=join) for join in REDUCTIONS),
    node("ScatterND", "ScatterND", [(3, 4, 5), INDEX_ROWS, (3, 5)]),
    node("ScatterND constant", "ScatterND", [(3, 4, 5), INDEX_ROWS, (3, 5)], constants=[1]),
    node("ScatterND of elements", "ScatterND", [(4, 5), np.array([[[1, 2], [3, -1]]]), (1, 2)], constants=[1]),
    node("ScatterND of whole images", "ScatterND", [(4, 3, 2), np.array([[2], [0]]), (2, 3, 2)], constants=[1]),
    *(node(f"ScatterND {join} twice", "ScatterND", [(3, 4), np.array([[1], [1], [0]]), (3, 4)], constants=[1], reduction=join) for join in REDUCTIONS),
    node("ScatterND add constant", "ScatterND", [(3, 4), np.array([[1], [0]]), (2, 4)], constants=[1], reduction="add"),
    node("ScatterND max of NaN", "ScatterND", [np.float32([[1, 2, 3]]), np.array([[0, 1], [0, 2]]), np.float32([5, np.nan])], reduction="max"),
    module("assignment to a slice", SliceAssign, (2, 3, 5, 4), (2, 3, 4)),
    module("max unpooling", MaxUnpool, (1, 3, 4, 6)),
    module("scatter_add", ScatterAdd, (2, 5)),
]  # fmt: skip
