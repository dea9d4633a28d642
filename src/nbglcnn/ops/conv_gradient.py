"""Gradients of convolutions: convolutions for the inputs, our own operator for the weights."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.glsl import MAX_LOOP_ITERATIONS, FragmentShader, loop_iterations, shader_source
from nbglcnn.codegen.uniform_slots import UniformValue
from nbglcnn.graph import Node
from nbglcnn.ops.gradient_builder import GradientBuilder
from nbglcnn.ops.movement_gradient import slice_axis
from nbglcnn.ops.operator import (
    KnownValues,
    Operator,
    Shape,
    any_value,
    has_input,
    int_attr,
    int_list_attr,
)
from nbglcnn.ops.receptive_field import full_fields
from nbglcnn.ops.window import SlidingWindow, pad_to_3d, sliding_window, transposed_window
from nbglcnn.plan.layout import Layout, storage_nchw

WEIGHT_GRADIENT_SLOTS = (
    "ivec3 places; int height; ivec3 stride; int images; ivec3 dilation; int inputs;"
    "ivec3 padding; int outputs; ivec3 size; int rows; ivec2 strips, strip, period; int batch;"
    "ivec2 step, step_x"
)


def _gradient_shader(name: str, *files: str) -> FragmentShader:
    texts = [shader_source(f"{file}.glsl") for file in ("weight_gradient", *files)]
    return FragmentShader(
        name, "\n".join(texts), has_pixel_function=False, uniform_slots=WEIGHT_GRADIENT_SLOTS
    )


DENSE_WEIGHT_GRADIENT_SHADER = _gradient_shader("weight_gradient", "weight_gradient_dense")
GROUPED_WEIGHT_GRADIENT_SHADER = _gradient_shader(
    "weight_gradient_grouped", "weight_gradient_grouped", "pixel_loop_main"
)
PARTIAL_SUMS_SHADER = FragmentShader(
    "weight_gradient_sum",
    shader_source("weight_gradient_sum.glsl"),
    uniform_slots="int parts, rows",
)
MAX_SUM_TERMS = 8192  # per sum, so that no digits are lost
MIN_FRAGMENTS = 2000  # enough to keep a device busy
MAX_SMALL_MAP_POSITIONS = 36  # positions of a map that are looked up one by one
MIN_POSITIONS_PER_FRAGMENT = 32  # minimum work per fragment


def _prefers_flipped_conv(window: SlidingWindow) -> bool:
    """Whether a convolution with the flipped kernel is faster than a transposed convolution.

    conv_patch.glsl unrolls a transposed convolution for at most three taps.
    """
    plain = set(window.strides) | set(window.dilations) == {1}
    around = (*window.pads_begin, *window.pads_end)
    inside = all(p < k for p, k in zip(around, window.kernel * 2, strict=True))
    return plain and inside and len(window.kernel) == 2 and 3 < max(window.kernel) <= 7


def _flipped_conv(builder: GradientBuilder, w: str, dy: str, window: SlidingWindow) -> str:
    """The input's gradient: a convolution with the flipped kernel, input and output swapped."""
    axes = (2, 3)
    least = np.iinfo(np.int64).min
    kernel = builder.add_node(
        "Slice", builder.transpose(w, (1, 0, 2, 3)), builder.add_int_list(-1, -1),
        builder.add_int_list(least, least), builder.add_int_list(*axes),
        builder.add_int_list(-1, -1),
    )  # fmt: skip
    around = zip((*window.pads_begin, *window.pads_end), window.kernel * 2, strict=True)
    return builder.add_node("Conv", dy, kernel, pads=tuple(k - 1 - p for p, k in around))


