"""The messages between kernel and page: types, validation, chunks, lost messages."""

import itertools
import json
import logging
import random
import time
from typing import Any

import msgspec
import numpy as np
import pytest

from generate_types import JS_FOLDER, messages_text
from nbglcnn import protocol
from nbglcnn.errors import ContextLost, DeviceError, PageError, PageTimeout, UnsupportedModel
from nbglcnn.features.mirror.messages import split_frame
from nbglcnn.plan.schema import Patch, Target
from nbglcnn.protocol import CHUNK_BYTES, BlobAssembler, chunk_count, split_chunks
from nbglcnn.widget.asset_manifest import AssetManifest
from nbglcnn.widget.connection import Connection
from nbglcnn.widget.viewer import MESSAGES

TARGET_FIELDS = msgspec.to_builtins(Target())
HELLO_MESSAGE = {
    "type": "hello",
    "page": "p",
    "version": "0.1.0",
    "protocol": MESSAGES.digest,
    "cached_blobs": [],
    "renderer": "a GPU",
    "target": TARGET_FIELDS,
    "problem": "",
}
EXAMPLE_MESSAGES: list[dict[str, Any]] = [
    HELLO_MESSAGE,
    {"type": "requestblob", "page": "p", "blob": "b", "chunks": [0, 2]},
    {"type": "progress", "page": "p", "stage": "compiling", "done": 1, "total": 3},
    {
        **{
            "type": "runreport",
            "page": "p",
            "revision": 1,
            "ms": 2.5,
            "timing": "wall",
            "passes": 4,
        },
        **{"is_remeasured": False},
    },
    {"type": "contexthealth", "page": "p", "lost": False, "losses": 2, "bytes": 2**40, "views": 1},
    {"type": "runrate", "page": "p", "running": True, "runs_per_second": 12},
    {
        **{"type": "pointerhover", "page": "p"},
        **{"target": {"layer": "a", "channel": None, "y": 1, "x": 2, "values": [1.5, "NaN", 3]}},
    },
    {
        **{"type": "reply", "page": "p", "id": "r", "key": 0, "chunk": 0, "count": 1},
        **{"bytes": 8, "revision": 1},
    },
    {"type": "pagefailure", "page": "p", "id": "", "kind": "lost", "text": "gone"},
    {"type": "pagefailure", "page": "p", "id": "", "kind": "edit", "text": "line 3"},
    {
        **{"type": "setweight", "page": "p", "name": "a.weight", "index": 7},
        **{"values": [1, -2.5], "step": "drag"},
    },
]
INVALID_VALUES: list[Any] = [
    None, True, -1, 2**70, 1.5, float("nan"), float("inf"), "", "x" * 20_000, [], {}, [[]],
    {"a": 1}, [0] * 10, [-1], ["p"] * 3, {"__proto__": 1}, "\ud800", b"bytes",
]  # fmt: skip


THREE_PART_SIZE = 2 * CHUNK_BYTES + 600_000


class FakeConnection:
    """Records a Connection's messages in place of the comm; `active_page` replies as pages do."""

    def __init__(self) -> None:
        self.sent: list[tuple[dict[str, Any], list[memoryview]]] = []
        self.fitted_targets: list[Target] = []
        self.connection = Connection(
            "0.1.0",
            MESSAGES,
            lambda content, buffers: self.sent.append((content, buffers)),
            lambda target: self.fitted_targets.append(target),  # type: ignore[func-returns-value]
            lambda: None,
        )

    def sent_types(self) -> list[str]:
        return [content["type"] for content, _ in self.sent]

    def send_hello(self, page: str = "p", **fields: Any) -> None:
        self.connection.receive({**HELLO_MESSAGE, "page": page, **fields}, [])

    def send_reply(
        self, read: str, chunk_index: int, data: bytes, *, page: str = "p", **fields: Any
    ) -> None:
        message = {
            **{"type": "reply", "page": page, "id": read, "key": 0, "chunk": chunk_index},
            **{"count": chunk_count(len(data)), "bytes": len(data), "revision": 1, **fields},
        }
        piece = memoryview(data)[chunk_index * CHUNK_BYTES : (chunk_index + 1) * CHUNK_BYTES]
        self.connection.receive(message, [piece])


