"""Faults on purpose in a notebook's page: frames that are lost or doubled, lost contexts."""

from typing import Any

from lab import Notebook

# What becomes of a frame with one of our messages: `fates[type][k]` of the k-th of its type from 1,
# or `fates[type].all`: "drop" it, deliver it "twice", "close" the socket or "interrupt" the kernel.
WIRE = """
window.wire = { fates: {}, seen: {} };
const KIND = new RegExp('"type": ?"(state|part|read|done|release|hello|need|progress|ran|health' +
  '|pace|reply|failed)"');
const kindOf = (data) => {
  // The head has all of the JSON; what follows are the buffers.
  const text = typeof data === "string" ? data
    : new TextDecoder("latin1").decode(new Uint8Array(data.buffer ?? data, 0,
        Math.min(data.byteLength, 30000)));
  return text.includes('"comm_msg"') ? KIND.exec(text)?.[1] : undefined;
};
const fateOf = (data) => {
  const kind = kindOf(data);
  if (kind === undefined) return undefined;
  const { fates, seen } = window.wire;
  seen[kind] = (seen[kind] ?? 0) + 1;
  const fate = fates[kind]?.[seen[kind]] ?? fates[kind]?.all;
  if (fate) (seen.fates ??= []).push(`${kind} ${fate}`);
  return fate;
};
const pass = (socket, data, deliver) => {
  const fate = fateOf(data);
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
"""

ALIVE = """() => {
  const [store] = [...(globalThis[Symbol.for("nbglcnn.v1")]?.values() ?? [])];
  return { ...(store?.device?.alive ?? {}) };
}"""

# Loses the context in place of the next call of a WebGL function, and gives it back soon after.
LOSE_AT = """(name) => {
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


def set_fates(notebook: Notebook, fates: dict[str, dict[Any, str]]) -> None:
    """From now on, and counted from now on, this is what becomes of frames."""
    notebook.page.evaluate("fates => Object.assign(window.wire, { fates, seen: {} })", fates)


def met_fates(notebook: Notebook) -> list[str]:
    """What has become of frames, as "type fate"; from now on they all arrive."""
    met = notebook.page.evaluate("() => window.wire.seen.fates ?? []")
    set_fates(notebook, {})
    return list(met)


def settled(notebook: Notebook) -> dict[str, int]:
    """GL objects alive once nothing changes any more."""
    before: dict[str, int] = {}
    while (now := notebook.page.evaluate(ALIVE)) != before:
        before = now
        notebook.page.wait_for_timeout(700)
    return before
