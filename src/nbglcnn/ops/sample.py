"""Sampling: GridSample, RoiAlign, and Col2Im, which adds windows back into an image."""

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
from nbglcnn.codegen.strided import per_element_shader
from nbglcnn.graph import Node
from nbglcnn.ops import sample_gradient as gradients
from nbglcnn.ops.movement import combine_checks, constant_input_check
from nbglcnn.ops.operator import (
    KnownValues,
    Operator,
    Shape,
    any_value,
    constant_ints,
    int_attr,
    int_list_attr,
    one_of,
    positive_int,
    string_attr,
)
from nbglcnn.ops.receptive_field import (
    OperatorField,
    first_input_fields,
    same_position,
    table_window,
)
from nbglcnn.ops.sample_uniforms import (
    GRID_MODES,
    GRID_PADDINGS,
    ROI_SLOTS,
    roi_bins,
    roi_glsl,
    roi_uniforms,
)
from nbglcnn.ops.scatter import MAX_READS
from nbglcnn.plan.layout import storage_nchw
from nbglcnn.plan.schema import AxisWindow

COL2IM_SHADER = per_element_shader(
    "col2im", "ivec3 kernel, stride, dilation, padding, counts; int taps, windows, rows"
)
ROI_ALIGN_SHADER = FragmentShader(
    "roi_align",
    "".join(
        [
            shader_source("nan.glsl"),
            roi_glsl(1),
            shader_source("roi_align.glsl"),
            shader_source("pixel_loop_main.glsl"),
        ]
    ),
    has_pixel_function=False,
    uniform_slots=f"{ROI_SLOTS}; int begin, end, last",
)


def _grid_sample_shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    x, grid = (facts.shape(name) for name in node.inputs)
    return [(*x[:2], *grid[1:-1])]


def _grid_sample_problem(facts: KnownValues, node: Node) -> str | None:
    """Check for maps or volumes, with a grid of as many coordinates as spatial axes."""
    x, grid = (facts.shape(name) for name in node.inputs)
    if len(x) not in (4, 5) or len(grid) != len(x) or grid[-1] != len(x) - 2 or grid[0] != x[0]:
        return f"an input of shape {x} with a grid of shape {grid}; expected maps or volumes"
    return None


def _lower_grid_sample(b: Builder, node: Node) -> None:
    shape = b.shape(node.inputs[0])
    output = b.create_output(node.outputs[0])
    x = b.tensor(node.inputs[0], storage_nchw(shape), output.layout.block if shape[0] > 1 else None)
    gradients.draw_grid_samples(b, node, [x, b.stored_tensor(node.inputs[1])], output)


def _col2im_windows(facts: KnownValues, node: Node) -> tuple[Shape, ...]:
    """Image, window, strides, dilations, begin padding and window counts, each per axis."""
    image, window = constant_ints(facts, node, 1), constant_ints(facts, node, 2)
    assert image is not None and window is not None
    ones = (1,) * len(image)
    strides, dilations = (
        int_list_attr(node, "strides", ones),
        int_list_attr(node, "dilations", ones),
    )
    pads = int_list_attr(node, "pads", (0,) * 2 * len(image))
    before, after = pads[: len(image)], pads[len(image) :]
    counts = tuple(
        (size + p + q - d * (k - 1) - 1) // s + 1
        for size, k, s, d, p, q in zip(
            image, window, strides, dilations, before, after, strict=True
        )
    )
    return image, window, strides, dilations, before, counts


