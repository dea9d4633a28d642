"""Gradients of operators that move elements: move the gradient back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nbglcnn.graph import PADDING_IDX, Array, Node
from nbglcnn.ops.gradient_builder import BOOL, INT64, GradientBuilder
from nbglcnn.ops.operator import GradientRule, axis_of, int_attr, int_list_attr

ONNX_FLOAT = 1  # ONNX's code of float32


def reshape(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Reshape and its aliases: the same elements in the input's shape."""
    back = rules.reshape(dy[0], rules.shape(node.inputs[0]))
    return [back, *[""] * (len(node.inputs) - 1)]


def transpose(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Transpose: the inverse permutation."""
    rank = len(rules.shape(node.inputs[0]))
    order = int_list_attr(node, "perm", range(rank)[::-1])
    return [rules.transpose(dy[0], tuple(order.index(axis) for axis in range(rank)))]


def expand(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Expand: sum over the repeated axes."""
    return [rules.sum_to(dy[0], rules.shape(node.inputs[0])), ""]


def apply_matrix(rules: GradientBuilder, a: str, axis: int, matrix: Array) -> str:
    """Multiply each line along an axis by a constant matrix (new length, length)."""
    shape = rules.shape(a)
    before, length, behind = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    if behind == 1:
        rows = rules.reshape(a, (before, length))
        found = rules.add_node("MatMul", rows, rules.add_constant(np.ascontiguousarray(matrix.T)))
    else:
        rows = rules.reshape(a, (before, length, behind))
        found = rules.add_node("MatMul", rules.add_constant(matrix), rows)
    return rules.reshape(found, (*shape[:axis], len(matrix), *shape[axis + 1 :]))


def slice_axis(rules: GradientBuilder, a: str, axis: int, start: int, end: int) -> str:
    """The positions from `start` to `end` of an axis; the tensor itself if these are all."""
    if (start, end) == (0, rules.shape(a)[axis]):
        return a
    numbers = (rules.add_int_list(n) for n in (start, end, axis))
    return rules.add_node("Slice", a, *numbers)


def flip_axis(rules: GradientBuilder, a: str, axis: int) -> str:
    """Reverse an axis."""
    numbers = (rules.add_int_list(n) for n in (-1, -(2**31), axis, -1))
    return rules.add_node("Slice", a, *numbers)


def pad_axis(rules: GradientBuilder, a: str, axis: int, before: int, after: int) -> str:
    """Pad an axis with zeros before and after; negative amounts crop it."""
    if before == after == 0:
        return a
    pads = [0] * 2 * len(rules.shape(a))
    pads[axis], pads[axis + len(pads) // 2] = before, after
    return rules.add_node("Pad", a, rules.add_int_list(*pads))


def unslice_axis(rules: GradientBuilder, a: str, axis: int, places: range, length: int) -> str:
    """Spread an axis over `places` of an axis of `length`, zeros elsewhere: a slice's adjoint."""
    if places.step < 0:
        a, places = flip_axis(rules, a, axis), places[::-1]
    count, step = len(places), places.step if len(places) > 1 else 1
    if step > 1:
        shape = rules.shape(a)
        apart = rules.reshape(a, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
        apart = pad_axis(rules, apart, axis + 1, 0, step - 1)
        a = rules.reshape(apart, (*shape[:axis], count * step, *shape[axis + 1 :]))
    return pad_axis(rules, a, axis, places.start, length - places.start - count * step)


def slice_rule(places: Callable[[GradientBuilder, Node], Mapping[int, range]]) -> GradientRule:
    """Make the rule of a Slice that keeps these positions along each axis."""

    def rule(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
        found, shape = dy[0], rules.shape(node.inputs[0])
        for axis, kept in places(rules, node).items():
            found = unslice_axis(rules, found, axis, kept, shape[axis])
        return [found, *[""] * (len(node.inputs) - 1)]

    return rule


def tile(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Tile: the sum of all copies."""
    shape, whole = rules.shape(node.inputs[0]), rules.shape(dy[0])
    pairs = [part for n, m in zip(shape, whole, strict=True) for part in (m // n, n)]
    rows = rules.reshape(dy[0], pairs)
    axes = [2 * k for k in range(len(shape)) if pairs[2 * k] > 1]
    return [rules.reshape(rules.sum(rows, axes), shape), ""]


def space_to_depth(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """DepthToSpace: its inverse, SpaceToDepth."""
    return [rules.add_node_like("SpaceToDepth", dy, node.attributes)]


def depth_to_space(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """SpaceToDepth: its inverse, DepthToSpace."""
    return [rules.add_node_like("DepthToSpace", dy, node.attributes)]


def concat(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Concat: a slice for each input."""
    axis, start, found = axis_of(rules, node, 0), 0, []
    for name in node.inputs:
        end = start + rules.shape(name)[axis]
        found.append(
            slice_axis(rules, dy[0], axis, start, end) if rules.needs_gradient(name) else ""
        )
        start = end
    return found


def split_rule(sizes: Callable[[GradientBuilder, Node], Sequence[int]]) -> GradientRule:
    """Make the rule of a Split into these lengths: concatenate, zeros for unused outputs."""

    def rule(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
        shape, axis = rules.shape(node.inputs[0]), axis_of(rules, node, 0)
        lengths = sizes(rules, node)
        given = [*dy, *[""] * (len(lengths) - len(dy))]
        pieces = [
            one or rules.full((*shape[:axis], length, *shape[axis + 1 :]), 0)
            for one, length in zip(given, lengths, strict=True)
            if length
        ]
        return [rules.add_node("Concat", *pieces, axis=axis), *[""] * (len(node.inputs) - 1)]

    return rule


def gather(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Gather: sum the gradients of repeated selections, by a one-hot matrix product.

    The padding row of an embedding gets no gradient.
    """
    source, indices = node.inputs
    axis, shape = axis_of(rules, node, 0), rules.shape(source)
    rows, length = rules.numel(indices), shape[axis]
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    known = rules.constant(indices)
    whole = rules.reshape(dy[0], (outer, rows, inner))
    if known is not None and rows == 1:
        at = int(known.reshape(())) % length
        found = pad_axis(rules, whole, 1, at, length - at - 1)
    else:
        found = rules.add_node("MatMul", one_hot(rules, indices, length), whole)
    if PADDING_IDX in node.attributes:
        kept = np.arange(length) != int_attr(node, PADDING_IDX, 0)
        mask = rules.add_constant(kept.astype(np.float32)[:, None])
        found = rules.apply_glsl("return select(equal(b, vec4(0.0)), vec4(0.0), a);", found, mask)
    return [rules.reshape(found, shape), ""]


def one_hot(rules: GradientBuilder, indices: str, length: int) -> str:
    """A row for each position of an axis of `length`: 1 if an index selects it, else 0."""
    rows, known = rules.numel(indices), rules.constant(indices)
    if known is not None:
        chosen = known.reshape(1, -1) % length == np.arange(length)[:, None]
        return rules.add_constant(chosen.astype(np.float32))
    row = rules.reshape(indices, (1, rows))
    places = rules.add_constant(np.arange(length, dtype=np.int64)[:, None])
    behind = rules.add_constant(np.arange(-length, 0, dtype=np.int64)[:, None])
    same = (rules.add_node("Equal", row, one, dtype=BOOL) for one in (places, behind))
    return rules.add_node("Cast", rules.add_node("Or", *same, dtype=BOOL), to=ONNX_FLOAT)


def gather_elements(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """GatherElements: add the gradients at the positions that were read."""
    zeros = rules.full(rules.shape(node.inputs[0]), 0)
    axis = axis_of(rules, node, 0)
    return [
        rules.add_node(
            "ScatterElements", zeros, node.inputs[1], dy[0], axis=axis, reduction="add"
        ),
        "",
    ]  # fmt: skip


def gather_nd(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """GatherND: add the gradients at the positions read; batch positions become indices too."""
    source, indices = node.inputs
    batch, rows = int_attr(node, "batch_dims", 0), rules.shape(indices)[:-1]
    if batch:
        own = np.moveaxis(np.indices(rows)[:batch], 0, -1).astype(np.int64)
        known = rules.constant(indices)
        if known is not None:
            indices = rules.add_constant(np.concatenate((own, known.astype(np.int64)), -1))
        else:
            both = rules.add_constant(own), indices
            indices = rules.add_node("Concat", *both, dtype=INT64, axis=len(rows))
    zeros = rules.full(rules.shape(source), 0)
    return [rules.add_node("ScatterND", zeros, indices, dy[0], reduction="add"), ""]
