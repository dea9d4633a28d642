"""Decoding of pictures: from a Pillow image to an input's array, for all kinds of inputs."""

from __future__ import annotations

import io
import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from nbglcnn.errors import InputError
from nbglcnn.inputs.picture_fit import fit_picture

if TYPE_CHECKING:
    from PIL.Image import Image

Array = npt.NDArray[Any]
Dtype = Literal["uint8", "float32"]

PILLOW_MODES_BY_CHANNELS = {1: "L", 3: "RGB", 4: "RGBA"}
WHITE_16_BIT = 65535  # the white of 16-bit pictures
GREY_MODES = ("1", "L", "LA", "La")


def open_picture(path: str | os.PathLike[str]) -> Image:
    """Read and close a picture file, and return its first image; Pillow's errors propagate."""
    from PIL import Image

    with Image.open(path) as opened:
        opened.load()
        return opened


def is_high_depth(image: Image) -> bool:
    """Whether a picture is grey with more than 8 bits."""
    return image.mode == "F" or image.mode.startswith("I")


def is_grey(image: Image) -> bool:
    """Whether a picture is grey."""
    return image.mode in GREY_MODES or is_high_depth(image)


def picture_array(
    image: Image,
    channels: int,
    dtype: Dtype = "float32",
    size: tuple[int, int] | None = None,
    fit: str = "crop",
    crop_fraction: float = 1.0,
) -> Array:
    """Convert a picture to an array of shape (channels, height, width).

    Args:
        image: A Pillow image; for an animation the current frame.
        channels: 1, 3 or 4. The fourth channel is alpha.
        dtype: `"float32"` (default), from 0 to 1, or `"uint8"`, from 0 to 255.
        size: The height and width of the result. Default: those of the picture.
        fit: How a picture of another aspect ratio is fitted to `size`. Default: `"crop"`.
        crop_fraction: The share of each side that is kept. Default: 1.

    Returns:
        The array.

    Raises:
        InputError: If no rule can scale the picture's values.
    """
    image = decode_picture(image)
    if size is not None:
        image = fit_picture(image, size, fit, crop_fraction)
    if image.mode == "F":
        grey = np.array(image, np.float32)
        rows = [grey] * min(channels, 3)
        whole = np.stack([*rows, np.ones_like(grey)] if channels == 4 else rows)
        return whole if dtype == "float32" else _to_uint8(whole)
    if image.mode == "RGBa" and channels < 4:
        from PIL import Image as Pillow

        image = Pillow.merge("RGB", image.split()[:3])
    pixels = np.asarray(image.convert(PILLOW_MODES_BY_CHANNELS[channels]))
    pixels = pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)
    if dtype == "uint8":
        return np.ascontiguousarray(pixels)
    return np.ascontiguousarray(pixels, np.float32) / np.float32(255)


def decode_picture(image: Image) -> Image:
    """Decode a picture as a browser does, to a mode that can be resampled: L, RGB, RGBa or F.

    The picture is rotated by its EXIF orientation and converted to sRGB by its profile. RGBa
    colours are premultiplied by alpha, so they show the picture on black. Greys of more than 8 bits
    become F, with 1 as white.

    Raises:
        InputError: If no rule can scale the picture's values.
    """
    from PIL import ImageOps

    if image.mode in ("RGBa", "F") and "exif" not in image.info:
        return image
    image = ImageOps.exif_transpose(image) or image
    if is_high_depth(image):
        return _decode_high_depth(image)
    found = _to_srgb(image)
    found.info = {}
    return found


def _decode_high_depth(image: Image) -> Image:
    """Convert 16-bit, 32-bit or float greys to F; integers are divided by 65535."""
    from PIL import Image as Pillow

    numbers = np.array(image)
    if image.mode != "F":
        if numbers.size and not 0 <= int(numbers.min()) <= int(numbers.max()) <= WHITE_16_BIT:
            raise InputError(
                f"a picture of mode {image.mode} has values from {numbers.min()} to "
                f"{numbers.max()}; expected 0 (black) to {WHITE_16_BIT} (white). Give an array "
                "scaled to 0…1, numpy.asarray(image).astype('float32') / white"
            )
        transparent = numbers == image.info.get("transparency", -1)
        numbers = numbers.astype(np.float32) / np.float32(WHITE_16_BIT)
        numbers[transparent] = 0
    return Pillow.fromarray(numbers.astype(np.float32))


def _to_uint8(numbers: Array) -> Array:
    """Convert 0..1 to 8 bits; other values are clipped, NaN becomes 0."""
    return np.rint(255 * np.clip(np.nan_to_num(numbers.astype(np.float64)), 0, 1)).astype(np.uint8)


def _to_srgb(image: Image) -> Image:
    """Convert an 8-bit picture to L, RGB or RGBa in sRGB."""
    profile = image.info.get("icc_profile")
    if image.mode == "La":  # La converts only to LA
        image = image.convert("LA")
    if image.has_transparency_data:
        straight = image.convert("RGBA")
        alpha = straight.getchannel("A")
        grey = is_grey(image)
        base = straight.convert("RGB")
        base = _apply_profile(base.convert("L") if grey else base, profile).convert("RGB")
        base.putalpha(alpha)
        return base.convert("RGBa")
    if image.mode in GREY_MODES:
        return _apply_profile(image.convert("L"), profile)
    if image.mode != "CMYK":
        try:
            image = image.convert("RGB")
        except ValueError as error:
            raise InputError(
                f"a picture of mode {image.mode} can't be converted by Pillow ({error}); give it "
                "as RGB"
            ) from None
    return _apply_profile(image, profile).convert("RGB")


def _apply_profile(image: Image, profile: bytes | None) -> Image:
    """Convert L, RGB or CMYK to sRGB by an ICC profile; other colour spaces are ignored."""
    if not profile or (found := _profile_transform(profile, image.mode)) is None:
        return image
    from PIL import ImageCms

    mode, transform = found
    made = ImageCms.applyTransform(image.convert(mode), transform)
    assert made is not None
    return made.convert("L" if image.mode == "L" else "RGB")


@lru_cache(maxsize=16)
def _profile_transform(profile: bytes, mode: str) -> tuple[str, Any] | None:
    """Return the transform of an ICC profile to sRGB, and the mode that it reads.

    None if no conversion is needed: the profile is damaged, of another colour space, or sRGB
    itself.
    """
    from PIL import ImageCms

    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        own = {"RGB": "RGB", "GRAY": "L", "CMYK": "CMYK"}.get(source.profile.xcolor_space.strip())
        if own is None or (own != mode and (mode, own) != ("L", "RGB")):
            return None
        transform = ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), own, "RGB")
    except (ImageCms.PyCMSError, OSError):
        return None
    return None if own != "CMYK" and _is_identity(transform, own) else (own, transform)


def _is_identity(transform: Any, mode: str) -> bool:
    """Whether a transform changes colours by rounding only, as sRGB's own profiles do."""
    from PIL import Image as Pillow
    from PIL import ImageCms

    levels = np.arange(256, dtype=np.uint8)
    probe = Pillow.fromarray(levels[None])
    if mode == "RGB":
        some = levels[::17]
        cube = np.stack(np.meshgrid(some, some, some), -1)
        probe = Pillow.fromarray(cube.reshape(64, 64, 3))
    made = ImageCms.applyTransform(probe, transform)
    after, before = (np.asarray(one).astype(int) for one in (made, probe.convert("RGB")))
    return bool(np.abs(after - before).max() <= 1)
