"""Decomposition of operators into simpler ones, so that they need no shader of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from nbglcnn.errors import ModelError, UnsupportedModel, UnsupportedOperator
from nbglcnn.graph import Array, Node
from nbglcnn.load.draft import FoldState, describe_node, float_list_attr, int_attr
from nbglcnn.load.passes.einsum import einsum
from nbglcnn.load.passes.fourier import decompose_dft
from nbglcnn.load.passes.infer import check_arity, schema_of
from nbglcnn.load.passes.node_builder import NodeBuilder
from nbglcnn.load.passes.quantized import dequantize, quantize
from nbglcnn.load.size_limits import MAX_GENERATED_ELEMENTS, validate_shape


def decompose_node(node: Node, state: FoldState) -> list[Node]:
    """Return the node, or equivalent simpler nodes."""
    rule = DECOMPOSITIONS.get(node.op)
    if rule is None or node.domain:
        return [node]
    check_arity(node, schema_of(node.op))
    return rule(node, state)


def _optional_input(node: Node, position: int) -> str:
    return node.inputs[position] if len(node.inputs) > position else ""


def _require_constant(node: Node, position: int, input_label: str, state: FoldState) -> Array:
    data = state.constants.get(_optional_input(node, position))
    if data is None:
        raise UnsupportedOperator(
            f"{describe_node(node)}: its {input_label} depends on the input; it must be constant"
        )
    return data


def _clip(node: Node, state: FoldState) -> list[Node]:
    """A Clip with computed limits becomes a Max and a Min."""
    limits = [(op, _optional_input(node, k)) for k, op in ((1, "Max"), (2, "Min"))]
    limits = [(op, name) for op, name in limits if name]
    if all(name in state.constants for _, name in limits):
        return [node]
    steps, value = NodeBuilder(node, state), node.inputs[0]
    for number, (op, name) in enumerate(limits, 1):
        value = steps(op, value, name, to=node.outputs[0] if number == len(limits) else "")
    return steps.nodes


def _check_constant_size(node: Node, *sizes: int) -> None:
    """Raise UnsupportedModel for an oversized generated constant: a small file could request it."""
    if prod(sizes) > MAX_GENERATED_ELEMENTS:
        raise UnsupportedModel(
            f"{describe_node(node)}: {prod(sizes):,} positions; at most "
            f"{MAX_GENERATED_ELEMENTS:,} are supported"
        )


def _one_hot(node: Node, state: FoldState) -> list[Node]:
    """`on` where the index (negative: counted from the end) is the position, else `off`."""
    depth = int(_require_constant(node, 1, "depth", state).reshape(-1)[0])
    shape = state.shape(node.inputs[0])
    rank = len(shape) + 1
    axis = int_attr(node, "axis", -1) % rank
    validate_shape(describe_node(node), (*shape[:axis], depth, *shape[axis:]))
    _check_constant_size(node, depth)
    steps, dtype = NodeBuilder(node, state), state.dtype(node.inputs[0])
    given = steps.reshape(node.inputs[0], (*shape[:axis], 1, *shape[axis:]))
    below = steps("Less", given, steps.constant(0, dtype))
    wrapped = steps("Add", given, steps.constant(depth, dtype))
    index = steps("Where", below, wrapped, given)
    places = np.arange(depth).reshape((depth, *[1] * (rank - 1 - axis)))
    here = steps("Equal", index, steps.constant(places, dtype))
    off, on = (steps("Gather", node.inputs[2], steps.constant(k)) for k in (0, 1))
    steps("Where", here, on, off, to=node.outputs[0])
    return steps.nodes


def _cumulative_sum(node: Node, state: FoldState) -> list[Node]:
    """Prefix sum by doubling: after step k each element is the sum of the 2^k elements up to it."""
    shape = state.shape(node.inputs[0])
    axis = int(_require_constant(node, 1, "axis", state).reshape(-1)[0])
    if not -len(shape) <= axis < len(shape):
        raise ModelError(f"{describe_node(node)}: axis {axis} of {len(shape)} dimensions")
    steps, value, axis = NodeBuilder(node, state), node.inputs[0], axis % len(shape)
    backwards = bool(int_attr(node, "reverse", 0))

    def moved(value: str, by: int) -> str:
        pads = np.zeros((2, len(shape)), np.int64)
        pads[:, axis] = (-by, by) if backwards else (by, -by)
        return steps("Pad", value, steps.constant(pads.reshape(-1)))

    if int_attr(node, "exclusive", 0):
        value = moved(value, min(1, shape[axis]))
    if shape[axis] == 1:  # no-op; marks that the axis is summed: in a larger batch, the examples
        value = steps("ReduceSum", value, steps.constant([axis]), keepdims=1)
    by = 1
    while by < shape[axis]:
        value, by = steps("Add", value, moved(value, by)), by * 2
    steps("Identity", value, to=node.outputs[0])
    return steps.nodes


def _affine_grid(node: Node, state: FoldState) -> list[Node]:
    """The constant pixel positions times the matrix of each image."""
    n, _, *sizes = _require_constant(node, 1, "size", state).tolist()
    validate_shape(describe_node(node), (n, *sizes, len(sizes)))
    _check_constant_size(node, *sizes)
    corners = bool(int_attr(node, "align_corners", 0))
    along = [np.linspace(-1, 1, s) if corners else (2 * np.arange(s) + 1) / s - 1 for s in sizes]
    places = [axis.reshape(-1) for axis in np.meshgrid(*along, indexing="ij")][::-1]
    steps = NodeBuilder(node, state)
    pixels = steps.constant(np.stack([*places, np.ones_like(places[0])], -1), np.float32)
    turned = steps("Transpose", node.inputs[0], perm=(0, 2, 1))
    grid = steps("MatMul", pixels, turned)
    steps.reshape(grid, (n, *sizes, len(sizes)), output_name=node.outputs[0])
    return steps.nodes


def _deform_conv(node: Node, state: FoldState) -> list[Node]:
    """Sample each kernel tap's pixels at its offsets, then sum the taps by a 1×1 convolution."""
    x, weight, offset = node.inputs[:3]
    bias, mask = _optional_input(node, 3), _optional_input(node, 4)
    if len(state.shape(x)) != 4 or len(state.shape(weight)) != 4:
        raise UnsupportedOperator(
            f"{describe_node(node)}: only maps with rows and columns are supported"
        )
    (n, c, h, w), kernel = state.shape(x), state.shape(weight)[2:]
    _check_constant_size(node, *kernel, *state.shape(offset)[2:])
    groups, parts = int_attr(node, "offset_group", 1), int_attr(node, "group", 1)
    taps = kernel[0] * kernel[1]
    height, width = state.shape(offset)[2:]
    wanted = (n, groups * taps * 2, height, width)
    if c % max(groups, 1) or state.shape(offset) != wanted or state.shape(weight)[1] * parts != c:
        raise ModelError(
            f"{describe_node(node)}: its offsets have the shape {list(state.shape(offset))}"
        )
    steps = NodeBuilder(node, state)
    pairs = steps.reshape(offset, (n * groups, taps, 2, height, width))
    last = steps("Transpose", pairs, perm=(0, 1, 3, 4, 2))
    rows_first = steps.reshape(last, (n * groups, taps * height, width, 2))
    moved = steps("Gather", rows_first, steps.constant([1, 0]), axis=3)
    # GridSample's coordinates: the centre of pixel p of `size` is (2 p + 1) / size - 1.
    scaled = steps("Mul", moved, steps.constant([2 / w, 2 / h], np.float32))
    places = _tap_positions(node, kernel, (height, width))
    base = (2 * places[..., ::-1] + 1) / np.array([w, h]) - 1
    grid = steps("Add", scaled, steps.constant(base[None], np.float32))
    maps = steps.reshape(x, (n * groups, c // groups, h, w))
    sampled = steps("GridSample", maps, grid, mode="linear", padding_mode="zeros")
    if mask:
        factor = steps.reshape(mask, (n * groups, 1, taps * height, width))
        sampled = steps("Mul", sampled, factor)
    columns = steps.reshape(sampled, (n, c * taps, height, width))
    flat = steps.reshape(weight, (state.shape(weight)[0], c // parts * taps, 1, 1))
    inputs = (columns, flat, bias) if bias else (columns, flat)
    steps("Conv", *inputs, to=node.outputs[0], group=parts)
    return steps.nodes


def _tap_positions(node: Node, kernel: Sequence[int], output: Sequence[int]) -> Array:
    """The positions of each output pixel's taps without offsets: (taps · rows, columns, (y, x))."""
    strides = float_list_attr(node, "strides") or (1, 1)
    dilations = float_list_attr(node, "dilations") or (1, 1)
    pads = float_list_attr(node, "pads") or (0, 0, 0, 0)
    y, x = (
        np.arange(k)[:, None] * d + np.arange(o) * s - p
        for k, d, o, s, p in zip(kernel, dilations, output, strides, pads, strict=False)
    )
    shape = (*kernel, *output)
    rows = np.broadcast_to(y[:, None, :, None], shape)
    columns = np.broadcast_to(x[None, :, None, :], shape)
    return np.stack([rows, columns], -1).reshape(-1, output[1], 2)


RewriteRule = Callable[[Node, FoldState], list[Node]]
DECOMPOSITIONS: dict[str, RewriteRule] = {
    "AffineGrid": _affine_grid,
    "Clip": _clip,
    "CumSum": _cumulative_sum,
    "DFT": decompose_dft,
    "DeformConv": _deform_conv,
    "DequantizeLinear": dequantize,
    "Einsum": einsum,
    "OneHot": _one_hot,
    "QuantizeLinear": quantize,
}
