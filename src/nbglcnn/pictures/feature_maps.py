"""Pictures of values drawn in Python, as the page draws them: same colours, ranges and marks.

The page's counterparts are js/src/network/display_kind.ts (how a value is drawn),
js/src/views/maps.tsx (ranges) and js/src/webgl/shaders; tests compare the pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
from PIL import Image

from nbglcnn.errors import InputError, suggest_names
from nbglcnn.graph import Array
from nbglcnn.pictures.bars import draw_bars, draw_number
from nbglcnn.pictures.colors import (
    BACKGROUND,
    NON_FINITE_COLOR,
    Colormap,
    Pixels,
    Theme,
    class_colors,
    colormap_texels,
)
from nbglcnn.plan.schema import CLIP_TOLERANCE, IMAGE_RANGES, Value

DisplayStyle = Literal["maps", "curves", "classes", "grey", "rgb", "bars", "number"]
ColorRange = Literal["layer", "channel"] | tuple[float, float]
ClipCounts = tuple[int, int]
Floats = npt.NDArray[np.float32]
Limits = tuple[np.float32, np.float32]

BLACK, WHITE = (0, 0, 0), (255, 255, 255)
MAP_GAP_PIXELS = 1  # pixels between maps, independent of the scale
MAX_SIDE = 16_384  # pixels per side of a picture
BARS_WIDTH, NUMBER_WIDTH = 240, 132
CURVE_SIZE = (42, 21)  # width and height of a curve at scale 1, as in the page
LARGE_RANGE = np.float32(3.0e38)
# For pictures without a range from the network (see image_limits): noise may exceed a range by a
# quarter of it (NOISE_SLACK), the mean ± one standard deviation may exceed 0 to 1 by BULK_SLACK,
# and a picture of bytes has a maximum above MIN_BYTE_MAXIMUM.
NOISE_SLACK, BULK_SLACK, MIN_BYTE_MAXIMUM = 0.25, 0.5, 16.0


def draw_picture(
    value: Value,
    array: Array,
    *,
    channels: int | Sequence[int] | None = None,
    example: int = 0,
    colormap: Colormap = "signed",
    color_range: ColorRange | None = None,
    symmetric: bool = False,
    columns: int | None = None,
    scale: int = 1,
    theme: Theme = "light",
) -> Image.Image:
    """Draw a value; the arguments are those of `Session.picture`."""
    maps = example_maps(value, array, example)
    drawn = display_style(value)
    _check_arguments(value, example, colormap, color_range, columns, scale, theme)
    if drawn == "number":
        return draw_number(float(maps.reshape(-1)[0]), NUMBER_WIDTH * scale, theme)
    if drawn == "bars":
        own = {"indices": _channel_indices(value, channels), "limits": value.value_range}
        return draw_bars(maps.reshape(-1), BARS_WIDTH * scale, theme, **own)  # type: ignore[arg-type]
    chosen = _channel_indices(value, channels)
    if drawn in ("grey", "rgb"):
        limits = [
            image_limits(value, maps) if color_range is None else color_limits(maps, k, color_range)
            for k in chosen
        ]
        limits = [data_limits(*one) for one in limits]
        whole = channels is None and drawn == "rgb"
        parts = [(maps, limits)] if whole else [
            (maps[[k]], [one]) for k, one in zip(chosen, limits, strict=True)
        ]  # fmt: skip
        sheet = draw_mosaic(
            [draw_image(*one, scale) for one in parts], columns or 1, BACKGROUND[theme]
        )
        sheet.info["below"], sheet.info["above"] = count_clipped(maps[chosen], limits)
        return sheet
    if channels is None and drawn == "classes":
        tiles = [draw_classes(maps)]
    else:
        limits = [color_limits(maps, channel, color_range or "layer") for channel in chosen]
        if drawn == "curves":
            side = (CURVE_SIZE[0] * scale, CURVE_SIZE[1] * scale)
            tiles = [
                draw_curve(
                    maps[k].reshape(-1),
                    *halve_range(one, symmetric=symmetric, zero=True),
                    side,
                    theme,
                )
                for k, one in zip(chosen, limits, strict=True)
            ]
            return draw_mosaic(tiles, columns or 1, BACKGROUND[theme])
        tiles = [
            apply_colormap(maps[k], one, colormap, theme, symmetric=symmetric, scale=scale)
            for k, one in zip(chosen, limits, strict=True)
        ]
        return draw_mosaic(tiles, columns or mosaic_columns(len(tiles)), BACKGROUND[theme])
    return draw_mosaic([enlarge(one, scale) for one in tiles], columns or 1, BACKGROUND[theme])


def _check_arguments(
    value: Value,
    example: int,
    colormap: str,
    color_range: Any,
    columns: int | None,
    scale: int,
    theme: str,
) -> None:
    """Raise InputError for an invalid argument."""
    for name, word, known in (
        ("colormap", colormap, get_args(Colormap)),
        ("theme", theme, get_args(Theme)),
    ):
        if word not in known:
            raise InputError(
                f"{name}={word!r}{suggest_names(word, known)}; expected one of {', '.join(known)}"
            )
    if not 0 <= example < value.nchw[0]:
        raise InputError(
            f"example {example}: {value.key} has {value.nchw[0]} examples, counted from 0"
        )
    for name, given in (("scale", scale), ("columns", 1 if columns is None else columns)):
        if not isinstance(given, int) or given < 1:
            raise InputError(f"{name} is {given!r}; expected an integer ≥ 1")
    if max(value.nchw[2:]) * scale > MAX_SIDE:
        raise InputError(
            f"a map of {value.key} would have {max(value.nchw[2:]) * scale} pixels per side; at "
            f"most {MAX_SIDE} are supported. Give a smaller scale"
        )
    if color_range not in (None, "layer", "channel"):
        try:
            low, high = map(float, color_range)
        except (TypeError, ValueError):
            low = high = 0.0
        if not low < high:
            raise InputError(
                f'color_range is {color_range!r}: give "layer", "channel", or the minimum and '
                "maximum as (low, high)"
            )


def _channel_indices(value: Value, channels: int | Sequence[int] | None) -> list[int]:
    count = value.nchw[1]
    if channels is None:
        return list(range(count))
    chosen = [channels] if isinstance(channels, int) else [int(one) for one in channels]
    wrong = [one for one in chosen if not 0 <= one < count]
    if wrong or not chosen:
        raise InputError(f"channels: {value.key} has 0 to {count - 1}, not {wrong or 'none'}")
    return chosen


def display_style(value: Value) -> DisplayStyle:
    """The kind of picture of a value; only inputs and outputs are drawn in their own colours."""
    _, c, h, w = value.nchw
    if h * w == 1:
        return "number" if c == 1 else "bars"
    if value.display_kind == "signal":
        return "curves"
    if value.display_kind == "classes" and value.kind == "output":
        return "classes"
    if value.kind in ("input", "output") and len(value.shape) == 4 and h > 1 and c in (1, 3):
        return "grey" if c == 1 else "rgb"
    return "maps"


def example_maps(value: Value, array: Array, example: int) -> Floats:
    """The maps of one example of a value, shape C×H×W."""
    n, c, h, w = value.nchw
    whole = np.asarray(array, np.float32) if array.size else np.zeros(n * c * h * w, np.float32)
    maps: Floats = whole.reshape(n, c, h, w)[min(example, n - 1)]
    return maps


def mosaic_columns(count: int) -> int:
    """The number of columns of a nearly square mosaic."""
    return max(1, int(np.ceil(np.sqrt(count))))


def color_limits(maps: Floats, channel: int, color_range: ColorRange) -> Limits:
    """The values at the low and high end of a channel's colours."""
    if isinstance(color_range, tuple | list):
        return np.float32(color_range[0]), np.float32(color_range[1])
    source_maps = maps if color_range == "layer" else maps[channel]
    finite = source_maps[np.isfinite(source_maps)]
    if not finite.size:
        return np.float32(0), np.float32(0)
    return finite.min(), finite.max()


