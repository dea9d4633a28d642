"""Small ONNX models that the fuzzer mutates; together they cover most code paths of `load`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

node = helper.make_node


def model_of(
    name: str,
    nodes: Sequence[NodeProto],
    inputs: Mapping[str, Sequence[int]],
    outputs: Sequence[str],
    constants: Mapping[str, Any],
    *,
    opset: int = 21,
) -> ModelProto:
    """Build a model from nodes, input shapes, output names and constants."""
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(k, TensorProto.FLOAT, s) for k, s in inputs.items()],
        [helper.make_empty_tensor_value_info(k) for k in outputs],
        [numpy_helper.from_array(np.asarray(a), k) for k, a in constants.items()],
    )
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def weights(*shape: int) -> np.ndarray:
    """Normally distributed numbers with a fixed seed."""
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def autoencoder() -> ModelProto:
    """Convolutions down to a code and transposed ones back, in an old operator set."""
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        node("LeakyRelu", ["c1"], ["r1"], alpha=0.1),
        node("MaxPool", ["r1"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["p"], ["f"], axis=1),
        node("Gemm", ["f", "wc", "bc"], ["code"], transB=1, alpha=1.0, beta=0.5),
        node("Constant", [], ["map"], value=numpy_helper.from_array(np.int64([0, 3, 2, -1]))),
        node("Reshape", ["code", "map"], ["m"]),
        node("ConvTranspose", ["m", "w2", "b2"], ["c2"], strides=[2, 2], output_padding=[1, 1],
             pads=[1] * 4),
        node("Clip", ["c2"], ["r2"], min=0.0, max=6.0),
        node("Upsample", ["r2", "scales"], ["u"], mode="nearest"),
        node("Sigmoid", ["u"], ["y"]),
    ]  # fmt: skip
    constants = {
        **{"w1": weights(3, 1, 3, 3), "b1": weights(3), "wc": weights(12, 12), "bc": weights(12)},
        **{"w2": weights(3, 1, 3, 3), "b2": weights(1), "scales": np.float32([1, 1, 2, 2])},
    }
    return model_of("autoencoder", nodes, {"x": (1, 1, 8, 8)}, ["y"], constants, opset=9)


def residual() -> ModelProto:
    """A residual block with a squeeze-and-excite gate and a classifier."""
    norm = ["s", "b", "mean", "var"]
    nodes = [
        node("Conv", ["x", "w1"], ["c1"], kernel_shape=[3, 3], pads=[1] * 4, group=2),
        node("BatchNormalization", ["c1", *norm], ["n1"], epsilon=1e-3),
        node("Relu", ["n1"], ["r1"]),
        node("Conv", ["r1", "w2", "b"], ["c2"], auto_pad="SAME_UPPER", dilations=[2, 2]),
        node("BatchNormalization", ["c2", *norm], ["n2"]),
        node("GlobalAveragePool", ["n2"], ["g"]),
        node("HardSigmoid", ["g"], ["gate"], alpha=0.2, beta=0.5),
        node("Mul", ["n2", "gate"], ["scaled"]),
        node("Add", ["scaled", "x"], ["sum"]),
        node("PRelu", ["sum", "slope"], ["a"]),
        node("AveragePool", ["a"], ["p"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4,
             count_include_pad=1),
        node("ReduceMean", ["p", "axes"], ["v"], keepdims=0),
        node("Gemm", ["v", "wc", "bc"], ["logits"], transB=1),
        node("LogSoftmax", ["logits"], ["y"], axis=-1),
        node("TopK", ["logits", "k"], ["best", "which"], axis=1),
    ]  # fmt: skip
    constants = {
        **{"w1": weights(4, 2, 3, 3), "w2": weights(4, 4, 3, 3), "s": weights(4), "b": weights(4)},
        **{"mean": weights(4), "var": np.abs(weights(4)), "slope": weights(4, 1, 1)},
        **{"axes": np.int64([2, 3]), "wc": weights(5, 4), "bc": weights(5), "k": np.int64([2])},
    }
    return model_of("residual", nodes, {"x": (2, 4, 5, 6)}, ["y", "best", "which"], constants)


def attention() -> ModelProto:
    """Two attention heads with a LayerNormalization; shapes are computed from the input's shape."""
    nodes = [
        node("LayerNormalization", ["x", "s", "b"], ["n"], axis=-1, epsilon=1e-5),
        node("MatMul", ["n", "wqkv"], ["qkv"]),
        node("Split", ["qkv"], ["q", "k", "v"], axis=2, num_outputs=3),
        node("Shape", ["x"], ["size"], end=2),
        node("Concat", ["size", "heads"], ["split"], axis=0),
    ]
    for name in "qkv":
        perm = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
        nodes += [
            node("Reshape", [name, "split"], [f"{name}4"]),
            node("Transpose", [f"{name}4"], [f"{name}t"], perm=perm),
        ]
    nodes += [
        node("MatMul", ["qt", "kt"], ["scores"]),
        node("Div", ["scores", "root"], ["scaled"]),
        node("Where", ["mask", "scaled", "least"], ["masked"]),
        node("Softmax", ["masked"], ["p"], axis=-1),
        node("MatMul", ["p", "vt"], ["o"]),
        node("Transpose", ["o"], ["ot"], perm=[0, 2, 1, 3]),
        node("Reshape", ["ot", "whole"], ["joined"], allowzero=0),
        node("Einsum", ["joined", "wo"], ["projected"], equation="bij,jk->bik"),
        node("Gelu", ["projected"], ["g"], approximate="tanh"),
        node("Add", ["g", "x"], ["y"]),
    ]
    constants = {
        **{"s": weights(4), "b": weights(4), "wqkv": weights(4, 12), "wo": weights(4, 4)},
        **{"heads": np.int64([2, 2]), "root": np.float32(1.41), "least": np.float32(-1e9)},
        **{"mask": np.tril(np.ones((3, 3), bool)), "whole": np.int64([0, 0, 4])},
    }
    return model_of("attention", nodes, {"x": (1, 3, 4)}, ["y"], constants)


