"""The snapshot that a saved notebook keeps: input, some layers' maps, output; a small PNG."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from nbglcnn.graph import Array
from nbglcnn.plan import Plan, Value
from nbglcnn.viewer.protocol import CLASS_COLORS, SIGNED

MAX_BYTES = 90_000  # of the PNG: a notebook shall grow by less than 200 kB a Viewer
STAGES = 7  # pictures beside each other, input and output among them
SIDE = 132  # pixels of one picture
GAP, TOP, BOTTOM = 16, 10, 44
MAPS = 16  # of a layer
INK, SECOND = (33, 33, 33), (97, 97, 97)
MAGENTA = (255, 0, 255)
# As the page's theme.css has them.
POSITIVE, NEGATIVE, AXIS = (0x2A, 0x6C, 0xB0), (0xC0, 0x56, 0x0C), (0x86, 0x8B, 0x90)
BAR, LINE = 12, 14  # pixels of a vector's bar, and of a line of words
CURVES = 8  # one below the other; more stand in a mosaic


Pixels = npt.NDArray[np.uint8]
Font = ImageFont.ImageFont | ImageFont.FreeTypeFont


@cache
def _signed() -> Pixels:
    """The signed map of light themes: 511 colours, interpolated in linear light."""
    words = SIGNED["light"].split()
    stops = np.array([[int(s[i : i + 2], 16) for i in (1, 3, 5)] for s in words]) / 255
    linear = np.where(stops <= 0.04045, stops / 12.92, ((stops + 0.055) / 1.055) ** 2.4)
    at = np.linspace(0, len(stops) - 1, 511)
    mixed = np.stack([np.interp(at, range(len(stops)), linear[:, k]) for k in range(3)], 1)
    back = np.where(mixed <= 0.0031308, mixed * 12.92, 1.055 * mixed ** (1 / 2.4) - 0.055)
    return np.asarray(np.rint(back * 255), np.uint8)


def draw(plan: Plan, values: Mapping[str, Array], example: int, source: str) -> bytes:
    """The PNG of a network's values; `source` says who computed them."""
    shown = chosen(plan)
    size = SIDE
    while True:
        png = row(plan, shown, values, example, source, size)
        if len(png) <= MAX_BYTES or size <= 40:
            return png
        size = size * 3 // 4


def chosen(plan: Plan) -> list[Value]:
    """Inputs, layers spread evenly over the network, outputs; at most STAGES in all.

    Of two networks that are compared: inputs, the last layer of both, and its difference.
    """
    inputs = [v for v in plan.values if v.kind == "input"][:2]
    if plan.header.comparison.pairs:
        last = plan.header.comparison.pairs[-1]
        known = {v.key: v for v in plan.values}
        return [*inputs, *(known[key] for key in (last.a, last.b, last.difference))]
    outputs = [v for v in plan.values if v.kind == "output"][:2]
    layers = [v for v in plan.values if v.kind == "layer"]
    ends = {v.texture for v in (*inputs, *outputs)}
    layers = [v for v in layers if v.texture not in ends]
    room = min(len(layers), STAGES - len(inputs) - len(outputs))
    at = np.linspace(0, len(layers) - 1, room).round().astype(int)
    return [*inputs, *(layers[i] for i in at), *outputs]


def row(
    plan: Plan,
    shown: Sequence[Value],
    values: Mapping[str, Array],
    example: int,
    source: str,
    size: int = SIDE,
) -> bytes:
    """A PNG of these values of one example, side by side."""
    name, small = ImageFont.load_default(11), ImageFont.load_default(10)
    width = GAP + (size + GAP) * len(shown)
    sheet = Image.new("RGB", (max(width, 260), TOP + size + BOTTOM + 18), "white")
    pen = ImageDraw.Draw(sheet)
    for k, value in enumerate(shown):
        x = GAP + k * (size + GAP)
        picture = _picture(value, values[value.key], example, size)
        sheet.paste(picture, (x, TOP + size - picture.height))
        y = TOP + size + 6
        for text, font, ink in ((value.key, name, INK), (_shape(value), small, SECOND)):
            pen.text((x, y), _fitting(pen, text, font, size), fill=ink, font=font)
            y += 15
    about = f"{plan.header.name}: picture from the last run, computed by {source}"
    line = _fitting(pen, about, small, sheet.width - 2 * GAP)
    pen.text((GAP, sheet.height - 18), line, fill=SECOND, font=small)
    data = io.BytesIO()
    sheet.quantize(128, Image.Quantize.FASTOCTREE).save(data, "PNG", optimize=True)
    return data.getvalue()


