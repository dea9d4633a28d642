"""What transforms make of values (n, c, h, w), in numpy: the same as ops/shaders/bend.glsl."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nbglcnn.graph import Array


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


def rotate(x: Array, degrees: float) -> Array:
    """Turned counter-clockwise around the middle of the pixels."""
    (mx, my), (cosine, sine) = _middle(x), _turn(degrees)
    return _affine(
        x,
        lambda column, row: (
            mx + cosine * (column - mx) - sine * (row - my),
            my + sine * (column - mx) + cosine * (row - my),
        ),
    )


def scale(x: Array, factor: float) -> Array:
    """Factor times as large, around the middle of the pixels."""
    mx, my = _middle(x)
    return _affine(x, lambda column, row: (mx + (column - mx) / factor, my + (row - my) / factor))


def translate(x: Array, right: float, down: float) -> Array:
    """Moved by shares of the width and the height."""
    height, width = x.shape[2:]
    return _affine(x, lambda column, row: (column - right * width, row - down * height))


def blur(x: Array, sigma: float) -> Array:
    """A Gaussian, cut off at 4 sigma, with the border repeated."""
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


def sharpen(x: Array, amount: float, sigma: float) -> Array:
    """Unsharp masking."""
    return x + amount * (x - blur(x, sigma))


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


def erode(x: Array, radius: float) -> Array:
    """The least in an ellipse, of what lies within the map."""
    return _morphology(x, radius, np.minimum)


def dilate(x: Array, radius: float) -> Array:
    """The greatest in the same ellipse."""
    return _morphology(x, radius, np.maximum)


def _scrambled(v: Array) -> Array:
    state: Array = v * np.uint32(747796405) + np.uint32(2891336453)
    word: Array = ((state >> ((state >> np.uint32(28)) + np.uint32(4))) ^ state) * np.uint32(
        277803737
    )
    found: Array = (word >> np.uint32(22)) ^ word
    return found


def _seeded(index: Array, seed: float) -> Array:
    """The first random word of each index."""
    return _scrambled(index ^ _scrambled(np.array(int(seed), np.uint32)))


def _uniform(word: Array) -> Array:
    """From 0 to 1, without both ends; float32 has it exactly."""
    found: Array = ((word >> np.uint32(9)) + 0.5) / 8388608
    return found


def noise(x: Array, std: float, seed: float) -> Array:
    """Nearly normal numbers: twelve uniform ones added (Irwin-Hall), of PCG's output function."""
    with np.errstate(over="ignore"):
        state = _seeded(np.arange(x.size, dtype=np.uint32).reshape(x.shape), seed)
        total = np.zeros(x.shape)
        for _ in range(12):
            total += _uniform(state)
            state = _scrambled(state)
    return x + std * (total - 6)


def salt_and_pepper(x: Array, share: float, seed: float) -> Array:
    """One random number for each pixel of an example, the same in all its channels."""
    n, _, height, width = x.shape
    places = np.arange(n * height * width, dtype=np.uint32).reshape(n, 1, height, width)
    with np.errstate(over="ignore"):
        drawn = _uniform(_seeded(places, seed))
    most = np.float32(share)
    return np.where(drawn < most / 2, x.dtype.type(0), np.where(drawn < most, x.dtype.type(1), x))


def edges(x: Array) -> Array:
    """Sobel's two derivatives as one length; divided by 4, so that a straight step of 1 gives 1."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)), "edge")
    height, width = x.shape[2:]
    part = [[padded[:, :, r : r + height, c : c + width] for c in range(3)] for r in range(3)]
    along = sum(k * (part[r][2] - part[r][0]) for r, k in enumerate((1, 2, 1)))
    down = sum(k * (part[2][c] - part[0][c]) for c, k in enumerate((1, 2, 1)))
    found: Array = np.hypot(along, down) / 4
    return found


LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601, as Pillow's mode "L"


def saturation(x: Array, factor: float) -> Array:
    """Away from each pixel's grey or towards it; a fourth channel, alpha, stays."""
    grey = sum(x[:, k : k + 1] * np.float64(share) for k, share in enumerate(LUMA))
    found = x.astype(np.float64)
    found[:, :3] = grey + np.float32(factor) * (found[:, :3] - grey)
    return found


def pixelate(x: Array, size: float) -> Array:
    """Means of blocks from the left top on; those at the right and bottom border may be smaller."""
    found = x.astype(np.float64)
    for axis in (3, 2):
        starts = np.arange(0, x.shape[axis], int(size))
        lengths = np.diff(starts, append=x.shape[axis])
        shape = [-1 if one == axis else 1 for one in range(4)]
        means = np.add.reduceat(found, starts, axis) / lengths.reshape(shape)
        found = np.repeat(means, lengths, axis)
    return found


# Where a patch's edge falls on the middle of a pixel, up to rounding, all devices go one way.
TIE = 1 / 1024


def occlude(x: Array, right: float, down: float, size: float, value: float) -> Array:
    """One value in a square around a place, given in widths and heights."""
    height, width = x.shape[2:]
    found = x.copy()
    left, top = (
        math.floor(float(np.float32(share)) * side - size / 2 + 0.5 + TIE)
        for share, side in ((right, width), (down, height))
    )
    rows, columns = (slice(max(0, k), max(0, k + int(size))) for k in (top, left))
    found[:, :, rows, columns] = value
    return found


def clamp(x: Array, low: float, high: float) -> Array:
    """Low below it, high above it; NaN stays."""
    least, most = np.float32(low), np.float32(high)
    return np.where(x < least, least, np.where(x > most, most, x))
