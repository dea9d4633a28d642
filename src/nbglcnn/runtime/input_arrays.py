"""Conversion of a Session's inputs to the arrays that are uploaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nbglcnn.errors import InputError
from nbglcnn.inputs.arguments import InputSpec, resolve_input_names, to_input_arrays
from nbglcnn.plan.layout import MAX_EXACT_INTEGER
from nbglcnn.plan.schema import Header, Input, optional_input_keys
from nbglcnn.runtime.batching import has_batch_axis

Array = npt.NDArray[Any]

SHAPE_HINT = "Compile again for another shape"


def prepare_inputs(
    header: Header, inputs: Mapping[str, Any], *, any_batch: bool = False
) -> list[tuple[Input, Array]]:
    """Convert inputs by key to pairs (record, float32 array).

    With `any_batch`, the batch axis may have any length.
    """
    records = {record.key: record for record in header.inputs}
    inputs = resolve_input_names(inputs, [*records])
    for key in inputs:
        if key not in records:
            names = ", ".join(map(repr, records))
            raise InputError(f"no input {key!r}; this Plan's inputs: {names}")
    specs = [_input_spec(records[key]) for key in inputs]
    free = [
        replace(spec, shape=(None, *spec.shape[1:]))
        if any_batch and spec.shape and has_batch_axis(records[spec.name], header.batch)
        else spec
        for spec in specs
    ]
    try:
        arrays = to_input_arrays(tuple(inputs.values()), free)
    except InputError:  # raise the error for the Plan's own shapes, which fit even less
        arrays = to_input_arrays(tuple(inputs.values()), specs)
    return [(records[k], to_float32(k, a)) for k, a in zip(inputs, arrays, strict=True)]


def batched_input_spec(header: Header) -> InputSpec | None:
    """The spec of the only required input, for any batch size; None if there are several."""
    drawn = optional_input_keys(header)
    given = [one for one in header.inputs if not one.contributed and one.key not in drawn]
    if len(given) != 1:
        return None
    spec = _input_spec(given[0])
    return replace(spec, shape=(None, *given[0].shape[1:]))


def _input_spec(record: Input) -> InputSpec:
    fit = record.fit if record.accepts_any_size else ""
    dtype = np.dtype(record.dtype)
    return InputSpec(
        record.key, record.shape, dtype, SHAPE_HINT, fit=fit, crop_fraction=record.crop_fraction
    )


def to_float32(key: str, array: Array) -> Array:
    """Convert an input to float32, as textures store it; InputError if integers would change.

    `to_input_arrays` has checked its shape and type.
    """
    if (
        array.dtype.kind in "iu"
        and array.size
        and int(np.max(np.abs(array.astype(object)))) > MAX_EXACT_INTEGER
    ):
        raise InputError(
            f"input {key!r} has integers beyond 2^24, which float32 cannot represent exactly"
        )
    return np.asarray(array, np.float32, order="C")
