"""Gradients of broadcasting operators: sum over the axes that broadcasting repeated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nbglcnn.graph import Node
from nbglcnn.ops.gradient_builder import GradientBuilder
from nbglcnn.ops.operator import GradientRule, int_attr
from nbglcnn.ops.pointwise_gradient import BINARY_CROSS_ENTROPY, TORCH_NORM_OPERATORS, torch_name

# Products with a logarithm, whose gradient is x / y even if x is 0.
LOG_PRODUCT_OPERATORS = ("xlogy", "special_xlogy", "kl_div")
NO_BOOLEAN_GRADIENT_REASON = "it returns booleans, which have no gradient"


def glsl_rule(*glsl: str) -> GradientRule:
    """Make a gradient rule for two inputs; each `glsl` returns one input's gradient from a, b, c.

    a and b are the inputs, c is the gradient of the output.
    """

    def rule(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
        return [
            builder.sum_to(builder.apply_glsl(one, *node.inputs, dy[0]), builder.shape(name))
            if builder.needs_gradient(name)
            else ""
            for name, one in zip(node.inputs, glsl, strict=True)
        ]

    return rule


def add(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Add and Sum: each input gets the output's gradient."""
    return [
        builder.sum_to(dy[0], builder.shape(name)) if builder.needs_gradient(name) else ""
        for name in node.inputs
    ]


