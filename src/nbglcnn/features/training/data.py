"""Training data (arrays, a torch Dataset or a DataLoader) as batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from nbglcnn.errors import InputError
from nbglcnn.graph import Array
from nbglcnn.inputs.arguments import InputSpec, to_input_arrays
from nbglcnn.inputs.arrays import native_array

TRAINING_DATA_HINT = (
    "give a tuple (inputs, targets) of arrays or tensors, one array to reconstruct the input, a "
    "torch Dataset or a DataLoader"
)
DEFAULT_BATCH_SIZE = 32


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch, possibly padded: only the first `example_count` examples count."""

    inputs: tuple[Array, ...]
    target: Array | None
    example_count: int

    def padded(self, size: int) -> Batch:
        """Pad the batch to `size` with copies of the first example, which is a valid input."""
        missing = size - self.example_count
        if missing <= 0:
            return self
        arrays = [np.concatenate([one, np.repeat(one[:1], missing, 0)]) for one in self._arrays()]
        target = None if self.target is None else arrays.pop()
        return Batch(tuple(arrays), target, self.example_count)

    def _arrays(self) -> list[Array]:
        return [*self.inputs, *([] if self.target is None else [self.target])]


class BatchSource(Protocol):
    """Batches of examples, epoch after epoch."""

    batch_size: int
    min_batch_size: int  # size of the smallest batch

    def first_batch(self) -> Batch:
        """Return a batch of `batch_size` examples to load the network with; examples may repeat."""
        ...

    def with_batch_size(self, batch_size: int) -> BatchSource:
        """Return source of smaller batches to compile with; a DataLoader shrinks only its first."""
        ...

    def batches(self, start: int) -> Iterator[Batch]:
        """Iterate over batches from step `start` on, without end."""
        ...

    def arrays(self) -> tuple[Array, ...]:
        """Return all examples of an epoch: the inputs, then the target if there is one."""
        ...

    @property
    def batches_per_epoch(self) -> int | None:
        """The number of batches per epoch; None if unknown."""
        ...


def open_batches(
    data: Any, batch_size: int | None, *, shuffle: bool, seed: int, has_model_loss: bool
) -> BatchSource:
    """Open the `data` argument of `nbglcnn.train`; InputError if its type isn't supported.

    With `has_model_loss` all arrays are inputs of the model, which computes its loss itself.
    """
    if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
        raise InputError(f"batch_size={batch_size!r}; expected an integer ≥ 1")
    if _is_loader(data):
        if batch_size is not None:
            raise InputError(
                f"batch_size={batch_size}: a DataLoader has its own batch size; omit batch_size, "
                "or give loader.dataset"
            )
        return _LoaderBatches(data, has_model_loss)
    rows = _open_rows(data, has_model_loss)
    if not len(rows):
        raise InputError("data: there are no examples")
    return _RowBatches(rows, min(batch_size or DEFAULT_BATCH_SIZE, len(rows)), shuffle, seed)


def _is_loader(data: Any) -> bool:
    return any(
        one.__name__ == "DataLoader" and one.__module__.startswith("torch.utils.data")
        for one in type(data).__mro__
    )


class _Rows(Protocol):
    def __len__(self) -> int: ...

    def select(self, rows: Array) -> Batch:
        """Return a batch of these examples."""
        ...

    def arrays(self) -> tuple[Array, ...]:
        """Return all examples."""
        ...


def _open_rows(data: Any, has_model_loss: bool) -> _Rows:
    if isinstance(data, tuple):
        return _ArrayRows(data, has_model_loss)
    if hasattr(data, "shape"):
        return _ArrayRows((data,), has_model_loss)
    if (
        hasattr(data, "__getitem__")
        and hasattr(data, "__len__")
        and not isinstance(data, str | bytes | dict)
    ):
        return _DatasetRows(data, has_model_loss)
    if hasattr(data, "__iter__") and "Dataset" in type(data).__name__:
        raise InputError("data: an IterableDataset has no batches; wrap it in a DataLoader")
    raise InputError(f"data: {type(data).__name__} was given; {TRAINING_DATA_HINT}")


