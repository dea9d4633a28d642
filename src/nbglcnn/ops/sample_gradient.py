"""Gradients of sampling. Shaders have no scatter, so each pixel searches the samples at it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import MAX_LOOP_ITERATIONS, FragmentShader, shader_source
from nbglcnn.codegen.strided import MAX_LOOKUPS, per_element_shader
from nbglcnn.errors import UnsupportedOperator
from nbglcnn.graph import Node
from nbglcnn.ops.gradient_builder import GradientBuilder
from nbglcnn.ops.movement_gradient import one_hot, pad_axis
from nbglcnn.ops.operator import (
    GradientRule,
    KnownValues,
    Operator,
    Shape,
    any_value,
    int_attr,
    int_list_attr,
    string_attr,
)
from nbglcnn.ops.receptive_field import full_fields
from nbglcnn.ops.sample_uniforms import (
    GRID_GLSL,
    GRID_SLOTS,
    ROI_SLOTS,
    grid_constants,
    grid_mode,
    grid_taps,
    grid_uniforms,
    roi_bins,
    roi_glsl,
    roi_uniforms,
)
from nbglcnn.plan.layout import storage_nchw

PIXEL_LOOP_GLSL = shader_source("pixel_loop_main.glsl")


def _grid_shader(name: str, slots: str = "") -> FragmentShader:
    text = GRID_GLSL + shader_source(f"{name}.glsl") + PIXEL_LOOP_GLSL
    return FragmentShader(name, text, has_pixel_function=False, uniform_slots=GRID_SLOTS + slots)


TILE_SLOTS = "; ivec2 across; int tiles"
GRID_SAMPLE_SHADER, GRID_COORDINATES_SHADER = (
    _grid_shader("grid_sample"),
    _grid_shader("grid_coordinates"),
)
GRID_BOUNDS_SHADER = _grid_shader("grid_bounds", TILE_SLOTS)
GRID_SAMPLE_GRADIENT_SHADER = _grid_shader("grid_sample_gradient", f"{TILE_SLOTS}, begin, end")
_ROI_BIN_WEIGHTS = per_element_shader("roi_shares", f"{ROI_SLOTS}; int axis, size")
ROI_BIN_WEIGHTS = replace(_ROI_BIN_WEIGHTS, source=roi_glsl(0) + _ROI_BIN_WEIGHTS.source)
# Side lengths of tiles and large tiles, in samples; a pixel skips tiles whose samples don't read
# it.
TILE_SIDE, LARGE_TILE_SIDE = 4, 16
MAX_TILE_READS = 2**32  # total reads of large tiles: seconds on a small graphics card


def grid_sample(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """GridSample: gathered for the map; for the grid, the slopes of its samples."""
    x, grid = node.inputs
    found = ["", ""]
    if builder.needs_gradient(x):
        attributes = {**node.attributes, "size": builder.shape(x)}
        found[0] = builder.add_node_like("GridSampleGradient", (dy[0], grid), attributes)
    if builder.needs_gradient(grid) and grid_mode(node):  # nearest samples have slope 0
        parts = []
        for axis in range(builder.shape(grid)[-1]):
            slope = builder.add_node_like(
                "GridSampleSlope", node.inputs, {**node.attributes, "axis": axis}
            )
            along = builder.sum(builder.multiply(dy[0], slope), [1], keepdims=False)
            parts.append(builder.reshape(along, (*builder.shape(along), 1)))
        found[1] = builder.add_node("Concat", *parts, axis=len(builder.shape(grid)) - 1)
    return found


def roi_align(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """RoiAlign: sample means are linear per axis; boxes have no gradient, as in torchvision."""
    if string_attr(node, "mode", "avg") != "avg":
        raise UnsupportedOperator(
            f"{node.module or node.name}: {node.op} with mode='max' has no gradient; avg has"
        )
    x, boxes, images = node.inputs
    if not builder.needs_gradient(x):
        return ["", "", ""]
    (n, c, h, w), (count, _, rows, columns) = builder.shape(x), builder.shape(dy[0])
    down, across = (
        builder.add_node_like(
            "RoiAlignShares", (boxes,), {**node.attributes, "axis": axis, "size": size}
        )
        for axis, size in enumerate((h, w))
    )
    lines = builder.add_node("MatMul", builder.reshape(dy[0], (count, c * rows, columns)), across)
    lines = builder.transpose(builder.reshape(lines, (count, c, rows, w)), (0, 2, 1, 3))
    mine = builder.reshape(one_hot(builder, images, n), (n, count, 1, 1))
    shares = builder.transpose(builder.multiply(mine, down), (0, 3, 1, 2))
    found = builder.add_node(
        "MatMul",
        builder.reshape(shares, (n * h, count * rows)),
        builder.reshape(lines, (count * rows, c * w)),
    )
    return [builder.transpose(builder.reshape(found, (n, h, c, w)), (0, 2, 1, 3)), "", ""]


def col2im_rule(windows: Callable[[KnownValues, Node], tuple[Shape, ...]]) -> GradientRule:
    """Make a Col2Im's rule for these windows: each element reads the position it was added to."""

    def rule(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
        image, window, strides, dilations, before, counts = windows(builder, node)
        n, channels = builder.shape(dy[0])[:2]
        found, index = dy[0], np.zeros((), np.int64)
        for axis, length in enumerate(image):
            taps = np.arange(window[axis]) * dilations[axis]
            at = taps[:, None] + np.arange(counts[axis]) * strides[axis] - before[axis]
            front, behind = max(0, -int(at.min())), max(0, int(at.max()) + 1 - length)
            found = pad_axis(builder, found, axis + 2, front, behind)
            index = index[..., None, None] * (front + length + behind) + (at + front)
        places = np.moveaxis(index, range(0, index.ndim, 2), range(len(image))).reshape(-1)
        flat = builder.reshape(found, (n * channels, math.prod(builder.shape(found)[2:])))
        chosen = builder.add_node("Gather", flat, builder.add_constant(places), axis=1)
        return [builder.reshape(chosen, builder.shape(node.inputs[0])), "", ""]

    return rule


# The operators.


def draw_grid_samples(b: Builder, node: Node, inputs: Sequence[Tensor], output: Tensor) -> None:
    """Sample the first input at the second's coordinates; with attribute `axis`, the slopes."""
    spatial, axis = b.shape(node.inputs[0])[2:], int_attr(node, "axis", -1)
    b.draw(
        GRID_SAMPLE_SHADER, output, inputs,
        uniforms=grid_uniforms(node, spatial),
        constants={**grid_constants(node, len(spatial)), "AXIS": axis},
        fetches=math.prod(output.layout.block) * (grid_taps(node) ** len(spatial) + 2),
    )  # fmt: skip


def _grid_slope_shape(facts: KnownValues, node: Node) -> list[Shape]:
    x, grid = (facts.shape(name) for name in node.inputs)
    return [(*x[:2], *grid[1:-1])]


def _lower_grid_slope(b: Builder, node: Node) -> None:
    inputs = [b.tensor(node.inputs[0]), b.stored_tensor(node.inputs[1])]
    draw_grid_samples(b, node, inputs, b.create_output(node.outputs[0]))


def _map_gradient_shapes(_facts: KnownValues, node: Node) -> list[Shape]:
    return [int_list_attr(node, "size", ())]


def _tile_counts(samples: Shape, side: int) -> tuple[int, int]:
    """The number of rows and columns of tiles."""
    _, _, h, w = storage_nchw(samples)
    return -(-h // side), -(-w // side)


def _tile_reads_problem(facts: KnownValues, node: Node) -> str | None:
    tiles = math.prod(_tile_counts(facts.shape(node.inputs[0]), LARGE_TILE_SIDE))
    looks = math.prod(int_list_attr(node, "size", ())) * tiles
    if looks > MAX_TILE_READS:
        return f"{looks:,} tiles of samples would be read; at most {MAX_TILE_READS:,} are supported"
    return None


def _lower_grid_gradient(b: Builder, node: Node) -> None:
    """Passes for the coordinates, the bounds of their tiles, then a few large tiles per pass."""
    samples, (size,) = b.shape(node.inputs[0]), _map_gradient_shapes(b, node)
    spatial = size[2:]
    constants = grid_constants(node, len(spatial))
    n, _, h, w = storage_nchw(samples)
    numbers = grid_uniforms(node, spatial)
    tiles, large = _tile_counts(samples, TILE_SIDE), _tile_counts(samples, LARGE_TILE_SIDE)
    count = math.prod(large)
    sides = {"SMALL": TILE_SIDE, "LARGE": LARGE_TILE_SIDE}
    coordinates = b.create_scratch_tensor(b.layout((n, 4, h, w), (1, 1, 1)))
    b.draw(
        GRID_COORDINATES_SHADER, coordinates, [b.stored_tensor(node.inputs[1])], uniforms=numbers,
        constants=constants, fetches=12,
    )  # fmt: skip
    numbers = {**numbers, "across": (tiles[1], large[1]), "tiles": math.prod(tiles)}
    channels = 8 if len(spatial) == 3 else 4
    bounds = b.create_scratch_tensor(
        b.layout((n, channels, 1, math.prod(tiles) + count), (1, 1, 1))
    )
    b.draw(
        GRID_BOUNDS_SHADER, bounds, [coordinates], uniforms=numbers,
        constants={**constants, **sides},
        fetches=2 * TILE_SIDE * TILE_SIDE,
    )  # fmt: skip
    dy, layout = b.tensor(node.inputs[0], storage_nchw(samples)), b.layout(storage_nchw(size))
    pixels = math.prod(layout.block)
    each = max(1, MAX_LOOP_ITERATIONS // (pixels * _tile_iterations()))
    done: list[Tensor] = []
    for begin in range(0, count, each):
        end = min(begin + each, count)
        written = (
            b.create_output(node.outputs[0], layout)
            if end == count
            else b.create_scratch_tensor(layout)
        )
        b.draw(
            GRID_SAMPLE_GRADIENT_SHADER, written, [dy, coordinates, bounds, *done],
            uniforms={**numbers, "begin": begin, "end": end},
            constants={**constants, **sides, "FURTHER": int(begin > 0)},
            fetches=pixels * (end - begin + 4 * TILE_SIDE * TILE_SIDE),
        )  # fmt: skip
        done = [written]


def _tile_iterations() -> int:
    """The most loop iterations over a large tile; each loop has one more, to terminate."""
    lines = LARGE_TILE_SIDE // TILE_SIDE
    return (
        2
        + lines
        + lines * (lines + 1)
        + lines * lines * (TILE_SIDE + 1 + TILE_SIDE * (TILE_SIDE + 1))
    )


def _bin_weights_shape(facts: KnownValues, node: Node) -> list[Shape]:
    bins = roi_bins(node)[int_attr(node, "axis", 0)]
    return [(facts.shape(node.inputs[0])[0], bins, int_attr(node, "size", 0))]


def _bin_weights_problem(_facts: KnownValues, node: Node) -> str | None:
    """Check the sampling ratio: all samples of a box along an axis may lie in one row."""
    samples = int_attr(node, "sampling_ratio", 0)
    return f"sampling_ratio={samples}; at most {MAX_LOOKUPS:,}" if samples > MAX_LOOKUPS else None


def _lower_bin_weights(b: Builder, node: Node) -> None:
    b.draw(
        ROI_BIN_WEIGHTS, b.create_output(node.outputs[0]), [b.stored_tensor(node.inputs[0])],
        uniforms={
            **roi_uniforms(node),
            **{"axis": 1 - int_attr(node, "axis", 0), "size": int_attr(node, "size", 0)},
        },
        fetches=32,
    )  # fmt: skip


_GRID_ATTRIBUTES = {"mode": any_value, "padding_mode": any_value, "align_corners": any_value}
_ROI_ATTRIBUTES = {
    "coordinate_transformation_mode": any_value, "mode": any_value, "output_height": any_value,
    "output_width": any_value, "sampling_ratio": any_value, "spatial_scale": any_value,
}  # fmt: skip
OPERATORS = [
    Operator(
        "GridSampleGradient", "The gradient of a GridSample with respect to its maps.",
        _map_gradient_shapes, _lower_grid_gradient, {**_GRID_ATTRIBUTES, "size": any_value},
        _tile_reads_problem,
        role="head", receptive_field=full_fields, explanation="nothing", formula=None, bounds=None,
        caption=None, shape_inputs=(), gradient="it is itself part of a gradient",
    ),
    Operator(
        "GridSampleSlope", "The gradient of a GridSample with respect to a grid coordinate.",
        _grid_slope_shape, _lower_grid_slope, {**_GRID_ATTRIBUTES, "axis": any_value},
        role="head", receptive_field=full_fields, explanation="nothing", formula=None, bounds=None,
        caption=None, shape_inputs=(), gradient="it is itself part of a gradient",
    ),
    Operator(
        "RoiAlignShares", "The weight of each row or column of a map in each bin of a RoiAlign.",
        _bin_weights_shape, _lower_bin_weights,
        {**_ROI_ATTRIBUTES, "axis": any_value, "size": any_value},
        _bin_weights_problem,
        role="head", receptive_field=full_fields, explanation="nothing", formula=None, bounds=None,
        caption=None, shape_inputs=(), gradient="it is itself part of a gradient",
    ),
]  # fmt: skip
