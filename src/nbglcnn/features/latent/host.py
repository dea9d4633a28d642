"""Opening of latents for a network: check the layer, compute and pack the codes of the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from weakref import WeakSet

import msgspec
import numpy as np

from nbglcnn.errors import DeviceError, InputError, OpenGLUnavailable
from nbglcnn.features.feature import Feature, ViewerHost
from nbglcnn.features.latent.injection import inject_latent_code
from nbglcnn.features.latent.latent import (
    Latent,
    LatentBlobs,
    LatentCodes,
    LatentRecord,
    analyze_codes,
    code_size,
    make_thumbnails,
    sample_item_indices,
    validate_code,
    validate_layer,
)
from nbglcnn.features.sources.blocks import DatasetBlocks
from nbglcnn.features.sources.images import Images
from nbglcnn.features.sources.input_source import InputSource, find_input
from nbglcnn.features.sources.records import SourceRecord
from nbglcnn.graph import Array
from nbglcnn.inputs.arrays import native_array
from nbglcnn.lowering import lower
from nbglcnn.plan.schema import Float32, Input, Plan, Value
from nbglcnn.protocol import Messages
from nbglcnn.runtime.session import Session

if TYPE_CHECKING:
    from nbglcnn.widget.network import Network


class LatentHost:
    """The host that opens latents, which are sources, for a Viewer's network."""

    message_types = Messages()  # a latent uses the messages of the sources

    def __init__(self, host: ViewerHost) -> None:
        self._host = host
        self._network = host.network
        self._last_opened: tuple[Latent, LatentBlobs] | None = None  # the last opened
        self._outdated_codes: WeakSet[LatentCodes] = WeakSet()  # computed with earlier weights
        self.feature = Feature(
            "latent",
            find_blob=self._blob,
            on_weights_changed=self._mark_codes_outdated,
            close=self._close,
        )

    def open(self, latent: Latent) -> tuple[Latent, LatentBlobs]:
        """Open a latent as `open_latent` does; codes of earlier weights are recomputed."""
        known = latent.without_codes() if self.is_outdated(latent) else latent
        found, blobs = open_latent(self._network, known, self._last_opened)
        self._last_opened = replace(found, owner=""), blobs
        return self._last_opened

    def apply_source(self, record: SourceRecord | None) -> None:
        """Inject a latent's code into its layer; for any other source, remove the injection."""
        if isinstance(record, LatentRecord):
            inject_latent_code(self._network, record.input, record.code)
        elif self._network.latent_edit is not None:
            self._network.set_latent_injection(None)

    def is_outdated(self, source: InputSource) -> bool:
        """Whether a source is a latent whose codes belong to earlier weights."""
        return isinstance(source, Latent) and source.has_codes_in(*self._outdated_codes)

    def _mark_codes_outdated(self) -> None:
        """Mark the codes of the data as outdated, because the weights have changed."""
        if self._last_opened is not None and self._last_opened[0].data is not None:
            self._outdated_codes.add(self._last_opened[0].known)
            self._host.require_host("sources").recompute_codes()

    @property
    def dataset(self) -> tuple[Images, DatasetBlocks] | None:
        """The data of the last latent as Images, if it consists of pictures."""
        return None if self._last_opened is None else self._last_opened[1].dataset

    def _blob(self, name: str) -> memoryview | None:
        return None if self.dataset is None else self.dataset[1].blob(name)

    def _close(self) -> None:
        self._last_opened = None


def open_latent(
    network: Network, latent: Latent, last_opened: tuple[Latent, LatentBlobs] | None = None
) -> tuple[Latent, LatentBlobs]:
    """Return a latent with its code and the codes of its data, and their blobs for pages.

    The default code is the layer's value for the current input. Local OpenGL computes the codes, or
    without OpenGL the model's own framework. Codes that are known already, as those of
    `last_opened`, are kept.

    Raises:
        KeyError, InputError: If the network can't be cut at the layer, or an array doesn't fit.
    """
    value = validate_layer(network.plan, latent.layer)
    count = code_size(network.plan, value)
    code = None if latent.code is None else validate_code(latent.layer, latent.code, count)
    known = latent.known if latent.data is not None and latent.has_known_codes else None
    is_known = last_opened is not None and known is not None and last_opened[0].has_codes_in(known)
    if code is not None and is_known:
        assert last_opened is not None
        return latent.with_codes(code, known), last_opened[1]
    plain = find_input(latent, network.plan.inputs)
    record = msgspec.structs.replace(plain, shape=(1, *plain.shape[1:]))
    items = None
    if latent.data is not None:
        items = _LatentItems(
            latent, record, None if last_opened is None else last_opened[1].dataset
        )
    if code is None or (items is not None and known is None):
        with _LatentEncoder(network, value, record) as encode:
            if code is None:
                present = network.inputs[record.key]
                code = validate_code(latent.layer, encode(present[:1])[0], count)
            if items is not None and known is None:
                chosen = sample_item_indices(items.count, count)
                found = encode(items.load_batch(chosen))
                if not np.isfinite(found).all():
                    wrong = int(chosen[np.flatnonzero(~np.isfinite(found).all(1))[0]])
                    raise InputError(
                        f"Latent({latent.layer!r}): the code of item {wrong} of the data is not "
                        "finite; remove the item"
                    )
                known = analyze_codes(found, chosen, items.count)
    if items is None or known is None:
        return latent.with_codes(code, None), LatentBlobs()
    pictures = make_thumbnails(items.load_batch(known.items))
    data_set = items.dataset
    if data_set is not None and find_input(data_set[0], network.plan.inputs).key != record.key:
        data_set = None  # pages would feed it to the first compatible input
    blobs = LatentBlobs(known, pictures, items.labels, items.classes, data_set)
    return latent.with_codes(code, known), blobs


