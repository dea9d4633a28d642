"""nbglcnn's own adaptive pooling operators, which divide maps into bins that may overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import FragmentShader, loop_iterations, loop_problem, shader_source
from nbglcnn.graph import Array, Node
from nbglcnn.ops.gradient_builder import GradientBuilder
from nbglcnn.ops.movement_gradient import apply_matrix
from nbglcnn.ops.operator import (
    GradientRule,
    KnownValues,
    Operator,
    Shape,
    any_value,
    int_list_attr,
)
from nbglcnn.ops.receptive_field import (
    OperatorField,
    first_input_fields,
    same_position,
    table_window,
)
from nbglcnn.ops.window import pad_to_3d
from nbglcnn.plan.layout import MAX_EXACT_INTEGER
from nbglcnn.plan.schema import ExplanationKind

ADAPTIVE_POOL_SHADER = FragmentShader(
    "adaptive_pool",
    "".join(
        shader_source(f"{part}.glsl")
        for part in ("nan", "adaptive_bins", "adaptive_pool", "pixel_loop_main")
    ),
    has_pixel_function=False, uniform_slots="ivec3 size, places",
)  # fmt: skip
MAX_KIND, MEAN_KIND, INDEX_KIND = range(3)  # KIND in adaptive_pool.glsl
KIND_BY_OPERATOR = {"AdaptiveMaxPool": MAX_KIND, "AdaptiveAveragePool": MEAN_KIND}
MAX_BIN_PIXELS = 4096  # pixels of a bin for one pass; larger bins are pooled axis by axis
MAX_LENGTH_BIN_PRODUCT = (
    2**30
)  # of an axis's length and bin count, which adaptive_bins.glsl multiplies


def bin_pixels(bin_index: int, size: int, bins: int) -> range:
    """The pixels of one bin of an axis, by PyTorch's formula."""
    return range(bin_index * size // bins, -(-(bin_index + 1) * size // bins))


def max_bin_length(size: int, bins: int) -> int:
    """The largest number of pixels in a bin."""
    return max(len(bin_pixels(place, size, bins)) for place in range(min(bins, size)))


def bin_problem(spatial: Shape, bins: Shape) -> str | None:
    """The reason why one fragment cannot loop over a whole bin, or None."""
    sides = [max_bin_length(n, m) for n, m in zip(spatial, bins, strict=True)]
    if problem := loop_problem(2 + loop_iterations(*pad_to_3d(tuple(sides), 1))):
        return f"windows of {tuple(sides)} pixels: {problem}"
    return None


def _output_size(node: Node) -> Shape:
    return int_list_attr(node, "output_size", ())


def _shapes(facts: KnownValues, node: Node) -> Sequence[Shape]:
    n, c, *_ = facts.shape(node.inputs[0])
    return [(n, c, *_output_size(node))] * len(node.outputs)


def _problem(facts: KnownValues, node: Node) -> str | None:
    """Check the node; 1-D, 2-D and 3-D inputs are supported."""
    shape, bins = facts.shape(node.inputs[0]), _output_size(node)
    spatial = shape[2:]
    if len(spatial) not in (1, 2, 3) or len(bins) != len(spatial) or min(bins) < 1:
        return f"an input of shape {shape} for an output of {bins}"
    for n, m in zip(spatial, bins, strict=True):
        if n * m > MAX_LENGTH_BIN_PRODUCT:
            return (
                f"an axis of length {n:,} for {m:,} outputs; their product may be at most "
                f"{MAX_LENGTH_BIN_PRODUCT:,}"
            )
        if problem := bin_problem((n,), (m,)):
            return problem
    if not _has_indices(node):
        return None
    if math.prod(spatial) > MAX_EXACT_INTEGER:
        return (
            f"indices into maps of {math.prod(spatial):,} elements; at most {MAX_EXACT_INTEGER:,}"
        )
    return bin_problem(spatial, bins)


def _has_indices(node: Node) -> bool:
    return len(node.outputs) > 1 and bool(node.outputs[1])


def _lower(b: Builder, node: Node) -> None:
    x, kind = b.tensor(node.inputs[0]), KIND_BY_OPERATOR[node.op]
    size, bins = (
        pad_to_3d(sides, 1) for sides in (b.shape(node.inputs[0])[2:], _output_size(node))
    )
    pooled = x
    if math.prod(map(max_bin_length, size, bins)) <= MAX_BIN_PIXELS:
        pooled = _draw_pool(b, x, kind, size, bins)
    else:
        # One axis after the other: hundreds of loop iterations per fragment instead of their
        # product.
        for axis in (2, 1, 0):
            made = (*size[:axis], *bins[axis:])
            pooled = _draw_pool(b, pooled, kind, (*size[: axis + 1], *bins[axis + 1 :]), made)
    b.bind(node.outputs[0], pooled)
    if _has_indices(node):
        b.bind(node.outputs[1], draw_bin_indices(b, x, size, bins))


def _draw_pool(b: Builder, x: Tensor, kind: int, size: Shape, bins: Shape) -> Tensor:
    """Add a pass that pools maps of this size into this number of bins per axis."""
    sides = [max_bin_length(n, m) for n, m in zip(size, bins, strict=True)]
    n, c, *_ = x.layout.nchw
    layout = b.layout((n, c, bins[0] * bins[1], bins[2]))
    if loop_problem(1 + math.prod(layout.block) * (1 + loop_iterations(*sides))):
        layout = b.layout(layout.nchw, (1, 1, 1))
    output = b.create_scratch_tensor(layout)
    b.draw(
        ADAPTIVE_POOL_SHADER, output, [x], uniforms={"size": size, "places": bins},
        constants={"KIND": kind}, fetches=math.prod(layout.block) * math.prod(sides),
    )  # fmt: skip
    return output


def draw_bin_indices(b: Builder, x: Tensor, size: Shape, bins: Shape) -> Tensor:
    """The index within its map of the first maximum of each bin."""
    return _draw_pool(b, x, INDEX_KIND, size, bins)


def _pool_receptive_field(facts: KnownValues, node: Node, output_index: int) -> OperatorField:
    source, shape = facts.shape(node.inputs[0]), facts.shape(node.outputs[output_index])
    links = [
        table_window(axis, m, n, partial(_bins, n, m))
        for axis, (n, m) in enumerate(zip(source[2:], shape[2:], strict=True), 2)
    ]
    return OperatorField(shape, source, (same_position(0), same_position(1), *links))


def _bins(size: int, bins: int) -> list[range]:
    return [bin_pixels(place, size, bins) for place in range(bins)]


def _average_gradient(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """AdaptiveAveragePool: each bin distributes its gradient evenly to its pixels, axis by axis."""
    found = dy[0]
    for axis, size in enumerate(builder.shape(node.inputs[0])):
        bins = builder.shape(dy[0])[axis]
        if axis < 2 or size == bins:
            continue
        matrix: Array = np.zeros((size, bins), np.float32)
        for place, pixels in enumerate(_bins(size, bins)):
            matrix[pixels.start : pixels.stop, place] = 1 / len(pixels)
        found = apply_matrix(builder, found, axis, matrix)
    return [found]


def _max_gradient(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """AdaptiveMaxPool: the gradient goes to the first maximum of each bin."""
    x, y = node.inputs[0], node.outputs[0]
    return [builder.add_node("MaxPoolGradient", x, y, dy[0], output_size=_output_size(node))]


def _adaptive_operator(
    name: str, doc: str, explanation: ExplanationKind, caption: str, gradient: GradientRule
) -> Operator:
    return Operator(
        name, doc, _shapes, _lower, {"output_size": any_value}, _problem,
        role="resamples", receptive_field=first_input_fields(_pool_receptive_field),
        explanation=explanation,
        formula=None, bounds=None, caption=caption, shape_inputs=(), gradient=gradient,
    )  # fmt: skip


OPERATORS = [
    _adaptive_operator("AdaptiveAveragePool", "The mean of each window, for a fixed output size.",
                       "mean pool", "AvgPool", _average_gradient),
    _adaptive_operator("AdaptiveMaxPool", "The maximum of each window, for a fixed output size.",
                       "max pool", "MaxPool", _max_gradient),
]  # fmt: skip
