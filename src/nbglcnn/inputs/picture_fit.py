"""Resizing a picture of any size to an input's size, resampled as in Pillow."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image


def crop_box(
    width: int, height: int, size: tuple[int, int], fit: str, crop_fraction: float
) -> tuple[float, float, float, float]:
    """The part of a picture kept for an input of (h, w): left, top, right, bottom in its pixels."""
    h, w = size
    across, down = float(width), float(height)
    if fit == "crop":
        across, down = min(across, height * w / h), min(down, width * h / w)
    if fit != "letterbox":
        across, down = across * crop_fraction, down * crop_fraction
    left, top = (width - across) / 2, (height - down) / 2
    return left, top, left + across, top + down


def placement_box(
    width: int, height: int, size: tuple[int, int], fit: str
) -> tuple[int, int, int, int]:
    """The area of an input (h, w) that the picture fills: left, top, width, height.

    Only a letterbox doesn't fill the input. Rounding is that of Pillow's `ImageOps.pad` and of
    pages; a side that rounds to 0 keeps one pixel.
    """
    h, w = size
    if fit != "letterbox":
        return 0, 0, w, h
    flat, wide = width / height, w / h
    across = max(1, round(width / height * h)) if flat < wide else w
    down = max(1, round(height / width * w)) if flat > wide else h
    return round((w - across) / 2), round((h - down) / 2), across, down


def fit_picture(image: Image, size: tuple[int, int], fit: str, crop_fraction: float = 1.0) -> Image:
    """Fit a picture (of mode L, RGB, RGBA, or F) to an input of (h, w).

    "crop" crops the centre, "letterbox" adds black bars, "stretch" distorts. "crop" and "stretch"
    keep `crop_fraction` of each side. Pillow resamples bilinearly with antialiasing.
    """
    from PIL import Image as Pillow

    width, height = image.size
    left, top, across, down = placement_box(width, height, size, fit)
    box = crop_box(width, height, size, fit, crop_fraction)
    if (across, down) == (width, height) and box == (0, 0, width, height):
        drawn = image
    else:
        # Horizontally first, as pages do: since version 13 Pillow starts with the cheaper axis,
        # which changes the rounding between both passes.
        bilinear = Pillow.Resampling.BILINEAR
        rows = image.resize((across, height), bilinear, (box[0], 0, box[2], height))
        drawn = rows.resize((across, down), bilinear, (0, box[1], across, box[3]))
    if (across, down) == size[::-1]:
        return drawn
    black = (0, 0, 0, 255) if image.mode == "RGBA" else 0
    whole = Pillow.new(image.mode, size[::-1], black)
    whole.paste(drawn, (left, top))
    return whole
