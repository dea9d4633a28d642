"""The transforms of bends, one record each: name, label, formula in numpy, GLSL, parameters, cost.

`TRANSFORM_KINDS` contains all of them. shader.py inserts their GLSL into ops/shaders/bend.glsl,
which has the common code; tests compare GLSL and formula. The set is that of Terence Broad's
network bending (Broad, Leymarie and Grierson 2021, arXiv:2005.12420; his code is
github.com/terrybroad/network-bending). Additions: add, clamp, noise, blur, sharpen, image
operations (contrast, saturation, salt and pepper, edges, pixelate, occlude) and custom GLSL.
Differences from his OpenCV operators:

- rotate and scale use the centre of the pixels, ((width - 1) / 2, (height - 1) / 2), where
  his turn around (rows / 2, columns / 2): half a turn is both flips here, to the bit.
- translate's x is a share of the width and y one of the height; his are exchanged, which
  is the same for square maps.
- ablate returns zeros where he multiplies by zero, so that NaN and infinity disappear, too.
- Parameters aren't limited to his ranges.

As in his code, rotate, scale and translate read bilinearly, with zeros outside of the map
(cv::warpAffine); erode and dilate use an ellipse of a radius and ignore pixels outside of the map
(cv::erode with MORPH_ELLIPSE). blur, sharpen and edges repeat the map's border.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nbglcnn.graph import Array

Formula = Callable[..., Array]


@dataclass(frozen=True, slots=True)
class TransformParameter:
    """A parameter of a transform: its allowed values, and the range of its slider.

    `least` and `most` are the validated limits, None for no limit. `above` excludes `least` itself.
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
class NeighborReads:
    """The reads of a transform beyond its own element: the loop of bend.glsl, and its cost.

    GLSL code, in which (x, y) is the element's position: `begin_glsl` sets `taps`, the number of
    reads; `tap_glsl` sets the position `at` of read k, its `weight` and its channel,
    `from_channel`, or continues; `fold_glsl` adds the element that was read, `v`, to `found`;
    `end_glsl` computes the result from `found` and the sum of `weights`. Positions outside of the
    map are skipped. The cost of a pass counts (base + slope · parameter) ** power reads, where
    `parameter` is the index of a parameter.
    """

    begin_glsl: str
    tap_glsl: str
    fold_glsl: str = "found += weight * v;"
    end_glsl: str = ""
    base: int = 1
    slope: int = 0
    parameter: int = 0
    power: int = 1


@dataclass(frozen=True, slots=True)
class TransformKind:
    """A transform: its name, its effect on x as text, and its formula in numpy and in GLSL.

    `formula` takes values (n, c, h, w) and the parameters in order. `glsl` is the body of a
    function of the element `x` (the result of `reads`, if any; by default the body returns it),
    `old` before the transform, and its position, `example`, `channel`, `row` and `column`. In all
    GLSL code P0 to P3 are the parameters. `functions` are the functions that it calls. `stages` is
    the number of passes on a device; u_stage is the index of the current one. `needs_all_channels`:
    an element depends on its position or on other channels, so the formula takes all channels,
    including those that aren't bent. `counts` are the numbers of channels that a value may have;
    empty for any.
    """

    name: str
    says: str
    formula: Formula
    glsl: str = ""
    parameters: tuple[TransformParameter, ...] = ()
    reads: NeighborReads | None = None
    functions: tuple[str, ...] = ()
    stages: int = 1
    needs_all_channels: bool = False
    counts: tuple[int, ...] = ()


SEED_PARAMETER = TransformParameter("seed", 0, 0, 99, 1, least=0, most=2**24 - 1, integer=True)


# Pointwise transforms


def _clamp(x: Array, low: float, high: float) -> Array:
    """Return `low` below it, `high` above it; NaN stays."""
    least, most = np.float32(low), np.float32(high)
    return np.where(x < least, least, np.where(x > most, most, x))


