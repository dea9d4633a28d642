"""NumPy arrays as they enter: in this machine's byte order, with no masked numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nbglcnn.errors import InputError
from nbglcnn.plan.schema import Value


def native_array(item: Any, name: str) -> npt.NDArray[Any]:
    """An item as an array of this machine's byte order; the same one where it has that.

    `name` is what it is for. InputError for masked numbers, NumPy's own errors for what is no
    array.
    """
    if masked := masked_count(item):
        raise InputError(
            f"{name}: a masked array was given, with {masked:,} of {np.size(item):,} values "
            "masked; a network reads all values. Give x.filled(0), or x.filled(numpy.nan) to see "
            "which values depend on them"
        )
    array = np.asarray(item)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def masked_count(item: Any) -> int:
    """How many numbers of an array, or of those in a list, are masked."""
    if isinstance(item, list | tuple):
        return sum(map(masked_count, item))
    return int(np.ma.getmaskarray(item).sum()) if isinstance(item, np.ma.MaskedArray) else 0


def to_value_array(value: Value, flat: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A value's array out of the floats that a page sent: its own shape and type."""
    return np.array(flat, dtype=value.dtype).reshape(value.shape)
