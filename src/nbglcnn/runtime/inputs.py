"""What a Session is given, as the arrays that go to the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from nbglcnn.errors import InputError
from nbglcnn.inputs.arguments import Spec, as_arrays, by_names
from nbglcnn.plan.layout import EXACT
from nbglcnn.plan.schema import Header, Input, noise_of
from nbglcnn.runtime.batching import has_examples

Array = npt.NDArray[Any]

ANOTHER_SHAPE = "Compile again for another shape"


def taken(
    header: Header, given: Mapping[str, Any], *, any_batch: bool = False
) -> list[tuple[Input, Array]]:
    """What was given for some inputs, by key, as float32.

    With `any_batch` the axis of examples may be of any length.
    """
    records = {record.key: record for record in header.inputs}
    given = by_names(given, [*records])
    for key in given:
        if key not in records:
            names = ", ".join(map(repr, records))
            raise InputError(f"no input {key!r}; this Plan's inputs: {names}")
    specs = [_spec(records[key]) for key in given]
    free = [
        replace(spec, shape=(None, *spec.shape[1:]))
        if any_batch and spec.shape and has_examples(records[spec.name], header.batch)
        else spec
        for spec in specs
    ]
    try:
        arrays = as_arrays(tuple(given.values()), free)
    except InputError:  # in the words of the Plan's own shapes, which fit even less
        arrays = as_arrays(tuple(given.values()), specs)
    return [(records[k], stored(k, a)) for k, a in zip(given, arrays, strict=True)]


def spec_of_pieces(header: Header) -> Spec | None:
    """The one input that is given, with any number of examples; None where there are several."""
    drawn = noise_of(header)
    given = [one for one in header.inputs if not one.contributed and one.key not in drawn]
    if len(given) != 1:
        return None
    spec = _spec(given[0])
    return replace(spec, shape=(None, *given[0].shape[1:]))


def _spec(record: Input) -> Spec:
    fit = record.fit if record.resampled else ""
    dtype = np.dtype(record.dtype)
    return Spec(record.key, record.shape, dtype, ANOTHER_SHAPE, fit=fit, share=record.share)


def stored(key: str, array: Array) -> Array:
    """An input as float32, which is what textures hold; InputError where that alters its numbers.

    Shape and type are `as_arrays`' business.
    """
    if (
        array.dtype.kind in "iu"
        and array.size
        and int(np.max(np.abs(array.astype(object)))) > EXACT
    ):
        raise InputError(
            f"input {key!r} holds integers beyond 2^24, which float32 cannot hold exactly"
        )
    return np.asarray(array, np.float32, order="C")
