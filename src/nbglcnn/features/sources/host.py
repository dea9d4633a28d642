"""The source of a Viewer's input: what Python and pages set, kept the same in both."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import traitlets

from nbglcnn import protocol
from nbglcnn.errors import InputError, NbglcnnError, users_line
from nbglcnn.features.feature import Feature, Host
from nbglcnn.features.sources.input_feed import InputFeed, is_equal
from nbglcnn.features.sources.input_source import Blobs, InputSource, chosen_input, feeding
from nbglcnn.features.sources.kinds import KINDS, Source
from nbglcnn.features.sources.messages import MESSAGES
from nbglcnn.features.sources.records import SourceRecord, blob_fields, data_of
from nbglcnn.graph import Array
from nbglcnn.plan.schema import Input

SOURCE = "_source"  # what pages and Python tell each other


class SourcesTrait(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the trait holds, in a record's words."""

    source: Source | None
    # How often Python had set a source when this was sent; None from clients that don't count.
    turn: int | None = None


class SourceTrait(traitlets.TraitType[Any, Any]):
    """`viewer.source`: a source that is set is on at once, or the old one stays."""

    def __init__(self, turn_on: Callable[[Any], InputSource | None]) -> None:
        self._turn_on = turn_on
        super().__init__(None)

    def validate(self, obj: Any, value: Any) -> InputSource | None:
        """The source as it is on then."""
        return self._turn_on(value)