POINTWISE_TRANSFORMS = (
    TransformKind("ablate", "0", lambda x: np.zeros_like(x), "return 0.0;"),
    TransformKind("invert", "1 − x", lambda x: 1 - x, "return 1.0 - x;"),
    TransformKind(
        "multiply",
        "x · factor",
        lambda x, factor: x * np.float32(factor),
        "return x * P0;",
        (TransformParameter("factor", 2, -4, 4, 0.05),),
    ),
    TransformKind(
        "add",
        "x + number",
        lambda x, number: x + np.float32(number),
        "return x + P0;",
        (TransformParameter("number", 1, -4, 4, 0.05),),
    ),
    TransformKind(
        "clamp",
        "low where x < low, high where x > high, else x",
        _clamp,
        # Keep NaN by testing its bits: some compilers turn the comparisons into min and max, which
        # drop NaN.
        """
if ((floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u) return x;
return x < P0 ? P0 : x > P1 ? P1 : x;
""",
        (TransformParameter("low", 0, -4, 4, 0.05), TransformParameter("high", 1, -4, 4, 0.05)),
    ),
    TransformKind(
        "threshold",
        "1 where x > level, else 0",
        lambda x, level: (x > np.float32(level)).astype(np.float32),
        "return x > P0 ? 1.0 : 0.0;",
        (TransformParameter("level", 0.5, -2, 2, 0.01),),
    ),
    TransformKind(
        "contrast",
        # Like the CSS filter contrast(): https://www.w3.org/TR/filter-effects-1/#contrastEquivalent
        "0.5 + factor · (x − 0.5)",
        lambda x, factor: 0.5 + np.float32(factor) * (x - 0.5),
        "return 0.5 + P0 * (x - 0.5);",
        (TransformParameter("factor", 1.5, 0, 4, 0.05),),
    ),
)


# Transforms of a pixel's channels

LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601, as Pillow's mode "L"


def _saturation(x: Array, factor: float) -> Array:
    """Scale each pixel's distance from its grey; a fourth channel, alpha, stays."""
    grey = sum(x[:, k : k + 1] * np.float64(share) for k, share in enumerate(LUMA))
    found = x.astype(np.float64)
    found[:, :3] = grey + np.float32(factor) * (found[:, :3] - grey)
    return found


COLOUR_TRANSFORMS = (
    TransformKind(
        "saturation",
        "grey + factor · (x − grey) of a colour picture",
        _saturation,
        "return channel > 2 ? old : x + P0 * (old - x);",
        (TransformParameter("factor", 1.5, 0, 4, 0.05),),
        NeighborReads(
            begin_glsl="taps = 3;",
            tap_glsl="""
from_channel = k;
weight = k == 0 ? 0.299 : k == 1 ? 0.587 : 0.114;
""",
            fold_glsl="""
#ifdef RESHAPED
v = vec4(v.x);
#else
if (ONE_CHANNEL < 0) v = vec4(lane(v, k));
#endif
found += weight * v;
""",
            base=3,
        ),
        needs_all_channels=True,
        counts=(3, 4),
    ),
)


# Random numbers, equal on every device for equal seeds


def _pcg_hash(v: Array) -> Array:
    state: Array = v * np.uint32(747796405) + np.uint32(2891336453)
    word: Array = ((state >> ((state >> np.uint32(28)) + np.uint32(4))) ^ state) * np.uint32(
        277803737
    )
    found: Array = (word >> np.uint32(22)) ^ word
    return found


def _seeded_hash(index: Array, seed: float) -> Array:
    """Return the first random word of each index."""
    return _pcg_hash(index ^ _pcg_hash(np.array(int(seed), np.uint32)))


def _to_unit_interval(word: Array) -> Array:
    """Convert words to numbers in the open interval (0, 1), exactly representable in float32."""
    found: Array = ((word >> np.uint32(9)) + 0.5) / 8388608
    return found


def _noise(x: Array, std: float, seed: float) -> Array:
    """Add nearly normal noise: sums of twelve uniform numbers (Irwin-Hall) from PCG's output."""
    with np.errstate(over="ignore"):
        state = _seeded_hash(np.arange(x.size, dtype=np.uint32).reshape(x.shape), seed)
        total = np.zeros(x.shape)
        for _ in range(12):
            total += _to_unit_interval(state)
            state = _pcg_hash(state)
    return x + std * (total - 6)


