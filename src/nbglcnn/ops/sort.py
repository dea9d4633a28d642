"""Sorting: the largest elements along an axis, by counting how many come before each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nbglcnn.builder import Builder, best_block
from nbglcnn.glsl import shader
from nbglcnn.graph import Node
from nbglcnn.layout import Layout, frame_of
from nbglcnn.ops.movement import first_problem, needs_constant
from nbglcnn.ops.operator import (
    Facts,
    Operator,
    Shape,
    anything,
    axis_of,
    constant_integers,
    integer,
    only,
)
from nbglcnn.ops.reach import mixing
from nbglcnn.ops.strided import STRIDED, View, axis_words, by_element, whole

RANK, RANKED = by_element("rank"), by_element("ranked")
NAN = shader("nan.glsl")
MOST_READS = 2**32  # comparisons: seconds on a small graphics card


def _shape(facts: Facts, node: Node) -> Sequence[Shape]:
    shape, axis, k = (
        facts.shape(node.inputs[0]),
        axis_of(facts, node, -1),
        constant_integers(facts, node, 1),
    )
    assert k is not None
    return [(*shape[:axis], k[0], *shape[axis + 1 :])] * 2


def _axis(facts: Facts, node: Node) -> Sequence[int]:
    return (axis_of(facts, node, -1),)


def _problem(facts: Facts, node: Node) -> str | None:
    shape, k = facts.shape(node.inputs[0]), constant_integers(facts, node, 1)
    if not shape or k is None or len(k) != 1 or not 0 <= k[0] <= shape[axis_of(facts, node, -1)]:
        return f"the first {k} along axis {integer(node, 'axis', -1)} of {shape}"
    reads = math.prod(shape) * shape[axis_of(facts, node, -1)]
    if reads > MOST_READS:
        return f"{reads:,} comparisons would be made; at most {MOST_READS:,}"
    return None


def _top_k(b: Builder, node: Node) -> None:
    shape, axis, (chosen, _) = b.shape(node.inputs[0]), axis_of(b, node, -1), _shape(b, node)
    x, length, inner = b.stored(node.inputs[0]), shape[axis], math.prod(shape[axis + 1 :])
    ranks = b.scratch(Layout(x.layout.frame, best_block(x.layout.frame)))
    smallest = 1 - integer(node, "largest", 1)
    b.draw(RANK, ranks, [x], integers=[length, inner, smallest], parts=[NAN], fetches=16 * length)
    places = b.scratch(Layout(frame_of(chosen), best_block(frame_of(chosen))))
    b.draw(RANKED, places, [ranks], integers=[length, inner, chosen[axis]], fetches=16 * length)
    values, indices = (*node.outputs, "")[:2]
    if indices:
        b.bind(indices, places)
    if values:
        strides = whole(shape).strides
        still = tuple(0 if k == axis else stride for k, stride in enumerate(strides))
        view = View(chosen, still).simple()
        numbers = [0, len(view.sizes), inner, length, *axis_words(view)]
        output = b.output(values)
        b.draw(STRIDED, output, [x, places], integers=numbers, constants={"INDEXED": 1}, fetches=32)


OPERATORS = [
    Operator("TopK", "The largest or smallest elements along an axis, in order, and their places.",
             _shape, _top_k, {"axis": anything, "largest": only(0, 1), "sorted": anything},
             first_problem(needs_constant(1, "k"), _problem), reach=mixing(_axis)),
]  # fmt: skip