class _LatentEncoder:
    """Computes a layer's value for any number of examples, with shape (examples, numbers)."""

    def __init__(self, network: Network, value: Value, record: Input) -> None:
        self._network = network
        self._key = value.key
        self._input = record.key
        network.merge_weight_patches()
        self._plan: Plan = lower.lower(network.graph, observe=[value.key])
        self._session: Session | None = None

    def __enter__(self) -> _LatentEncoder:
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
        batch = self._plan.header.batch
        if self._session is None:
            return np.concatenate(
                [_flatten_examples(one, len(one)) for one in self._encode_with_framework(items)]
            )
        rest = {key: array for key, array in self._network.inputs.items() if key != self._input}
        count = len(items)
        items = np.repeat(items, batch, 0) if count == 1 else items  # the Plan takes whole batches
        found = self._session.run({self._input: items, **rest})[self._key]
        return _flatten_examples(found, len(items))[:count]

    def _encode_with_framework(self, items: Array) -> Iterator[Array]:
        network, batch = self._network, self._plan.header.batch
        for at in range(0, len(items), batch):
            piece = items[np.minimum(np.arange(at, at + batch), len(items) - 1)]
            own = {**network.inputs, self._input: piece}
            arrays = [own[record.key] for record in network.plan.inputs]
            found, _ = network.local.compute_reference(network.graph, arrays)
            yield found[self._key][: min(batch, len(items) - at)]


def _flatten_examples(array: Array, count: int) -> Float32:
    return np.ascontiguousarray(array, np.float32).reshape(count, -1)


def _is_same_data(one: Images, other: Images) -> bool:
    """Whether two data sets consist of the same objects."""
    ours, theirs = (
        (each.data, each.labels_argument, each.classes_argument)
        for each in (one.image_set, other.image_set)
    )
    return all(mine is its for mine, its in zip(ours, theirs, strict=True))


class _LatentItems:
    """The items of a latent's data, in the input's format: pictures as for Images, or arrays."""

    def __init__(
        self, latent: Latent, record: Input, earlier: tuple[Images, DatasetBlocks] | None
    ) -> None:
        self._record = record
        self._blocks: DatasetBlocks | None = None
        self.dataset: tuple[Images, DatasetBlocks] | None = None
        self.labels: Sequence[int] | None = None
        self.classes: Sequence[str] = ()
        if len(record.shape) == 4:
            images = Images(latent.data, latent.labels, latent.classes)
            if earlier is not None and _is_same_data(earlier[0], images):
                images = earlier[0]  # whose blocks pages already have
            self._blocks = images.open_blobs(record, None if earlier is None else earlier[1])
            self.dataset = images, self._blocks
            self.count = len(images)
            opened = images.image_set
            self.labels = None if opened.labels is None else opened.labels()
            self.classes = opened.classes
            return
        data = latent.data
        if hasattr(data, "detach"):
            data = data.detach().cpu().numpy()
        data = native_array(data, f"Latent({latent.layer!r}): data")
        if data.shape[1:] != record.shape[1:] or not len(data) or data.dtype.kind != "f":
            raise InputError(
                f"Latent({latent.layer!r}): data of shape {data.shape} and {data.dtype}; "
                f"expected floats of shape {('N', *record.shape[1:])}, as the input "
                f"{record.key!r} takes"
            )
        self._array = data
        self.count = len(data)

    def load_batch(self, indices: Array) -> Float32:
        """Return a batch of some items, float32."""
        if self._blocks is None:
            return np.ascontiguousarray(self._array[indices], np.float32)
        return np.concatenate([self._blocks.input_array(int(at)) for at in indices])
