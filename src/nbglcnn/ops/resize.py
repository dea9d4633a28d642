"""Resize: which pixels an output pixel is made of is worked out in tables; the shader adds them.

Coordinates are computed once in Python as PyTorch and ONNX do, so that nearest neighbours are the
same pixels on every device, whatever its arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nbglcnn.builder import Builder, best_block
from nbglcnn.glsl import Kernel, shader
from nbglcnn.graph import Array, Node
from nbglcnn.layout import Frame, Layout, frame_of
from nbglcnn.ops.operator import (
    Facts,
    Operator,
    Shape,
    anything,
    constant_integers,
    has_input,
    integer,
    integers,
    normal_axes,
    number,
    only,
    text,
)
from nbglcnn.plan import Recipe

RESIZE = Kernel("resize", shader("resize.glsl"))
COORDINATES = (
    "half_pixel",
    "pytorch_half_pixel",
    "half_pixel_symmetric",
    "asymmetric",
    "align_corners",
)
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scaling:
    """What happens along one axis: lengths before and after, and the factor between coordinates."""

    before: int
    after: int
    scale: float


def _axes(facts: Facts, node: Node) -> tuple[int, ...]:
    rank = len(facts.shape(node.inputs[0]))
    return normal_axes(integers(node, "axes", range(rank)), rank)


def _scales(facts: Facts, node: Node) -> Array | None:
    if not has_input(node, 2):
        return None
    data = facts.constant(node.inputs[2])
    return data if data is not None and data.size else None


def _scalings(facts: Facts, node: Node) -> list[Scaling]:
    """One entry per axis of the input."""
    shape = facts.shape(node.inputs[0])
    result = [Scaling(length, length, 1.0) for length in shape]
    axes, scales = _axes(facts, node), _scales(facts, node)
    if scales is not None:
        for axis, scale in zip(axes, scales.reshape(-1), strict=True):
            # float32 by float32, as ONNX's own rule: 0.6 · 5 must not become 2.
            after = math.floor(np.float32(shape[axis]) * np.float32(scale))
            result[axis] = Scaling(shape[axis], after, float(scale))
        return result
    sizes = constant_integers(facts, node, 3)
    assert sizes is not None
    factors = [size / shape[axis] for axis, size in zip(axes, sizes, strict=True)]
    policy = text(node, "keep_aspect_ratio_policy", "stretch")
    for axis, size, factor in zip(axes, sizes, factors, strict=True):
        if policy == "stretch":
            result[axis] = Scaling(shape[axis], size, factor)
        else:
            common = min(factors) if policy == "not_larger" else max(factors)
            result[axis] = Scaling(shape[axis], math.floor(common * shape[axis] + 0.5), common)
    return result


def _sources(along: Scaling, mode: str, real: type[np.floating[Any]]) -> Float64:
    """The coordinate in the input of each output position, per coordinate_transformation_mode.

    `real` is float32 for nearest neighbours: their rounding must fall as it does in PyTorch and
    ONNX Runtime, which compute coordinates so.
    """
    x = np.arange(along.after).astype(real)
    scale, half = real(along.scale), real(0.5)
    if mode == "align_corners":
        # With `scales` the resized length is scale · before, not rounded.
        length = along.scale * along.before
        x = x * real(along.before - 1) / real(length - 1) if length != 1 else x * 0
    elif mode == "asymmetric":
        x = x / scale
    elif mode == "pytorch_half_pixel" and along.after == 1:
        x = x * 0
    else:
        x = (x + half) / scale - half
        if mode == "half_pixel_symmetric":
            x = x + real(along.before / 2 * (1 - along.after / (along.scale * along.before)))
    return x.astype(np.float64)


def _cubic(distance: Float64, a: float) -> Float64:
    """Keys' cubic convolution kernel (IEEE Trans. ASSP 29, 1981) with coefficient a."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def table(along: Scaling, node: Node) -> tuple[Float64, Float64]:
    """(places, weights), each (positions, taps): the output is the weighted sum of those places."""
    mode = text(node, "mode", "nearest")
    coordinates = text(node, "coordinate_transformation_mode", "half_pixel")
    if along.before == along.after and along.scale == 1:
        x = np.arange(along.after, dtype=np.float64)
    else:
        x = _sources(along, coordinates, np.float32 if mode == "nearest" else np.float64)
    last = along.before - 1
    if mode == "nearest":
        rounding = text(node, "nearest_mode", "round_prefer_floor")
        if rounding in ("floor", "round_prefer_ceil"):
            rounded = np.floor(x + (0.5 if rounding == "round_prefer_ceil" else 0.0))
        else:
            rounded = np.ceil(x - (0.5 if rounding == "round_prefer_floor" else 0.0))
        return np.clip(rounded, 0, last)[:, None], np.ones((along.after, 1))
    floor = np.floor(x)
    reach = np.array([0, 1]) if mode == "linear" else np.array([-1, 0, 1, 2])
    places = floor[:, None] + reach
    distance = x[:, None] - places
    if mode == "linear":
        weights = 1 - np.abs(distance)
    else:
        weights = _cubic(distance, number(node, "cubic_coeff_a", -0.75))
    if integer(node, "exclude_outside", 0):
        weights = np.where((places >= 0) & (places <= last), weights, 0.0)
        weights /= weights.sum(1, keepdims=True)
    return np.clip(places, 0, last), weights