def _shape(value: Value) -> str:
    own = len(value.shape) > 1 and value.shape[0] == value.nchw[0]  # an axis of images
    shape = value.shape[1:] if own else value.shape
    return "x".join(map(str, shape)) or "scalar"  # Pillow's own font has no ×


def _fitting(pen: ImageDraw.ImageDraw, text: str, font: Font, width: int) -> str:
    text = "".join(c if c.isprintable() else "?" for c in text[:200])
    if pen.textlength(text, font) <= width:
        return text
    while text and pen.textlength(text + "…", font) > width:
        text = text[:-1]
    return text + "…"


def _picture(value: Value, array: Array, example: int, size: int) -> Image.Image:
    """One value, as the page's displayOf has it: a number, bars, curves, classes, images, maps."""
    n, c, h, w = value.nchw
    whole = np.asarray(array, np.float32) if array.size else np.zeros(1, np.float32)
    maps = whole.reshape(n, c, h, w)[min(example, n - 1)]
    image = value.kind in ("input", "output") and len(value.shape) == 4
    if h * w == 1:
        vector = maps.reshape(-1)
        return _number(vector[0], size) if c == 1 else _bars(vector, size)
    if value.form == "signal":
        return _curves(maps.reshape(c, -1), size)
    if value.form == "classes" and value.kind == "output":
        return _scaled(_classes(maps), size, size)
    if image and c in (1, 3) and h > 1:
        return _scaled(_image(maps), size, size)
    limit = _limit(maps)
    pictures = [_coloured(m, limit) for m in maps[:MAPS]]
    across = int(np.ceil(np.sqrt(len(pictures))))
    tile = (size - across + 1) // across
    return _mosaic([_scaled(one, tile, tile) for one in pictures], across)


