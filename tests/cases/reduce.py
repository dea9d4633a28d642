"""Reductions over every set of axes, short and long, of every rank."""

from itertools import combinations

import numpy as np
import torch
from torch import nn

from cases.case import Case, module, node

RNG = np.random.default_rng(5)
OPERATORS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
    "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip
SPECIAL_VALUES = RNG.normal(0, 1, (2, 5, 3, 7)).astype(np.float32)
SPECIAL_VALUES[0, 1, 2, 3] = np.nan
SPECIAL_VALUES[0, 2, 1, 1] = np.inf
SPECIAL_VALUES[0, 3, 1, 1] = -np.inf
SPECIAL_VALUES[1, 4] = -np.inf
SPECIAL_VALUES[1, 3, 0] = np.inf
TIES = RNG.integers(0, 3, (2, 5, 3, 7)).astype(np.float32)
LARGE_MEAN_VALUES = (RNG.normal(0, 1, (1, 3, 70, 90)) + 1000).astype(np.float32)


def int_vector(*values):
    return np.array(values, np.int64)


def near_one(rng, shape):
    return rng.uniform(0.8, 1.25, shape)


class CommonReductions(nn.Module):
    """Means and maxima in common spellings, one after a transposed convolution."""

    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose2d(5, 6, 3, 2)

    def forward(self, x):
        y = self.up(x)
        return (
            y.mean((2, 3)),
            y.amax(1),
            y.sum(),
            y.flatten(1).mean(1),
            y.argmax(1),
            y.min(-1).values,
        )


class Variance(nn.Module):
    """Variance and deviation, as torch decomposes them."""

    def forward(self, x):
        return torch.var(x, dim=(2, 3)), torch.std(x, dim=1, unbiased=False)


class AlongAxis(nn.Module):
    """A torch function along one axis."""

    def __init__(self, function, axis):
        super().__init__()
        self.function, self.axis = function, axis

    def forward(self, x):
        return self.function(x, self.axis, keepdim=True)


def torch_case(name, function, axis):
    # ONNX Runtime's maxima drop NaN; PyTorch's and ours keep it.
    return Case(name, lambda: (AlongAxis(function, axis).eval(), (SPECIAL_VALUES,)))


class CumulativeOps(nn.Module):
    def forward(self, x):
        return torch.cumprod(x, 2), torch.cumsum(x, 1)


CASES = [
    module("running products", CumulativeOps, (2, 5, 7, 3)),
    node("CumSum", "CumSum", [(2, 3, 11), np.int64(-1)], constants=[1]),
    node("CumSum of channels, exclusive", "CumSum", [(2, 5, 3), np.int64(1)], constants=[1], exclusive=1),
    node("CumSum backwards", "CumSum", [(1, 5, 6, 7), np.int64(2)], constants=[1], reverse=1),
    node("CumSum of Inf", "CumSum", [np.float32([[1, np.inf, 2, -np.inf, 3]]), np.int64(1)], constants=[1]),
    node(
        "CumSum backwards, exclusive", "CumSum", [(4, 9), np.int64(1)], constants=[1],
        reverse=1, exclusive=1,
    ),
    *(node(f"{op} of maps", op, [(2, 5, 3, 7), int_vector(2, 3)], constants=[1], values=near_one) for op in OPERATORS),
    *(node(f"{op} of everything", op, [(2, 5, 3, 7)], keepdims=0, values=near_one) for op in OPERATORS),
    *(node(f"{op} of nothing", op, [(2, 5, 3, 7)], noop_with_empty_axes=1, values=near_one) for op in OPERATORS),
    *(
        node(f"ReduceMean over {axes}", "ReduceMean", [(2, 5, 3, 7), int_vector(*axes)], constants=[1], keepdims=len(axes) % 2)
        for count in (1, 2, 3) for axes in combinations(range(4), count)
    ),
    *(
        node(f"ReduceMax over {axes} of rank 6", "ReduceMax", [(2, 3, 2, 3, 2, 3), int_vector(*axes)], constants=[1], keepdims=0)
        for axes in ((0,), (2,), (5,), (1, 2), (2, 3, 4), (1, 3), (0, 2, 4), (1, 3, 5), (-1, -3))
    ),
    *(
        node(f"{op} with special values over {axes}", op, [SPECIAL_VALUES, int_vector(*axes)], constants=[1])
        for op in ("ReduceSum", "ReduceL1", "ReduceProd")
        for axes in ((1,), (2, 3), (3,))
    ),
    node("ReduceLogSumExp of large numbers", "ReduceLogSumExp", [LARGE_MEAN_VALUES, int_vector(3)], constants=[1]),
    node("ReduceMean of large maps", "ReduceMean", [LARGE_MEAN_VALUES, int_vector(2, 3)], constants=[1]),
    node("ReduceSum of 513 channels", "ReduceSum", [(2, 513, 3, 2), int_vector(1)], constants=[1]),
    node("ReduceMax of 2053 channels", "ReduceMax", [(1, 2053), int_vector(1)], constants=[1]),
    node("ReduceMin of a long line", "ReduceMin", [(100003,)], keepdims=0),
    node("ReduceSum of 700 images", "ReduceSum", [(700, 3, 2, 2), int_vector(0)], constants=[1]),
    node("ReduceL2 of one row", "ReduceL2", [(1, 3, 1, 301), int_vector(-1)], constants=[1]),
    node("ReduceSum of a number", "ReduceSum", [()], keepdims=0),
    node("ReduceSum of integers", "ReduceSum", [RNG.integers(-99, 99, (3, 5, 7)), int_vector(0, 2)], constants=[1]),
    node("ReduceMean of rank 3", "ReduceMean", [(3, 5, 7), int_vector(2)], constants=[1]),
    node("ReduceMean of a matrix", "ReduceMean", [(3, 5), int_vector(0)], constants=[1], keepdims=0),
    *(node(f"{op} over axis {axis}", op, [(2, 5, 3, 7)], axis=axis) for op in ("ArgMax", "ArgMin") for axis in (0, 1, 2, -1)),
    *(node(f"ArgMax of ties over axis {axis}", "ArgMax", [TIES], axis=axis, keepdims=0) for axis in range(4)),
    *(node(f"ArgMin, the last of ties over axis {axis}", "ArgMin", [TIES], axis=axis, select_last_index=1) for axis in range(4)),
    *(
        torch_case(f"{name} with special values over {axis}", function, axis)
        for name, function in (("amax", torch.amax), ("amin", torch.amin), ("argmax", torch.argmax), ("argmin", torch.argmin))
        for axis in (1, 2, 3)
    ),
    node("ArgMax of 1000 classes", "ArgMax", [(3, 1000)], axis=1),
    node("ArgMax of rank 5", "ArgMax", [(2, 3, 4, 5, 6)], axis=2),
    node("ArgMax of rank 5 over folded axes", "ArgMax", [(2, 3, 4, 5, 6)], axis=3, keepdims=0),
    module("reductions of a module", CommonReductions, (2, 5, 6, 5)),
    module("variance", Variance, (2, 5, 6, 7)),
]  # fmt: skip
