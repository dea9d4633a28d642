"""Pictures that are fed to a page's session, and the input that Pillow computes from them."""

import base64
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from PIL import Image, ImageOps

from layout_plans import layout_plan
from nbglcnn import Plan
from nbglcnn.plan.layout import Layout
from nbglcnn.plan.schema import Fit
from webgl_page import GlPage

PILLOW_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
BILINEAR = Image.Resampling.BILINEAR
RANDOM = np.random.default_rng(21)

# Creates pictures of each kind from RGBA pixels; unreadable (tainted) canvases are made separately.
PICTURE_SCRIPT = """
window.fed = {
  pixels(text, width, height) {
    const bytes = Uint8ClampedArray.from(atob(text), (c) => c.charCodeAt(0));
    return new ImageData(bytes, width, height);
  },
  kinds: {
    data: (data) => data,
    canvas(data) {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [data.width, data.height];
      canvas.getContext("2d").putImageData(data, 0, 0);
      return canvas;
    },
    offscreen(data) {
      const canvas = new OffscreenCanvas(data.width, data.height);
      canvas.getContext("2d").putImageData(data, 0, 0);
      return canvas;
    },
    bitmap: (data) => createImageBitmap(data),
    bare: (data) => createImageBitmap(data, { premultiplyAlpha: "none" }),
    async image(data) {
      const blob = await new Promise((take) => fed.kinds.canvas(data).toBlob(take));
      const image = new Image();
      image.src = URL.createObjectURL(blob);
      await image.decode();
      return image;
    },
    async frame(data) {
      return new VideoFrame(fed.kinds.canvas(data), { timestamp: 0 });
    },
  },
  async give(session, key, kind, mirrored, ...pixels) {
    const picture = await fed.kinds[kind](fed.pixels(...pixels));
    gl.the(session).feed(key, picture, mirrored);
    await gl.the(session).run();
    picture.close?.();
  },
};
"""


def make_random_picture(width: int, height: int, alpha: bool = False) -> Image.Image:
    """A random picture, smooth at large scale and rough at small; opaque unless `alpha`."""
    small = Image.fromarray(RANDOM.integers(0, 256, (5, 7, 4), np.uint8), "RGBA")
    pixels = np.asarray(small.resize((width, height), Image.Resampling.BICUBIC)).astype(int)
    pixels = np.clip(pixels + RANDOM.integers(-40, 41, pixels.shape), 0, 255).astype(np.uint8)
    if alpha:
        pixels[RANDOM.random(pixels.shape[:2]) < 0.2, 3] = 0
        pixels[RANDOM.random(pixels.shape[:2]) < 0.2, 3] = 255
    else:
        pixels[..., 3] = 255
    return Image.fromarray(pixels, "RGBA")


def resize_with_pillow(
    picture: Image.Image,
    shape: Sequence[int],
    fit: Fit,
    crop_fraction: float = 1,
    mirrored: bool = False,
) -> np.ndarray:
    """The input's expected bytes, computed by Pillow alone."""
    n, c, h, w = shape
    if mirrored:
        picture = ImageOps.mirror(picture)
    if c < 4:
        black = Image.new("RGBA", picture.size, "black")
        picture = Image.alpha_composite(black, picture).convert("RGB")
    if fit == "crop":
        made = ImageOps.fit(picture, (w, h), BILINEAR, bleed=(1 - crop_fraction) / 2)
    elif fit == "letterbox":
        made = _letterbox(picture, (w, h))
    else:
        width, height = picture.size
        x, y = width * (1 - crop_fraction) / 2, height * (1 - crop_fraction) / 2
        made = picture.resize((w, h), BILINEAR, box=(x, y, width - x, height - y))
    pixels = np.asarray(made.convert(PILLOW_MODES[c])).reshape(h, w, c)
    return np.broadcast_to(pixels.transpose(2, 0, 1), (n, c, h, w))


def _letterbox(picture: Image.Image, size: tuple[int, int]) -> Image.Image:
    """Like `ImageOps.pad`, but a side that rounds to 0 pixels keeps one."""
    if 0 not in (contained := ImageOps.contain(picture, size)).size:
        return ImageOps.pad(picture, size, BILINEAR, color="black")
    width, height = (max(1, side) for side in contained.size)
    made = Image.new(picture.mode, size, "black")
    at = round((size[0] - width) / 2), round((size[1] - height) / 2)
    made.paste(picture.resize((width, height), BILINEAR), at)
    return made


def picture_plan(
    shape: tuple[int, int, int, int], fit: Fit = "crop", crop_fraction: float = 1
) -> Plan:
    """A Plan whose value "x" is its input "x", which accepts pictures."""
    plan = layout_plan(Layout(shape, (1, 2, 2)))
    [record] = plan.header.inputs
    record = msgspec.structs.replace(record, fit=fit, crop_fraction=crop_fraction)
    header = msgspec.structs.replace(plan.header, inputs=(record,))
    return Plan(header, plan.uniforms, plan.blobs)


def encode_picture(picture: Image.Image) -> list[Any]:
    return [base64.b64encode(picture.tobytes()).decode(), *picture.size]


def feed_picture(
    gl: GlPage,
    session: int,
    picture: Image.Image,
    kind: str = "data",
    mirrored: bool = False,
    key: str = "x",
) -> None:
    """Upload a picture and run; the picture is released afterwards."""
    gl.page.evaluate(PICTURE_SCRIPT)
    given = [session, key, kind, mirrored, *encode_picture(picture)]
    gl.page.evaluate("given => fed.give(...given)", given)


def assert_close_pixels(
    found: np.ndarray, expected: np.ndarray, min_equal_fraction: float = 0.99
) -> None:
    """Assert that elements differ by at most 1/255, and `min_equal_fraction` of them not at all."""
    wrong = np.abs(np.rint(found.astype(np.float64) * 255) - expected)
    assert wrong.max() <= 1
    assert (wrong == 0).mean() >= min_equal_fraction, f"{(wrong == 0).mean():.4f} are equal"
    np.testing.assert_allclose(found, expected / 255, atol=1.001 / 255)
