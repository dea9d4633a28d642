"""What may grow in a page and a kernel, counted: for the leak test and for `make soak`."""

from collections.abc import Sequence

import numpy as np
from playwright.sync_api import Page

from jupyter_lab import Notebook

# Listeners that the bundle adds itself: anywidget loads it from a blob, JupyterLab's code has URLs.
COUNT_LISTENERS = """
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
COUNT_TIMERS = """
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
PAGE_COUNTS = """() => {
  const [store] = [...globalThis[Symbol.for("nbglcnn.v1")].values()];
  return { ...store.device.liveObjects, users: store.deviceUsers, blobs: store.blobs.size,
           listeners: window.heard(), contexts: window.probe.contexts.length };
}"""
# Messages whose end JupyterLab awaits, by kernel connection: it keeps them and their buffers.
COUNT_PENDING_REPLIES = """() => [...window.jupyterapp.serviceManager.kernels._kernelConnections]
  .reduce((sum, connection) => sum + connection._futures.size, 0)"""
# What V8 compiles grows for hundreds of runs, the more the more code there is: by 12 kB a run of a
# cell with a Viewer. Without its compilers, and with what it notes of functions from their first
# call on, what still grows is what the page keeps.
PLAIN_V8 = (
    "--js-flags=--no-opt --no-maglev --no-sparkplug "
    "--no-lazy-feedback-allocation --no-flush-bytecode"
)
# The least that a cell can show, against which a Viewer is measured: JupyterLab keeps 23 kB a run.
BARE_WIDGET = """import anywidget
class Bare(anywidget.AnyWidget): _esm = "export default { render() {} };"
"""
# Waited for as locators: the handle of wait_for_selector keeps an element and all it holds.
DRAWN_VIEWER = ".nbglcnn[data-phase=ready] canvas[data-drawn]"
# Runs in the kernel; `print(*alive())` has the number of objects of each of the CLASSES.
CLASSES = ("Viewer", "Connection", "Plan")
COUNT_KERNEL_OBJECTS = f"""
import gc
from nbglcnn.plan.schema import Plan
from nbglcnn.widget.connection import Connection
gc.collect()
gc.freeze()  # what is here already need not be looked at again
def alive():
    gc.collect()
    kinds = [type(one) for one in gc.get_objects()]
    return [sum(kind.__name__ == name for kind in kinds) for name in {CLASSES!r}]
"""


def page_counts(page: Page) -> dict[str, int]:
    """What is alive in the page: WebGL objects by kind, blobs, listeners, contexts."""
    found: dict[str, int] = page.evaluate(PAGE_COUNTS)
    return found


def heap_usage(page: Page) -> dict[str, int]:
    """What is left in the page after collections: bytes of JavaScript, elements in it or not."""
    session = page.context.new_cdp_session(page)
    for _ in range(2):  # what finalizers let go of goes in the second
        session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")
    nodes = session.send("Memory.getDOMCounters")["nodes"]
    session.detach()
    # An ArrayBuffer's content is outside the heap.
    return {"bytes": int(used["usedSize"] + used["backingStorageSize"]), "nodes": int(nodes)}


def bare_widget_growth(
    notebook: Notebook, first: int, last: int, every: int, *, cells: int = 1
) -> dict[str, float]:
    """By how much the heap grows with each run of a cell that shows the least of widgets.

    With several cells, run in turn, that has the buttons too that JupyterLab keeps of each cell
    that was active.
    """
    shown = [notebook.start(BARE_WIDGET + "display(Bare())") for _ in range(cells)]
    for cell in shown:
        notebook.wait(cell)
    rows = []
    for run in range(1, last + 1):
        notebook.rerun(shown[run % cells])
        if run >= first and run % every == 0:
            rows.append(heap_usage(notebook.page))
    grown = growth_rates(range(first, last + 1, every), rows)
    print("JupyterLab keeps of any run:", {name: round(one, 1) for name, one in grown.items()})
    return grown


class ObjectCounter:
    """Counts objects of a kernel and its page."""

    def __init__(self, notebook: Notebook) -> None:
        self._notebook = notebook
        self._minimums: dict[str, int] = {}

    def count(self) -> dict[str, int]:
        """Once both have heard that the old Viewer is gone; what leaks never goes."""
        for _ in range(20):
            # In no cell: JupyterLab keeps a cell's buttons each time that it was active.
            alive = [
                int(word) for word in self._notebook.evaluate_silently("print(*alive())").split()
            ]
            found = dict(zip(CLASSES, alive, strict=True)) | page_counts(self._notebook.page)
            if all(found[name] <= least for name, least in self._minimums.items()):
                break
            self._notebook.page.wait_for_timeout(150)
        self._minimums = self._minimums or found
        return found


def growth_rates(at: Sequence[float], rows: Sequence[dict[str, int]]) -> dict[str, float]:
    """How much each counter grows for each step of `at`, by a line through all its values."""
    return {name: float(np.polyfit(at, [row[name] for row in rows], 1)[0]) for name in rows[0]}
