"""The front-end's code: pages request it by content hash, like weights, and cache it."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from nbglcnn.plan.schema import content_hash

STATIC_FOLDER = Path(__file__).parent.parent / "static"
LOADER_FILE = STATIC_FOLDER / "loader.js"
WIDGET_FILE = STATIC_FOLDER / "widget.js"

if not (LOADER_FILE.exists() and WIDGET_FILE.exists()):
    raise ImportError(
        f"nbglcnn's front-end is missing ({STATIC_FOLDER}): reinstall the package; in a "
        "checkout, run `make setup`"
    )


def code_blob_name(code: bytes) -> str:
    """32 hex digits: 24 of SHA-256, then the CRC-32, which pages check over plain http."""
    return f"{content_hash(code)[:24]}{zlib.crc32(code):08x}"


@cache
def code_blob_names() -> dict[str, str]:
    """The code's blob names by encoding: "gzip", or "plain" for pages that can't decompress."""
    return dict(zip(("gzip", "plain"), frontend_blobs(), strict=True))


@cache
def frontend_blobs() -> Mapping[str, memoryview]:
    """The blobs that a page may request, by name: `widget.js` compressed, and uncompressed."""
    plain = WIDGET_FILE.read_bytes()
    # Without a timestamp, the same code has the same name in every kernel.
    return {
        code_blob_name(code): memoryview(code) for code in (gzip.compress(plain, 6, mtime=0), plain)
    }
