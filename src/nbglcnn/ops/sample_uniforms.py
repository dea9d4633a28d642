"""Uniforms and constants of the grids and boxes of sampling operators and their gradients."""

from __future__ import annotations

from nbglcnn.codegen.glsl import shader_source
from nbglcnn.codegen.uniform_slots import UniformValue
from nbglcnn.graph import Node
from nbglcnn.ops.operator import Shape, float_attr, int_attr, string_attr

GRID_MODES = ("nearest", "linear", "cubic")  # in the order of MODE in grid_positions.glsl
GRID_PADDINGS = ("zeros", "border", "reflection")  # and of PADDING
GRID_GLSL = shader_source("grid_positions.glsl")
GRID_SLOTS = "ivec3 size; int aligned, axes, first, last"


def grid_mode(node: Node) -> int:
    """The index of a GridSample's mode."""
    return GRID_MODES.index(string_attr(node, "mode", "linear"))


def grid_taps(node: Node) -> int:
    """The number of neighbours that are interpolated along an axis."""
    return (1, 2, 4)[grid_mode(node)]


def grid_constants(node: Node, axes: int) -> dict[str, int]:
    """The defines of grid_positions.glsl for maps with this number of spatial axes."""
    padding = GRID_PADDINGS.index(string_attr(node, "padding_mode", "zeros"))
    return {"MODE": grid_mode(node), "PADDING": padding, "DEPTH": int(axes == 3)}


def grid_uniforms(node: Node, spatial: Shape) -> dict[str, UniformValue]:
    """The uniforms of GRID_SLOTS for maps of this size."""
    mode, axes = grid_mode(node), len(spatial)
    return {
        "size": (*[1] * (3 - axes), *spatial),
        "aligned": int_attr(node, "align_corners", 0),
        "axes": axes,
        "first": -(mode == 2),
        "last": mode,
    }


def roi_glsl(input_index: int) -> str:
    """roi_sampling.glsl, with boxes from this input of the pass."""
    return f"#define BOXES x{input_index}, u.x[{input_index}]\n{shader_source('roi_sampling.glsl')}"


ROI_SLOTS = "ivec2 bins; int samples; float scale, shift, least"


def roi_bins(node: Node) -> tuple[int, int]:
    """The number of rows and columns of bins of a RoiAlign."""
    return int_attr(node, "output_height", 1), int_attr(node, "output_width", 1)


def roi_uniforms(node: Node) -> dict[str, UniformValue]:
    """The uniforms of ROI_SLOTS."""
    aligned = string_attr(node, "coordinate_transformation_mode", "half_pixel") == "half_pixel"
    # In the older mode a box is at least one pixel wide; otherwise its size has no minimum.
    return {
        "bins": roi_bins(node),
        "samples": int_attr(node, "sampling_ratio", 0),
        "scale": float_attr(node, "spatial_scale", 1.0),
        "shift": 0.5 if aligned else 0.0,
        "least": -3e38 if aligned else 1.0,
    }
