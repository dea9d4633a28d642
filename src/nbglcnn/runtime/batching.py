"""Runs of a batch of any size, in batches of the size that a Plan was compiled for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nbglcnn.errors import InputError
from nbglcnn.plan.schema import optional_input_keys

if TYPE_CHECKING:
    from nbglcnn.plan.schema import Header, Input, Value

Array = npt.NDArray[Any]
InputArrays = list[tuple["Input", Array]]
PROGRESS_DELAY_S = 3.0  # longer runs show a progress bar


def example_count(header: Header, input_arrays: InputArrays) -> int | None:
    """The number of examples, or None if it is the batch that the Plan was compiled for.

    All inputs with a batch axis must have the same number of examples. In a Plan for one example
    with several inputs, a single example of one input is combined with all examples of the others.

    Raises:
        InputError: If the numbers differ, or an input that needs this number is omitted.
    """
    batch = header.batch
    counts = {
        record.key: len(array)
        for record, array in input_arrays
        if has_batch_axis(record, batch) and (array.shape != record.shape or batch > 1)
    }
    if all(count == batch for count in counts.values()):
        return None
    if len({*counts.values()}) > 1:
        words = ", ".join(f"{count} for {key!r}" for key, count in counts.items())
        raise InputError(f"the inputs have different numbers of examples: {words}")
    noise = optional_input_keys(header)
    for record in header.inputs:
        if record.key in noise:
            continue  # all batches share it, unless it is set for all examples
        if batch > 1 and has_batch_axis(record, batch) and record.key not in counts:
            raise InputError(
                f"the input {record.key!r} has {batch} examples from an earlier run, but the "
                f"others have {next(iter(counts.values()))}: give all inputs"
            )
    return next(iter(counts.values()))


def has_batch_axis(record: Input | Value, batch: int) -> bool:
    """Whether the first axis is the batch."""
    return bool(record.shape) and record.shape[0] == batch


def check_splittable(value: Value, batch: int, count: int, hint: str = "") -> None:
    """Raise InputError if batches of `batch` cannot be concatenated to a value of `count` examples.

    `hint` is the advice at the end of the message.
    """
    hint = hint or f"compile for a batch of {count}, with {count} examples as x"
    follows = (
        f", and {value.key!r} depends on it or feeds it" if value.key != value.mixing_layer else ""
    )
    if value.mixing_layer:
        raise InputError(
            f"{count} examples would run in batches of {batch}, but {value.mixing_layer!r} "
            f"computes across the batch, or depends on its size{follows}: {hint}"
        )
    if not (value.per_example and has_batch_axis(value, batch)):
        raise InputError(
            f"{count} examples run in batches of {batch}, but {value.key!r} of shape "
            f"{value.shape} has no batch axis along which to concatenate them: {hint}, or "
            "exclude it with observe=…"
        )


def run_in_batches(
    values: Sequence[Value],
    input_arrays: InputArrays,
    batch: int,
    count: int,
    run: Callable[[InputArrays], Mapping[str, Array]],
) -> dict[str, Array]:
    """Compute the values of `count` examples in batches of `batch`.

    Raises:
        InputError: If a value has no batch axis. Nothing has run then.
    """
    for value in values:
        if value.kind != "input":
            check_splittable(value, batch, count)
    from tqdm.auto import tqdm

    split = {v.key for v in values if has_batch_axis(v, batch)}
    found = {record.key: array for record, array in input_arrays if record.key not in split}
    found |= {v.key: np.empty((count, *v.shape[1:]), v.dtype) for v in values if v.key in split}
    with tqdm(total=count, unit="example", delay=PROGRESS_DELAY_S, leave=False) as bar:
        for first in range(0, count, batch):
            at = np.arange(first, first + batch)
            rows = np.minimum(at, count - 1)  # the last batch repeats its last example
            piece = [
                (record, array if array.shape == record.shape else array[rows])
                for record, array in input_arrays
            ]
            for key, array in run(piece).items():
                if key in split:
                    found[key][first : first + batch] = array[at < count]
                else:
                    found[key] = array  # an input that all batches share
            bar.update(int((at < count).sum()))
    return {v.key: found[v.key] for v in values if v.key in found}
