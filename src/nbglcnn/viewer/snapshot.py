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
from nbglcnn.viewer.protocol import SIGNED

MAX_BYTES = 90_000  # of the PNG: a notebook shall grow by less than 200 kB a Viewer
STAGES = 7  # pictures beside each other, input and output among them
SIDE = 132  # pixels of one picture
GAP, TOP, BOTTOM = 16, 10, 44
MAPS = 16  # of a layer
INK, SECOND = (33, 33, 33), (97, 97, 97)
MAGENTA = (255, 0, 255)


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
        png = _draw(plan, shown, values, example, source, size)
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


def _draw(
    plan: Plan,
    shown: Sequence[Value],
    values: Mapping[str, Array],
    example: int,
    source: str,
    size: int,
) -> bytes:
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
    """One value: an image as an image, anything else as a mosaic of its channels."""
    n, c, h, w = value.nchw
    whole = np.asarray(array, np.float32) if array.size else np.zeros(1, np.float32)
    maps = whole.reshape(n, c, h, w)[min(example, n - 1)]
    image = value.kind in ("input", "output") and len(value.shape) == 4
    if image and c in (1, 3) and h > 1:  # as the page's pictureOf
        return _scaled(_image(maps), size, size)
    limit = _limit(maps)
    if h * w == 1:  # a vector: squares in reading order
        side = int(np.ceil(np.sqrt(c)))
        padded = np.zeros(side * -(-c // side), np.float32)
        padded[:c] = maps.reshape(-1)
        maps = padded.reshape(1, -1, side)
    maps = maps[:MAPS]
    across = int(np.ceil(np.sqrt(len(maps))))
    tile = (size - across + 1) // across
    pictures = [_scaled(_coloured(m, limit), tile, tile) for m in maps]
    across_px, down_px = pictures[0].size if pictures else (1, 1)
    rows = -(-len(maps) // across)
    sheet = Image.new("RGB", (across * (across_px + 1) - 1, rows * (down_px + 1) - 1), "#e0e0e0")
    for k, picture in enumerate(pictures):
        sheet.paste(picture, (k % across * (across_px + 1), k // across * (down_px + 1)))
    return sheet


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
