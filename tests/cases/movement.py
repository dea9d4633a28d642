"""Operators that move elements: transposes of every rank, slices, broadcasts, shuffles, gathers."""

from itertools import permutations

import numpy as np
import torch
from torch import nn

from cases.case import module, node

MIN_INT64, MAX_INT64 = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class FunctionModule(nn.Module):
    """Wrap a function of one tensor as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def function_case(name, body, *shapes):
    """Return a case of one torch function."""
    return module(name, lambda: FunctionModule(body), *shapes)


def int_vector(*values):
    return np.array(values, np.int64)


def slice_case(name, shape, starts, ends, axes=None, steps=None):
    """Return a case of Slice."""
    inputs = [
        shape,
        int_vector(*starts),
        int_vector(*ends),
        None if axes is None else int_vector(*axes),
        None if steps is None else int_vector(*steps),
    ]
    while inputs[-1] is None:
        inputs.pop()
    return node(
        f"Slice {name}",
        "Slice",
        inputs,
        constants=[k for k in range(1, len(inputs)) if inputs[k] is not None],
    )


SPECIAL_VALUES = np.array([[[[np.nan, 1, -0.0], [np.inf, -np.inf, 2]]]], np.float32)


class SqueezeNothing(nn.Module):
    """Squeeze dimensions that aren't 1: a no-op."""

    def forward(self, x):
        return x.squeeze(1) * 2, torch.squeeze(x, (0, 2, 3)) + 1


