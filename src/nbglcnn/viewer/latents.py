"""Opens latents for a network: checks the layer, computes the codes of the data, packs them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from nbglcnn.errors import DeviceError, InputError, OpenGLUnavailable
from nbglcnn.graph import Array
from nbglcnn.lowering import lower
from nbglcnn.plan import Float32, Input, Plan, Value, content_hash
from nbglcnn.session import Session
from nbglcnn.sources.latent import (
    Codes,
    Latent,
    checked_code,
    checked_layer,
    known_of,
    numbers_of,
    packed,
    small_pictures,
    spread,
)
from nbglcnn.sources.records import Source
from nbglcnn.viewer.network import Network

AT_ONCE = 64  # items that are brought together


def opened(network: Network, latent: Latent) -> Latent:
    """A latent with its code, and the codes of its data: those that it knows already stay.

    Without a code it begins with the layer's value for the present input. The codes are computed
    by local OpenGL, or where there is none by the model's own framework.

    Raises:
        KeyError, InputError: the layer can't be cut at, or an array doesn't fit.
    """
    value = checked_layer(network.plan, latent.layer)
    count = numbers_of(network.plan, value)
    known = latent.known if latent.data is not None and latent.is_open else None
    given = latent.code
    code = None if given is None else checked_code(latent.layer, given, count)
    record = network.plan.inputs[0]
    items = None if latent.data is None or known is not None else _items(latent.data, record)
    if items is None and code is not None:
        return latent.opened(code, known)
    with _Encoder(network, value) as encode:
        if code is None:
            first = encode(np.asarray(network.arrays[0][:1] if record.shape else network.arrays[0]))
            code = checked_code(latent.layer, first[0], count)
        if items is not None:
            chosen = spread(len(items), count)
            found = encode(_brought(items[chosen], record))
            if not np.isfinite(found).all():
                wrong = int(chosen[np.flatnonzero(~np.isfinite(found).all(1))[0]])
                raise InputError(
                    f"Latent({latent.layer!r}): the code of item {wrong} of the data is not "
                    "finite; leave it out"
                )
            known = known_of(found, chosen, len(items))
    return latent.opened(code, known)


def wire(network: Network, latent: Latent) -> tuple[Source, dict[str, bytes]]:
    """An opened latent in the words of pages, and the blobs that these name."""
    assert latent.code is not None
    code = tuple(float(one) for one in latent.code)
    if latent.data is None:
        return Source(kind="latent", input=latent.layer, code=code), {}
    known = latent.known
    record = network.plan.inputs[0]
    items = _items(latent.data, record)
    labels = _labels(latent.labels, known)
    parts = {
        "data": packed(known, small_pictures(_brought(items[known.items], record))),
        "labels": b"" if labels is None else json.dumps(labels).encode(),
        "classes": json.dumps([str(one) for one in latent.classes]).encode()
        if latent.classes is not None
        else b"",
    }
    names = {field: content_hash(part) if part else "" for field, part in parts.items()}
    blobs = {names[field]: part for field, part in parts.items() if part}
    source = Source(
        kind="latent",
        input=latent.layer,
        code=code,
        count=known.total,
        data=names["data"],
        labels=names["labels"],
        classes=names["classes"],
    )
    return source, blobs


def followed(network: Network, latent: Latent, source: Source) -> Latent:
    """The latent as a page has moved it; InputError for a code that doesn't fit."""
    value = checked_layer(network.plan, latent.layer)
    count = numbers_of(network.plan, value)
    return latent.with_code(checked_code(latent.layer, source.code, count))


class _Encoder:
    """Computes a layer's value for any number of examples, as (examples, numbers)."""

    def __init__(self, network: Network, value: Value) -> None:
        self._network = network
        self._key = value.key
        network.hash_weights()
        self._plan: Plan = lower.lower(network.graph, observe=[value.key])
        self._session: Session | None = None

    def __enter__(self) -> _Encoder:
        if not self._plan.in_python:
            try:
                self._session = Session(self._plan)
            except (OpenGLUnavailable, DeviceError):
                self._session = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._session is not None:
            self._session.close()

    def __call__(self, items: Array) -> Float32:
        arrays = self._network.arrays
        first, *others = (one.key for one in self._plan.inputs)
        if self._session is not None:
            rest = dict(zip(others, arrays[1:], strict=True))
            batch = self._plan.header.batch
            if batch > 1 and len(items) == 1:  # of one example that alone is not a batch
                items = np.repeat(items, batch, 0)
                return _rows(self._session.run({first: items, **rest})[self._key], batch)[:1]
            return _rows(self._session.run({first: items, **rest})[self._key], len(items))
        return np.concatenate([_rows(one, len(one)) for one in self._by_framework(items, arrays)])

    def _by_framework(self, items: Array, arrays: Any) -> Iterator[Array]:
        batch = self._plan.header.batch
        for at in range(0, len(items), batch):
            piece = items[np.minimum(np.arange(at, at + batch), len(items) - 1)]
            graph, model = self._network.graph, self._network
            found, _ = model.local.reference(graph, (piece, *arrays[1:]))
            yield found[self._key][: min(batch, len(items) - at)]


def _rows(array: Array, count: int) -> Float32:
    return np.ascontiguousarray(array, np.float32).reshape(count, -1)


def _items(data: Any, record: Input) -> Array:
    """The data as an array of items; a view where it is one."""
    if hasattr(data, "detach"):
        data = data.detach().cpu().numpy()
    items = np.asarray(data)
    shape = record.shape[1:]
    if items.ndim == len(shape) and shape[:1] == (1,):
        items = items[:, None]
    if items.shape[1:] != shape or not len(items) or items.dtype.kind not in "fu":
        raise InputError(
            f"Latent: data of shape {items.shape} and {items.dtype}; items of {shape} are needed, "
            "float32 or uint8"
        )
    return items


def _brought(items: Array, record: Input) -> Float32:
    """Items as the input takes them: of bytes 255 is 1."""
    del record
    if items.dtype == np.uint8:
        return (items / np.float32(255)).astype(np.float32)
    return np.ascontiguousarray(items, np.float32)


def _labels(labels: Any, known: Codes) -> list[int] | None:
    """The labels of the items whose codes are known."""
    if labels is None:
        return None
    if hasattr(labels, "detach"):
        labels = labels.detach().cpu().numpy()
    numbers = np.asarray(labels)
    if numbers.shape != (known.total,) or numbers.dtype.kind not in "iu":
        raise InputError(
            f"Latent: labels of shape {numbers.shape} and {numbers.dtype}; a whole number for each "
            f"of {known.total} items is needed"
        )
    return [int(one) for one in numbers[known.items]]
