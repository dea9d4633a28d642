"""A minimal host: only anywidget's model, in a frame; messages are carried one by one."""

import base64
import time
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Frame

from nbglcnn import Viewer

TIMEOUT_S = 60
# A host in a frame: it provides the model of anywidget's interface and nothing else.
HOST_SCRIPT = """async ([address, traits, form]) => {
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


class HostFrames:
    """A Viewer of this process displayed in frames, and the transport between them."""

    def __init__(self, viewer: Viewer, frames: list[Frame], static: str, buffer_type: str) -> None:
        self.connection = viewer._connection
        self.viewer = viewer
        self.address = static
        self.frames = frames
        self.pending_messages: list[tuple[Any, list[str]]] = []
        self.connection._send_raw = self.send
        names = ("colormap", "color_range", "_code", "_source", "_snapshot_url")
        traits = {name: getattr(viewer, name) for name in names}
        for frame in frames:
            frame.evaluate(HOST_SCRIPT, [f"{static}/static/loader.js", traits, buffer_type])

    def send(self, content: Any, buffers: list[memoryview]) -> None:
        """Queue a message from Python for the frames."""
        self.pending_messages.append((content, [base64.b64encode(one).decode() for one in buffers]))

    def deliver_messages(self) -> None:
        """Deliver all queued messages in both directions."""
        for frame in self.frames:
            for content, buffers in frame.evaluate("() => window.host.take()"):
                # As bytes, like marimo; JupyterLab passes memoryviews.
                self.viewer._handle_custom_msg(content, [base64.b64decode(b) for b in buffers])
        waiting, self.pending_messages = self.pending_messages, []
        for message in waiting:
            for frame in self.frames:
                frame.evaluate(
                    "([content, buffers]) => window.host.give(content, buffers)", message
                )
        self.frames[0].page.wait_for_timeout(10)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Deliver messages until a condition holds."""
        end = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < end
            self.deliver_messages()

    def read(self) -> dict[str, Any]:
        """Read every value of the network from a page."""
        values = self.viewer.network.plan.values
        request = self.connection.request_values(
            [v.key for v in values], [4 * v.readback.count for v in values]
        )
        self.wait_until(lambda: self.connection.is_answered(request, TIMEOUT_S))
        self.connection.end_request(request)
        return {
            value.key: flat.reshape(value.shape)
            for value, flat in zip(values, request.arrays(), strict=True)
        }