def halve_range(limits: Limits, *, symmetric: bool = False, zero: bool = False) -> Limits:
    """Return half the low limit, and half the difference between the limits."""
    low, high = limits
    if zero and not symmetric:
        low, high = min(low, np.float32(0)), max(high, np.float32(0))
    elif symmetric:
        high = max(abs(low), abs(high))
        low = -high
    half = np.float32(0.5)
    span = high * half - low * half
    if span > 0:
        return low * half, span
    return (np.float32(-0.25) * LARGE_RANGE if symmetric else low * half), half * LARGE_RANGE


def apply_colormap(
    values: Floats,
    limits: Limits,
    colormap: Colormap,
    theme: Theme,
    *,
    symmetric: bool = False,
    scale: int = 1,
) -> Pixels:
    """Colour a map, H·scale × W·scale; float32, with the shader's order of operations."""
    signed = colormap == "signed"
    low, span = halve_range(limits, symmetric=symmetric or signed)
    steps, first = (np.float32(n / 512) for n in ((510, 1.5) if signed else (511, 0.5)))
    t = np.clip((np.where(np.isfinite(values), values, 0) * np.float32(0.5) - low) / span, 0, 1)
    at = np.floor((t * steps + first) * np.float32(512)).astype(int)
    return mark_non_finite(enlarge(colormap_texels(colormap, theme)[at], scale), values, scale)


