"""The front-end in a host that gives the least: anywidget's model, and an iframe for each output.

No notebook application is in the page. What the page's model sends is taken out of a list, what
Python sends is handed over, buffers in each form that hosts use; VS Code and Colab are no more.
"""

import base64
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Frame, Page

from equal import assert_all_equal
from nbglcnn import Viewer
from viewer_models import autoencoder, hooked, pictures

SEED = 60
PATIENCE_S = 60
# A host in a frame: the model that anywidget's interface promises, and nothing besides.
HOST = """async ([address, traits, form]) => {
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const forms = {
    DataView: (text) => new DataView(bytes(text).buffer),
    ArrayBuffer: (text) => bytes(text).buffer,
    Uint8Array: (text) => {
      const inside = new Uint8Array(bytes(text).length + 8);
      inside.set(bytes(text), 3);
      return inside.subarray(3, inside.length - 5);
    },
    base64: (text) => text,
    "of another frame": (text) => window.parent.eval("(array) => new Uint8Array(array).buffer")(
      [...bytes(text)]),
  };
  const encoded = (buffer) => {
    let text = "";
    for (const byte of new Uint8Array(buffer)) text += String.fromCharCode(byte);
    return btoa(text);
  };
  const listeners = new Map();
  const sent = [];
  const model = {
    get: (name) => traits[name],
    set: (name, value) => { traits[name] = value; },
    save_changes: () => undefined,
    on: (event, listener) => listeners.set(event, [...(listeners.get(event) ?? []), listener]),
    off: (event, gone) =>
      listeners.set(event, (listeners.get(event) ?? []).filter((one) => one !== gone)),
    send: (content, _, buffers) =>
      sent.push([content, (buffers ?? []).map((one) => encoded(one))]),
  };
  const module = await import(address);
  const widget = await module.default();
  const closing = new AbortController();
  const { signal } = closing;
  await widget.initialize({ model, signal });
  const el = document.createElement("div");
  document.body.append(el);
  const remove = await widget.render({ model, el, signal });
  window.kept = [module, widget]; // as the page's list of modules does, and some hosts
  window.model = new WeakRef(model);
  window.host = {
    close: () => {
      remove();
      el.remove();
      closing.abort();
      window.host = undefined;
    },
    take: () => sent.splice(0),
    give: (content, buffers) => {
      const made = buffers.map(forms[form]);
      for (const listener of listeners.get("msg:custom") ?? []) listener(content, made);
    },
  };
}"""


class Frames:
    """A Viewer of this process shown in frames, and the line between them."""

    def __init__(self, viewer: Viewer, frames: list[Frame], static: str, form: str) -> None:
        self.connection = viewer._connection
        self.viewer = viewer
        self.frames = frames
        self.outgoing: list[tuple[Any, list[str]]] = []
        self.connection._send_raw = self.send
        names = ("colormap", "color_range", "_bundle")
        traits = {name: getattr(viewer, name) for name in names}
        for frame in frames:
            frame.evaluate(HOST, [f"{static}/static/loader.js", traits, form])

    def send(self, content: Any, buffers: list[memoryview]) -> None:
        """What Python sends, until the frames are given it."""
        self.outgoing.append((content, [base64.b64encode(one).decode() for one in buffers]))

    def step(self) -> None:
        """Carry everything that waits, both ways."""
        for frame in self.frames:
            for content, buffers in frame.evaluate("() => window.host.take()"):
                # As bytes, which marimo gives; JupyterLab gives memoryviews.
                self.viewer._handle_custom_msg(content, [base64.b64decode(b) for b in buffers])
        waiting, self.outgoing = self.outgoing, []
        for message in waiting:
            for frame in self.frames:
                frame.evaluate(
                    "([content, buffers]) => window.host.give(content, buffers)", message
                )
        self.frames[0].page.wait_for_timeout(10)

    def until(self, done: Callable[[], bool]) -> None:
        """Carry messages until something is true."""
        end = time.monotonic() + PATIENCE_S
        while not done():
            assert time.monotonic() < end
            self.step()

    def read(self) -> dict[str, Any]:
        """Every value of the network, from a page."""
        values = self.viewer.network.plan.values
        request = self.connection.ask([v.key for v in values], [4 * v.read.count for v in values])
        self.until(lambda: self.connection.answered(request, PATIENCE_S))
        self.connection.drop(request)
        return {
            value.key: flat.reshape(value.shape)
            for value, flat in zip(values, request.arrays(), strict=True)
        }


@pytest.fixture
def frames(
    gl_page: Callable[..., Page], site: tuple[str, dict[str, bytes]]
) -> Callable[[int], list[Frame]]:
    """frames(2): so many iframes of one page, each a document of its own."""

    def make(count: int) -> list[Frame]:
        page = gl_page("swiftshader")
        page.evaluate(
            """count => {
              for (let k = 0; k < count; k++) {
                const frame = document.createElement("iframe");
                frame.src = "/";
                frame.style = "width: 900px; height: 500px";
                document.body.append(frame);
              }
            }""",
            count,
        )
        page.wait_for_function("count => window.frames.length === count", arg=count)
        found = [frame for frame in page.frames if frame != page.main_frame]
        for frame in found:
            frame.wait_for_load_state()
        return found

    return make


@pytest.fixture
def viewer() -> Iterator[Viewer]:
    viewer = Viewer(autoencoder(SEED), pictures(SEED))
    yield viewer
    viewer.close()


@pytest.mark.parametrize(
    "form", ["DataView", "ArrayBuffer", "Uint8Array", "base64", "of another frame"]
)
def test_a_page_takes_buffers_in_every_form_and_computes(
    frames: Callable[[int], list[Frame]],
    site: tuple[str, dict[str, bytes]],
    viewer: Viewer,
    form: str,
) -> None:
    host = Frames(viewer, frames(1), site[0], form)
    host.until(lambda: bool(viewer._connection.usable))
    assert_all_equal(host.read(), hooked(autoencoder(SEED), pictures(SEED)))
    host.until(
        lambda: (
            host.frames[0].query_selector(".nbglcnn[data-phase=ready] canvas[data-drawn]")
            is not None
        )
    )


def test_each_output_may_be_a_frame_of_its_own(
    frames: Callable[[int], list[Frame]], site: tuple[str, dict[str, bytes]], viewer: Viewer
) -> None:
    host = Frames(viewer, frames(2), site[0], "DataView")
    host.until(lambda: len(viewer._connection.usable) == 2)
    assert_all_equal(host.read(), hooked(autoencoder(SEED), pictures(SEED)))
    for frame in host.frames:
        host.until(lambda frame=frame: frame.query_selector("canvas[data-drawn]") is not None)


def test_a_module_lets_go_of_a_closed_viewer(
    frames: Callable[[int], list[Frame]], site: tuple[str, dict[str, bytes]], viewer: Viewer
) -> None:
    host = Frames(viewer, frames(1), site[0], "DataView")
    host.until(lambda: bool(viewer._connection.usable))
    host.read()
    [frame] = host.frames
    gone = "() => window.model.deref() === undefined"
    assert not frame.evaluate(gone)
    frame.evaluate("() => window.host.close()")
    session = frame.page.context.new_cdp_session(frame.page)
    end = time.monotonic() + PATIENCE_S
    while not frame.evaluate(gone):
        assert time.monotonic() < end, "the model is kept alive"
        frame.page.wait_for_timeout(200)
        session.send("HeapProfiler.collectGarbage")
