"""Recording of a data set's activations to Zarr, in chunks, for data larger than memory."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from nbglcnn.api import compile
from nbglcnn.errors import InputError, unknown_name_message
from nbglcnn.inputs.arguments import InputSpec, check_local_path, to_input_arrays
from nbglcnn.inputs.picture_files import list_picture_folder, read_picture
from nbglcnn.plan.schema import Plan, Value, content_hash
from nbglcnn.runtime.batching import check_splittable, has_batch_axis
from nbglcnn.runtime.input_arrays import batched_input_spec
from nbglcnn.runtime.session import Session

if TYPE_CHECKING:
    import zarr

Array = npt.NDArray[Any]

RECORDED_FLAGS_NAME = "_recorded"  # which examples are recorded
TASKS_PER_THREAD = 2  # chunks per thread of a cluster: one is computed, one is being sent
MAX_TRIES = 4  # for a chunk whose workers die, and for sending the Plan to all workers
RETRY_DELAY_S = 1.0  # until a dead worker is noticed
ONE_SIZE_HINT = "All examples need the same size; a Plan compiled with preprocess resizes pictures"
MAX_FILE_NAME_LENGTH = 120  # characters of a file's name


def record(
    model: Any,
    data: Any,
    layers: Sequence[str],
    path: str | Path,
    *,
    batch_size: int = 16,
    client: Any = None,
) -> zarr.Group:
    """Write the activations of a data set to a Zarr group, one array per layer.

    An interrupted recording continues if you call this again with the same arguments. Requires
    Zarr: `pip install "nbglcnn[zarr]"`.

    Args:
        model: A model as for `compile`, or a Plan, whose batch is then the size of a chunk.
        data: An array or tensor with the examples along the first axis (it is read slice by slice,
            so it may be a memory map); the path of a folder of pictures of one size, as for
            `Images`; or a torch Dataset or a sequence of inputs. For items that are tuples or
            lists, such as `(input, label)`, the first element is used.
        layers: Keys of `viewer.activations`. Each value must have a batch axis.
        path: The folder of the Zarr group. It is created if it doesn't exist.
        batch_size: The number of examples per run and per chunk of the arrays. Default: 16. For a
            Plan it is ignored.
        client: A `dask.distributed.Client` (`pip install "nbglcnn[dask]"`). Its workers compute the
            batches, each process with its own Session; the batches of a lost worker are computed
            again. Only the calling process writes. Default: None, which computes here.

    Returns:
        The Zarr group, opened for reading. Each array has shape (examples, …) and the dtype of its
        layer. It is named after the layer; characters that are unsafe in file names are
        percent-encoded, and very long names become `%layer0`, `%layer1`, …. Its attributes are
        `name`, `shape` (of one example) and `model` (a hash of the compiled network and its
        weights).

    Raises:
        InputError: If the data has an unsupported type or no examples, an example doesn't fit, a
            layer has no batch axis, or `path` contains other data or another recording.
        KeyError: If a layer doesn't exist.
        ImportError: If Zarr is not installed.
        OpenGLUnavailable: If there is no local OpenGL.

    Example:
        >>> group = nbglcnn.record(model, images, ["encoder.2"], "activations.zarr")
        >>> group["encoder.2"].shape
    """
    library = _import_zarr()
    source = _open_examples(data)
    count = len(source)
    if count == 0:
        raise InputError("record: the data has no examples")
    if isinstance(model, Plan):
        plan = model
    else:
        plan = compile(model, source.raw_batch(range(min(batch_size, count))), observe=[*layers])
    spec = batched_input_spec(plan.header)
    source.specs = None if spec is None else [replace(spec, advice=ONE_SIZE_HINT)]
    size = plan.header.batch
    values = _recorded_values(plan, layers, count)
    names = {key: _array_name(key, number) for number, key in enumerate(values)}
    attributes = {
        "network": plan.header.name,
        "layers": [*values],
        "examples": count,
        "batch_size": size,
        "model": content_hash(plan.hash.encode(), *(w.hash.encode() for w in plan.header.weights)),
        "first_example": content_hash(np.ascontiguousarray(source.input_batch(range(1))).tobytes()),
    }
    group = _open_group(library, Path(path), attributes)
    with library.config.set({"array.write_empty_chunks": True}):
        arrays = {
            key: group.require_array(
                names[key],
                shape=(count, *value.shape[1:]),
                chunks=(size, *value.shape[1:]),
                dtype=value.dtype,
            )
            for key, value in values.items()
        }
        for key, array in arrays.items():
            own: dict[str, Any] = {
                "name": key,
                "shape": [*values[key].shape[1:]],
                "model": attributes["model"],
            }
            array.update_attributes(own)
        recorded = group.require_array(
            RECORDED_FLAGS_NAME, shape=(count,), chunks=(size,), dtype="bool"
        )
        _record_batches(plan, source, arrays, recorded, size, client)
    result: zarr.Group = library.open_group(path, mode="r")
    return result


def _record_batches(
    plan: Plan,
    source: _Examples,
    arrays: Mapping[str, Any],
    recorded: Any,
    batch_size: int,
    client: Any,
) -> None:
    from tqdm.auto import tqdm

    count, known = len(source), recorded[:]
    todo = [
        range(first, min(first + batch_size, count))
        for first in range(0, count, batch_size)
        if not known[first : first + batch_size].all()
    ]
    if not todo:
        return
    done = count - sum(map(len, todo))
    computed = _run_on_cluster if client is not None else _run_locally
    with tqdm(total=count, initial=done, unit="example", delay=3.0, leave=False) as bar:
        for rows, found in computed(plan, source, todo, [*arrays], client):
            for key, array in arrays.items():
                array[rows.start : rows.stop] = found[key]
            recorded[rows.start : rows.stop] = True  # last: a chunk only counts when it is complete
            bar.update(len(rows))


BatchValues = tuple[range, Mapping[str, Array]]


def _run_locally(
    plan: Plan, source: _Examples, pending_ranges: Sequence[range], keys: Sequence[str], _: Any
) -> Iterator[BatchValues]:
    with Session(plan) as session:
        for rows in pending_ranges:
            found = session.run(source.input_batch(rows))
            yield rows, {key: found[key] for key in keys}


def _run_on_cluster(
    plan: Plan, source: _Examples, pending_ranges: Sequence[range], keys: Sequence[str], client: Any
) -> Iterator[BatchValues]:
    from distributed import CancelledError, as_completed
    from distributed.comm.core import CommClosedError
    from distributed.scheduler import KilledWorker

    data = plan.to_bytes()
    name = content_hash(data)

    def submitted(rows: range) -> Any:
        # The Plan is one future for all chunks, so that each worker receives it once.
        return client.submit(
            compute_batch, shared[-1], name, source.input_batch(rows), [*keys], pure=False
        )

    def scattered() -> Any:
        for left in reversed(range(MAX_TRIES)):
            try:
                return client.scatter(data, broadcast=True, hash=False)
            except CommClosedError:  # a worker died while it received the Plan
                if not left:
                    raise
                time.sleep(RETRY_DELAY_S)

    # Every Plan that was sent: a chunk in flight may need an earlier one, which is freed when
    # unreferenced.
    shared = [scattered()]
    waiting, tries = iter(pending_ranges), dict.fromkeys(pending_ranges, 0)
    threads = sum(client.nthreads().values()) or 1
    in_flight = {submitted(rows): rows for rows in islice(waiting, TASKS_PER_THREAD * threads)}
    completed: Any = as_completed(in_flight)  # type: ignore[no-untyped-call]
    for future in completed:
        rows = in_flight.pop(future)
        try:
            found = future.result()
        except (CancelledError, KilledWorker):  # the Plan may have been lost with its worker
            tries[rows] += 1
            if tries[rows] >= MAX_TRIES:
                raise
            time.sleep(RETRY_DELAY_S)  # until the cluster knows the remaining workers
            if shared[-1].status != "finished":
                shared.append(scattered())
            again = submitted(rows)
        else:
            yield rows, found
            if (following := next(waiting, None)) is None:
                continue
            again, rows = submitted(following), following
        in_flight[again] = rows
        completed.add(again)


_sessions: dict[str, Session] = {}  # a worker's Session, by the hash of its Plan
_lock = threading.Lock()


def compute_batch(
    plan_bytes: bytes, plan_hash: str, x: Any, keys: Sequence[str]
) -> dict[str, Array]:
    """Compute one chunk on a worker, with a Session that its process keeps."""
    with _lock:
        if plan_hash not in _sessions:
            for old in _sessions.values():
                old.close()
            _sessions.clear()
            _sessions[plan_hash] = Session(Plan.from_bytes(plan_bytes))
        found = _sessions[plan_hash].run(x)
    return {key: found[key] for key in keys}


def _recorded_values(plan: Plan, layers: Sequence[str], count: int) -> dict[str, Value]:
    if isinstance(layers, str):
        raise InputError(f"record: layers is a list of names; {layers!r} was given: [{layers!r}]")
    known = {value.key: value for value in plan.header.values}
    for key in layers:
        if key not in known:
            raise KeyError(unknown_name_message(key, [*known], shared=plan.header.shared_modules))
        if not has_batch_axis(known[key], plan.header.batch):
            raise InputError(
                f"record: {key!r} of shape {known[key].shape} has no axis of {plan.header.batch} "
                "examples; omit it"
            )
        if known[key].kind != "input" and count != plan.header.batch:
            check_splittable(known[key], plan.header.batch, count, f"give batch_size={count}")
    return {key: known[key] for key in layers}


def _array_name(key: str, number: int) -> str:
    """The name of a layer's array: its key, if that is a safe file name on every system."""
    plain = re.fullmatch(r"[\w\-]([\w.\-]*[\w\-])?", key, re.ASCII)
    name = key if plain else quote(key, safe="").replace(".", "%2E")
    # No encoded key begins with a % and a letter after f.
    return (
        name
        if len(name) <= MAX_FILE_NAME_LENGTH and name != RECORDED_FLAGS_NAME
        else f"%layer{number}"
    )