def subtract(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Sub: the second input gets the negative gradient."""
    a, b = node.inputs
    return [
        builder.sum_to(dy[0], builder.shape(a)) if builder.needs_gradient(a) else "",
        builder.negate(builder.sum_to(dy[0], builder.shape(b)))
        if builder.needs_gradient(b)
        else "",
    ]


def multiply(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Mul: each input's gradient is multiplied by the other input."""
    a, b = node.inputs
    return [
        builder.sum_to(builder.multiply(dy[0], other), builder.shape(name))
        if builder.needs_gradient(name)
        else ""
        for name, other in ((a, b), (b, a))
    ]


def divide(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Div: for the divisor, divide the quotient again, so that no square overflows."""
    a, b = node.inputs
    da, db = "", ""
    if builder.needs_gradient(a):
        da = builder.sum_to(builder.divide(dy[0], b), builder.shape(a))
    if builder.needs_gradient(b):
        db = builder.apply_glsl("return -c * (a / b);", node.outputs[0], b, dy[0])
        db = builder.sum_to(db, builder.shape(b))
    return [da, db]


def modulo(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Mod: a - n · b with an integer n, recovered from the result whatever its sign."""
    a, b = node.inputs
    da, db = "", ""
    if builder.needs_gradient(a):
        da = builder.sum_to(dy[0], builder.shape(a))
    if builder.needs_gradient(b):
        glsl = "return -d * select(equal(b, vec4(0.0)), a / b, roundEven((a - c) / b));"
        db = builder.apply_glsl(glsl, a, b, node.outputs[0], dy[0])
        db = builder.sum_to(db, builder.shape(b))
    return [da, db]


def power(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Pow: b · a^(b − 1), or 0 if b = 0; and y · log a, or 0 if a = 0 and b isn't negative."""
    a, b = node.inputs
    da, db = "", ""
    if builder.needs_gradient(a):
        da = _base_gradient(builder, a, b, dy[0])
        if torch_name(node) in TORCH_NORM_OPERATORS:
            glsl = "return select(equal(a, vec4(0.0)), vec4(0.0), b);"
            da = builder.apply_glsl(glsl, a, da)
        da = builder.sum_to(da, builder.shape(a))
    if builder.needs_gradient(b):
        glsl = (
            "vec4 of_zero = select(lessThan(b, vec4(0.0)), c * d, vec4(0.0));"
            " return select(equal(a, vec4(0.0)), of_zero, c * d);"
        )
        slope = builder.apply_glsl(glsl, a, b, node.outputs[0], builder.add_node("Log", a))
        db = builder.sum_to(builder.multiply(dy[0], slope), builder.shape(b))
    return [da, db]


def _base_gradient(builder: GradientBuilder, a: str, b: str, dy: str) -> str:
    known = builder.constant_data(b)
    if known is not None and known.size == 1:
        exponent = float(known.reshape(()))
        if exponent == 1:
            return dy
        if exponent == 2:
            return builder.apply_glsl("return 2.0 * a * b;", a, dy)
    less = (
        builder.add_constant((known.astype(np.float64) - 1).astype(np.float32))
        if known is not None
        else builder.apply_glsl("return a - 1.0;", b)
    )
    glsl = "return select(equal(b, vec4(0.0)), vec4(0.0), a * b * c);"
    return builder.apply_glsl(glsl, builder.add_node("Pow", a, less), b, dy)


def mean(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Mean: each input gets an equal share."""
    return add(builder, node, [builder.scale(dy[0], 1 / len(node.inputs))])


def max_min(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Max and Min: the gradient goes to the input with the result; ties share it equally.

    Exceptions: for PyTorch's clamp and clip with tensor bounds, ties give the whole gradient to the
    first input, the clamped tensor. For the clamp on the logarithm in a binary cross-entropy, the
    first input always gets the whole gradient.
    """
    if torch_name(node) == BINARY_CROSS_ENTROPY:
        return [dy[0] if builder.needs_gradient(node.inputs[0]) else "", ""]
    if torch_name(node).startswith(("clamp", "clip")):
        return _clamp(builder, node, dy[0])
    if not any(map(builder.needs_gradient, node.inputs)):
        return [""] * len(node.inputs)
    equal = "return select(equal(a, b), vec4(1.0), vec4(0.0));"
    ties = [builder.apply_glsl(equal, name, node.outputs[0]) for name in node.inputs]
    share = builder.divide(dy[0], builder.sum_tensors(ties))
    return [
        builder.sum_to(builder.multiply(tie, share), builder.shape(name))
        if builder.needs_gradient(name)
        else ""
        for name, tie in zip(node.inputs, ties, strict=True)
    ]


def _clamp(builder: GradientBuilder, node: Node, dy: str) -> Sequence[str]:
    x, bound = node.inputs
    parts = ("vec4(0.0), c", "c, vec4(0.0)")
    return [
        builder.sum_to(
            builder.apply_glsl(f"return select(notEqual(a, b), {part});", x, node.outputs[0], dy),
            builder.shape(name),
        )
        if builder.needs_gradient(name)
        else ""
        for name, part in zip((x, bound), parts, strict=True)
    ]


def where(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Where: the gradient goes to the selected input."""
    condition, *others = node.inputs
    found = [""]
    if torch_name(node) in LOG_PRODUCT_OPERATORS and builder.needs_gradient(others[1]):
        glsl = (
            "vec4 nan = vec4(uintBitsToFloat(0x7fc00000u));"
            " vec4 idle = select(equal(b, vec4(0.0)), nan, vec4(0.0));"
            " return select(notEqual(a, vec4(0.0)), idle, c);"
        )
        db = builder.apply_glsl(glsl, condition, others[1], dy[0])
        return ["", "", builder.sum_to(db, builder.shape(others[1]))]
    for name, chosen in zip(others, ("b, vec4(0.0)", "vec4(0.0), b"), strict=True):
        glsl = f"return select(notEqual(a, vec4(0.0)), {chosen});"
        part = ""
        if builder.needs_gradient(name):
            part = builder.sum_to(builder.apply_glsl(glsl, condition, dy[0]), builder.shape(name))
        found.append(part)
    return found


def trilu(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Trilu: the same triangle of the gradient."""
    dx = builder.add_node("Trilu", dy[0], *node.inputs[1:], upper=int_attr(node, "upper", 1))
    return [dx, *[""] * (len(node.inputs) - 1)]