@pytest.fixture
def connection() -> FakeConnection:
    wire = FakeConnection()
    blobs = {name: memoryview(bytes(size)) for name, size in (("plan", 10), ("w", THREE_PART_SIZE))}
    wire.connection.send_manifest(AssetManifest("plan", ("w",), (), blobs))
    return wire


def test_the_typescript_types_are_up_to_date() -> None:
    assert JS_FOLDER.joinpath("src", "messages.ts").read_text("utf-8") == messages_text(), (
        "run scripts/generate_types.py"
    )


@pytest.mark.parametrize("example", EXAMPLE_MESSAGES, ids=lambda e: e["type"])
def test_a_thousand_wrong_messages_of_each_type_are_ignored(
    example: dict[str, Any], connection: FakeConnection
) -> None:
    connection.send_hello()
    rng = random.Random(example["type"])
    request = connection.connection.request_values(["a"], [8])
    for _ in range(1000):
        message = dict(example)
        for field in rng.sample(sorted(message), rng.randint(1, 2)):
            if rng.random() < 0.2:
                del message[field]
            else:
                message[field] = rng.choice(INVALID_VALUES)
        buffers = [memoryview(bytes(rng.choice((0, 3, 8, 100))))] * rng.randint(0, 2)
        connection.connection.receive(message, buffers)
    # The connection still works: a valid reply is accepted.
    connection.send_reply(request.id, 0, b"\1" * 8)
    assert bytes(request.assemblers[0].data) == b"\1" * 8


def test_wrong_messages_are_one_line_in_the_log_each(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "nbglcnn"):
        for _ in range(50):
            assert (
                MESSAGES.decode({"type": "requestblob", "page": "only here", "blob": 4711}) is None
            )
    assert len(caplog.records) <= 1


@pytest.mark.parametrize("example", EXAMPLE_MESSAGES, ids=lambda e: e["type"])
def test_right_messages_are_taken(example: dict[str, Any]) -> None:
    message = MESSAGES.decode(example)
    assert message is not None
    told = json.loads(msgspec.json.encode(message))
    assert {**told, **example} == told


@pytest.mark.parametrize(
    "size", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES + 5]
)
def test_parts_put_together_in_any_order_are_the_blob(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8).tobytes()
    pieces = list(split_chunks(memoryview(data)))
    assert len(pieces) == chunk_count(size) and all(
        len(piece) <= CHUNK_BYTES for _, piece in pieces
    )
    for order in itertools.permutations(pieces):
        assembly = BlobAssembler(size)
        for part, piece in order:
            assert assembly.missing
            assert assembly.add(part, len(pieces), size, piece)
            assert not assembly.add(part, len(pieces), size, piece)  # a duplicate
        assert not assembly.missing and bytes(assembly.data) == data


@pytest.mark.parametrize("wrong", [(0, 2, 8, 8), (0, 1, 9, 8), (0, 1, 8, 7), (1, 1, 8, 8)])
def test_a_part_of_a_wrong_size_is_ignored(wrong: tuple[int, int, int, int]) -> None:
    part, count, size, length = wrong
    assembly = BlobAssembler(8)
    assert not assembly.add(part, count, size, memoryview(bytes(length)))
    assert assembly.missing


def test_a_page_gets_the_state_and_only_what_it_lacks(connection: FakeConnection) -> None:
    assert connection.sent == []  # no page is connected
    connection.send_hello(cached_blobs=["plan"])
    assert connection.sent_types() == ["manifest", *["blobchunk"] * 3]
    assert {content["blob"] for content, _ in connection.sent[1:]} == {"w"}
    assert connection.fitted_targets == [Target()]
    assert sum(len(buffers[0]) for _, buffers in connection.sent[1:]) == THREE_PART_SIZE
    connection.sent.clear()
    connection.connection.receive(
        {"type": "requestblob", "page": "p", "blob": "w", "chunks": [1]}, []
    )
    assert [content["index"] for content, _ in connection.sent] == [1]
    connection.sent.clear()
    connection.connection.receive(
        {"type": "requestblob", "page": "p", "blob": "unknown", "chunks": []}, []
    )
    connection.connection.receive(
        {"type": "requestblob", "page": "p", "blob": "w", "chunks": [77]}, []
    )
    assert connection.sent == []


