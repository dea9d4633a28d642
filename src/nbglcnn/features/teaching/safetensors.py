"""The safetensors file format: an 8-byte header length, a JSON header, then the tensor data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from nbglcnn.errors import InputError
from nbglcnn.graph import Array

# Names of the dtypes in safetensors files.
DTYPES = {
    "float64": "F64", "float32": "F32", "int64": "I64", "int32": "I32", "int16": "I16",
    "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
NUMPY_DTYPES = {told: name for name, told in DTYPES.items()}
METADATA = "__metadata__"


def serialize(arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None) -> bytes:
    """Serialize arrays as a safetensors file, widest dtype first so that each array is aligned."""
    header: dict[str, Any] = {METADATA: dict(metadata)} if metadata else {}
    parts: list[bytes] = []
    at = 0
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].itemsize):
        if array.dtype.name not in DTYPES:
            continue  # complex numbers and other dtypes that no layer here has
        parts.append(np.ascontiguousarray(array).tobytes())
        header[name] = {
            "dtype": DTYPES[array.dtype.name], "shape": array.shape,
            "data_offsets": [at, at + len(parts[-1])],
        }  # fmt: skip
        at += len(parts[-1])
    words = json.dumps(header).encode()
    words += b" " * (-len(words) % 8)
    return len(words).to_bytes(8, "little") + words + b"".join(parts)


def deserialize(data: bytes) -> tuple[dict[str, Array], dict[str, str]]:
    """Return a file's arrays by name and its metadata; InputError if it is invalid or truncated."""
    try:
        from_ = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:from_].decode())
        metadata = {str(k): str(v) for k, v in header.pop(METADATA, {}).items()}
        arrays = {}
        for name, entry in header.items():
            first, end = entry["data_offsets"]
            dtype, shape = np.dtype(NUMPY_DTYPES[entry["dtype"]]), tuple(map(int, entry["shape"]))
            part = data[from_ + first : from_ + end]
            if len(part) != math.prod(shape) * dtype.itemsize:
                raise ValueError(f"{name} is cut off")
            arrays[name] = np.frombuffer(part, dtype).reshape(shape).copy()
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"not a safetensors file, or a damaged one: {error}") from None
    return arrays, metadata
