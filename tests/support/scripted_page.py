"""Scripted pages of a Viewer without a browser: they store messages and reply as a page does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np

from nbglcnn import Viewer
from nbglcnn.plan.schema import Target
from nbglcnn.protocol import CHUNK_BYTES, chunk_count
from nbglcnn.runtime.session import Session
from nbglcnn.widget.reader import BEFORE_EDITS_PREFIX
from nbglcnn.widget.viewer import MESSAGES


class ScriptedPage:
    """One scripted page.

    `source_inputs` holds its source's data by input key; Python sets all other inputs. The page
    replies to reads and probes immediately, using local OpenGL, unless `ignores_reads` is set.
    """

    def __init__(self, comm: FakeComm, name: str) -> None:
        self.comm = comm
        self.viewer = comm.viewer
        self.name = name
        self.source_inputs: dict[str, np.ndarray] = {}
        self.received: list[dict[str, Any]] = []
        self.blobs: dict[str, bytearray] = {}
        self.state: dict[str, Any] = {}
        self.ignores_reads = False
        self.pending_reads: list[dict[str, Any]] = []  # reads received while sending
        self.send_depth = 0
        self.session: Session | None = None
        self.send("hello", version="0.1.0", protocol=MESSAGES.digest, cached_blobs=[],
                  renderer=f"GPU of {name}", target=msgspec.to_builtins(Target()),
                  problem="")  # fmt: skip

    def send(self, kind: str, buffers: list[memoryview] | None = None, **fields: Any) -> None:
        message = {"type": kind, "page": self.name, **fields}
        self._deliver(lambda: self.viewer._handle_custom_msg(message, buffers or []))

    def _deliver(self, send: Callable[[], None]) -> None:
        """Deliver a message; replies to reads wait until Python has handled it."""
        self.send_depth += 1
        try:
            send()
        finally:
            self.send_depth -= 1
        while self.pending_reads and not self.send_depth:
            self.answer_read(self.pending_reads.pop(0))

    def set_source(self, **source: Any) -> None:
        """Change the source as the drawer does: merge fields into the current source trait."""
        now = self.viewer.get_state()["_source"]["source"]
        blank = {"input": "input"} if now is None or "kind" in source else now
        self._send_source({**blank, **source})

    def clear_source(self) -> None:
        """Remove the source."""
        self._send_source(None)

    def _send_source(self, source: dict[str, Any] | None) -> None:
        words = {"source": source, "turn": self.viewer.get_state()["_source"]["turn"]}
        self._deliver(lambda: self.viewer.set_state({"_source": words}))

    def report_feed(self, *, still: bool, rate: float = 0.0) -> None:
        self.send("sourceupdate", is_still=still, rate=rate)

    def feed_input(self, array: np.ndarray, *, still: bool = True, key: str = "input") -> None:
        """Feed a picture from the page's source."""
        self.source_inputs[key] = np.asarray(array, np.float32)
        self.report_feed(still=still)

    def request_blob(self, name: str) -> bytes | None:
        """Request a blob; None if it doesn't arrive."""
        self.blobs.pop(name, None)
        self.send("requestblob", blob=name, chunks=[])
        found = self.blobs.get(name)
        return None if found is None else bytes(found)

    def messages_of(self, kind: str) -> list[dict[str, Any]]:
        return [message for message in self.received if message["type"] == kind]

    def receive(self, message: dict[str, Any], buffers: list[memoryview]) -> None:
        self.received.append(message)
        if message["type"] == "manifest":
            self.state = message
        if message["type"] == "blobchunk":
            name, at = message["blob"], message["index"] * CHUNK_BYTES
            whole = self.blobs.setdefault(name, bytearray(message["bytes"]))
            whole[at : at + buffers[0].nbytes] = bytes(buffers[0])
        if (
            message["type"] == "read"
            and message["page"] in ("", self.name)
            and not self.ignores_reads
        ):
            if any(page.send_depth for page in self.comm.pages):
                self.pending_reads.append(message)
            else:
                self.answer_read(message)

    def current_inputs(self) -> list[np.ndarray]:
        """The inputs on which its network runs."""
        plan = self.viewer.network.plan
        arrays = []
        for record, name in zip(plan.inputs, self.state["inputs"], strict=False):
            own = np.frombuffer(bytes(self.blobs[name]), np.float32).reshape(record.shape)
            arrays.append(self.source_inputs.get(record.key, own))
        return arrays

    def compute_values(self) -> dict[str, np.ndarray]:
        plan = self.viewer.network.plan
        if self.session is None or self.session.plan is not plan:
            self.session = Session(plan)
        records = plan.inputs
        own = zip(records, self.current_inputs(), strict=False)
        return self.session.run(*(array.astype(record.dtype) for record, array in own))

    def report_run(self) -> None:
        self.send("runreport", revision=self.state["revision"], ms=1.0, timing="wall", passes=3,
                  is_remeasured=False)  # fmt: skip

    def answer_read(self, read: dict[str, Any]) -> None:
        names = [key.removeprefix(BEFORE_EDITS_PREFIX) for key in read["keys"]]
        own = dict(
            zip(
                (r.key for r in self.viewer.network.plan.inputs), self.current_inputs(), strict=True
            )
        )
        values = own if set(names) <= set(own) else {**self.compute_values(), **own}
        for k, name in enumerate(names):
            data = np.ascontiguousarray(values[name], np.float32).tobytes()
            for part in range(chunk_count(len(data))):
                piece = memoryview(data)[part * CHUNK_BYTES : (part + 1) * CHUNK_BYTES]
                self.send("reply", [piece], id=read["id"], key=k, chunk=part,
                          count=chunk_count(len(data)), bytes=len(data),
                          revision=self.state["revision"])  # fmt: skip

    def answer_probe(self, example_mismatches: Sequence[tuple[str, int, int]] = ()) -> None:
        """Reply to the last Probe, as a page does whenever a check is due."""
        probe = self.messages_of("probe")[-1]
        values = self.compute_values()
        records = {value.key: value for value in self.viewer.network.plan.values}
        texels = []
        for key, bands in zip(probe["keys"], probe["spans"], strict=True):
            width, height = records[key].readback.draw_pass.viewport
            flat = np.zeros(4 * width * height, np.float32)
            flat[: values[key].size] = values[key].ravel()
            texels += [flat[4 * (y * width + x) :][: 4 * w] for x, y, w in bands]
        fed = next(iter(self.source_inputs), "")
        texels += [self.source_inputs[fed].ravel()] if fed else []
        data = memoryview(np.concatenate(texels).tobytes())
        for part in range(chunk_count(data.nbytes)):
            chunk = data[part * CHUNK_BYTES : (part + 1) * CHUNK_BYTES]
            self.send("probereply", [chunk], chunk=part, count=chunk_count(data.nbytes),
                      bytes=data.nbytes, edits="", source_input=fed,
                      revision=self.state["revision"],
                      example_mismatches=list(example_mismatches))  # fmt: skip


class FakeComm:
    """A fake comm of one Viewer: the part that pages depend on."""

    def __init__(self, viewer: Viewer) -> None:
        self.viewer = viewer
        self.pages: list[ScriptedPage] = []
        self.sent_types: list[str] = []  # everything sent, in order: messages, and the trait
        viewer._connection._send_raw = self._send
        viewer.observe(lambda _: self.sent_types.append("_source"), "_source")

    def open_page(self, name: str = "p") -> ScriptedPage:
        """Open another page."""
        page = ScriptedPage.__new__(ScriptedPage)
        self.pages.append(page)
        page.__init__(self, name)  # type: ignore[misc]
        return page

    def _send(self, message: dict[str, Any], buffers: list[memoryview]) -> None:
        self.sent_types.append(message["type"])
        for page in self.pages:
            page.receive(message, buffers)


OpenComm = Callable[..., FakeComm]
