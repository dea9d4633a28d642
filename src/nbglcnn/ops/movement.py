"""Operators that move elements without computing: renamings first, which cost no pass at all."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nbglcnn.builder import Builder
from nbglcnn.graph import Node
from nbglcnn.ops.operator import (
    Facts,
    Operator,
    Shape,
    anything,
    constant_integers,
    integer,
    normal_axes,
    same_shape,
)


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


OPERATORS = [
    Operator("Identity", "Passes its input on.", same_shape, alias),
    Operator("Reshape", "Other shape, same elements in the same order.", _reshape, alias,
             {"allowzero": anything}, _reshape_problem),
    Operator("Flatten", "Joins axes into a matrix, same elements in the same order.", _flatten, alias,
             {"axis": anything}),
    Operator("Squeeze", "Drops axes of length 1.", _squeeze, alias, check=_needs_constant(1, "axes")),
    Operator("Unsqueeze", "Adds axes of length 1.", _unsqueeze, alias, check=_needs_constant(1, "axes")),
]  # fmt: skip
