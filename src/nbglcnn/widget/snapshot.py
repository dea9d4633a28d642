"""The snapshot in a saved notebook: input, some layers' maps, output; a small PNG."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from nbglcnn.graph import Array
from nbglcnn.pictures import feature_maps as pictures
from nbglcnn.pictures.bars import draw_bars, draw_number
from nbglcnn.pictures.colors import Pixels
from nbglcnn.plan.schema import Plan, Value

MAX_SNAPSHOT_BYTES = 90_000  # of the PNG, so that a notebook grows by less than 200 kB per Viewer
MAX_PICTURES = 7  # pictures side by side, including input and output
PICTURE_SIDE = 132  # pixels per side of a picture
GAP, TOP, BOTTOM = 16, 10, 44
MAX_MAPS = 16  # maps per layer
INK, SECONDARY_INK, GRID_COLOR = (33, 33, 33), (97, 97, 97), "#e0e0e0"
MAX_CURVES = 8  # in one column; more are drawn as a mosaic


Font = ImageFont.ImageFont | ImageFont.FreeTypeFont


def draw_snapshot(
    plan: Plan,
    values: Mapping[str, Array],
    example: int,
    backend_name: str,
    max_bytes: int = MAX_SNAPSHOT_BYTES,
) -> bytes:
    """Draw a PNG of a network's values, of at most `max_bytes`, that names `backend_name`."""
    shown = [value for value in snapshot_values(plan) if value.key in values]  # a latent skips some
    size = PICTURE_SIDE
    while True:
        png = _draw(plan, shown, values, example, backend_name, size)
        if len(png) <= max_bytes or size <= 40:
            return png
        size = size * 3 // 4


def snapshot_values(plan: Plan) -> list[Value]:
    """Inputs, layers spread evenly over the network, and outputs; at most MAX_PICTURES in all.

    For a comparison of two networks: inputs, the last layer of both, and its difference.
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
    room = min(len(layers), MAX_PICTURES - len(inputs) - len(outputs))
    at = np.linspace(0, len(layers) - 1, room).round().astype(int)
    return [*inputs, *(layers[i] for i in at), *outputs]


def _draw(
    plan: Plan,
    shown_values: Sequence[Value],
    values: Mapping[str, Array],
    example: int,
    backend_name: str,
    size: int,
) -> bytes:
    name, small = ImageFont.load_default(11), ImageFont.load_default(10)
    width = GAP + (size + GAP) * len(shown_values)
    sheet = Image.new("RGB", (max(width, 260), TOP + size + BOTTOM + 18), "white")
    pen = ImageDraw.Draw(sheet)
    for k, value in enumerate(shown_values):
        x = GAP + k * (size + GAP)
        picture = _draw_value(value, values[value.key], example, size)
        sheet.paste(picture, (x, TOP + size - picture.height))
        y = TOP + size + 6
        about = " ".join(
            (_format_shape(value), *_format_clipped_counts(value, values[value.key], example))
        )
        for text, font, ink in ((value.key, name, INK), (about, small, SECONDARY_INK)):
            pen.text((x, y), _truncate_text(pen, text, font, size), fill=ink, font=font)
            y += 15
    about = f"{plan.header.name}: picture from the last run, computed by {backend_name}"
    line = _truncate_text(pen, about, small, sheet.width - 2 * GAP)
    pen.text((GAP, sheet.height - 18), line, fill=SECONDARY_INK, font=small)
    data = io.BytesIO()
    sheet.quantize(128, Image.Quantize.FASTOCTREE).save(data, "PNG", optimize=True)
    return data.getvalue()


def _format_shape(value: Value) -> str:
    own = len(value.shape) > 1 and value.shape[0] == value.nchw[0]  # a batch axis
    shape = value.shape[1:] if own else value.shape
    return "x".join(map(str, shape)) or "scalar"  # Pillow's default font has no ×


def _format_clipped_counts(value: Value, array: Array, example: int) -> list[str]:
    """The numbers of values below and above a picture's range, as text."""
    if pictures.display_style(value) not in ("grey", "rgb"):
        return []
    maps = pictures.example_maps(value, array, example)
    counts = pictures.count_clipped(maps, [pictures.image_limits(value, maps)] * len(maps))
    pairs = zip(counts, ("below", "above"), strict=True)
    return [f"{count:,} {word}" for count, word in pairs if count]


def _truncate_text(pen: ImageDraw.ImageDraw, text: str, font: Font, width: int) -> str:
    text = "".join(c if c.isprintable() else "?" for c in text[:200])
    if pen.textlength(text, font) <= width:
        return text
    while text and pen.textlength(text + "…", font) > width:
        text = text[:-1]
    return text + "…"


def _draw_value(value: Value, array: Array, example: int, size: int) -> Image.Image:
    """Draw one value as the page does: a number, bars, curves, classes, an image or maps."""
    maps = pictures.example_maps(value, array, example)
    match pictures.display_style(value):
        case "number":
            return draw_number(float(maps.reshape(-1)[0]), size)
        case "bars":
            return draw_bars(maps.reshape(-1), size, height=size, limits=value.value_range)
        case "curves":
            return _draw_curves(maps.reshape(len(maps), -1), size)
        case "classes":
            return _scale_image(pictures.draw_classes(maps), size, size)
        case "grey" | "rgb":
            limits = [pictures.image_limits(value, maps)] * len(maps)
            scale = int(min(size / maps.shape[2], size / maps.shape[1]))
            shown = pictures.draw_image(maps, limits, max(1, scale), marks=scale > 0)
            return _scale_image(shown, size, size)
    ends = pictures.color_limits(maps, 0, "layer")
    tiles = [pictures.apply_colormap(one, ends, "signed", "light") for one in maps[:MAX_MAPS]]
    columns = pictures.mosaic_columns(len(tiles))
    side = (size - columns + 1) // columns
    scaled = [np.asarray(_scale_image(one, side, side)) for one in tiles]
    return pictures.draw_mosaic(scaled, columns, GRID_COLOR)


def _draw_curves(channels: pictures.Floats, size: int) -> Image.Image:
    """Draw channels as curves in one range; up to MAX_CURVES in a column, more as a mosaic."""
    if len(channels) <= MAX_CURVES:
        shown, columns = channels, 1
        side = (size, min(size // 2, (size - len(channels) + 1) // len(channels)))
    else:
        shown = channels[:MAX_MAPS]
        columns = max(1, int(np.ceil(np.sqrt(len(shown) / 2))))
        width = (size - columns + 1) // columns
        side = (width, max(4, width // 2))
    low, span = pictures.halve_range(pictures.color_limits(channels, 0, "layer"), zero=True)
    return pictures.draw_mosaic(
        [pictures.draw_curve(one, low, span, side) for one in shown], columns, GRID_COLOR
    )


def _scale_image(pixels: Pixels, width: int, height: int) -> Image.Image:
    """Scale to the largest size that fits: by a whole number, or down by averaging."""
    image = Image.fromarray(pixels)
    scale = min(width / image.width, height / image.height)
    scale = int(scale) if scale >= 1 else scale
    box = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return image.resize(box, Image.Resampling.NEAREST if scale >= 1 else Image.Resampling.BOX)
