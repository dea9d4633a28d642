"""Softmax and its kin along an axis: the largest goes first, so that no power of e overflows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.glsl import Kernel, shader
from nbglcnn.graph import Node
from nbglcnn.ops.elementwise import Operand, combine, named
from nbglcnn.ops.operator import Facts, Gradient, Operator, anything, axis_of, integer, same_shape
from nbglcnn.ops.pointwise import POWERS, SELECT
from nbglcnn.ops.reach import mixing
from nbglcnn.ops.reduce import extreme_index, index_steps, lying_for, reduce_frame, reduced_shape
from nbglcnn.ops.rules import Rules
from nbglcnn.plan.schema import Bounds, Explains

HARDMAX = Kernel("hardmax", shader("hardmax.glsl"), slots="ivec4 steps")
SOFTMAX = "vec4 combine(vec4 v, vec4 top, vec4 total) { return power(v - top) / total; }"
LOG_SOFTMAX = "vec4 combine(vec4 v, vec4 top, vec4 total) { return v - top - logarithm(total); }"


def _problem(facts: Facts, node: Node) -> str | None:
    shape, axis = facts.shape(node.inputs[0]), integer(node, "axis", -1)
    return None if -len(shape) <= axis < len(shape) else f"axis={axis} of an input of shape {shape}"


def _normalized(function: str) -> Callable[[Builder, Node], None]:
    def lower(b: Builder, node: Node) -> None:
        (x,) = named(b, node.inputs[0])
        axis = [axis_of(b, node, -1)]
        tensor, axes = lying_for(b, x, axis)
        top = reduce_frame(b, tensor, axes, "max")
        total = reduce_frame(b, tensor, axes, "sum exp", given=top)
        shape = reduced_shape(x.shape, axis, True)
        operands = [
            Operand(x.shape, tensor=tensor),
            Operand(shape, tensor=top),
            Operand(shape, tensor=total),
        ]
        combine(b, operands, SELECT + POWERS + function, value=node.outputs[0])

    return lower


def _hardmax(b: Builder, node: Node) -> None:
    (x,) = named(b, node.inputs[0])
    axis = axis_of(b, node, -1)
    tensor, axes = lying_for(b, x, [axis])
    x = Operand(x.shape, tensor=tensor)
    chosen = extreme_index(b, x, axis)
    output = b.scratch(tensor.layout)
    steps = index_steps(tensor.layout.nchw, axes)
    b.draw(HARDMAX, output, [chosen], numbers={"steps": steps}, parts=[SELECT])
    b.bind(node.outputs[0], output)


def _axis(facts: Facts, node: Node) -> Sequence[int]:
    return (axis_of(facts, node, -1),)


def _softmax_gradient(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    y, axis = node.outputs[0], axis_of(rules, node, -1)
    mean = rules.sum(rules.multiply(y, dy[0]), [axis])
    return [rules.slope("return a * (b - c);", y, dy[0], mean)]


def _log_softmax_gradient(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    total = rules.sum(dy[0], [axis_of(rules, node, -1)])
    return [rules.slope("return b - exp(a) * c;", node.outputs[0], dy[0], total)]


def _operator(
    name: str,
    doc: str,
    lower: Callable[[Builder, Node], None],
    explains: Explains,
    bounds: Bounds | None,
    gradient: Gradient | str,
) -> Operator:
    return Operator(
        name, doc, same_shape, lower, {"axis": anything}, _problem, role="follows",
        reach=mixing(_axis), explains=explains, formula=None, bounds=bounds, short=None,
        shape_inputs=(), gradient=gradient,
    )  # fmt: skip


OPERATORS: Sequence[Operator] = [
    _operator("Softmax", "Makes positive shares that sum to 1 along an axis, by powers of e.",
              _normalized(SOFTMAX), "softmax", (0.0, 1.0), _softmax_gradient),
    _operator("LogSoftmax", "The logarithm of Softmax.", _normalized(LOG_SOFTMAX), "log softmax",
              None, _log_softmax_gradient),
    _operator("Hardmax", "1 at the first largest element along an axis, 0 elsewhere.", _hardmax,
              "nothing", None, "it jumps from 0 to 1, and is flat elsewhere"),
]  # fmt: skip
