"""QuantizeLinear and DequantizeLinear decomposed to rounding, scaling and clipping."""

from __future__ import annotations

import numpy as np

from nbglcnn.errors import ModelError, UnsupportedOperator
from nbglcnn.graph import Node
from nbglcnn.load.draft import FLOAT32, FoldState, describe_node, int_attr
from nbglcnn.load.passes.infer import element_type, numpy_type
from nbglcnn.load.passes.node_builder import NodeBuilder


def quantize(node: Node, state: FoldState) -> list[Node]:
    """round(x / scale) + zero point, clipped to the type's range; halves round to even."""
    steps, zero = NodeBuilder(node, state), _zero_point(node)
    scale = _to_broadcastable(steps, node.inputs[1])
    asked = int_attr(node, "output_dtype", 0)
    given = state.dtype(zero) if zero else np.dtype(np.uint8)
    dtype = numpy_type(asked) if asked and not zero else given
    if dtype.kind not in "iu" or dtype.itemsize > 2:
        raise UnsupportedOperator(
            f"{describe_node(node)}: to {dtype}; integers of 8 and 16 bits are supported"
        )
    value = steps("Round", steps("Div", node.inputs[0], scale))
    if zero:
        value = steps("Add", value, _as_float(steps, _to_broadcastable(steps, zero)))
    info = np.iinfo(dtype)
    bounds = (steps.constant(info.min, np.float32), steps.constant(info.max, np.float32))
    value = steps("Clip", value, *bounds)
    steps.cast(value, element_type(dtype), output_name=node.outputs[0])
    return steps.nodes


def dequantize(node: Node, state: FoldState) -> list[Node]:
    """(x − zero point) · scale."""
    steps, zero = NodeBuilder(node, state), _zero_point(node)
    value = _as_float(steps, node.inputs[0])
    if zero:
        value = steps("Sub", value, _as_float(steps, _to_broadcastable(steps, zero)))
    steps("Mul", value, _to_broadcastable(steps, node.inputs[1]), to=node.outputs[0])
    return steps.nodes


def _zero_point(node: Node) -> str:
    return node.inputs[2] if len(node.inputs) > 2 else ""


def _as_float(builder: NodeBuilder, value: str) -> str:
    return builder.cast(value, element_type(FLOAT32))


def _to_broadcastable(builder: NodeBuilder, name: str) -> str:
    """Reshape a scale or zero point to broadcast: one number, or one per index along `axis`."""
    node, state = builder.node, builder.state
    shape, rank = state.shape(name), len(state.shape(node.inputs[0]))
    if int_attr(node, "block_size", 0):
        raise UnsupportedOperator(f"{describe_node(node)}: in blocks (block_size)")
    if len(shape) == 0 or shape == (1,):
        return builder.reshape(name, ()) if shape else name
    axis = int_attr(node, "axis", 1)
    axis += rank if axis < 0 else 0
    if len(shape) != 1 or not 0 <= axis < rank or state.shape(node.inputs[0])[axis] != shape[0]:
        raise ModelError(
            f"{describe_node(node)}: a scale or zero point of {list(shape)} along axis {axis} of "
            f"{list(state.shape(node.inputs[0]))}"
        )
    return builder.reshape(name, (*shape, *[1] * (rank - 1 - axis)))
