"""Reference inputs for each source, computed with Pillow, NumPy and Python integers."""

import base64
import io

import numpy as np
from PIL import Image


def decode_data_url(url: str) -> Image.Image:
    """Decode a page's picture from its data: URL."""
    data = base64.b64decode(url.partition(",")[2])
    assert data, "there is no picture yet"
    return Image.open(io.BytesIO(data))


def fit_with_pillow(picture: Image.Image, shape: tuple[int, ...], mirrored: bool) -> np.ndarray:
    """Crop the picture's centre, resize it with Pillow, and return grey numbers."""
    *_, height, width = shape
    if mirrored:
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    scale = min(picture.width / width, picture.height / height)
    across, down = width * scale, height * scale
    left, top = (picture.width - across) / 2, (picture.height - down) / 2
    box = (left, top, left + across, top + down)
    grey = picture.convert("RGB").resize((width, height), Image.Resampling.BILINEAR, box=box)
    return np.asarray(grey.convert("L"), np.float32) / 255


def average_drawing_cells(canvas: Image.Image, shape: tuple[int, ...]) -> np.ndarray:
    """The squares of a drawing, each the mean of its pixels: (channels, height, width)."""
    *_, channels, height, width = shape
    pixels = np.asarray(canvas.convert("RGB"), np.float64)[:, :, :channels] / 255
    times = len(pixels) // height
    squares = pixels.reshape(height, times, width, times, channels)
    return squares.mean((1, 3)).transpose(2, 0, 1).astype(np.float32)


def reference_noise(count: int, seed: int, mean: float, std: float) -> np.ndarray:
    """The formula of the noise source in Python's own integers and doubles."""

    def scrambled(v: int) -> int:
        state = (v * 747796405 + 2891336453) % 2**32
        word = ((state >> ((state >> 28) + 4)) ^ state) * 277803737 % 2**32
        return (word >> 22) ^ word

    found = []
    for index in range(count):
        state, total = scrambled(index ^ scrambled(seed)), 0.0
        for _ in range(12):
            total += ((state >> 9) + 0.5) / 2**23
            state = scrambled(state)
        found.append(mean + std * (total - 6))
    return np.array(found).astype(np.float32)
