"""Resize: tables hold the input pixels and weights of each output pixel; the shader sums them.

Python computes the coordinates once, as PyTorch and ONNX do, so that nearest neighbours are the
same pixels on every device, independent of its arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import MAX_LOOP_ITERATIONS, FragmentShader, loop_iterations, shader_source
from nbglcnn.graph import Node
from nbglcnn.ops.elementwise import change_layout
from nbglcnn.ops.gradient_builder import GradientBuilder
from nbglcnn.ops.movement_gradient import apply_matrix
from nbglcnn.ops.operator import (
    KnownValues,
    Operator,
    Shape,
    any_value,
    constant_ints,
    float_attr,
    has_input,
    int_attr,
    int_list_attr,
    normalize_axes,
    one_of,
    string_attr,
)
from nbglcnn.ops.receptive_field import (
    NEGLIGIBLE_WEIGHT,
    OperatorField,
    first_input_fields,
    same_position,
    table_window,
)
from nbglcnn.plan.layout import storage_nchw
from nbglcnn.plan.schema import PackingRecipe

RESIZE_SHADER = FragmentShader(
    "resize", shader_source("resize.glsl"), uniform_slots="ivec2 taps; float outside"
)
COORDINATE_MODES = (
    "half_pixel",
    "pytorch_half_pixel",
    "half_pixel_symmetric",
    "asymmetric",
    "align_corners",
    "tf_crop_and_resize",
)
NEAREST_MODES = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


Float64 = npt.NDArray[np.float64]
TapTable = tuple[Float64, Float64]  # positions read and weights


@dataclass(frozen=True, slots=True)
class AxisScaling:
    """The resizing of one axis: its lengths before and after, and the coordinate scale.

    `region` is the resized part of the axis, from 0 to 1, for tf_crop_and_resize.
    """

    input_length: int
    output_length: int
    scale: float
    region: tuple[float, float] = (0.0, 1.0)

    @property
    def is_unchanged(self) -> bool:
        """Whether the axis is not resized."""
        return (
            self.input_length == self.output_length
            and self.scale == 1
            and self.region == (0.0, 1.0)
        )


MAX_OUTPUT_LENGTH = 2**18  # of a resized axis: a Plan holds the taps of each position
UNCHANGED_AXIS = AxisScaling(1, 1, 1.0)
MAX_TAPS = MAX_LOOP_ITERATIONS // 12 - 1  # per axis; a fragment has up to 4 pixels and two loops


def _axes(facts: KnownValues, node: Node) -> tuple[int, ...]:
    rank = len(facts.shape(node.inputs[0]))
    return normalize_axes(int_list_attr(node, "axes", range(rank)), rank)


def _constant_floats(facts: KnownValues, node: Node, position: int) -> list[float]:
    """The numbers of roi or scales; empty if the input is omitted or unknown."""
    data = facts.constant_data(node.inputs[position]) if has_input(node, position) else None
    return [] if data is None else data.reshape(-1).tolist()


def _is_crop_and_resize(node: Node) -> bool:
    return string_attr(node, "coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"


def _scalings(facts: KnownValues, node: Node) -> list[AxisScaling]:
    """Return one AxisScaling per axis of the input."""
    shape, axes = facts.shape(node.inputs[0]), _axes(facts, node)
    result = [AxisScaling(length, length, 1.0) for length in shape]
    regions = [(0.0, 1.0)] * len(axes)
    if _is_crop_and_resize(node):
        roi = _constant_floats(facts, node, 1)
        regions = list(zip(roi[: len(axes)], roi[len(axes) :], strict=True))
    scales = _constant_floats(facts, node, 2)
    for axis, scale, region in zip(axes, scales, regions, strict=bool(scales)):
        # Multiply in float32, as ONNX's own rule does: 0.6 · 5 must not become 2.
        part = np.float32(shape[axis]) * (np.float32(region[1]) - np.float32(region[0]))
        after = math.floor(part * np.float32(scale))
        result[axis] = AxisScaling(shape[axis], after, float(scale), region)
    if scales:
        return result
    sizes = constant_ints(facts, node, 3)
    assert sizes is not None
    factors = [size / shape[axis] for axis, size in zip(axes, sizes, strict=True)]
    policy = string_attr(node, "keep_aspect_ratio_policy", "stretch")
    for axis, size, factor, region in zip(axes, sizes, factors, regions, strict=True):
        if policy == "stretch":
            result[axis] = AxisScaling(shape[axis], size, factor, region)
        else:
            common = min(factors) if policy == "not_larger" else max(factors)
            after = math.floor(common * shape[axis] + 0.5)
            result[axis] = AxisScaling(shape[axis], after, common, region)
    return result


def _source_coordinates(scaling: AxisScaling, mode: str, dtype: type[np.floating[Any]]) -> Float64:
    """The input coordinate of each output position, by coordinate_transformation_mode.

    `dtype` is float32 for nearest neighbours, so that coordinates round as in PyTorch and ONNX
    Runtime, which compute them in float32.
    """
    x = np.arange(scaling.output_length).astype(dtype)
    scale, half = dtype(scaling.scale), dtype(0.5)
    # With `scales`, the resized length is scale · input length, not rounded.
    length = scaling.scale * scaling.input_length
    if mode == "align_corners":
        x = x * dtype(scaling.input_length - 1) / dtype(length - 1) if length != 1 else x * 0
    elif mode == "asymmetric":
        x = x / scale
    elif mode == "tf_crop_and_resize":
        start, end = scaling.region
        last = scaling.input_length - 1
        if scaling.output_length > 1:
            x = x * dtype((end - start) * last / (scaling.output_length - 1)) + dtype(start * last)
        else:
            x = x + dtype((start + end) * last / 2)
    elif mode == "pytorch_half_pixel" and scaling.output_length == 1:
        x = x * 0
    else:
        x = (x + half) / scale - half
        if mode == "half_pixel_symmetric":
            x = x + dtype(scaling.input_length / 2 * (1 - scaling.output_length / length))
    return x.astype(np.float64)


def _cubic_weights(distance: Float64, a: float) -> Float64:
    """Keys' cubic convolution kernel (IEEE Trans. ASSP 29, 1981) with coefficient a."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _round_coordinates(x: Float64, node: Node) -> Float64:
    rounding = string_attr(node, "nearest_mode", "round_prefer_floor")
    if rounding in ("floor", "round_prefer_ceil"):
        return np.floor(x + (0.5 if rounding == "round_prefer_ceil" else 0.0))
    return np.ceil(x - (0.5 if rounding == "round_prefer_floor" else 0.0))


