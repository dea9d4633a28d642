"""Which inputs take pictures, and how channels, height and width lie in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nbglcnn.plan.constraints import PictureLayout as PictureLayout
from nbglcnn.plan.constraints import infer_picture_layout

# What is said of them where an input takes none.
PICTURE_INPUTS = "float32 of (n, 1, 3 or 4, height, width), or uint8, channels first or last"


def picture_layout(shape: Sequence[int | None] | None, dtype: Any) -> PictureLayout | None:
    """The layout of an input that takes pictures; None for one that takes none.

    float32 inputs have numbers from 0 to 1 and their channels first; those of uint8 have numbers
    from 0 to 255, and their channels first or last. A side that is not known is None.
    """
    return None if shape is None else infer_picture_layout(shape, np.dtype(dtype).name)


def channels_and_size(shape: Sequence[Any], layout: PictureLayout) -> tuple[Any, Any, Any]:
    """Channels, height and width of an input's shape, with or without the axis of examples."""
    first, second, third = shape[-3:]
    return (third, first, second) if layout == "NHWC" else (first, second, third)


def to_layout(pixels: npt.NDArray[Any], layout: PictureLayout) -> npt.NDArray[Any]:
    """Pixels (channels, height, width) in an input's own order of axes."""
    return np.ascontiguousarray(pixels.transpose(1, 2, 0) if layout == "NHWC" else pixels)
