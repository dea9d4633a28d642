"""The front-end in a minimal host: anywidget's model, and an iframe for each output.

The page has no notebook application. The model's outgoing messages are taken from a list, and
Python's messages are passed in, with buffers in each form that hosts use. VS Code and Colab provide
no more than this.
"""

import base64
import io
import time
from collections.abc import Callable, Iterator

import pytest
from PIL import Image
from playwright.sync_api import Frame

from assertions import assert_all_equal
from minimal_host import TIMEOUT_S, HostFrames
from nbglcnn import Viewer
from viewer_models import autoencoder, hook_values, pictures

SEED = 60


@pytest.fixture
def viewer() -> Iterator[Viewer]:
    viewer = Viewer(autoencoder(SEED), pictures(SEED))
    yield viewer
    viewer.close()


@pytest.mark.parametrize(
    "form", ["DataView", "ArrayBuffer", "Uint8Array", "base64", "of another frame"]
)
def test_a_page_takes_buffers_in_every_form_and_computes(
    iframes: Callable[[int], list[Frame]],
    static_site: tuple[str, dict[str, bytes]],
    viewer: Viewer,
    form: str,
) -> None:
    host = HostFrames(viewer, iframes(1), static_site[0], form)
    host.wait_until(lambda: viewer.status["page"] == "connected")
    assert_all_equal(host.read(), hook_values(autoencoder(SEED), pictures(SEED)))
    host.wait_until(
        lambda: (
            host.frames[0].query_selector(".nbglcnn[data-phase=ready] canvas[data-drawn]")
            is not None
        )
    )


def test_each_output_may_be_a_frame_of_its_own(
    iframes: Callable[[int], list[Frame]], static_site: tuple[str, dict[str, bytes]], viewer: Viewer
) -> None:
    host = HostFrames(viewer, iframes(2), static_site[0], "DataView")
    host.wait_until(lambda: len(viewer._connection.usable_pages) == 2)
    assert_all_equal(host.read(), hook_values(autoencoder(SEED), pictures(SEED)))
    for frame in host.frames:
        host.wait_until(lambda frame=frame: frame.query_selector("canvas[data-drawn]") is not None)


@pytest.mark.usefixtures("fresh_page")
def test_a_module_lets_go_of_a_closed_viewer(
    iframes: Callable[[int], list[Frame]], static_site: tuple[str, dict[str, bytes]], viewer: Viewer
) -> None:
    host = HostFrames(viewer, iframes(1), static_site[0], "DataView")
    host.wait_until(lambda: viewer.status["page"] == "connected")
    host.read()
    [frame] = host.frames
    gone = "() => window.model.deref() === undefined"
    assert not frame.evaluate(gone)
    frame.evaluate("() => window.host.close()")
    session = frame.page.context.new_cdp_session(frame.page)
    end = time.monotonic() + TIMEOUT_S
    while not frame.evaluate(gone):
        assert time.monotonic() < end, "the model is kept alive"
        frame.page.wait_for_timeout(200)
        session.send("HeapProfiler.collectGarbage")


MARIMO_STATIC_PAGE_SCRIPT = (
    "() => { Object.defineProperty(window, '__MARIMO_STATIC__', { value: {} }); }"
)


def store_snapshot(viewer: Viewer) -> None:
    """Store the snapshot in the Viewer's state, as in marimo."""
    png = base64.b64encode(viewer.network.snapshot(0)).decode()
    viewer.set_trait("_snapshot_url", f"data:image/png;base64,{png}")


def test_a_page_without_python_shows_the_snapshot_and_asks_for_nothing(
    iframes: Callable[[int], list[Frame]], static_site: tuple[str, dict[str, bytes]], viewer: Viewer
) -> None:
    [frame] = iframes(1)
    frame.evaluate(MARIMO_STATIC_PAGE_SCRIPT)
    store_snapshot(viewer)
    HostFrames(viewer, [frame], static_site[0], "DataView")
    image = frame.locator("figure img")
    expected = Image.open(io.BytesIO(viewer.network.snapshot(0)))
    size = (
        "async image => { await image.decode(); return [image.naturalWidth, image.naturalHeight] }"
    )
    assert tuple(image.evaluate(size)) == expected.size
    caption = frame.locator("figure figcaption").text_content()
    assert caption == "Picture from the last run. Run the notebook to bring it to life."
    assert frame.evaluate("() => window.host.take()") == []


def test_a_page_without_python_and_snapshot_says_so(
    iframes: Callable[[int], list[Frame]], static_site: tuple[str, dict[str, bytes]], viewer: Viewer
) -> None:
    [frame] = iframes(1)
    frame.evaluate(MARIMO_STATIC_PAGE_SCRIPT)
    HostFrames(viewer, [frame], static_site[0], "DataView")
    text = frame.evaluate("() => document.body.textContent.trim()")
    assert text == "This page has no Python. Run the notebook to bring it to life."
    assert frame.locator("img").count() == 0


def test_while_python_does_not_answer_the_snapshot_is_there_until_the_view_comes(
    iframes: Callable[[int], list[Frame]], static_site: tuple[str, dict[str, bytes]], viewer: Viewer
) -> None:
    [frame] = iframes(1)
    store_snapshot(viewer)
    host = HostFrames(viewer, [frame], static_site[0], "DataView")
    frame.locator("figure img").wait_for()
    caption = frame.locator("figure figcaption").text_content()
    assert caption == "Waiting for Python to send the Viewer’s code."
    host.wait_until(lambda: frame.query_selector(".nbglcnn canvas[data-drawn]") is not None)
    assert frame.locator("figure img").count() == 0