def tap_table(scaling: AxisScaling, node: Node) -> TapTable:
    """Return (positions read, weights), each (output positions, taps), for a weighted sum.

    An output position outside the input gets extrapolation_value; its positions read are -1.
    """
    mode = string_attr(node, "mode", "nearest")
    coordinates = string_attr(node, "coordinate_transformation_mode", "half_pixel")
    if scaling.is_unchanged:
        places = np.arange(scaling.output_length, dtype=np.float64)[:, None]
        return places, np.ones_like(places)
    x = _source_coordinates(scaling, coordinates, np.float32 if mode == "nearest" else np.float64)
    last = scaling.input_length - 1
    if mode == "nearest":
        places = np.clip(_round_coordinates(x, node), 0, last)[:, None]
        weights = np.ones_like(places)
    else:
        places, weights = _interpolation_taps(x, scaling, node)
    if coordinates == "tf_crop_and_resize":
        places[(x < 0) | (x > last)] = -1
    return places, weights


def _antialias_scale(scaling: AxisScaling, node: Node) -> float:
    # For antialiasing, the kernel of a downscaled map is as wide as the input pixels per output
    # pixel.
    return min(scaling.scale, 1.0) if int_attr(node, "antialias", 0) else 1.0


def _tap_count(scaling: AxisScaling, node: Node) -> int:
    """The number of input positions per output position."""
    mode = string_attr(node, "mode", "nearest")
    if scaling.is_unchanged or mode == "nearest":
        return 1
    return 2 * math.ceil((1 if mode == "linear" else 2) / _antialias_scale(scaling, node))