def _salt_and_pepper(x: Array, share: float, seed: float) -> Array:
    """Draw one random number for each pixel of an example, the same in all its channels."""
    n, _, height, width = x.shape
    places = np.arange(n * height * width, dtype=np.uint32).reshape(n, 1, height, width)
    with np.errstate(over="ignore"):
        drawn = _to_unit_interval(_seeded_hash(places, seed))
    most = np.float32(share)
    return np.where(drawn < most / 2, x.dtype.type(0), np.where(drawn < most, x.dtype.type(1), x))


RANDOM_GLSL = """
// Numbers that look random, from 0 to 2^32 - 1 (PCG's output function, Jarzynski and Olano 2020).
uint scrambled(uint v) {
  uint s = v * 747796405u + 2891336453u, w = ((s >> ((s >> 28u) + 4u)) ^ s) * 277803737u;
  return (w >> 22u) ^ w;
}
uint seeded(int index, int seed) { return scrambled(uint(index) ^ scrambled(uint(seed))); }
// From 0 to 1, exact: 23 bits and a half.
float uniform_of(uint word) { return (float(word >> 9u) + 0.5) / 8388608.0; }
"""
NORMAL_GLSL = """
// Of mean 0 and deviation 1: twelve uniform numbers added (Irwin-Hall), alike on every device.
float normal_at(int index, int seed) {
  uint state = seeded(index, seed);
  float sum = 0.0;
  for (int k = 0; k < 12; k++) {
    sum += uniform_of(state);
    state = scrambled(state);
  }
  return sum - 6.0;
}
"""

NOISE_TRANSFORMS = (
    TransformKind(
        "noise",
        "x + std · an approximately normal random number for each element",
        _noise,
        "return x + P0 * normal_at(place_of(example, channel, row, column), int(P1));",
        (TransformParameter("std", 0.5, 0, 4, 0.05, least=0), SEED_PARAMETER),
        functions=(RANDOM_GLSL, NORMAL_GLSL),
        needs_all_channels=True,
    ),
    TransformKind(
        "salt_and_pepper",
        "0 or 1 at a random fraction of the pixels, the same in all channels",
        _salt_and_pepper,
        """
float drawn = uniform_of(seeded((example * u_shown.z + row) * u_shown.w + column, int(P1)));
return drawn < P0 / 2.0 ? 0.0 : drawn < P0 ? 1.0 : x;
""",
        (TransformParameter("share", 0.1, 0, 1, 0.01, least=0, most=1), SEED_PARAMETER),
        functions=(RANDOM_GLSL,),
        needs_all_channels=True,
    ),
)


# Neighbourhood transforms; the map's border is repeated


def _blur(x: Array, sigma: float) -> Array:
    """Convolve with a Gaussian, truncated at 4 sigma, with the border repeated."""
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
    """Sharpen by unsharp masking."""
    return x + amount * (x - _blur(x, sigma))


def _edges(x: Array) -> Array:
    """Return the norm of Sobel's two derivatives, divided by 4: a straight step of 1 gives 1."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)), "edge")
    height, width = x.shape[2:]
    part = [[padded[:, :, r : r + height, c : c + width] for c in range(3)] for r in range(3)]
    along = sum(k * (part[r][2] - part[r][0]) for r, k in enumerate((1, 2, 1)))
    down = sum(k * (part[2][c] - part[0][c]) for c, k in enumerate((1, 2, 1)))
    found: Array = np.hypot(along, down) / 4
    return found


def _pixelate(x: Array, size: float) -> Array:
    """Average blocks, starting at the top left; blocks at the right and bottom may be smaller."""
    found = x.astype(np.float64)
    for axis in (3, 2):
        starts = np.arange(0, x.shape[axis], int(size))
        lengths = np.diff(starts, append=x.shape[axis])
        shape = [-1 if one == axis else 1 for one in range(4)]
        means = np.add.reduceat(found, starts, axis) / lengths.reshape(shape)
        found = np.repeat(means, lengths, axis)
    return found


MEAN_GLSL = """
found /= weights;
if (u_stage == 0) return found;
"""

SIGMA_PARAMETER = TransformParameter(
    "sigma", 1, 0.1, 5, 0.1, least=0, most=16, above=True, unit="px"
)


def _gaussian_reads(parameter_index: int) -> NeighborReads:
    """Return Gaussian reads: along x in stage 1, along y in stage 2, truncated at 4 sigma."""
    return NeighborReads(
        begin_glsl=f"""
