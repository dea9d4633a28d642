"""Operators on several tensors with NumPy's broadcasting: arithmetic, comparisons, logic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.glsl import FragmentShader, shader_source
from nbglcnn.codegen.uniform_slots import GlslFunction
from nbglcnn.graph import Node
from nbglcnn.ops import broadcast_gradient as slopes
from nbglcnn.ops.elementwise import Operand, broadcast_shape, draw_elementwise, operands_of
from nbglcnn.ops.masks import exclude_masked
from nbglcnn.ops.movement import constant_input_check
from nbglcnn.ops.operator import (
    AttributeCheck,
    GradientRule,
    KnownValues,
    Operator,
    Shape,
    attribute_formula,
    constant_ints,
    int_attr,
    no_problem,
    one_of,
    same_shape,
)
from nbglcnn.ops.pointwise import SELECT_GLSL
from nbglcnn.ops.receptive_field import (
    NEGLIGIBLE_WEIGHT,
    OperatorField,
    ReceptiveFieldRule,
    elementwise_fields,
)
from nbglcnn.plan.schema import ExplanationKind, Role

NAN_GLSL = shader_source("nan.glsl")
QUOTIENT_GLSL = shader_source("quotient.glsl")
REMAINDER_GLSL = shader_source("remainder.glsl")
POWER_GLSL = shader_source("power.glsl")


def _per_lane(function: str, *helpers: str) -> str:
    """GLSL of a two-operand combine() that calls a function of two floats for every lane."""
    lanes = ", ".join(f"{function}(a.{k}, b.{k})" for k in "xyzw")
    return "\n".join([*helpers, f"vec4 combine(vec4 a, vec4 b) {{ return vec4({lanes}); }}"])


def _binary_glsl(body: str, *helpers: str) -> str:
    return "\n".join([SELECT_GLSL, *helpers, f"vec4 combine(vec4 a, vec4 b) {{ {body} }}"])


def _unary_glsl(body: str, *helpers: str) -> str:
    return "\n".join([SELECT_GLSL, *helpers, f"vec4 combine(vec4 a) {{ {body} }}"])


ADD_GLSL = _binary_glsl("return a + b;")
MULTIPLY_GLSL = _binary_glsl("return a * b;")
DIVIDE_GLSL = _binary_glsl("return a / b;")
DIVIDE_BY_COUNT_FUNCTION = GlslFunction(_unary_glsl("return a / u_count;"), "float count")


def _shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    return [broadcast_shape(*(facts.shape(value) for value in node.inputs))]


def _problem(facts: KnownValues, node: Node) -> str | None:
    try:
        _shape(facts, node)
    except ValueError as error:
        return str(error)
    return None


def is_integer_value(b: Builder, value: str) -> bool:
    """Whether a value holds integers (stored as floats)."""
    return b.graph.values[value].dtype.kind in "iu"


@dataclass(frozen=True, slots=True)
class _FunctionLowering:
    """Lower a node to one function for floats and, if it differs, another for integers.

    `wrapping_operator` is GLSL's integer operator for types of up to 32 bits, so that overflow
    wraps around as in PyTorch and ONNX Runtime.
    """

    float_glsl: str
    integer_glsl: str = ""
    wrapping_operator: str = ""

    def __call__(self, b: Builder, node: Node) -> None:
        """Lower a node to one pass."""
        whole = bool(self.integer_glsl) and is_integer_value(b, node.inputs[0])
        function = self.integer_glsl if whole else self.float_glsl
        if self.wrapping_operator and (
            own := _WRAPPING_GLSL_BY_DTYPE.get(b.graph.values[node.inputs[0]].dtype.name)
        ):
            function = own.format(sign=self.wrapping_operator)
        draw_elementwise(b, operands_of(b, *node.inputs), function, value=node.outputs[0])


# For signed integers. 2147483520 is the largest float below 2^31. The shifts extend the sign.
_WRAP_SIGNED_GLSL = (
    "ivec4 exact(vec4 v) {{ return ivec4(min(v, vec4(2147483520.0))); }}\n"
    "vec4 combine(vec4 a, vec4 b) {{ return vec4((exact(a) {sign} exact(b)) << %d >> %d); }}"
)
_WRAP_UNSIGNED_GLSL = (
    "vec4 combine(vec4 a, vec4 b) {{ return vec4((uvec4(a) {sign} uvec4(b)) & %du); }}"
)
_WRAPPING_GLSL_BY_DTYPE: Mapping[str, str] = {
    **{f"int{bits}": _WRAP_SIGNED_GLSL % (32 - bits, 32 - bits) for bits in (8, 16, 32)},
    **{f"uint{bits}": _WRAP_UNSIGNED_GLSL % (2**bits - 1) for bits in (8, 16)},
}


def _constant_factor(facts: KnownValues, node: Node) -> tuple[int, float] | None:
    """The position and value of an input that is one constant number; None if there is none."""
    output = broadcast_shape(*(facts.shape(value) for value in node.inputs))
    for position, other in enumerate(reversed(node.inputs)):
        data = facts.constant_data(node.inputs[position])
        if data is None or data.size != 1 or data.dtype.kind != "f" or not np.isfinite(data).all():
            continue
        if facts.constant_data(other) is None and facts.shape(other) == output:
            return position, float(data.reshape(()))
    return None


def _arithmetic_explanation(facts: KnownValues, node: Node) -> ExplanationKind:
    """Return "pointwise" for a tensor with one constant number, else "elementwise"."""
    return "elementwise" if _constant_factor(facts, node) is None else "pointwise"


def _arithmetic_formula(sign: str) -> Callable[[KnownValues, Node], str]:
    """Make a rule for an arithmetic formula: "x * 0.5", "1.0 - x"; of two tensors "a - b"."""

    def formula(facts: KnownValues, node: Node) -> str:
        found = _constant_factor(facts, node)
        if found is None:
            return f"a {sign} b"
        position, number = found
        return f"{number!r} {sign} x" if position == 0 else f"x {sign} {number!r}"

    return formula


OPERAND_NAMES = "abcdefghijklmnopqrstuvw"  # operand names in a formula, without x


def _variadic_explanation(facts: KnownValues, node: Node) -> ExplanationKind:
    return "elementwise" if len(node.inputs) <= len(OPERAND_NAMES) else "nothing"


def _variadic_formula(
    pair_template: str, result_template: str = "{}"
) -> Callable[[KnownValues, Node], str]:
    """Make a rule for the formula of any number of operands, combined two at a time."""

    def formula(_facts: KnownValues, node: Node) -> str:
        text = OPERAND_NAMES[0]
        for name in OPERAND_NAMES[1 : len(node.inputs)]:
            text = pair_template.format(text, name)
        return result_template.format(text, len(node.inputs))

    return formula


def elementwise_operator(
    name: str,
    doc: str,
    lower: Callable[[Builder, Node], None],
    role: Role = "head",
    *,
    shapes: Callable[[KnownValues, Node], Sequence[Shape]] = _shape,
    attributes: Mapping[str, AttributeCheck] | None = None,
    check: Callable[[KnownValues, Node], str | None] = _problem,
    receptive_field: ReceptiveFieldRule = elementwise_fields,
    explanation: ExplanationKind | Callable[[KnownValues, Node], ExplanationKind] = "nothing",
    formula: Callable[[KnownValues, Node], str] | None = None,
    caption: str | None = None,
    gradient: GradientRule | str,
) -> Operator:
    """An operator that computes each element from one element of each of its inputs."""
    return Operator(
        name, doc, shapes, lower, attributes or {}, check, role=role,
        receptive_field=receptive_field,
        explanation=explanation, formula=formula, bounds=None, caption=caption, shape_inputs=(),
        gradient=gradient,
    )  # fmt: skip


def binary_operator(
    name: str,
    doc: str,
    function: str,
    integer_glsl: str = "",
    role: Role = "head",
    *,
    receptive_field: ReceptiveFieldRule = elementwise_fields,
    explanation: ExplanationKind = "elementwise",
    sign: str = "",
    wrapping_operator: str = "",
    formula: str = "",
    caption: str | None = None,
    gradient: GradientRule | str,
) -> Operator:
    """An operator on two or three tensors that computes each element by `function`.

    `sign`: the operator's symbol in a formula. An operator with a `sign` counts as a function of
    one number if the other operand is a constant number. `formula`: the formula in a, b and c, if
    there is no `sign`. `wrapping_operator`: GLSL's operator for integers of up to 32 bits.
    """
    lower = _FunctionLowering(function, integer_glsl, wrapping_operator)
    known = _arithmetic_formula(sign) if sign else attribute_formula(formula) if formula else None
    return elementwise_operator(
        name, doc, lower, role, receptive_field=receptive_field, caption=caption, gradient=gradient,
        explanation=_arithmetic_explanation if sign else explanation, formula=known,
    )  # fmt: skip


comparison_operator = partial(binary_operator, gradient=slopes.NO_BOOLEAN_GRADIENT_REASON)


def _lower_variadic(function: str, mean: bool = False) -> Callable[[Builder, Node], None]:
    """Make a rule that lowers a node with any number of inputs, two per pass."""

    def lower(b: Builder, node: Node) -> None:
        first, *rest = operands_of(b, *node.inputs)
        result = first
        for number, operand in enumerate(rest):
            last = number == len(rest) - 1 and not mean
            shape = broadcast_shape(result.shape, operand.shape)
            value = node.outputs[0] if last else ""
            tensor = draw_elementwise(b, [result, operand], function, value=value)
            result = Operand(shape, tensor=tensor)
        if mean:
            draw_elementwise(
                b,
                [result],
                DIVIDE_BY_COUNT_FUNCTION,
                value=node.outputs[0],
                uniforms={"count": len(node.inputs)},
            )
        elif not rest:
            b.bind(node.outputs[0], b.stored_tensor(node.inputs[0]))

    return lower


def _lower_modulo(b: Builder, node: Node) -> None:
    function = FMOD_GLSL if int_attr(node, "fmod", 0) else MODULO_GLSL
    draw_elementwise(b, operands_of(b, *node.inputs), function, value=node.outputs[0])


FMOD_GLSL = _binary_glsl("return remainder(a, b);", REMAINDER_GLSL)
MODULO_GLSL = _binary_glsl(
    "vec4 r = remainder(a, b);"
    " return vec4(modulo(r.x, b.x), modulo(r.y, b.y), modulo(r.z, b.z), modulo(r.w, b.w));",
    REMAINDER_GLSL,
    "float modulo(float r, float b) { return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r; }",
)


def _prelu_problem(facts: KnownValues, node: Node) -> str | None:
    x, slope = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    if problem := _problem(facts, node):
        return problem
    if broadcast_shape(x, slope) != x:
        return f"a slope of shape {slope} cannot be broadcast to the input's {x}"
    return None


def _lower_is_inf(b: Builder, node: Node) -> None:
    wanted = {name: int_attr(node, f"detect_{name}", 1) for name in ("positive", "negative")}
    draw_elementwise(
        b, operands_of(b, node.inputs[0]), ISINF_FUNCTION, value=node.outputs[0], uniforms=wanted
    )


ISINF_FUNCTION = GlslFunction(
    _unary_glsl(
        "return select(is_inf(a), select(lessThan(a, vec4(0.0)), vec4(u_negative),"
        " vec4(u_positive)), vec4(0.0));",
        NAN_GLSL,
    ),
    "float positive, negative",
)


def _comparison_glsl(condition: str) -> str:
    return _binary_glsl(f"return select({condition}(a, b), vec4(1.0), vec4(0.0));")


PRELU_GLSL = _binary_glsl("return select(lessThan(a, vec4(0.0)), a * b, a);")
WHERE_GLSL = "\n".join([
    SELECT_GLSL,
    "vec4 combine(vec4 a, vec4 b, vec4 c) { return select(notEqual(a, vec4(0.0)), b, c); }",
])  # fmt: skip


def _where_receptive_fields(
    facts: KnownValues, node: Node, output_index: int
) -> list[OperatorField | None]:
    """Exclude elements that a constant condition doesn't select."""
    found, known = (
        elementwise_fields(facts, node, output_index),
        facts.constant_data(node.inputs[0]),
    )
    if known is not None:
        condition = known.astype(bool)
        for k, mask in ((1, condition), (2, ~condition)):
            exclude_masked(facts, node, found, k, mask)
    return found