def test_a_page_without_a_device_gets_no_weights(connection: FakeConnection) -> None:
    connection.send_hello(target=None, problem="no WebGL 2")
    assert {content.get("blob") for content, _ in connection.sent[1:]} == {"plan"}
    assert (
        connection.connection.usable_pages == []
        and connection.connection.active_page.problem == "no WebGL 2"
    )  # type: ignore[union-attr]


def test_a_page_of_another_version_is_refused(connection: FakeConnection) -> None:
    connection.send_hello(protocol="another", version="9.9.9")
    assert connection.sent_types() == ["rejectpage"]
    assert (
        "9.9.9" in connection.sent[0][0]["text"] and connection.connection.active_page.is_rejected
    )  # type: ignore[union-attr]


def test_the_first_of_two_tabs_wins(connection: FakeConnection) -> None:
    connection.send_hello("p")
    connection.send_hello("q")
    request = connection.connection.request_values(["a"], [CHUNK_BYTES + 4])
    first, second = b"\1" * (CHUNK_BYTES + 4), b"\2" * (CHUNK_BYTES + 4)
    connection.send_reply(request.id, 0, first)
    connection.send_reply(request.id, 0, second, page="q")
    connection.send_reply(request.id, 1, second, page="q")
    assert not connection.connection.is_answered(request, 10)
    connection.send_reply(request.id, 1, first)
    assert connection.connection.is_answered(request, 10)
    assert bytes(request.assemblers[0].data) == first
    connection.connection.end_request(request)
    assert connection.sent_types()[-1] == "readdone" and len(connection.connection) == 0


