"""Gradients of broadcasting operators: sum over the axes that broadcasting repeated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nbglcnn.graph import Node
from nbglcnn.ops.gradient_builder import GradientBuilder
from nbglcnn.ops.operator import GradientRule, int_attr
from nbglcnn.ops.pointwise_gradient import BINARY_CROSS_ENTROPY, NORM_OPERATORS, torch_name

# Products with a logarithm, whose gradient is x / y even if x is 0.
LOG_PRODUCT_OPERATORS = ("xlogy", "special_xlogy", "kl_div")
NO_BOOLEAN_GRADIENT = "it returns booleans, which have no gradient"


def glsl_rule(*glsl: str) -> GradientRule:
    """Make a gradient rule for two inputs; each `glsl` returns one input's gradient from a, b, c.

    a and b are the inputs, c is the gradient of the output.
    """

    def rule(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
        return [
            rules.sum_to(rules.apply_glsl(one, *node.inputs, dy[0]), rules.shape(name))
            if rules.needs_gradient(name)
            else ""
            for name, one in zip(node.inputs, glsl, strict=True)
        ]

    return rule


def add(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Add and Sum: each input gets the output's gradient."""
    return [
        rules.sum_to(dy[0], rules.shape(name)) if rules.needs_gradient(name) else ""
        for name in node.inputs
    ]


def subtract(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Sub: the second input gets the negative gradient."""
    a, b = node.inputs
    return [
        rules.sum_to(dy[0], rules.shape(a)) if rules.needs_gradient(a) else "",
        rules.negate(rules.sum_to(dy[0], rules.shape(b))) if rules.needs_gradient(b) else "",
    ]


def multiply(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Mul: each input's gradient is multiplied by the other input."""
    a, b = node.inputs
    return [
        rules.sum_to(rules.multiply(dy[0], other), rules.shape(name))
        if rules.needs_gradient(name)
        else ""
        for name, other in ((a, b), (b, a))
    ]


def divide(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Div: for the divisor, divide the quotient again, so that no square overflows."""
    a, b = node.inputs
    da, db = "", ""
    if rules.needs_gradient(a):
        da = rules.sum_to(rules.divide(dy[0], b), rules.shape(a))
    if rules.needs_gradient(b):
        db = rules.apply_glsl("return -c * (a / b);", node.outputs[0], b, dy[0])
        db = rules.sum_to(db, rules.shape(b))
    return [da, db]


def modulo(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Mod: a - n · b with an integer n, recovered from the result whatever its sign."""
    a, b = node.inputs
    da, db = "", ""
    if rules.needs_gradient(a):
        da = rules.sum_to(dy[0], rules.shape(a))
    if rules.needs_gradient(b):
        glsl = "return -d * select(equal(b, vec4(0.0)), a / b, roundEven((a - c) / b));"
        db = rules.apply_glsl(glsl, a, b, node.outputs[0], dy[0])
        db = rules.sum_to(db, rules.shape(b))
    return [da, db]


def power(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Pow: b · a^(b − 1), or 0 if b = 0; and y · log a, or 0 if a = 0 and b isn't negative."""
    a, b = node.inputs
    da, db = "", ""
    if rules.needs_gradient(a):
        da = _base_gradient(rules, a, b, dy[0])
        if torch_name(node) in NORM_OPERATORS:
            glsl = "return select(equal(a, vec4(0.0)), vec4(0.0), b);"
            da = rules.apply_glsl(glsl, a, da)
        da = rules.sum_to(da, rules.shape(a))
    if rules.needs_gradient(b):
        glsl = (
            "vec4 of_zero = select(lessThan(b, vec4(0.0)), c * d, vec4(0.0));"
            " return select(equal(a, vec4(0.0)), of_zero, c * d);"
        )
        slope = rules.apply_glsl(glsl, a, b, node.outputs[0], rules.add_node("Log", a))
        db = rules.sum_to(rules.multiply(dy[0], slope), rules.shape(b))
    return [da, db]


def _base_gradient(rules: GradientBuilder, a: str, b: str, dy: str) -> str:
    known = rules.constant(b)
    if known is not None and known.size == 1:
        exponent = float(known.reshape(()))
        if exponent == 1:
            return dy
        if exponent == 2:
            return rules.apply_glsl("return 2.0 * a * b;", a, dy)
    less = (
        rules.add_constant((known.astype(np.float64) - 1).astype(np.float32))
        if known is not None
        else rules.apply_glsl("return a - 1.0;", b)
    )
    glsl = "return select(equal(b, vec4(0.0)), vec4(0.0), a * b * c);"
    return rules.apply_glsl(glsl, rules.add_node("Pow", a, less), b, dy)


def mean(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Mean: each input gets an equal share."""
    return add(rules, node, [rules.scale(dy[0], 1 / len(node.inputs))])


def max_min(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Max and Min: the gradient goes to the input with the result; ties share it equally.

    Exceptions: for PyTorch's clamp and clip with tensor bounds, ties give the whole gradient to the
    first input, the clamped tensor. For the clamp on the logarithm in a binary cross-entropy, the
    first input always gets the whole gradient.
    """
    if torch_name(node) == BINARY_CROSS_ENTROPY:
        return [dy[0] if rules.needs_gradient(node.inputs[0]) else "", ""]
    if torch_name(node).startswith(("clamp", "clip")):
        return _clamp(rules, node, dy[0])
    if not any(map(rules.needs_gradient, node.inputs)):
        return [""] * len(node.inputs)
    equal = "return select(equal(a, b), vec4(1.0), vec4(0.0));"
    ties = [rules.apply_glsl(equal, name, node.outputs[0]) for name in node.inputs]
    share = rules.divide(dy[0], rules.sum_tensors(ties))
    return [
        rules.sum_to(rules.multiply(tie, share), rules.shape(name))
        if rules.needs_gradient(name)
        else ""
        for name, tie in zip(node.inputs, ties, strict=True)
    ]


def _clamp(rules: GradientBuilder, node: Node, dy: str) -> Sequence[str]:
    x, bound = node.inputs
    parts = ("vec4(0.0), c", "c, vec4(0.0)")
    return [
        rules.sum_to(
            rules.apply_glsl(f"return select(notEqual(a, b), {part});", x, node.outputs[0], dy),
            rules.shape(name),
        )
        if rules.needs_gradient(name)
        else ""
        for name, part in zip((x, bound), parts, strict=True)
    ]


def where(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Where: the gradient goes to the selected input."""
    condition, *others = node.inputs
    found = [""]
    if torch_name(node) in LOG_PRODUCT_OPERATORS and rules.needs_gradient(others[1]):
        glsl = (
            "vec4 nan = vec4(uintBitsToFloat(0x7fc00000u));"
            " vec4 idle = select(equal(b, vec4(0.0)), nan, vec4(0.0));"
            " return select(notEqual(a, vec4(0.0)), idle, c);"
        )
        db = rules.apply_glsl(glsl, condition, others[1], dy[0])
        return ["", "", rules.sum_to(db, rules.shape(others[1]))]
    for name, chosen in zip(others, ("b, vec4(0.0)", "vec4(0.0), b"), strict=True):
        glsl = f"return select(notEqual(a, vec4(0.0)), {chosen});"
        part = ""
        if rules.needs_gradient(name):
            part = rules.sum_to(rules.apply_glsl(glsl, condition, dy[0]), rules.shape(name))
        found.append(part)
    return found


def trilu(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Trilu: the same triangle of the gradient."""
    dx = rules.add_node("Trilu", dy[0], *node.inputs[1:], upper=int_attr(node, "upper", 1))
    return [dx, *[""] * (len(node.inputs) - 1)]
