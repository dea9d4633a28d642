"""Elementwise: nbglcnn's own operator, the building block of gradients and weight updates."""

from __future__ import annotations

from collections.abc import Mapping

from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.uniform_slots import GlslFunction
from nbglcnn.graph import Node
from nbglcnn.ops.elementwise import broadcast_shape, draw_elementwise, operands_of
from nbglcnn.ops.operator import KnownValues, Operator, Shape, any_value
from nbglcnn.ops.pointwise import SELECT_GLSL
from nbglcnn.ops.receptive_field import elementwise_fields

MAX_OPERANDS = 4  # operands


def _shapes(facts: KnownValues, node: Node) -> list[Shape]:
    return [broadcast_shape(*(facts.shape(value) for value in node.inputs))]


def _problem(_facts: KnownValues, node: Node) -> str | None:
    if not 1 <= len(node.inputs) <= MAX_OPERANDS:
        return f"{len(node.inputs)} operands; 1 to {MAX_OPERANDS} are supported"
    return None


def _lower(b: Builder, node: Node) -> None:
    glsl, names, numbers = (node.attributes.get(key, ()) for key in ("glsl", "names", "numbers"))
    assert isinstance(names, tuple) and isinstance(numbers, tuple)
    operands = ", ".join(f"vec4 {name}" for name in "abcd"[: len(node.inputs)])
    body = f"{SELECT_GLSL}\nvec4 combine({operands}) {{ {glsl} }}"
    slots = f"float {', '.join(map(str, names))}" if names else ""
    given: Mapping[str, float] = {
        str(name): float(str(number)) for name, number in zip(names, numbers, strict=True)
    }
    draw_elementwise(
        b,
        operands_of(b, *node.inputs),
        GlslFunction(body, slots),
        value=node.outputs[0],
        uniforms=given,
    )


OPERATORS = [
    Operator(
        "Elementwise", "An element-wise function that a gradient needs.",
        _shapes, _lower, {"glsl": any_value, "names": any_value, "numbers": any_value}, _problem,
        role="head", receptive_field=elementwise_fields, explanation="nothing", formula=None,
        bounds=None, caption=None, shape_inputs=(), gradient="it is itself part of a gradient",
    )
]  # fmt: skip
