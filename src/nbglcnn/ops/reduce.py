"""Reductions over any axes, in several stages so that each fragment's loop stays short."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import FragmentShader, shader_source
from nbglcnn.codegen.strided import contiguous_view, gather_strided, view_index_map
from nbglcnn.codegen.uniform_slots import GlslFunction
from nbglcnn.graph import Node
from nbglcnn.ops import reduce_gradient as gradients
from nbglcnn.ops.axes import merged_lengths, nchw_flags
from nbglcnn.ops.elementwise import Operand, operands_of
from nbglcnn.ops.operator import (
    GradientRule,
    KnownValues,
    Operator,
    Shape,
    any_value,
    axis_of,
    constant_ints,
    has_input,
    int_attr,
    normalize_axes,
    numel,
    one_of,
)
from nbglcnn.ops.pointwise import EXP_LOG_GLSL, SELECT_GLSL
from nbglcnn.ops.receptive_field import mixed_axes_fields
from nbglcnn.plan.layout import NCHW, Layout, storage_nchw
from nbglcnn.plan.schema import ExplanationKind, IndexMap

REDUCE_SHADER = FragmentShader(
    "reduce", shader_source("reduce.glsl"), uniform_slots="ivec4 boxes, steps, kept; float joined"
)
REDUCTION_GLSL = "\n".join(
    [SELECT_GLSL, EXP_LOG_GLSL, shader_source("nan.glsl"), shader_source("reduce_kinds.glsl")]
)
# Reads per fragment: limit for a single stage, target per stage of several.
MAX_SINGLE_STAGE_READS, MAX_STAGE_READS = (64, 512)

SUM_GLSL = "vec4 join(vec4 a, vec4 b) { return a + b; }"
ZERO_START_GLSL = "#define START vec4(0.0)"


@dataclass(frozen=True, slots=True)
class ReductionKind:
    """The GLSL of a reduction: `map_glsl` runs in the first stage, `finish_glsl` in the last.

    In `finish_glsl`, u_joined is the number of reduced elements. The caller sets `uniform_slots`.
    If `uses_first_element`, `reference` is the first of the reduced elements.
    """

    map_glsl: str = "v"
    join_glsl: str = SUM_GLSL
    start_glsl: str = ZERO_START_GLSL
    finish_glsl: str = "v"
    uses_first_element: bool = False
    uniform_slots: str = ""

    def stage_function(self, first: bool) -> GlslFunction:
        """The GLSL functions of one stage."""
        text = "\n".join([
            REDUCTION_GLSL, self.start_glsl, self.join_glsl,
            f"vec4 map(vec4 v, vec4 given, vec4 index) "
            f"{{ return {self.map_glsl if first else 'v'}; }}",
            f"vec4 finish(vec4 v, vec4 given) {{ return {self.finish_glsl}; }}",
        ])  # fmt: skip
        return GlslFunction(text, self.uniform_slots)


def _define_constant(name: str, bits: str) -> str:
    return f"#define {name} vec4(uintBitsToFloat({bits}))"


MAX_KIND = ReductionKind(join_glsl="vec4 join(vec4 a, vec4 b) { return larger(a, b); }",
                         start_glsl=_define_constant("START", "0xff800000u"))  # fmt: skip
MIN_KIND = ReductionKind(join_glsl="vec4 join(vec4 a, vec4 b) { return smaller(a, b); }",
                         start_glsl=_define_constant("START", "0x7f800000u"))  # fmt: skip
SQUARED_DEVIATION_GLSL = "(v - given) * (v - given)"
VARIANCE_KIND = ReductionKind(SQUARED_DEVIATION_GLSL, finish_glsl="v / u_joined")
REDUCTION_KINDS = {
    "sum": ReductionKind(),
    # Sum the differences from the first element: a sum of numbers around 1000 would lose the digits
    # in which they differ.
    "mean": ReductionKind(
        "v - anchor(given)", finish_glsl="v / u_joined + anchor(given)", uses_first_element=True
    ),
    "max": MAX_KIND,
    "min": MIN_KIND,
    "prod": ReductionKind(
        join_glsl="vec4 join(vec4 a, vec4 b) { return a * b; }",
        start_glsl="#define START vec4(1.0)",
    ),
    "l1": ReductionKind("abs(v)"),
    "l2": ReductionKind("v * v", finish_glsl="sqrt(v)"),
    "log sum": ReductionKind(finish_glsl="logarithm(v)"),
    "sum square": ReductionKind("v * v"),
    "inverse root mean square": ReductionKind(
        "v * v", finish_glsl="1.0 / sqrt(v / u_joined + u_epsilon)", uniform_slots="float epsilon"
    ),
    # For sums over `count` elements, more than this reduction joins:
    "inverse root of sums": ReductionKind(
        finish_glsl="1.0 / sqrt(v / u_count + u_epsilon)", uniform_slots="float count, epsilon"
    ),
    # `reference` is the maximum:
    "sum exp": ReductionKind("power(v - given)"),
    "log sum exp": ReductionKind(
        "power(v - finite(given))", finish_glsl="logarithm(v) + finite(given)"
    ),
    "first index": replace(MIN_KIND, map_glsl="chosen(v, given, index, 0x7f800000u)"),
    "last index": replace(MAX_KIND, map_glsl="chosen(v, given, index, 0xff800000u)"),
    # `reference` is the mean:
    "deviation": ReductionKind(SQUARED_DEVIATION_GLSL, finish_glsl="sqrt(v / u_joined)"),
    "inverse deviation": ReductionKind(
        SQUARED_DEVIATION_GLSL,
        finish_glsl="1.0 / sqrt(v / u_joined + u_epsilon)",
        uniform_slots="float epsilon",
    ),
    "sum of deviations": ReductionKind(SQUARED_DEVIATION_GLSL),
}


def draw_reduction(
    b: Builder,
    x: Tensor,
    axes: Sequence[int],
    kind: ReductionKind | str,
    *,
    reference: Tensor | None = None,
    uniforms: Mapping[str, float] = {},
    steps: Sequence[int] = (0, 0, 0, 0),
    value: str = "",
) -> Tensor:
    """Reduce `x` over axes of its nchw (0 to 3: n, c, h, w), which get length 1.

    `reference` has the result's nchw; the kind's `map_glsl` and `finish_glsl` read it as
    `reference`. `steps` are the increments, along each axis of the nchw, of the `index` that
    `map_glsl` reads. The result is bound to `value` if `value` isn't empty.
    """
    kind = REDUCTION_KINDS[kind] if isinstance(kind, str) else kind
    count = math.prod(x.layout.nchw[axis] for axis in axes)
    if kind.uses_first_element:
        reference = x
    kept_axes = [int(axis not in axes) for axis in range(4)]
    first = True
    while True:
        boxes, last = _stage_boxes(x.layout, axes)
        n, c, h, w = (-(-d // box) for d, box in zip(_texel_extents(x.layout), boxes, strict=True))
        channels = 1 in axes
        kept = 4 * c if channels and not last else 1 if channels else x.layout.nchw[1]
        nchw: NCHW = (n, kept, h, w)
        output = b.create_scratch_tensor(b.layout(nchw))
        use_given = reference is not None and (first or "given" in kind.finish_glsl)
        b.draw(
            REDUCE_SHADER, output,
            [x, *([reference] if reference is not None and use_given else [])],
            uniforms={"boxes": boxes, "steps": steps, "kept": kept_axes, "joined": count,
                      **uniforms},
            constants={"GIVEN": int(use_given), "CHANNELS": int(channels), "LAST": int(last)},
            functions=[kind.stage_function(first)],
            fetches=math.prod(boxes) * math.prod(output.layout.block),
        )  # fmt: skip
        x, first = output, False
        if last:
            break
    if value:
        b.bind(value, x)
    return x


def _texel_extents(layout: Layout) -> tuple[int, int, int, int]:
    n, _, h, w = layout.nchw
    return n, layout.groups, h, w


def _stage_boxes(layout: Layout, axes: Sequence[int]) -> tuple[list[int], bool]:
    """The box that one stage reduces along n, groups, h and w, and whether it is the last stage."""
    units = _texel_extents(layout)
    whole = [d if axis in axes else 1 for axis, d in enumerate(units)]
    reads = math.prod(whole)
    if reads <= MAX_SINGLE_STAGE_READS:
        return whole, True
    room = min(MAX_STAGE_READS, max(MAX_SINGLE_STAGE_READS, math.isqrt(reads - 1) + 1))
    boxes = [1, 1, 1, 1]
    for axis in (3, 2, 1, 0):
        # Equal boxes: 130 with at most 64 per box makes three boxes of 44.
        shares = -(-whole[axis] // room)
        boxes[axis] = -(-whole[axis] // shares)
        room = room // boxes[axis] if shares == 1 else 1
        if room <= 1:
            break
    return boxes, boxes == whole


def tensor_for_axes(b: Builder, x: Operand, axes: Sequence[int]) -> tuple[Tensor, tuple[int, ...]]:
    """Return a tensor whose nchw separates the `axes` of the shape, and the nchw axes.

    The nchw is the stored one if possible. The result of a reduction over these axes has the
    elements of the reduced shape in row-major order.
    """
    flags = [axis in axes for axis in range(len(x.shape))]
    reduced_count = merged_lengths(x.shape, [(flag,) for flag in flags])
    candidates = [x.stored_tensor(b).layout.nchw, storage_nchw(x.shape)]
    if len(reduced_count) <= 4:
        candidates.append(storage_nchw(reduced_count))
    for nchw in candidates:
        found = nchw_flags(x.shape, flags, nchw)
        if found is not None:
            return x.to_nchw(b, nchw), tuple(axis for axis, flag in enumerate(found) if flag)
    # Kept and reduced axes alternate too often: move the reduced axes to the end.
    order = [k for k, flag in enumerate(flags) if not flag] + [
        k for k, flag in enumerate(flags) if flag
    ]
    view = contiguous_view(x.shape).transposed(order)
    reduced = math.prod(x.shape[axis] for axis in axes)
    nchw = (1, numel(x.shape) // reduced, 1, reduced)
    return gather_strided(b, x.stored_tensor(b), nchw, view.sizes, view.strides), (3,)


# The result of a reduction of no elements, if it isn't 0.
EMPTY_RESULTS = {
    "mean": math.nan,
    "max": -math.inf,
    "min": math.inf,
    "prod": 1.0,
    "log sum": -math.inf,
    "log sum exp": -math.inf,
}


def reduced_shape(shape: Shape, axes: Sequence[int], keepdims: bool) -> Shape:
    """The shape after a reduction."""
    if keepdims:
        return tuple(1 if axis in axes else d for axis, d in enumerate(shape))
    return tuple(d for axis, d in enumerate(shape) if axis not in axes)


def _axes(facts: KnownValues, node: Node) -> tuple[int, ...]:
    rank = len(facts.shape(node.inputs[0]))
    axes = constant_ints(facts, node, 1)
    if not axes:
        return () if int_attr(node, "noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted(set(normalize_axes(axes, rank))))


def _shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    shape = facts.shape(node.inputs[0])
    return [reduced_shape(shape, _axes(facts, node), bool(int_attr(node, "keepdims", 1)))]


def _problem(facts: KnownValues, node: Node) -> str | None:
    if has_input(node, 1) and facts.constant_data(node.inputs[1]) is None:
        return "its axes depend on the input; they must be constant"
    rank = len(facts.shape(node.inputs[0]))
    axes = constant_ints(facts, node, 1) or ()
    if any(not -rank <= axis < rank for axis in axes):
        return f"axes {axes} of an input of {rank} axes"
    return None


@dataclass(frozen=True, slots=True)
class _ReductionLowering:
    kind: str

    def __call__(self, b: Builder, node: Node) -> None:
        """Lower a node: one reduction in stages, or two if the maximum is needed first."""
        (operand,) = operands_of(b, node.inputs[0])
        if not numel(operand.shape):
            b.bind_filled(node.outputs[0], EMPTY_RESULTS.get(self.kind, 0.0))
            return
        x, axes = tensor_for_axes(b, operand, _axes(b, node))
        reference = draw_reduction(b, x, axes, "max") if self.kind == "log sum exp" else None
        draw_reduction(b, x, axes, self.kind, reference=reference, value=node.outputs[0])


def index_steps(nchw: NCHW, axes: Sequence[int]) -> list[int]:
    """The index increments along each axis of the nchw, counted over the reduced axes."""
    steps = [0, 0, 0, 0]
    along = 1
    for axis in sorted(axes, reverse=True):
        steps[axis] = along
        along *= nchw[axis]
    return steps


def draw_arg_extreme(
    b: Builder,
    x: Operand,
    axis: int,
    *,
    find_smallest: bool = False,
    last: bool = False,
    value: str = "",
) -> Tensor:
    """The index of the maximum (minimum) along an axis of the shape; NaN counts as extreme."""
    tensor, axes = tensor_for_axes(b, x, [axis])
    steps = index_steps(tensor.layout.nchw, axes)
    reference = draw_reduction(b, tensor, axes, "min" if find_smallest else "max")
    kind = "last index" if last else "first index"
    return draw_reduction(b, tensor, axes, kind, reference=reference, steps=steps, value=value)


def _lower_arg_extreme(find_smallest: bool):  # type: ignore[no-untyped-def]
    def lower(b: Builder, node: Node) -> None:
        (x,) = operands_of(b, node.inputs[0])
        axis = axis_of(b, node, 0)
        last = bool(int_attr(node, "select_last_index", 0))
        draw_arg_extreme(b, x, axis, find_smallest=find_smallest, last=last, value=node.outputs[0])

    return lower


def _arg_shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    shape = facts.shape(node.inputs[0])
    axes = (axis_of(facts, node, 0),)
    return [reduced_shape(shape, axes, bool(int_attr(node, "keepdims", 1)))]


def _arg_problem(facts: KnownValues, node: Node) -> str | None:
    shape, axis = facts.shape(node.inputs[0]), int_attr(node, "axis", 0)
    if not -len(shape) <= axis < len(shape):
        return f"axis={axis} of an input of shape {shape}"
    if 0 in shape:
        return f"an input without elements, of shape {shape}"
    return None


def _axis(facts: KnownValues, node: Node) -> Sequence[int]:
    return (axis_of(facts, node, 0),)


def _reduction_view(facts: KnownValues, node: Node) -> tuple[Shape, IndexMap] | None:
    """View the reduced elements as one map; None if they are, as in adaptive pools to 1 pixel."""
    source, shape = facts.shape(node.inputs[0]), facts.shape(node.outputs[0])
    if len(source) > 2 and shape in (source[:2], (*source[:2], *(1 for _ in source[2:]))):
        return None
    axes = _axes(facts, node)
    order = [*(k for k in range(len(source)) if k not in axes), *axes]
    reduced_count = math.prod(source[k] for k in axes)
    view = contiguous_view(source).transposed(order)
    return (1, numel(source) // max(reduced_count, 1), reduced_count), view_index_map(view)


def _reduction_operator(
    name: str,
    doc: str,
    kind: str,
    explanation: ExplanationKind = "nothing",
    *,
    gradient: GradientRule | str,
) -> Operator:
    attributes = {"keepdims": one_of(0, 1), "noop_with_empty_axes": one_of(0, 1)}
    return Operator(
        name, doc, _shape, _ReductionLowering(kind), attributes, _problem, accepts_empty=True,
        role="head",
        reduction_view=_reduction_view, receptive_field=mixed_axes_fields(_axes),
        explanation=explanation, formula=None, bounds=None, caption=None,
        shape_inputs=(1,), gradient=gradient,
    )  # fmt: skip


def _arg_operator(name: str, doc: str, find_smallest: bool) -> Operator:
    attributes = {"axis": any_value, "keepdims": one_of(0, 1), "select_last_index": one_of(0, 1)}
    return Operator(
        name, doc, _arg_shape, _lower_arg_extreme(find_smallest), attributes, _arg_problem,
        role="head",
        receptive_field=mixed_axes_fields(_axis), explanation="nothing", formula=None, bounds=None,
        caption=None, shape_inputs=(), gradient=gradients.NO_INDEX_GRADIENT_REASON,
    )  # fmt: skip


OPERATORS = [
    _reduction_operator("ReduceSum", "The sum along axes.", "sum", "sum pool",
                        gradient=gradients.sum_or_mean_rule(_axes)),
    _reduction_operator("ReduceMean", "The mean along axes.", "mean", "mean pool",
                        gradient=gradients.sum_or_mean_rule(_axes, mean=True)),
    _reduction_operator("ReduceMax", "The largest element along axes.", "max", "max pool",
                        gradient=gradients.max_min_rule(_axes)),
    _reduction_operator("ReduceMin", "The smallest element along axes.", "min",
                        gradient=gradients.max_min_rule(_axes)),
    _reduction_operator("ReduceProd", "The product along axes.", "prod",
                        gradient=gradients.reduction_rule(_axes, gradients.product)),
    _reduction_operator("ReduceL1", "The sum of magnitudes along axes.", "l1",
                        gradient=gradients.reduction_rule(_axes, gradients.l1)),
    _reduction_operator("ReduceL2", "The length along axes: the root of the sum of squares.", "l2",
                        gradient=gradients.reduction_rule(_axes, gradients.l2)),
    _reduction_operator("ReduceLogSum", "The logarithm of the sum along axes.", "log sum",
                        gradient=gradients.reduction_rule(_axes, gradients.log_sum)),
    _reduction_operator("ReduceLogSumExp", "The logarithm of the sum of powers of e along axes.",
                        "log sum exp",
                        gradient=gradients.reduction_rule(_axes, gradients.log_sum_exp)),
    _reduction_operator("ReduceSumSquare", "The sum of squares along axes.", "sum square",
                        gradient=gradients.reduction_rule(_axes, gradients.sum_square)),
    _arg_operator("ArgMax", "The index of the largest element along an axis.", False),
    _arg_operator("ArgMin", "The index of the smallest element along an axis.", True),
]  # fmt: skip
