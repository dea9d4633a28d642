"""Small picture files of every kind used in notebooks, with their expected pixels."""

import io
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from PIL import Image, ImageCms, PngImagePlugin

WIDTH, HEIGHT = 12, 8
EXIF_ORIENTATION_TAG = 0x0112
FILE_TYPES = {
    "png": "image/png", "jpg": "image/jpeg", "gif": "image/gif", "webp": "image/webp",
    "bmp": "image/bmp", "tif": "image/tiff",
}  # fmt: skip
# Primaries of Display P3, adapted to the white point of ICC profiles (D50).
P3_PRIMARIES = (
    (0.51512, 0.2412, -0.00105),
    (0.29198, 0.69225, 0.04189),
    (0.1571, 0.06657, 0.78407),
)
D50_WHITE_POINT = (0.9642, 1.0, 0.8249)


def random_pixels(channels: int, seed: int = 1) -> np.ndarray:
    """Random pixels, which every rotation or mirroring changes."""
    return np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH, channels), np.uint8)


def smooth_image(mode: str = "RGB") -> Image.Image:
    """A smooth image, for lossy files such as JPEG."""
    small = Image.fromarray(np.random.default_rng(2).integers(0, 256, (2, 3, 4), np.uint8), "RGBA")
    return small.convert("RGB").resize((48, 32), Image.Resampling.BICUBIC).convert(mode)


XyzTriple = tuple[float, float, float]


def display_p3() -> bytes:
    """An ICC profile of Display P3: its primaries, and sRGB's curve as a table."""
    table = np.rint(srgb_to_linear(np.linspace(0, 1, 1024)) * 65535).astype(">u2")
    return icc_profile(
        P3_PRIMARIES, b"curv" + bytes(4) + struct.pack(">I", len(table)) + table.tobytes()
    )


def gamma_profile(gamma: float, primaries: tuple[XyzTriple, ...] = ()) -> bytes:
    """An ICC profile with a power curve, grey or colour."""
    return icc_profile(primaries, b"curv" + bytes(4) + struct.pack(">IHxx", 1, round(gamma * 256)))


def icc_profile(primaries: tuple[XyzTriple, ...], curve: bytes) -> bytes:
    """An ICC profile with one curve for all channels; grey if there are no primaries."""
    tags = {
        b"wtpt": _xyz_tag(D50_WHITE_POINT),
        b"desc": _description_tag("a test"),
        b"cprt": b"text" + bytes(5),
    }
    for letter, primary in zip(b"rgb", primaries, strict=False):
        tags[bytes([letter]) + b"XYZ"] = _xyz_tag(primary)
        tags[bytes([letter]) + b"TRC"] = curve
    if not primaries:
        tags[b"kTRC"] = curve
    index, body = struct.pack(">I", len(tags)), b""
    for name, data in tags.items():
        index += name + struct.pack(">II", 132 + 12 * len(tags) + len(body), len(data))
        body += data + bytes(-len(data) % 4)
    header = struct.pack(
        ">I4sI4s4s4s12x4s28x3i48x", 128 + len(index) + len(body), b"", 0x02400000, b"mntr",
        b"RGB " if primaries else b"GRAY", b"XYZ ", b"acsp", *_fixed_point(D50_WHITE_POINT),
    )  # fmt: skip
    return header + index + body


def _fixed_point(numbers: tuple[float, ...]) -> list[int]:
    return [round(number * 65536) for number in numbers]


def _xyz_tag(numbers: tuple[float, ...]) -> bytes:
    return b"XYZ " + bytes(4) + struct.pack(">3i", *_fixed_point(numbers))


def _description_tag(text: str) -> bytes:
    return b"desc" + bytes(4) + struct.pack(">I", len(text) + 1) + text.encode() + bytes(79)