def _col2im_shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    n, columns, _ = facts.shape(node.inputs[0])
    image, window, *_ = _col2im_windows(facts, node)
    return [(n, columns // math.prod(window), *image)]


def _col2im_problem(facts: KnownValues, node: Node) -> str | None:
    """Check for up to three axes and a matching number of windows."""
    shape = facts.shape(node.inputs[0])
    image, window, strides, dilations, _, counts = _col2im_windows(facts, node)
    if len(image) > 3 or min(*window, *strides, *dilations, *image) < 1:
        return f"windows of {window} of an image of {image}; up to three axes are supported"
    if len(shape) != 3 or shape[1] % math.prod(window) or shape[2] != math.prod(counts):
        return f"columns of shape {shape} for windows of {window}, {counts} of them"
    channels = min(4, shape[1] // math.prod(window))  # lanes of each of four pixels
    if problem := loop_problem(4 * channels * loop_iterations(math.prod(window))):
        return f"a window of {window}: {problem}"
    return None


def _lower_col2im(b: Builder, node: Node) -> None:
    image, *rest = _col2im_windows(b, node)
    missing = 3 - len(image)
    window, strides, dilations, before, counts = (
        (*[fill] * missing, *values) for fill, values in zip((1, 1, 1, 0, 1), rest, strict=True)
    )
    taps, rows = math.prod(window), image[-2] if len(image) > 1 else 1
    b.draw(
        COL2IM_SHADER, b.create_output(node.outputs[0]), [b.stored_tensor(node.inputs[0])],
        uniforms={
            "kernel": window, "stride": strides, "dilation": dilations, "padding": before,
            "counts": counts, "taps": taps, "windows": math.prod(counts), "rows": rows,
        },
        fetches=16 * taps,
    )  # fmt: skip


def _grid_sample_receptive_fields(
    facts: KnownValues, node: Node, output_index: int
) -> list[OperatorField | None]:
    """Any position in the map, and one row of the grid."""
    source, grid = map(facts.shape, node.inputs)
    shape = facts.shape(node.outputs[output_index])
    anywhere = OperatorField(
        shape, source, (same_position(0), same_position(1), *[None] * (len(source) - 2))
    )
    rows = (same_position(0), *(same_position(k + 1) for k in range(1, len(grid) - 1)), None)
    return [anywhere, OperatorField(shape, grid, rows)]


def _col2im_receptive_field(facts: KnownValues, node: Node, output_index: int) -> OperatorField:
    n, columns, _ = facts.shape(node.inputs[0])
    _, window, strides, dilations, before, counts = _col2im_windows(facts, node)
    sides = [
        AxisWindow(axis + 2, kernel, stride, dilation, begin, transposed=True)
        for axis, (kernel, stride, dilation, begin) in enumerate(
            zip(window, strides, dilations, before, strict=True)
        )
    ]
    source, shape = (n, columns, *counts), facts.shape(node.outputs[output_index])
    return OperatorField(shape, source, (same_position(0), None, *sides))


def _roi_align_shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    return [(*facts.shape(node.inputs[2]), facts.shape(node.inputs[0])[1], *roi_bins(node))]


def _roi_align_problem(facts: KnownValues, node: Node) -> str | None:
    """Check the maps, the boxes' 4 coordinates and their image indices; 'max' has no gradient."""
    x, boxes, images = (facts.shape(name) for name in node.inputs)
    if len(x) != 4 or len(images) != 1 or boxes != (*images, 4):
        return f"an input of shape {x} with boxes of shape {boxes} in images of shape {images}"
    known, samples = facts.constant_data(node.inputs[2]), int_attr(node, "sampling_ratio", 0)
    if known is not None and known.size and not 0 <= known.min() <= known.max() < x[0]:
        return (
            f"boxes in images {known.min()} to {known.max()}; the input has {x[0]} images, "
            "counted from 0"
        )
    reads = 4 * samples**2 * math.prod((*images, x[1], *roi_bins(node)))
    if reads > MAX_READS:
        return f"{reads:,} pixels would be read; at most {MAX_READS:,}"
    rows, columns = _max_samples(node, x[2:])
    if _max_mode_flag(node) and _rows_per_pass(columns, 4) < rows:
        found = f"mode='max' of up to {rows}×{columns} samples a bin"
        return (
            f"{found}; at most {MAX_LOOP_ITERATIONS // 4:,} are supported per fragment. Set a "
            "sampling_ratio"
        )
    return None


def _max_samples(node: Node, spatial: Shape) -> list[int]:
    """The most rows and columns of samples of a bin that may lie on a map of this size."""
    # One sample per pixel if no number is set, plus the samples that roi_sampling.glsl adds for
    # rounding.
    return [int_attr(node, "sampling_ratio", 0) or size + 8 for size in spatial]


def _rows_per_pass(columns: int, pixels: int) -> int:
    """The number of sample rows per pass that keeps a fragment's loops over `pixels` in limits."""
    return max(1, (MAX_LOOP_ITERATIONS // pixels - 1) // (columns + 2))


def _lower_roi_align(b: Builder, node: Node) -> None:
    shape, bins = b.shape(node.inputs[0]), roi_bins(node)
    inputs = [
        b.tensor(node.inputs[0]),
        b.stored_tensor(node.inputs[1]),
        b.stored_tensor(node.inputs[2]),
    ]
    layout = b.layout(storage_nchw(b.shape(node.outputs[0])))
    pixels = math.prod(layout.block)
    # Without a sampling_ratio, estimate the reads for a box that covers the whole map.
    samples = int_attr(node, "sampling_ratio", 0)
    each = [samples or -(-size // count) for size, count in zip(shape[2:], bins, strict=True)]
    rows, columns = _max_samples(node, shape[2:])
    at_once, done = _rows_per_pass(columns, pixels), list[Tensor]()
    for begin in range(0, rows, at_once):
        last = begin + at_once >= rows
        written = (
            b.create_output(node.outputs[0], layout) if last else b.create_scratch_tensor(layout)
        )
        b.draw(
            ROI_ALIGN_SHADER, written, [*inputs, *done],
            uniforms={
                **roi_uniforms(node), "begin": begin, "end": begin + at_once, "last": int(last),
            },
            constants={"LARGEST": _max_mode_flag(node), "FURTHER": int(begin > 0)},
            fetches=pixels * (4 * math.prod(each) + 5),
        )  # fmt: skip
        done = [written]


def _max_mode_flag(node: Node) -> int:
    return int(string_attr(node, "mode", "avg") == "max")


def _roi_align_receptive_fields(
    facts: KnownValues, node: Node, output_index: int
) -> list[OperatorField | None]:
    """Any position in the map of one image, and one box."""
    source, boxes, images = map(facts.shape, node.inputs)
    shape, known = facts.shape(node.outputs[output_index]), facts.constant_data(node.inputs[2])
    image = None
    if known is not None:
        image = table_window(0, len(known), source[0], lambda: ([int(i)] for i in known))
    return [
        OperatorField(shape, source, (image, same_position(1), None, None)),
        OperatorField(shape, boxes, (same_position(0), None)),
        OperatorField(shape, images, (same_position(0),)),
    ]


def _non_negative_int(value: object) -> bool:
    """Whether a value is an integer of at least 0."""
    return isinstance(value, int) and value >= 0


OPERATORS = [
    Operator("GridSample", "Samples maps at a grid of coordinates, with interpolation.",
             _grid_sample_shape, _lower_grid_sample,
             {"mode": one_of(*GRID_MODES), "padding_mode": one_of(*GRID_PADDINGS),
              "align_corners": one_of(0, 1)}, _grid_sample_problem, role="resamples",
             receptive_field=_grid_sample_receptive_fields,
             explanation="nothing", formula=None, bounds=None, caption=None, shape_inputs=(),
             gradient=gradients.grid_sample),
    Operator("Col2Im", "Adds windows at their original positions: the inverse of extracting them.",
             _col2im_shape, _lower_col2im,
             {"strides": any_value, "dilations": any_value, "pads": any_value},
             combine_checks(constant_input_check(1, "image_shape"), constant_input_check(2,
                 "block_shape"),
                           _col2im_problem), role="head",
             receptive_field=first_input_fields(_col2im_receptive_field),
             explanation="nothing", formula=None, bounds=None, caption=None, shape_inputs=(1, 2),
             gradient=gradients.col2im_rule(_col2im_windows)),
    Operator("RoiAlign", "Crops boxes from maps, each divided into bins with the mean of their "
             "samples (max: the largest weighted pixel, as ONNX defines it).",
             _roi_align_shape, _lower_roi_align,
             {"coordinate_transformation_mode": one_of("half_pixel", "output_half_pixel"),
              "mode": one_of("avg", "max"), "output_height": positive_int,
              "output_width": positive_int,
              "sampling_ratio": _non_negative_int, "spatial_scale": any_value},
             _roi_align_problem, role="head", receptive_field=_roi_align_receptive_fields,
             explanation="nothing", formula=None, bounds=None, caption=None, shape_inputs=(),
             gradient=gradients.roi_align),
]  # fmt: skip