def _product_receptive_fields(
    facts: KnownValues, node: Node, output_index: int
) -> list[OperatorField | None]:
    """Exclude elements with a zero factor, like pixels with zero interpolation weight."""
    found = elementwise_fields(facts, node, output_index)
    for k, name in enumerate(reversed(node.inputs)):
        factors = facts.constant_data(name)
        if factors is not None and factors.any():
            size = np.abs(factors)
            exclude_masked(facts, node, found, k, size > NEGLIGIBLE_WEIGHT * size.max())
    return found


# One triangle of each matrix: the upper if `upper` is 1, else the lower.
TRILU_SHADER = FragmentShader("triangle", """
float source(ivec4 at) {
  int e = ((at.x * u.o.nchw.y + at.y) * u.o.nchw.z + at.z) * u.o.nchw.w + at.w;
  int line = e / u_columns, beyond = e - line * u_columns - line % u_rows - u_diagonal;
  return (u_upper == 1 ? beyond >= 0 : beyond <= 0) ? flat_element(x0, u.x[0], e) : 0.0;
}
""" + shader_source("pixel_from_elements.glsl") + shader_source("pixel_loop_main.glsl"),
    has_pixel_function=False, uniform_slots="int rows, columns, diagonal, upper")  # fmt: skip


def _diagonal(facts: KnownValues, node: Node) -> int:
    (first,) = constant_ints(facts, node, 1) or (0,)
    return max(-(2**24), min(first, 2**24))  # beyond every matrix; in ONNX it has 64 bits


