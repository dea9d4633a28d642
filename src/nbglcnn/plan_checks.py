"""What a Plan's file is checked for in Python; what the page checks is in js/src/gl/check.ts."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from nbglcnn.errors import ModelError

if TYPE_CHECKING:
    from nbglcnn.plan import Header


MAGIC = b"NBGLCNN2"  # then the header's length and the checksum, 4 bytes each, then the header


def header_bytes(data: bytes) -> bytes:
    """The JSON header of a Plan file; ModelError where that is none, or not what was written."""
    if data[:8] != MAGIC:
        raise ModelError(
            "not a Plan file of this version (its first 8 bytes differ); compile the model again"
        )
    kept, found = int.from_bytes(data[12:16], "little"), checksum(data)
    if len(data) < 16 or kept != found:
        raise ModelError(
            f"damaged Plan file: checksum {found:08x}, the file says {kept:08x}; copy it again"
        )
    size = int.from_bytes(data[8:12], "little")
    if size > len(data) - 16:
        raise ModelError(f"damaged Plan file: header of {size} bytes in a file of {len(data)}")
    return data[16 : 16 + size]


def checksum(data: bytes | bytearray) -> int:
    """CRC-32 of a Plan file without the 4 bytes that hold it: no flipped bit goes unnoticed."""
    view = memoryview(data)
    return zlib.crc32(view[16:], zlib.crc32(view[:12]))


def problem_of(header: Header) -> str | None:
    """What of a header points outside of what it should, in words; None when nothing does."""
    return _reach_problem(header)


def _reach_problem(header: Header) -> str | None:
    """What of reaches, or of layers that read by them, points outside of what it should."""
    for k, reach in enumerate(header.reaches):
        sizes = (*reach.reader, *reach.source)
        if len(reach.axes) != len(reach.source) or min(sizes, default=0) < 0:
            return f"reach {k} has {len(reach.axes)} axes of places {reach.source}"
        for along, size in zip(reach.axes, reach.source, strict=True):
            length = reach.reader[along.axis] if 0 <= along.axis < len(reach.reader) else None
            if along.axis != -1 and length is None:
                return f"reach {k} reads along axis {along.axis} of {len(reach.reader)}"
            if along.kernel < 1 or len(along.table) not in (0, length):
                return f"reach {k} has a window of {along.kernel} and {len(along.table)} rows"
            if any(not 0 <= place < size for row in along.table for place in row):
                return f"reach {k} reads outside of its source"
    for layer in header.layers:
        if any(not 0 <= axis < len(layer.output_shape) for axis in layer.places):
            return f"layer {layer.name!r} has places along axes {layer.places}"
        if any(not 0 <= reach < len(header.reaches) for _, _, reach in layer.reads):
            return f"layer {layer.name!r} reads by a reach that is not there"
    return None
