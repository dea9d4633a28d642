"""Injected faults in a notebook's page: lost or duplicated frames, lost contexts."""

from collections.abc import Sequence
from typing import Any

from jupyter_lab import Notebook
from nbglcnn.widget.viewer import MESSAGES

MESSAGE_TYPES = [record.__name__.lower() for record in MESSAGES.from_kernel + MESSAGES.from_page]
# The fate of a frame with one of our messages: `fates[type][k]` for the k-th of its type from 1, or
# `fates[type].all`: "drop" it, deliver it "twice", "close" the socket or "interrupt" the kernel.
# The next Viewers, in the order of their first messages, get an `end` after the message counts in
# `ends`, both sides counted (null: never): "dead", nothing is delivered any more, "close" of the
# comm, or "restart" of the kernel.
CONNECTION_SCRIPT = """
window.wire = { fates: {}, seen: {}, ends: [], end: "dead", lives: new Map() };
const KIND = new RegExp('"type": ?"(KINDS)"');
const COMM = new RegExp('"comm_id": ?"([^"]+)"');
// The head has all of the JSON; what follows are the buffers.
const headOf = (data) => typeof data === "string" ? data
  : new TextDecoder("latin1").decode(new Uint8Array(data.buffer ?? data, 0,
      Math.min(data.byteLength, 30000)));
// What a Viewer and its page have said from hello on: the types of its messages, and when it ends.
// One from before goes on without an end: its page may tell of a run long after all was read.
const lifeOf = (text, kind) => {
  const { lives, ends } = window.wire;
  const comm = COMM.exec(text)?.[1];
  if (kind === "hello" && !lives.has(comm)) {
    lives.set(comm, { comm, said: [], end: ends.shift() ?? null, over: false });
  }
  return lives.get(comm);
};
const fateOf = (kind) => {
  const { fates, seen } = window.wire;
  seen[kind] = (seen[kind] ?? 0) + 1;
  const fate = fates[kind]?.[seen[kind]] ?? fates[kind]?.all;
  if (fate) (seen.fates ??= []).push(`${kind} ${fate}`);
  return fate;
};
const pass = (socket, data, deliver) => {
  const text = headOf(data);
  if (!text.includes('"comm_msg"')) return deliver();
  const kind = KIND.exec(text)?.[1];
  const life = lifeOf(text, kind);
  const after = life !== undefined && life.end !== null && life.said.length >= life.end;
  if (after && window.wire.end === "dead") {
    life.over = true;
    return;
  }
  if (kind === undefined) return deliver();
  life?.said.push(kind);
  if (life !== undefined && life.said.length === life.end && window.wire.end !== "dead") {
    deliver();
    life.over = true;
    if (window.wire.end === "restart") window.lab.kernel().restart();
    else window.lab.kernel()._comms.get(life.comm)?.close();
    return;
  }
  const fate = fateOf(kind);
  if (fate === "close") socket.close();
  if (fate === "interrupt") window.lab.kernel().interrupt();
  if (fate === "drop" || fate === "close" || fate === "interrupt") return;
  deliver();
  if (fate === "twice") deliver();
};
const { send } = WebSocket.prototype;
WebSocket.prototype.send = function (data) {
  pass(this, data, () => send.call(this, data));
};
const { get, set } = Object.getOwnPropertyDescriptor(WebSocket.prototype, "onmessage");
Object.defineProperty(WebSocket.prototype, "onmessage", {
  configurable: true,
  get,
  set(listener) {
    set.call(this, listener === null ? null : (event) => {
      pass(this, event.data, () => listener.call(this, event));
    });
  },
});
""".replace("KINDS", "|".join(MESSAGE_TYPES))