def test_another_tab_takes_over_from_one_that_died(
    connection: FakeConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.send_hello("p")
    request = connection.connection.request_values(["a"], [CHUNK_BYTES + 4])
    connection.send_reply(request.id, 0, b"\1" * (CHUNK_BYTES + 4))
    later = time.monotonic() + 5
    monkeypatch.setattr("nbglcnn.widget.connection._now", lambda: later)
    connection.send_hello("q")
    assert connection.sent_types()[-1] == "read"  # requested again
    for part in (0, 1):
        connection.send_reply(request.id, part, b"\2" * (CHUNK_BYTES + 4), page="q")
    assert connection.connection.is_answered(request, 10)
    assert bytes(request.assemblers[0].data) == b"\2" * (CHUNK_BYTES + 4)


def test_a_lost_part_is_asked_for_once_and_then_reported(
    connection: FakeConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.send_hello()
    request = connection.connection.request_values(["a", "b"], [3 * CHUNK_BYTES, 8])
    start = time.monotonic()
    for part in (0, 2):
        connection.send_reply(request.id, part, bytes(3 * CHUNK_BYTES))
    connection.sent.clear()
    for seconds in (1, 2.5, 5, 9):
        monkeypatch.setattr("nbglcnn.widget.connection._now", lambda s=seconds: start + s)
        assert not connection.connection.is_answered(request, 10)
    assert connection.sent_types() == ["read"]
    assert connection.sent[0][0]["id"] == request.id
    assert connection.sent[0][0]["missing_chunks"] == ((0, 1), (1, 0))
    monkeypatch.setattr("nbglcnn.widget.connection._now", lambda: start + 10.5)
    with pytest.raises(PageTimeout, match="2 of 4 parts arrived; the others are missing"):
        connection.connection.is_answered(request, 10)


def test_a_page_that_says_hello_again_is_told_the_state_and_sent_nothing_twice(
    connection: FakeConnection,
) -> None:
    connection.send_hello()
    assert connection.sent_types() == ["manifest", *["blobchunk"] * 4]
    connection.sent.clear()
    connection.send_hello()
    assert connection.sent_types() == ["manifest"] and len(connection.connection.pages) == 1


def test_a_hello_that_comes_after_what_followed_it_loses_nothing(
    connection: FakeConnection,
) -> None:
    connection.send_hello()
    told = [e for e in EXAMPLE_MESSAGES if e["type"] in ("runreport", "runrate", "contexthealth")]
    assert len(told) == 3
    for message in told:
        connection.connection.receive(message, [])
    page = connection.connection.active_page
    assert page is not None
    before = page.last_run, page.run_rate, page.context_health
    assert None not in before
    connection.send_hello()  # late, and over another of the host's channels to the kernel
    page = connection.connection.active_page
    assert page is not None and (page.last_run, page.run_rate, page.context_health) == before


def test_a_run_that_is_measured_again_is_not_tested_again(connection: FakeConnection) -> None:
    connection.send_hello()
    page = connection.connection.active_page
    assert page is not None
    [ran] = [e for e in EXAMPLE_MESSAGES if e["type"] == "runreport"]
    connection.connection.receive(ran, [])
    page.probed_state = 1, ""  # as the parity check does when it requests samples
    connection.connection.receive({**ran, "is_remeasured": True, "ms": 0.5}, [])
    assert page.last_run is not None and page.last_run.ms == 0.5
    assert page.probed_state == (1, "")
    connection.connection.receive(ran, [])  # after a context restore: earlier samples are void
    assert page.probed_state == (-1, "")


def test_a_device_too_small_for_any_plan_is_refused_in_words(connection: FakeConnection) -> None:
    def fit(_: Target) -> None:
        raise UnsupportedModel("conv: needs a texture of 9000 texels; this device has at most 64")

    connection.connection._adapt_manifest = fit
    connection.send_hello()
    [(refusal, _)] = connection.sent
    assert refusal["type"] == "rejectpage" and refusal["title"].startswith(
        "This device is too small"
    )
    page = connection.connection.active_page
    assert page is not None and "needs a texture of 9000" in page.problem == refusal["text"]
    # Python computes instead.
    assert connection.connection.usable_pages == [] and not page.is_rejected


def test_a_context_that_stays_lost_is_said_as_such(
    connection: FakeConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.send_hello()
    request = connection.connection.request_values(["a"], [8])
    health = {"type": "contexthealth", "page": "p", "losses": 1, "bytes": 0, "views": 1}
    connection.connection.receive({**health, "lost": True}, [])
    start = time.monotonic()
    monkeypatch.setattr("nbglcnn.widget.connection._now", lambda: start + 11)
    with pytest.raises(ContextLost, match="has not restored it for 10 s"):
        connection.connection.is_answered(request, 10)


def test_an_answered_page_is_not_said_to_be_reading(connection: FakeConnection) -> None:
    connection.send_hello()
    request = connection.connection.request_values(["a"], [8])
    reading = {"type": "progress", "page": "p", "stage": "reading", "done": 0, "total": 1}
    connection.connection.receive(reading, [])
    connection.send_reply(request.id, 0, bytes(8))
    assert connection.connection.pages["p"].progress is None


def test_a_busy_page_restarts_the_clock(
    connection: FakeConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.send_hello()
    request = connection.connection.request_values(["a"], [8])
    start = time.monotonic()
    progress = {"type": "progress", "page": "p", "stage": "compiling", "done": 3, "total": 9}
    for seconds in range(8, 80, 8):
        monkeypatch.setattr("nbglcnn.widget.connection._now", lambda s=seconds: start + s)
        connection.connection.receive(progress, [])
        assert not connection.connection.is_answered(request, 10)
    monkeypatch.setattr("nbglcnn.widget.connection._now", lambda: start + 90)
    with pytest.raises(PageTimeout, match=r"last compiling \(3 of 9\)"):
        connection.connection.is_answered(request, 10)


def test_replies_of_an_older_input_are_not_taken(connection: FakeConnection) -> None:
    connection.send_hello()
    connection.connection.send_manifest(AssetManifest("plan", ("w",), (), {}))
    request = connection.connection.request_values(["a"], [8])
    connection.send_reply(request.id, 0, bytes(8), revision=1)
    assert request.missing_chunks
    connection.send_reply(request.id, 0, bytes(8), revision=2)
    assert not request.missing_chunks


def test_parts_of_two_revisions_never_mix(connection: FakeConnection) -> None:
    connection.send_hello()
    request = connection.connection.request_values(["a"], [CHUNK_BYTES + 4])
    connection.send_reply(request.id, 0, b"\1" * (CHUNK_BYTES + 4), revision=1)
    # The page has recomputed its reply for a later input, and a chunk of the first reply is late.
    connection.send_reply(request.id, 1, b"\2" * (CHUNK_BYTES + 4), revision=2)
    connection.send_reply(request.id, 1, b"\1" * (CHUNK_BYTES + 4), revision=1)
    assert request.missing_chunks == ((0, 0),)
    connection.send_reply(request.id, 0, b"\2" * (CHUNK_BYTES + 4), revision=2)
    assert connection.connection.is_answered(request, 10) and request.reply_revision == 2
    assert bytes(request.assemblers[0].data) == b"\2" * (CHUNK_BYTES + 4)


@pytest.mark.parametrize(
    ("kind", "error"), [("lost", ContextLost), ("device", DeviceError), ("internal", PageError)]
)
def test_a_failure_in_the_page_is_an_exception_here(
    kind: str, error: type[PageError], connection: FakeConnection
) -> None:
    connection.send_hello()
    request = connection.connection.request_values(["a"], [8])
    failed = {
        "type": "pagefailure",
        "page": "p",
        "id": request.id,
        "kind": kind,
        "text": "what it was",
    }
    connection.connection.receive(failed, [])
    with pytest.raises(error, match="what it was"):
        connection.connection.is_answered(request, 10)
    connection.connection.end_request(request)
    connection.connection.receive({**failed, "id": ""}, [])
    assert connection.connection.active_page.error == "what it was"  # type: ignore[union-attr]


def test_a_message_of_an_unknown_page_is_ignored(connection: FakeConnection) -> None:
    for example in EXAMPLE_MESSAGES[1:]:
        connection.connection.receive({**example, "page": "stranger"}, [])
    assert connection.connection.pages == {} and connection.sent == []


def test_the_protocol_has_a_name_of_its_own_contents() -> None:
    assert len(MESSAGES.digest) == 12
    assert protocol.CHUNK_BYTES <= 4 * 2**20


def test_patches_of_a_chunk_are_one_message_and_larger_ones_none(
    connection: FakeConnection,
) -> None:
    def patch(texels: int) -> Patch:
        return Patch(3, 0, 1, 2, np.arange(4 * texels, dtype=np.float32).reshape(1, texels, 4))

    connection.send_hello()
    connection.sent.clear()
    whole = CHUNK_BYTES // 16
    assert not connection.connection.send_patches([patch(whole), patch(1)])
    assert (connection.sent, connection.connection.revision) == ([], 1)
    assert connection.connection.send_patches([patch(whole - 1), patch(1)])
    [(message, [data])] = connection.sent
    assert message["rectangles"] == ((3, 0, 1, 2, whole - 1, 1), (3, 0, 1, 2, 1, 1))
    assert (message["base"], message["revision"], data.nbytes) == (1, 2, CHUNK_BYTES)
    connection.connection.send_patches([patch(1)])
    assert (connection.sent[-1][0]["base"], connection.sent[-1][0]["revision"]) == (2, 3)


def test_weights_of_a_loop_go_in_chunks_with_the_losses_in_front(
    connection: FakeConnection,
) -> None:
    connection.send_hello()
    for size, parts in ((CHUNK_BYTES // 4, 1), (CHUNK_BYTES // 4 + 1, 2)):
        connection.sent.clear()
        contents = np.arange(size, dtype=np.float32)
        rows = np.array([[0.5, 1.0], [0.25, 0.0]], np.float32)
        connection.connection.send_update(
            split_frame("t", [7], contents, 9, 7, rows, [(9, 0.5, None)])
        )
        assert [content["chunk_index"] for content, _ in connection.sent] == list(range(parts))
        assert [content["loss_rows"] for content, _ in connection.sent] == [2] + [0] * (parts - 1)
        assert {content["chunk_count"] for content, _ in connection.sent} == {parts}
        data = b"".join(bytes(buffer) for _, [buffer] in connection.sent)
        assert data == rows.tobytes() + contents.tobytes()


def test_a_second_page_gets_what_it_lacks_and_the_first_nothing_again(
    connection: FakeConnection,
) -> None:
    connection.send_hello()
    connection.sent.clear()
    connection.send_hello("q", cached_blobs=["w"])
    assert [
        content["blob"] for content, _ in connection.sent if content["type"] == "blobchunk"
    ] == ["plan"]
    connection.sent.clear()
    blobs = {name: memoryview(bytes(5)) for name in ("plan", "w", "more")}
    connection.connection.send_manifest(AssetManifest("plan", ("w", "more"), (), blobs))
    assert [
        content["blob"] for content, _ in connection.sent if content["type"] == "blobchunk"
    ] == ["more"]
    connection.sent.clear()
    connection.connection.send_manifest(AssetManifest("plan", ("w",), (), blobs))
    assert connection.sent_types() == ["manifest"], "what both have is sent to none"


def test_a_picture_of_the_view_may_have_64_mib(
    connection: FakeConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert protocol.MAX_SCREENSHOT_BYTES == 2**26
    monkeypatch.setattr(protocol, "MAX_SCREENSHOT_BYTES", 100)
    connection.send_hello()
    for size, taken in ((100, True), (101, False)):
        request = connection.connection.request_screenshot()
        connection.send_reply(request.id, 0, bytes(size))
        assert connection.connection.is_answered(request, 60) == taken
        assert (len(request.assemblers[0].data) == size) == taken


@pytest.mark.parametrize(
    ("field", "fits", "more"),
    [
        ("blob", "b" * 64, "b" * 65),
        ("page", "p" * 64, "p" * 65),
        ("chunks", [2**31], [2**31 + 1]),
        ("chunks", [0], [-1]),
    ],
)
def test_names_and_numbers_of_a_message_have_limits(field: str, fits: Any, more: Any) -> None:
    need = {"type": "requestblob", "page": "p", "blob": "b", "chunks": []}
    assert MESSAGES.decode({**need, field: fits}) is not None
    assert MESSAGES.decode({**need, field: more}) is None


def test_a_text_of_ten_thousand_letters_is_taken_and_a_longer_one_not() -> None:
    failed = {"type": "pagefailure", "page": "p", "id": "", "kind": "lost"}
    assert MESSAGES.decode({**failed, "text": "x" * 10_000}) is not None
    assert MESSAGES.decode({**failed, "text": "x" * 10_001}) is None


def test_of_many_lines_the_log_has_each_once_and_a_hundred_at_most(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "_warned_texts", set())
    with caplog.at_level(logging.WARNING, "nbglcnn"):
        for number in range(150):
            protocol.warn_once(f"line {number}")
            protocol.warn_once(f"line {number}")
    assert [record.args for record in caplog.records] == [(f"line {k}",) for k in range(100)]


def test_a_question_that_is_dropped_is_dropped_once(connection: FakeConnection) -> None:
    connection.send_hello()
    one, other = (
        connection.connection.request_values(["a"], [8]),
        connection.connection.request_values(["a"], [8]),
    )
    connection.sent.clear()
    connection.connection.end_request(one)
    connection.connection.end_request(one)
    assert connection.sent_types() == ["readdone"] and len(connection.connection) == 1
    connection.send_reply(one.id, 0, b"\1" * 8)
    assert one.missing_chunks
    connection.send_reply(other.id, 0, b"\2" * 8)
    assert not other.missing_chunks
