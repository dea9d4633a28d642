"""Pages of a Viewer without a browser: they keep what Python sends, and answer as a page does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from nbglcnn import Viewer
from nbglcnn.plan.schema import Target
from nbglcnn.protocol import CHUNK, parts_of
from nbglcnn.runtime.session import Session
from nbglcnn.widget.reading import BEFORE
from nbglcnn.widget.viewer import MESSAGES


class ScriptedPage:
    """One page. `fed` is what its source gives, by the key of the input; else Python's inputs are.

    It answers reads and probes at once, by local OpenGL, unless it is `silent`.
    """

    def __init__(self, wires: Wires, name: str) -> None:
        self.wires = wires
        self.viewer = wires.viewer
        self.name = name
        self.fed: dict[str, np.ndarray] = {}
        self.got: list[dict[str, Any]] = []
        self.blobs: dict[str, bytearray] = {}
        self.state: dict[str, Any] = {}
        self.silent = False
        self.waiting: list[dict[str, Any]] = []  # reads that came while it spoke
        self.speaking = 0
        self.session: Session | None = None
        self.say("hello", version="0.1.0", protocol=MESSAGES.digest, have=[],
                 renderer=f"GPU of {name}", target=msgspec.to_builtins(Target()),
                 problem="")  # fmt: skip

    def say(self, kind: str, buffers: list[memoryview] | None = None, **fields: Any) -> None:
        message = {"type": kind, "page": self.name, **fields}
        self._speak(lambda: self.viewer._handle_custom_msg(message, buffers or []))

    def _speak(self, words: Callable[[], None]) -> None:
        """No answer comes before Python is done with the question's cause."""
        self.speaking += 1
        try:
            words()
        finally:
            self.speaking -= 1
        while self.waiting and not self.speaking:
            self.answer(self.waiting.pop(0))

    def choose(self, **source: Any) -> None:
        """What the drawer does: the trait, in the words of the last one."""
        now = self.viewer.get_state()["_source"]["source"]
        blank = {"input": "input"} if now is None or "kind" in source else now
        self._say_source({**blank, **source})

    def turn_off(self) -> None:
        """No source any more."""
        self._say_source(None)

    def _say_source(self, source: dict[str, Any] | None) -> None:
        words = {"source": source, "turn": self.viewer.get_state()["_source"]["turn"]}
        self._speak(lambda: self.viewer.set_state({"_source": words}))

    def tell(self, *, still: bool, rate: float = 0.0) -> None:
        self.say("fed", still=still, rate=rate)

    def feed(self, array: np.ndarray, *, still: bool = True, key: str = "input") -> None:
        """A picture of its source."""
        self.fed[key] = np.asarray(array, np.float32)
        self.tell(still=still)

    def need(self, name: str) -> bytes | None:
        """A blob that it asks for; None where none comes."""
        self.blobs.pop(name, None)
        self.say("need", blob=name, parts=[])
        found = self.blobs.get(name)
        return None if found is None else bytes(found)

    def asked(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.got if message["type"] == kind]

    def take(self, message: dict[str, Any], buffers: list[memoryview]) -> None:
        self.got.append(message)
        if message["type"] == "state":
            self.state = message
        if message["type"] == "part":
            name, at = message["blob"], message["part"] * CHUNK
            whole = self.blobs.setdefault(name, bytearray(message["bytes"]))
            whole[at : at + buffers[0].nbytes] = bytes(buffers[0])
        if message["type"] == "read" and message["page"] in ("", self.name) and not self.silent:
            if any(page.speaking for page in self.wires.pages):
                self.waiting.append(message)
            else:
                self.answer(message)

    def inputs(self) -> list[np.ndarray]:
        """What its network runs on."""
        plan = self.viewer.network.plan
        arrays = []
        for record, name in zip(plan.inputs, self.state["inputs"], strict=False):
            own = np.frombuffer(bytes(self.blobs[name]), np.float32).reshape(record.shape)
            arrays.append(self.fed.get(record.key, own))
        return arrays

    def values(self) -> dict[str, np.ndarray]:
        plan = self.viewer.network.plan
        if self.session is None or self.session.plan is not plan:
            self.session = Session(plan)
        records = plan.inputs
        own = zip(records, self.inputs(), strict=False)
        return self.session.run(*(array.astype(record.dtype) for record, array in own))

    def ran(self) -> None:
        self.say("ran", revision=self.state["revision"], ms=1.0, timing="wall", passes=3,
                 again=False)  # fmt: skip

    def answer(self, read: dict[str, Any]) -> None:
        names = [key.removeprefix(BEFORE) for key in read["keys"]]
        own = dict(
            zip((r.key for r in self.viewer.network.plan.inputs), self.inputs(), strict=True)
        )
        values = own if set(names) <= set(own) else {**self.values(), **own}
        for k, name in enumerate(names):
            data = np.ascontiguousarray(values[name], np.float32).tobytes()
            for part in range(parts_of(len(data))):
                piece = memoryview(data)[part * CHUNK : (part + 1) * CHUNK]
                self.say("reply", [piece], id=read["id"], key=k, part=part,
                         count=parts_of(len(data)), bytes=len(data),
                         revision=self.state["revision"])  # fmt: skip

    def probed(self, apart: Sequence[tuple[str, int, int]] = ()) -> None:
        """Answers the last Probe, as a page does each time that a check is due."""
        probe = self.asked("probe")[-1]
        values = self.values()
        records = {value.key: value for value in self.viewer.network.plan.values}
        texels = []
        for key, bands in zip(probe["keys"], probe["bands"], strict=True):
            width, height = records[key].read.step.viewport
            flat = np.zeros(4 * width * height, np.float32)
            flat[: values[key].size] = values[key].ravel()
            texels += [flat[4 * (y * width + x) :][: 4 * w] for x, y, w in bands]
        fed = next(iter(self.fed), "")
        texels += [self.fed[fed].ravel()] if fed else []
        data = memoryview(np.concatenate(texels).tobytes())
        for part in range(parts_of(data.nbytes)):
            self.say("probed", [data[part * CHUNK : (part + 1) * CHUNK]], part=part,
                     count=parts_of(data.nbytes), bytes=data.nbytes, edits="", fed=fed,
                     revision=self.state["revision"], apart=list(apart))  # fmt: skip


class Wires:
    """The comm of one Viewer, as far as pages hang on it."""

    def __init__(self, viewer: Viewer) -> None:
        self.viewer = viewer
        self.pages: list[ScriptedPage] = []
        self.told: list[str] = []  # what went out, in order: messages, and the trait
        viewer._connection._send_raw = self._send
        viewer.observe(lambda _: self.told.append("_source"), "_source")

    def page(self, name: str = "p") -> ScriptedPage:
        """Another page opens."""
        page = ScriptedPage.__new__(ScriptedPage)
        self.pages.append(page)
        page.__init__(self, name)  # type: ignore[misc]
        return page

    def _send(self, message: dict[str, Any], buffers: list[memoryview]) -> None:
        self.told.append(message["type"])
        for page in self.pages:
            page.take(message, buffers)


Opened = Callable[..., Wires]
