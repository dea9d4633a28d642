"""The data set that a page trains on: whole arrays, uint8 kept as uint8, some rows held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nbglcnn.errors import InputError
from nbglcnn.features.training.data import Batch, BatchSource, channels_first
from nbglcnn.features.training.records import Column
from nbglcnn.features.training.run import TrainingRun, validate_targets
from nbglcnn.features.training.step import TARGET
from nbglcnn.graph import Array
from nbglcnn.plan.schema import content_hash

MAX_DATASET_BYTES = 2**30  # limit for a data set in a page


@dataclass(frozen=True)
class PackedDataset:
    """The data set of a page: columns, and their blobs by name.

    `example_count` does not include the `held_out_count` rows.
    """

    columns: tuple[Column, ...]
    blobs: Mapping[str, memoryview]
    example_count: int
    held_out_count: int


def pack_dataset(
    run: TrainingRun, data: BatchSource, held_out_fraction: float, *, shuffled: bool, seed: int
) -> PackedDataset:
    """Pack all examples of a data set; a share is held out, at random or from the end.

    Raise InputError if `held_out_fraction` is not a fraction, or if the data exceed a page's limit.
    """
    if not isinstance(held_out_fraction, int | float) or not 0 <= held_out_fraction < 1:
        raise InputError(
            f"held_out={held_out_fraction!r}; expected the fraction of examples to hold out, ≥ 0 "
            "and < 1"
        )
    arrays = data.arrays()
    count = len(arrays[0])
    if (size := sum(array.nbytes for array in arrays)) > MAX_DATASET_BYTES:
        raise InputError(
            f"data: {count:,} examples of {size / 1e6:,.0f} MB; a page takes at most "
            f"{MAX_DATASET_BYTES / 1e6:,.0f} MB. Give fewer examples, or pictures as uint8; "
            "nbglcnn.train has no limit"
        )
    out = round(held_out_fraction * count)
    if held_out_fraction > 0:
        out = min(max(out, 1), count - 1)
    rows = np.random.default_rng((seed, count)).permutation(count) if shuffled else np.arange(count)
    parts = np.sort(rows[: count - out]), np.sort(rows[count - out :])
    keys = [key.name for key in run.graph.keys if key.kind == "input"]
    own = [key for key in keys if run.graph.key(key).value_name not in run.graph.noise_defaults]
    names = [*own, TARGET][: len(arrays)]
    blobs: dict[str, memoryview] = {}
    columns = []
    for name, array in zip(names, arrays, strict=True):
        stored, scale = _pack_column(run, name, array)
        made = []
        for part in parts:
            raw = np.ascontiguousarray(stored[part]).reshape(-1).view(np.uint8).data
            made.append(content_hash(raw) if len(part) else "")
            if len(part):
                blobs[made[-1]] = raw
        kind: Literal["uint8", "float32"] = "uint8" if stored.dtype == np.uint8 else "float32"
        columns.append(Column(name, stored.shape[1:], kind, scale, made[0], made[1]))
    return PackedDataset(tuple(columns), blobs, count - out, out)


def select_batch(
    data: PackedDataset, example_indices: Sequence[int], *, class_targets: bool
) -> Batch:
    """Return the training examples at these indices; `class_targets`: targets are class indices.

    Raise InputError if an index is out of range.
    """
    if not example_indices or max(example_indices) >= data.example_count:
        raise InputError(
            f"a batch has the examples {example_indices}; there are {data.example_count}"
        )
    arrays: list[Array] = []
    for column in data.columns:
        rows = np.frombuffer(data.blobs[column.blob], column.dtype).reshape(-1, *column.shape)
        own = rows[list(example_indices)]
        if column.key == TARGET and class_targets:
            arrays.append(own.astype(np.int64))
        else:
            arrays.append(own.astype(np.float32) * np.float32(column.scale))
    target = arrays.pop() if data.columns[-1].key == TARGET else None
    return Batch(tuple(arrays), target, len(example_indices))


def _pack_column(run: TrainingRun, name: str, array: Array) -> tuple[Array, float]:
    """Return a column as it is sent to the page, and the scale that the page multiplies it by."""
    loss = run.options.loss
    if name == TARGET and run.options.has_class_targets:
        checked = _validate_all_targets(run, array)
        small = checked.size == 0 or 0 <= checked.min() <= checked.max() < 256
        return checked.astype(np.uint8 if small else np.float32), 1.0
    if array.dtype == np.uint8:
        return channels_first(array), float(np.float32(1) / np.float32(255))
    if name == TARGET and not isinstance(loss, str):
        return _validate_all_targets(run, np.asarray(array, np.float32)), 1.0
    return np.asarray(array, np.float32), 1.0


def _validate_all_targets(run: TrainingRun, array: Array) -> Array:
    """Check all targets as those of a batch are checked."""
    assert not isinstance(run.options.loss, str)
    shape = run.graph.shape(run.graph.key(run.options.output_key).value_name)
    size = max(1, shape[0])
    parts = []
    for at in range(0, len(array), size):
        part = array[at : at + size]
        filled = np.concatenate([part, np.repeat(part[:1], size - len(part), 0)])
        parts.append(
            validate_targets(run.options.loss, filled, run.graph, run.options.output_key)[
                : len(part)
            ]
        )
    return np.concatenate(parts)


def unpack_state(
    state_names: Sequence[str], data: memoryview, template_arrays: Mapping[str, Array]
) -> dict[str, Array]:
    """Split a page's state buffer into arrays by name; InputError if the size doesn't match."""
    flat = np.frombuffer(data, np.float32)
    found, at = {}, 0
    for name in state_names:
        shape, size = template_arrays[name].shape, template_arrays[name].size
        found[name] = flat[at : at + size].reshape(shape).copy()
        at += size
    if at != flat.size:
        raise InputError(f"received a state of {flat.size} values; expected {at}")
    return found
