"""ONNX models of a few nodes, and the values that their Graphs compute."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from nbglcnn.graph import Array, Graph
from nbglcnn.load.passes.evaluate import run_graph

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node


def randn(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def model_of(
    nodes: Sequence[Any],
    inputs: dict[str, Any],
    outputs: Sequence[str],
    *,
    opset: int = 21,
    constants: dict[str, Any] | None = None,
    functions: Sequence[Any] = (),
) -> onnx.ModelProto:
    """Build a model from nodes, input shapes, output names and constants."""
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(n, FLOAT, s) for n, s in inputs.items()],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *[helper.make_opsetid("own", 1)] * bool(functions)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=8)


def compute_values(graph: Graph, arrays: Sequence[Array]) -> dict[str, Array]:
    known = dict(zip(graph.inputs, arrays, strict=True))
    computed = run_graph(graph, known, [key.value_name for key in graph.keys])
    return {key.name: computed[key.value_name] for key in graph.keys}


def small_model() -> onnx.ModelProto:
    return model_of(
        [
            node("Conv", ["x", "w", "b"], ["c"], name="first", kernel_shape=[3, 3], pads=[1] * 4),
            node("Relu", ["c"], ["r"]),
            node("Dropout", ["r"], ["d"]),
            node("Identity", ["d"], ["i"]),
            node("Add", ["i", "c"], ["y"]),
        ],
        {"x": (1, 2, 4, 5)},
        ["y"],
        constants={"w": randn(3, 2, 3, 3), "b": randn(3)},
    )
