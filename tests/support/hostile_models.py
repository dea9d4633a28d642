"""Small ONNX models whose shapes or constants would be too large, or are impossible."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx

from onnx_models import model_of, node, randn

SIZE_BOMBS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "resize": ("Resize", {}, {"r": None, "s": np.float32([1, 1, 1e6, 1e6])}),
    "pad": ("Pad", {}, {"p": np.int64([0, 0, 0, 0, 0, 0, 2**31, 2**31])}),
    "negative pad": ("Pad", {}, {"p": np.int64([0, 0, 0, 0, 0, 0, -99, 0])}),
    "tile": ("Tile", {}, {"t": np.int64([1, 1, 2**20, 2**20])}),
    "expand": ("Expand", {}, {"e": np.int64([2**40, 2, 4, 4])}),
    "reshape": ("Reshape", {}, {"e": np.int64([2**40, 2, 4, 4])}),
    "dilation": ("Conv", {"dilations": [2**40, 2**40]}, {"w": randn(2, 2, 3, 3)}),
    "group": ("Conv", {"group": -1}, {"w": randn(2, 2, 3, 3)}),
    "no group": ("Conv", {"group": 0}, {"w": randn(2, 2, 3, 3)}),
    "stride": ("Conv", {"strides": [0, 0]}, {"w": randn(2, 2, 3, 3)}),
    "big kernel": ("Conv", {}, {"w": randn(2, 2, 5, 5)}),
    "kernel": ("MaxPool", {"kernel_shape": [0, 0]}, {}),
    "pool stride": ("MaxPool", {"kernel_shape": [1, 1], "strides": [0, 1]}, {}),
    "pool pads": ("AveragePool", {"kernel_shape": [1, 1], "pads": [0, 0, 2**40, 0]}, {}),
    "transposed": ("ConvTranspose", {"strides": [2**40, 1]}, {"w": randn(2, 2, 3, 3)}),
    "depth": ("DepthToSpace", {"blocksize": 0}, {}),
    "wild depth": ("DepthToSpace", {"blocksize": 2**31 - 1}, {}),
    "sizes": ("Resize", {}, {"r": None, "s": None, "z": np.int64([1, 2, 2**40, 4])}),
    "scale of 0": ("Resize", {}, {"r": None, "s": np.float32([1, 1, 0, 1])}),
    "scale of NaN": ("Resize", {}, {"r": None, "s": np.float32([1, 1, np.nan, 1])}),
    "scale of infinity": ("Resize", {}, {"r": None, "s": np.float32([1, 1, np.inf, 1])}),
    "negative scale": ("Resize", {}, {"r": None, "s": np.float32([1, 1, -2, 1])}),
    "sampling grid": ("AffineGrid", {}, {"z": np.int64([1, 1, 2**13, 2**13])}),
    "cut to": ("CenterCropPad", {}, {"s": np.int64([1, 2, 2**40, 4])}),
    "no steps": (
        "Slice",
        {},
        {"s": np.int64([0]), "e": np.int64([1]), "a": np.int64([2]), "t": np.int64([0])},
    ),
    "axis": ("Slice", {}, {"s": np.int64([0]), "e": np.int64([1]), "a": np.int64([2**40])}),
    "perm": ("Transpose", {"perm": [0, 0, 1, 2]}, {}),
    "wild perm": ("Transpose", {"perm": [0, 1, 2, 2**31 - 1]}, {}),
    "pieces": ("Split", {"axis": 1, "num_outputs": 2}, {}),
    "split": ("Split", {"axis": 1}, {"s": np.int64([1])}),
    "reduced axis": ("ReduceMean", {}, {"a": np.int64([2**40])}),
    "squeezed axis": ("Squeeze", {}, {"a": np.int64([99])}),
    "put in axis": ("Unsqueeze", {}, {"a": np.int64([2**31])}),
    "flattened axis": ("Flatten", {"axis": 2**31 - 1}, {}),
    "softmax axis": ("Softmax", {"axis": -(2**31)}, {}),
    "gathered": ("Gather", {"axis": 2}, {"i": np.int64([2**40])}),
    "best": ("TopK", {}, {"k": np.int64([2**40])}),
    "groups": ("GroupNormalization", {"num_groups": 0}, {"s": randn(2), "b": randn(2)}),
    "neighbours": ("LRN", {"size": -1}, {}),
    "output padding": (
        "ConvTranspose",
        {"output_padding": [2**30, 2**30]},
        {"w": randn(2, 2, 3, 3)},
    ),
    "output shape": ("ConvTranspose", {"output_shape": [2**30, 2**30]}, {"w": randn(2, 2, 3, 3)}),
    "pool dilation": ("MaxPool", {"kernel_shape": [2, 2], "dilations": [2**31 - 1, 1]}, {}),
    "no kernel": ("Conv", {}, {"w": np.zeros((2, 2, 0, 0), np.float32)}),
    "kernel of rank 3": ("Conv", {}, {"w": randn(2, 2, 3)}),
}


def make_size_bomb(name: str) -> onnx.ModelProto:
    """A model with one node of `SIZE_BOMBS`."""
    op, attributes, more = SIZE_BOMBS[name]
    inputs = ["x", *(n if a is not None else "" for n, a in more.items())]
    constants = {n: a for n, a in more.items() if a is not None}
    outputs = {"TopK": ["y", "i"], "Split": ["y", "z", "t"]}.get(op, ["y"])
    shape = (1, 2, 3) if op == "AffineGrid" else (1, 2, 4, 4)
    one = node(op, inputs, outputs, **attributes)
    return model_of([one], {"x": shape}, ["y"], constants=constants)


def constant_bombs() -> list[onnx.ModelProto]:
    """Small files whose constants become large once computed."""

    def made(op: str, shape: Sequence[int], more: Sequence[str] = (), **numbers: Any) -> Any:
        nodes = [
            node("ConstantOfShape", ["s"], ["c"]),
            node(op, ["c", *more], ["t"]),
            node("Add", ["x", "t"], ["y"]),
        ]
        numbers["s"] = np.int64(shape)
        return model_of(nodes, {"x": (1,)}, ["y"], constants=numbers)

    return [
        made("Tile", [2, 2], ["t2"], t2=np.int64([2**14, 2**14])),
        made("Identity", [2**40]),
        made("Exp", [2**14, 2**14]),
        made("Expand", [1], ["e"], e=np.int64([2**40])),
        made("Pad", [1], ["p"], p=np.int64([0, 2**27])),
        made("Erf", [2**14, 2**14]),
    ]
