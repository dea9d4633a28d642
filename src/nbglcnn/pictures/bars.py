"""Pictures of values without a map: a vector's bars, a scalar's number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from nbglcnn.pictures.colors import BACKGROUND, NON_FINITE_COLOR, Theme
from nbglcnn.plan.layers import Bounds

TEXT_COLORS = {"light": (33, 33, 33), "dark": (232, 232, 232)}
SECONDARY_TEXT_COLORS = {"light": (97, 97, 97), "dark": (176, 177, 178)}
# As in the page's theme.css.
POSITIVE_BAR_COLORS = {"light": (0x2A, 0x6C, 0xB0), "dark": (0x4F, 0xA3, 0xEC)}
NEGATIVE_BAR_COLORS = {"light": (0xC0, 0x56, 0x0C), "dark": (0xF2, 0x95, 0x3A)}
AXIS_COLORS = {"light": (0x86, 0x8B, 0x90), "dark": (0x7D, 0x82, 0x8A)}
BAR_HEIGHT, LINE_HEIGHT = 12, 14  # pixels of a vector's bar, and of a line of text

UNIT_LIMITS: Bounds = (0.0, 1.0)  # the limits of a softmax's or sigmoid's output

Floats = npt.NDArray[np.float32]


def draw_number(value: float, width: int, theme: Theme = "light") -> Image.Image:
    """Draw a scalar as its number."""
    height = width // 3
    sheet = Image.new("RGB", (width, height), BACKGROUND[theme])
    letters = max(11, width // 7)
    font = ImageFont.load_default(letters)
    pen = ImageDraw.Draw(sheet)
    text = f"{value:.3g}"
    left = (width - pen.textlength(text, font)) / 2
    pen.text((left, height - 1.4 * letters), text, fill=TEXT_COLORS[theme], font=font)
    return sheet


def draw_bars(
    vector: Floats,
    width: int,
    theme: Theme = "light",
    *,
    indices: Sequence[int] | None = None,
    height: int | None = None,
    limits: Bounds = (None, None),
) -> Image.Image:
    """Draw a vector as bars to both sides of zero, with their indices.

    Draws all elements, or those in `indices`. If `height` is too small, it draws the elements with
    the largest absolute values. Shares, with `limits` of 0 and 1, extend to one side, and a share
    of 1 reaches the edge of the picture.
    """
    numbers = np.arange(len(vector)) if indices is None else np.asarray(indices)
    part = height is not None and len(numbers) * BAR_HEIGHT > height
    if part and height is not None:
        most = max(1, (height - LINE_HEIGHT) // BAR_HEIGHT)
        order = np.argsort(-np.abs(np.nan_to_num(vector[numbers])), kind="stable")[:most]
        shown = np.sort(numbers[order])
    else:
        shown = numbers
    ground = BACKGROUND[theme]
    sheet = Image.new(
        "RGB", (width, BAR_HEIGHT * len(shown) + (LINE_HEIGHT if part else 0)), ground
    )
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(10)
    left = pen.textlength(str(shown.max(initial=0)), font) + 6
    finite = np.abs(vector[np.isfinite(vector)])
    shares = limits == UNIT_LIMITS
    limit = 1.0 if shares else float(finite.max(initial=0))
    room = width - left if shares else (width - left) / 2
    zero = left if shares else left + room
    for k, element in enumerate(shown):
        top, value = k * BAR_HEIGHT, float(vector[element])
        label = str(element)
        at = (left - 5 - pen.textlength(label, font), top)
        pen.text(at, label, fill=SECONDARY_TEXT_COLORS[theme], font=font)
        if not np.isfinite(value):
            pen.rectangle((left, top + 1, width - 1, top + BAR_HEIGHT - 3), fill=NON_FINITE_COLOR)
            continue
        end = zero + (room - 1) * max(-1.0, min(1.0, value / (limit or 1.0)))
        ink = POSITIVE_BAR_COLORS[theme] if value >= 0 else NEGATIVE_BAR_COLORS[theme]
        if value:
            pen.rectangle((min(zero, end), top + 1, max(zero, end), top + BAR_HEIGHT - 3), fill=ink)
    pen.line((zero, 0, zero, BAR_HEIGHT * len(shown) - 1), fill=AXIS_COLORS[theme])
    if part:
        text = f"{len(shown)} of {len(numbers):,}"
        place = ((width - pen.textlength(text, font)) / 2, BAR_HEIGHT * len(shown) + 1)
        pen.text(place, text, fill=SECONDARY_TEXT_COLORS[theme], font=font)
    return sheet