# Simulates a driver that miscompiles some correct shaders.
MISCOMPILE_SCRIPT = """
window.miscompiled = [];
const { shaderSource } = WebGL2RenderingContext.prototype;
WebGL2RenderingContext.prototype.shaderSource = function (shader, text) {
  for (const [word, wrong, instead] of window.miscompiled) {
    if (text.includes(word)) text = text.replaceAll(wrong, instead);
  }
  shaderSource.call(this, shader, text);
};
"""
MISCOMPILE_ALL_REPLACEMENT = [
    "void finish(",
    "RESULT(a0, 0)",
    "1.01 * RESULT(a0, 0)",
]  # all kernels with an epilogue

# Simulates a device that fails later: while `window.skips` is set, every seventh draw is skipped.
SKIP_DRAWS_SCRIPT = """
window.skips = false;
let draws = 0;
const { drawArrays } = WebGL2RenderingContext.prototype;
WebGL2RenderingContext.prototype.drawArrays = function (...given) {
  if (window.skips && ++draws % 7 === 0) return;
  drawArrays.apply(this, given);
};
"""

# Simulates a device that changes the last of equal examples slightly on upload: by less than a
# layer's tolerance. Each example ends with this number.
LAST_EXAMPLE_VALUE = 0.7654321
CORRUPT_UPLOADS_SCRIPT = (
    """
for (const name of ["texSubImage3D", "texSubImage2D"]) {
  const upload = WebGL2RenderingContext.prototype[name];
  WebGL2RenderingContext.prototype[name] = function (...given) {
    const k = given.findIndex((one) => one instanceof Float32Array);
    const at = k < 0 ? -1 : given[k].lastIndexOf(Math.fround(END));
    if (at >= 0) {
      given[k] = given[k].slice();
      given[k][at] *= 1.000001;
    }
    return upload.apply(this, given);
  };
}
"""
).replace("END", str(LAST_EXAMPLE_VALUE))

COUNT_LIVE_OBJECTS_SCRIPT = """() => {
  const [store] = [...(globalThis[Symbol.for("nbglcnn.v1")]?.values() ?? [])];
  return { ...(store?.device?.liveObjects ?? {}) };
}"""

# Loses the context instead of the next call of a WebGL function, and restores it soon after.
LOSE_CONTEXT_AT_SCRIPT = """(name) => {
  const context = window.probe.contexts.findLast((gl) => !gl.isContextLost());
  const loser = context.getExtension("WEBGL_lose_context");
  const call = context[name];
  context[name] = function (...given) {
    delete context[name];
    loser.loseContext();
    setTimeout(() => loser.restoreContext(), 300);
    return call.apply(context, given);
  };
}"""


def set_message_faults(notebook: Notebook, message_faults: dict[str, dict[Any, str]]) -> None:
    """Set the faults of message frames, and restart their counts."""
    notebook.page.evaluate(
        "fates => Object.assign(window.wire, { fates, seen: {} })", message_faults
    )


def take_injected_faults(notebook: Notebook) -> list[str]:
    """Return the faults that occurred, as "type fate", and deliver all frames from now on."""
    met = notebook.page.evaluate("() => window.wire.seen.fates ?? []")
    set_message_faults(notebook, {})
    return list(met)


def set_connection_ends(
    notebook: Notebook, message_counts: Sequence[int | None], end_kind: str
) -> None:
    """Set when later Viewers end ("dead", "close", "restart"): message counts, None: never."""
    notebook.page.evaluate(
        "given => { window.wire.lives.clear(); Object.assign(window.wire, given); }",
        {"ends": list(message_counts), "end": end_kind},
    )


def viewer_histories(notebook: Notebook) -> list[dict[str, Any]]:
    """The Viewers since then: the messages `said` on either side, and whether each is `over`."""
    found: list[dict[str, Any]] = notebook.page.evaluate("() => [...window.wire.lives.values()]")
    return found


def wait_counts_settled(notebook: Notebook) -> dict[str, int]:
    """The number of live GL objects, once it is stable."""
    before: dict[str, int] = {}
    while (now := notebook.page.evaluate(COUNT_LIVE_OBJECTS_SCRIPT)) != before:
        before = now
        notebook.page.wait_for_timeout(700)
    return before
