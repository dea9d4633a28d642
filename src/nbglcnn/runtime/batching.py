"""A batch of any size, in pieces of the batch that a Plan was compiled for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nbglcnn.errors import InputError
from nbglcnn.plan.schema import noise_keys

if TYPE_CHECKING:
    from nbglcnn.plan.schema import Header, Input, Value

Array = npt.NDArray[Any]
InputArrays = list[tuple["Input", Array]]
PROGRESS_DELAY_S = 3.0  # what takes longer has a progress bar


def example_count(header: Header, taken: InputArrays) -> int | None:
    """How many examples were given, where they are not as many as the Plan was compiled for.

    Every input with an axis of examples must have as many; one example of several inputs of a Plan
    for one goes with all examples of the others.

    Raises:
        InputError: the inputs don't have equally many, or some of those that should are left out.
    """
    batch = header.batch
    counts = {
        record.key: len(array)
        for record, array in taken
        if has_examples(record, batch) and (array.shape != record.shape or batch > 1)
    }
    if all(count == batch for count in counts.values()):
        return None
    if len({*counts.values()}) > 1:
        words = ", ".join(f"{count} for {key!r}" for key, count in counts.items())
        raise InputError(f"the inputs have different numbers of examples: {words}")
    noise = noise_keys(header)
    for record in header.inputs:
        if record.key in noise:
            continue  # each piece has the same, unless there is some for all examples
        if batch > 1 and has_examples(record, batch) and record.key not in counts:
            raise InputError(
                f"the input {record.key!r} has {batch} examples from an earlier run, but the "
                f"others have {next(iter(counts.values()))}: give all inputs"
            )
    return next(iter(counts.values()))


def has_examples(record: Input | Value, batch: int) -> bool:
    """Whether its first axis counts examples."""
    return bool(record.shape) and record.shape[0] == batch


def check_splittable(value: Value, batch: int, count: int, hint: str = "") -> None:
    """Raise InputError where a value of `count` examples is not that of pieces of `batch`.

    `hint` is what to do then.
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
    if not (value.per_example and has_examples(value, batch)):
        raise InputError(
            f"{count} examples run in batches of {batch}, but {value.key!r} of shape "
            f"{value.shape} has no batch axis along which to concatenate them: {hint}, or "
            "exclude it with observe=…"
        )


def run_in_batches(
    values: Sequence[Value],
    taken: InputArrays,
    batch: int,
    count: int,
    run: Callable[[InputArrays], Mapping[str, Array]],
) -> dict[str, Array]:
    """The values of `count` examples, `batch` of them at a time.

    Raises:
        InputError: a value has no axis of examples; nothing has run then.
    """
    for value in values:
        if value.kind != "input":
            check_splittable(value, batch, count)
    from tqdm.auto import tqdm

    split = {v.key for v in values if has_examples(v, batch)}
    found = {record.key: array for record, array in taken if record.key not in split}
    found |= {v.key: np.empty((count, *v.shape[1:]), v.dtype) for v in values if v.key in split}
    with tqdm(total=count, unit="example", delay=PROGRESS_DELAY_S, leave=False) as bar:
        for first in range(0, count, batch):
            at = np.arange(first, first + batch)
            rows = np.minimum(at, count - 1)  # the last piece repeats its last example
            piece = [
                (record, array if array.shape == record.shape else array[rows])
                for record, array in taken
            ]
            for key, array in run(piece).items():
                if key in split:
                    found[key][first : first + batch] = array[at < count]
                else:
                    found[key] = array  # an input that goes with all
            bar.update(int((at < count).sum()))
    return {v.key: found[v.key] for v in values if v.key in found}