class _ArrayRows:
    """Arrays with the examples along the first axis."""

    def __init__(self, data: tuple[Any, ...], has_model_loss: bool) -> None:
        if has_model_loss:
            given, target = data, None
        elif len(data) == 1:
            given, target = data, data[0]
        elif len(data) == 2:
            given, target = data[0], data[1]
        else:
            raise InputError(
                f"data: a tuple of {len(data)}; expected (inputs, targets). For a network with "
                "several inputs: ((first, second), targets)"
            )
        given = given if isinstance(given, tuple) else (given,)
        self._inputs = tuple(
            _examples_array(one, f"data: input {k}") for k, one in enumerate(given)
        )
        self._target = None
        if not has_model_loss:
            same = len(data) == 1
            self._target = self._inputs[0] if same else _examples_array(target, "data: targets")
        counts = {len(one) for one in (*self._inputs, self._target) if one is not None}
        if len(counts) != 1:
            shapes = [one.shape for one in (*self._inputs, self._target) if one is not None]
            raise InputError(
                "data: inputs and targets need the same number of examples along the first axis; "
                f"the shapes are {' and '.join(map(str, shapes))}"
            )

    def __len__(self) -> int:
        return len(self._inputs[0])

    def select(self, rows: Array) -> Batch:
        inputs = tuple(as_input(one[rows]) for one in self._inputs)
        target = None if self._target is None else self._target[rows]
        return Batch(inputs, target, len(rows))

    def arrays(self) -> tuple[Array, ...]:
        return (*self._inputs, *([] if self._target is None else [self._target]))


class _DatasetRows:
    """A map-style Dataset. Each item is (input, target), or one array that is both."""

    def __init__(self, data: Any, has_model_loss: bool) -> None:
        self._data, self._model_loss = data, has_model_loss

    def __len__(self) -> int:
        return len(self._data)

    def select(self, rows: Array) -> Batch:
        return _collate([self._data[int(row)] for row in rows], self._model_loss)

    def arrays(self) -> tuple[Array, ...]:
        return _concat_batches([self.select(np.array([row])) for row in range(len(self))])


def _concat_batches(batches: Sequence[Batch]) -> tuple[Array, ...]:
    """Concatenate batches into arrays of all examples."""
    columns = zip(*((*b.inputs, *([] if b.target is None else [b.target])) for b in batches),
                  strict=True)  # fmt: skip
    return tuple(np.concatenate(column) for column in columns)


def _collate(items: Sequence[Any], has_model_loss: bool) -> Batch:
    """Stack items of a Dataset to a batch."""
    if isinstance(items[0], tuple | list):
        columns = [_stack_column([one[k] for one in items], k) for k in range(len(items[0]))]
    elif isinstance(items[0], dict):
        raise InputError(
            f"data: the items are dicts of {', '.join(items[0])}; {TRAINING_DATA_HINT}"
        )
    else:
        columns = [_stack_column(items, 0)]
    return _split_target(columns, has_model_loss)


def _split_target(columns: Sequence[Array], has_model_loss: bool) -> Batch:
    """Split the columns of a Dataset or DataLoader into inputs and target."""
    if has_model_loss:
        inputs, target = [as_input(one) for one in columns], None
    else:
        given = columns if len(columns) == 1 else columns[:-1]
        inputs, target = [as_input(one) for one in given], columns[-1]
    return Batch(tuple(inputs), target, len(columns[0]))


def _stack_column(items: Sequence[Any], column_index: int) -> Array:
    if hasattr(items[0], "convert") and hasattr(items[0], "mode"):  # Pillow images
        return to_input_arrays(list(items), (InputSpec(f"data: item {column_index}"),))[0]
    arrays = [_to_array(one, f"data: item {column_index}") for one in items]
    shapes = {one.shape for one in arrays}
    if len(shapes) > 1:
        some = " and ".join(str(one) for one in sorted(shapes)[:2])
        raise InputError(f"data: the items of a batch need the same shape; {some} were given")
    return np.stack(arrays)


def _examples_array(value: Any, name: str) -> Array:
    """Convert an array or tensor, and check that it has an axis of examples."""
    array = None if value is None else _to_array(value, name)
    if array is None or not array.ndim:
        raise InputError(
            f"{name}: {value!r} was given; expected arrays with the examples along the first axis. "
            "Set a constant argument of forward in a module around the model: def forward(self, "
            "x): return self.model(x, constant)"
        )
    return array