def _interpolation_taps(x: Float64, scaling: AxisScaling, node: Node) -> TapTable:
    """The tap table of linear and cubic modes."""
    linear, stretch = (
        string_attr(node, "mode", "nearest") == "linear",
        _antialias_scale(scaling, node),
    )
    radius = _tap_count(scaling, node) // 2
    places = np.floor(x)[:, None] + np.arange(1 - radius, radius + 1)
    distance = (x[:, None] - places) * stretch
    if linear:
        weights = np.maximum(1 - np.abs(distance), 0)
    else:
        weights = _cubic_weights(distance, float_attr(node, "cubic_coeff_a", -0.75))
    if stretch < 1:
        weights = weights / weights.sum(1, keepdims=True)
    last = scaling.input_length - 1
    if int_attr(node, "exclude_outside", 0):
        weights = np.where((places >= 0) & (places <= last), weights, 0.0)
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(places, 0, last), weights


def _shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    return [tuple(s.output_length for s in _scalings(facts, node))]


def _problem(facts: KnownValues, node: Node) -> str | None:
    for position, name in ((1, "roi"), (2, "scales"), (3, "sizes")):
        if has_input(node, position) and facts.constant_data(node.inputs[position]) is None:
            return f"its {name} depend on the input; they must be constant"
    scales, sizes = _constant_floats(facts, node, 2), constant_ints(facts, node, 3)
    count, roi = len(_axes(facts, node)), _constant_floats(facts, node, 1)
    if not scales and not sizes:
        return "neither scales nor sizes are given"
    if scales and (len(scales) != count or not min(scales) > 0):
        return f"scales={scales} for {count} axes"
    if not scales and sizes is not None and (len(sizes) != count or min(sizes) < 1):
        return f"sizes={sizes} for {count} axes"
    if _is_crop_and_resize(node) and len(roi) != 2 * count:
        return f"roi={roi} for {count} axes; it has a start and an end for each"
    if min((s.output_length for s in _scalings(facts, node)), default=1) < 1:
        return "its output would be empty"
    longest = max(
        (s.output_length for s in _scalings(facts, node) if not s.is_unchanged), default=0
    )
    if longest > MAX_OUTPUT_LENGTH:
        return (
            f"its output has an axis of length {longest:,}; at most {MAX_OUTPUT_LENGTH:,} are "
            "supported"
        )
    taps = max((_tap_count(s, node) for s in _scalings(facts, node)), default=1)
    if taps > MAX_TAPS:
        return (
            f"it combines {taps:,} elements of an axis into one; at most {MAX_TAPS:,} are supported"
        )
    return None


def _lower_resize(b: Builder, node: Node) -> None:
    scalings = _scalings(b, node)
    rank = len(scalings)
    x: Tensor | None = None
    # Resize rows and columns in one pass, then each preceding axis as rows in a separate pass.
    for axis in reversed(range(rank - 2)):
        if not scalings[axis].is_unchanged:
            lengths = [s.input_length for s in scalings[: axis + 1]] + [
                s.output_length for s in scalings[axis + 1 :]
            ]
            x = x or _resize_plane(b, node, scalings)
            inside = math.prod(lengths[axis + 1 :])
            inner = AxisScaling(inside, inside, 1.0)
            nchw = (1, math.prod(lengths[:axis]), lengths[axis], inside)
            x = _draw_resized(b, node, change_layout(b, x, nchw), scalings[axis], inner)
    b.bind(node.outputs[0], x or _resize_plane(b, node, scalings))


def _resize_plane(b: Builder, node: Node, scalings: Sequence[AxisScaling]) -> Tensor:
    """Resize the last two axes."""
    before = tuple(s.input_length for s in scalings)
    row, column = [UNCHANGED_AXIS, UNCHANGED_AXIS, *scalings][-2:]
    if row.is_unchanged and column.is_unchanged and before:
        return b.stored_tensor(node.inputs[0])
    nchw = storage_nchw(before)
    if len(before) == 3 and row.is_unchanged:
        row = UNCHANGED_AXIS
    elif len(before) != 4:
        nchw = (1, math.prod(before[:-2]), row.input_length, column.input_length)
    return _draw_resized(b, node, b.tensor(node.inputs[0], nchw), row, column)