class SourcesHost:
    """The source of a Viewer's input; the feature "latent" opens Latents and computes codes."""

    messages = MESSAGES

    def __init__(self, host: Host) -> None:
        self._host = host
        self._network = host.network
        self._connection = host.connection
        self.feed = InputFeed(host)
        self._record: InputSource | None = None
        self._following = False  # the trait `source` is set to what is so already
        self._turn = 0  # counts the sources that Python has set
        # The last of each kind whose blobs Python has: a page may go back to it.
        self._given: dict[str, tuple[InputSource, Blobs]] = {}
        # `source` isn't synced: the record that pages get has names for what this one holds.
        self.offers = Feature(
            "sources",
            traits={
                "source": SourceTrait(self._set_source),
                SOURCE: traitlets.Dict({"source": None, "turn": 0}).tag(sync=True),
            },
            shared=(SOURCE,),
            take=self._take_source,
            blob=self._blob,
            follow=self.feed.follow,
            close=self._given.clear,
        )

    # Python's side

    def inputs_of_now(self) -> tuple[Array, ...]:
        """Copies of all inputs; of one that pages feed what went in last."""
        found = {key: array.copy() for key, array in self._network.inputs.items()}
        if fed := self.feed.keys():
            found |= zip(fed, self._host.reader.read([], fed=fed).fed, strict=True)
        return tuple(found.values())

    def _set_source(self, source: Any) -> InputSource | None:
        """Turn it on, or the old one off; where that cannot be, the old one stays."""
        if self._following or source is self._record:
            return self._record
        if source is not None and not isinstance(source, InputSource):
            raise InputError(
                f"source is {type(source).__name__}; a source is needed, as nbglcnn.Webcam() or "
                "nbglcnn.Images(array), or None for off"
            )
        self._host.check_open()
        return self._begun(source)

    def _begun(self, source: InputSource | None) -> InputSource | None:
        """Have the network fed by a source that Python sets; the record that it is then."""
        if source is None:
            if self.feed.wire is not None:
                self.feed.adopt_now()
                self._tell_source(None)
                self._record = None
                self._host.show()
            return None
        if not source.feeds:
            return self._begun_latent(source)
        key = chosen_input(source, self._network.plan.inputs).key
        self._check_of_page(source)
        # All that can fail comes first: the item of now, then a network of one example.
        batch = self._network.plan.header.batch
        record = self._input_record(key, one=batch > 1)
        blobs = source.blobs(record, self._blobs_of(source.kind))
        tensor = source.tensor(record, blobs)
        if tensor is None:
            self.feed.adopt_now()
        self.feed.drop()
        self.prepare(key)
        if tensor is not None and not is_equal(tensor, self._network.inputs[key]):
            self._network.adopt(self._place(key), tensor)
        wire = source.wire(key)
        if blobs is not None:
            wire = msgspec.structs.replace(wire, **blobs.fields())
        now = self.feed.wire
        if now is not None and now.is_like(wire):
            wire = msgspec.structs.replace(wire, owner=now.owner)  # it goes on there
        return self._turned_on(replace(source, owner=wire.owner), wire, blobs)

    def _begun_latent(self, latent: InputSource) -> InputSource:
        """Cut the network at a latent's layer; the latent with its code and its data's codes."""
        host = self._host.needed("latent")
        self.feed.adopt_now()
        found, blobs = host.open(latent)
        self.feed.drop()
        wire = msgspec.structs.replace(found.wire(""), **blobs.fields())
        self.prepare(wire.input)
        return self._turned_on(found, wire, blobs)

    def _turned_on(
        self, source: InputSource, wire: SourceRecord, blobs: Blobs | None
    ) -> InputSource:
        if blobs is not None:
            self._given[wire.kind] = source, blobs
        self._tell_source(wire)
        self._record = source
        self._host.show()
        return source

    def code_again(self) -> None:
        """Compute the codes of a latent's data again, where a latent is on: weights are others."""
        if self._record is not None and not self._record.feeds:
            self._code_again(self._record)

    def _code_again(self, latent: InputSource) -> None:
        try:
            found = self._begun_latent(latent)
        except InputError as error:
            warnings.warn(
                f"the codes of the latent's data stay those of the weights before: {error}",
                UserWarning,
                stacklevel=users_line(),
            )
            return
        self._follow_record(found)

    def _check_of_page(self, source: InputSource) -> None:
        """InputError for what a page alone has, and has not now."""
        if not source.missing:
            return
        now = self.feed.wire
        then = source.wire("")
        titles = {getattr(one, "title", "") for one in (now, then)}
        if now is None or not now.is_like(then) or len(titles) > 1:
            raise InputError(
                f"{source!r} is {source.missing} that was chosen in a page, which has another "
                "source now: choose it there, or give the file (nbglcnn.Images([path]), "
                "nbglcnn.Video(path))"
            )

    def _input_record(self, key: str, *, one: bool) -> Input:
        """An own input's record; with `one` as it is in a network of one example."""
        record = next(each for each in self._network.plan.inputs if each.key == key)
        shape = (1, *record.shape[1:]) if one else record.shape
        return msgspec.structs.replace(record, shape=shape)

    def _place(self, key: str) -> int:
        return list(self._network.inputs).index(key)

    def prepare(self, key: str) -> None:
        """Make the network one of one example, whose input can be read."""
        network = self._network
        if (batch := network.plan.header.batch) > 1:
            if mixed := next(filter(None, (value.mixed for value in network.plan.values)), ""):
                raise InputError(
                    f"a source gives one example at a time, but {mixed!r} computes across the "
                    f"examples of a batch, {batch} of them here: give batches as viewer.input"
                )
            network.take_first()
            self._host.first_example(batch)
            warnings.warn(
                f"a source gives one example: the network was compiled again for the first of "
                f"{batch}, and its weights and edits stay. Make another Viewer for a batch",
                UserWarning,
                stacklevel=users_line(),
            )
        network.keep(key)

    def _blobs_of(self, kind: str) -> Blobs | None:
        given = self._given.get(kind)
        return given[1] if given else None

    def _take_data_of_latent(self, wire: SourceRecord) -> None:
        """A page goes back to the data of a latent: that is the data set of now."""
        latent = self._host.feature("latent")
        data_set = None if latent is None else latent.data_set
        if data_set is not None and wire.kind == "images" and data_of(wire) == data_set[1].name:
            self._given[wire.kind] = data_set

    def _blob(self, name: str) -> memoryview | None:
        """What pages ask for of a source: blocks, labels, classes, a film."""
        found = (blobs.blob(name) for _, blobs in self._given.values())
        return next((blob for blob in found if blob is not None), None)

    def exported(self) -> tuple[SourceRecord | None, Blobs | None]:
        """The source of now for a page of its own, which has no owner yet, and its blobs."""
        wire = self.feed.wire
        if wire is None or (self._record is not None and self._record.missing):
            return None, None  # a page alone has it: the last picture is the input
        return wire.exported(), self._blobs_of(wire.kind) if data_of(wire) else None

    def turn_off(self) -> None:
        """No source any more: its input was replaced."""
        self.feed.drop()
        if self.feed.wire is not None:
            self._tell_source(None)
            self._follow_record(None)

    def _follow_record(self, source: InputSource | None) -> None:
        self._record = source
        before, self._following = self._following, True
        try:
            self._host.set(source=source)
        finally:
            self._following = before

    def _tell_source(self, wire: SourceRecord | None) -> None:
        """Tell pages of a source that Python sets."""
        self._turn += 1
        self._went(wire)
        self._tell_again()

    def _tell_again(self) -> None:
        """Tell pages what is so."""
        self._host.set(_source={"source": _words(self.feed.wire), "turn": self._turn})

    def _went(self, wire: SourceRecord | None) -> None:
        """Another source is on, or the same with other settings."""
        self.feed.wire = wire
        self._connection.owner = wire.owner if wire else ""
        if latent := self._host.feature("latent"):
            latent.cut(wire)

    # The page's side

    def _take_source(self) -> None:
        """Take a source from a page, which has not checked it; an invalid one is undone."""
        planned = self._network.plan.hash
        try:
            told = _told(self._host.get(SOURCE))
            if told.turn is not None and told.turn < self._turn:
                self._tell_again()  # said before the page heard of what Python has set
                return
            wire, source = self._checked_source(told.source)
            if wire is not None:
                self.prepare(wire.input)
        except NbglcnnError as error:
            protocol.warn_once(f"ignored the page's source: {error}")
            self._tell_again()
            return
        self._turn = max(self._turn, told.turn or 0)  # of a Viewer that this one is linked to
        self.feed.ask_last(wire)
        self._went(wire)
        if source is not None and wire is not None and data_of(wire):
            self._given[wire.kind] = source, self._given[wire.kind][1]
        self._follow_record(source)
        latent = self._host.feature("latent")
        if source is not None and latent is not None and latent.is_outdated(source):
            self._code_again(source)
        if self._network.plan.hash != planned:
            self._host.show()

    def _checked_source(
        self, wire: SourceRecord | None
    ) -> tuple[SourceRecord | None, InputSource | None]:
        """What a page says, and the record of it; InputError where that cannot be."""
        if wire is None:
            return None, None
        now = self.feed.wire
        pages = self._connection.pages if wire.of_one_page else ()
        if wire.owner and wire.owner not in pages:
            raise InputError(
                f"{wire.kind} of the page {wire.owner!r}, which is none of this Viewer"
            )
        if not wire.is_finite():
            raise InputError(f"{wire.kind} with a number that is not finite")
        self._take_data_of_latent(wire)
        given = self._given.get(wire.kind)
        own, none = blob_fields(wire), blob_fields(type(wire)(input=""))
        if given is not None and own == {**none, **given[1].fields()}:
            source = given[0].followed(wire)  # InputError for an index beyond the last
        elif own != none:
            raise InputError(f"{wire.kind} of data that Python has not given to this Viewer")
        elif now is not None and self._record is not None and now.is_like(wire):
            source = self._record.followed(wire)
        elif KINDS[wire.kind].by_pages:
            source = KINDS[wire.kind].of(wire)
        else:
            raise InputError(f"{wire.kind} is for Python to give")
        if not wire.input:
            raise InputError(f"{wire.kind} of no input")
        return wire, feeding(source, wire.input, self._network.plan.inputs)


def _told(words: object) -> SourcesTrait:
    """What a page says; InputError where it is no source."""
    try:
        return msgspec.convert(words, SourcesTrait)
    except (msgspec.ValidationError, ValueError, TypeError, RecursionError) as error:
        raise InputError(str(error)) from None


def _words(wire: SourceRecord | None) -> Any:
    return None if wire is None else msgspec.to_builtins(wire)
