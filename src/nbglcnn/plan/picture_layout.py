"""Inputs that take pictures, and their axis order of channels, height and width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nbglcnn.plan.constraints import PictureLayout as PictureLayout
from nbglcnn.plan.constraints import infer_picture_layout

# The description of picture inputs, in messages about inputs that take none.
PICTURE_INPUTS_TEXT = "float32 of (n, 1, 3 or 4, height, width), or uint8, channels first or last"


def picture_layout(shape: Sequence[int | None] | None, dtype: Any) -> PictureLayout | None:
    """The layout of an input that takes pictures; None for any other input.

    float32 inputs have values from 0 to 1, channels first. uint8 inputs have values from 0 to 255,
    channels first or last. A size of None is unknown.
    """
    return None if shape is None else infer_picture_layout(shape, np.dtype(dtype).name)


def channels_and_size(shape: Sequence[Any], layout: PictureLayout) -> tuple[Any, Any, Any]:
    """The channels, height and width in an input's shape, with or without the batch axis."""
    first, second, third = shape[-3:]
    return (third, first, second) if layout == "NHWC" else (first, second, third)


def to_layout(pixels: npt.NDArray[Any], layout: PictureLayout) -> npt.NDArray[Any]:
    """Transpose pixels (channels, height, width) to an input's axis order."""
    return np.ascontiguousarray(pixels.transpose(1, 2, 0) if layout == "NHWC" else pixels)