def encode_16_bit_png(samples: np.ndarray, kind: int) -> bytes:
    """A 16-bit PNG from (height, width, channels); Pillow can write only grey ones."""
    height, width, _ = samples.shape
    rows = samples.astype(">u2").reshape(height, -1)
    raw = b"".join(b"\0" + row.tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(raw)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def encode_image(image: Image.Image, kind: str, **more: Any) -> bytes:
    """Encode an image as the bytes of a file."""
    file = io.BytesIO()
    image.save(file, kind, **more)
    return file.getvalue()


def orientation_exif(orientation: int) -> Image.Exif:
    """EXIF data with this camera orientation."""
    exif = Image.Exif()
    exif[EXIF_ORIENTATION_TAG] = orientation
    return exif


@dataclass(frozen=True)
class PictureFile:
    """A file and its expected pixels: (3, height, width) from 0 to 1.

    Decoders other than Pillow may differ by `tolerance_steps` of 255. Browsers can read the file
    unless `is_tiff`.
    """

    content: bytes
    expected: np.ndarray
    tolerance_steps: float = 0
    page_tolerance: float = 0

    @property
    def is_tiff(self) -> bool:
        return self.content[:2] in (b"II", b"MM")


def input_pixels(array: np.ndarray) -> np.ndarray:
    """8-bit pixels, (height, width) or (height, width, 3), as the expected network input."""
    rgb = np.repeat(array[..., None], 3, 2) if array.ndim == 2 else array
    return (rgb.astype(np.float32) / np.float32(255)).transpose(2, 0, 1)


def composite_on_black(array: np.ndarray) -> np.ndarray:
    """Pixels (height, width, 4), multiplied by alpha and rounded, as the expected input."""
    whole = array.astype(int)
    return input_pixels((whole[..., :3] * whole[..., 3:] + 127) // 255)


def grey16_pixels(array: np.ndarray) -> np.ndarray:
    grey = array.astype(np.float32) / np.float32(65535)
    return np.stack([grey] * 3)


# The displayed orientation of the pixels, by the number in EXIF data.
ORIENTATION_TRANSFORMS: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: np.rot90(a),
}
# The primaries of sRGB, adapted to D50 like those of P3.
SRGB_PRIMARIES = (
    (0.43607, 0.22249, 0.01392),
    (0.38515, 0.71687, 0.09708),
    (0.14307, 0.06061, 0.71410),
)


def srgb_to_linear(levels: np.ndarray) -> np.ndarray:
    return np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)


def linear_to_srgb(light: np.ndarray) -> np.ndarray:
    """Convert linear light from 0 to 1 to sRGB bytes."""
    bent = np.where(light <= 0.0031308, light * 12.92, 1.055 * light ** (1 / 2.4) - 0.055)
    return np.rint(255 * bent).astype(np.uint8)


def p3_to_srgb(array: np.ndarray) -> np.ndarray:
    """Convert Display P3 pixels to sRGB by the formulas."""
    return linear_to_srgb(
        np.clip(
            srgb_to_linear(array / 255) @ np.array(P3_PRIMARIES) @ np.linalg.inv(SRGB_PRIMARIES),
            0,
            1,
        )
    )


def read_with_pillow(content: bytes, mode: str = "RGB") -> np.ndarray:
    """Decode with Pillow a file that Pillow has written, without any correction."""
    with Image.open(io.BytesIO(content)) as image:
        return np.asarray(image.convert(mode))


@cache
def picture_files() -> dict[str, PictureFile]:
    """All picture files by a descriptive name."""
    rgb, rgba, grey = random_pixels(3), random_pixels(4), random_pixels(1)[..., 0]
    found = {
        **_png_files(rgb, rgba, grey),
        **_animated_files(rgb, rgba),
        **_jpeg_files(),
        **_tiff_files(rgb, rgba),
        "rgb.bmp": PictureFile(encode_image(Image.fromarray(rgb), "bmp"), input_pixels(rgb)),
    }
    return found


