"""Gradients of what samples maps: shaders have no scatter, so each pixel looks who has read it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import ROUNDS, Kernel, shader
from nbglcnn.errors import UnsupportedOperator
from nbglcnn.graph import Node
from nbglcnn.ops.movement_gradient import matches, widened
from nbglcnn.ops.operator import (
    Facts,
    Gradient,
    Operator,
    Shape,
    anything,
    integer,
    integers,
    text,
)
from nbglcnn.ops.reach import everything
from nbglcnn.ops.rules import Rules
from nbglcnn.ops.sampling import (
    BOX_SLOTS,
    GRID,
    GRID_SLOTS,
    bins_of,
    box_numbers,
    boxes_in,
    grid_constants,
    grid_mode,
    grid_numbers,
    grid_taps,
)
from nbglcnn.ops.strided import PLACES, by_element
from nbglcnn.plan.layout import nchw_of

PIXELS = shader("pixels.glsl")


def _of_grid(name: str, slots: str = "") -> Kernel:
    text = GRID + shader(f"{name}.glsl") + PIXELS
    return Kernel(name, text, pixel=False, slots=GRID_SLOTS + slots)


TILES = "; ivec2 across; int tiles"
SAMPLES, COORDINATES = _of_grid("grid_sample"), _of_grid("grid_coordinates")
BOUNDS = _of_grid("grid_bounds", TILES)
GATHERED = _of_grid("grid_sample_gradient", f"{TILES}, begin, end")
_SHARES = by_element("roi_shares", f"{BOX_SLOTS}; int axis, size")
SHARES = replace(_SHARES, text=boxes_in(0) + _SHARES.text)
# Samples along a side of tiles and of large ones: pixels skip those of which no sample reads them.
SMALL, LARGE = 4, 16
MOST_LOOKS = 2**32  # at large tiles, altogether: seconds on a small graphics card


def grid_sample(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """GridSample: the map's is gathered; the grid's is that of its samples' slopes."""
    x, grid = node.inputs
    found = ["", ""]
    if rules.wants(x):
        attributes = {**node.attributes, "size": rules.shape(x)}
        found[0] = rules.like("GridSampleGradient", (dy[0], grid), attributes)
    if rules.wants(grid) and grid_mode(node):  # nearest samples are flat
        parts = []
        for axis in range(rules.shape(grid)[-1]):
            slope = rules.like("GridSampleSlope", node.inputs, {**node.attributes, "axis": axis})
            along = rules.sum(rules.multiply(dy[0], slope), [1], keepdims=False)
            parts.append(rules.reshape(along, (*rules.shape(along), 1)))
        found[1] = rules.node("Concat", *parts, axis=len(rules.shape(grid)) - 1)
    return found


