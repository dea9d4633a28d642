"""Softmax and related operators along an axis; the maximum is subtracted against overflow."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.glsl import FragmentShader, shader_source
from nbglcnn.graph import Node
from nbglcnn.ops.elementwise import Operand, draw_elementwise, operands_of
from nbglcnn.ops.gradient_builder import GradientBuilder
from nbglcnn.ops.operator import (
    GradientRule,
    KnownValues,
    Operator,
    any_value,
    axis_of,
    int_attr,
    same_shape,
)
from nbglcnn.ops.pointwise import EXP_LOG_GLSL, SELECT_GLSL
from nbglcnn.ops.receptive_field import mixed_axes_fields
from nbglcnn.ops.reduce import (
    draw_arg_extreme,
    draw_reduction,
    index_steps,
    reduced_shape,
    tensor_for_axes,
)
from nbglcnn.plan.schema import Bounds, ExplanationKind

HARDMAX_SHADER = FragmentShader(
    "hardmax", shader_source("hardmax.glsl"), uniform_slots="ivec4 steps"
)
SOFTMAX_GLSL = "vec4 combine(vec4 v, vec4 top, vec4 total) { return power(v - top) / total; }"
LOG_SOFTMAX_GLSL = (
    "vec4 combine(vec4 v, vec4 top, vec4 total) { return v - top - logarithm(total); }"
)


def _problem(facts: KnownValues, node: Node) -> str | None:
    shape, axis = facts.shape(node.inputs[0]), int_attr(node, "axis", -1)
    return None if -len(shape) <= axis < len(shape) else f"axis={axis} of an input of shape {shape}"


def _lower_softmax(function: str) -> Callable[[Builder, Node], None]:
    def lower(b: Builder, node: Node) -> None:
        (x,) = operands_of(b, node.inputs[0])
        axis = [axis_of(b, node, -1)]
        tensor, axes = tensor_for_axes(b, x, axis)
        top = draw_reduction(b, tensor, axes, "max")
        total = draw_reduction(b, tensor, axes, "sum exp", reference=top)
        shape = reduced_shape(x.shape, axis, True)
        operands = [
            Operand(x.shape, tensor=tensor),
            Operand(shape, tensor=top),
            Operand(shape, tensor=total),
        ]
        draw_elementwise(b, operands, SELECT_GLSL + EXP_LOG_GLSL + function, value=node.outputs[0])

    return lower


def _lower_hardmax(b: Builder, node: Node) -> None:
    (x,) = operands_of(b, node.inputs[0])
    axis = axis_of(b, node, -1)
    tensor, axes = tensor_for_axes(b, x, [axis])
    x = Operand(x.shape, tensor=tensor)
    chosen = draw_arg_extreme(b, x, axis)
    output = b.create_scratch_tensor(tensor.layout)
    steps = index_steps(tensor.layout.nchw, axes)
    b.draw(HARDMAX_SHADER, output, [chosen], uniforms={"steps": steps}, functions=[SELECT_GLSL])
    b.bind(node.outputs[0], output)


def _axis(facts: KnownValues, node: Node) -> Sequence[int]:
    return (axis_of(facts, node, -1),)


def _softmax_gradient(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    y, axis = node.outputs[0], axis_of(builder, node, -1)
    mean = builder.sum(builder.multiply(y, dy[0]), [axis])
    return [builder.apply_glsl("return a * (b - c);", y, dy[0], mean)]


def _log_softmax_gradient(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    total = builder.sum(dy[0], [axis_of(builder, node, -1)])
    return [builder.apply_glsl("return b - exp(a) * c;", node.outputs[0], dy[0], total)]


def _softmax_operator(
    name: str,
    doc: str,
    lower: Callable[[Builder, Node], None],
    explanation: ExplanationKind,
    bounds: Bounds | None,
    gradient: GradientRule | str,
) -> Operator:
    return Operator(
        name, doc, same_shape, lower, {"axis": any_value}, _problem, role="follows",
        receptive_field=mixed_axes_fields(_axis), explanation=explanation, formula=None,
        bounds=bounds,
        caption=None, shape_inputs=(), gradient=gradient,
    )  # fmt: skip


OPERATORS: Sequence[Operator] = [
    _softmax_operator("Softmax",
                      "Exponentials along an axis, divided by their sum: positive values that "
                      "sum to 1.",
                      _lower_softmax(SOFTMAX_GLSL), "softmax", (0.0, 1.0), _softmax_gradient),
    _softmax_operator("LogSoftmax", "The logarithm of Softmax.", _lower_softmax(LOG_SOFTMAX_GLSL),
                      "log softmax", None, _log_softmax_gradient),
    _softmax_operator("Hardmax", "1 at the first largest element along an axis, 0 elsewhere.",
                      _lower_hardmax,
                      "nothing", None, "it is piecewise constant: its gradient is 0"),
]  # fmt: skip
