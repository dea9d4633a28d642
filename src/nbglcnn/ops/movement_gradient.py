"""Gradients of operators that move elements: they are moved back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nbglcnn.graph import PADDING_IDX, Array, Node
from nbglcnn.ops.operator import Gradient, axis_of, integer, integers
from nbglcnn.ops.rules import BOOL, INT64, Rules

FLOAT = 1  # ONNX's number of that element type


def reshaped_back(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Reshape and its kin: the same elements in the input's shape."""
    back = rules.reshape(dy[0], rules.shape(node.inputs[0]))
    return [back, *[""] * (len(node.inputs) - 1)]


def transpose(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Transpose: the inverse permutation."""
    rank = len(rules.shape(node.inputs[0]))
    order = integers(node, "perm", range(rank)[::-1])
    return [rules.transpose(dy[0], tuple(order.index(axis) for axis in range(rank)))]


def expand(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Expand: what was repeated is summed."""
    return [rules.sum_to(dy[0], rules.shape(node.inputs[0])), ""]


def by_matrix(rules: Rules, a: str, axis: int, matrix: Array) -> str:
    """Each line along an axis times a constant matrix (new length, length)."""
    shape = rules.shape(a)
    before, length, behind = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    if behind == 1:
        rows = rules.reshape(a, (before, length))
        found = rules.node("MatMul", rows, rules.array(np.ascontiguousarray(matrix.T)))
    else:
        rows = rules.reshape(a, (before, length, behind))
        found = rules.node("MatMul", rules.array(matrix), rows)
    return rules.reshape(found, (*shape[:axis], len(matrix), *shape[axis + 1 :]))


def cut(rules: Rules, a: str, axis: int, start: int, end: int) -> str:
    """The places from `start` to `end` of an axis; the tensor itself where these are all."""
    if (start, end) == (0, rules.shape(a)[axis]):
        return a
    numbers = (rules.integers(n) for n in (start, end, axis))
    return rules.node("Slice", a, *numbers)


def turned(rules: Rules, a: str, axis: int) -> str:
    """An axis backwards."""
    numbers = (rules.integers(n) for n in (-1, -(2**31), axis, -1))
    return rules.node("Slice", a, *numbers)


def widened(rules: Rules, a: str, axis: int, before: int, after: int) -> str:
    """Zeros before and behind the places of an axis, or that many left out where negative."""
    if before == after == 0:
        return a
    pads = [0] * 2 * len(rules.shape(a))
    pads[axis], pads[axis + len(pads) // 2] = before, after
    return rules.node("Pad", a, rules.integers(*pads))


def placed(rules: Rules, a: str, axis: int, places: range, length: int) -> str:
    """An axis spread over places of one of this length, zeros between: the adjoint of a slice."""
    if places.step < 0:
        a, places = turned(rules, a, axis), places[::-1]
    count, step = len(places), places.step if len(places) > 1 else 1
    if step > 1:
        shape = rules.shape(a)
        apart = rules.reshape(a, (*shape[: axis + 1], 1, *shape[axis + 1 :]))
        apart = widened(rules, apart, axis + 1, 0, step - 1)
        a = rules.reshape(apart, (*shape[:axis], count * step, *shape[axis + 1 :]))
    return widened(rules, a, axis, places.start, length - places.start - count * step)


def slices(places: Callable[[Rules, Node], Mapping[int, range]]) -> Gradient:
    """A rule of a Slice that keeps these places along each axis."""

    def rule(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
        found, shape = dy[0], rules.shape(node.inputs[0])
        for axis, kept in places(rules, node).items():
            found = placed(rules, found, axis, kept, shape[axis])
        return [found, *[""] * (len(node.inputs) - 1)]

    return rule


def tile(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Tile: the sum of all copies."""
    shape, whole = rules.shape(node.inputs[0]), rules.shape(dy[0])
    pairs = [part for n, m in zip(shape, whole, strict=True) for part in (m // n, n)]
    rows = rules.reshape(dy[0], pairs)
    axes = [2 * k for k in range(len(shape)) if pairs[2 * k] > 1]
    return [rules.reshape(rules.sum(rows, axes), shape), ""]


def space_to_depth(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """DepthToSpace: its inverse."""
    return [rules.like("SpaceToDepth", dy, node.attributes)]


def depth_to_space(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """SpaceToDepth: its inverse."""
    return [rules.like("DepthToSpace", dy, node.attributes)]


def concat(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Concat: a slice for each input."""
    axis, start, found = axis_of(rules, node, 0), 0, []
    for name in node.inputs:
        end = start + rules.shape(name)[axis]
        found.append(cut(rules, dy[0], axis, start, end) if rules.wants(name) else "")
        start = end
    return found


def split(sizes: Callable[[Rules, Node], Sequence[int]]) -> Gradient:
    """A rule of a Split into pieces of these lengths: joined again, zeros for one nobody uses."""

    def rule(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
        shape, axis = rules.shape(node.inputs[0]), axis_of(rules, node, 0)
        lengths = sizes(rules, node)
        given = [*dy, *[""] * (len(lengths) - len(dy))]
        pieces = [
            one or rules.filled((*shape[:axis], length, *shape[axis + 1 :]), 0)
            for one, length in zip(given, lengths, strict=True)
            if length
        ]
        return [rules.node("Concat", *pieces, axis=axis), *[""] * (len(node.inputs) - 1)]

    return rule


def gather(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Gather: what was chosen several times has the sum, by a matrix of ones where it was.

    An embedding's padding row has none.
    """
    source, indices = node.inputs
    axis, shape = axis_of(rules, node, 0), rules.shape(source)
    rows, length = rules.count(indices), shape[axis]
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    known = rules.constant(indices)
    whole = rules.reshape(dy[0], (outer, rows, inner))
    if known is not None and rows == 1:
        at = int(known.reshape(())) % length
        found = widened(rules, whole, 1, at, length - at - 1)
    else:
        found = rules.node("MatMul", matches(rules, indices, length), whole)
    if PADDING_IDX in node.attributes:
        kept = np.arange(length) != integer(node, PADDING_IDX, 0)
        mask = rules.array(kept.astype(np.float32)[:, None])
        found = rules.slope("return select(equal(b, vec4(0.0)), vec4(0.0), a);", found, mask)
    return [rules.reshape(found, shape), ""]


def matches(rules: Rules, indices: str, length: int) -> str:
    """For each place of an axis of this length a row: 1 where an index names it, else 0."""
    rows, known = rules.count(indices), rules.constant(indices)
    if known is not None:
        chosen = known.reshape(1, -1) % length == np.arange(length)[:, None]
        return rules.array(chosen.astype(np.float32))
    row = rules.reshape(indices, (1, rows))
    places = rules.array(np.arange(length, dtype=np.int64)[:, None])
    behind = rules.array(np.arange(-length, 0, dtype=np.int64)[:, None])
    same = (rules.node("Equal", row, one, dtype=BOOL) for one in (places, behind))
    return rules.node("Cast", rules.node("Or", *same, dtype=BOOL), to=FLOAT)


def gather_elements(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """GatherElements: added where they came from."""
    zeros = rules.filled(rules.shape(node.inputs[0]), 0)
    axis = axis_of(rules, node, 0)
    return [
        rules.node(
            "ScatterElements", zeros, node.inputs[1], dy[0], axis=axis, reduction="add"
        ),
        "",
    ]  # fmt: skip


def gather_nd(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """GatherND: added where they came from; the places of a batch are indices too."""
    source, indices = node.inputs
    batch, rows = integer(node, "batch_dims", 0), rules.shape(indices)[:-1]
    if batch:
        own = np.moveaxis(np.indices(rows)[:batch], 0, -1).astype(np.int64)
        known = rules.constant(indices)
        if known is not None:
            indices = rules.array(np.concatenate((own, known.astype(np.int64)), -1))
        else:
            both = rules.array(own), indices
            indices = rules.node("Concat", *both, dtype=INT64, axis=len(rows))
    zeros = rules.filled(rules.shape(source), 0)
    return [rules.node("ScatterND", zeros, indices, dy[0], reduction="add"), ""]
