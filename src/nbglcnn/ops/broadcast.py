"""Functions of several tensors with NumPy's broadcasting: arithmetic, comparisons, logic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.glsl import Kernel, shader
from nbglcnn.codegen.slots import Part
from nbglcnn.graph import Node
from nbglcnn.ops import broadcast_gradient as slopes
from nbglcnn.ops.elementwise import Operand, broadcast_shape, combine, named
from nbglcnn.ops.masks import leave_out
from nbglcnn.ops.movement import needs_constant
from nbglcnn.ops.operator import (
    Allowed,
    Facts,
    Gradient,
    Operator,
    Shape,
    constant_integers,
    integer,
    no_reason,
    only,
    same_shape,
    written,
)
from nbglcnn.ops.pointwise import SELECT
from nbglcnn.ops.reach import NOTHING, Linked, Reach, local
from nbglcnn.plan.schema import Explains, Role

NAN = shader("nan.glsl")
WHOLE = shader("quotient.glsl")
REMAINDER = shader("remainder.glsl")
POWER = shader("power.glsl")


def _each(function: str, *helpers: str) -> str:
    """A combine() of two that calls a function of two floats for every lane."""
    lanes = ", ".join(f"{function}(a.{k}, b.{k})" for k in "xyzw")
    return "\n".join([*helpers, f"vec4 combine(vec4 a, vec4 b) {{ return vec4({lanes}); }}"])


def _two(body: str, *helpers: str) -> str:
    return "\n".join([SELECT, *helpers, f"vec4 combine(vec4 a, vec4 b) {{ {body} }}"])


def _one(body: str, *helpers: str) -> str:
    return "\n".join([SELECT, *helpers, f"vec4 combine(vec4 a) {{ {body} }}"])


ADD = _two("return a + b;")
MULTIPLY = _two("return a * b;")
DIVIDE = _two("return a / b;")
SCALE = Part(_one("return a / u_count;"), "float count")


def _shape(facts: Facts, node: Node) -> Sequence[Shape]:
    return [broadcast_shape(*(facts.shape(value) for value in node.inputs))]


def _problem(facts: Facts, node: Node) -> str | None:
    try:
        _shape(facts, node)
    except ValueError as error:
        return str(error)
    return None


def whole_numbers(b: Builder, value: str) -> bool:
    """Whether a value holds integers (stored as floats)."""
    return b.graph.values[value].dtype.kind in "iu"


@dataclass(frozen=True, slots=True)
class _Functions:
    """The function for floats and, where it differs, the one for integers.

    `wrapping` is the operator of GLSL's integers, for types of up to 32 bits: what overflows wraps
    around, as in PyTorch and ONNX Runtime.
    """

    floats: str
    integers: str = ""
    wrapping: str = ""

    def __call__(self, b: Builder, node: Node) -> None:
        """Lower a node: one pass."""
        whole = bool(self.integers) and whole_numbers(b, node.inputs[0])
        function = self.integers if whole else self.floats
        if self.wrapping and (own := _WRAPPED.get(b.graph.values[node.inputs[0]].dtype.name)):
            function = own.format(sign=self.wrapping)
        combine(b, named(b, *node.inputs), function, value=node.outputs[0])


# Of signed integers; 2147483520 is the largest float below 2^31. Shifts repeat the sign.
_SIGNED = (
    "ivec4 exact(vec4 v) {{ return ivec4(min(v, vec4(2147483520.0))); }}\n"
    "vec4 combine(vec4 a, vec4 b) {{ return vec4((exact(a) {sign} exact(b)) << %d >> %d); }}"
)
_UNSIGNED = "vec4 combine(vec4 a, vec4 b) {{ return vec4((uvec4(a) {sign} uvec4(b)) & %du); }}"
_WRAPPED: Mapping[str, str] = {
    **{f"int{bits}": _SIGNED % (32 - bits, 32 - bits) for bits in (8, 16, 32)},
    **{f"uint{bits}": _UNSIGNED % (2**bits - 1) for bits in (8, 16)},
}


def _factor(facts: Facts, node: Node) -> tuple[int, float] | None:
    """Which input is one number, the same everywhere and known now, and it; None if neither is."""
    output = broadcast_shape(*(facts.shape(value) for value in node.inputs))
    for position, other in enumerate(reversed(node.inputs)):
        data = facts.constant(node.inputs[position])
        if data is None or data.size != 1 or data.dtype.kind != "f" or not np.isfinite(data).all():
            continue
        if facts.constant(other) is None and facts.shape(other) == output:
            return position, float(data.reshape(()))
    return None


def _by_number(facts: Facts, node: Node) -> Explains:
    """With one number beside a tensor it is a function of one number."""
    return "elementwise" if _factor(facts, node) is None else "pointwise"


def _sign(sign: str) -> Callable[[Facts, Node], str]:
    """The formula of such a function: "x * 0.5", "1.0 - x"; of two tensors "a - b"."""

    def formula(facts: Facts, node: Node) -> str:
        found = _factor(facts, node)
        if found is None:
            return f"a {sign} b"
        position, number = found
        return f"{number!r} {sign} x" if position == 0 else f"x {sign} {number!r}"

    return formula


NAMES = "abcdefghijklmnopqrstuvw"  # operands in a formula; x is another number


def _several(facts: Facts, node: Node) -> Explains:
    return "elementwise" if len(node.inputs) <= len(NAMES) else "nothing"


def _folded(start: str, last: str = "{}") -> Callable[[Facts, Node], str]:
    """The formula of any number of operands, two at a time."""

    def formula(_facts: Facts, node: Node) -> str:
        text = NAMES[0]
        for name in NAMES[1 : len(node.inputs)]:
            text = start.format(text, name)
        return last.format(text, len(node.inputs))

    return formula


def elementwise(
    name: str,
    doc: str,
    lower: Callable[[Builder, Node], None],
    role: Role = "head",
    *,
    shapes: Callable[[Facts, Node], Sequence[Shape]] = _shape,
    attributes: Mapping[str, Allowed] | None = None,
    check: Callable[[Facts, Node], str | None] = _problem,
    reach: Reach = local,
    explains: Explains | Callable[[Facts, Node], Explains] = "nothing",
    formula: Callable[[Facts, Node], str] | None = None,
    short: str | None = None,
    gradient: Gradient | str,
) -> Operator:
    """An operator that computes each element from one element of each of its inputs."""
    return Operator(
        name, doc, shapes, lower, attributes or {}, check, role=role, reach=reach,
        explains=explains, formula=formula, bounds=None, short=short, shape_inputs=(),
        gradient=gradient,
    )  # fmt: skip


def binary(
    name: str,
    doc: str,
    function: str,
    integers: str = "",
    role: Role = "head",
    *,
    reach: Reach = local,
    explains: Explains = "elementwise",
    sign: str = "",
    wrapping: str = "",
    formula: str = "",
    short: str | None = None,
    gradient: Gradient | str,
) -> Operator:
    """An operator of two or three tensors that computes each element by `function`.

    `sign`: how a formula writes it, where one number beside a tensor makes it a function; or
    `formula`: it, in a, b and c. `wrapping`: GLSL's operator for integers of up to 32 bits.
    """
    lower = _Functions(function, integers, wrapping)
    known = _sign(sign) if sign else written(formula) if formula else None
    return elementwise(
        name, doc, lower, role, reach=reach, short=short, gradient=gradient,
        explains=_by_number if sign else explains, formula=known,
    )  # fmt: skip


truths = partial(binary, gradient=slopes.TRUTHS)


def _chain(function: str, mean: bool = False) -> Callable[[Builder, Node], None]:
    """Lower a node of any number of inputs, two a pass."""

    def lower(b: Builder, node: Node) -> None:
        first, *rest = named(b, *node.inputs)
        result = first
        for number, operand in enumerate(rest):
            last = number == len(rest) - 1 and not mean
            shape = broadcast_shape(result.shape, operand.shape)
            value = node.outputs[0] if last else ""
            tensor = combine(b, [result, operand], function, value=value)
            result = Operand(shape, tensor=tensor)
        if mean:
            combine(b, [result], SCALE, value=node.outputs[0], numbers={"count": len(node.inputs)})
        elif not rest:
            b.bind(node.outputs[0], b.stored(node.inputs[0]))

    return lower


def _modulo(b: Builder, node: Node) -> None:
    function = FMOD if integer(node, "fmod", 0) else MODULO
    combine(b, named(b, *node.inputs), function, value=node.outputs[0])


FMOD = _two("return remainder(a, b);", REMAINDER)
MODULO = _two(
    "vec4 r = remainder(a, b);"
    " return vec4(modulo(r.x, b.x), modulo(r.y, b.y), modulo(r.z, b.z), modulo(r.w, b.w));",
    REMAINDER,
    "float modulo(float r, float b) { return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r; }",
)


def _prelu_problem(facts: Facts, node: Node) -> str | None:
    x, slope = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    if problem := _problem(facts, node):
        return problem
    if broadcast_shape(x, slope) != x:
        return f"a slope of shape {slope} cannot be broadcast to the input's {x}"
    return None


def _infinite(b: Builder, node: Node) -> None:
    wanted = {name: integer(node, f"detect_{name}", 1) for name in ("positive", "negative")}
    combine(b, named(b, node.inputs[0]), ISINF, value=node.outputs[0], numbers=wanted)


ISINF = Part(
    _one(
        "return select(is_inf(a), select(lessThan(a, vec4(0.0)), vec4(u_negative),"
        " vec4(u_positive)), vec4(0.0));",
        NAN,
    ),
    "float positive, negative",
)


def _test(condition: str) -> str:
    return _two(f"return select({condition}(a, b), vec4(1.0), vec4(0.0));")


PRELU = _two("return select(lessThan(a, vec4(0.0)), a * b, a);")
WHERE = "\n".join([
    SELECT,
    "vec4 combine(vec4 a, vec4 b, vec4 c) { return select(notEqual(a, vec4(0.0)), b, c); }",
])  # fmt: skip


def _chosen(facts: Facts, node: Node, position: int) -> list[Linked | None]:
    """What a condition that is known leaves out is not read."""
    found, known = local(facts, node, position), facts.constant(node.inputs[0])
    if known is not None:
        condition = known.astype(bool)
        for k, mask in ((1, condition), (2, ~condition)):
            leave_out(facts, node, found, k, mask)
    return found


def _scaled(facts: Facts, node: Node, position: int) -> list[Linked | None]:
    """What is multiplied by zeros is not read, as a pixel that interpolation leaves out."""
    found = local(facts, node, position)
    for k, name in enumerate(reversed(node.inputs)):
        factors = facts.constant(name)
        if factors is not None and factors.any():
            size = np.abs(factors)
            leave_out(facts, node, found, k, size > NOTHING * size.max())
    return found


# A part of each matrix: above the diagonal where `upper` is 1, else below.
TRIANGLE = Kernel("triangle", """
float source(ivec4 at) {
  int e = ((at.x * u.o.nchw.y + at.y) * u.o.nchw.z + at.z) * u.o.nchw.w + at.w;
  int line = e / u_columns, beyond = e - line * u_columns - line % u_rows - u_diagonal;
  return (u_upper == 1 ? beyond >= 0 : beyond <= 0) ? flat_element(x0, u.x[0], e) : 0.0;
}
""" + shader("elements.glsl") + shader("pixels.glsl"), pixel=False,
    slots="int rows, columns, diagonal, upper")  # fmt: skip


def _diagonal(facts: Facts, node: Node) -> int:
    (first,) = constant_integers(facts, node, 1) or (0,)
    return max(-(2**24), min(first, 2**24))  # behind every matrix; ONNX has 64 bits for it


def _triangle(b: Builder, node: Node) -> None:
    x = b.stored(node.inputs[0])
    rows, columns = b.shape(node.inputs[0])[-2:]
    output = b.scratch(b.layout(x.layout.nchw), x)
    numbers = {"diagonal": _diagonal(b, node), "upper": integer(node, "upper", 1)}
    b.draw(TRIANGLE, output, [x], numbers={"rows": rows, "columns": columns, **numbers}, fetches=16)
    b.bind(node.outputs[0], output)


def _triangle_reach(facts: Facts, node: Node, position: int) -> list[Linked | None]:
    """Zeros are not read."""
    *others, rows, columns = facts.shape(node.inputs[0])
    beyond = np.arange(columns) - np.arange(rows)[:, None] - _diagonal(facts, node)
    kept = beyond >= 0 if integer(node, "upper", 1) else beyond <= 0
    found = [*local(facts, node, position)[:1], *[None] * (len(node.inputs) - 1)]
    leave_out(facts, node, found, 0, np.broadcast_to(kept, (*others, rows, columns)))
    return found


def _triangle_formula(facts: Facts, node: Node) -> str:
    sign = ">=" if integer(node, "upper", 1) else "<="
    return f"where(column - row {sign} {_diagonal(facts, node)}, x, 0)"


def _unary(name: str, doc: str, function: str, formula: str) -> Operator:
    lower, told = _Functions(function), written(formula)
    return elementwise(
        name, doc, lower, shapes=same_shape, check=no_reason, explains="elementwise", formula=told,
        gradient=slopes.TRUTHS,
    )  # fmt: skip


def _modulo_formula(_facts: Facts, node: Node) -> str:
    whole = "sign(a / b) * floor(abs(a / b))" if integer(node, "fmod", 0) else "floor(a / b)"
    return f"a - b * {whole}"


def _infinite_formula(_facts: Facts, node: Node) -> str:
    low, high = (integer(node, f"detect_{name}", 1) for name in ("negative", "positive"))
    return f"where(abs(a) == inf, where(a < 0, {low}, {high}), 0)"


OPERATORS = [
    binary("Add", "Adds two tensors.", ADD, role="merges", explains="sum", short="+",
           wrapping="+", gradient=slopes.add),
    binary("Sub", "Subtracts the second tensor from the first.", _two("return a - b;"),
           role="merges", sign="-", wrapping="-", short="−", gradient=slopes.subtract),
    binary("Mul", "Multiplies two tensors element by element.", MULTIPLY, role="merges",
           reach=_scaled, sign="*", wrapping="*", short="×", gradient=slopes.multiply),
    binary("Div", "Divides the first tensor by the second; integers toward zero.", DIVIDE,
           _each("quotient", WHOLE), role="merges", sign="/", short="÷", gradient=slopes.divide),
    binary("Pow", "Raises the first tensor to the power of the second.", _each("power", POWER),
           formula="a ** b", gradient=slopes.power),
    elementwise("Mod",
                "The remainder of a division; the sign is the divisor's (fmod=1: the other).",
                _modulo, attributes={"fmod": only(0, 1)}, explains="elementwise",
                formula=_modulo_formula, gradient=slopes.modulo),
    elementwise("Sum", "Adds any number of tensors.", _chain(ADD), "merges", explains="sum",
                short="+", gradient=slopes.add),
    elementwise("Mean", "The mean of any number of tensors.", _chain(ADD, mean=True), "merges",
                explains=_several, formula=_folded("{} + {}", "({}) / {}"),
                gradient=slopes.mean),
    elementwise("Max", "The largest of any number of tensors, element by element.",
                _chain(_two("return larger(a, b);", NAN)), "merges", explains=_several,
                formula=_folded("max({}, {})"), gradient=slopes.extreme),
    elementwise("Min", "The smallest of any number of tensors, element by element.",
                _chain(_two("return smaller(a, b);", NAN)), "merges", explains=_several,
                formula=_folded("min({}, {})"), gradient=slopes.extreme),
    Operator("PRelu", "Like LeakyRelu, with a learned slope, mostly one per channel.", _shape,
             _Functions(PRELU), {}, _prelu_problem, role="follows", reach=local, explains="slope",
             formula=written("where(x < 0, slope * x, x)"), bounds=None, short="PReLU",
             shape_inputs=(), gradient=slopes.each(
                 "return select(greaterThan(a, vec4(0.0)), c, b * c);",
                 "return select(greaterThan(a, vec4(0.0)), vec4(0.0), a * c);")),
    truths("Equal", "1 where both are equal.", _test("equal"), formula="where(a == b, 1, 0)"),
    truths("Greater", "1 where the first is greater.", _test("greaterThan"),
           formula="where(a > b, 1, 0)"),
    truths("GreaterOrEqual", "1 where the first is not less.", _test("greaterThanEqual"),
           formula="where(a >= b, 1, 0)"),
    truths("Less", "1 where the first is less.", _test("lessThan"), formula="where(a < b, 1, 0)"),
    truths("LessOrEqual", "1 where the first is at most the second.", _test("lessThanEqual"),
           formula="where(a <= b, 1, 0)"),
    truths("And", "1 where both are true.", _two("return a * b;"), formula="a * b"),
    truths("Or", "1 where one of both is true.", _two("return max(a, b);"), formula="max(a, b)"),
    truths("Xor", "1 where one alone is true.", _two("return abs(a - b);"), formula="abs(a - b)"),
    binary("Where", "The second tensor where the first is true, else the third.", WHERE,
           reach=_chosen, formula="where(a != 0, b, c)", gradient=slopes.where),
    _unary("Not", "1 where the input is false.", _one("return 1.0 - a;"), "1 - a"),
    _unary("IsNaN", "1 where the input is not a number.",
           _one("return select(is_nan(a), vec4(1.0), vec4(0.0));", NAN),
           "where(a == a, 0, 1)"),
    elementwise("IsInf", "1 where the input is infinite.", _infinite, shapes=same_shape,
                attributes={"detect_negative": only(0, 1), "detect_positive": only(0, 1)},
                check=no_reason, explains="elementwise", formula=_infinite_formula,
                gradient=slopes.TRUTHS),
    Operator("Trilu", "Keeps each matrix above or below a diagonal; the rest becomes 0.",
             same_shape, _triangle, {"upper": only(0, 1)}, needs_constant(1, "k"), role="follows",
             reach=_triangle_reach, explains="pointwise", formula=_triangle_formula, bounds=None,
             short=None, shape_inputs=(1,), gradient=slopes.triangle),
]  # fmt: skip
