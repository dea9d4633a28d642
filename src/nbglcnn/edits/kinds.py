"""The transforms of bends: what each is called, its parameters, and the same in numpy.

shaders/bend.glsl computes them on the device, and tests hold the two together. The set is that of
Terence Broad's network bending (Broad, Leymarie and Grierson 2021, arXiv:2005.12420; his code is
github.com/terrybroad/network-bending), with clamp, add, noise, blur, sharpen and one's own GLSL
added. Where ours differ from his OpenCV operators:

- rotate and scale turn around the middle of the pixels, ((width - 1) / 2, (height - 1) / 2), where
  his turn around (rows / 2, columns / 2): half a turn is both flips here, to the bit.
- translate's x is a share of the width and y one of the height; his are the other way around, which
  is the same for square maps.
- ablate gives zeros where he multiplies by zero, so that no NaN or infinity stays.
- Parameters aren't bound to his ranges.

As his, rotate, scale and translate read between pixels bilinearly and zeros outside of the map
(cv::warpAffine); erode and dilate take an ellipse of a radius and leave out what lies outside of
the map (cv::erode with MORPH_ELLIPSE). blur and sharpen repeat the map's border.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nbglcnn.graph import Array

Formula = Callable[..., Array]


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number of a transform: what it may be, and from where to where a slider goes.

    `least` and `most` are limits that are checked; None for none. `above` says that `least` itself
    is too little.
    """

    name: str
    default: float
    low: float
    high: float
    step: float
    least: float | None = None
    most: float | None = None
    above: bool = False
    integer: bool = False
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """A transform: its name, its parameters in order, its formula for (n, c, h, w), in words too.

    `stages` are the passes that it takes on a device.
    """

    name: str
    formula: Formula | None
    says: str
    parameters: tuple[Parameter, ...] = ()
    stages: int = 1


def _affine(x: Array, place: Callable[[Array, Array], tuple[Array, Array]]) -> Array:
    """Bilinear reads of (sx, sy) = place(column, row), with zeros outside of the map."""
    height, width = x.shape[2:]
    rows, columns = np.mgrid[:height, :width].astype(np.float64)
    sx, sy = place(columns, rows)
    left, top = np.floor(sx), np.floor(sy)
    found = np.zeros(x.shape, np.float64)
    for down in (0, 1):
        for right in (0, 1):
            weight = np.abs(1 - down - (sy - top)) * np.abs(1 - right - (sx - left))
            column, row = left + right, top + down
            inside = (weight > 0) & (column >= 0) & (column < width) & (row >= 0) & (row < height)
            at = row[inside].astype(int), column[inside].astype(int)
            found[:, :, inside] += weight[inside] * x[:, :, at[0], at[1]]
    return found


def _middle(x: Array) -> tuple[float, float]:
    return (x.shape[3] - 1) / 2, (x.shape[2] - 1) / 2


def _turn(degrees: float) -> tuple[float, float]:
    """Cosine and sine, exact for quarter turns."""
    quarters = math.floor(degrees / 90 + 0.5)
    rest = math.radians(degrees - 90 * quarters)
    cosine, sine = math.cos(rest), math.sin(rest)
    return [(cosine, sine), (-sine, cosine), (-cosine, -sine), (sine, -cosine)][quarters % 4]


def _rotate(x: Array, degrees: float) -> Array:
    (mx, my), (cosine, sine) = _middle(x), _turn(degrees)
    return _affine(
        x,
        lambda column, row: (
            mx + cosine * (column - mx) - sine * (row - my),
            my + sine * (column - mx) + cosine * (row - my),
        ),
    )


def _scale(x: Array, factor: float) -> Array:
    mx, my = _middle(x)
    return _affine(x, lambda column, row: (mx + (column - mx) / factor, my + (row - my) / factor))


def _translate(x: Array, right: float, down: float) -> Array:
    height, width = x.shape[2:]
    return _affine(x, lambda column, row: (column - right * width, row - down * height))


def _blur(x: Array, sigma: float) -> Array:
    radius = int(4 * sigma + 0.5)
    offsets = np.arange(-radius, radius + 1)
    weights = np.exp(-0.5 * (offsets / sigma) ** 2)
    weights /= weights.sum()
    found = x.astype(np.float64)
    for axis in (3, 2):
        places = np.arange(x.shape[axis])
        parts = [
            weight * np.take(found, np.clip(places + offset, 0, x.shape[axis] - 1), axis)
            for offset, weight in zip(offsets, weights, strict=True)
        ]
        found = np.sum(parts, axis=0)
    return found


def _sharpen(x: Array, amount: float, sigma: float) -> Array:
    return x + amount * (x - _blur(x, sigma))


def ellipse(radius: int) -> list[tuple[int, int]]:
    """Offsets (row, column) of OpenCV's MORPH_ELLIPSE of 2 radius + 1 pixels a side."""
    found = []
    for down in range(-radius, radius + 1):
        half = round(math.sqrt(radius**2 - down**2))
        found += [(down, right) for right in range(-half, half + 1)]
    return found