CASES = [
    module("squeezed where nothing is 1", SqueezeNothing, (1, 3, 5, 1)),
    *(node(f"Transpose {''.join(map(str, p))}", "Transpose", [(2, 5, 3, 7)], perm=p)
      for p in permutations(range(4))),
    node("Transpose default", "Transpose", [(3, 5, 2)]),
    node("Transpose vector", "Transpose", [(5,)]),
    node("Transpose matrix", "Transpose", [(5, 513)], perm=[1, 0]),
    node("Transpose 513 channels", "Transpose", [(1, 513, 2, 3)], perm=[0, 2, 3, 1]),
    node("Transpose rank 5", "Transpose", [(2, 3, 4, 5, 2)], perm=[4, 2, 0, 3, 1]),
    node("Transpose rank 6", "Transpose", [(2, 3, 2, 3, 2, 3)], perm=[0, 5, 2, 1, 4, 3]),
    node("Transpose rank 7", "Transpose", [(2, 3, 2, 3, 2, 3, 2)], perm=[6, 5, 4, 3, 2, 1, 0]),
    node("Tile rank 5", "Tile", [(2, 3, 1, 2, 2), int_vector(1, 2, 2, 2, 3)], constants=[1]),
    node("Transpose of ones", "Transpose", [(1, 1, 1, 1)], perm=[3, 2, 1, 0]),
    node("Transpose keeps NaN", "Transpose", [SPECIAL_VALUES], perm=[3, 2, 1, 0]),
    module("pixel unshuffle", lambda: nn.PixelUnshuffle(2), (2, 3, 6, 8)),
    module("pixel unshuffle 3", lambda: nn.PixelUnshuffle(3), (1, 5, 6, 3)),
    module("pixel shuffle", lambda: nn.PixelShuffle(2), (2, 12, 3, 5)),
    module("pixel shuffle 3", lambda: nn.PixelShuffle(3), (1, 45, 1, 5)),
    module("channel shuffle", lambda: nn.ChannelShuffle(3), (2, 9, 3, 5)),
    module("conv, channel shuffle, conv", lambda: nn.Sequential(nn.Conv2d(3, 12, 3, groups=3), nn.ChannelShuffle(3), nn.Conv2d(12, 6, 3, groups=3)), (1, 3, 7, 8)),
    function_case("transpose, reshape, transpose", lambda x: x.transpose(1, 3).reshape(2, 15, 7, 1).permute(0, 3, 1, 2).relu(), (2, 5, 3, 7)),
    function_case("windows and back", lambda x: x.view(1, 3, 2, 4, 3, 5).permute(0, 2, 4, 3, 5, 1).reshape(6, 20, 3).relu().view(1, 2, 3, 4, 5, 3).permute(0, 5, 1, 3, 2, 4).reshape(1, 3, 8, 15), (1, 3, 8, 15)),
    slice_case("of channels", (2, 7, 3, 5), [1], [6], [1]),
    slice_case("of whole channel groups", (1, 13, 3, 5), [4], [13], [1]),
    slice_case("of a map", (2, 5, 9, 7), [1, 2], [8, 5], [2, 3]),
    slice_case("steps", (2, 5, 9, 7), [0, 1, 5], [9, 9, 0], [1, 2, 3], [2, 3, -2]),
    slice_case("backwards to the end", (1, 5, 3, 7), [-1, -1], [MIN_INT64, MIN_INT64], [1, 3], [-1, -1]),
    slice_case("ends past the map", (1, 5, 3, 7), [MIN_INT64, 2], [MAX_INT64, 100], [2, 3]),
    slice_case("negative axes", (2, 3, 5), [-4, 0], [-1, 1], [-1, -3]),
    slice_case("without axes", (6, 5), [1, 2], [4, 5]),
    slice_case("of a vector", (513,), [500], [3], [0], [-7]),
    slice_case("rank 5", (2, 3, 4, 5, 6), [1, 4, 0], [4, 0, 6], [2, 3, 4], [2, -1, 5]),
    slice_case("of special values", SPECIAL_VALUES, [-1], [MIN_INT64], [3], [-1]),
    function_case("select, flip, narrow, unbind", lambda x: (x[:, 1], x.flip(1, 3), x.narrow(1, 2, 4), *x.unbind(2)), (1, 7, 3, 5)),
    function_case("roll", lambda x: torch.roll(x, (1, 2), (2, 3)), (1, 3, 4, 5)),
    node("Expand channels", "Expand", [(2, 1, 3, 5), int_vector(2, 6, 1, 5)], constants=[1]),
    node("Expand to a higher rank", "Expand", [(5, 1), int_vector(2, 3, 1, 4)], constants=[1]),
    node("Expand a scalar", "Expand", [np.array(2.5, np.float32), int_vector(2, 5)], constants=[1]),
    node("Expand to a lower rank", "Expand", [(2, 3, 1), int_vector(5)], constants=[1]),
    node("Expand special values", "Expand", [SPECIAL_VALUES, int_vector(2, 5, 2, 3)], constants=[1]),
    node("Tile all axes", "Tile", [(2, 3, 2, 5), int_vector(2, 3, 2, 2)], constants=[1]),
    node("Tile nothing", "Tile", [(2, 3), int_vector(1, 1)], constants=[1]),
    node("Tile rank 3", "Tile", [(1, 5, 3), int_vector(3, 1, 2)], constants=[1]),
    function_case("repeat and repeat_interleave", lambda x: (x.repeat(2, 1, 3, 2), x.repeat_interleave(2, 1)), (1, 3, 4, 5)),
    node("DepthToSpace DCR", "DepthToSpace", [(2, 20, 3, 5)], blocksize=2, mode="DCR"),
    node("DepthToSpace DCR whole groups", "DepthToSpace", [(1, 32, 3, 5)], blocksize=2),
    node("DepthToSpace CRD", "DepthToSpace", [(1, 27, 3, 1)], blocksize=3, mode="CRD"),
    node("SpaceToDepth", "SpaceToDepth", [(2, 3, 4, 6)], blocksize=2),
    node("SpaceToDepth 3", "SpaceToDepth", [(1, 5, 3, 9)], blocksize=3),
    node("Gather a scalar", "Gather", [(2, 5, 3, 7), np.array(-2)], constants=[1], axis=1),
    node("Gather evenly spaced", "Gather", [(2, 5, 3, 7), int_vector(4, 2, 0)], constants=[1], axis=1),
    node("Gather one twice", "Gather", [(2, 5, 3, 7), int_vector(4, 4)], constants=[1], axis=2 - 3),
    node("Gather unevenly", "Gather", [(2, 5, 3, 7), int_vector(3, 0, 0, -1, 6)], constants=[1], axis=3),
    node("Gather a matrix", "Gather", [(5, 6), np.array([[0, 4, 1], [2, -1, 3]])], constants=[1]),
    node("Gather by computed indices", "Gather", [(2, 5, 3, 7), np.array([[0, 4, -1], [2, 1, 1]])], axis=1),
    node("Gather many", "Gather", [(9, 3), np.arange(5000) ** 2 % 9], constants=[1], axis=0),
    node("GatherND one axis", "GatherND", [(5, 2, 3), np.array([[3], [-1], [0], [0]])], constants=[1]),
    node("GatherND all axes", "GatherND", [(3, 4), np.array([[0, 1], [2, -1], [1, 3]])], constants=[1]),
    node("GatherND batch", "GatherND", [(2, 3, 4, 5), np.array([[[1, 0]], [[2, 3]]])], constants=[1], batch_dims=1),
    node("GatherND computed batch", "GatherND", [(2, 3, 4, 5), np.array([[[1], [0]], [[2], [-3]]])], batch_dims=1),
    node("GatherND computed", "GatherND", [(5, 2, 3), np.array([[3, 1], [-1, 0]])]),
    node("GatherElements", "GatherElements", [(2, 5, 3), np.array([[[0, 4, -5]], [[2, 1, 0]]])], axis=1),
    node("GatherElements constant", "GatherElements", [(3, 2), np.array([[0, -1], [1, 2], [2, 0], [0, 0]])], constants=[1], axis=-2),
    function_case("index by lists", lambda x: (x[:, [2, 0, 1]], x[:, :, [0, 2], [3, 1]], torch.index_select(x, 2, torch.tensor([3, 1, 1]))), (2, 3, 4, 5)),
    function_case("gather", lambda x: torch.gather(x, 3, torch.tensor([[4, 0], [1, 2]]).expand(1, 3, 2, 2)), (1, 3, 5, 5)),
    function_case("casts", lambda x: ((x * 10).to(torch.int64).float() + (x > 0).float(), (x * 2).int().bool(), x.bool()), (1, 3, 4, 5)),
    node("Cast to int64", "Cast", [np.array([-2.7, -0.5, 0.0, 0.5, 2.7, 1e6], np.float32)], to=7),
    node("Cast to bool", "Cast", [np.array([-2.7, -0.0, 0.0, np.nan, np.inf, 1e-30], np.float32)], to=9),
    node("Cast int64 to uint8", "Cast", [int_vector(-1, -257, 0, 255, 256, 1000, 2**20 + 3)], to=2),
    node("Cast int64 to int8", "Cast", [int_vector(-1, -129, -128, 127, 128, 1000, 2**20 + 3)], to=3),
    node("Cast int64 to float", "Cast", [int_vector(-1, 5, 2**24)], to=1),
    node("Cast int64 to float16", "Cast", [int_vector(-1, 2049, 2051, 65519, 65520, -(2**20))], to=10),
    node("Cast bool to int64", "Cast", [np.array([[True, False, True]])], to=7),
    function_case("dropout and reshapes", lambda x: nn.functional.dropout(x, 0.5, False).flatten(1)[:, None].squeeze(1).relu(), (2, 3, 4, 5)),
    node("Trilu upper", "Trilu", [(2, 4, 5)]),
    node("Trilu lower, diagonal 1, NaN", "Trilu", [np.array([[1, np.nan, np.inf], [2, 3, -np.inf]], np.float32), np.array(1)], constants=[1], upper=0),
    node("Trilu upper, diagonal -2", "Trilu", [(5, 3), np.array(-2)], constants=[1]),
    node("Trilu lower of many matrices", "Trilu", [(3, 2, 2, 5, 6), np.array(-1)], constants=[1], upper=0),
    node("Trilu behind every column", "Trilu", [(1, 5, 9, 7), np.array(2**40)], constants=[1], upper=0),
    node("Trilu of whole numbers", "Trilu", [int_vector(-1, 2, 3, 2**24 - 1, 5, 6).reshape(2, 3)]),
    function_case("triangles", lambda x: (x.tril(), x.triu(2)), (2, 3, 4, 5)),
]  # fmt: skip
