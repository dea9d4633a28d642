"""A Viewer's teaching: begun here, its examples collected by a page, kept the same in both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import traitlets

from nbglcnn import protocol
from nbglcnn.errors import InputError, NbglcnnError
from nbglcnn.features.feature import Feature, Host
from nbglcnn.features.teaching import teaching
from nbglcnn.features.teaching.feature_vectors import Features
from nbglcnn.features.teaching.head import new_id
from nbglcnn.features.teaching.lesson import Lesson
from nbglcnn.features.teaching.messages import MESSAGES, Taught
from nbglcnn.features.teaching.records import TeachingRecord
from nbglcnn.features.teaching.teaching import FeatureSource, Teaching
from nbglcnn.graph import Array
from nbglcnn.protocol import FIRST_VIEW

NO_TEACHING = "there is no view 'teach' before viewer.teach(…) has begun a teaching"


class TeachingHost:
    """The head that a Viewer is taught behind its network."""

    messages = MESSAGES

    def __init__(self, host: Host) -> None:
        self._host = host
        self._network = host.network
        self.teaching: Teaching | None = None
        self._lesson: Lesson | None = None
        self._features: Features | None = None
        self._taught: TeachingRecord | None = None  # what pages were told last
        self._parts: dict[str, tuple[int, dict[int, bytes]]] = {}  # by page
        self.offers = Feature(
            "teaching",
            traits={"_teaching": traitlets.Dict({}).tag(sync=True)},
            messages={Taught: self._take_taught},
            blob=self._blob,
            edits_changed=self._network_changed,
            weights_changed=self._network_changed,
            claim=self._claim,
            views=lambda: {"teach": "" if self._teaches else NO_TEACHING},
        )

    def teach(
        self, classes: Iterable[str], cut: str | None, examples: Mapping[str, Any] | None, head: Any
    ) -> Teaching:
        """Begin a teaching; as `Viewer.teach`."""
        self._host.check_open()
        self._host.check_free("teaching")
        planned = self._network.plan.hash
        features = Features(self._network, cut)
        self._host.needed("sources").prepare(features.key)
        features.keep()
        lesson = features.lesson(classes, examples, head)
        if self._network.plan.hash != planned:
            self._host.show()
        if self._teaches and self.teaching is not None:
            self.teaching.stop()
        host = FeatureSource(features, self._features_now, self._taught_here, self._stop_teaching)
        self._lesson, self._features = lesson, features
        self._taught = features.record(new_id())
        self.teaching = Teaching(lesson, host)
        teaching.follow(self.teaching, trained=head is not None)
        self._tell_teaching()
        self._host.set(view={**FIRST_VIEW, "name": "teach"})
        return self.teaching

    @property
    def _teaches(self) -> bool:
        return self.teaching is not None and self.teaching.state != "stopped"

    def _claim(self) -> str:
        if not self._teaches:
            return ""
        return (
            "a head is being taught behind this network, which has to stay as it is: end that "
            "first, viewer.teaching.stop()"
        )

    def _features_now(self) -> Array:
        features = self._features
        assert features is not None
        found: Array = features.flat(self._host.reader.read([features.cut]).arrays[0])[0]
        return found

    # Pages

    def _taught_here(self) -> None:
        if self._taught is not None:
            self._taught = msgspec.structs.replace(self._taught, turn=self._taught.turn + 1)
        self._tell_teaching()

    def _tell_teaching(self) -> None:
        if self._taught is not None and self._teaches:
            self._host.set(_teaching=msgspec.to_builtins(self._taught))

    def _stop_teaching(self) -> None:
        self._taught = None
        self._host.set(_teaching={})
        if self._host.get("view")["name"] == "teach":
            self._host.set(view=FIRST_VIEW)

    def _network_changed(self) -> None:
        """Weights or bends are others: features may be stale."""
        features, record = self._features, self._taught
        if features is None or record is None or self.teaching is None or not self._teaches:
            return
        if features.weights != record.weights:
            self._taught = msgspec.structs.replace(record, weights=features.weights)
            self._tell_teaching()
        teaching.follow(self.teaching)

    def _take_taught(self, message: Taught, buffers: Sequence[bytes]) -> None:
        if len(buffers) == 1:
            self._take_change(message, buffers[0])
            self._tell_teaching()

    def _take_change(self, message: Taught, part: bytes) -> None:
        record, lesson = self._taught, self._lesson
        if record is None or lesson is None or self.teaching is None:
            return
        if message.teaching != record.id or message.number <= record.heard.get(message.page, 0):
            return
        number, parts = self._parts.get(message.page, (0, {}))
        if number != message.number:
            self._parts[message.page] = message.number, (parts := {})
        parts[message.part] = part
        if len(parts) < message.count:
            return
        del self._parts[message.page]
        data = b"".join(parts[k] for k in sorted(parts))
        try:
            if len(data) != message.bytes:
                raise InputError(f"{len(data)} of {message.bytes} bytes")
            understood = lesson.apply(message.change, data)
        except NbglcnnError as error:
            protocol.warn_once(f"ignored what the page taught: {error}")
            understood = False
        heard = {**record.heard, message.page: message.number}
        # A page that did what can't be, or of which something was lost, gets to know what there is.
        missed = message.number > record.heard.get(message.page, 0) + 1
        turn = record.turn + (missed or not understood)
        self._taught = msgspec.structs.replace(record, heard=heard, turn=turn)
        teaching.follow(self.teaching, trained=understood and message.change.what == "head")

    def _blob(self, name: str) -> memoryview | None:
        if self._lesson is None or self._taught is None:
            return None
        if name.startswith(f"{self._taught.id}."):
            listing = self._lesson.listing(self._taught.turn, self._taught.heard)
            return memoryview(msgspec.json.encode(listing))
        data = self._lesson.blob(name)
        return None if data is None else memoryview(data)

    def exported(self) -> tuple[TeachingRecord, Lesson]:
        """For a page of its own; InputError where nothing is taught."""
        if self._lesson is None or self._features is None:
            raise InputError(
                "teach=True: nothing is taught here; viewer.teach(['cup', 'hand']) begins that, or "
                "give the classes, as teach=['cup', 'hand']"
            )
        return self._features.record("page"), self._lesson
