"""Gradients of functions of one number, as GLSL of the input, or of the output if possible.

With a function of the output, the input need not be kept, so a convolution may apply the function
when it stores its result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nbglcnn.graph import Node
from nbglcnn.ops.gradient_builder import GradientBuilder
from nbglcnn.ops.operator import GradientRule, KnownValues, float_attr, string_attr


def input_rule(glsl: str, **defaults: float) -> GradientRule:
    """Make a rule: `glsl` returns the gradient from the input `a` and the output gradient `b`."""
    return _glsl_rule(lambda node: node.inputs[0], glsl, defaults)


def output_rule(glsl: str, **defaults: float) -> GradientRule:
    """Make a rule: `glsl` returns the gradient from the output `a` and the output gradient `b`."""
    return _glsl_rule(lambda node: node.outputs[0], glsl, defaults)


def input_or_output_rule(output: str, input: str, **defaults: float) -> GradientRule:
    """Make a rule by the output if its sign reveals the input's, else by the input.

    The sign is known if no numeric attribute is negative. Then `output` returns the gradient, as in
    `output_rule`; otherwise `input` does, as in `input_rule`.
    """
    rules_of = input_rule(input, **defaults), output_rule(output, **defaults)

    def rule(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
        tells = all(float_attr(node, key, default) >= 0 for key, default in defaults.items())
        return rules_of[tells](builder, node, dy)

    return rule


def _glsl_rule(
    source_value: Callable[[Node], str], glsl: str, defaults: dict[str, float]
) -> GradientRule:
    def rule(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
        numbers = {key: float_attr(node, key, default) for key, default in defaults.items()}
        dx = builder.apply_glsl(glsl, source_value(node), dy[0], **numbers)
        return [dx, *[""] * (len(node.inputs) - 1)]

    return rule


def torch_name(node: Node) -> str:
    """The node's PyTorch operator without its overload, such as `max`; empty if it has none."""
    return node.torch_operator.partition(".")[0].strip("_")


# In these operators PyTorch's gradient is 0 if the result is 0, where the root has no gradient.
TORCH_NORM_OPERATORS = ("std", "std_mean", "linalg_vector_norm", "norm", "cdist")


BINARY_CROSS_ENTROPY = "binary_cross_entropy"


def log(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Log: 1 / x; in a binary cross-entropy, both logs sum to (x - target) / (x (1 - x)).

    In a binary cross-entropy, the divisor is at least 1e-12, as in PyTorch.
    """
    if torch_name(node) != BINARY_CROSS_ENTROPY:
        return [builder.apply_glsl("return b / a;", node.inputs[0], dy[0])]
    made = builder.producer(node.inputs[0])
    if made is not None and torch_name(made) == BINARY_CROSS_ENTROPY:  # 1 - x, rounded
        glsl = "return -b * a / max(-a * (1.0 + a), vec4(1e-12));"
        return [builder.apply_glsl(glsl, made.inputs[0], dy[0])]
    glsl = "return b * (1.0 - a) / max(a * (1.0 - a), vec4(1e-12));"
    return [builder.apply_glsl(glsl, node.inputs[0], dy[0])]


def sqrt(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Sqrt: infinite at 0, except in standard deviations and norms."""
    slope = "0.5 * b / a"
    if torch_name(node) in TORCH_NORM_OPERATORS:
        slope = f"select(equal(a, vec4(0.0)), vec4(0.0), {slope})"
    return [builder.apply_glsl(f"return {slope};", node.outputs[0], dy[0])]


def operator_rule(op: str, factor: float = 1) -> GradientRule:
    """Make a rule: the gradient is another operator of the input, times a factor."""

    def rule(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
        return [
            builder.multiply(builder.scale(dy[0], factor), builder.add_node(op, node.inputs[0]))
        ]

    return rule


# t + x · sigmoid(x) · (1 − t²) with t = tanh(softplus(x)) = n / d. No power of e overflows. 1 − t²
# = (d − n) (d + n) / d² has no cancellation, because d − n is computed directly.
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


def gelu(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Gelu: Φ(x) + x φ(x), or the derivative of the tanh approximation."""
    x = node.inputs[0]
    if string_attr(node, "approximate", "none") == "tanh":
        return [builder.apply_glsl(GELU_TANH_GLSL, x, dy[0])]
    erf = builder.add_node("Erf", builder.scale(x, 0.5**0.5))
    glsl = "return c * (0.5 + 0.5 * b + a * 0.3989422804014327 * exp(-0.5 * a * a));"
    return [builder.apply_glsl(glsl, x, erf, dy[0])]


# At the bounds of these, PyTorch's gradient is 0, so their output suffices.
ZERO_GRADIENT_BOUND_OPERATORS = ("relu6", "hardtanh")


def clip_rule(limits: Callable[[KnownValues, Node], tuple[float, float]]) -> GradientRule:
    """Clip: make a rule from a node's limits; at a limit the gradient passes."""

    def rule(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
        named = zip(("low", "high"), limits(builder, node), strict=True)
        numbers = {name: limit for name, limit in named if math.isfinite(limit)}
        at_bounds, of = ("", node.inputs[0])
        if torch_name(node) in ZERO_GRADIENT_BOUND_OPERATORS:
            at_bounds, of = ("Equal", node.outputs[0])
        glsl = "vec4 passed = b; "
        for name, beyond in (("low", "lessThan"), ("high", "greaterThan")):
            if name in numbers:
                test = f"{beyond}{at_bounds}(a, vec4(u_{name}))"
                glsl += f"passed = select({test}, vec4(0.0), passed); "
        dx = builder.apply_glsl(f"{glsl}return passed;", of, dy[0], **numbers)
        return [dx, *[""] * (len(node.inputs) - 1)]

    return rule