def _open_group(library: Any, path: Path, attributes: dict[str, Any]) -> Any:
    if path.is_dir() and any(path.iterdir()):
        try:
            group = library.open_group(path, mode="r+")
        except (FileNotFoundError, ValueError):
            raise InputError(
                f"record: {path} exists and is not a Zarr group: give another path"
            ) from None
        if "network" not in group.attrs:
            raise InputError(f"record: {path} contains other data: give another path")
        for name, value in attributes.items():
            if group.attrs.get(name) != value:
                raise InputError(
                    f"record: {path} is a recording with {name} {group.attrs.get(name)!r}, not "
                    f"{value!r}: give another path, or delete it"
                )
        return group
    group = library.open_group(path, mode="w")
    group.update_attributes(attributes)
    return group


class _Examples:
    """Examples by index: slices of an array, or single items."""

    def __init__(self, items: Any, sliced: bool, names: Sequence[str] | None = None) -> None:
        self._items, self._is_array, self._names = items, sliced, names
        self._shape: tuple[int, ...] | None = None  # the shape of one example
        self.specs: list[InputSpec] | None = None  # the network's inputs, once it is compiled

    def __len__(self) -> int:
        return len(self._items)

    def raw_batch(self, rows: range) -> Any:
        """Return a batch of examples in their original form, as `compile` takes them."""
        if self._is_array:
            return self._items[rows.start : rows.stop]
        items = [self._item(row) for row in rows]
        if any(hasattr(one, "convert") for one in items):
            return items
        return np.concatenate([self._example(row) for row in rows])

    def input_batch(self, rows: range) -> Array:
        """Return a batch of examples as an array for the network's input."""
        if self._is_array:
            [array] = to_input_arrays(self._items[rows.start : rows.stop], self.specs)
            return array
        arrays = [self._example(row) for row in rows]
        return np.concatenate(arrays)

    def _example(self, row: int) -> Array:
        what = f"example {row}" if self._names is None else self._names[row]
        item = self._item(row)
        try:
            [array] = to_input_arrays([item], self.specs)
        except InputError as error:
            raise InputError(f"record: {what}: {error}") from None
        self._shape = self._shape or array.shape
        if array.shape != self._shape:
            raise InputError(
                f"record: {what} has the shape {array.shape[1:]}, the previous ones "
                f"{self._shape[1:]}: all need the same size"
            )
        return array

    def _item(self, row: int) -> Any:
        item = self._items[row]
        if isinstance(item, tuple | list) and item:
            item = item[0]  # the other elements are labels
        return read_picture(item, "record") if isinstance(item, Path) else item


def _open_examples(data: Any) -> _Examples:
    if isinstance(data, str | Path):
        check_local_path("record", str(data))
        folder = Path(data).expanduser()
        files = list_picture_folder(folder, "record").files
        return _Examples(files, False, [str(file.relative_to(folder)) for file in files])
    if hasattr(data, "shape") and hasattr(data, "dtype"):
        if not data.shape:
            raise InputError("record: a single number was given; expected an array of examples")
        return _Examples(data, True)
    if hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, Mapping):
        return _Examples(data, False)
    raise InputError(
        f"record: data is {type(data).__name__}; expected an array, a folder of pictures, a "
        "torch Dataset or a sequence of inputs"
    )


def _import_zarr() -> Any:
    try:
        import zarr
    except ImportError:
        raise ImportError(
            'record needs Zarr, which is not installed: pip install "nbglcnn[zarr]"'
        ) from None
    return zarr
