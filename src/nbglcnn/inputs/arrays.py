"""Checks of NumPy arrays from users: native byte order, no masked values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nbglcnn.errors import InputError
from nbglcnn.plan.schema import Value


def native_array(item: Any, name: str) -> npt.NDArray[Any]:
    """Convert an item to an array in native byte order, without a copy if it already is.

    `name` is the name of the input in messages. Raise InputError for masked values; NumPy's own
    errors propagate.
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
    """The number of masked values in an array, or in the arrays of a list."""
    if isinstance(item, list | tuple):
        return sum(map(masked_count, item))
    return int(np.ma.getmaskarray(item).sum()) if isinstance(item, np.ma.MaskedArray) else 0


def to_value_array(value: Value, flat_values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert floats that a page sent to an array of the value's shape and type."""
    return np.array(flat_values, dtype=value.dtype).reshape(value.shape)
