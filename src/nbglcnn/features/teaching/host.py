"""A Viewer's teaching: begun here, its examples collected by a page, kept the same in both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import traitlets

from nbglcnn.errors import InputError, NbglcnnError
from nbglcnn.features.sources.host import Sourced
from nbglcnn.features.teaching import teaching
from nbglcnn.features.teaching.feature_vectors import Features
from nbglcnn.features.teaching.head import new_id
from nbglcnn.features.teaching.lesson import Lesson
from nbglcnn.features.teaching.records import TeachingRecord
from nbglcnn.features.teaching.teaching import Teaching, TeachingHost
from nbglcnn.features.training.host import Trains
from nbglcnn.graph import Array
from nbglcnn.widget import protocol
from nbglcnn.widget.display_traits import Shown
from nbglcnn.widget.traits import FIRST_VIEW


class Teaches(Sourced, Shown, Trains):
    """Mixin: a head that a Viewer is taught behind its network."""

    _teaching: traitlets.Dict[str, Any] = traitlets.Dict({}).tag(sync=True)

    def _begin_training(self) -> None:
        super()._begin_training()
        self.teaching: Teaching | None = None
        self._lesson: Lesson | None = None
        self._features: Features | None = None
        self._taught: TeachingRecord | None = None  # what pages were told last
        self._taught_parts: dict[str, tuple[int, dict[int, bytes]]] = {}  # by page

    def teach(
        self,
        classes: Iterable[str] = (),
        cut: str | None = None,
        *,
        examples: Mapping[str, Any] | None = None,
        head: Any = None,
    ) -> Teaching:
        """Teach a small head behind the frozen network, with examples that the page collects.

        The page's Teach tab has a row for each class: hold its button while the camera, a drawing
        or other pictures go in. What this returns, `viewer.teaching`, has the examples and the
        head. A picture's features, the value `cut`, are computed once; examples are in the page and
        in this kernel, and go nowhere else. Without a page `teaching.add(name, pictures)` and
        `teaching.train()` do the same here. An earlier teaching ends.

        Args:
            classes: their names; by default those of `examples`, else "class 1" and "class 2".
            cut: the name of the value that has the features; of one with more than 4,096 numbers
                the means over height and width. By default what the last Linear reads; where there
                is none, the layer with the fewest numbers.
            examples: pictures to begin with, by class, each as `teaching.add` takes them.
            head: what `teaching.head()` gave, for these classes in their order.

        Raises:
            KeyError: there is no value `cut`.
            InputError: the network takes no pictures or is being trained, its layers are computed
                in Python, `cut` has too many numbers, or what is given doesn't fit.
        """
        self._check_open()
        if self.training is not None and self.training.state != "stopped":
            raise InputError(
                "the network is being trained, and its features change: stop that first, "
                "viewer.training.stop()"
            )
        super()._check_trainable()  # nor may a loop that is mirrored change it
        planned = self.network.plan.hash
        features = Features(self.network, cut)
        self._prepare(features.key)
        features.keep()
        lesson = features.lesson(classes, examples, head)
        if self.network.plan.hash != planned:
            self._show()
        if self._teaches and self.teaching is not None:
            self.teaching.stop()
        host = TeachingHost(features, self._features_now, self._taught_here, self._stop_teaching)
        self._lesson, self._features = lesson, features
        self._taught = features.record(new_id())
        self.teaching = Teaching(lesson, host)
        teaching.follow(self.teaching, trained=head is not None)
        self._tell_teaching()
        self.view = {**FIRST_VIEW, "name": "teach"}
        return self.teaching

    def _check_trainable(self) -> None:
        super()._check_trainable()
        if self._teaches:
            raise InputError(
                "a head is being taught behind this network, which has to stay as it is: end that "
                "first, viewer.teaching.stop()"
            )

    @property
    def _teaches(self) -> bool:
        return self.teaching is not None and self.teaching.state != "stopped"

    def _features_now(self) -> Array:
        features = self._features
        assert features is not None
        found: Array = features.flat(self._reader.read([features.cut]).arrays[0])[0]
        return found

    # Pages

    def _taught_here(self) -> None:
        if self._taught is not None:
            self._taught = msgspec.structs.replace(self._taught, turn=self._taught.turn + 1)
        self._tell_teaching()

    def _tell_teaching(self) -> None:
        if self._taught is not None and self._teaches:
            self._teaching = msgspec.to_builtins(self._taught)

    def _stop_teaching(self) -> None:
        self._taught = None
        self._teaching = {}
        if self.view["name"] == "teach":
            self.view = FIRST_VIEW

    @traitlets.observe("_edits")
    def _network_changed(self, _: Any) -> None:
        """Weights or bends are others: features may be stale."""
        features, record = self._features, self._taught
        if features is None or record is None or self.teaching is None or not self._teaches:
            return
        if features.weights != record.weights:
            self._taught = msgspec.structs.replace(record, weights=features.weights)
            self._tell_teaching()
        teaching.follow(self.teaching)

    def _follow_weights(self) -> None:
        super()._follow_weights()
        self._network_changed(None)

    def _follow_training(self) -> None:
        super()._follow_training()
        said, self._connection.taught = self._connection.taught, []
        for message, data in said:
            self._take_taught(message, data)
        if said:
            self._tell_teaching()

    def _take_taught(self, message: protocol.Taught, part: bytes) -> None:
        record, lesson = self._taught, self._lesson
        if record is None or lesson is None or self.teaching is None:
            return
        if message.teaching != record.id or message.number <= record.heard.get(message.page, 0):
            return
        number, parts = self._taught_parts.get(message.page, (0, {}))
        if number != message.number:
            self._taught_parts[message.page] = message.number, (parts := {})
        parts[message.part] = part
        if len(parts) < message.count:
            return
        del self._taught_parts[message.page]
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

    def _training_blob(self, name: str) -> memoryview | None:
        found = super()._training_blob(name)
        if found is not None or self._lesson is None or self._taught is None:
            return found
        if name.startswith(f"{self._taught.id}."):
            listing = self._lesson.listing(self._taught.turn, self._taught.heard)
            return memoryview(msgspec.json.encode(listing))
        data = self._lesson.blob(name)
        return None if data is None else memoryview(data)

    def _exported_teaching(self) -> tuple[TeachingRecord, Lesson]:
        """For a page of its own; InputError where nothing is taught."""
        if self._lesson is None or self._features is None:
            raise InputError(
                "teach=True: nothing is taught here; viewer.teach(['cup', 'hand']) begins that, or "
                "give the classes, as teach=['cup', 'hand']"
            )
        return self._features.record("page"), self._lesson