def image_limits(value: Value, maps: Floats) -> Limits:
    """The values of black and white of a picture: from the network, or guessed from the data.

    The guess is the first of IMAGE_RANGES that contains the data, with a tolerance for noise
    (NOISE_SLACK). Otherwise it is 0 and 1 if the mean ± one standard deviation is within BULK_SLACK
    of that range, or else the data's minimum and maximum (`data_limits`).
    """
    known = value.value_range
    if known[0] is not None and known[1] is not None:
        return np.float32(known[0]), np.float32(known[1])
    low, high = color_limits(maps, 0, "layer")
    unit, signed, of_bytes = IMAGE_RANGES
    slack = NOISE_SLACK * of_bytes[1]
    finite = maps[np.isfinite(maps)].astype(np.float64)
    mean, std = (finite.mean(), finite.std()) if finite.size else (0.0, 0.0)
    if low >= -NOISE_SLACK and high <= 1 + NOISE_SLACK:
        found = unit
    elif low >= signed[0] and high <= signed[1]:
        found = signed
    elif MIN_BYTE_MAXIMUM < high <= of_bytes[1] + slack and low >= -slack:
        found = of_bytes
    elif mean - std >= -BULK_SLACK and mean + std <= 1 + BULK_SLACK:
        found = unit
    else:
        return data_limits(low, high)
    return np.float32(found[0]), np.float32(found[1])


def data_limits(low: np.float32, high: np.float32) -> Limits:
    """The values of black and white from the minimum and maximum; if equal, one of them is 0."""
    if low < high:
        return low, high
    zero = np.float32(0)
    return (low, zero) if low < 0 else (zero, low if low > 0 else np.float32(1))


def clip_thresholds(limits: Limits) -> tuple[np.float32, np.float32]:
    """The thresholds below and above which a value is clipped, and marked as clipped."""
    low, high = map(float, limits)
    slack = CLIP_TOLERANCE * (high - low)
    return np.float32(low - slack), np.float32(high + slack)


def count_clipped(maps: Floats, limits: Sequence[Limits]) -> ClipCounts:
    """Count the values of these channels that are below and above each channel's limits."""
    below = above = 0
    for one, ends_of in zip(maps, limits, strict=True):
        low, high = clip_thresholds(ends_of)
        finite = one[np.isfinite(one)]
        below += int((finite < low).sum())
        above += int((finite > high).sum())
    return below, above


