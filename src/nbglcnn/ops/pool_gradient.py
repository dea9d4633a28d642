"""Gradients of pools: transposed convolutions for means, our own operator for maxima."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.glsl import FragmentShader, loop_iterations, loop_problem, shader_source
from nbglcnn.graph import Array, Node
from nbglcnn.ops.adaptive_pool import bin_problem, draw_bin_indices
from nbglcnn.ops.gradient_builder import INT64, GradientBuilder
from nbglcnn.ops.movement_gradient import slice_axis
from nbglcnn.ops.operator import (
    GradientRule,
    KnownValues,
    Operator,
    Shape,
    any_value,
    int_attr,
    int_list_attr,
)
from nbglcnn.ops.pool_indices import draw_map_indices
from nbglcnn.ops.receptive_field import full_fields
from nbglcnn.ops.window import SlidingWindow, pad_to_3d, sliding_window
from nbglcnn.plan.layout import MAX_EXACT_INTEGER, storage_nchw

MAX_POOL_GRADIENT_SHADER = FragmentShader(
    "max_pool_gradient",
    shader_source("adaptive_bins.glsl") + shader_source("max_pool_gradient.glsl")
    + shader_source("pixel_loop_main.glsl"), has_pixel_function=False,
    uniform_slots="ivec3 kernel, stride, dilation, padding, size, places",
)  # fmt: skip
# For adjacent windows of 2×2 pixels.
MAX_POOL_GRADIENT_BLOCKS_SHADER = FragmentShader(
    "max_pool_gradient_blocks",
    shader_source("max_pool_gradient_blocks.glsl"),
    has_pixel_function=False,
)


def _window(facts: KnownValues, node: Node) -> SlidingWindow:
    return sliding_window(facts, node, int_list_attr(node, "kernel_shape", ()))


def max_pool(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """MaxPool: the gradient goes to the first maximum of each window."""
    return [_max_pool_gradient(builder, node, dy[0], _window(builder, node))]


def global_max_pool(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """GlobalMaxPool: the gradient goes to the first maximum of each map."""
    n, c, *spatial = shape = builder.shape(node.inputs[0])
    count = math.prod(spatial)
    lines = builder.reshape(node.inputs[0], (n, c, count))
    place = builder.add_node("ArgMax", lines, dtype=INT64, axis=2, keepdims=1)
    place = builder.reshape(place, builder.shape(dy[0]), dtype=INT64)
    own = builder.add_constant(np.arange(count, dtype=np.int64).reshape(1, 1, *shape[2:]))
    return [builder.apply_glsl(_WHERE_EQUAL_GLSL, dy[0], place, own)]


def _max_pool_gradient(builder: GradientBuilder, node: Node, dy: str, window: SlidingWindow) -> str:
    return builder.add_node(
        "MaxPoolGradient", node.inputs[0], node.outputs[0], dy, kernel_shape=window.kernel,
        strides=window.strides, dilations=window.dilations, pads=window.pads_begin,
    )  # fmt: skip


def average_pool(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """AveragePool: each element of a window gets its share of the mean."""
    spatial = builder.shape(node.inputs[0])[2:]
    window, padded = _window(builder, node), int_attr(node, "count_include_pad", 0)
    counts: Array = np.ones((), np.float32)
    for axis, length in enumerate(spatial):
        along = _tap_counts(window, axis, length, bool(padded))
        counts = np.multiply.outer(counts, along)
    share = builder.multiply(
        dy[0], builder.add_constant((1 / counts).astype(np.float32)[None, None])
    )
    return [sum_windows(builder, share, window, spatial)]


def sum_windows(
    builder: GradientBuilder, window_gradient: str, window: SlidingWindow, spatial: Shape
) -> str:
    """Sum the share that each window gives to all of its elements: (n, c, *spatial)."""
    channels = builder.shape(window_gradient)[1]
    ones = builder.full((channels, 1, *window.kernel), 1)
    full = tuple(
        s * (o - 1) + d * (k - 1) + 1
        for s, o, d, k in zip(
            window.strides, window.output_shape, window.dilations, window.kernel, strict=True
        )
    )
    left = [f - b - n for f, b, n in zip(full, window.pads_begin, spatial, strict=True)]
    return builder.add_node(
        "ConvTranspose", window_gradient, ones, group=channels, strides=window.strides,
        dilations=window.dilations, pads=(*window.pads_begin, *(max(0, n) for n in left)),
        output_padding=tuple(max(0, -n) for n in left),
    )  # fmt: skip


def _tap_counts(window: SlidingWindow, axis: int, length: int, padded: bool) -> Array:
    """The number of elements in each mean along an axis."""
    begin, end = window.pads_begin[axis], window.pads_end[axis]
    taps = np.arange(window.kernel[axis]) * window.dilations[axis]
    at = np.arange(window.output_shape[axis])[:, None] * window.strides[axis] - begin + taps
    least, most = (-begin, length + end) if padded else (0, length)
    counted: Array = ((at >= least) & (at < most)).sum(1).astype(np.float64)
    return counted


def global_average_pool(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """GlobalAveragePool: an equal share for each element."""
    shape = builder.shape(node.inputs[0])
    return [builder.expand(builder.scale(dy[0], 1 / math.prod(shape[2:])), shape)]


def lp_pool(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """LpPool: y = (Σ |x|^p)^(1/p); 0 if the norm is 0."""
    x, y = node.inputs[0], node.outputs[0]
    p = float(int_attr(node, "p", 2))
    share = builder.apply_glsl(_NORM_FACTOR_GLSL, dy[0], y, p=p)
    if node.op == "GlobalLpPool":
        whole = builder.expand(share, builder.shape(x))
    else:
        whole = sum_windows(builder, share, _window(builder, node), builder.shape(x)[2:])
    return [builder.apply_glsl(_NORM_ELEMENT_GLSL, whole, x, p=p)]


def max_unpool_rule(indexed_shape: Callable[[KnownValues, Node], Shape]) -> GradientRule:
    """Make a MaxUnpool's rule for indices into `indexed_shape`: each input reads at its index.

    As in PyTorch, an input that another one has overwritten also reads there.
    """

    def rule(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
        places = dy[0]
        for axis, length in enumerate(indexed_shape(builder, node)):
            places = slice_axis(builder, places, axis, 0, length)
        flat = builder.reshape(places, (builder.numel(places),))
        found = builder.add_node("Gather", flat, node.inputs[1], axis=0)
        return [found, *[""] * (len(node.inputs) - 1)]

    return rule


_WHERE_EQUAL_GLSL = "return select(equal(b, c), a, vec4(0.0));"
_NORM_FACTOR_GLSL = (
    "return select(equal(b, vec4(0.0)), vec4(0.0),"
    " a * (u_p == 1.0 ? vec4(1.0) : u_p == 2.0 ? 1.0 / b : pow(b, vec4(1.0 - u_p))));"
)
_NORM_ELEMENT_GLSL = (
    "return a * sign(b) * (u_p == 1.0 ? vec4(1.0) : u_p == 2.0 ? abs(b)"
    " : pow(abs(b), vec4(u_p - 1.0)));"
)


# The operator.


def _shapes(facts: KnownValues, node: Node) -> list[Shape]:
    return [facts.shape(node.inputs[0])]


def _window_3d(node: Node) -> tuple[Shape, Shape, Shape, Shape]:
    """Kernel, strides, dilations and begin padding over depth, rows and columns."""
    names = (("kernel_shape", 1), ("strides", 1), ("dilations", 1), ("pads", 0))
    kernel, strides, dilations, begins = (
        pad_to_3d(int_list_attr(node, name, ()), filling) for name, filling in names
    )
    return kernel, strides, dilations, begins


def _windows_per_pixel(facts: KnownValues, node: Node) -> Shape:
    """The maximum number of windows along each axis that contain a pixel."""
    spatial, places = (pad_to_3d(facts.shape(name)[2:], 1) for name in node.inputs[:2])
    if "output_size" in node.attributes:
        return tuple(-(-m // n) + 1 for n, m in zip(spatial, places, strict=True))
    kernel, strides, dilations, _ = _window_3d(node)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    each = zip(spans, strides, places, strict=True)
    return tuple(min(-(-span // stride), m) for span, stride, m in each)


def _problem(facts: KnownValues, node: Node) -> str | None:
    """Check the loops of a fragment: over a window, then over all windows around a pixel."""
    shape, places = (facts.shape(name) for name in node.inputs[:2])
    if math.prod(shape[2:]) > MAX_EXACT_INTEGER:
        return (
            f"indices into maps of {math.prod(shape[2:]):,} elements; at most {MAX_EXACT_INTEGER:,}"
        )
    if problem := loop_problem(
        _OTHER_LOOP_ITERATIONS + loop_iterations(*_windows_per_pixel(facts, node))
    ):
        return f"{_windows_per_pixel(facts, node)} windows reach a pixel: {problem}"
    if "output_size" in node.attributes:
        return bin_problem(shape[2:], places[2:])
    kernel = int_list_attr(node, "kernel_shape", ())
    if problem := loop_problem(loop_iterations(*kernel)):
        return f"a window of {kernel}: {problem}"
    return None


_OTHER_LOOP_ITERATIONS = 6  # iterations of a one-pixel fragment's other loops


def _lower(b: Builder, node: Node) -> None:
    x, y, dy = (b.tensor(name) for name in node.inputs)
    shape = b.shape(node.inputs[0])
    spatial, places = (pad_to_3d(b.shape(name)[2:], 1) for name in node.inputs[:2])
    adaptive = "output_size" in node.attributes
    layout = b.layout(storage_nchw(shape))
    kernel, strides, dilations, begins = _window_3d(node)
    is_adjacent = (kernel, dilations, begins) == (strides, (1, 1, 1), (0, 0, 0))
    inside = all(o * s <= n for o, s, n in zip(places, strides, spatial, strict=True))
    plain = (layout.block, layout.phases) == ((1, 2, 2), (1, 1)) and not adaptive
    if is_adjacent and inside and kernel == (1, 2, 2) and plain and x.layout == layout:
        b.draw(
            MAX_POOL_GRADIENT_BLOCKS_SHADER,
            b.create_output(node.outputs[0], layout),
            [x, y, dy],
            fetches=6,
        )
        return
    if adaptive:
        index = draw_bin_indices(b, x, spatial, places)
    else:
        pooled, sides = b.shape(node.inputs[1]), len(shape) - 2
        window = SlidingWindow(
            kernel[-sides:], strides[-sides:], dilations[-sides:], begins[-sides:],
            begins[-sides:], pooled[2:],
        )  # fmt: skip
        index = draw_map_indices(b, x, window, shape[2:], storage_nchw(pooled))
    reached = _windows_per_pixel(b, node)
    if loop_problem(math.prod(layout.block) * (_OTHER_LOOP_ITERATIONS + loop_iterations(*reached))):
        layout = b.layout(layout.nchw, (1, 1, 1))
    b.draw(
        MAX_POOL_GRADIENT_SHADER, b.create_output(node.outputs[0], layout), [index, dy],
        uniforms={
            "kernel": kernel, "stride": strides, "dilation": dilations, "padding": begins,
            "size": spatial, "places": places,
        },
        constants={"ADAPTIVE": int(adaptive)},
        fetches=2 * math.prod(layout.block) * math.prod(reached),
    )  # fmt: skip


OPERATORS = [
    Operator(
        "MaxPoolGradient", "The gradient of max pooling.", _shapes, _lower,
        {"kernel_shape": any_value, "strides": any_value, "dilations": any_value, "pads": any_value,
         "output_size": any_value},
        _problem, role="head", receptive_field=full_fields, explanation="nothing", formula=None,
        bounds=None, caption=None, shape_inputs=(), gradient="it is itself part of a gradient",
    )
]  # fmt: skip