def _png_files(rgb: np.ndarray, rgba: np.ndarray, grey: np.ndarray) -> dict[str, PictureFile]:
    colour, shade = Image.fromarray(rgb), Image.fromarray(grey)
    clear = Image.fromarray(rgba, "RGBA")
    palette = colour.quantize(16)
    indices, palette_rgb = np.asarray(palette), np.asarray(palette.convert("RGB"))
    alphas = np.array([0, 60, 128, 200, *[255] * 252], np.uint8)
    wide = np.random.default_rng(3).integers(0, 65536, (HEIGHT, WIDTH, 4))
    high = (wide >> 8).astype(np.uint8)  # the part of 16-bit colours that Pillow and browsers keep
    deep = Image.fromarray(wide[..., 0].astype(np.uint16))
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    p3 = {"icc_profile": display_p3()}
    half = np.where((rgb == rgb[0, 0]).all(-1), 0, 255).astype(np.uint8)[..., None]
    dark = np.where(grey == grey[0, 0], 0, 255).astype(np.uint8)[..., None]
    gamma = PngImagePlugin.PngInfo()
    gamma.add(b"gAMA", struct.pack(">I", 45455))
    whites = (31270, 32900, 64000, 33000, 30000, 60000, 15000, 6000)
    gamma.add(b"cHRM", struct.pack(">8I", *whites))
    one_bit = shade.convert("1")
    single = np.where(indices == 3, 0, 255).astype(np.uint8)[..., None]
    la = Image.merge("LA", (shade, clear.getchannel("A")))
    la_pixels = np.concatenate([np.repeat(grey[..., None], 3, 2), rgba[..., 3:]], 2)

    def file(image: Image.Image, wanted: np.ndarray, steps: float = 0, **more: Any) -> PictureFile:
        return PictureFile(encode_image(image, "png", **more), wanted, steps, 2 * steps)

    return {
        "rgb.png": file(colour, input_pixels(rgb)),
        "grey.png": file(shade, input_pixels(grey)),
        "one bit.png": file(one_bit, input_pixels(np.asarray(one_bit) * np.uint8(255))),
        "grey and alpha.png": file(la, composite_on_black(la_pixels)),
        "rgba.png": file(clear, composite_on_black(rgba)),
        "palette.png": file(palette, input_pixels(palette_rgb)),
        "palette with alphas.png": file(
            palette,
            composite_on_black(np.concatenate([palette_rgb, alphas[indices][..., None]], 2)),
            transparency=alphas[:5].tobytes(),
        ),
        "palette with one transparent.png": file(
            palette, composite_on_black(np.concatenate([palette_rgb, single], 2)), transparency=3
        ),
        "rgb with tRNS.png": file(
            colour,
            composite_on_black(np.concatenate([rgb, half], 2)),
            transparency=tuple(map(int, rgb[0, 0])),
        ),
        "grey with tRNS.png": file(
            shade,
            composite_on_black(np.concatenate([np.repeat(grey[..., None], 3, 2), dark], 2)),
            transparency=int(grey[0, 0]),
        ),
        "16 bits grey.png": PictureFile(
            encode_image(deep, "png"), grey16_pixels(wide[..., 0]), 0, 2
        ),
        "16 bits rgb.png": PictureFile(
            encode_16_bit_png(wide[..., :3], 2), input_pixels(high[..., :3])
        ),
        "16 bits rgba.png": PictureFile(encode_16_bit_png(wide, 6), composite_on_black(high)),
        "turned.png": file(
            colour, input_pixels(ORIENTATION_TRANSFORMS[6](rgb)), exif=orientation_exif(6)
        ),
        "turned rgba.png": file(
            clear, composite_on_black(ORIENTATION_TRANSFORMS[7](rgba)), exif=orientation_exif(7)
        ),
        "srgb.png": file(colour, input_pixels(rgb), icc_profile=srgb),
        "p3.png": file(colour, input_pixels(p3_to_srgb(rgb)), 1, **p3),
        "p3 rgba.png": file(
            clear,
            composite_on_black(np.concatenate([p3_to_srgb(rgba[..., :3]), rgba[..., 3:]], 2)),
            1,
            **p3,
        ),
        "p3 palette.png": file(palette, input_pixels(p3_to_srgb(palette_rgb)), 1, **p3),
        "p3 grey.png": file(shade, input_pixels(grey), 1, **p3),
        "grey of gamma 1.8.png": file(
            shade,
            input_pixels(linear_to_srgb((grey / 255) ** 1.8)),
            1,
            icc_profile=gamma_profile(1.8),
        ),
        "grey by a profile of colours.png": file(
            shade,
            input_pixels(linear_to_srgb((grey / 255) ** 1.8)),
            1,
            icc_profile=gamma_profile(1.8, SRGB_PRIMARIES),
        ),
        "colours by a profile of greys.png": file(
            colour, input_pixels(rgb), icc_profile=gamma_profile(1.8)
        ),
        "p3 turned.png": file(
            colour,
            input_pixels(ORIENTATION_TRANSFORMS[5](p3_to_srgb(rgb))),
            1,
            exif=orientation_exif(5),
            **p3,
        ),
        "damaged profile.png": file(colour, input_pixels(rgb), icc_profile=b"no profile" * 20),
        "gamma and primaries.png": file(colour, input_pixels(rgb), pnginfo=gamma),
    }


