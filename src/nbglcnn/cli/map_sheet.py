"""A sheet of feature maps: one row for each example, with one picture for each layer."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

    from nbglcnn.graph import Array
    from nbglcnn.pictures.feature_maps import ColorRange
    from nbglcnn.plan.schema import Plan, Value

MAX_ROWS = 32
MAPS_WIDTH = 320  # pixels of a layer's maps side by side; smaller maps are enlarged
GAP, LINE_HEIGHT = 16, 18  # pixels between pictures, and of a line of text


def draw_sheet(
    plan: Plan, values: Mapping[str, Array], image_range: ColorRange | None = None
) -> bytes:
    """Draw these values as a PNG, for the first MAX_ROWS examples.

    `image_range` are the numbers shown as black and white in pictures. The heading has the count of
    numbers outside of the range.
    """
    from PIL import Image, ImageDraw, ImageFont

    known = {value.key: value for value in plan.values}
    shown = [
        _record_for_all_examples(known[key], array, plan.header.batch)
        for key, array in values.items()
    ]
    count = min(MAX_ROWS, max(value.nchw[0] for value in shown))
    rows = [
        [_draw_value(value, values[value.key], row, image_range) for value in shown]
        for row in range(count)
    ]
    font = ImageFont.load_default(12)
    pen = ImageDraw.Draw(Image.new("RGB", (1, 1)))
    # Pillow's default font has no ×.
    words = [
        f"{v.key}  {'x'.join(map(str, v.nchw[1:]))}{_format_clip_counts([row[k] for row in rows])}"
        for k, v in enumerate(shown)
    ]
    widths = [
        max(rows[0][k].width, int(pen.textlength(text, font))) for k, text in enumerate(words)
    ]
    height = max(picture.height for row in rows for picture in row) + LINE_HEIGHT + GAP
    size = (GAP + sum(width + GAP for width in widths), height * count)
    whole = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(whole)
    for number, row in enumerate(rows):
        left = GAP
        for picture, text, width in zip(row, words, widths, strict=True):
            pen.text((left, number * height), text, fill=(33, 33, 33), font=font)
            whole.paste(picture, (left, number * height + LINE_HEIGHT))
            left += width + GAP
    data = io.BytesIO()
    whole.save(data, "PNG", optimize=True)
    return data.getvalue()


def _record_for_all_examples(value: Value, array: Array, batch_size: int) -> Value:
    """Return the value's record for all examples, which may exceed the Plan's batch."""
    from msgspec.structs import replace

    from nbglcnn.runtime.batching import has_batch_axis

    if not has_batch_axis(value, batch_size):
        return value
    return replace(value, shape=array.shape, nchw=(len(array), *value.nchw[1:]))


def _format_clip_counts(pictures: Sequence[Image]) -> str:
    """Format how many numbers of the pictures the range clips."""
    counts = {word: sum(one.info.get(word, 0) for one in pictures) for word in ("above", "below")}
    found = [f"{count:,} {word}" for word, count in counts.items() if count]
    return "".join(f"  {text}" for text in found)


def _draw_value(value: Value, array: Array, example: int, image_range: ColorRange | None) -> Image:
    """Draw one example of a value; a value without an example axis is the same in each row."""
    from nbglcnn.pictures.feature_maps import display_style, draw_picture, mosaic_columns

    _, channels, _, width = value.nchw
    drawn = display_style(value)
    columns = mosaic_columns(channels) if drawn == "maps" else 1
    scale = (
        max(1, MAPS_WIDTH // (columns * width))
        if drawn in ("maps", "grey", "rgb", "classes")
        else 1
    )
    if drawn == "curves":
        columns = mosaic_columns(channels) if channels > 8 else 1
    example = min(example, value.nchw[0] - 1)
    own = image_range if drawn in ("grey", "rgb") else None
    return draw_picture(
        value, array, example=example, color_range=own, columns=columns, scale=scale
    )
