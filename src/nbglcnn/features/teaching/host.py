"""The host of a Viewer's teaching, started in Python and synced with the pages' examples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import traitlets

from nbglcnn import protocol
from nbglcnn.errors import InputError, NbglcnnError
from nbglcnn.features.feature import Feature, ViewerHost
from nbglcnn.features.teaching import teaching
from nbglcnn.features.teaching.feature_vectors import FeatureExtractor
from nbglcnn.features.teaching.head import new_id
from nbglcnn.features.teaching.lesson import Lesson
from nbglcnn.features.teaching.messages import MESSAGES, LessonUpdate
from nbglcnn.features.teaching.records import TeachingRecord
from nbglcnn.features.teaching.teaching import Teaching, TeachingBackend
from nbglcnn.graph import Array
from nbglcnn.protocol import DEFAULT_VIEW

NO_TEACHING_MESSAGE = "the view 'teach' needs a lesson: call viewer.teach(…) first"


class TeachingHost:
    """The host of the classifier head that a Viewer is taught on top of its network."""

    message_types = MESSAGES

    def __init__(self, host: ViewerHost) -> None:
        self._host = host
        self._network = host.network
        self.teaching: Teaching | None = None
        self._lesson: Lesson | None = None
        self._features: FeatureExtractor | None = None
        self._record: TeachingRecord | None = None  # last record sent to pages
        self._incoming_changes: dict[str, tuple[int, dict[int, bytes]]] = {}  # chunks by page
        self.feature = Feature(
            "teaching",
            traits={"_teaching": traitlets.Dict({}).tag(sync=True)},
            message_handlers={LessonUpdate: self._handle_lesson_update},
            find_blob=self._blob,
            on_edits_changed=self._on_network_changed,
            on_weights_changed=self._on_network_changed,
            weight_lock_reason=self._lock_reason,
            list_views=lambda: {"teach": "" if self._is_teaching else NO_TEACHING_MESSAGE},
        )

    def teach(
        self, classes: Iterable[str], cut: str | None, examples: Mapping[str, Any] | None, head: Any
    ) -> Teaching:
        """Start a teaching, as `Viewer.teach` does."""
        self._host.check_open()
        self._host.check_weights_unlocked("teaching")
        planned = self._network.plan.hash
        features = FeatureExtractor(self._network, cut)
        self._host.require_host("sources").prepare_network_for_source(features.input_key)
        features.ensure_observed()
        lesson = features.make_lesson(classes, examples, head)
        if self._network.plan.hash != planned:
            self._host.update_pages()
        if self._is_teaching and self.teaching is not None:
            self.teaching.stop()
        host = TeachingBackend(
            features, self._current_features, self._handle_python_change, self._stop_teaching
        )
        self._lesson, self._features = lesson, features
        self._record = features.to_record(new_id())
        self.teaching = Teaching(lesson, host)
        teaching.update_teaching_traits(self.teaching, trained=head is not None)
        self._publish()
        self._host.set_traits(view={**DEFAULT_VIEW, "name": "teach"})
        return self.teaching

    @property
    def _is_teaching(self) -> bool:
        return self.teaching is not None and self.teaching.state != "stopped"

    def _lock_reason(self) -> str:
        if not self._is_teaching:
            return ""
        return (
            "the network can't change while a classifier is taught on it. Call "
            "viewer.teaching.stop() first"
        )

    def _current_features(self) -> Array:
        features = self._features
        assert features is not None
        found: Array = features.extract_features(
            self._host.reader.read([features.layer]).arrays[0]
        )[0]
        return found

    # Pages

    def _handle_python_change(self) -> None:
        if self._record is not None:
            self._record = msgspec.structs.replace(self._record, sequence=self._record.sequence + 1)
        self._publish()

    def _publish(self) -> None:
        if self._record is not None and self._is_teaching:
            self._host.set_traits(_teaching=msgspec.to_builtins(self._record))

    def _stop_teaching(self) -> None:
        self._record = None
        self._host.set_traits(_teaching={})
        if self._host.get_trait("view")["name"] == "teach":
            self._host.set_traits(view=DEFAULT_VIEW)

    def _on_network_changed(self) -> None:
        """Update the lesson after a change of weights or bends, which may make features stale."""
        features, record = self._features, self._record
        if features is None or record is None or self.teaching is None or not self._is_teaching:
            return
        if features.weights_hash != record.weights_hash:
            self._record = msgspec.structs.replace(record, weights_hash=features.weights_hash)
            self._publish()
        teaching.update_teaching_traits(self.teaching)

    def _handle_lesson_update(self, message: LessonUpdate, buffers: Sequence[bytes]) -> None:
        if len(buffers) == 1:
            self._apply_update_chunk(message, buffers[0])
            self._publish()

    def _apply_update_chunk(self, message: LessonUpdate, chunk: bytes) -> None:
        record, lesson = self._record, self._lesson
        if record is None or lesson is None or self.teaching is None:
            return
        if message.teaching != record.id or message.number <= record.acknowledged.get(
            message.page, 0
        ):
            return
        number, parts = self._incoming_changes.get(message.page, (0, {}))
        if number != message.number:
            self._incoming_changes[message.page] = message.number, (parts := {})
        parts[message.chunk_index] = chunk
        if len(parts) < message.chunk_count:
            return
        del self._incoming_changes[message.page]
        data = b"".join(parts[k] for k in sorted(parts))
        try:
            if len(data) != message.total_bytes:
                raise InputError(f"{len(data)} of {message.total_bytes} bytes")
            is_applied = lesson.apply_change(message.change, data)
        except NbglcnnError as error:
            protocol.warn_once(f"ignored the page's lesson: {error}")
            is_applied = False
        heard = {**record.acknowledged, message.page: message.number}
        # If a change was invalid or lost, a new sequence number makes pages fetch a snapshot.
        missed = message.number > record.acknowledged.get(message.page, 0) + 1
        turn = record.sequence + (missed or not is_applied)
        self._record = msgspec.structs.replace(record, acknowledged=heard, sequence=turn)
        teaching.update_teaching_traits(
            self.teaching, trained=is_applied and message.change.kind == "head"
        )

    def _blob(self, name: str) -> memoryview | None:
        if self._lesson is None or self._record is None:
            return None
        if name.startswith(f"{self._record.id}."):
            listing = self._lesson.snapshot(self._record.sequence, self._record.acknowledged)
            return memoryview(msgspec.json.encode(listing))
        data = self._lesson.blob(name)
        return None if data is None else memoryview(data)

    def export_lesson(self) -> tuple[TeachingRecord, Lesson]:
        """Return the record and lesson for an exported page; InputError without a lesson."""
        if self._lesson is None or self._features is None:
            raise InputError(
                "teach=True: this Viewer has no lesson. Call viewer.teach(['cup', 'hand']) "
                "first, or give the classes: teach=['cup', 'hand']"
            )
        return self._features.to_record("page"), self._lesson
