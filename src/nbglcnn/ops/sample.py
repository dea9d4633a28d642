"""Sampling: maps read where a grid says or in boxes, and windows put back where they came from."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import ROUNDS, Kernel, rounds, shader, too_long
from nbglcnn.graph import Node
from nbglcnn.ops import sample_gradient as gradients
from nbglcnn.ops.movement import first_problem, needs_constant
from nbglcnn.ops.operator import (
    Facts,
    Operator,
    Shape,
    anything,
    constant_integers,
    integer,
    integers,
    only,
    positive,
    text,
)
from nbglcnn.ops.reach import Linked, first, listed, same
from nbglcnn.ops.sampling import BOX_SLOTS, MODES, PADDINGS, bins_of, box_numbers, boxes_in
from nbglcnn.ops.scatter import MOST_READS
from nbglcnn.ops.strided import by_element
from nbglcnn.plan.layout import nchw_of
from nbglcnn.plan.schema import Along

COL2IM = by_element(
    "col2im", "ivec3 kernel, stride, dilation, padding, counts; int taps, windows, rows"
)
ROI_ALIGN = Kernel(
    "roi_align",
    "".join([shader("nan.glsl"), boxes_in(1), shader("roi_align.glsl"), shader("pixels.glsl")]),
    pixel=False,
    slots=f"{BOX_SLOTS}; int begin, end, last",
)


def _sample_shape(facts: Facts, node: Node) -> Sequence[Shape]:
    x, grid = (facts.shape(name) for name in node.inputs)
    return [(*x[:2], *grid[1:-1])]


def _sample_problem(facts: Facts, node: Node) -> str | None:
    """Maps or volumes with a grid of as many coordinates."""
    x, grid = (facts.shape(name) for name in node.inputs)
    if len(x) not in (4, 5) or len(grid) != len(x) or grid[-1] != len(x) - 2 or grid[0] != x[0]:
        return f"an input of shape {x} with a grid of shape {grid}; expected maps or volumes"
    return None


def _sample(b: Builder, node: Node) -> None:
    shape = b.shape(node.inputs[0])
    output = b.output(node.outputs[0])
    x = b.tensor(node.inputs[0], nchw_of(shape), output.layout.block if shape[0] > 1 else None)
    gradients.draw_samples(b, node, [x, b.stored(node.inputs[1])], output)


def _windows(facts: Facts, node: Node) -> tuple[Shape, ...]:
    """Image, window, strides, dilations, padding before, windows: each along every axis."""
    image, window = constant_integers(facts, node, 1), constant_integers(facts, node, 2)
    assert image is not None and window is not None
    ones = (1,) * len(image)
    strides, dilations = integers(node, "strides", ones), integers(node, "dilations", ones)
    pads = integers(node, "pads", (0,) * 2 * len(image))
    before, after = pads[: len(image)], pads[len(image) :]
    counts = tuple(
        (size + p + q - d * (k - 1) - 1) // s + 1
        for size, k, s, d, p, q in zip(
            image, window, strides, dilations, before, after, strict=True
        )
    )
    return image, window, strides, dilations, before, counts


def _col2im_shape(facts: Facts, node: Node) -> Sequence[Shape]:
    n, columns, _ = facts.shape(node.inputs[0])
    image, window, *_ = _windows(facts, node)
    return [(n, columns // math.prod(window), *image)]


def _col2im_problem(facts: Facts, node: Node) -> str | None:
    """Up to three axes, as many windows as fit."""
    shape = facts.shape(node.inputs[0])
    image, window, strides, dilations, _, counts = _windows(facts, node)
    if len(image) > 3 or min(*window, *strides, *dilations, *image) < 1:
        return f"windows of {window} of an image of {image}; up to three axes are supported"
    if len(shape) != 3 or shape[1] % math.prod(window) or shape[2] != math.prod(counts):
        return f"columns of shape {shape} for windows of {window}, {counts} of them"
    channels = min(4, shape[1] // math.prod(window))  # in each of four pixels
    if problem := too_long(4 * channels * rounds(math.prod(window))):
        return f"a window of {window}: {problem}"
    return None


def _col2im(b: Builder, node: Node) -> None:
    image, *rest = _windows(b, node)
    missing = 3 - len(image)
    window, strides, dilations, before, counts = (
        (*[fill] * missing, *values) for fill, values in zip((1, 1, 1, 0, 1), rest, strict=True)
    )
    taps, rows = math.prod(window), image[-2] if len(image) > 1 else 1
    b.draw(
        COL2IM, b.output(node.outputs[0]), [b.stored(node.inputs[0])],
        numbers={
            "kernel": window, "stride": strides, "dilation": dilations, "padding": before,
            "counts": counts, "taps": taps, "windows": math.prod(counts), "rows": rows,
        },
        fetches=16 * taps,
    )  # fmt: skip


def _sample_reach(facts: Facts, node: Node, position: int) -> list[Linked | None]:
    """Anywhere in the map, and one row of the grid."""
    source, grid = map(facts.shape, node.inputs)
    shape = facts.shape(node.outputs[position])
    anywhere = Linked(shape, source, (same(0), same(1), *[None] * (len(source) - 2)))
    rows = (same(0), *(same(k + 1) for k in range(1, len(grid) - 1)), None)
    return [anywhere, Linked(shape, grid, rows)]


def _col2im_linked(facts: Facts, node: Node, position: int) -> Linked:
    n, columns, _ = facts.shape(node.inputs[0])
    _, window, strides, dilations, before, counts = _windows(facts, node)
    sides = [
        Along(axis + 2, kernel, stride, dilation, begin, transposed=True)
        for axis, (kernel, stride, dilation, begin) in enumerate(
            zip(window, strides, dilations, before, strict=True)
        )
    ]
    source, shape = (n, columns, *counts), facts.shape(node.outputs[position])
    return Linked(shape, source, (same(0), None, *sides))


def _boxes_shape(facts: Facts, node: Node) -> Sequence[Shape]:
    return [(*facts.shape(node.inputs[2]), facts.shape(node.inputs[0])[1], *bins_of(node))]


def _boxes_problem(facts: Facts, node: Node) -> str | None:
    """Maps, and a box's 4 coordinates and number of its image; no gradient with mode='max'."""
    x, boxes, images = (facts.shape(name) for name in node.inputs)
    if len(x) != 4 or len(images) != 1 or boxes != (*images, 4):
        return f"an input of shape {x} with boxes of shape {boxes} in images of shape {images}"
    known, samples = facts.constant(node.inputs[2]), integer(node, "sampling_ratio", 0)
    if known is not None and known.size and not 0 <= known.min() <= known.max() < x[0]:
        return f"boxes in images {known.min()} to {known.max()}; there are {x[0]}, counted from 0"
    reads = 4 * samples**2 * math.prod((*images, x[1], *bins_of(node)))
    if reads > MOST_READS:
        return f"{reads:,} pixels would be read; at most {MOST_READS:,}"
    rows, columns = _most_samples(node, x[2:])
    if _largest(node) and _rows_at_once(columns, 4) < rows:
        found = f"mode='max' of up to {rows}×{columns} samples a bin"
        return f"{found}; a fragment has time for {ROUNDS // 4:,}. Set a sampling_ratio"
    return None


