"""Delivery of the front-end to pages: once, compressed, checked, and requested again on loss."""

import gzip
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Frame, Page, expect

from jupyter_lab import LabServer, Notebook, new_notebook
from minimal_host import HostFrames
from nbglcnn import Viewer
from nbglcnn.widget import frontend
from nbglcnn.widget.connection import CODE_LOAD_TIMEOUT_S
from viewer_models import IMPORTS_CELL, autoencoder, pictures

SEED = 71
ASSET_NAMES = frontend.code_blob_names()
MAKE_VIEWER_CELL = "viewer = Viewer(autoencoder(50), pictures(50))"
# In the kernel: counts the sent blobs by their content.
COUNT_SENT_BLOBS_CELL = """
from nbglcnn.widget import frontend
from nbglcnn.widget.connection import Connection
sent, known = [], {name: what for what, name in frontend.code_blob_names().items()}
def counted(self, name, parts=(), send=Connection._send_blob):
    if name in known: sent.append(known[name])
    send(self, name, parts)
Connection._send_blob = counted
"""
SHORT_TIMEOUT_MS = 2_000


class FaultyFrames(HostFrames):
    """Frames that lose or damage blobs on their way: `fates` per blob, one per transfer."""

    def __init__(self, *given: Any, fates: dict[str, list[str]]) -> None:
        self.fates = fates
        self.requests: list[str] = []
        super().__init__(*given)
        take = self.connection._handle_message

        def noted(message: Any, buffers: Any) -> bool:
            if message.__class__.__name__ == "RequestBlob":
                self.requests.append(message.blob)
            return take(message, buffers)

        self.connection._handle_message = noted  # type: ignore[method-assign]

    def send(self, content: Any, buffers: list[memoryview]) -> None:
        fates = self.fates.get(content.get("blob", ""), [])
        fate = fates.pop(0) if fates else ""
        if fate == "lose":
            return
        if fate == "damage":
            damaged = bytearray(buffers[0])
            damaged[len(damaged) // 2] ^= 1
            buffers = [memoryview(damaged)]
        if fate == "cut":
            buffers = [buffers[0][: len(buffers[0]) // 2]]
        super().send(content, buffers)


@pytest.fixture
def viewer() -> Iterator[Viewer]:
    viewer = Viewer(autoencoder(SEED), pictures(SEED))
    yield viewer
    viewer.close()


@pytest.fixture
def open_faulty_frame(
    iframes: Callable[[int], list[Frame]], static_site: tuple[str, dict[str, bytes]], viewer: Viewer
) -> Callable[..., FaultyFrames]:
    """line({blob: ["lose", …]}): the Viewer in a frame, on a connection with these faults."""
    return lambda fates: FaultyFrames(viewer, iframes(1), static_site[0], "DataView", fates=fates)


def is_ready(host: HostFrames) -> bool:
    return host.frames[0].query_selector(".nbglcnn[data-phase=ready]") is not None


def test_the_code_comes_first_and_the_network_behind_it(
    open_faulty_frame: Callable[..., FaultyFrames], viewer: Viewer
) -> None:
    host = open_faulty_frame({})
    blobs: list[str] = []
    send = host.connection._send_raw

    def noted(content: Any, buffers: list[memoryview]) -> None:
        if content["type"] == "blobchunk":
            blobs.append(content["blob"])
        send(content, buffers)

    host.connection._send_raw = noted
    host.wait_until(lambda: is_ready(host))
    assert host.requests == [ASSET_NAMES["gzip"]]
    header = viewer.network.plan.header
    weights = {weight.hash for weight in header.weights}
    assert blobs[0] == ASSET_NAMES["gzip"] and weights <= set(blobs[1:])
    assert not set(ASSET_NAMES.values()) & set(blobs[1:])


def test_the_code_is_sent_compressed_and_has_the_same_name_in_each_kernel() -> None:
    plain = frontend.WIDGET_FILE.read_bytes()
    packed = bytes(frontend.frontend_blobs()[ASSET_NAMES["gzip"]])
    assert (
        gzip.decompress(packed) == plain == bytes(frontend.frontend_blobs()[ASSET_NAMES["plain"]])
    )
    assert len(packed) < 0.4 * len(plain)
    assert packed[4:8] == bytes(4), "no time"
    assert {
        "gzip": frontend.code_blob_name(packed),
        "plain": frontend.code_blob_name(plain),
    } == ASSET_NAMES


def test_a_page_that_cannot_decompress_gets_the_code_as_it_is(
    iframes: Callable[[int], list[Frame]], static_site: tuple[str, dict[str, bytes]], viewer: Viewer
) -> None:
    found = iframes(1)
    found[0].evaluate("() => { delete window.DecompressionStream; }")
    host = FaultyFrames(viewer, found, static_site[0], "DataView", fates={})
    host.wait_until(lambda: is_ready(host))
    assert host.requests == [ASSET_NAMES["plain"]]


@pytest.mark.parametrize("fate", ["lose", "damage", "cut"])
def test_code_that_does_not_arrive_whole_is_asked_for_again(
    open_faulty_frame: Callable[..., FaultyFrames], fate: str
) -> None:
    host = open_faulty_frame({ASSET_NAMES["gzip"]: [fate]})
    host.wait_until(lambda: is_ready(host))
    assert host.requests == [ASSET_NAMES["gzip"]] * 2


@pytest.mark.parametrize("fate", ["damage", "cut"])
def test_code_that_never_arrives_whole_is_said_until_it_does(
    open_faulty_frame: Callable[..., FaultyFrames], fate: str
) -> None:
    host = open_faulty_frame({ASSET_NAMES["gzip"]: [fate] * 100})
    body = host.frames[0].locator("body")
    host.wait_until(lambda: "The download was damaged twice" in body.inner_text())
    host.fates.clear()
    host.wait_until(lambda: is_ready(host))


def test_a_loader_says_what_it_waits_for(open_faulty_frame: Callable[..., FaultyFrames]) -> None:
    host = open_faulty_frame({ASSET_NAMES["gzip"]: ["lose"] * 100})
    body = host.frames[0].locator("body")
    host.wait_until(lambda: "Waiting for Python to send the Viewer’s code" in body.inner_text())
    host.wait_until(lambda: "Python is busy or not connected" in body.inner_text())
    host.fates.clear()
    host.wait_until(lambda: is_ready(host))
    assert "Waiting for Python" not in body.inner_text()


def test_code_of_two_versions_lives_in_one_page(
    open_faulty_frame: Callable[..., FaultyFrames], monkeypatch: pytest.MonkeyPatch
) -> None:
    host = open_faulty_frame({})
    host.wait_until(lambda: is_ready(host))
    plain = frontend.WIDGET_FILE.read_bytes() + b"// another build\n"
    later = {"gzip": gzip.compress(plain), "plain": plain}
    names = {what: frontend.code_blob_name(piece) for what, piece in later.items()}
    pieces = {names[what]: memoryview(piece) for what, piece in later.items()}
    monkeypatch.setattr(frontend, "frontend_blobs", lambda: pieces)
    other = Viewer(autoencoder(SEED), pictures(SEED))  # from a kernel with another build
    other.set_trait("_code", names)
    again = FaultyFrames(other, host.frames, host.address, "DataView", fates={})
    again.wait_until(
        lambda: len(again.frames[0].query_selector_all(".nbglcnn[data-phase=ready]")) == 2
    )
    assert again.requests == [names["gzip"]]
    other.close()


def test_a_loaders_words_keep_python_waiting_for_its_hello(viewer: Viewer) -> None:
    connection = viewer._connection
    told: list[Any] = []
    connection._send_raw = lambda content, buffers: told.append(content)
    assert connection.code_load_deadline == 0
    connection.receive(
        {"type": "requestblob", "page": "", "blob": ASSET_NAMES["gzip"], "chunks": []}, []
    )
    size = len(frontend.frontend_blobs()[ASSET_NAMES["gzip"]])
    assert [(one["type"], one["blob"], one["bytes"]) for one in told] == [
        ("blobchunk", ASSET_NAMES["gzip"], size)
    ]
    assert (
        CODE_LOAD_TIMEOUT_S - 1
        < connection.code_load_deadline - time.monotonic()
        <= CODE_LOAD_TIMEOUT_S
    )
    # Requested again meanwhile, and for damaged data.
    told.clear()
    connection.receive(
        {"type": "requestblob", "page": "", "blob": ASSET_NAMES["gzip"], "chunks": []}, []
    )
    assert not told
    connection.receive(
        {"type": "requestblob", "page": "", "blob": ASSET_NAMES["gzip"], "chunks": [0]}, []
    )
    assert [one["index"] for one in told] == [0]
    told.clear()
    # Pages of an earlier kernel send a page ID, and a loader may request only the front-end's
    # blobs.
    connection.code_load_deadline = 0.0
    connection.receive(
        {"type": "requestblob", "page": "p", "blob": ASSET_NAMES["gzip"], "chunks": []}, []
    )
    assert connection.code_load_deadline == 0
    plan = viewer.network.plan.hash
    connection.receive({"type": "requestblob", "page": "", "blob": plan, "chunks": []}, [])
    assert not told


@pytest.fixture
def notebook(lab: LabServer, browser: Callable[[str], Browser]) -> Iterator[Notebook]:
    with new_notebook(lab, browser("llvmpipe")) as notebook:
        notebook.run(IMPORTS_CELL)
        yield notebook


def wait_shown(page: Page) -> None:
    expect(page.locator(".nbglcnn[data-phase=ready]").last).to_be_visible()


def test_two_viewers_of_a_cell_and_a_later_one_send_the_code_once(notebook: Notebook) -> None:
    notebook.run(COUNT_SENT_BLOBS_CELL)
    notebook.run(
        "both = [Viewer(autoencoder(k), pictures(k)) for k in (50, 51)]\n"
        "sources = [v.activations.source[:4] for v in both]\ndisplay(*both)"
    )
    wait_shown(notebook.page)
    assert sorted(notebook.run("print(*sources, *sent)").text.split()) == sorted(
        ["page", "page", "gzip"]
    )
    notebook.run(MAKE_VIEWER_CELL + "\nviewer.output\nviewer")
    assert notebook.run("print(len(sent))").text == "1\n"


def open_all_views(page: Page) -> None:
    """Open each view of the last Viewer, and check that each appears at once."""
    view = page.locator(".nbglcnn").last
    view.scroll_into_view_if_needed()
    started = time.monotonic()
    view.locator("[data-tab=profile]").click()
    expect(view.locator(".nbg-profile")).to_be_visible(timeout=SHORT_TIMEOUT_MS)
    view.locator("[data-tab=layer]").click()
    parts = {"Filters": ".nbg-filters", "Explain": ".nbg-explain", "Bend": ".nbg-bend"}
    for part, inside in {**parts, "Maps": ".nbg-controls"}.items():
        view.locator(".nbg-head").get_by_role("button", name=part, exact=True).click()
        expect(view.locator(inside).first).to_be_visible(timeout=SHORT_TIMEOUT_MS)
    view.locator("[data-tab=network]").click()
    view.locator(".nbg-forms").get_by_role("button", name="Graph").click()
    expect(view.locator(".nbg-graph")).to_be_visible(timeout=SHORT_TIMEOUT_MS)
    assert time.monotonic() - started < 20


def test_no_view_waits_for_a_busy_kernel_nor_for_a_restarted_one(notebook: Notebook) -> None:
    notebook.run(MAKE_VIEWER_CELL + "\nviewer")
    wait_shown(notebook.page)
    notebook.start("time.sleep(60)")
    open_all_views(notebook.page)
    notebook.page.evaluate("() => window.lab.kernel().restart()")
    notebook.wait_ready()
    notebook.page.wait_for_selector("text=Python restarted")
    open_all_views(notebook.page)


def test_a_kernel_that_dies_while_it_sends_code_is_said_and_the_next_one_brings_it(
    notebook: Notebook,
) -> None:
    notebook.run(COUNT_SENT_BLOBS_CELL)
    notebook.run(
        "import os, signal\n"
        "def dying(self, name, parts=(), send=Connection._send_blob):\n"
        "    if known.get(name) == 'gzip':\n"
        "        time.sleep(1); os.kill(os.getpid(), signal.SIGKILL)\n"
        "    send(self, name, parts)\n"
        "Connection._send_blob = dying"
    )
    notebook.start(MAKE_VIEWER_CELL + "\nviewer")
    notebook.page.wait_for_selector("text=Python is not connected. Run the cell again.")
    notebook.page.locator(".jp-Dialog button").last.click()  # JupyterLab's own message
    notebook.wait_restarted()
    notebook.run(IMPORTS_CELL)
    notebook.run(MAKE_VIEWER_CELL + "\nviewer")
    wait_shown(notebook.page)