def conv_gradient(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Conv: dx is a transposed convolution with the same weights."""
    x, w = node.inputs[:2]
    spatial = builder.shape(x)[2:]
    window = sliding_window(builder, node, builder.shape(w)[2:])
    group = int_attr(node, "group", 1)
    dx = ""
    if builder.needs_gradient(x) and group == 1 and _prefers_flipped_conv(window):
        dx = _flipped_conv(builder, w, dy[0], window)
    elif builder.needs_gradient(x):
        extra = tuple(
            n + begin + end - (d * (k - 1) + 1) - s * (o - 1)
            for n, begin, end, d, k, s, o in zip(
                spatial, window.pads_begin, window.pads_end, window.dilations, window.kernel,
                window.strides, window.output_shape, strict=True,
            )
        )  # fmt: skip
        dx = builder.add_node(
            "ConvTranspose", dy[0], w, group=group, strides=window.strides,
            dilations=window.dilations, pads=(*window.pads_begin, *window.pads_end),
            output_padding=extra,
        )  # fmt: skip
    return [
        dx,
        _weight_gradient(builder, w, x, dy[0], window, group),
        *_bias_gradient(builder, node, dy[0]),
    ]


def conv_transpose_gradient(
    builder: GradientBuilder, node: Node, dy: Sequence[str]
) -> Sequence[str]:
    """ConvTranspose: dx is a convolution with the same weights."""
    x, w = node.inputs[:2]
    window = transposed_window(builder, node, builder.shape(w)[2:])
    group = int_attr(node, "group", 1)
    dx = ""
    if builder.needs_gradient(x):
        dx = builder.add_node(
            "Conv", dy[0], w, group=group, strides=window.strides, dilations=window.dilations,
            pads=(*window.pads_begin, *window.pads_end),
        )  # fmt: skip
        for axis, length in enumerate(builder.shape(x)):
            # An output_padding of a stride or more makes dx longer.
            dx = slice_axis(builder, dx, axis, 0, length)
    return [
        dx,
        _weight_gradient(builder, w, dy[0], x, window, group),
        *_bias_gradient(builder, node, dy[0]),
    ]


def _weight_gradient(
    builder: GradientBuilder, w: str, x: str, dy: str, window: SlidingWindow, group: int
) -> str:
    if not builder.needs_gradient(w):
        return ""
    if group == 1 and len(window.kernel) == 2 and window.kernel[1] > 2:
        if builder.shape(x)[1] == 1:
            return _single_input_channel_gradient(builder, x, dy, window)
        if (
            builder.shape(dy)[1] == 1
            and window.strides[1] == 1
            and min(_column_margins(window)) >= 0
        ):
            return _single_output_channel_gradient(builder, x, dy, window)
    return builder.add_node(
        "ConvWeightGradient", x, dy, kernel_shape=window.kernel, strides=window.strides,
        dilations=window.dilations, pads=window.pads_begin, group=group,
    )  # fmt: skip


# With one channel, three of four lanes would be idle. In that case the kernel's columns become
# channels: a convolution with ones gathers the elements that each column reads at one position, and
# leaves a kernel of one column.


def _single_input_channel_gradient(
    builder: GradientBuilder, x: str, dy: str, window: SlidingWindow
) -> str:
    (rows, columns), n = window.kernel, builder.shape(x)[3]
    (_, step), (_, apart), (_, begin) = window.strides, window.dilations, window.pads_begin
    end = (window.output_shape[1] - 1) * step + (columns - 1) * apart + 1 - n - begin
    ones = builder.add_constant(np.eye(columns, dtype=np.float32).reshape(columns, 1, 1, columns))
    read = builder.add_node(
        "Conv", x, ones, strides=(1, step), dilations=(1, apart), pads=(0, begin, 0, max(0, end))
    )
    found = _column_gradient(builder, read, dy, window, rows)
    return builder.transpose(found, (0, 3, 2, 1))  # (outputs, columns, rows, 1)


def _single_output_channel_gradient(
    builder: GradientBuilder, x: str, dy: str, window: SlidingWindow
) -> str:
    rows, columns = window.kernel
    begin, end = _column_margins(window)
    ones = builder.add_constant(
        np.eye(columns, dtype=np.float32)[::-1].reshape(columns, 1, 1, columns)
    )
    read = builder.add_node(
        "Conv", dy, ones, dilations=(1, window.dilations[1]), pads=(0, begin, 0, end)
    )
    found = _column_gradient(builder, x, read, window, rows)
    return builder.transpose(found, (3, 1, 2, 0))  # (columns, inputs, rows, 1)


def _column_margins(window: SlidingWindow) -> tuple[int, int]:
    """How far the columns of x that any tap reads extend beyond dy, on the left and the right."""
    reach = (window.kernel[1] - 1) * window.dilations[1]
    return reach - window.pads_begin[1], reach - window.pads_end[1]


def _column_gradient(
    builder: GradientBuilder, x: str, dy: str, window: SlidingWindow, rows: int
) -> str:
    return builder.add_node(
        "ConvWeightGradient", x, dy, kernel_shape=(rows, 1), strides=(window.strides[0], 1),
        dilations=(window.dilations[0], 1), pads=(window.pads_begin[0], 0), group=1,
    )  # fmt: skip


def _bias_gradient(builder: GradientBuilder, node: Node, dy: str) -> list[str]:
    if not has_input(node, 2):
        return [""] * (len(node.inputs) - 2)
    if not builder.needs_gradient(node.inputs[2]):
        return [""]
    return [builder.sum_to_channels(dy)]


# The operator.


def _shapes(facts: KnownValues, node: Node) -> list[Shape]:
    x, dy = (facts.shape(name) for name in node.inputs)
    return [(dy[1], x[1] // int_attr(node, "group", 1), *int_list_attr(node, "kernel_shape", ()))]


def _sum_partition(
    images: int, images_per_read: int, position_counts: Shape, fragments: int, iterations: int
) -> tuple[int, Shape]:
    """The numbers of images, and of rows and columns of positions, that one fragment sums.

    The partition provides enough fragments, gives each fragment enough work, and limits the length
    of each sum. `iterations` is the number of loop iterations over everything. Images that are read
    `images_per_read` stay together.
    """
    count = math.prod(position_counts)
    batches = -(-images // images_per_read)
    wanted = max(
        -(-images * count // MAX_SUM_TERMS),
        -(
            -2 * iterations // MAX_LOOP_ITERATIONS
        ),  # parts of whole rows and images may be twice as large
        min(-(-MIN_FRAGMENTS // fragments), -(-images * count // MIN_POSITIONS_PER_FRAGMENT)),
    )
    each = -(-batches // min(batches, wanted))
    found = []
    left = -(-wanted // -(-batches // each))
    for side in position_counts[1:]:
        found.append(-(-side // min(side, left)))
        left = -(-left // -(-side // found[-1]))
    return each * images_per_read, tuple(found)


def _layout_periods(output_layout: Layout, x: Layout, strides: Shape) -> tuple[Shape, Shape, Shape]:
    """The rows and columns of positions after which both layouts repeat their layer and phase.

    Also returns the number of texels per period in `output_layout` and in x.
    """
    found, steps, x_steps = [], [], []
    for k in range(2):
        one, other = (
            output_layout.block[k + 1] * output_layout.phases[k],
            x.block[k + 1] * x.phases[k],
        )
        period = math.lcm(one, other // math.gcd(strides[k], other))
        found.append(period)
        steps.append(period // one)
        x_steps.append(period * strides[k] // other)
    return tuple(found), tuple(steps), tuple(x_steps)


def _lower(b: Builder, node: Node) -> None:
    x, dy = (b.tensor(name) for name in node.inputs)
    (shape,), group = _shapes(b, node), int_attr(node, "group", 1)
    kernel, strides, dilations, begins = (
        pad_to_3d(int_list_attr(node, name, ()), filling)
        for name, filling in (("kernel_shape", 1), ("strides", 1), ("dilations", 1), ("pads", 0))
    )
    spatial, places = (pad_to_3d(b.shape(name)[2:], 1) for name in node.inputs)
    images, (outputs, inputs) = b.shape(node.inputs[0])[0], shape[:2]
    each = outputs // group
    depthwise = group > 1 and inputs == each == 1
    dense = group == 1 or depthwise or (inputs % 4 == 0 and each % 4 == 0)
    rows = 4 * -(-outputs // 4)
    taps, in_groups = math.prod(kernel), -(-inputs // 4)
    images_per_read = images if images < 3 else 4
    # If not dense, positions are looked up one by one, for each of four layers.
    iterations = 0 if dense else 4 * loop_iterations(images, *places)
    batch, strip = _sum_partition(
        images, images_per_read, places, taps * in_groups * rows // 4, iterations
    )
    strips = tuple(-(-n // m) for n, m in zip(places[1:], strip, strict=True))
    parts = -(-images // batch) * math.prod(strips)
    nchw = storage_nchw(shape)
    layout = b.layout((parts * rows, *nchw[1:]), (4, 1, 1))
    if depthwise:
        layout = b.layout((parts, outputs, *nchw[2:]), (1, 1, 1))
    # A single partial sum is drawn as the output itself, except in a depthwise convolution, whose
    # partial sums have another layout.
    whole = parts == 1 and not depthwise
    sums = (
        b.create_output(node.outputs[0], b.layout(nchw, (4, 1, 1)))
        if whole
        else b.create_scratch_tensor(layout)
    )
    period, steps, x_steps = _layout_periods(dy.layout, x.layout, strides[1:])
    numbers: dict[str, UniformValue] = {
        "places": places, "height": kernel[1], "stride": strides, "images": images,
        "dilation": dilations, "inputs": inputs, "padding": begins, "outputs": each,
        "size": spatial, "rows": rows, "strips": strips, "strip": strip, "period": period,
        "batch": batch, "step": steps, "step_x": x_steps,
    }  # fmt: skip
    terms = batch * places[0] * math.prod(strip)
    if dense:
        constants = {
            "DEPTHWISE": int(depthwise), "GROUPED": int(group > 1), "TOGETHER": images_per_read,
            "REST": int(images % images_per_read > 0), "ONE": int(places == (1, 1, 1)),
            "SMALL": int(math.prod(places[1:]) <= MAX_SMALL_MAP_POSITIONS),
            "STACKED": int(x.layout.block[0] == dy.layout.block[0] == images_per_read == 4),
        }  # fmt: skip
        b.draw(
            DENSE_WEIGHT_GRADIENT_SHADER,
            sums,
            [x, dy],
            uniforms=numbers,
            constants=constants,
            fetches=2 * terms,
        )
    else:
        b.draw(GROUPED_WEIGHT_GRADIENT_SHADER, sums, [x, dy], uniforms=numbers, fetches=20 * terms)
    if not whole:
        b.draw(
            PARTIAL_SUMS_SHADER, b.create_output(node.outputs[0]), [sums],
            uniforms={"parts": parts, "rows": rows},
            constants={"DEPTHWISE": int(depthwise)}, fetches=4 * parts,
        )  # fmt: skip


def _macs(facts: KnownValues, node: Node) -> int:
    (shape,) = _shapes(facts, node)
    n, _, *places = facts.shape(node.inputs[1])
    return n * math.prod(places) * math.prod(shape)


OPERATORS = [
    Operator(
        "ConvWeightGradient", "The gradient of a convolution with respect to its filters.",
        _shapes, _lower,
        {"kernel_shape": any_value, "strides": any_value, "dilations": any_value, "pads": any_value,
         "group": any_value},
        macs=_macs, role="head", receptive_field=full_fields, explanation="nothing", formula=None,
        bounds=None, caption=None, shape_inputs=(), gradient="it is itself part of a gradient",
    )
]  # fmt: skip