def _to_array(value: Any, name: str) -> Array:
    """Convert an array or tensor to NumPy without scaling it."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    array = native_array(value, name)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name}: {type(value).__name__} was given; {TRAINING_DATA_HINT}")
    return array


def as_input(array: Array) -> Array:
    """Convert a batch to network inputs: uint8 pictures become float32 in 0..1, channels first."""
    if array.dtype != np.uint8:
        return array if array.dtype.kind in "iub" else np.asarray(array, np.float32)
    return np.ascontiguousarray(channels_first(array), np.float32) / np.float32(255)


def channels_first(array: Array) -> Array:
    """Return pictures as (n, channels, h, w), whichever layout they have."""
    if array.ndim == 3:
        return array[:, None]
    if array.ndim == 4 and array.shape[3] in (1, 3, 4) and array.shape[1] not in (1, 3, 4):
        return array.transpose(0, 3, 1, 2)
    return array


class _RowBatches:
    """Batches of rows; each epoch has its own order, derived from the seed."""

    def __init__(self, rows: _Rows, batch_size: int, shuffle: bool, seed: int) -> None:
        self._rows, self._shuffle, self._seed = rows, shuffle, seed
        self.batch_size = batch_size
        self.batches_per_epoch = -(-len(rows) // batch_size)
        self.min_batch_size = len(rows) % batch_size or batch_size

    def first_batch(self) -> Batch:
        return self._rows.select(np.arange(self.batch_size))

    def arrays(self) -> tuple[Array, ...]:
        return self._rows.arrays()

    def with_batch_size(self, batch_size: int) -> BatchSource:
        return _RowBatches(self._rows, batch_size, self._shuffle, self._seed)

    def batches(self, start: int) -> Iterator[Batch]:
        step = start
        while True:
            epoch, place = divmod(step, self.batches_per_epoch)
            order = np.arange(len(self._rows))
            if self._shuffle:
                order = np.random.default_rng((self._seed, epoch)).permutation(len(order))
            for at in range(place, self.batches_per_epoch):
                yield self._rows.select(order[at * self.batch_size :][: self.batch_size])
                step += 1


class _LoaderBatches:
    """A DataLoader, which determines batches and order itself."""

    def __init__(self, loader: Any, has_model_loss: bool) -> None:
        self._loader, self._model_loss = loader, has_model_loss
        try:
            self._initial_batch = self._to_batch(next(iter(loader)))
        except StopIteration:
            raise InputError("data: the DataLoader yields no batches") from None
        self._set_batch_size(self._initial_batch.example_count)
        try:
            self.batches_per_epoch: int | None = len(loader)
        except TypeError:  # __len__ may raise it for any reason
            self.batches_per_epoch = None

    def _set_batch_size(self, batch_size: int) -> None:
        self.batch_size = batch_size
        try:
            last = len(self._loader.dataset) % batch_size or batch_size
        except TypeError:
            last = min(2, batch_size)
        self.min_batch_size = batch_size if self._loader.drop_last else last

    def _to_batch(self, loaded: Any) -> Batch:
        if isinstance(loaded, dict):
            raise InputError(
                f"data: the DataLoader yields dicts of {', '.join(loaded)}; {TRAINING_DATA_HINT}"
            )
        columns = list(loaded) if isinstance(loaded, tuple | list) else [loaded]
        return _split_target([_examples_array(one, "data") for one in columns], self._model_loss)

    def first_batch(self) -> Batch:
        first = self._initial_batch
        arrays = tuple(one[: self.batch_size] for one in first.inputs)
        target = None if first.target is None else first.target[: self.batch_size]
        return Batch(arrays, target, self.batch_size)

    def arrays(self) -> tuple[Array, ...]:
        return _concat_batches([self._to_batch(given) for given in self._loader])

    def with_batch_size(self, batch_size: int) -> BatchSource:
        other = copy(self)
        other._set_batch_size(batch_size)
        return other

    def batches(self, start: int) -> Iterator[Batch]:
        while True:
            for given in self._loader:
                batch = self._to_batch(given)
                if batch.example_count > self.batch_size:
                    raise InputError(
                        f"data: a batch of {batch.example_count} examples after one of "
                        f"{self.batch_size}; the first batch must be the largest"
                    )
                yield batch