def _draw_resized(
    b: Builder, node: Node, x: Tensor, row: AxisScaling, column: AxisScaling
) -> Tensor:
    """Resize the rows and columns of a tensor's nchw."""
    n, c, _, w = x.layout.nchw
    layout = b.layout((n, c, row.output_length, column.output_length))
    taps, tables = [_tap_count(scaling, node) for scaling in (row, column)], list[TapTable]()
    if math.prod(layout.block) * loop_iterations(*taps) > MAX_LOOP_ITERATIONS:
        # One axis after the other: thousands of iterations per fragment instead of their product.
        rows = b.create_scratch_tensor(b.layout((n, c, row.output_length, w)))
        tables = [tap_table(row, node), tap_table(AxisScaling(w, w, 1.0), node)]
        x = _draw_taps(b, node, x, tables, rows)
        places = np.arange(row.output_length, dtype=np.float64)[:, None]
        places[tables[0][0][:, :1] < 0] = -1  # these stay outside the input
        tables = [(places, np.ones_like(places))]
    output = b.create_scratch_tensor(layout)  # may fail; fail before building a long table
    tables = [*(tables or [tap_table(row, node)]), tap_table(column, node)]
    return _draw_taps(b, node, x, tables, output)


def _draw_taps(
    b: Builder, node: Node, x: Tensor, tap_tables: Sequence[TapTable], output: Tensor
) -> Tensor:
    """Add the pass that computes the weighted sums of a row table and a column table."""
    tables = [
        b.weight_texture(
            PackingRecipe(
                "taps", (), {"places": places.astype(int).tolist(), "weights": weights.tolist()}
            )
        )
        for places, weights in tap_tables
    ]
    taps = [places.shape[1] for places, _ in tap_tables]
    outside = any((places < 0).any() for places, _ in tap_tables)
    b.draw(
        RESIZE_SHADER, output, [x], tables,
        uniforms={"taps": taps, "outside": float_attr(node, "extrapolation_value", 0.0)},
        constants={"ONE": int(taps == [1, 1]), "OUTSIDE": int(outside)},
        fetches=4 * taps[0] * (taps[1] + 1),
    )  # fmt: skip
    return output


def _resize_receptive_field(facts: KnownValues, node: Node, output_index: int) -> OperatorField:
    links = [
        same_position(k)
        if s.is_unchanged
        else table_window(k, s.output_length, s.input_length, partial(_read_positions, s, node))
        for k, s in enumerate(_scalings(facts, node))
    ]
    source, shape = facts.shape(node.inputs[0]), facts.shape(node.outputs[output_index])
    return OperatorField(shape, source, tuple(links))


def _read_positions(scaling: AxisScaling, node: Node) -> list[list[int]]:
    """For each output position, the input positions with a non-negligible weight."""
    found = []
    for places, weights in zip(*tap_table(scaling, node), strict=True):
        shares: dict[int, float] = {}
        for place, weight in zip(places.astype(int).tolist(), weights.tolist(), strict=True):
            shares[place] = shares.get(place, 0.0) + weight
        found.append(
            [k for k, weight in shares.items() if k >= 0 and abs(weight) > NEGLIGIBLE_WEIGHT]
        )
    return found


def _gradient(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """The transposed weights: one matrix per resized axis."""
    found = dy[0]
    for axis, scaling in enumerate(_scalings(builder, node)):
        if scaling.is_unchanged:
            continue
        matrix = np.zeros((scaling.input_length, scaling.output_length), np.float64)
        places, weights = tap_table(scaling, node)
        for position, (read, shares) in enumerate(zip(places, weights, strict=True)):
            known = read >= 0
            np.add.at(matrix[:, position], read[known].astype(int), shares[known])
        found = apply_matrix(builder, found, axis, matrix.astype(np.float32))
    return [found, *[""] * (len(node.inputs) - 1)]


OPERATORS = [
    Operator(
        "Resize",
        "Resizes maps with nearest, linear or cubic interpolation.",
        _shape,
        _lower_resize,
        {
            "mode": one_of("nearest", "linear", "cubic"),
            "coordinate_transformation_mode": one_of(*COORDINATE_MODES),
            "nearest_mode": one_of(*NEAREST_MODES),
            "axes": any_value,
            "cubic_coeff_a": any_value,
            "exclude_outside": any_value,
            "extrapolation_value": any_value,
            "keep_aspect_ratio_policy": one_of("stretch", "not_larger", "not_smaller"),
            "antialias": one_of(0, 1),
        },
        _problem,
        role="resamples",
        receptive_field=first_input_fields(_resize_receptive_field),
        explanation="resampling",
        formula=None,
        bounds=None,
        caption=None,
        shape_inputs=(1, 2, 3),
        gradient=_gradient,
    ),
]