def _lower_trilu(b: Builder, node: Node) -> None:
    x = b.stored_tensor(node.inputs[0])
    rows, columns = b.shape(node.inputs[0])[-2:]
    output = b.create_scratch_tensor(b.layout(x.layout.nchw), x)
    numbers = {"diagonal": _diagonal(b, node), "upper": int_attr(node, "upper", 1)}
    b.draw(
        TRILU_SHADER,
        output,
        [x],
        uniforms={"rows": rows, "columns": columns, **numbers},
        fetches=16,
    )
    b.bind(node.outputs[0], output)


def _trilu_receptive_fields(
    facts: KnownValues, node: Node, output_index: int
) -> list[OperatorField | None]:
    """Exclude elements that the triangle sets to zero."""
    *others, rows, columns = facts.shape(node.inputs[0])
    beyond = np.arange(columns) - np.arange(rows)[:, None] - _diagonal(facts, node)
    kept = beyond >= 0 if int_attr(node, "upper", 1) else beyond <= 0
    found = [*elementwise_fields(facts, node, output_index)[:1], *[None] * (len(node.inputs) - 1)]
    exclude_masked(facts, node, found, 0, np.broadcast_to(kept, (*others, rows, columns)))
    return found


def _trilu_formula(facts: KnownValues, node: Node) -> str:
    sign = ">=" if int_attr(node, "upper", 1) else "<="
    return f"where(column - row {sign} {_diagonal(facts, node)}, x, 0)"