sigma = P{parameter_index};
radius = int(4.0 * sigma + 0.5);
taps = 2 * radius + 1;
""",
        tap_glsl="""
float d = float(k - radius);
weight = exp(-0.5 * d * d / (sigma * sigma));
at += u_stage == 0 ? ivec2(k - radius, 0) : ivec2(0, k - radius);
at = clamp(at, ivec2(0), u_shown.wz - 1);
""",
        end_glsl=MEAN_GLSL,
        slope=8,
        parameter=parameter_index,
    )


FILTER_TRANSFORMS = (
    TransformKind(
        "blur",
        "x convolved with a Gaussian of standard deviation sigma",
        _blur,
        parameters=(SIGMA_PARAMETER,),
        reads=_gaussian_reads(0),
        stages=2,
    ),
    TransformKind(
        "sharpen",
        "x + amount · (x − blur(x))",
        _sharpen,
        "return old + P0 * (old - x);",
        (TransformParameter("amount", 1, 0, 4, 0.05), SIGMA_PARAMETER),
        _gaussian_reads(1),
        stages=2,
    ),
    TransformKind(
        "edges",
        "the gradient's magnitude, from Sobel’s two derivatives",
        _edges,
        reads=NeighborReads(
            begin_glsl="taps = 9;",
            tap_glsl="at = clamp(at + ivec2(k % 3, k / 3) - 1, ivec2(0), u_shown.wz - 1);",
            fold_glsl="""
ivec2 d = ivec2(k % 3, k / 3) - 1;
found += float(d.x * (2 - abs(d.y))) * v;
second += float(d.y * (2 - abs(d.x))) * v;
""",
            end_glsl="found = sqrt(found * found + second * second) / 4.0;",
            base=9,
        ),
    ),
    TransformKind(
        "pixelate",
        "the mean of each block of size × size pixels",
        _pixelate,
        parameters=(
            TransformParameter("size", 4, 1, 32, 1, least=1, most=256, integer=True, unit="px"),
        ),
        reads=NeighborReads(
            begin_glsl="taps = int(P0);",
            tap_glsl="""
at = u_stage == 0 ? ivec2(x / taps * taps + k, y) : ivec2(x, y / taps * taps + k);
""",
            end_glsl=MEAN_GLSL,
            base=0,
            slope=1,
        ),
        stages=2,
    ),
)


# Minimum and maximum in an ellipse, ignoring pixels outside of the map


def ellipse_offsets(radius: int) -> list[tuple[int, int]]:
    """Return the offsets (row, column) of OpenCV's MORPH_ELLIPSE with sides of 2 radius + 1."""
    found = []
    for down in range(-radius, radius + 1):
        half = round(math.sqrt(radius**2 - down**2))
        found += [(down, right) for right in range(-half, half + 1)]
    return found


def _morphology(x: Array, radius: float, fold: Callable[[Array, Array], Array]) -> Array:
    height, width = x.shape[2:]
    found = x.copy()
    for down, right in ellipse_offsets(int(radius)):
        rows = slice(max(0, -down), min(height, height - down))
        columns = slice(max(0, -right), min(width, width - right))
        if rows.start >= rows.stop or columns.start >= columns.stop:
            continue
        other = x[
            :, :, rows.start + down : rows.stop + down, columns.start + right : columns.stop + right
        ]
        found[:, :, rows, columns] = fold(found[:, :, rows, columns], other)
    return found


def _erode(x: Array, radius: float) -> Array:
    """Return the minimum in an ellipse, ignoring pixels outside of the map."""
    return _morphology(x, radius, np.minimum)


def _dilate(x: Array, radius: float) -> Array:
    """Return the maximum in an ellipse, ignoring pixels outside of the map."""
    return _morphology(x, radius, np.maximum)


RADIUS_PARAMETER = TransformParameter(
    "radius", 1, 0, 8, 1, least=0, most=32, integer=True, unit="px"
)


