"""What may grow in a page and a kernel, counted: for the leak test and for `make soak`."""

from collections.abc import Sequence

import numpy as np
from playwright.sync_api import Page

from lab import Notebook

# Listeners that the bundle adds itself: anywidget loads it from a blob, JupyterLab's code has URLs.
LISTENERS = """
const known = new WeakMap();
const targets = [];
const of = (target, type, options) => {
  if (!known.has(target)) {
    known.set(target, new Map());
    targets.push(new WeakRef(target));
  }
  const kinds = known.get(target);
  const capture = typeof options === "object" ? options?.capture : options;
  const key = `${type} ${Boolean(capture)}`;
  return kinds.get(key) ?? kinds.set(key, new Set()).get(key);
};
// Those of elements that are gone went with them, and an aborted signal has none.
window.heard = () => targets.map((one) => one.deref()).reduce((sum, target) => {
  const gone = target === undefined || target.aborted ||
    (target instanceof Element && !target.isConnected);
  return gone ? sum : [...known.get(target).values()].reduce((n, set) => n + set.size, sum);
}, 0);
const { addEventListener, removeEventListener } = EventTarget.prototype;
EventTarget.prototype.addEventListener = function (type, listener, options) {
  const mine = new Error().stack.split("\\n")[2]?.includes("blob:");
  if (mine && listener !== null) of(this ?? window, type, options).add(listener);
  return addEventListener.call(this, type, listener, options);
};
EventTarget.prototype.removeEventListener = function (type, listener, options) {
  if (known.has(this ?? window)) of(this ?? window, type, options).delete(listener);
  return removeEventListener.call(this, type, listener, options);
};
"""
# Timers of the bundle that have not gone off and were not cleared.
TIMERS = """
const pending = new Set();
for (const [set, clear] of [["setTimeout", "clearTimeout"], ["setInterval", "clearInterval"]]) {
  const { [set]: start, [clear]: stop } = window;
  window[set] = function (call, ms, ...given) {
    if (!new Error().stack.split("\\n")[2]?.includes("blob:")) {
      return start.call(window, call, ms, ...given);
    }
    const once = (...values) => {
      pending.delete(id);
      call(...values);
    };
    const id = start.call(window, set === "setTimeout" ? once : call, ms, ...given);
    pending.add(id);
    return id;
  };
  window[clear] = function (id) {
    pending.delete(id);
    stop.call(window, id);
  };
}
window.pending = () => pending.size;
"""
COUNTS = """() => {
  const [store] = [...globalThis[Symbol.for("nbglcnn.v1")].values()];
  return { ...store.device.alive, users: store.users, blobs: store.blobs.size,
           listeners: window.heard(), contexts: window.probe.contexts.length };
}"""
# Messages whose end JupyterLab awaits, by kernel connection: it keeps them and their buffers.
AWAITED = """() => [...window.jupyterapp.serviceManager.kernels._kernelConnections]
  .reduce((sum, connection) => sum + connection._futures.size, 0)"""
# Waited for as locators: the handle of wait_for_selector keeps an element and all it holds.
READY = ".nbglcnn[data-phase=ready] canvas[data-drawn]"
# Runs in the kernel; `print(*alive())` has the number of objects of each of the CLASSES.
CLASSES = ("Viewer", "Connection", "Plan")
KERNEL = f"""
import gc
from nbglcnn.plan import Plan
from nbglcnn.viewer.connection import Connection
gc.collect()
gc.freeze()  # what is here already need not be looked at again
def alive():
    gc.collect()
    kinds = [type(one) for one in gc.get_objects()]
    return [sum(kind.__name__ == name for kind in kinds) for name in {CLASSES!r}]
"""


def page_counts(page: Page) -> dict[str, int]:
    """What is alive in the page: WebGL objects by kind, blobs, listeners, contexts."""
    found: dict[str, int] = page.evaluate(COUNTS)
    return found


def heap_bytes(page: Page) -> int:
    """The page's JavaScript heap after collections."""
    session = page.context.new_cdp_session(page)
    for _ in range(2):  # what finalizers let go of goes in the second
        session.send("HeapProfiler.collectGarbage")
    used = int(session.send("Runtime.getHeapUsage")["usedSize"])
    session.detach()
    return used


class KernelCounter:
    """A cell that counts objects of the kernel, run again for each count."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._cell = notebook.start("print(*alive())")
        notebook.wait(self._cell)
        self._least: list[int] = []
        self.runs = 0  # of the cell

    def count(self) -> dict[str, int]:
        """Once the kernel has heard that the old view is gone; what leaks never goes."""
        for _ in range(8):
            self.runs += 1
            found = [int(word) for word in self._notebook.again(self._cell).text.split()]
            if not self._least or found <= self._least:
                break
            self._notebook.page.wait_for_timeout(150)
        self._least = self._least or found
        return dict(zip(CLASSES, found, strict=True))


def slopes(at: Sequence[float], rows: Sequence[dict[str, int]]) -> dict[str, float]:
    """How much each counter grows for each step of `at`, by a line through all its values."""
    return {name: float(np.polyfit(at, [row[name] for row in rows], 1)[0]) for name in rows[0]}
