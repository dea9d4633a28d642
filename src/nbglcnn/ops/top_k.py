"""TopK: the largest elements along an axis, by the number of elements that precede each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import FragmentShader, shader_source
from nbglcnn.codegen.strided import (
    MAX_LOOKUPS,
    STRIDED_GATHER_SHADER,
    StridedView,
    contiguous_view,
    per_element_shader,
    strided_uniforms,
)
from nbglcnn.graph import Node
from nbglcnn.ops.gradient_builder import GradientBuilder
from nbglcnn.ops.movement import combine_checks, constant_input_check
from nbglcnn.ops.operator import (
    KnownValues,
    Operator,
    Shape,
    any_value,
    axis_of,
    constant_ints,
    int_attr,
    one_of,
)
from nbglcnn.ops.receptive_field import mixed_axes_fields
from nbglcnn.plan.layout import NCHW, storage_nchw

RANK_SHADER = per_element_shader("rank", "int length, inner, smallest, begin, end")
SELECT_BY_RANK_SHADER = per_element_shader("select_by_rank", "int length, inner, kept, begin, end")
NAN_GLSL = shader_source("nan.glsl")
MAX_COMPARISONS = 2**32  # comparisons: seconds on a small graphics card


def _shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    shape, axis, k = (
        facts.shape(node.inputs[0]),
        axis_of(facts, node, -1),
        constant_ints(facts, node, 1),
    )
    assert k is not None
    return [(*shape[:axis], k[0], *shape[axis + 1 :])] * 2


def _axis(facts: KnownValues, node: Node) -> Sequence[int]:
    return (axis_of(facts, node, -1),)


def _problem(facts: KnownValues, node: Node) -> str | None:
    shape, k = facts.shape(node.inputs[0]), constant_ints(facts, node, 1)
    if not shape or k is None or len(k) != 1 or not 0 <= k[0] <= shape[axis_of(facts, node, -1)]:
        return f"the first {k} along axis {int_attr(node, 'axis', -1)} of {shape}"
    reads = math.prod(shape) * shape[axis_of(facts, node, -1)]
    if reads > MAX_COMPARISONS:
        return f"{reads:,} comparisons would be made; at most {MAX_COMPARISONS:,} are supported"
    return None


def _lower_top_k(b: Builder, node: Node) -> None:
    shape, axis, (chosen, _) = b.shape(node.inputs[0]), axis_of(b, node, -1), _shape(b, node)
    x, length, inner = b.stored_tensor(node.inputs[0]), shape[axis], math.prod(shape[axis + 1 :])
    smallest = 1 - int_attr(node, "largest", 1)
    numbers = {"length": length, "inner": inner}
    ranks = _draw_chunks(
        b, RANK_SHADER, x, x.layout.nchw, {**numbers, "smallest": smallest}, functions=[NAN_GLSL]
    )
    places = _draw_chunks(
        b, SELECT_BY_RANK_SHADER, ranks, storage_nchw(chosen), {**numbers, "kept": chosen[axis]}
    )
    values, indices = (*node.outputs, "")[:2]
    if indices:
        b.bind(indices, places)
    if values:
        strides = contiguous_view(shape).strides
        still = tuple(0 if k == axis else stride for k, stride in enumerate(strides))
        view = StridedView(chosen, still).simplified()
        b.draw(
            STRIDED_GATHER_SHADER, b.create_output(values), [x, places],
            uniforms=strided_uniforms(view, inner, length),
            constants={"INDEXED": 1}, fetches=32,
        )  # fmt: skip


def _draw_chunks(
    b: Builder,
    kernel: FragmentShader,
    x: Tensor,
    nchw: NCHW,
    numbers: Mapping[str, int],
    functions: Sequence[str] = (),
) -> Tensor:
    """Run a shader over all positions along an axis, at most MAX_LOOKUPS per pass."""
    length, done = numbers["length"], None
    for begin in range(0, max(length, 1), MAX_LOOKUPS):
        end = min(begin + MAX_LOOKUPS, length)
        made = b.create_scratch_tensor(b.layout(nchw))
        b.draw(
            kernel,
            made,
            [x] if done is None else [x, done],
            uniforms={**numbers, "begin": begin, "end": end},
            constants={"GOES_ON": int(done is not None)},
            functions=functions,
            fetches=16 * (end - begin),
        )
        done = made
    assert done is not None
    return done


def _top_k_gradient(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Scatter each value's gradient to the value's original index."""
    given, places = dy[0], node.outputs[1]
    if not builder.numel(given):
        return ["", ""]
    zeros = builder.full(builder.shape(node.inputs[0]), 0)
    axis = axis_of(builder, node, -1)
    return [builder.add_node("ScatterElements", zeros, places, given, axis=axis), ""]


OPERATORS = [
    Operator("TopK", "The largest or smallest elements along an axis, sorted, and their indices.",
             _shape, _lower_top_k,
             {"axis": any_value, "largest": one_of(0, 1), "sorted": any_value},
             combine_checks(constant_input_check(1, "k"), _problem), role="head",
             receptive_field=mixed_axes_fields(_axis),
             explanation="nothing", formula=None, bounds=None, caption=None, shape_inputs=(1,),
             gradient=_top_k_gradient),
]  # fmt: skip