def draw_image(
    maps: Floats, limits: Sequence[Limits], scale: int = 1, *, marks: bool = True
) -> Pixels:
    """Draw one channel in grey, or three in colour, each scaled to its limits.

    The counterpart in the page is js/src/webgl/shaders/image.glsl.

    Dots mark values outside the limits: black above, white below.
    """
    steps, first = np.float32(511 / 512), np.float32(0.5 / 512)
    table = colormap_texels("grey", "light")
    planes = []
    above = np.zeros(maps.shape[1:], bool)
    below = above.copy()
    for one, between in zip(maps, limits, strict=True):
        low, span = halve_range(between)
        known = np.where(np.isfinite(one), one, 0)
        t = np.clip((known * np.float32(0.5) - low) / span, 0, 1)
        planes.append(table[np.floor((t * steps + first) * np.float32(512)).astype(int)])
        least, most = clip_thresholds(between)
        above |= known > most
        below |= known < least
    if len(planes) == 1:
        pixels: Pixels = planes[0]
    else:
        pixels = np.stack([plane[..., k] for k, plane in enumerate(planes)], -1)
    pixels = enlarge(pixels, scale)
    if marks and (above | below).any():
        pixels = pixels.copy()
        y, x = np.indices(pixels.shape[:2])
        dots = (y % 4 == 0) & ((x + y // 2) % 4 == 0)
        pixels[dots & enlarge(below, scale)] = WHITE
        pixels[dots & enlarge(above, scale)] = BLACK
    flaws = np.where(np.isnan(maps).any(0), np.nan, np.where(np.isinf(maps).any(0), np.inf, 0))
    return mark_non_finite(pixels, flaws, scale)


def draw_classes(maps: Floats) -> Pixels:
    """Colour each pixel by the class with the largest score; the first class wins ties.

    If there is only one map, its values are the class indices.
    """
    scores = np.where(np.isnan(maps), -np.inf, maps)
    which = scores.argmax(0) if len(maps) > 1 else np.nan_to_num(maps[0]).astype(int)
    colours = class_colors()
    pixels: Pixels = colours[which % len(colours)]
    return mark_non_finite(pixels, np.where(np.isnan(maps).any(0), np.nan, 0), 1)


def mark_non_finite(pixels: Pixels, values: Floats | npt.NDArray[np.float64], scale: int) -> Pixels:
    """Mark non-finite values in magenta: NaN hatched, infinities solid."""
    if np.isfinite(values).all():
        return pixels
    pixels = pixels.copy()
    wrong = enlarge(~np.isfinite(values), scale)
    pixels[wrong] = NON_FINITE_COLOR
    y, x = np.indices(wrong.shape)
    pixels[enlarge(np.isnan(values), scale) & ((x + y) % 3 == 2)] = BLACK
    return pixels


def enlarge(pixels: Any, scale: int) -> Any:
    """Repeat each pixel as a square of `scale` × `scale` pixels."""
    return pixels if scale == 1 else pixels.repeat(scale, axis=0).repeat(scale, axis=1)


def draw_mosaic(
    tiles: Sequence[Pixels], columns: int, gap_color: Any, gap_pixels: int = MAP_GAP_PIXELS
) -> Image.Image:
    """Arrange pictures of one size in rows, with gaps of `gap_pixels` in `gap_color`."""
    height, width = tiles[0].shape[:2]
    columns = min(columns, len(tiles))
    rows = -(-len(tiles) // columns)
    size = (columns * (width + gap_pixels) - gap_pixels, rows * (height + gap_pixels) - gap_pixels)
    if max(size) > MAX_SIDE:
        raise InputError(
            f"the picture would have {size[0]}×{size[1]} pixels; at most {MAX_SIDE} per side are "
            "supported. Give fewer channels, or a smaller scale"
        )
    sheet = Image.new("RGB", size, gap_color)
    for k, tile in enumerate(tiles):
        at = (k % columns * (width + gap_pixels), k // columns * (height + gap_pixels))
        sheet.paste(Image.fromarray(tile), at)
    return sheet


def draw_curve(
    values: Floats,
    low: np.float32,
    span: np.float32,
    size: tuple[int, int],
    theme: Theme = "light",
) -> Pixels:
    """Draw one channel as a curve, H×W: each column spans its values' minimum to maximum.

    `low` and `span` come from `halve_range`. The counterpart in the page is
    js/src/webgl/shaders/curves.glsl.
    """
    width, height = size
    count = len(values)
    known = np.where(np.isfinite(values), values, 0).astype(np.float64)
    each = count / width
    columns = np.arange(width)
    left = columns * each - 0.5
    least, most = np.full(width, np.inf), np.full(width, -np.inf)
    wrong = np.zeros(width, np.float32)
    for x in columns:
        inside = np.arange(np.floor(left[x]), np.ceil(left[x] + each) + 1)
        places = np.clip(
            [left[x], left[x] + each, *inside[(inside > left[x]) & (inside < left[x] + each)]],
            0,
            count - 1,
        )
        heights = np.interp(places, np.arange(count), known)
        least[x], most[x] = heights.min(), heights.max()
        if each > 1:
            covered = values[
                np.clip(
                    inside[(inside >= left[x]) & (inside < left[x] + each)], 0, count - 1
                ).astype(int)
            ]
        else:
            covered = values[[min(count - 1, int((x + 0.5) / width * count))]]
        if not np.isfinite(covered).all():
            wrong[x] = np.nan if np.isnan(covered).any() else np.inf
    inner = height - 3.0

    def y_of(numbers: Any) -> Any:
        return 1.5 + (1 - np.clip((numbers * 0.5 - low) / span, 0, 1)) * inner

    zero = y_of(0.0)
    bottom, top = y_of(least), y_of(most)  # rows of the minimum and the maximum
    rows = np.arange(height)[:, None] + 0.5
    off = np.maximum(top - rows, rows - bottom)
    half_line = round(min(120, max(60, height))) * 0.01
    line = np.clip(half_line + 0.5 - off, 0, 1)
    within = np.maximum(np.minimum(top, zero) - rows, rows - np.maximum(bottom, zero)) < 0
    table = colormap_texels("signed", theme).astype(float)
    ground, grey = table[256], np.full(3, 127.5)
    positive = (least >= 0) | ((most > 0) & (rows < zero))
    ink = np.where(positive[..., None], table[440], table[72])
    flat = (least == 0) & (most == 0)
    ink = np.where(flat[None, :, None], ground * 0.3 + grey * 0.7, ink)
    colour = ground + (ink - ground) * np.where(within, 0.2, 0.0)[..., None]
    colour = np.where((np.abs(rows - zero) < 0.5)[..., None], (colour + grey) / 2, colour)
    colour = colour + (ink - colour) * line[..., None]
    pixels: Pixels = np.rint(colour).astype(np.uint8)
    return mark_non_finite(pixels, np.broadcast_to(wrong, (height, width)), 1)
