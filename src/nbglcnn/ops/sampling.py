"""What operators that sample maps, and their gradients, tell their shaders of grids and boxes."""

from __future__ import annotations

from nbglcnn.codegen.glsl import shader
from nbglcnn.codegen.slots import Number
from nbglcnn.graph import Node
from nbglcnn.ops.operator import Shape, integer, number, text

MODES = ("nearest", "linear", "cubic")  # their numbers are grid_places.glsl's MODE
PADDINGS = ("zeros", "border", "reflection")  # and PADDING
GRID = shader("grid_places.glsl")
GRID_SLOTS = "ivec3 size; int aligned, axes, first, last"


def grid_mode(node: Node) -> int:
    """The number of a GridSample's mode."""
    return MODES.index(text(node, "mode", "linear"))


def grid_taps(node: Node) -> int:
    """How many neighbours are mixed along an axis."""
    return (1, 2, 4)[grid_mode(node)]


def grid_constants(node: Node, axes: int) -> dict[str, int]:
    """What grid_places.glsl wants defined for maps of so many spatial axes."""
    padding = PADDINGS.index(text(node, "padding_mode", "zeros"))
    return {"MODE": grid_mode(node), "PADDING": padding, "DEPTH": int(axes == 3)}


def grid_numbers(node: Node, spatial: Shape) -> dict[str, Number]:
    """The numbers of GRID_SLOTS for maps of this size."""
    mode, axes = grid_mode(node), len(spatial)
    return {
        "size": (*[1] * (3 - axes), *spatial),
        "aligned": integer(node, "align_corners", 0),
        "axes": axes,
        "first": -(mode == 2),
        "last": mode,
    }


def boxes_in(tensor: int) -> str:
    """roi_lines.glsl for boxes that are this input of a pass."""
    return f"#define BOXES x{tensor}, u.x[{tensor}]\n{shader('roi_lines.glsl')}"


BOX_SLOTS = "ivec2 bins; int samples; float scale, shift, least"


def bins_of(node: Node) -> tuple[int, int]:
    """Rows and columns of bins of a RoiAlign."""
    return integer(node, "output_height", 1), integer(node, "output_width", 1)


def box_numbers(node: Node) -> dict[str, Number]:
    """The numbers of BOX_SLOTS."""
    aligned = text(node, "coordinate_transformation_mode", "half_pixel") == "half_pixel"
    # A box of the older way is at least a pixel wide; else there may be none of it.
    return {
        "bins": bins_of(node),
        "samples": integer(node, "sampling_ratio", 0),
        "scale": number(node, "spatial_scale", 1.0),
        "shift": 0.5 if aligned else 0.0,
        "least": -3e38 if aligned else 1.0,
    }
