"""Operators that move elements without computing: renamings first, which cost no pass at all."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nbglcnn.builder import Builder
from nbglcnn.graph import Node
from nbglcnn.layout import frame_of
from nbglcnn.ops.operator import (
    Facts,
    Operator,
    Shape,
    anything,
    constant_integers,
    integer,
    integers,
    normal_axes,
    same_shape,
)
from nbglcnn.ops.strided import MOST_AXES, View, gather, whole


def alias(b: Builder, node: Node) -> None:
    """The output is the input's elements in the same order: no pass, only another shape."""
    b.bind(node.outputs[0], b.stored(node.inputs[0]))


def _needs_constant(position: int, name: str):  # type: ignore[no-untyped-def]
    def check(facts: Facts, node: Node) -> str | None:
        if position < len(node.inputs) and node.inputs[position]:
            if facts.constant(node.inputs[position]) is None:
                return f"its {name} is computed while the network runs; it must be constant"
        return None

    return check


def _reshape(facts: Facts, node: Node) -> Sequence[Shape]:
    shape, wanted = facts.shape(node.inputs[0]), constant_integers(facts, node, 1)
    assert wanted is not None
    if not integer(node, "allowzero", 0):
        wanted = tuple(shape[k] if d == 0 else d for k, d in enumerate(wanted))
    if -1 in wanted:
        rest = math.prod(d for d in wanted if d != -1)
        wanted = tuple(math.prod(shape) // max(rest, 1) if d == -1 else d for d in wanted)
    return [wanted]


def _reshape_problem(facts: Facts, node: Node) -> str | None:
    if problem := _needs_constant(1, "shape")(facts, node):
        return problem
    wanted, shape = _reshape(facts, node)[0], facts.shape(node.inputs[0])
    if math.prod(wanted) != math.prod(shape):
        return f"{shape} cannot be reshaped to {wanted}"
    return None


def _flatten(facts: Facts, node: Node) -> Sequence[Shape]:
    shape = facts.shape(node.inputs[0])
    (axis,) = normal_axes((integer(node, "axis", 1),), len(shape))
    return [(math.prod(shape[:axis]), math.prod(shape[axis:]))]


def _squeeze(facts: Facts, node: Node) -> Sequence[Shape]:
    shape, axes = facts.shape(node.inputs[0]), constant_integers(facts, node, 1)
    if axes is None:
        return [tuple(d for d in shape if d != 1)]
    dropped = normal_axes(axes, len(shape))
    return [tuple(d for k, d in enumerate(shape) if k not in dropped)]


def _unsqueeze(facts: Facts, node: Node) -> Sequence[Shape]:
    shape, axes = list(facts.shape(node.inputs[0])), constant_integers(facts, node, 1)
    assert axes is not None
    for axis in sorted(normal_axes(axes, len(shape) + len(axes))):
        shape.insert(axis, 1)
    return [tuple(shape)]


def _permutation(facts: Facts, node: Node) -> Shape:
    rank = len(facts.shape(node.inputs[0]))
    return normal_axes(integers(node, "perm", range(rank)[::-1]), rank)


def _transpose(facts: Facts, node: Node) -> Sequence[Shape]:
    shape = facts.shape(node.inputs[0])
    return [tuple(shape[k] for k in _permutation(facts, node))]


def _transpose_problem(facts: Facts, node: Node) -> str | None:
    rank, permutation = len(facts.shape(node.inputs[0])), _permutation(facts, node)
    if sorted(permutation) != list(range(rank)):
        return f"perm={permutation} is no order of {rank} axes"
    return too_many_axes(whole(facts.shape(node.inputs[0])).transposed(permutation))


def too_many_axes(view: View) -> str | None:
    """Why a view cannot be gathered, or None."""
    count = len(view.simple().sizes)
    if count > MOST_AXES:
        return f"it moves {count} axes separately; at most {MOST_AXES} are supported"
    return None


def place(b: Builder, node: Node, view: View) -> None:
    """The first output is `view` of the first input: no pass where the order of elements stays."""
    source, value = b.stored(node.inputs[0]), node.outputs[0]
    simple = view.simple()
    if simple == View((math.prod(source.layout.frame),), (1,)) or simple.sizes == (1,) == source.layout.frame:
        b.bind(value, source)
        return
    frame = frame_of(b.shape(value))
    b.bind(value, gather(b, source, frame, simple.sizes, simple.strides, simple.offset))


def _draw_transpose(b: Builder, node: Node) -> None:
    place(b, node, whole(b.shape(node.inputs[0])).transposed(_permutation(b, node)))


OPERATORS = [
    Operator("Transpose", "Axes in another order.", _transpose, _draw_transpose, {"perm": anything},
             _transpose_problem),
    Operator("Identity", "Passes its input on.", same_shape, alias),
    Operator("Reshape", "Other shape, same elements in the same order.", _reshape, alias,
             {"allowzero": anything}, _reshape_problem),
    Operator("Flatten", "Joins axes into a matrix, same elements in the same order.", _flatten, alias,
             {"axis": anything}),
    Operator("Squeeze", "Drops axes of length 1.", _squeeze, alias, check=_needs_constant(1, "axes")),
    Operator("Unsqueeze", "Adds axes of length 1.", _unsqueeze, alias, check=_needs_constant(1, "axes")),
]  # fmt: skip