def _ellipse_reads(fold_glsl: str) -> NeighborReads:
    """Return the reads of OpenCV's getStructuringElement(MORPH_ELLIPSE, (2 r + 1, 2 r + 1))."""
    return NeighborReads(
        begin_glsl="""
radius = int(P0);
taps = (2 * radius + 1) * (2 * radius + 1);
""",
        tap_glsl="""
ivec2 d = ivec2(k % (2 * radius + 1), k / (2 * radius + 1)) - radius;
if (abs(d.x) > int(sqrt(float(radius * radius - d.y * d.y)) + 0.5)) continue;
at += d;
""",
        fold_glsl=fold_glsl,
        slope=2,
        power=2,
    )


MORPHOLOGY_TRANSFORMS = (
    TransformKind(
        "erode",
        "the minimum in an ellipse of this radius",
        _erode,
        parameters=(RADIUS_PARAMETER,),
        reads=_ellipse_reads("found = any_read ? min(found, v) : v;"),
    ),
    TransformKind(
        "dilate",
        "the maximum in an ellipse of this radius",
        _dilate,
        parameters=(RADIUS_PARAMETER,),
        reads=_ellipse_reads("found = any_read ? max(found, v) : v;"),
    ),
)


# Affine transforms: bilinear reads with zeros outside of the map


def _affine(x: Array, source_position: Callable[[Array, Array], tuple[Array, Array]]) -> Array:
    """Read bilinearly at (sx, sy) = place(column, row), with zeros outside of the map."""
    height, width = x.shape[2:]
    rows, columns = np.mgrid[:height, :width].astype(np.float64)
    sx, sy = source_position(columns, rows)
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


def _map_center(x: Array) -> tuple[float, float]:
    return (x.shape[3] - 1) / 2, (x.shape[2] - 1) / 2


def _cos_sin(degrees: float) -> tuple[float, float]:
    """Return cosine and sine, exact for quarter turns."""
    quarters = math.floor(degrees / 90 + 0.5)
    rest = math.radians(degrees - 90 * quarters)
    cosine, sine = math.cos(rest), math.sin(rest)
    return [(cosine, sine), (-sine, cosine), (-cosine, -sine), (sine, -cosine)][quarters % 4]


def _rotate(x: Array, degrees: float) -> Array:
    """Rotate counter-clockwise around the centre of the pixels."""
    (mx, my), (cosine, sine) = _map_center(x), _cos_sin(degrees)
    return _affine(
        x,
        lambda column, row: (
            mx + cosine * (column - mx) - sine * (row - my),
            my + sine * (column - mx) + cosine * (row - my),
        ),
    )


def _scale(x: Array, factor: float) -> Array:
    """Scale by a factor around the centre of the pixels."""
    mx, my = _map_center(x)
    return _affine(x, lambda column, row: (mx + (column - mx) / factor, my + (row - my) / factor))


def _translate(x: Array, right: float, down: float) -> Array:
    """Translate by shares of the width and the height."""
    height, width = x.shape[2:]
    return _affine(x, lambda column, row: (column - right * width, row - down * height))


ROTATION_GLSL = """
// Turned by an angle in degrees: exact for quarter turns, and as exact as float32 elsewhere, which
// the built-in functions need not be.
vec2 turned(vec2 d, float degrees) {
  float quarters = floor(degrees / 90.0 + 0.5), r = radians(degrees - 90.0 * quarters), s = r * r;
  float sine = r * (1.0 - s / 6.0 * (1.0 - s / 20.0 * (1.0 - s / 42.0 * (1.0 - s / 72.0))));
  float cosine = 1.0 - s / 2.0 * (1.0 - s / 12.0 * (1.0 - s / 30.0 * (1.0 - s / 56.0)));
  int k = int(quarters) & 3;
  vec2 t = k < 2 ? (k == 0 ? vec2(cosine, sine) : vec2(-sine, cosine))
                 : (k == 2 ? vec2(-cosine, -sine) : vec2(sine, -cosine));
  return vec2(t.x * d.x - t.y * d.y, t.y * d.x + t.x * d.y);
}
"""


