"""Picture files of every kind that a notebook meets, small, and what each of them is."""

import io
import struct
import zlib
from functools import cache
from typing import Any

import numpy as np
from PIL import Image, ImageCms, PngImagePlugin

WIDTH, HEIGHT = 12, 8
ORIENTATION = 0x0112
MIME = {
    "png": "image/png", "jpg": "image/jpeg", "gif": "image/gif", "webp": "image/webp",
    "bmp": "image/bmp", "tif": "image/tiff",
}  # fmt: skip
# Primaries of Display P3, adapted to the white of profiles (D50).
P3 = ((0.51512, 0.2412, -0.00105), (0.29198, 0.69225, 0.04189), (0.1571, 0.06657, 0.78407))
D50 = (0.9642, 1.0, 0.8249)


def pixels(channels: int, seed: int = 1) -> np.ndarray:
    """Rough pixels that no turn and no mirror leaves as they are."""
    return np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH, channels), np.uint8)


def smooth(mode: str = "RGB") -> Image.Image:
    """For files that lose a little: JPEG."""
    small = Image.fromarray(np.random.default_rng(2).integers(0, 256, (2, 3, 4), np.uint8), "RGBA")
    return small.convert("RGB").resize((48, 32), Image.Resampling.BICUBIC).convert(mode)


def display_p3() -> bytes:
    """An ICC profile of Display P3: three primaries, and sRGB's curve as a table."""
    levels = np.linspace(0, 1, 1024)
    linear = np.where(levels <= 0.04045, levels / 12.92, ((levels + 0.055) / 1.055) ** 2.4)
    table = np.rint(linear * 65535).astype(">u2").tobytes()
    curve = b"curv" + bytes(4) + struct.pack(">I", len(levels)) + table
    tags = {b"wtpt": _xyz(D50), b"desc": _described("Display P3"), b"cprt": b"text" + bytes(5)}
    for letter, primary in zip(b"rgb", P3, strict=True):
        tags[bytes([letter]) + b"XYZ"] = _xyz(primary)
        tags[bytes([letter]) + b"TRC"] = curve
    index, body = struct.pack(">I", len(tags)), b""
    for name, data in tags.items():
        index += name + struct.pack(">II", 132 + 12 * len(tags) + len(body), len(data))
        body += data + bytes(-len(data) % 4)
    header = struct.pack(
        ">I4sI4s4s4s12x4s28x3i48x", 128 + len(index) + len(body), b"", 0x02400000, b"mntr",
        b"RGB ", b"XYZ ", b"acsp", *_fixed(D50),
    )  # fmt: skip
    return header + index + body


def _fixed(numbers: tuple[float, ...]) -> list[int]:
    return [round(number * 65536) for number in numbers]


def _xyz(numbers: tuple[float, ...]) -> bytes:
    return b"XYZ " + bytes(4) + struct.pack(">3i", *_fixed(numbers))


def _described(text: str) -> bytes:
    return b"desc" + bytes(4) + struct.pack(">I", len(text) + 1) + text.encode() + bytes(79)


