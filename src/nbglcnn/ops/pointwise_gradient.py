"""Slopes of functions of one number, as GLSL of the input, or of the output where that suffices.

Of the output, the input need not be kept: a convolution may apply the function as it stores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nbglcnn.graph import Node
from nbglcnn.ops.gradient_builder import GradientBuilder
from nbglcnn.ops.operator import GradientRule, KnownValues, float_attr, string_attr


def input_rule(glsl: str, **defaults: float) -> GradientRule:
    """A rule: `glsl` returns the gradient, of the input `a` and that of the output `b`."""
    return _glsl_rule(lambda node: node.inputs[0], glsl, defaults)


def output_rule(glsl: str, **defaults: float) -> GradientRule:
    """A rule: `glsl` returns the gradient, of the output `a` and that of the output `b`."""
    return _glsl_rule(lambda node: node.outputs[0], glsl, defaults)


def input_or_output_rule(output: str, input: str, **defaults: float) -> GradientRule:
    """A rule of functions whose output tells where the input is above 0, if no number is negative.

    `output` returns the gradient then, `input` else: the GLSL of `output_rule` and of `input_rule`.
    """
    rules_of = input_rule(input, **defaults), output_rule(output, **defaults)

    def rule(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
        tells = all(float_attr(node, key, default) >= 0 for key, default in defaults.items())
        return rules_of[tells](rules, node, dy)

    return rule


def _glsl_rule(of: Callable[[Node], str], glsl: str, defaults: dict[str, float]) -> GradientRule:
    def rule(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
        numbers = {key: float_attr(node, key, default) for key, default in defaults.items()}
        dx = rules.apply_glsl(glsl, of(node), dy[0], **numbers)
        return [dx, *[""] * (len(node.inputs) - 1)]

    return rule


def torch_name(node: Node) -> str:
    """PyTorch's name without the overload, `max`, of an operator that stands for no other."""
    return node.torch_operator.partition(".")[0].strip("_")


# Of these PyTorch's gradient is 0 where the result is 0: the root has none there.
NORM_OPERATORS = ("std", "std_mean", "linalg_vector_norm", "norm", "cdist")


BINARY_CROSS_ENTROPY = "binary_cross_entropy"


def log(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Log: 1 / x; of a binary cross-entropy of x and 1 - x, together (x - target) / (x (1 - x)).

    There the divisor is at least 1e-12, as PyTorch has it.
    """
    if torch_name(node) != BINARY_CROSS_ENTROPY:
        return [rules.apply_glsl("return b / a;", node.inputs[0], dy[0])]
    made = rules.producer(node.inputs[0])
    if made is not None and torch_name(made) == BINARY_CROSS_ENTROPY:  # 1 - x, rounded
        glsl = "return -b * a / max(-a * (1.0 + a), vec4(1e-12));"
        return [rules.apply_glsl(glsl, made.inputs[0], dy[0])]
    glsl = "return b * (1.0 - a) / max(a * (1.0 - a), vec4(1e-12));"
    return [rules.apply_glsl(glsl, node.inputs[0], dy[0])]


def sqrt(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Sqrt: infinite at 0, but for standard deviations and lengths."""
    slope = "0.5 * b / a"
    if torch_name(node) in NORM_OPERATORS:
        slope = f"select(equal(a, vec4(0.0)), vec4(0.0), {slope})"
    return [rules.apply_glsl(f"return {slope};", node.outputs[0], dy[0])]


def operator_rule(op: str, factor: float = 1) -> GradientRule:
    """A rule: the slope is another function of the input, times a number."""

    def rule(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
        return [rules.multiply(rules.scale(dy[0], factor), rules.add_node(op, node.inputs[0]))]

    return rule


# t + x · sigmoid(x) · (1 − t²) with t = tanh(softplus(x)) = n / d; no power of e overflows, and
# 1 − t² = (d − n) (d + n) / d² has no cancellation since d − n is known.
MISH_GLSL = """
bvec4 below = lessThan(a, vec4(0.0));
vec4 e = exp(-abs(a));
vec4 n = select(below, e * (e + 2.0), 1.0 + 2.0 * e), more = select(below, vec4(2.0), 2.0 * e * e);
vec4 d = n + more, s = select(below, e, vec4(1.0)) / (1.0 + e);
return b * (n / d + a * s * (more / d) * ((d + n) / d));
"""

GELU_TANH_GLSL = """
vec4 z = 0.7978845608028654 * (a + 0.044715 * a * a * a);
vec4 e = exp(-2.0 * abs(z)), t = (1.0 - e) / (1.0 + e);
vec4 dz = 0.7978845608028654 * (1.0 + 0.134145 * a * a);
// 1 - t² without cancellation: dz is large where it is small.
vec4 steep = 4.0 * e / ((1.0 + e) * (1.0 + e));
return 0.5 * b * (1.0 + select(lessThan(z, vec4(0.0)), -t, t) + a * steep * dz);
"""


def gelu(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Gelu: Φ(x) + x φ(x), or the slope of its tanh approximation."""
    x = node.inputs[0]
    if string_attr(node, "approximate", "none") == "tanh":
        return [rules.apply_glsl(GELU_TANH_GLSL, x, dy[0])]
    erf = rules.add_node("Erf", rules.scale(x, 0.5**0.5))
    glsl = "return c * (0.5 + 0.5 * b + a * 0.3989422804014327 * exp(-0.5 * a * a));"
    return [rules.apply_glsl(glsl, x, erf, dy[0])]


# PyTorch passes nothing at the bounds of these, so that their output suffices.
OPEN_BOUND_OPERATORS = ("relu6", "hardtanh")


def clip_rule(limits: Callable[[KnownValues, Node], tuple[float, float]]) -> GradientRule:
    """Clip: a rule by the function that tells a node's limits; at these the gradient passes."""

    def rule(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
        named = zip(("low", "high"), limits(rules, node), strict=True)
        numbers = {name: limit for name, limit in named if math.isfinite(limit)}
        at_bounds, of = ("", node.inputs[0])
        if torch_name(node) in OPEN_BOUND_OPERATORS:
            at_bounds, of = ("Equal", node.outputs[0])
        glsl = "vec4 passed = b; "
        for name, beyond in (("low", "lessThan"), ("high", "greaterThan")):
            if name in numbers:
                test = f"{beyond}{at_bounds}(a, vec4(u_{name}))"
                glsl += f"passed = select({test}, vec4(0.0), passed); "
        dx = rules.apply_glsl(f"{glsl}return passed;", of, dy[0], **numbers)
        return [dx, *[""] * (len(node.inputs) - 1)]

    return rule
