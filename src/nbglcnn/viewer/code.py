"""The front-end's code: pages get it by content hash, like weights, and keep it.

The core draws the network; rooms are views that pages get behind the first picture.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from nbglcnn.plan import content_hash
from nbglcnn.viewer.protocol import ROOMS

STATIC = Path(__file__).parent.parent / "static"
LOADER = STATIC / "loader.js"
CORE = STATIC / "widget.js"
FILES = {"core": CORE} | {room: STATIC / f"{room}.js" for room in ROOMS}

if not all(file.exists() for file in (LOADER, *FILES.values())):
    raise ImportError(
        f"nbglcnn's front-end is missing ({STATIC}): install the package again; "
        "in a checkout, run `make setup`"
    )


def name_of(code: bytes) -> str:
    """32 hexadecimal digits: 24 of SHA-256, then the CRC-32, which pages over plain http check."""
    return f"{content_hash(code)[:24]}{zlib.crc32(code):08x}"


@cache
def pieces() -> Mapping[str, memoryview]:
    """The code of the core, then of the rooms in the order in which pages get them, by name."""
    read = [file.read_bytes() for file in FILES.values()]
    return {name_of(code): memoryview(code) for code in read}


def names() -> dict[str, str]:
    """The name of each piece by what it is: "core", or a room."""
    return dict(zip(FILES, pieces(), strict=True))