def resizing() -> ModelProto:
    """Two inputs through operators that move pixels, such as Resize, Pad, Gather, GridSample."""
    nodes = [
        node("Shape", ["x"], ["size"]),
        node("Gather", ["size", "last"], ["hw"], axis=0),
        node("Mul", ["hw", "two"], ["hw2"]),
        node("Concat", ["front", "hw2"], ["sizes"], axis=0),
        node("Resize", ["x", "", "", "sizes"], ["large"], mode="linear",
             coordinate_transformation_mode="align_corners"),
        node("Pad", ["large", "pads", "zero"], ["padded"], mode="reflect"),
        node("Slice", ["padded", "starts", "ends", "axes", "steps"], ["cut"]),
        node("Resize", ["cut", "", "scales"], ["small"], mode="cubic", cubic_coeff_a=-0.5,
             antialias=1),
        node("DepthToSpace", ["z"], ["shuffled"], blocksize=2, mode="CRD"),
        node("Expand", ["shuffled", "wide"], ["e"]),
        node("Tile", ["e", "repeats"], ["t"]),
        node("GridSample", ["t", "grid"], ["sampled"], mode="linear", padding_mode="border"),
        node("ReduceMax", ["small", "axes"], ["m"], keepdims=1),
        node("ReduceL2", ["sampled"], ["l2"], keepdims=0),
        node("Mul", ["m", "l2"], ["scaled"]),
        node("ArgMax", ["small"], ["i"], axis=1, keepdims=0),
        node("Cast", ["i"], ["c"], to=TensorProto.FLOAT),
        node("Unsqueeze", ["c", "one"], ["u"]),
        node("Max", ["u", "scaled"], ["y"]),
    ]  # fmt: skip
    constants = {
        **{"last": np.int64([2, 3]), "two": np.int64(2), "front": np.int64([1, 2])},
        **{
            "pads": np.int64([0, 0, 1, 0, 0, 0, 1, -2]),
            "zero": np.float32(0),
            "one": np.int64([1]),
        },
        **{"starts": np.int64([1, -1]), "ends": np.int64([99, -99]), "axes": np.int64([2, 3])},
        **{"steps": np.int64([2, -1]), "scales": np.float32([1, 1, 1.5, 0.5])},
        **{"wide": np.int64([1, 1, 1, 1]), "repeats": np.int64([1, 2, 1, 1])},
        "grid": weights(1, 2, 3, 2),
    }
    inputs = {"x": (1, 2, 4, 5), "z": (1, 4, 3, 2)}
    return model_of("resizing", nodes, inputs, ["y"], constants)


def volumes() -> ModelProto:
    """A small network over volumes, and a chain of 1-D convolutions."""
    nodes = [
        node("Conv", ["x", "w1", "b"], ["c"], kernel_shape=[3, 2, 3], pads=[1, 0, 1, 1, 1, 1]),
        node("InstanceNormalization", ["c", "s", "b"], ["n"], epsilon=1e-4),
        node("Elu", ["n"], ["e"], alpha=0.7),
        node("MaxPool", ["e"], ["p"], kernel_shape=[2, 2, 2], strides=[2, 1, 2]),
        node("ConvTranspose", ["p", "w2"], ["t"], strides=[2, 2, 1]),
        node("GroupNormalization", ["t", "s", "b"], ["g"], num_groups=1),
        node("AveragePool", ["g"], ["a"], kernel_shape=[2, 2, 2], ceil_mode=1, strides=[2, 2, 2]),
        node("Reshape", ["a", "line"], ["f"]),
        node("Conv", ["f", "w3"], ["l"], group=2, dilations=[2], pads=[2, 2]),
        node("Squeeze", ["l", "zero"], ["q"]),
        node("ScatterElements", ["q", "i", "v"], ["r"], axis=1, reduction="add"),
        node("ReduceSumSquare", ["r"], ["y"], keepdims=0),
    ]
    constants = {
        **{"w1": weights(2, 1, 3, 2, 3), "w2": weights(2, 2, 2, 2, 2), "w3": weights(2, 1, 3)},
        **{"b": weights(2), "s": weights(2), "zero": np.int64([0]), "line": np.int64([0, 2, -1])},
        **{"i": np.int64([[0, -1], [1, 2]]), "v": weights(2, 2)},
    }
    return model_of("volumes", nodes, {"x": (1, 1, 4, 4, 5)}, ["y"], constants)


@cache
def seed_models() -> tuple[tuple[str, bytes], ...]:
    """The name and the serialized bytes of each seed model."""
    models = [make() for make in (autoencoder, residual, attention, resizing, volumes)]
    return tuple((model.graph.name, model.SerializeToString()) for model in models)