def _most_samples(node: Node, spatial: Shape) -> list[int]:
    """Rows and columns of the samples of a bin that may lie on a map of this size."""
    # One a pixel where no number is given, and what roi_lines.glsl adds for roundings.
    return [integer(node, "sampling_ratio", 0) or size + 8 for size in spatial]


def _rows_at_once(columns: int, pixels: int) -> int:
    """Of samples, so that the loops of a fragment with so many pixels don't go too far round."""
    return max(1, (ROUNDS // pixels - 1) // (columns + 2))


def _boxes(b: Builder, node: Node) -> None:
    shape, bins = b.shape(node.inputs[0]), bins_of(node)
    inputs = [b.tensor(node.inputs[0]), b.stored(node.inputs[1]), b.stored(node.inputs[2])]
    layout = b.layout(nchw_of(b.shape(node.outputs[0])))
    pixels = math.prod(layout.block)
    # Where it goes by a box's pixels, as if each were the whole map.
    samples = integer(node, "sampling_ratio", 0)
    each = [samples or -(-size // count) for size, count in zip(shape[2:], bins, strict=True)]
    rows, columns = _most_samples(node, shape[2:])
    at_once, done = _rows_at_once(columns, pixels), list[Tensor]()
    for begin in range(0, rows, at_once):
        last = begin + at_once >= rows
        written = b.output(node.outputs[0], layout) if last else b.scratch(layout)
        b.draw(
            ROI_ALIGN, written, [*inputs, *done],
            numbers={
                **box_numbers(node), "begin": begin, "end": begin + at_once, "last": int(last),
            },
            constants={"LARGEST": _largest(node), "FURTHER": int(begin > 0)},
            fetches=pixels * (4 * math.prod(each) + 5),
        )  # fmt: skip
        done = [written]


def _largest(node: Node) -> int:
    return int(text(node, "mode", "avg") == "max")


def _boxes_reach(facts: Facts, node: Node, position: int) -> list[Linked | None]:
    """Anywhere in the map of one image, and one box."""
    source, boxes, images = map(facts.shape, node.inputs)
    shape, known = facts.shape(node.outputs[position]), facts.constant(node.inputs[2])
    image = None
    if known is not None:
        image = listed(0, len(known), source[0], lambda: ([int(i)] for i in known))
    return [
        Linked(shape, source, (image, same(1), None, None)),
        Linked(shape, boxes, (same(0), None)),
        Linked(shape, images, (same(0),)),
    ]


def _samples(value: object) -> bool:
    """0 or more."""
    return isinstance(value, int) and value >= 0


OPERATORS = [
    Operator("GridSample", "Reads maps where a grid of coordinates says, mixing neighbours.",
             _sample_shape, _sample,
             {"mode": only(*MODES), "padding_mode": only(*PADDINGS),
              "align_corners": only(0, 1)}, _sample_problem, role="resamples", reach=_sample_reach,
             explains="nothing", formula=None, bounds=None, short=None, shape_inputs=(),
             gradient=gradients.grid_sample),
    Operator("Col2Im", "Adds windows up where they came from: the reverse of cutting them out.",
             _col2im_shape, _col2im,
             {"strides": anything, "dilations": anything, "pads": anything},
             first_problem(needs_constant(1, "image_shape"), needs_constant(2, "block_shape"),
                           _col2im_problem), role="head", reach=first(_col2im_linked),
             explains="nothing", formula=None, bounds=None, short=None, shape_inputs=(1, 2),
             gradient=gradients.col2im(_windows)),
    Operator("RoiAlign", "Cuts boxes out of maps, each as so many bins with the mean of their "
             "samples (max: the largest share of a pixel in one, as ONNX defines it).",
             _boxes_shape, _boxes,
             {"coordinate_transformation_mode": only("half_pixel", "output_half_pixel"),
              "mode": only("avg", "max"), "output_height": positive, "output_width": positive,
              "sampling_ratio": _samples, "spatial_scale": anything},
             _boxes_problem, role="head", reach=_boxes_reach,
             explains="nothing", formula=None, bounds=None, short=None, shape_inputs=(),
             gradient=gradients.roi_align),
]  # fmt: skip
