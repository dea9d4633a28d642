"""Operators that move elements: transposes of every rank, slices, broadcasts, shuffles."""

from itertools import permutations

import numpy as np
from cases.case import module, node
from torch import nn


class Chain(nn.Module):
    """A function of one tensor as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def function(name, body, *shapes):
    """A case of one torch function."""
    return module(name, lambda: Chain(body), *shapes)


CASES = [
    *(node(f"Transpose {''.join(map(str, p))}", "Transpose", [(2, 5, 3, 7)], perm=p)
      for p in permutations(range(4))),
    node("Transpose default", "Transpose", [(3, 5, 2)]),
    node("Transpose vector", "Transpose", [(5,)]),
    node("Transpose matrix", "Transpose", [(5, 513)], perm=[1, 0]),
    node("Transpose 513 channels", "Transpose", [(1, 513, 2, 3)], perm=[0, 2, 3, 1]),
    node("Transpose rank 5", "Transpose", [(2, 3, 4, 5, 2)], perm=[4, 2, 0, 3, 1]),
    node("Transpose rank 6", "Transpose", [(2, 3, 2, 3, 2, 3)], perm=[0, 5, 2, 1, 4, 3]),
    node("Transpose keeps NaN", "Transpose", [np.array([[[[np.nan, 1], [np.inf, -np.inf]]]], np.float32)], perm=[3, 2, 1, 0]),
    module("pixel unshuffle", lambda: nn.PixelUnshuffle(2), (2, 3, 6, 8)),
    module("channel shuffle", lambda: nn.ChannelShuffle(3), (2, 9, 3, 5)),
    function("transpose, reshape, transpose", lambda x: x.transpose(1, 3).reshape(2, 15, 7, 1).permute(0, 3, 1, 2).relu(), (2, 5, 3, 7)),
]  # fmt: skip