def _bilinear_reads(source_position_glsl: str) -> NeighborReads:
    """Return the reads of four pixels around `source_position_glsl`, an expression of `to`."""
    return NeighborReads(
        begin_glsl=f"""
taps = 4;
vec2 size = vec2(u_shown.wz), middle = (size - 1.0) / 2.0, to = vec2(x, y);
from = {source_position_glsl};
""",
        tap_glsl="""
at = corner + ivec2(k & 1, k >> 1);
weight = ((k & 1) == 1 ? part.x : 1.0 - part.x) * (k > 1 ? part.y : 1.0 - part.y);
if (weight == 0.0) continue;
""",
        base=4,
    )


AFFINE_TRANSFORMS = (
    TransformKind(
        "translate",
        "moved right by x widths and down by y heights",
        _translate,
        parameters=(
            TransformParameter("x", 0.25, -1, 1, 0.01),
            TransformParameter("y", 0, -1, 1, 0.01),
        ),
        reads=_bilinear_reads("to - vec2(P0, P1) * size"),
    ),
    TransformKind(
        "scale",
        "scaled by factor, around the centre",
        _scale,
        parameters=(TransformParameter("factor", 1.5, 0.1, 4, 0.05, least=0, above=True),),
        reads=_bilinear_reads("middle + (to - middle) / P0"),
    ),
    TransformKind(
        "rotate",
        "rotated counter-clockwise around the centre",
        _rotate,
        parameters=(TransformParameter("degrees", 45, -180, 180, 1, unit="°"),),
        reads=_bilinear_reads("middle + turned(to - middle, P0)"),
        functions=(ROTATION_GLSL,),
    ),
    TransformKind(
        "flip_h",
        "left and right swapped",
        lambda x: x[:, :, :, ::-1],
        reads=_bilinear_reads("vec2(size.x - 1.0 - to.x, to.y)"),
    ),
    TransformKind(
        "flip_v",
        "top and bottom swapped",
        lambda x: x[:, :, ::-1],
        reads=_bilinear_reads("vec2(to.x, size.y - 1.0 - to.y)"),
    ),
)


# Transforms of a part of the map

# Breaks ties in the same direction on all devices if a patch's edge falls on a pixel's centre.
TIE_OFFSET = 1 / 1024


def _occlude(x: Array, center_x: float, center_y: float, size: float, value: float) -> Array:
    """Fill a square, whose centre is a share of the width and height, with one value."""
    height, width = x.shape[2:]
    found = x.copy()
    left, top = (
        math.floor(float(np.float32(share)) * side - size / 2 + 0.5 + TIE_OFFSET)
        for share, side in ((center_x, width), (center_y, height))
    )
    rows, columns = (slice(max(0, k), max(0, k + int(size))) for k in (top, left))
    found[:, :, rows, columns] = value
    return found


OCCLUSION_TRANSFORMS = (
    TransformKind(
        "occlude",
        "value in a square of size × size pixels around x widths and y heights",
        _occlude,
        """
vec2 at = vec2(column, row);
vec2 corner = floor(vec2(P0, P1) * vec2(u_shown.wz) - P2 / 2.0 + 0.5 + 1.0 / 1024.0);
return all(greaterThanEqual(at, corner)) && all(lessThan(at, corner + P2)) ? P3 : x;
""",
        (
            TransformParameter("x", 0.5, 0, 1, 0.01),
            TransformParameter("y", 0.5, 0, 1, 0.01),
            TransformParameter("size", 8, 1, 64, 1, least=1, most=2**14, integer=True, unit="px"),
            TransformParameter("value", 0, -4, 4, 0.05),
        ),
    ),
)

# In the order of the page's menu.
TRANSFORM_KINDS = {
    kind.name: kind
    for kind in (
        *POINTWISE_TRANSFORMS,
        *COLOUR_TRANSFORMS,
        *NOISE_TRANSFORMS,
        *FILTER_TRANSFORMS,
        *MORPHOLOGY_TRANSFORMS,
        *AFFINE_TRANSFORMS,
        *OCCLUSION_TRANSFORMS,
    )
}

GLSL = "glsl"  # of user code
INJECT = "inject"  # the transform that injects an array
# The numbers in bend.glsl; "none" and "difference" are used only by the runtimes.
TRANSFORM_IDS = {
    name: number
    for number, name in enumerate(("none", INJECT, "difference", *TRANSFORM_KINDS, GLSL))
}
MAX_PARAMETERS = 8  # of user code
