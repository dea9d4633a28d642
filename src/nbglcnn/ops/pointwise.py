"""Pointwise functions, such as activations. They can also run after a convolution in its pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.glsl import FragmentShader, shader_source
from nbglcnn.codegen.uniform_slots import GlslFunction
from nbglcnn.graph import Node
from nbglcnn.ops import pointwise_gradient as slopes
from nbglcnn.ops.operator import (
    AttributeCheck,
    GradientRule,
    KnownValues,
    Operator,
    any_value,
    attribute_formula,
    float_attr,
    no_problem,
    one_of,
    same_shape,
    string_attr,
    zero_gradient,
)
from nbglcnn.ops.pointwise_gradient import input_or_output_rule, input_rule, output_rule
from nbglcnn.ops.receptive_field import elementwise_fields
from nbglcnn.plan.schema import Bounds, Role

POINTWISE_SHADER = FragmentShader(
    "pointwise", shader_source("pointwise.glsl"), has_pixel_function=False
)
IDENTITY_FUNCTION = GlslFunction("vec4 activate(vec4 v) { return v; }")

# Use select() for branches: a multiplication by 0 would turn an Inf of the untaken branch into NaN.
# NaN is either restored by its bits, or preserved by a separate uniform for the selected limit,
# distinct from the compared uniform. Otherwise Mesa turns `v < 0.0 ? 0.0 : v` into max(), and max()
# drops NaN.
SELECT_GLSL = """
vec4 select(bvec4 which, vec4 yes, vec4 no) { return mix(no, yes, which); }
vec4 unless_nan(vec4 v, vec4 result) {
  return select(greaterThan(floatBitsToUint(v) & 0x7fffffffu, uvec4(0x7f800000u)), v, result);
}
"""

# SwiftShader's exp() loses NaN, and its log() returns finite numbers for 0 and negative numbers.
EXP_LOG_GLSL = """
vec4 power(vec4 v) { return unless_nan(v, exp(v)); }
vec4 logarithm(vec4 v) {
  vec4 odd = select(lessThan(v, vec4(0.0)), vec4(uintBitsToFloat(0x7fc00000u)), vec4(uintBitsToFloat(0xff800000u)));
  return unless_nan(v, select(greaterThan(v, vec4(0.0)), log(v), odd));
}
"""

# exp(v) - 1 without cancellation near 0 (Kahan: (e - 1) · v / log e), from which tanh and erf
# follow. GLSL's own tanh overflows for large arguments on some drivers.
EXPM1_GLSL = """
float expm1(float v) {
  if (abs(v) < 0.25)
    return v * (1.0 + v * (0.5 + v * (1.0 / 6.0 + v * (1.0 / 24.0 + v * (1.0 / 120.0 + v * (1.0 / 720.0 + v / 5040.0))))));
  return exp(v) - 1.0;
}
vec4 expm1(vec4 v) { return vec4(expm1(v.x), expm1(v.y), expm1(v.z), expm1(v.w)); }
"""

ERF_GLSL = """
// Abramowitz and Stegun 7.1.26 is good to 1.5e-7 absolutely; below 1 the series keeps relative precision too.
float erf(float v) {
  float a = abs(v);
  if (a < 1.0) {
    float s = v * v, term = v, sum = v;
    for (int k = 1; k < 12; k++) { term *= -s / float(k); sum += term / float(2 * k + 1); }
    return sum * 1.1283791670955126;
  }
  float t = 1.0 / (1.0 + 0.3275911 * a);
  float e = 1.0 - t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) * exp(-a * a);
  return v < 0.0 ? -e : (v > 0.0 ? e : v);
}
"""


# GLSL guarantees no precision of sin() and cos(), and SwiftShader's have four digits.
SINE_GLSL = shader_source("sine.glsl")


def _activation_function(body: str, *helpers: str, uniform_slots: str = "") -> GlslFunction:
    return GlslFunction(
        "\n".join([SELECT_GLSL, *helpers, f"vec4 activate(vec4 v) {{ {body} }}"]), uniform_slots
    )


def _per_lane_function(name: str) -> GlslFunction:
    """Apply a function of elementary.glsl to each lane."""
    lanes = ", ".join(f"{name}(v.{lane})" for lane in "xyzw")
    return _activation_function(
        f"return unless_nan(v, vec4({lanes}));", shader_source("elementary.glsl")
    )


def _lower(b: Builder, node: Node) -> None:
    function, numbers = activation_of(b, node)
    x = b.stored_tensor(node.inputs[0])
    # The function ignores the order of elements, so the output has the input's layout.
    output = b.create_scratch_tensor(x.layout)
    b.bind(b.epilogue(node).output_name, output)
    b.draw(POINTWISE_SHADER, output, [x], uniforms=numbers, functions=[function], fetches=4)


UniformRule = Callable[[KnownValues, Node], Mapping[str, float]]
FormulaRule = Callable[[KnownValues, Node], str]


def unary_operator(
    name: str,
    doc: str,
    function: GlslFunction,
    formula: str | FormulaRule,
    bounds: Bounds | Callable[[KnownValues, Node], Bounds] | None = None,
    *,
    role: Role = "head",
    uniforms: UniformRule | None = None,
    extra_attributes: Mapping[str, AttributeCheck] = {},
    check: Callable[[KnownValues, Node], str | None] = no_problem,
    caption: str | None = None,
    gradient: GradientRule | str,
    **defaults: float,
) -> Operator:
    """An operator that maps each element by `function`, which users see as `formula`.

    `defaults` are the defaults of numeric attributes: `function` reads them as u_<name>, and
    `formula` contains their names in braces. `uniforms` fills the slots that the function declares
    itself.
    """

    def given(_facts: KnownValues, node: Node) -> Mapping[str, float]:
        return {key: float_attr(node, key, default) for key, default in defaults.items()}

    if defaults:
        function = replace(function, uniform_slots=f"float {', '.join(defaults)}")
    attributes = {**dict.fromkeys(defaults, any_value), **extra_attributes}
    return Operator(
        name, doc, same_shape, _lower, attributes, check, glsl_function=function,
        uniforms=uniforms or (given if defaults else None), role=role, receptive_field=elementwise_fields,
        explanation="pointwise",
        formula=attribute_formula(formula, **defaults) if isinstance(formula, str) else formula,
        bounds=bounds, caption=caption, shape_inputs=(), gradient=gradient,
    )  # fmt: skip


# An activation belongs to the preceding layer; other functions are layers of their own.
activation_operator = partial(unary_operator, role="follows")


def _gelu_function(body: str) -> GlslFunction:
    return _activation_function(
        "return vec4(gelu(v.x), gelu(v.y), gelu(v.z), gelu(v.w));", EXPM1_GLSL, ERF_GLSL, body
    )


def _gelu_formula(_facts: KnownValues, node: Node) -> str:
    if string_attr(node, "approximate", "none") == "none":
        return "x * Phi(x)"
    return "x / 2 * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x ** 3)))"


def _clip_formula(facts: KnownValues, node: Node) -> str:
    low, high = _clip_limits(facts, node)
    if math.isinf(low) or math.isinf(high):
        inner = "x" if math.isinf(low) else f"max({low}, x)"
        return inner if math.isinf(high) else f"min({high}, {inner})"
    return f"clip(x, {low}, {high})"


def _clip_bounds(facts: KnownValues, node: Node) -> Bounds:
    low, high = _clip_limits(facts, node)
    return (None if math.isinf(low) else low, None if math.isinf(high) else high)


def _clip_limits(facts: KnownValues, node: Node) -> tuple[float, float]:
    limits = [-math.inf, math.inf]
    for position in (1, 2):
        if position < len(node.inputs) and node.inputs[position]:
            data = facts.constant_data(node.inputs[position])
            assert data is not None
            limits[position - 1] = float(data.reshape(()))
    return limits[0], limits[1]


def _clip_uniforms(facts: KnownValues, node: Node) -> Mapping[str, float]:
    low, high = _clip_limits(facts, node)
    # Pass each limit twice: the driver must not know that the compared and the selected number are
    # equal.
    return {"low": low, "high": high, "least": low, "most": high}


def _clip_problem(facts: KnownValues, node: Node) -> str | None:
    for name, value in zip(("min", "max"), node.inputs[1:], strict=False):
        data = facts.constant_data(value) if value else None
        if value and (data is None or data.size != 1):
            return f"its {name} is not a constant number"
    return None


OPERATORS = [
    activation_operator("Relu", "Keeps what is above zero; everything else becomes 0.",
                        _activation_function("return select(lessThan(v, vec4(0.0)), vec4(u_zero), v);", uniform_slots="float zero"),
                        "max(0, x)", (0.0, None), uniforms=lambda _facts, _node: {"zero": 0.0}, caption="ReLU",
                        gradient=output_rule("return select(lessThanEqual(a, vec4(0.0)), vec4(0.0), b);")),
    activation_operator("LeakyRelu", "Like Relu, but lets a fraction alpha of negative values through.",
                        _activation_function("return select(lessThan(v, vec4(0.0)), v * u_alpha, v);"),
                        "where(x < 0, {alpha} * x, x)", alpha=0.01, caption="LeakyReLU",
                        gradient=input_or_output_rule("return select(greaterThan(a, vec4(0.0)), b, b * u_alpha);",
                                                      "return select(greaterThan(a, vec4(0.0)), b, b * u_alpha);", alpha=0.01)),
    activation_operator("ThresholdedRelu", "Keeps what is above alpha; everything else becomes 0.",
                        _activation_function("return unless_nan(v, select(lessThanEqual(v, vec4(u_alpha)), vec4(0.0), v));"),
                        "where(x <= {alpha}, 0, x)", (0.0, None), alpha=1.0,
                        gradient=input_or_output_rule("return select(greaterThan(a, vec4(0.0)), b, vec4(0.0));",
                                                      "return select(greaterThan(a, vec4(u_alpha)), b, vec4(0.0));", alpha=1.0)),
    activation_operator("Elu", "Identity above zero, alpha · (eˣ − 1) below.",
                        _activation_function("return unless_nan(v, select(lessThan(v, vec4(0.0)), u_alpha * expm1(v), v));", EXPM1_GLSL),
                        "where(x < 0, {alpha} * (exp(x) - 1), x)", alpha=1.0, caption="ELU",
                        gradient=input_or_output_rule("return b * select(lessThanEqual(a, vec4(0.0)), a + u_alpha, vec4(1.0));",
                                                      "return b * select(lessThanEqual(a, vec4(0.0)), u_alpha * exp(a), vec4(1.0));", alpha=1.0)),
    activation_operator("Celu", "Identity above zero, alpha · (e^(x / alpha) − 1) below.",
                        _activation_function("return unless_nan(v, select(lessThan(v, vec4(0.0)), u_alpha * expm1(v / u_alpha), v));", EXPM1_GLSL),
                        "where(x < 0, {alpha} * (exp(x / {alpha}) - 1), x)", alpha=1.0, caption="CELU",
                        gradient=output_rule("return b * select(lessThanEqual(a, vec4(0.0)), a / u_alpha + 1.0, vec4(1.0));", alpha=1.0)),
    activation_operator("Selu", "gamma · x above zero, gamma · alpha · (eˣ − 1) below: keeps mean 0 and variance 1.",
                        _activation_function("return unless_nan(v, u_gamma * select(lessThan(v, vec4(0.0)), u_alpha * expm1(v), v));", EXPM1_GLSL),
                        "{gamma} * where(x < 0, {alpha} * (exp(x) - 1), x)", alpha=1.67326319217681884765625, gamma=1.05070102214813232421875, caption="SELU",
                        gradient=input_or_output_rule("return b * select(lessThanEqual(a, vec4(0.0)), a + u_gamma * u_alpha, vec4(u_gamma));",
                                                      "return b * u_gamma * select(lessThanEqual(a, vec4(0.0)), u_alpha * exp(a), vec4(1.0));",
                                                      alpha=1.67326319217681884765625, gamma=1.05070102214813232421875)),
    activation_operator("Sigmoid", "1 / (1 + e⁻ˣ): squeezes everything between 0 and 1.",
                        _activation_function("return unless_nan(v, 1.0 / (1.0 + exp(-v)));"),
                        "1 / (1 + exp(-x))", (0.0, 1.0), gradient=output_rule("return b * a * (1.0 - a);")),
    activation_operator("Tanh", "Squeezes everything between −1 and 1.",
                        _activation_function("vec4 e = expm1(-2.0 * abs(v)); vec4 t = -e / (e + 2.0); return unless_nan(v, select(lessThan(v, vec4(0.0)), -t, t));", EXPM1_GLSL),
                        "tanh(x)", (-1.0, 1.0), gradient=output_rule("return b * (1.0 - a * a);")),
    activation_operator("HardSigmoid", "A straight line alpha · x + beta, cut off at 0 and 1.",
                        _activation_function("vec4 t = v * u_alpha + u_beta; t = select(lessThan(t, vec4(0.0)), vec4(0.0), t); return unless_nan(v, select(greaterThan(t, vec4(1.0)), vec4(1.0), t));"),
                        "clip({alpha} * x + {beta}, 0, 1)", (0.0, 1.0), alpha=0.2, beta=0.5, caption="Hardsigmoid",
                        gradient=output_rule("return select(greaterThan(a, vec4(0.0)), select(lessThan(a, vec4(1.0)), b * u_alpha, vec4(0.0)), vec4(0.0));", alpha=0.2)),
    activation_operator("HardSwish", "x times its HardSigmoid (alpha 1/6, beta 1/2).",
                        _activation_function("vec4 t = v / 6.0 + 0.5; t = select(lessThan(t, vec4(0.0)), vec4(0.0), t); return unless_nan(v, v * select(greaterThan(t, vec4(1.0)), vec4(1.0), t));"),
                        "x * clip(x / 6 + 0.5, 0, 1)", caption="Hardswish",
                        gradient=input_rule("vec4 t = select(lessThan(a, vec4(3.0)), a / 3.0 + 0.5, vec4(1.0)); return b * select(lessThanEqual(a, vec4(-3.0)), vec4(0.0), t);")),
    activation_operator("Swish", "x times the sigmoid of alpha · x (SiLU when alpha is 1).",
                        _activation_function("return unless_nan(v, v / (1.0 + exp(-u_alpha * v)));"),
                        "x * sigmoid({alpha} * x)", alpha=1.0,
                        gradient=input_rule("vec4 s = 1.0 / (1.0 + exp(-u_alpha * a)); return b * s * (1.0 + u_alpha * a * (1.0 - s));", alpha=1.0)),
    activation_operator("Softplus", "log(1 + eˣ): a smooth Relu.",
                        _activation_function("vec4 e = exp(-abs(v)); return unless_nan(v, select(lessThan(v, vec4(0.0)), vec4(0.0), v) + log1p(e));",
                                             "vec4 log1p(vec4 e) { vec4 s = 1.0 + e; vec4 d = s - 1.0; return select(equal(d, vec4(0.0)), e, log(s) * e / d); }"),
                        "softplus(x)", (0.0, None),
                        gradient=input_rule("return b / (1.0 + exp(-a));")),
    activation_operator("Softsign", "x / (1 + |x|).", _activation_function("return v / (1.0 + abs(v));"),
                        "x / (1 + abs(x))", (-1.0, 1.0),
                        gradient=input_rule("vec4 d = 1.0 + abs(a); return b / d / d;")),
    activation_operator("Mish", "x · tanh(softplus(x)).",
                        _activation_function("vec4 e = exp(-abs(v)); vec4 n = select(lessThan(v, vec4(0.0)), e * (e + 2.0), 1.0 + 2.0 * e); vec4 d = select(lessThan(v, vec4(0.0)), n + 2.0, n + 2.0 * e * e); return unless_nan(v, v * n / d);"),
                        "x * tanh(softplus(x))",
                        gradient=input_rule(slopes.MISH_GLSL)),
    activation_operator("Clip", "Cuts values off below min and above max.",
                        _activation_function("vec4 t = select(lessThan(v, vec4(u_low)), vec4(u_least), v); return select(greaterThan(t, vec4(u_high)), vec4(u_most), t);",
                                             uniform_slots="float low, high, least, most"),
                        _clip_formula, _clip_bounds, uniforms=_clip_uniforms, check=_clip_problem,
                        gradient=slopes.clip_rule(_clip_limits)),
    activation_operator("Gelu", "x · Φ(x), with the normal distribution's Φ or its tanh approximation.", GlslFunction(""),
                        _gelu_formula, extra_attributes={"approximate": one_of("none", "tanh")}, caption="GELU",
                        gradient=slopes.gelu),
    unary_operator("Erf", "The error function.", _activation_function("return vec4(erf(v.x), erf(v.y), erf(v.z), erf(v.w));", ERF_GLSL),
                   "erf(x)", (-1.0, 1.0),
                   gradient=input_rule("return b * 1.1283791670955126 * exp(-a * a);")),
    unary_operator("Exp", "eˣ.", _activation_function("return power(v);", EXP_LOG_GLSL), "exp(x)",
                   gradient=output_rule("return b * a;")),
    unary_operator("Log", "The natural logarithm.", _activation_function("return logarithm(v);", EXP_LOG_GLSL), "log(x)",
                   gradient=slopes.log),
    unary_operator("Sqrt", "The square root.", _activation_function("return sqrt(v);"), "sqrt(x)",
                   gradient=slopes.sqrt),
    unary_operator("Reciprocal", "1 / x.", _activation_function("return 1.0 / v;"), "1 / x",
                   gradient=output_rule("return -b * a * a;")),
    unary_operator("Neg", "−x.", _activation_function("return -v;"), "-x",
                   gradient=lambda rules, _node, dy: [rules.negate(dy[0])]),
    unary_operator("Abs", "|x|.", _activation_function("return abs(v);"), "abs(x)",
                   gradient=input_rule("return b * sign(a);")),
    unary_operator("Sign", "−1, 0 or 1.", _activation_function("return sign(v);"), "sign(x)",
                   gradient=zero_gradient),
    unary_operator("Floor", "The largest integer not above x.", _activation_function("return floor(v);"), "floor(x)",
                   gradient=zero_gradient),
    unary_operator("Ceil", "The smallest integer not below x.", _activation_function("return ceil(v);"), "ceil(x)",
                   gradient=zero_gradient),
    unary_operator("Round", "The nearest integer, halves to the even one.", _activation_function("return roundEven(v);"),
                   "round(x)",
                   gradient=zero_gradient),
    unary_operator("Sin", "The sine.", _activation_function("return sine(v, 0.0);", SINE_GLSL), "sin(x)",
                   gradient=slopes.operator_rule("Cos")),
    unary_operator("Cos", "The cosine.", _activation_function("return sine(v, 1.0);", SINE_GLSL), "cos(x)",
                   gradient=slopes.operator_rule("Sin", -1)),
    unary_operator("Tan", "The tangent.", _activation_function("return unless_nan(v, sine(v, 0.0) / sine(v, 1.0));", SINE_GLSL),
                   "tan(x)",
                   gradient=output_rule("return b * (1.0 + a * a);")),
    unary_operator("Asin", "The inverse of the sine.", _per_lane_function("asine"), "asin(x)",
                   gradient=input_rule("return b / sqrt((1.0 - a) * (1.0 + a));")),
    unary_operator("Acos", "The inverse of the cosine.", _per_lane_function("acosine"), "acos(x)",
                   gradient=input_rule("return -b / sqrt((1.0 - a) * (1.0 + a));")),
    unary_operator("Atan", "The inverse of the tangent.", _per_lane_function("atangent"), "atan(x)",
                   gradient=input_rule("return b / (1.0 + a * a);")),
    unary_operator("Sinh", "(eˣ − e⁻ˣ) / 2.", _per_lane_function("sineh"), "sinh(x)",
                   gradient=slopes.operator_rule("Cosh")),
    unary_operator("Cosh", "(eˣ + e⁻ˣ) / 2.", _per_lane_function("cosineh"), "cosh(x)",
                   gradient=slopes.operator_rule("Sinh")),
    unary_operator("Asinh", "The inverse of Sinh.", _per_lane_function("asineh"), "asinh(x)",
                   gradient=input_rule("return b / sqrt(1.0 + a * a);")),
    unary_operator("Acosh", "The inverse of Cosh.", _per_lane_function("acosineh"), "acosh(x)",
                   gradient=input_rule("return b / sqrt((a - 1.0) * (a + 1.0));")),
    unary_operator("Atanh", "The inverse of the hyperbolic tangent.", _per_lane_function("atangenth"), "atanh(x)",
                   gradient=input_rule("return b / ((1.0 - a) * (1.0 + a));")),
    activation_operator("Shrink", "Moves everything towards zero by bias; what lies within ±lambd becomes 0.",
                        _activation_function("vec4 t = select(lessThan(v, vec4(-u_lambd)), v + u_bias, vec4(0.0)); return select(greaterThan(v, vec4(u_lambd)), v - u_bias, t);"),
                        "where(x < -{lambd}, x + {bias}, where(x > {lambd}, x - {bias}, 0))", lambd=0.5, bias=0.0,
                        gradient=input_rule("return select(greaterThan(abs(a), vec4(u_lambd)), b, vec4(0.0));", lambd=0.5)),
]  # fmt: skip

_GELU_FUNCTIONS = {
    "none": _gelu_function(
        "float gelu(float v) { return 0.5 * v * (1.0 + erf(v * 0.7071067811865476)); }"
    ),
    "tanh": _gelu_function(
        "float gelu(float v) { float z = 0.7978845608028654 * (v + 0.044715 * v * v * v);"
        " float e = expm1(-2.0 * abs(z)); float t = -e / (e + 2.0); return 0.5 * v * (1.0 + (z < 0.0 ? -t : t)); }"
    ),
}
OPERATORS_BY_NAME = {operator.name: operator for operator in OPERATORS}


def activation_of(b: Builder, node: Node | None) -> tuple[GlslFunction, Mapping[str, float]]:
    """Return a unary node's GLSL `vec4 activate(vec4 v)` (None: the identity) and its uniforms."""
    if node is None:
        return IDENTITY_FUNCTION, {}
    operator = OPERATORS_BY_NAME[node.op]
    function = (
        _GELU_FUNCTIONS[string_attr(node, "approximate", "none")]
        if node.op == "Gelu"
        else operator.glsl_function
    )
    return function, operator.uniforms(b, node) if operator.uniforms else {}
