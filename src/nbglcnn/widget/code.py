"""The front-end's code: pages get it by content hash, like weights, and keep it."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from nbglcnn.plan.schema import content_hash

STATIC = Path(__file__).parent.parent / "static"
LOADER = STATIC / "loader.js"
WIDGET = STATIC / "widget.js"

if not (LOADER.exists() and WIDGET.exists()):
    raise ImportError(
        f"nbglcnn's front-end is missing ({STATIC}): install the package again; "
        "in a checkout, run `make setup`"
    )


def name_of(code: bytes) -> str:
    """32 hexadecimal digits: 24 of SHA-256, then the CRC-32, which pages over plain http check."""
    return f"{content_hash(code)[:24]}{zlib.crc32(code):08x}"


@cache
def names() -> dict[str, str]:
    """The code's name by encoding: "gzip", or "plain" for a page that cannot decompress."""
    return dict(zip(("gzip", "plain"), pieces(), strict=True))


@cache
def pieces() -> Mapping[str, memoryview]:
    """What a page may ask for, by name: `widget.js` compressed, and as it is."""
    plain = WIDGET.read_bytes()
    # With no time in it, the same code has the same name in each kernel.
    return {name_of(code): memoryview(code) for code in (gzip.compress(plain, 6, mtime=0), plain)}
