"""Sorting: the largest elements along an axis, by counting how many come before each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import Kernel, shader
from nbglcnn.graph import Node
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
from nbglcnn.ops.rules import Rules
from nbglcnn.ops.strided import PLACES, STRIDED, View, by_element, strided_numbers, whole
from nbglcnn.plan.layout import NCHW, nchw_of

RANK = by_element("rank", "int length, inner, smallest, begin, end")
RANKED = by_element("ranked", "int length, inner, kept, begin, end")
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
    smallest = 1 - integer(node, "largest", 1)
    numbers = {"length": length, "inner": inner}
    ranks = _in_parts(b, RANK, x, x.layout.nchw, {**numbers, "smallest": smallest}, parts=[NAN])
    places = _in_parts(b, RANKED, ranks, nchw_of(chosen), {**numbers, "kept": chosen[axis]})
    values, indices = (*node.outputs, "")[:2]
    if indices:
        b.bind(indices, places)
    if values:
        strides = whole(shape).strides
        still = tuple(0 if k == axis else stride for k, stride in enumerate(strides))
        view = View(chosen, still).simple()
        b.draw(
            STRIDED, b.output(values), [x, places], numbers=strided_numbers(view, inner, length),
            constants={"INDEXED": 1}, fetches=32,
        )  # fmt: skip


def _in_parts(
    b: Builder,
    kernel: Kernel,
    x: Tensor,
    nchw: NCHW,
    numbers: Mapping[str, int],
    parts: Sequence[str] = (),
) -> Tensor:
    """A kernel that looks at all places along an axis, so many in each pass."""
    length, done = numbers["length"], None
    for begin in range(0, max(length, 1), PLACES):
        end = min(begin + PLACES, length)
        made = b.scratch(b.layout(nchw))
        b.draw(
            kernel,
            made,
            [x] if done is None else [x, done],
            numbers={**numbers, "begin": begin, "end": end},
            constants={"GOES_ON": int(done is not None)},
            parts=parts,
            fetches=16 * (end - begin),
        )
        done = made
    assert done is not None
    return done


def _put_back(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Each value's gradient goes where the value was."""
    given, places = dy[0], node.outputs[1]
    if not rules.count(given):
        return ["", ""]
    zeros = rules.filled(rules.shape(node.inputs[0]), 0)
    axis = axis_of(rules, node, -1)
    return [rules.node("ScatterElements", zeros, places, given, axis=axis), ""]


OPERATORS = [
    Operator("TopK", "The largest or smallest elements along an axis, in order, and their places.",
             _shape, _top_k, {"axis": anything, "largest": only(0, 1), "sorted": anything},
             first_problem(needs_constant(1, "k"), _problem), role="head", reach=mixing(_axis),
             explains="nothing", formula=None, bounds=None, short=None, shape_inputs=(1,),
             gradient=_put_back),
]  # fmt: skip
