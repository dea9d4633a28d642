"""Pooling: the maximum, mean or p-norm of windows or of whole maps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import (
    MAX_LOOP_ITERATIONS,
    FragmentShader,
    loop_iterations,
    loop_problem,
    shader_source,
)
from nbglcnn.codegen.uniform_slots import UniformValue
from nbglcnn.graph import Node
from nbglcnn.ops import pool_gradient as gradients
from nbglcnn.ops.operator import (
    AttributeCheck,
    GradientRule,
    KnownValues,
    Operator,
    Shape,
    any_value,
    int_attr,
    int_list_attr,
    one_of,
    positive_int,
)
from nbglcnn.ops.pool_indices import draw_indices
from nbglcnn.ops.receptive_field import mixed_axes_fields, window_fields
from nbglcnn.ops.reduce import REDUCTION_KINDS, ReductionKind, draw_reduction
from nbglcnn.ops.window import (
    WINDOW_SLOTS,
    SlidingWindow,
    auto_pad_problem,
    sliding_window,
    window_problem,
)
from nbglcnn.plan.layout import MAX_EXACT_INTEGER, storage_nchw
from nbglcnn.plan.schema import ExplanationKind

POOL_SHADER = FragmentShader("pool", shader_source("volume_rows.glsl") + shader_source("pool.glsl"),
                      has_pixel_function=False,
    uniform_slots=f"{WINDOW_SLOTS}; ivec3 behind; int counts; float p")  # fmt: skip
MAX_KIND, MEAN_KIND, NORM_KIND = range(3)  # KIND in pool.glsl
KIND_BY_OPERATOR = {"MaxPool": MAX_KIND, "AveragePool": MEAN_KIND, "LpPool": NORM_KIND}


def _window(facts: KnownValues, node: Node) -> SlidingWindow:
    return sliding_window(facts, node, int_list_attr(node, "kernel_shape", ()))


def _shapes(facts: KnownValues, node: Node) -> Sequence[Shape]:
    n, c, *_ = facts.shape(node.inputs[0])
    return [(n, c, *_window(facts, node).output_shape)] * len(node.outputs)


def _problem(facts: KnownValues, node: Node) -> str | None:
    shape = facts.shape(node.inputs[0])
    if problem := window_problem(facts, node, int_list_attr(node, "kernel_shape", ())):
        return problem
    if node.op != "MaxPool" and (  # ONNX Runtime's MaxPool never leaves pixels out
        problem := auto_pad_problem(facts, node, int_list_attr(node, "kernel_shape", ()))
    ):
        return problem
    if min(int_list_attr(node, "pads", (0,))) < 0:
        return f"pads={int_list_attr(node, 'pads', ())}; negative ones are not supported"
    window = _window(facts, node)
    if min(window.output_shape) < 1:
        return f"a window of {window.kernel} doesn't fit into a map of {shape[2:]}"
    pixels = 4 if len(node.outputs) > 1 and node.outputs[1] else 1
    most, elements = MAX_LOOP_ITERATIONS // pixels, math.prod(window.kernel)
    if pixels > 1 or not _is_global(window, shape[2:]):
        if elements > most:
            return f"a window of {window.kernel} has {elements:,} elements; at most {most:,}"
        if problem := loop_problem(pixels * loop_iterations(*window.kernel)):
            return f"a window of {window.kernel}: {problem}"
    if len(node.outputs) > 1 and node.outputs[1] and math.prod(shape) > MAX_EXACT_INTEGER:
        return (
            f"indices into {math.prod(shape)} elements; at most {MAX_EXACT_INTEGER} are supported"
        )
    return None


def _is_global(window: SlidingWindow, spatial: Shape) -> bool:
    """Whether the only window covers the whole map."""
    one = math.prod(window.output_shape) == 1 and not any(window.pads_begin + window.pads_end)
    return window.kernel == spatial and one


def _lower(b: Builder, node: Node) -> None:
    window, spatial = _window(b, node), b.shape(node.inputs[0])[2:]
    x = b.tensor(node.inputs[0])
    if _is_global(window, spatial):
        # Global window: reduce in stages, because the few results alone would not keep the device
        # busy.
        _draw_global_pool(b, node, x)
    else:
        _draw_windows(b, node, x, window)
    if len(node.outputs) > 1 and node.outputs[1]:
        _draw_indices(b, node, x, window)


def _draw_global_pool(b: Builder, node: Node, x: Tensor) -> None:
    p = int_attr(node, "p", 2)
    kind = _reduction_kind(node.op, p)
    numbers = {"p": p} if kind.uniform_slots else {}
    draw_reduction(b, x, (2, 3), kind, uniforms=numbers, value=node.outputs[0])


def _draw_windows(b: Builder, node: Node, x: Tensor, window: SlidingWindow) -> None:
    nchw, plane = storage_nchw(b.shape(node.outputs[0])), window.as_2d()
    layout = b.layout(nchw, b.choose_block(nchw, slices=window.is_3d))
    output = b.create_output(node.outputs[0], layout)
    counts = int_attr(node, "count_include_pad", 0)
    numbers: dict[str, UniformValue] = {
        **window.uniforms(b.shape(node.inputs[0])[2:]),
        **{
            "behind": (*plane.pads_end, window.pads_end[0]),
            "counts": counts,
            "p": int_attr(node, "p", 2),
        },
    }
    b.draw(
        POOL_SHADER, output, [x], uniforms=numbers,
        constants={"KIND": KIND_BY_OPERATOR[node.op], "DEPTH": int(window.is_3d)},
        functions=[shader_source("nan.glsl")],
        fetches=math.prod(layout.block) * math.prod(window.kernel),
    )  # fmt: skip


def _draw_indices(b: Builder, node: Node, x: Tensor, window: SlidingWindow) -> None:
    spatial = b.shape(node.inputs[0])[2:]
    # The index step along each axis: row-major, or column-major if storage_order is 1.
    places = range(len(spatial))
    steps = [math.prod(spatial[k + 1 :]) for k in places]
    if int_attr(node, "storage_order", 0):
        steps = [math.prod(spatial[:k]) for k in places]
    draw_indices(b, x, window, spatial, b.create_output(node.outputs[1]), steps, in_map=False)


def _reduction_kind(op: str, p: int) -> ReductionKind:
    """The reduction that is equivalent to a pool over whole maps."""
    if op.endswith("LpPool"):
        if p in (1, 2):
            return REDUCTION_KINDS[f"l{p}"]
        return ReductionKind(
            "pow(abs(v), vec4(u_p))", finish_glsl="pow(v, vec4(1.0 / u_p))", uniform_slots="float p"
        )
    return REDUCTION_KINDS["max" if op.endswith("MaxPool") else "mean"]


def _global_shapes(facts: KnownValues, node: Node) -> Sequence[Shape]:
    n, c, *spatial = facts.shape(node.inputs[0])
    return [(n, c, *[1] * len(spatial))]


def _global_problem(facts: KnownValues, node: Node) -> str | None:
    shape = facts.shape(node.inputs[0])
    return f"an input of shape {shape}; expected at least 3 axes" if len(shape) < 3 else None


def _spatial_axes(facts: KnownValues, node: Node) -> Sequence[int]:
    return range(2, len(facts.shape(node.inputs[0])))


def _lower_global(b: Builder, node: Node) -> None:
    x = b.tensor(node.inputs[0])
    _draw_global_pool(b, node, x)


WINDOW_ATTRIBUTES: dict[str, AttributeCheck] = {
    "auto_pad": one_of("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"),
    "ceil_mode": one_of(0, 1),
    "dilations": any_value,
    "kernel_shape": any_value,
    "pads": any_value,
    "strides": any_value,
}


def _window_pool(
    name: str,
    doc: str,
    explanation: ExplanationKind,
    caption: str | None,
    gradient: GradientRule,
    **attributes: AttributeCheck,
) -> Operator:
    return Operator(
        name, doc, _shapes, _lower, {**WINDOW_ATTRIBUTES, **attributes}, _problem,
        window=_window, role="resamples", receptive_field=window_fields(_window),
        explanation=explanation,
        formula=None, bounds=None, caption=caption, shape_inputs=(), gradient=gradient,
    )  # fmt: skip


def _global_pool(
    name: str,
    doc: str,
    explanation: ExplanationKind,
    caption: str | None,
    gradient: GradientRule,
    **attributes: AttributeCheck,
) -> Operator:
    return Operator(
        name, doc, _global_shapes, _lower_global, attributes, _global_problem,
        role="resamples", receptive_field=mixed_axes_fields(_spatial_axes), explanation=explanation,
        formula=None, bounds=None, caption=caption, shape_inputs=(), gradient=gradient,
    )  # fmt: skip


OPERATORS = [
    _window_pool("MaxPool", "The largest element of each window.", "max pool", None,
                 gradients.max_pool, storage_order=one_of(0, 1)),
    _window_pool("AveragePool", "The mean of each window.", "mean pool", "AvgPool",
                 gradients.average_pool, count_include_pad=one_of(0, 1)),
    _window_pool("LpPool", "The p-norm of each window.", "nothing", None, gradients.lp_pool,
                 p=positive_int),
    _global_pool("GlobalMaxPool", "The largest element of each map.", "max pool", "MaxPool",
                 gradients.global_max_pool),
    _global_pool("GlobalAveragePool", "The mean of each map.", "mean pool", "AvgPool",
                 gradients.global_average_pool),
    _global_pool("GlobalLpPool", "The p-norm of each map.", "nothing", None, gradients.lp_pool,
                 p=positive_int),
]  # fmt: skip