def _predicate_operator(name: str, doc: str, function: str, formula: str) -> Operator:
    lower, told = _FunctionLowering(function), attribute_formula(formula)
    return elementwise_operator(
        name, doc, lower, shapes=same_shape, check=no_problem, explanation="elementwise",
        formula=told, gradient=slopes.NO_BOOLEAN_GRADIENT_REASON,
    )  # fmt: skip


def _modulo_formula(_facts: KnownValues, node: Node) -> str:
    whole = "sign(a / b) * floor(abs(a / b))" if int_attr(node, "fmod", 0) else "floor(a / b)"
    return f"a - b * {whole}"


def _is_inf_formula(_facts: KnownValues, node: Node) -> str:
    low, high = (int_attr(node, f"detect_{name}", 1) for name in ("negative", "positive"))
    return f"where(abs(a) == inf, where(a < 0, {low}, {high}), 0)"


OPERATORS = [
    binary_operator("Add", "Adds two tensors.", ADD_GLSL, role="merges", explanation="sum",
        caption="+",
                    wrapping_operator="+", gradient=slopes.add),
    binary_operator("Sub", "Subtracts the second tensor from the first.",
                    _binary_glsl("return a - b;"),
                    role="merges", sign="-", wrapping_operator="-", caption="−",
                    gradient=slopes.subtract),
    binary_operator("Mul", "Multiplies two tensors element by element.", MULTIPLY_GLSL,
        role="merges",
                    receptive_field=_product_receptive_fields, sign="*", wrapping_operator="*",
                    caption="×",
                    gradient=slopes.multiply),
    binary_operator("Div", "Divides the first tensor by the second; integers toward zero.",
        DIVIDE_GLSL,
                    _per_lane("quotient", QUOTIENT_GLSL), role="merges", sign="/", caption="÷",
                    gradient=slopes.divide),
    binary_operator("Pow", "Raises the first tensor to the power of the second.",
                    _per_lane("power", POWER_GLSL), formula="a ** b", gradient=slopes.power),
    elementwise_operator("Mod",
                         "The remainder of a division; the sign is the divisor's (fmod=1: the "
                         "other).",
                         _lower_modulo, attributes={"fmod": one_of(0, 1)},
                         explanation="elementwise",
                         formula=_modulo_formula, gradient=slopes.modulo),
    elementwise_operator("Sum", "Adds any number of tensors.", _lower_variadic(ADD_GLSL), "merges",
                         explanation="sum", caption="+", gradient=slopes.add),
    elementwise_operator("Mean", "The mean of any number of tensors.",
                         _lower_variadic(ADD_GLSL, mean=True), "merges",
                         explanation=_variadic_explanation,
                         formula=_variadic_formula("{} + {}", "({}) / {}"), gradient=slopes.mean),
    elementwise_operator("Max", "The largest of any number of tensors, element by element.",
                         _lower_variadic(_binary_glsl("return larger(a, b);", NAN_GLSL)),
                         "merges", explanation=_variadic_explanation,
                         formula=_variadic_formula("max({}, {})"), gradient=slopes.max_min),
    elementwise_operator("Min", "The smallest of any number of tensors, element by element.",
                         _lower_variadic(_binary_glsl("return smaller(a, b);", NAN_GLSL)),
                         "merges", explanation=_variadic_explanation,
                         formula=_variadic_formula("min({}, {})"), gradient=slopes.max_min),
    Operator("PRelu", "Like LeakyRelu, with a learned slope, mostly one per channel.", _shape,
             _FunctionLowering(PRELU_GLSL), {}, _prelu_problem, role="follows",
             receptive_field=elementwise_fields, explanation="slope",
             formula=attribute_formula("where(x < 0, slope * x, x)"), bounds=None, caption="PReLU",
             shape_inputs=(), gradient=slopes.glsl_rule(
                 "return select(greaterThan(a, vec4(0.0)), c, b * c);",
                 "return select(greaterThan(a, vec4(0.0)), vec4(0.0), a * c);")),
    comparison_operator("Equal", "1 where both are equal.", _comparison_glsl("equal"),
                        formula="where(a == b, 1, 0)"),
    comparison_operator("Greater", "1 where the first is greater.",
                        _comparison_glsl("greaterThan"), formula="where(a > b, 1, 0)"),
    comparison_operator("GreaterOrEqual", "1 where the first is not less.",
                        _comparison_glsl("greaterThanEqual"), formula="where(a >= b, 1, 0)"),
    comparison_operator("Less", "1 where the first is less.", _comparison_glsl("lessThan"),
                        formula="where(a < b, 1, 0)"),
    comparison_operator("LessOrEqual", "1 where the first is at most the second.",
                        _comparison_glsl("lessThanEqual"), formula="where(a <= b, 1, 0)"),
    comparison_operator("And", "1 where both are true.", _binary_glsl("return a * b;"),
                        formula="a * b"),
    comparison_operator("Or", "1 where either is true.", _binary_glsl("return max(a, b);"),
                        formula="max(a, b)"),
    comparison_operator("Xor", "1 where only one is true.", _binary_glsl("return abs(a - b);"),
                        formula="abs(a - b)"),
    binary_operator("Where", "The second tensor where the first is true, else the third.",
        WHERE_GLSL,
                    receptive_field=_where_receptive_fields, formula="where(a != 0, b, c)",
                    gradient=slopes.where),
    _predicate_operator("Not", "1 where the input is false.", _unary_glsl("return 1.0 - a;"),
                        "1 - a"),
    _predicate_operator("IsNaN", "1 where the input is not a number.",
                        _unary_glsl("return select(is_nan(a), vec4(1.0), vec4(0.0));",
                                        NAN_GLSL),
                        "where(a == a, 0, 1)"),
    elementwise_operator("IsInf", "1 where the input is infinite.", _lower_is_inf,
                         shapes=same_shape,
                         attributes={"detect_negative": one_of(0, 1),
                                     "detect_positive": one_of(0, 1)},
                         check=no_problem, explanation="elementwise", formula=_is_inf_formula,
                         gradient=slopes.NO_BOOLEAN_GRADIENT_REASON),
    Operator("Trilu", "Keeps each matrix above or below a diagonal; the rest becomes 0.",
             same_shape, _lower_trilu, {"upper": one_of(0, 1)}, constant_input_check(1, "k"),
             role="follows",
             receptive_field=_trilu_receptive_fields, explanation="pointwise",
             formula=_trilu_formula,
             bounds=None, caption=None, shape_inputs=(1,), gradient=slopes.trilu),
]  # fmt: skip
