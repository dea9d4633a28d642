"""Concat and Split: sizes that fill channel groups or don't, every axis, many inputs, any rank."""

import numpy as np
import torch
from torch import nn

from cases.case import module, node


class ReluOfConcat(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, *xs):
        return torch.relu(torch.cat(xs, self.dim))


class SigmoidConcat(nn.Module):
    """An activation with f(0) ≠ 0 after a Concat, and a sum that would include stray lanes."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, *xs):
        y = torch.sigmoid(torch.cat(xs, self.dim))
        return y, y.sum(1)


class UNetJoint(nn.Module):
    """A U-Net's decoder joint: Concat, Relu, transposed convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(4, 8, 4, 2, 1), nn.ConvTranspose2d(8, 4, 4, 2, 1)
        self.last = nn.ConvTranspose2d(8, 3, 4, 2, 1)

    def forward(self, x):
        return self.last(torch.relu(torch.cat([self.up(self.down(x)), x], 1)))


class CatPair(nn.Module):
    def forward(self, x, y):
        return torch.cat([x, y], 1)


class Branches(nn.Module):
    """Sources in several layouts: a map, a transposed convolution's quadrants, a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 6, 3, padding=1), nn.ConvTranspose2d(3, 5, 4, 2, 1)
        self.down = nn.Conv2d(3, 3, 2, 2)
        self.register_buffer("c", torch.randn(1, 2, 8, 6))

    def forward(self, x):
        return torch.cat([self.a(x), self.b(self.down(x)), self.c], 1)


class SplitAndChunk(nn.Module):
    def forward(self, x):
        a, b, c = torch.split(x, [1, 4, 3], 1)
        d, e = x.chunk(2, 3)
        return a * 2, b + 1, c - 1, d.tanh(), e.sigmoid()


def _concat_case(name, axis, *shapes):
    return node(name, "Concat", list(shapes), axis=axis)


CASES = [
    module("cat aligned channels", CatPair, (1, 4, 5, 7), (1, 3, 5, 7)),
    module("cat odd channels, batch 2", CatPair, (2, 3, 5, 7), (2, 6, 5, 7)),
    module("cat 513 channels", CatPair, (1, 513, 2, 3), (1, 1, 2, 3)),
    module("cat of layouts", Branches, (1, 3, 8, 6)),
    module("cat, relu, transposed convolution", UNetJoint, (1, 4, 6, 10)),
    module(
        "cat of whole texels, then sigmoid", lambda: SigmoidConcat(1), (1, 4, 3, 5), (1, 7, 3, 5)
    ),
    module(
        "cat of odd channels, then sigmoid", lambda: SigmoidConcat(1), (2, 3, 3, 5), (2, 2, 3, 5)
    ),
    module("cat of six, then sigmoid", lambda: SigmoidConcat(1), *[(1, 2, 3, 3)] * 6),
    module("cat of rows, then sigmoid", lambda: SigmoidConcat(2), (1, 3, 2, 5), (1, 3, 4, 5)),
    module("cat with nothing, then sigmoid", lambda: SigmoidConcat(1), (1, 3, 2, 5), (1, 0, 2, 5)),
    _concat_case("Concat rows", 2, (1, 3, 2, 5), (1, 3, 4, 5), (1, 3, 1, 5)),
    _concat_case("Concat columns", -1, (2, 3, 4, 1), (2, 3, 4, 6)),
    _concat_case("Concat images", 0, (1, 3, 4, 5), (2, 3, 4, 5)),
    _concat_case("Concat vectors", 1, (3, 5), (3, 2)),
    _concat_case("Concat one axis", 0, (5,), (1,), (7,)),
    _concat_case("Concat rank 3", 2, (2, 3, 4), (2, 3, 5)),
    _concat_case("Concat rank 5 inner", 3, (1, 2, 3, 2, 4), (1, 2, 3, 5, 4)),
    _concat_case("Concat rank 5 second inner", 2, (1, 2, 3, 2, 4), (1, 2, 1, 2, 4)),
    _concat_case("Concat of nine", 1, *[(1, k, 3, 3) for k in range(1, 10)]),
    _concat_case("Concat one input", 1, (1, 3, 4, 5)),
    node(
        "Concat of NaN and Inf",
        "Concat",
        [np.float32([[[[np.nan, 1]]]]), np.float32([[[[np.inf, -np.inf]]]])],
        axis=1,
    ),
    module("split and chunk", SplitAndChunk, (2, 8, 3, 6)),
    node("Split uneven", "Split", [(1, 7, 2, 3)], outputs=3, axis=1, num_outputs=3),
    node(
        "Split sizes", "Split", [(1, 9, 2), np.int64([2, 4, 3])], constants=[1], outputs=3, axis=-2
    ),
]
