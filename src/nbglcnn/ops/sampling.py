"""What operators that sample maps, and their gradients, tell their shaders of grids and boxes."""

from __future__ import annotations

from nbglcnn.graph import Node
from nbglcnn.lowering.glsl import shader
from nbglcnn.ops.operator import Shape, integer, number, text

MODES = ("nearest", "linear", "cubic")  # their numbers are grid_places.glsl's MODE
PADDINGS = ("zeros", "border", "reflection")  # and PADDING
GRID = shader("grid_places.glsl")


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


def grid_integers(node: Node, spatial: Shape, rows: int) -> list[int]:
    """Its i[0] and i[1] for maps of this size; `rows` are those of a slice of what is drawn."""
    mode, axes = grid_mode(node), len(spatial)
    first, last = -(mode == 2), mode
    return [*[1] * (3 - axes), *spatial, integer(node, "align_corners", 0), rows, axes, first, last]


def boxes_in(tensor: int) -> str:
    """roi_lines.glsl for boxes that are this input of a pass."""
    return f"#define BOXES x{tensor}, u.x[{tensor}]\n{shader('roi_lines.glsl')}"


BOX_SLOTS = "float scale, shift, least"


def bins_of(node: Node) -> tuple[int, int]:
    """Rows and columns of bins of a RoiAlign."""
    return integer(node, "output_height", 1), integer(node, "output_width", 1)


def box_integers(node: Node) -> list[int]:
    """What roi_lines.glsl wants in i[0], but for its last number."""
    return [*bins_of(node), integer(node, "sampling_ratio", 0)]


def box_numbers(node: Node) -> dict[str, float]:
    """The numbers of BOX_SLOTS."""
    aligned = text(node, "coordinate_transformation_mode", "half_pixel") == "half_pixel"
    # A box of the older way is at least a pixel wide; else there may be none of it.
    return {
        "scale": number(node, "spatial_scale", 1.0),
        "shift": 0.5 if aligned else 0.0,
        "least": -3e38 if aligned else 1.0,
    }