def _animated_files(rgb: np.ndarray, rgba: np.ndarray) -> dict[str, PictureFile]:
    """Animated files; the expected pixels are those of the first frame."""
    colour, clear = Image.fromarray(rgb), Image.fromarray(rgba, "RGBA")
    palette = colour.quantize(16)
    palette_rgb = np.asarray(palette.convert("RGB"))
    alpha = np.where(np.asarray(palette) == 2, 0, 255).astype(np.uint8)[..., None]
    others = [Image.fromarray(random_pixels(3, seed)) for seed in (5, 6)]
    frames = {"save_all": True, "append_images": others, "duration": 100}
    lossless = {"lossless": True, "exact": True}
    gif = encode_image(colour, "gif", **frames)
    webp = {
        "lossless.webp": (colour, input_pixels(rgb), {}),
        "rgba.webp": (clear, composite_on_black(rgba), {}),
        "animated.webp": (colour, input_pixels(rgb), frames),
        **{
            f"turned {k}.webp": (
                colour,
                input_pixels(ORIENTATION_TRANSFORMS[k](rgb)),
                {"exif": orientation_exif(k)},
            )
            for k in range(2, 9)
        },
    }
    return {
        "still.gif": PictureFile(encode_image(palette, "gif"), input_pixels(palette_rgb)),
        "transparent.gif": PictureFile(
            encode_image(palette, "gif", transparency=2),
            composite_on_black(np.concatenate([palette_rgb, alpha], 2))
        ),
        "animated.gif": PictureFile(gif, input_pixels(read_with_pillow(gif))),
        "animated.png": PictureFile(encode_image(colour, "png", **frames), input_pixels(rgb)),
        **{
            name: PictureFile(encode_image(image, "webp", **more, **lossless), wanted)
            for name, (image, wanted, more) in webp.items()
        },
        "p3.webp": PictureFile(
            encode_image(colour, "webp", icc_profile=display_p3(), **lossless),
            input_pixels(p3_to_srgb(rgb)), 1, 2,
        ),
    }  # fmt: skip


def _jpeg_files() -> dict[str, PictureFile]:
    """JPEG files; decoders round differently, by a step or two."""

    def file(mode: str = "RGB", **more: Any) -> bytes:
        return encode_image(smooth_image(mode), "jpeg", quality=95, subsampling=0, **more)

    seen = read_with_pillow(file())
    cmyk = file("CMYK")
    inks = 255 - read_with_pillow(cmyk, "CMYK").astype(int)
    mixed = np.rint(inks[..., :3] * inks[..., 3:] / 255).astype(np.uint8)
    return {
        "rgb.jpg": PictureFile(file(), input_pixels(seen), 0, 2),
        "grey.jpg": PictureFile(file("L"), input_pixels(read_with_pillow(file("L"), "L")), 0, 2),
        "cmyk.jpg": PictureFile(cmyk, input_pixels(mixed), 1, 2),
        "progressive.jpg": PictureFile(file(progressive=True), input_pixels(seen), 0, 2),
        "p3.jpg": PictureFile(file(icc_profile=display_p3()), input_pixels(p3_to_srgb(seen)), 2, 3),
        **{
            f"turned {k}.jpg": PictureFile(
                file(exif=orientation_exif(k)), input_pixels(ORIENTATION_TRANSFORMS[k](seen)), 0, 2
            )
            for k in range(2, 9)
        },
    }


def _tiff_files(rgb: np.ndarray, rgba: np.ndarray) -> dict[str, PictureFile]:
    wide = np.random.default_rng(3).integers(0, 65536, (HEIGHT, WIDTH))
    floats = np.random.default_rng(4).random((HEIGHT, WIDTH), np.float32)
    big = Image.frombytes("I;16B", (WIDTH, HEIGHT), wide.astype(">u2").tobytes())
    return {
        "rgb.tif": PictureFile(encode_image(Image.fromarray(rgb), "tiff"), input_pixels(rgb)),
        "turned.tif": PictureFile(
            encode_image(Image.fromarray(rgb), "tiff", exif=orientation_exif(6)),
            input_pixels(ORIENTATION_TRANSFORMS[6](rgb)),
        ),
        "rgba.tif": PictureFile(
            encode_image(Image.fromarray(rgba, "RGBA"), "tiff"), composite_on_black(rgba)
        ),
        "16 bits.tif": PictureFile(
            encode_image(Image.fromarray(wide.astype(np.uint16)), "tiff"), grey16_pixels(wide)
        ),
        "16 bits big-endian.tif": PictureFile(encode_image(big, "tiff"), grey16_pixels(wide)),
        "floats.tif": PictureFile(
            encode_image(Image.fromarray(floats), "tiff"), np.stack([floats] * 3)
        ),
    }