def deep_png(samples: np.ndarray, kind: int) -> bytes:
    """A PNG of 16 bits a sample, (height, width, channels); Pillow writes grey ones alone."""
    height, width, _ = samples.shape
    rows = samples.astype(">u2").reshape(height, -1)
    raw = b"".join(b"\0" + row.tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", width, height, 16, kind, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(raw)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def saved(image: Image.Image, kind: str, **more: Any) -> bytes:
    """The bytes of a file."""
    file = io.BytesIO()
    image.save(file, kind, **more)
    return file.getvalue()


def turned(orientation: int) -> Image.Exif:
    """EXIF data of a camera that was held so."""
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return exif


@cache
def files() -> dict[str, bytes]:
    """By name; what stands before the dot says what it is."""
    rgb, rgba = Image.fromarray(pixels(3)), Image.fromarray(pixels(4), "RGBA")
    grey = Image.fromarray(pixels(1)[..., 0])
    la = Image.merge("LA", (grey, rgba.getchannel("A")))
    palette = rgb.quantize(16)
    wide = np.random.default_rng(3).integers(0, 65536, (HEIGHT, WIDTH, 4))
    deep = Image.fromarray(wide[..., 0].astype(np.uint16))
    lossless = {"lossless": True, "exact": True}
    jpeg = {"quality": 95, "subsampling": 0}
    others = [Image.fromarray(pixels(3, seed)) for seed in (5, 6)]
    frames = {"save_all": True, "append_images": others, "duration": 100}
    # Pillow turns a palette's first colour transparent by number, PNG many by their alpha.
    alphas = bytes([0, 60, 128, 200, 255])
    first = tuple(int(one) for one in pixels(3)[0, 0])
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    gamma = PngImagePlugin.PngInfo()
    gamma.add(b"gAMA", struct.pack(">I", 45455))
    found = {
        "rgb.png": saved(rgb, "png"),
        "grey.png": saved(grey, "png"),
        "one bit.png": saved(grey.convert("1"), "png"),
        "grey and alpha.png": saved(la, "png"),
        "rgba.png": saved(rgba, "png"),
        "palette.png": saved(palette, "png"),
        "palette of 2 bits.png": saved(rgb.quantize(4), "png", bits=2),
        "palette with alphas.png": saved(palette, "png", transparency=alphas),
        "palette with one transparent.png": saved(palette, "png", transparency=3),
        "rgb with tRNS.png": saved(rgb, "png", transparency=first),
        "grey with tRNS.png": saved(grey, "png", transparency=int(pixels(1)[0, 0, 0])),
        "16 bits grey.png": saved(deep, "png"),
        "16 bits rgb.png": deep_png(wide[..., :3], 2),
        "16 bits rgba.png": deep_png(wide, 6),
        "turned.png": saved(rgb, "png", exif=turned(6)),
        "turned rgba.png": saved(rgba, "png", exif=turned(7)),
        "srgb.png": saved(rgb, "png", icc_profile=srgb),
        "p3.png": saved(rgb, "png", icc_profile=display_p3()),
        "p3 rgba.png": saved(rgba, "png", icc_profile=display_p3()),
        "p3 palette.png": saved(palette, "png", icc_profile=display_p3()),
        "p3 grey.png": saved(grey, "png", icc_profile=display_p3()),
        "damaged profile.png": saved(rgb, "png", icc_profile=b"no profile" * 20),
        "gamma.png": saved(rgb, "png", pnginfo=gamma),
        "still.gif": saved(palette, "gif"),
        "transparent.gif": saved(palette, "gif", transparency=2),
        "animated.gif": saved(rgb, "gif", **frames),
        "animated.png": saved(rgb, "png", **frames),
        "lossless.webp": saved(rgb, "webp", **lossless),
        "rgba.webp": saved(rgba, "webp", **lossless),
        "turned.webp": saved(rgb, "webp", exif=turned(8), **lossless),
        "p3.webp": saved(rgb, "webp", icc_profile=display_p3(), **lossless),
        "animated.webp": saved(rgb, "webp", **frames, **lossless),
        "rgb.bmp": saved(rgb, "bmp"),
        "palette.bmp": saved(palette, "bmp"),
        "rgb.jpg": saved(smooth(), "jpeg", **jpeg),
        "grey.jpg": saved(smooth("L"), "jpeg", **jpeg),
        "cmyk.jpg": saved(smooth("CMYK"), "jpeg", **jpeg),
        "progressive.jpg": saved(smooth(), "jpeg", progressive=True, **jpeg),
        "p3.jpg": saved(smooth(), "jpeg", icc_profile=display_p3(), **jpeg),
        **{f"turned {k}.jpg": saved(smooth(), "jpeg", exif=turned(k), **jpeg) for k in range(2, 9)},
        "rgb.tif": saved(rgb, "tiff"),
        "turned.tif": saved(rgb, "tiff", exif=turned(6)),
        "rgba.tif": saved(rgba, "tiff"),
        "16 bits.tif": saved(deep, "tiff"),
        "16 bits big-endian.tif": saved(
            Image.frombytes("I;16B", deep.size, wide[..., 0].astype(">u2").tobytes()), "tiff"
        ),
        "floats.tif": saved(
            Image.fromarray(np.random.default_rng(4).random((HEIGHT, WIDTH), np.float32)), "tiff"
        ),
    }
    return found