def _mosaic(pictures: Sequence[Image.Image], across: int) -> Image.Image:
    """Pictures of one size side by side in rows, a pixel apart."""
    across_px, down_px = pictures[0].size if pictures else (1, 1)
    rows = -(-len(pictures) // across)
    sheet = Image.new("RGB", (across * (across_px + 1) - 1, rows * (down_px + 1) - 1), "#e0e0e0")
    for k, picture in enumerate(pictures):
        sheet.paste(picture, (k % across * (across_px + 1), k // across * (down_px + 1)))
    return sheet


def _number(number: float, size: int) -> Image.Image:
    """A scalar is shown as its number."""
    sheet = Image.new("RGB", (size, size // 3), "white")
    letters = max(11, size // 7)
    font = ImageFont.load_default(letters)
    pen = ImageDraw.Draw(sheet)
    text = f"{number:.3g}"
    width = pen.textlength(text, font)
    pen.text(((size - width) / 2, size // 3 - 1.4 * letters), text, fill=INK, font=font)
    return sheet


def _bars(vector: Array, size: int) -> Image.Image:
    """A vector as bars to both sides of zero, with their numbers: all, or what is largest."""
    part = len(vector) * BAR > size
    most = max(1, (size - LINE) // BAR) if part else len(vector)
    order = np.argsort(-np.abs(np.nan_to_num(vector)), kind="stable")[:most]
    shown = np.sort(order) if part else np.arange(len(vector))
    sheet = Image.new("RGB", (size, BAR * len(shown) + (LINE if part else 0)), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(10)
    left = pen.textlength(str(shown.max(initial=0)), font) + 6
    limit, half = _limit(vector), (size - left) / 2
    zero = left + half
    for k, element in enumerate(shown):
        top, number = k * BAR, float(vector[element])
        label = str(element)
        pen.text((left - 5 - pen.textlength(label, font), top), label, fill=SECOND, font=font)
        if not np.isfinite(number):
            pen.rectangle((left, top + 1, size - 1, top + BAR - 3), fill=MAGENTA)
            continue
        end = zero + (half - 1) * number / (limit or 1.0)
        ink = POSITIVE if number >= 0 else NEGATIVE
        if number:
            pen.rectangle((min(zero, end), top + 1, max(zero, end), top + BAR - 3), fill=ink)
    pen.line((zero, 0, zero, BAR * len(shown) - 1), fill=AXIS)
    if part:
        text = f"{len(shown)} of {len(vector):,}"
        at = (size - pen.textlength(text, font)) / 2
        pen.text((at, BAR * len(shown) + 1), text, fill=SECOND, font=font)
    return sheet


def _curves(channels: Array, size: int) -> Image.Image:
    """Each channel as a curve around zero, in one range; up to CURVES one below the other."""
    if len(channels) <= CURVES:
        shown, across = channels, 1
        width, height = size, min(size // 2, (size - len(channels) + 1) // len(channels))
    else:
        shown = channels[:MAPS]
        across = int(np.ceil(np.sqrt(len(shown) / 2)))
        width = (size - across + 1) // across
        height = max(4, width // 2)
    finite = channels[np.isfinite(channels)]
    low, high = min(0.0, float(finite.min(initial=0))), max(0.0, float(finite.max(initial=0)))
    return _mosaic([_curve(one, low, high, width, height) for one in shown], across)


def _curve(values: Array, low: float, high: float, width: int, height: int) -> Image.Image:
    """From the least to the greatest value that each column of pixels covers."""
    sheet = Image.new("RGB", (width, height), "white")
    pen = ImageDraw.Draw(sheet)
    y_of = np.interp  # of numbers from low to high, the rows from below to above
    span = (low, high) if high > low else (low, low + 1)
    zero = float(y_of(0, span, (height - 2, 1)))
    pen.line((0, zero, width, zero), fill=AXIS)
    ends = np.arange(width + 1) * len(values) / width - 0.5
    places = np.arange(len(values))
    at_ends = np.interp(ends, places, np.nan_to_num(values))
    for x in range(width):
        inside = values[max(0, int(np.ceil(ends[x]))) : int(ends[x + 1]) + 1]
        nearest = values[min(len(values) - 1, int((x + 0.5) * len(values) / width))]
        if not np.isfinite([nearest, *inside]).all():
            pen.line((x, 0, x, height), fill=MAGENTA)
            continue
        numbers = [at_ends[x], at_ends[x + 1], *inside]
        least, most = float(min(numbers)), float(max(numbers))
        top, bottom = (float(y_of(one, span, (height - 2, 1))) for one in (most, least))
        if most > 0:
            pen.line((x, round(top), x, round(min(bottom, zero))), fill=POSITIVE)
        if least < 0:
            pen.line((x, round(max(top, zero)), x, round(bottom)), fill=NEGATIVE)
    return sheet


def _classes(maps: Array) -> Pixels:
    """The class with the largest score at each place, the first of equals, in its colour."""
    which = maps.argmax(0) if len(maps) > 1 else np.nan_to_num(maps[0]).astype(int)
    base = np.array([list(bytes.fromhex(word[1:])) for word in CLASS_COLORS.split()], float)
    colours = np.concatenate([base, base * 0.55 + 115, base * 0.55])
    pixels: Pixels = np.asarray(np.rint(colours), np.uint8)[which % len(colours)]
    pixels[np.isnan(maps).any(axis=0)] = MAGENTA
    return pixels


def _limit(maps: Array) -> float:
    """The page's range of a layer: ± the larger of all its values, also those that aren't shown."""
    return float(np.abs(maps[np.isfinite(maps)]).max(initial=0))


def _coloured(values: Array, limit: float) -> Pixels:
    finite = np.isfinite(values)
    share = np.where(finite, values, 0) / (limit or 1.0)
    pixels: Pixels = _signed()[np.rint(255 + 255 * np.clip(share, -1, 1)).astype(int)]
    pixels[~finite] = MAGENTA
    return pixels


def _image(maps: Array) -> Pixels:
    finite = np.isfinite(maps)
    known = maps[finite]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    shares = (np.where(finite, maps, low) - low) / ((high - low) or 1.0)
    pixels = np.asarray(np.rint(255 * shares), np.uint8).transpose(1, 2, 0)
    pixels = np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels.copy()
    pixels[~finite.all(axis=0)] = MAGENTA
    return pixels


def _scaled(pixels: Pixels, width: int, height: int) -> Image.Image:
    """As large as fits: whole multiples of a pixel, or averaged down."""
    image = Image.fromarray(pixels)
    scale = min(width / image.width, height / image.height)
    scale = int(scale) if scale >= 1 else scale
    box = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(box, Image.Resampling.NEAREST if scale >= 1 else Image.Resampling.BOX)
