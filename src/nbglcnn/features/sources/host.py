"""The host of a Viewer's source, which syncs the sources that Python and pages set."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import traitlets

from nbglcnn import protocol
from nbglcnn.errors import InputError, NbglcnnError, user_stacklevel
from nbglcnn.features.feature import Feature, ViewerHost
from nbglcnn.features.sources.input_feed import InputFeed, is_bit_equal
from nbglcnn.features.sources.input_source import (
    InputSource,
    SourceBlobs,
    find_input,
    with_input_key,
)
from nbglcnn.features.sources.messages import MESSAGES
from nbglcnn.features.sources.records import SourceRecord, blob_field_values, data_blob_name
from nbglcnn.features.sources.source_kinds import SOURCE_KINDS, Source
from nbglcnn.graph import Array
from nbglcnn.plan.schema import Input

SOURCE_TRAIT = "_source"  # synced between pages and Python


class SourceTraitValue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The value of the synced trait: a source as a record."""

    source: Source | None
    # The number of sources that Python had set when this was sent; None from clients that don't
    # count.
    turn: int | None = None


class SourceTrait(traitlets.TraitType[Any, Any]):
    """The trait `viewer.source`: setting it starts the source, or raises and keeps the old one."""

    def __init__(self, start_source: Callable[[Any], InputSource | None]) -> None:
        self._turn_on = start_source
        super().__init__(None)

    def validate(self, obj: Any, value: Any) -> InputSource | None:
        """Return the source as it was started."""
        return self._turn_on(value)