def _frames(facts: Facts, node: Node) -> tuple[Frame, Frame, Scaling, Scaling] | str:
    """The frames before and after in which rows and columns are resized, or why there are none."""
    scalings = _scalings(facts, node)
    rank = len(scalings)
    still = Scaling(1, 1, 1.0)
    changed = [k for k, s in enumerate(scalings) if s.before != s.after or s.scale != 1]
    if any(k < rank - 2 for k in changed):
        return f"resizes axes {tuple(changed)} of {rank}; the last two can be resized"
    if rank == 0:
        return (1, 1, 1, 1), (1, 1, 1, 1), still, still
    before = tuple(s.before for s in scalings)
    after = tuple(s.after for s in scalings)
    row = scalings[-2] if rank > 1 else still
    if rank == 4:
        return frame_of(before), frame_of(after), row, scalings[-1]
    if rank == 3 and not any(k < 2 for k in changed):
        return frame_of(before), frame_of(after), still, scalings[-1]
    outer = math.prod(before[:-2])
    return (1, outer, row.before, before[-1]), (1, outer, row.after, after[-1]), row, scalings[-1]


def _shape(facts: Facts, node: Node) -> Sequence[Shape]:
    return [tuple(s.after for s in _scalings(facts, node))]


def _problem(facts: Facts, node: Node) -> str | None:
    if integer(node, "antialias", 0):
        return "antialias=1; only antialias=0 has a shader"
    for position, name in ((2, "scales"), (3, "sizes")):
        if has_input(node, position) and facts.constant(node.inputs[position]) is None:
            return f"its {name} are computed while the network runs; they must be constant"
    scales, sizes = _scales(facts, node), constant_integers(facts, node, 3)
    count = len(_axes(facts, node))
    if scales is None and not sizes:
        return "neither scales nor sizes are given"
    if scales is not None and (scales.size != count or not (scales > 0).all()):
        return f"scales={scales.reshape(-1).tolist()} for {count} axes"
    if scales is None and sizes is not None and (len(sizes) != count or min(sizes) < 1):
        return f"sizes={sizes} for {count} axes"
    if min((s.after for s in _scalings(facts, node)), default=1) < 1:
        return "its result would be empty"
    frames = _frames(facts, node)
    return frames if isinstance(frames, str) else None


def _resize(b: Builder, node: Node) -> None:
    frames = _frames(b, node)
    assert not isinstance(frames, str)
    before, after, row, column = frames
    x = b.tensor(node.inputs[0], before)
    output = b.scratch(Layout(after, best_block(after)))
    b.bind(node.outputs[0], output)
    made = [table(along, node) for along in (row, column)]
    taps = made[0][0].shape[1]
    tables = [
        b.weight(
            Recipe("taps", (), {"places": places.astype(int).tolist(), "weights": weights.tolist()})
        )
        for places, weights in made
    ]
    b.draw(RESIZE, output, [x], tables, constants={"TAPS": taps}, fetches=4 * taps * (taps + 1))


OPERATORS = [
    Operator(
        "Resize",
        "Enlarges or shrinks maps: nearest pixels, or linear or cubic mixtures of neighbours.",
        _shape,
        _resize,
        {
            "mode": only("nearest", "linear", "cubic"),
            "coordinate_transformation_mode": only(*COORDINATES),
            "nearest_mode": only(*ROUNDINGS),
            "axes": anything,
            "cubic_coeff_a": anything,
            "exclude_outside": anything,
            "extrapolation_value": anything,  # used by tf_crop_and_resize alone
            "keep_aspect_ratio_policy": only("stretch", "not_larger", "not_smaller"),
            "antialias": anything,
        },
        _problem,
    ),
]
