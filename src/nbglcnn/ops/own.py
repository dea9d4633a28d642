"""Elementwise: an operator of nbglcnn's own, of which gradients and updates of weights are made."""

from __future__ import annotations

from collections.abc import Mapping

from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.slots import Part
from nbglcnn.graph import Node
from nbglcnn.ops.elementwise import broadcast_shape, combine, named
from nbglcnn.ops.operator import Facts, Operator, Shape, anything
from nbglcnn.ops.pointwise import SELECT
from nbglcnn.ops.reach import local

MOST = 4  # operands


def _shapes(facts: Facts, node: Node) -> list[Shape]:
    return [broadcast_shape(*(facts.shape(value) for value in node.inputs))]


def _problem(_facts: Facts, node: Node) -> str | None:
    if not 1 <= len(node.inputs) <= MOST:
        return f"{len(node.inputs)} operands; 1 to {MOST} are supported"
    return None


def _lower(b: Builder, node: Node) -> None:
    glsl, names, numbers = (node.attributes.get(key, ()) for key in ("glsl", "names", "numbers"))
    assert isinstance(names, tuple) and isinstance(numbers, tuple)
    operands = ", ".join(f"vec4 {name}" for name in "abcd"[: len(node.inputs)])
    body = f"{SELECT}\nvec4 combine({operands}) {{ {glsl} }}"
    slots = f"float {', '.join(map(str, names))}" if names else ""
    given: Mapping[str, float] = {
        str(name): float(str(number)) for name, number in zip(names, numbers, strict=True)
    }
    combine(b, named(b, *node.inputs), Part(body, slots), value=node.outputs[0], numbers=given)


OPERATORS = [
    Operator(
        "Elementwise", "A function of tensors, element by element, that a gradient needs.",
        _shapes, _lower, {"glsl": anything, "names": anything, "numbers": anything}, _problem,
        role="head", reach=local, explains="nothing", formula=None, bounds=None, short=None,
        shape_inputs=(), gradient="it is itself part of a gradient",
    )
]  # fmt: skip