def _morphology(x: Array, radius: float, fold: Callable[[Array, Array], Array]) -> Array:
    height, width = x.shape[2:]
    found = x.copy()
    for down, right in ellipse(int(radius)):
        rows = slice(max(0, -down), min(height, height - down))
        columns = slice(max(0, -right), min(width, width - right))
        if rows.start >= rows.stop or columns.start >= columns.stop:
            continue
        other = x[
            :, :, rows.start + down : rows.stop + down, columns.start + right : columns.stop + right
        ]
        found[:, :, rows, columns] = fold(found[:, :, rows, columns], other)
    return found


def _scrambled(v: Array) -> Array:
    state: Array = v * np.uint32(747796405) + np.uint32(2891336453)
    word: Array = ((state >> ((state >> np.uint32(28)) + np.uint32(4))) ^ state) * np.uint32(
        277803737
    )
    found: Array = (word >> np.uint32(22)) ^ word
    return found


def _noise(x: Array, std: float, seed: float, places: Array | None = None) -> Array:
    """Nearly normal numbers: twelve uniform ones added (Irwin-Hall), of PCG's output function."""
    with np.errstate(over="ignore"):
        index = np.arange(x.size, dtype=np.uint32).reshape(x.shape) if places is None else places
        state = _scrambled(index ^ _scrambled(np.array(int(seed), np.uint32)))
        total = np.zeros(x.shape)
        for _ in range(12):
            total += ((state >> np.uint32(9)) + 0.5) / 8388608
            state = _scrambled(state)
    return x + std * (total - 6)


def _clamp(x: Array, low: float, high: float) -> Array:
    least, most = np.float32(low), np.float32(high)
    return np.where(x < least, least, np.where(x > most, most, x))


DEGREES = Parameter("degrees", 45, -180, 180, 1, unit="°")
SIGMA = Parameter("sigma", 1, 0.1, 5, 0.1, least=0, most=16, above=True, unit="px")
RADIUS = Parameter("radius", 1, 0, 8, 1, least=0, most=32, integer=True, unit="px")

KINDS = {
    kind.name: kind
    for kind in (
        Kind("ablate", lambda x: np.zeros_like(x), "0"),
        Kind("invert", lambda x: 1 - x, "1 − x"),
        Kind(
            "multiply",
            lambda x, factor: x * np.float32(factor),
            "x · factor",
            (Parameter("factor", 2, -4, 4, 0.05),),
        ),
        Kind(
            "add",
            lambda x, number: x + np.float32(number),
            "x + number",
            (Parameter("number", 1, -4, 4, 0.05),),
        ),
        Kind(
            "clamp",
            lambda x, low, high: _clamp(x, low, high),
            "low where x < low, high where x > high, else x",
            (Parameter("low", 0, -4, 4, 0.05), Parameter("high", 1, -4, 4, 0.05)),
        ),
        Kind(
            "threshold",
            lambda x, level: (x > np.float32(level)).astype(np.float32),
            "1 where x > level, else 0",
            (Parameter("level", 0.5, -2, 2, 0.01),),
        ),
        Kind(
            "noise",
            _noise,
            "x + std · a nearly normal random number of each element",
            (
                Parameter("std", 0.5, 0, 4, 0.05, least=0),
                Parameter("seed", 0, 0, 99, 1, least=0, most=2**24 - 1, integer=True),
            ),
        ),
        Kind("blur", _blur, "a Gaussian of deviation sigma over x", (SIGMA,), stages=2),
        Kind(
            "sharpen",
            _sharpen,
            "x + amount · (x − blur(x))",
            (Parameter("amount", 1, 0, 4, 0.05), SIGMA),
            stages=2,
        ),
        Kind(
            "erode",
            lambda x, radius: _morphology(x, radius, np.minimum),
            "the least in an ellipse of this radius",
            (RADIUS,),
        ),
        Kind(
            "dilate",
            lambda x, radius: _morphology(x, radius, np.maximum),
            "the greatest in an ellipse of this radius",
            (RADIUS,),
        ),
        Kind(
            "translate",
            _translate,
            "moved right by x widths and down by y heights",
            (Parameter("x", 0.25, -1, 1, 0.01), Parameter("y", 0, -1, 1, 0.01)),
        ),
        Kind(
            "scale",
            _scale,
            "factor times as large, around the middle",
            (Parameter("factor", 1.5, 0.1, 4, 0.05, least=0, above=True),),
        ),
        Kind("rotate", _rotate, "turned counter-clockwise around the middle", (DEGREES,)),
        Kind("flip_h", lambda x: x[:, :, :, ::-1], "left and right exchanged"),
        Kind("flip_v", lambda x: x[:, :, ::-1], "top and bottom exchanged"),
    )
}  # fmt: skip

GLSL = "glsl"  # of a text of one's own
INJECT = "inject"  # of an array in the place of the values
# What bend.glsl calls them, by number; the first and the third are the runtimes' own.
NUMBERS = {name: number for number, name in enumerate(("none", INJECT, "difference", *KINDS, GLSL))}
MOST_PARAMETERS = 8  # of a text of one's own
