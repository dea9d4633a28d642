"""Reductions over any axes, in as many stages as keep each fragment's loop short."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import Kernel, shader
from nbglcnn.codegen.slots import Part
from nbglcnn.graph import Node
from nbglcnn.ops import reduce_gradient as gradients
from nbglcnn.ops.axes import merged, nchw_flags
from nbglcnn.ops.elementwise import Operand, named
from nbglcnn.ops.operator import (
    Facts,
    Gradient,
    Operator,
    Shape,
    anything,
    axis_of,
    constant_integers,
    has_input,
    integer,
    normal_axes,
    only,
    size,
)
from nbglcnn.ops.pointwise import POWERS, SELECT
from nbglcnn.ops.reach import mixing
from nbglcnn.ops.strided import gather, moved, whole
from nbglcnn.plan.layout import NCHW, Layout, nchw_of
from nbglcnn.plan.schema import Explains, Move

REDUCE = Kernel("reduce", shader("reduce.glsl"), slots="ivec4 boxes, steps, kept; float joined")
HELPERS = "\n".join([SELECT, POWERS, shader("nan.glsl"), shader("reduce_kinds.glsl")])
SHORT, LONG = (
    64,
    512,
)  # reads of one fragment: what a single stage may take, what a stage aims at most

SUM = "vec4 join(vec4 a, vec4 b) { return a + b; }"
ZERO = "#define START vec4(0.0)"


@dataclass(frozen=True, slots=True)
class Kind:
    """What a reduction computes, in GLSL: `map` runs in the first stage, `finish` in the last.

    In `finish` u_joined is the number of elements that were joined; `slots` are the caller's. A
    kind that is `anchored` is given the first of the elements that are joined.
    """

    map: str = "v"
    join: str = SUM
    start: str = ZERO
    finish: str = "v"
    anchored: bool = False
    slots: str = ""

    def part(self, first: bool) -> Part:
        """The functions of one stage."""
        text = "\n".join([
            HELPERS, self.start, self.join,
            f"vec4 map(vec4 v, vec4 given, vec4 index) {{ return {self.map if first else 'v'}; }}",
            f"vec4 finish(vec4 v, vec4 given) {{ return {self.finish}; }}",
        ])  # fmt: skip
        return Part(text, self.slots)


def _constant(name: str, bits: str) -> str:
    return f"#define {name} vec4(uintBitsToFloat({bits}))"


LARGEST = Kind(join="vec4 join(vec4 a, vec4 b) { return larger(a, b); }",
               start=_constant("START", "0xff800000u"))  # fmt: skip
SMALLEST = Kind(join="vec4 join(vec4 a, vec4 b) { return smaller(a, b); }",
                start=_constant("START", "0x7f800000u"))  # fmt: skip
DEVIATION = "(v - given) * (v - given)"
VARIANCE = Kind(DEVIATION, finish="v / u_joined")
KINDS = {
    "sum": Kind(),
    # Of what is left after the first element: a sum of numbers around 1000 would lose the digits
    # in which they differ.
    "mean": Kind("v - anchor(given)", finish="v / u_joined + anchor(given)", anchored=True),
    "max": LARGEST,
    "min": SMALLEST,
    "prod": Kind(
        join="vec4 join(vec4 a, vec4 b) { return a * b; }", start="#define START vec4(1.0)"
    ),
    "l1": Kind("abs(v)"),
    "l2": Kind("v * v", finish="sqrt(v)"),
    "log sum": Kind(finish="logarithm(v)"),
    "sum square": Kind("v * v"),
    "inverse root mean square": Kind(
        "v * v", finish="1.0 / sqrt(v / u_joined + u_epsilon)", slots="float epsilon"
    ),
    # Of sums over more elements than are joined here, `count` of them:
    "inverse root of sums": Kind(
        finish="1.0 / sqrt(v / u_count + u_epsilon)", slots="float count, epsilon"
    ),
    # Given the largest:
    "sum exp": Kind("power(v - given)"),
    "log sum exp": Kind("power(v - finite(given))", finish="logarithm(v) + finite(given)"),
    "first index": replace(SMALLEST, map="chosen(v, given, index, 0x7f800000u)"),
    "last index": replace(LARGEST, map="chosen(v, given, index, 0xff800000u)"),
    # Given the mean:
    "deviation": Kind(DEVIATION, finish="sqrt(v / u_joined)"),
    "inverse deviation": Kind(
        DEVIATION, finish="1.0 / sqrt(v / u_joined + u_epsilon)", slots="float epsilon"
    ),
    "sum of deviations": Kind(DEVIATION),
}


def reduce_frame(
    b: Builder,
    x: Tensor,
    axes: Sequence[int],
    kind: Kind | str,
    *,
    given: Tensor | None = None,
    numbers: Mapping[str, float] = {},
    steps: Sequence[int] = (0, 0, 0, 0),
    value: str = "",
) -> Tensor:
    """Reduce `x` over axes of its nchw (0 to 3 for n, c, h, w); the result has length 1 there.

    `given` has the result's nchw and is what the kind's `map` and `finish` call given. `steps`
    make the index that `map` sees: what a step along each axis of the nchw adds to it. The result
    is bound to `value` when that is given.
    """
    kind = KINDS[kind] if isinstance(kind, str) else kind
    count = math.prod(x.layout.nchw[axis] for axis in axes)
    if kind.anchored:
        given = x
    kept_axes = [int(axis not in axes) for axis in range(4)]
    first = True
    while True:
        boxes, last = _boxes(x.layout, axes)
        n, c, h, w = (-(-d // box) for d, box in zip(_units(x.layout), boxes, strict=True))
        channels = 1 in axes
        kept = 4 * c if channels and not last else 1 if channels else x.layout.nchw[1]
        nchw: NCHW = (n, kept, h, w)
        output = b.scratch(b.layout(nchw))
        use_given = given is not None and (first or "given" in kind.finish)
        b.draw(
            REDUCE, output, [x, *([given] if given is not None and use_given else [])],
            numbers={"boxes": boxes, "steps": steps, "kept": kept_axes, "joined": count, **numbers},
            constants={"GIVEN": int(use_given), "CHANNELS": int(channels), "LAST": int(last)},
            parts=[kind.part(first)],
            fetches=math.prod(boxes) * math.prod(output.layout.block),
        )  # fmt: skip
        x, first = output, False
        if last:
            break
    if value:
        b.bind(value, x)
    return x


def _units(layout: Layout) -> tuple[int, int, int, int]:
    n, _, h, w = layout.nchw
    return n, layout.groups, h, w


def _boxes(layout: Layout, axes: Sequence[int]) -> tuple[list[int], bool]:
    """How long a box one stage joins along n, groups, h and w, and whether that was all."""
    units = _units(layout)
    whole = [d if axis in axes else 1 for axis, d in enumerate(units)]
    reads = math.prod(whole)
    if reads <= SHORT:
        return whole, True
    room = min(LONG, max(SHORT, math.isqrt(reads - 1) + 1))
    boxes = [1, 1, 1, 1]
    for axis in (3, 2, 1, 0):
        # Equal shares: 130 of at most 64 are three boxes of 44.
        shares = -(-whole[axis] // room)
        boxes[axis] = -(-whole[axis] // shares)
        room = room // boxes[axis] if shares == 1 else 1
        if room <= 1:
            break
    return boxes, boxes == whole


def lying_for(b: Builder, x: Operand, axes: Sequence[int]) -> tuple[Tensor, tuple[int, ...]]:
    """A tensor in an nchw with axes of its own for `axes` of the shape, and which they are.

    That is the nchw it lies in where possible; the result of a reduction over them then has
    the elements of the reduced shape in row-major order.
    """
    flags = [axis in axes for axis in range(len(x.shape))]
    joined = merged(x.shape, [(flag,) for flag in flags])
    candidates = [x.stored(b).layout.nchw, nchw_of(x.shape)]
    if len(joined) <= 4:
        candidates.append(nchw_of(joined))
    for nchw in candidates:
        found = nchw_flags(x.shape, flags, nchw)
        if found is not None:
            return x.lying(b, nchw), tuple(axis for axis, flag in enumerate(found) if flag)
    # Kept and reduced axes alternate too often: the reduced ones go to the end.
    order = [k for k, flag in enumerate(flags) if not flag] + [
        k for k, flag in enumerate(flags) if flag
    ]
    view = whole(x.shape).transposed(order)
    reduced = math.prod(x.shape[axis] for axis in axes)
    nchw = (1, size(x.shape) // reduced, 1, reduced)
    return gather(b, x.stored(b), nchw, view.sizes, view.strides), (3,)


# What a reduction of no elements gives where it isn't 0.
OF_NOTHING = {
    "mean": math.nan,
    "max": -math.inf,
    "min": math.inf,
    "prod": 1.0,
    "log sum": -math.inf,
    "log sum exp": -math.inf,
}


def reduced_shape(shape: Shape, axes: Sequence[int], keepdims: bool) -> Shape:
    """The shape that a reduction leaves."""
    if keepdims:
        return tuple(1 if axis in axes else d for axis, d in enumerate(shape))
    return tuple(d for axis, d in enumerate(shape) if axis not in axes)


def _axes(facts: Facts, node: Node) -> tuple[int, ...]:
    rank = len(facts.shape(node.inputs[0]))
    axes = constant_integers(facts, node, 1)
    if not axes:
        return () if integer(node, "noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted(set(normal_axes(axes, rank))))


def _shape(facts: Facts, node: Node) -> Sequence[Shape]:
    shape = facts.shape(node.inputs[0])
    return [reduced_shape(shape, _axes(facts, node), bool(integer(node, "keepdims", 1)))]


def _problem(facts: Facts, node: Node) -> str | None:
    if has_input(node, 1) and facts.constant(node.inputs[1]) is None:
        return "its axes are computed while the network runs; they must be constant"
    rank = len(facts.shape(node.inputs[0]))
    axes = constant_integers(facts, node, 1) or ()
    if any(not -rank <= axis < rank for axis in axes):
        return f"axes {axes} of an input of {rank} axes"
    return None


@dataclass(frozen=True, slots=True)
class _Reduction:
    kind: str

    def __call__(self, b: Builder, node: Node) -> None:
        """Lower a node: the stages of one reduction, or of two where the largest goes first."""
        (operand,) = named(b, node.inputs[0])
        if not size(operand.shape):
            b.fill(node.outputs[0], OF_NOTHING.get(self.kind, 0.0))
            return
        x, axes = lying_for(b, operand, _axes(b, node))
        given = reduce_frame(b, x, axes, "max") if self.kind == "log sum exp" else None
        reduce_frame(b, x, axes, self.kind, given=given, value=node.outputs[0])


def index_steps(nchw: NCHW, axes: Sequence[int]) -> list[int]:
    """What a step along each axis of the nchw adds to the index along the axes that are joined."""
    steps = [0, 0, 0, 0]
    along = 1
    for axis in sorted(axes, reverse=True):
        steps[axis] = along
        along *= nchw[axis]
    return steps


def extreme_index(
    b: Builder,
    x: Operand,
    axis: int,
    *,
    smallest: bool = False,
    last: bool = False,
    value: str = "",
) -> Tensor:
    """Where along an axis of the shape the largest (smallest) element is; NaN counts as that."""
    tensor, axes = lying_for(b, x, [axis])
    steps = index_steps(tensor.layout.nchw, axes)
    given = reduce_frame(b, tensor, axes, "min" if smallest else "max")
    kind = "last index" if last else "first index"
    return reduce_frame(b, tensor, axes, kind, given=given, steps=steps, value=value)


def _arg(smallest: bool):  # type: ignore[no-untyped-def]
    def lower(b: Builder, node: Node) -> None:
        (x,) = named(b, node.inputs[0])
        axis = axis_of(b, node, 0)
        last = bool(integer(node, "select_last_index", 0))
        extreme_index(b, x, axis, smallest=smallest, last=last, value=node.outputs[0])

    return lower


def _arg_shape(facts: Facts, node: Node) -> Sequence[Shape]:
    shape = facts.shape(node.inputs[0])
    axes = (axis_of(facts, node, 0),)
    return [reduced_shape(shape, axes, bool(integer(node, "keepdims", 1)))]


def _arg_problem(facts: Facts, node: Node) -> str | None:
    shape, axis = facts.shape(node.inputs[0]), integer(node, "axis", 0)
    if not -len(shape) <= axis < len(shape):
        return f"axis={axis} of an input of shape {shape}"
    if 0 in shape:
        return f"an input without elements, of shape {shape}"
    return None


def _axis(facts: Facts, node: Node) -> Sequence[int]:
    return (axis_of(facts, node, 0),)


def _reads(facts: Facts, node: Node) -> tuple[Shape, Move] | None:
    """All that is joined as one map; None where that is so, as of adaptive pools to one pixel."""
    source, shape = facts.shape(node.inputs[0]), facts.shape(node.outputs[0])
    if len(source) > 2 and shape in (source[:2], (*source[:2], *(1 for _ in source[2:]))):
        return None
    axes = _axes(facts, node)
    order = [*(k for k in range(len(source)) if k not in axes), *axes]
    joined = math.prod(source[k] for k in axes)
    view = whole(source).transposed(order)
    return (1, size(source) // max(joined, 1), joined), moved(view)


def _reduction(
    name: str,
    doc: str,
    kind: str,
    explains: Explains = "nothing",
    *,
    gradient: Gradient | str,
) -> Operator:
    attributes = {"keepdims": only(0, 1), "noop_with_empty_axes": only(0, 1)}
    return Operator(
        name, doc, _shape, _Reduction(kind), attributes, _problem, empty=True, role="head",
        reads=_reads, reach=mixing(_axes), explains=explains, formula=None, bounds=None, short=None,
        shape_inputs=(1,), gradient=gradient,
    )  # fmt: skip


def _index(name: str, doc: str, smallest: bool) -> Operator:
    attributes = {"axis": anything, "keepdims": only(0, 1), "select_last_index": only(0, 1)}
    return Operator(
        name, doc, _arg_shape, _arg(smallest), attributes, _arg_problem, role="head",
        reach=mixing(_axis), explains="nothing", formula=None, bounds=None, short=None,
        shape_inputs=(), gradient=gradients.PLACES,
    )  # fmt: skip


OPERATORS = [
    _reduction("ReduceSum", "The sum along axes.", "sum", "sum pool",
               gradient=gradients.spread(_axes)),
    _reduction("ReduceMean", "The mean along axes.", "mean", "mean pool",
               gradient=gradients.spread(_axes, mean=True)),
    _reduction("ReduceMax", "The largest element along axes.", "max", "max pool",
               gradient=gradients.extremes(_axes)),
    _reduction("ReduceMin", "The smallest element along axes.", "min",
               gradient=gradients.extremes(_axes)),
    _reduction("ReduceProd", "The product along axes.", "prod",
               gradient=gradients.rule(_axes, gradients.product)),
    _reduction("ReduceL1", "The sum of magnitudes along axes.", "l1",
               gradient=gradients.rule(_axes, gradients.magnitudes)),
    _reduction("ReduceL2", "The length along axes: the root of the sum of squares.", "l2",
               gradient=gradients.rule(_axes, gradients.length)),
    _reduction("ReduceLogSum", "The logarithm of the sum along axes.", "log sum",
               gradient=gradients.rule(_axes, gradients.log_sum)),
    _reduction("ReduceLogSumExp", "The logarithm of the sum of powers of e along axes.",
               "log sum exp", gradient=gradients.rule(_axes, gradients.log_sum_exp)),
    _reduction("ReduceSumSquare", "The sum of squares along axes.", "sum square",
               gradient=gradients.rule(_axes, gradients.squares)),
    _index("ArgMax", "The place of the largest element along an axis.", False),
    _index("ArgMin", "The place of the smallest element along an axis.", True),
]  # fmt: skip