def roi_align(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """RoiAlign: means of samples are linear along each axis; boxes have none, as in torchvision."""
    if text(node, "mode", "avg") != "avg":
        raise UnsupportedOperator(
            f"{node.module or node.name}: {node.op} with mode='max' has no gradient; avg has"
        )
    x, boxes, images = node.inputs
    if not rules.wants(x):
        return ["", "", ""]
    (n, c, h, w), (count, _, rows, columns) = rules.shape(x), rules.shape(dy[0])
    down, across = (
        rules.like("RoiAlignShares", (boxes,), {**node.attributes, "axis": axis, "size": size})
        for axis, size in enumerate((h, w))
    )
    lines = rules.node("MatMul", rules.reshape(dy[0], (count, c * rows, columns)), across)
    lines = rules.transpose(rules.reshape(lines, (count, c, rows, w)), (0, 2, 1, 3))
    mine = rules.reshape(matches(rules, images, n), (n, count, 1, 1))
    shares = rules.transpose(rules.multiply(mine, down), (0, 3, 1, 2))
    found = rules.node(
        "MatMul",
        rules.reshape(shares, (n * h, count * rows)),
        rules.reshape(lines, (count * rows, c * w)),
    )
    return [rules.transpose(rules.reshape(found, (n, h, c, w)), (0, 2, 1, 3)), "", ""]


def col2im(windows: Callable[[Facts, Node], tuple[Shape, ...]]) -> Gradient:
    """A rule of a Col2Im with these windows: each element reads the place to which it was added."""

    def rule(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
        image, window, strides, dilations, before, counts = windows(rules, node)
        n, channels = rules.shape(dy[0])[:2]
        found, index = dy[0], np.zeros((), np.int64)
        for axis, length in enumerate(image):
            taps = np.arange(window[axis]) * dilations[axis]
            at = taps[:, None] + np.arange(counts[axis]) * strides[axis] - before[axis]
            front, behind = max(0, -int(at.min())), max(0, int(at.max()) + 1 - length)
            found = widened(rules, found, axis + 2, front, behind)
            index = index[..., None, None] * (front + length + behind) + (at + front)
        places = np.moveaxis(index, range(0, index.ndim, 2), range(len(image))).reshape(-1)
        flat = rules.reshape(found, (n * channels, math.prod(rules.shape(found)[2:])))
        chosen = rules.node("Gather", flat, rules.array(places), axis=1)
        return [rules.reshape(chosen, rules.shape(node.inputs[0])), "", ""]

    return rule


# The operators.


def draw_samples(b: Builder, node: Node, inputs: Sequence[Tensor], output: Tensor) -> None:
    """Samples of the first input where the second says; with an attribute `axis` their slopes."""
    spatial, axis = b.shape(node.inputs[0])[2:], integer(node, "axis", -1)
    b.draw(
        SAMPLES, output, inputs,
        numbers=grid_numbers(node, spatial),
        constants={**grid_constants(node, len(spatial)), "AXIS": axis},
        fetches=math.prod(output.layout.block) * (grid_taps(node) ** len(spatial) + 2),
    )  # fmt: skip


def _slope_shape(facts: Facts, node: Node) -> list[Shape]:
    x, grid = (facts.shape(name) for name in node.inputs)
    return [(*x[:2], *grid[1:-1])]


def _draw_slope(b: Builder, node: Node) -> None:
    inputs = [b.tensor(node.inputs[0]), b.stored(node.inputs[1])]
    draw_samples(b, node, inputs, b.output(node.outputs[0]))


def _size(_facts: Facts, node: Node) -> list[Shape]:
    return [integers(node, "size", ())]


def _tiles(samples: Shape, side: int) -> tuple[int, int]:
    """Rows and columns of tiles."""
    _, _, h, w = nchw_of(samples)
    return -(-h // side), -(-w // side)


def _looks_problem(facts: Facts, node: Node) -> str | None:
    tiles = math.prod(_tiles(facts.shape(node.inputs[0]), LARGE))
    looks = math.prod(integers(node, "size", ())) * tiles
    if looks > MOST_LOOKS:
        return f"{looks:,} tiles of samples would be looked at; at most {MOST_LOOKS:,}"
    return None


def _draw_gathered(b: Builder, node: Node) -> None:
    """Coordinates, bounds of each tile of them, then passes over so many large tiles each."""
    samples, (size,) = b.shape(node.inputs[0]), _size(b, node)
    spatial = size[2:]
    constants = grid_constants(node, len(spatial))
    n, _, h, w = nchw_of(samples)
    numbers = grid_numbers(node, spatial)
    tiles, large = _tiles(samples, SMALL), _tiles(samples, LARGE)
    count = math.prod(large)
    sides = {"SMALL": SMALL, "LARGE": LARGE}
    coordinates = b.scratch(b.layout((n, 4, h, w), (1, 1, 1)))
    b.draw(
        COORDINATES, coordinates, [b.stored(node.inputs[1])], numbers=numbers,
        constants=constants, fetches=12,
    )  # fmt: skip
    numbers = {**numbers, "across": (tiles[1], large[1]), "tiles": math.prod(tiles)}
    channels = 8 if len(spatial) == 3 else 4
    bounds = b.scratch(b.layout((n, channels, 1, math.prod(tiles) + count), (1, 1, 1)))
    b.draw(
        BOUNDS, bounds, [coordinates], numbers=numbers, constants={**constants, **sides},
        fetches=2 * SMALL * SMALL,
    )  # fmt: skip
    dy, layout = b.tensor(node.inputs[0], nchw_of(samples)), b.layout(nchw_of(size))
    pixels = math.prod(layout.block)
    each = max(1, ROUNDS // (pixels * _rounds()))
    done: list[Tensor] = []
    for begin in range(0, count, each):
        end = min(begin + each, count)
        written = b.output(node.outputs[0], layout) if end == count else b.scratch(layout)
        b.draw(
            GATHERED, written, [dy, coordinates, bounds, *done],
            numbers={**numbers, "begin": begin, "end": end},
            constants={**constants, **sides, "FURTHER": int(begin > 0)},
            fetches=pixels * (end - begin + 4 * SMALL * SMALL),
        )  # fmt: skip
        done = [written]


def _rounds() -> int:
    """What loops over a large tile go round at most; each takes one more, to see that it ends."""
    lines = LARGE // SMALL
    return 2 + lines + lines * (lines + 1) + lines * lines * (SMALL + 1 + SMALL * (SMALL + 1))


def _shares_shape(facts: Facts, node: Node) -> list[Shape]:
    bins = bins_of(node)[integer(node, "axis", 0)]
    return [(facts.shape(node.inputs[0])[0], bins, integer(node, "size", 0))]


def _shares_problem(_facts: Facts, node: Node) -> str | None:
    """Of a box's samples a row may have all."""
    samples = integer(node, "sampling_ratio", 0)
    return f"sampling_ratio={samples}; at most {PLACES:,}" if samples > PLACES else None


def _draw_shares(b: Builder, node: Node) -> None:
    b.draw(
        SHARES, b.output(node.outputs[0]), [b.stored(node.inputs[0])],
        numbers={
            **box_numbers(node),
            **{"axis": 1 - integer(node, "axis", 0), "size": integer(node, "size", 0)},
        },
        fetches=32,
    )  # fmt: skip


_GRID = {"mode": anything, "padding_mode": anything, "align_corners": anything}
_BOXES = {
    "coordinate_transformation_mode": anything, "mode": anything, "output_height": anything,
    "output_width": anything, "sampling_ratio": anything, "spatial_scale": anything,
}  # fmt: skip
OPERATORS = [
    Operator(
        "GridSampleGradient", "The gradient of a GridSample with respect to its maps.",
        _size, _draw_gathered, {**_GRID, "size": anything}, _looks_problem,
        role="head", reach=everything, explains="nothing", formula=None, bounds=None, short=None,
        shape_inputs=(), gradient="it is itself part of a gradient",
    ),
    Operator(
        "GridSampleSlope", "How samples change with one coordinate of a grid.",
        _slope_shape, _draw_slope, {**_GRID, "axis": anything},
        role="head", reach=everything, explains="nothing", formula=None, bounds=None, short=None,
        shape_inputs=(), gradient="it is itself part of a gradient",
    ),
    Operator(
        "RoiAlignShares", "How much of each bin of a RoiAlign is each row or column of a map.",
        _shares_shape, _draw_shares, {**_BOXES, "axis": anything, "size": anything},
        _shares_problem,
        role="head", reach=everything, explains="nothing", formula=None, bounds=None, short=None,
        shape_inputs=(), gradient="it is itself part of a gradient",
    ),
]  # fmt: skip
