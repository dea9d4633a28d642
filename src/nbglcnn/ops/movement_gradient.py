"""Gradients of operators that move elements: move the gradient back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nbglcnn.graph import PADDING_IDX, Array, Node
from nbglcnn.ops.gradient_builder import BOOL, INT64, GradientBuilder
from nbglcnn.ops.operator import GradientRule, axis_of, int_attr, int_list_attr

ONNX_FLOAT = 1  # ONNX's code of float32


def reshape(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Reshape and its aliases: the same elements in the input's shape."""
    back = builder.reshape(dy[0], builder.shape(node.inputs[0]))
    return [back, *[""] * (len(node.inputs) - 1)]


def transpose(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Transpose: the inverse permutation."""
    rank = len(builder.shape(node.inputs[0]))
    order = int_list_attr(node, "perm", range(rank)[::-1])
    return [builder.transpose(dy[0], tuple(order.index(axis) for axis in range(rank)))]


def expand(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Expand: sum over the repeated axes."""
    return [builder.sum_to(dy[0], builder.shape(node.inputs[0])), ""]


def apply_matrix(builder: GradientBuilder, a: str, axis: int, matrix: Array) -> str:
    """Multiply each line along an axis by a constant matrix (new length, length)."""
    shape = builder.shape(a)
    before, length, behind = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    if behind == 1:
        rows = builder.reshape(a, (before, length))
        found = builder.add_node(
            "MatMul", rows, builder.add_constant(np.ascontiguousarray(matrix.T))
        )
    else:
        rows = builder.reshape(a, (before, length, behind))
        found = builder.add_node("MatMul", builder.add_constant(matrix), rows)
    return builder.reshape(found, (*shape[:axis], len(matrix), *shape[axis + 1 :]))


def slice_axis(builder: GradientBuilder, a: str, axis: int, start: int, end: int) -> str:
    """The positions from `start` to `end` of an axis; the tensor itself if these are all."""
    if (start, end) == (0, builder.shape(a)[axis]):
        return a
    numbers = (builder.add_int_list(n) for n in (start, end, axis))
    return builder.add_node("Slice", a, *numbers)


def flip_axis(builder: GradientBuilder, a: str, axis: int) -> str:
    """Reverse an axis."""
    numbers = (builder.add_int_list(n) for n in (-1, -(2**31), axis, -1))
    return builder.add_node("Slice", a, *numbers)


def pad_axis(builder: GradientBuilder, a: str, axis: int, before: int, after: int) -> str:
    """Pad an axis with zeros before and after; negative amounts crop it."""
    if before == after == 0:
        return a
    pads = [0] * 2 * len(builder.shape(a))
    pads[axis], pads[axis + len(pads) // 2] = before, after
    return builder.add_node("Pad", a, builder.add_int_list(*pads))


def unslice_axis(builder: GradientBuilder, a: str, axis: int, positions: range, length: int) -> str:
    """Spread an axis over `positions` of `length`, zeros elsewhere: a slice's adjoint."""
    if positions.step < 0:
        a, positions = flip_axis(builder, a, axis), positions[::-1]
    count, step = len(positions), positions.step if len(positions) > 1 else 1
    if step > 1:
        shape = builder.shape(a)
        apart = builder.reshape(a, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
        apart = pad_axis(builder, apart, axis + 1, 0, step - 1)
        a = builder.reshape(apart, (*shape[:axis], count * step, *shape[axis + 1 :]))
    return pad_axis(builder, a, axis, positions.start, length - positions.start - count * step)


def slice_rule(positions: Callable[[GradientBuilder, Node], Mapping[int, range]]) -> GradientRule:
    """Make the rule of a Slice that keeps these positions along each axis."""

    def rule(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
        found, shape = dy[0], builder.shape(node.inputs[0])
        for axis, kept in positions(builder, node).items():
            found = unslice_axis(builder, found, axis, kept, shape[axis])
        return [found, *[""] * (len(node.inputs) - 1)]

    return rule


def tile(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Tile: the sum of all copies."""
    shape, whole = builder.shape(node.inputs[0]), builder.shape(dy[0])
    pairs = [part for n, m in zip(shape, whole, strict=True) for part in (m // n, n)]
    rows = builder.reshape(dy[0], pairs)
    axes = [2 * k for k in range(len(shape)) if pairs[2 * k] > 1]
    return [builder.reshape(builder.sum(rows, axes), shape), ""]


def space_to_depth(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """DepthToSpace: its inverse, SpaceToDepth."""
    return [builder.add_node_like("SpaceToDepth", dy, node.attributes)]


def depth_to_space(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """SpaceToDepth: its inverse, DepthToSpace."""
    return [builder.add_node_like("DepthToSpace", dy, node.attributes)]


def concat(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Concat: a slice for each input."""
    axis, start, found = axis_of(builder, node, 0), 0, []
    for name in node.inputs:
        end = start + builder.shape(name)[axis]
        found.append(
            slice_axis(builder, dy[0], axis, start, end) if builder.needs_gradient(name) else ""
        )
        start = end
    return found


def split_rule(sizes: Callable[[GradientBuilder, Node], Sequence[int]]) -> GradientRule:
    """Make the rule of a Split into these lengths: concatenate, zeros for unused outputs."""

    def rule(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
        shape, axis = builder.shape(node.inputs[0]), axis_of(builder, node, 0)
        lengths = sizes(builder, node)
        given = [*dy, *[""] * (len(lengths) - len(dy))]
        pieces = [
            one or builder.full((*shape[:axis], length, *shape[axis + 1 :]), 0)
            for one, length in zip(given, lengths, strict=True)
            if length
        ]
        return [builder.add_node("Concat", *pieces, axis=axis), *[""] * (len(node.inputs) - 1)]

    return rule


def gather(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Gather: sum the gradients of repeated selections, by a one-hot matrix product.

    The padding row of an embedding gets no gradient.
    """
    source, indices = node.inputs
    axis, shape = axis_of(builder, node, 0), builder.shape(source)
    rows, length = builder.numel(indices), shape[axis]
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    known = builder.constant_data(indices)
    whole = builder.reshape(dy[0], (outer, rows, inner))
    if known is not None and rows == 1:
        at = int(known.reshape(())) % length
        found = pad_axis(builder, whole, 1, at, length - at - 1)
    else:
        found = builder.add_node("MatMul", one_hot(builder, indices, length), whole)
    if PADDING_IDX in node.attributes:
        kept = np.arange(length) != int_attr(node, PADDING_IDX, 0)
        mask = builder.add_constant(kept.astype(np.float32)[:, None])
        found = builder.apply_glsl("return select(equal(b, vec4(0.0)), vec4(0.0), a);", found, mask)
    return [builder.reshape(found, shape), ""]


def one_hot(builder: GradientBuilder, indices: str, length: int) -> str:
    """A row for each position of an axis of `length`: 1 if an index selects it, else 0."""
    rows, known = builder.numel(indices), builder.constant_data(indices)
    if known is not None:
        chosen = known.reshape(1, -1) % length == np.arange(length)[:, None]
        return builder.add_constant(chosen.astype(np.float32))
    row = builder.reshape(indices, (1, rows))
    places = builder.add_constant(np.arange(length, dtype=np.int64)[:, None])
    behind = builder.add_constant(np.arange(-length, 0, dtype=np.int64)[:, None])
    same = (builder.add_node("Equal", row, one, dtype=BOOL) for one in (places, behind))
    return builder.add_node("Cast", builder.add_node("Or", *same, dtype=BOOL), to=ONNX_FLOAT)


def gather_elements(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """GatherElements: add the gradients at the positions that were read."""
    zeros = builder.full(builder.shape(node.inputs[0]), 0)
    axis = axis_of(builder, node, 0)
    return [
        builder.add_node(
            "ScatterElements", zeros, node.inputs[1], dy[0], axis=axis, reduction="add"
        ),
        "",
    ]  # fmt: skip


def gather_nd(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """GatherND: add the gradients at the positions read; batch positions become indices too."""
    source, indices = node.inputs
    batch, rows = int_attr(node, "batch_dims", 0), builder.shape(indices)[:-1]
    if batch:
        own = np.moveaxis(np.indices(rows)[:batch], 0, -1).astype(np.int64)
        known = builder.constant_data(indices)
        if known is not None:
            indices = builder.add_constant(np.concatenate((own, known.astype(np.int64)), -1))
        else:
            both = builder.add_constant(own), indices
            indices = builder.add_node("Concat", *both, dtype=INT64, axis=len(rows))
    zeros = builder.full(builder.shape(source), 0)
    return [builder.add_node("ScatterND", zeros, indices, dy[0], reduction="add"), ""]