class SourcesHost:
    """The host of a Viewer's source; the feature "latent" opens Latents and computes codes."""

    message_types = MESSAGES

    def __init__(self, host: ViewerHost) -> None:
        self._host = host
        self._network = host.network
        self._connection = host.connection
        self.feed = InputFeed(host)
        self._source: InputSource | None = None
        self._is_syncing_trait = False  # `source` is being set to the current value
        self._sequence = 0  # number of sources that Python has set
        # By kind, the last source whose blobs Python has: a page may select it again.
        self._last_by_kind: dict[str, tuple[InputSource, SourceBlobs]] = {}
        # `source` isn't synced: pages get a record with the names of its blobs.
        self.feature = Feature(
            "sources",
            traits={
                "source": SourceTrait(self._set_from_python),
                SOURCE_TRAIT: traitlets.Dict({"source": None, "turn": 0}).tag(sync=True),
            },
            page_writable_traits=(SOURCE_TRAIT,),
            on_traits_changed=self._handle_traits,
            find_blob=self._blob,
            on_message_handled=self.feed.poll,
            close=self._last_by_kind.clear,
        )

    # Changes from Python

    def current_inputs(self) -> tuple[Array, ...]:
        """Return copies of all inputs; for one that pages feed, the last array that was fed."""
        found = {key: array.copy() for key, array in self._network.inputs.items()}
        if fed := self.feed.fed_keys():
            found |= zip(
                fed, self._host.reader.read([], source_input_keys=fed).source_inputs, strict=True
            )
        return tuple(found.values())

    def _set_from_python(self, source: Any) -> InputSource | None:
        """Start a source, or stop the current one for None; on failure the current one stays."""
        if self._is_syncing_trait or source is self._source:
            return self._source
        if source is not None and not isinstance(source, InputSource):
            raise InputError(
                f"source is {type(source).__name__}; expected a source, as nbglcnn.Webcam() or "
                "nbglcnn.Images(array), or None for off"
            )
        self._host.check_open()
        return self._start_source(source)

    def _start_source(self, source: InputSource | None) -> InputSource | None:
        """Start a source that Python sets; return the source with its owner."""
        if source is None:
            if self.feed.record is not None:
                self.feed.adopt_now()
                self._publish_source(None)
                self._source = None
                self._host.update_pages()
            return None
        if not source.feeds_input:
            return self._start_latent(source)
        key = find_input(source, self._network.plan.inputs).key
        self._check_page_owned(source)
        # Everything that can fail comes first: loading the current item, then the recompilation for
        # one example.
        batch = self._network.plan.header.batch
        record = self._model_input(key, is_single_example=batch > 1)
        blobs = source.open_blobs(record, self._last_blobs_of_kind(source.kind))
        tensor = source.current_input_array(record, blobs)
        if tensor is None:
            self.feed.adopt_now()
        self.feed.cancel_read()
        self.prepare_network_for_source(key)
        if tensor is not None and not is_bit_equal(tensor, self._network.inputs[key]):
            self._network.set_input_array(self._input_index(key), tensor)
        wire = source.to_record(key)
        if blobs is not None:
            wire = msgspec.structs.replace(wire, **blobs.record_fields())
        now = self.feed.record
        if now is not None and now.is_same_source(wire):
            wire = msgspec.structs.replace(wire, owner=now.owner)  # it continues there
        return self._activate(replace(source, owner=wire.owner), wire, blobs)

    def _start_latent(self, latent: InputSource) -> InputSource:
        """Start a latent: cut the network at its layer, compute its code and its data's codes."""
        host = self._host.require_host("latent")
        self.feed.adopt_now()
        found, blobs = host.open(latent)
        self.feed.cancel_read()
        wire = msgspec.structs.replace(found.to_record(""), **blobs.record_fields())
        self.prepare_network_for_source(wire.input)
        return self._activate(found, wire, blobs)

    def _activate(
        self, source: InputSource, record: SourceRecord, blobs: SourceBlobs | None
    ) -> InputSource:
        if blobs is not None:
            self._last_by_kind[record.kind] = source, blobs
        self._publish_source(record)
        self._source = source
        self._host.update_pages()
        return source

    def recompute_codes(self) -> None:
        """Recompute the codes of an active latent's data, because the weights have changed."""
        if self._source is not None and not self._source.feeds_input:
            self._recompute_codes(self._source)

    def _recompute_codes(self, latent: InputSource) -> None:
        try:
            found = self._start_latent(latent)
        except InputError as error:
            warnings.warn(
                f"the codes of the latent's data still belong to the previous weights: {error}",
                UserWarning,
                stacklevel=user_stacklevel(),
            )
            return
        self._sync_source_trait(found)

    def _check_page_owned(self, source: InputSource) -> None:
        """Raise InputError for content that only a page has, unless its source is current."""
        if not source.page_only_content:
            return
        now = self.feed.record
        then = source.to_record("")
        titles = {getattr(one, "title", "") for one in (now, then)}
        if now is None or not now.is_same_source(then) or len(titles) > 1:
            raise InputError(
                f"{source!r} is {source.page_only_content} that was chosen in a page, which now "
                "has another source: choose it there, or give the file (nbglcnn.Images([path]), "
                "nbglcnn.Video(path))"
            )

    def _model_input(self, key: str, *, is_single_example: bool) -> Input:
        """Return the record of an input; `is_single_example` gives that of a batch of one."""
        record = next(each for each in self._network.plan.inputs if each.key == key)
        shape = (1, *record.shape[1:]) if is_single_example else record.shape
        return msgspec.structs.replace(record, shape=shape)

    def _input_index(self, key: str) -> int:
        return list(self._network.inputs).index(key)

    def prepare_network_for_source(self, input_key: str) -> None:
        """Reduce the network to one example, and keep its input readable."""
        network = self._network
        if (batch := network.plan.header.batch) > 1:
            if mixed := next(
                filter(None, (value.mixing_layer for value in network.plan.values)), ""
            ):
                raise InputError(
                    f"a source gives one example at a time, but {mixed!r} computes across the "
                    f"examples of a batch, {batch} of them here: give batches as viewer.input"
                )
            network.reduce_to_one_example()
            self._host.notify_batch_reduced(batch)
            warnings.warn(
                "a source gives one example: the network was recompiled for the first of "
                f"{batch}, with its weights and edits. Create another Viewer for a batch",
                UserWarning,
                stacklevel=user_stacklevel(),
            )
        network.ensure_observed(input_key)

    def _last_blobs_of_kind(self, kind: str) -> SourceBlobs | None:
        given = self._last_by_kind.get(kind)
        return given[1] if given else None

    def _restore_latent_data(self, record: SourceRecord) -> None:
        """If a page selects a latent's data as its source, make these images the known data set."""
        latent = self._host.find_host("latent")
        data_set = None if latent is None else latent.dataset
        if (
            data_set is not None
            and record.kind == "images"
            and data_blob_name(record) == data_set[1].name
        ):
            self._last_by_kind[record.kind] = data_set

    def _blob(self, name: str) -> memoryview | None:
        """Return a source's blob for pages: a block, labels, classes or a video."""
        found = (blobs.blob(name) for _, blobs in self._last_by_kind.values())
        return next((blob for blob in found if blob is not None), None)

    def export_source(self) -> tuple[SourceRecord | None, SourceBlobs | None]:
        """Return the current source without an owner, and its blobs, for an exported page."""
        wire = self.feed.record
        if wire is None or (self._source is not None and self._source.page_only_content):
            return None, None  # only a page has it: the input is its last picture
        return wire.for_export(), self._last_blobs_of_kind(wire.kind) if data_blob_name(
            wire
        ) else None

    def remove_source(self) -> None:
        """Remove the source, because its input was replaced."""
        self.feed.cancel_read()
        if self.feed.record is not None:
            self._publish_source(None)
            self._sync_source_trait(None)

    def _sync_source_trait(self, source: InputSource | None) -> None:
        self._source = source
        before, self._is_syncing_trait = self._is_syncing_trait, True
        try:
            self._host.set_traits(source=source)
        finally:
            self._is_syncing_trait = before

    def _publish_source(self, record: SourceRecord | None) -> None:
        """Send a source that Python sets to pages."""
        self._sequence += 1
        self._apply_record(record)
        self._publish()

    def _publish(self) -> None:
        """Send the current source to pages."""
        self._host.set_traits(
            _source={"source": _record_to_dict(self.feed.record), "turn": self._sequence}
        )

    def _apply_record(self, record: SourceRecord | None) -> None:
        """Apply a new source, or new settings of the current one."""
        self.feed.record = record
        self._connection.source_page_id = record.owner if record else ""
        if latent := self._host.find_host("latent"):
            latent.apply_source(record)

    # Changes from pages

    def _handle_traits(self) -> None:
        """Apply a page's source after validation; if it is invalid, send the current one back."""
        plan_hash_before = self._network.plan.hash
        try:
            trait_value = _parse_trait_value(self._host.get_trait(SOURCE_TRAIT))
            if trait_value.turn is not None and trait_value.turn < self._sequence:
                self._publish()  # sent before the page received Python's latest source
                return
            wire, source = self._validate_source(trait_value.source)
            if wire is not None:
                self.prepare_network_for_source(wire.input)
        except NbglcnnError as error:
            protocol.warn_once(f"ignored the page's source: {error}")
            self._publish()
            return
        # Larger if it comes from a linked Viewer.
        self._sequence = max(self._sequence, trait_value.turn or 0)
        self.feed.request_last(wire)
        self._apply_record(wire)
        if source is not None and wire is not None and data_blob_name(wire):
            self._last_by_kind[wire.kind] = source, self._last_by_kind[wire.kind][1]
        self._sync_source_trait(source)
        latent = self._host.find_host("latent")
        if source is not None and latent is not None and latent.is_outdated(source):
            self._recompute_codes(source)
        if self._network.plan.hash != plan_hash_before:
            self._host.update_pages()

    def _validate_source(
        self, record: SourceRecord | None
    ) -> tuple[SourceRecord | None, InputSource | None]:
        """Validate a page's record and return it with its source; InputError if it is invalid."""
        if record is None:
            return None, None
        now = self.feed.record
        pages = self._connection.pages if record.page_owned else ()
        if record.owner and record.owner not in pages:
            raise InputError(f"{record.kind}: page {record.owner!r} doesn't belong to this Viewer")
        if not record.is_finite():
            raise InputError(f"{record.kind} with a number that is not finite")
        self._restore_latent_data(record)
        given = self._last_by_kind.get(record.kind)
        own, none = blob_field_values(record), blob_field_values(type(record)(input=""))
        if given is not None and own == {**none, **given[1].record_fields()}:
            source = given[0].updated_from(record)  # InputError if the index is out of range
        elif own != none:
            raise InputError(f"{record.kind} of data that this Viewer does not have")
        elif now is not None and self._source is not None and now.is_same_source(record):
            source = self._source.updated_from(record)
        elif SOURCE_KINDS[record.kind].pages_can_start:
            source = SOURCE_KINDS[record.kind].from_record(record)
        else:
            raise InputError(f"{record.kind} can only be set from Python")
        if not record.input:
            raise InputError(f"{record.kind} without an input")
        return record, with_input_key(source, record.input, self._network.plan.inputs)


def _parse_trait_value(value: object) -> SourceTraitValue:
    """Parse a page's trait value; InputError if it is invalid."""
    try:
        return msgspec.convert(value, SourceTraitValue)
    except (msgspec.ValidationError, ValueError, TypeError, RecursionError) as error:
        raise InputError(str(error)) from None


def _record_to_dict(record: SourceRecord | None) -> Any:
    return None if record is None else msgspec.to_builtins(record)
