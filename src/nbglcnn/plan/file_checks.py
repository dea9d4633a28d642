"""Checks of a Plan file: the checksum, then the header by constraints and dependencies."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from nbglcnn.errors import ModelError
from nbglcnn.plan.constraints import broken_constraint
from nbglcnn.plan.dependencies import broken_dependency

if TYPE_CHECKING:
    from nbglcnn.plan.schema import Header

MAGIC = b"NBGLCNN2"  # then the length of the header and the checksum, 4 bytes each, then the header


def read_header(data: bytes) -> bytes:
    """Return a Plan file's JSON header; ModelError for another format or a wrong checksum."""
    if data[:8] != MAGIC:
        raise ModelError(
            "not a Plan file of this version (its first 8 bytes differ); compile the model again"
        )
    kept, found = int.from_bytes(data[12:16], "little"), checksum(data)
    if len(data) < 16 or kept != found:
        raise ModelError(
            f"damaged Plan file: its checksum is {found:08x}, not {kept:08x}; copy it again"
        )
    size = int.from_bytes(data[8:12], "little")
    if size > len(data) - 16:
        raise ModelError(f"damaged Plan file: header of {size} bytes in a file of {len(data)}")
    return data[16 : 16 + size]


def checksum(data: bytes | bytearray) -> int:
    """The CRC-32 of a Plan file without its 4 checksum bytes; it detects any flipped bit."""
    view = memoryview(data)
    return zlib.crc32(view[16:], zlib.crc32(view[:12]))


def first_problem(header: Header) -> str | None:
    """The first problem of a header as text; None if the header is valid."""
    return broken_constraint(header) or broken_dependency(header)
