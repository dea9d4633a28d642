"""Counts objects that may leak in a page and a kernel: for the leak test and `make soak`."""

from collections.abc import Sequence

import numpy as np
from playwright.sync_api import Page

from jupyter_lab import Notebook

# The listeners that the bundle adds. Their stack traces name a blob: URL, from which anywidget
# loads the bundle; JupyterLab's code has http: URLs.
COUNT_LISTENERS_SCRIPT = """
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
# The bundle's pending timers: neither fired nor cleared.
COUNT_TIMERS_SCRIPT = """
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
COUNT_PAGE_OBJECTS_SCRIPT = """() => {
  const [store] = [...globalThis[Symbol.for("nbglcnn.v1")].values()];
  return { ...store.device.liveObjects, users: store.deviceUsers, blobs: store.blobs.size,
           listeners: window.heard(), contexts: window.probe.contexts.length };
}"""
# Messages with a pending reply in JupyterLab, by kernel connection: it keeps them and their
# buffers.
COUNT_PENDING_REPLIES_SCRIPT = """() => [
  ...window.jupyterapp.serviceManager.kernels._kernelConnections
].reduce((sum, connection) => sum + connection._futures.size, 0)"""
# V8's compiled code grows for hundreds of runs, the more code the more: by 12 kB per run of a cell
# with a Viewer. With its compilers off and feedback allocated from a function's first call, the
# remaining growth is the page's own.
DETERMINISTIC_V8_FLAGS = (
    "--js-flags=--no-opt --no-maglev --no-sparkplug "
    "--no-lazy-feedback-allocation --no-flush-bytecode"
)
# A minimal widget as the baseline for a Viewer: JupyterLab itself keeps 23 kB per run.
BARE_WIDGET_CELL = """import anywidget
class Bare(anywidget.AnyWidget): _esm = "export default { render() {} };"
"""
# Wait with locators: the handle of wait_for_selector retains an element and its references.
DRAWN_VIEWER_SELECTOR = ".nbglcnn[data-phase=ready] canvas[data-drawn]"
# Runs in the kernel; `print(*alive())` prints the number of objects of each of the CLASSES.
COUNTED_CLASSES = ("Viewer", "Connection", "Plan")
COUNT_KERNEL_OBJECTS_CELL = f"""
import gc
from nbglcnn.plan.schema import Plan
from nbglcnn.widget.connection import Connection
gc.collect()
gc.freeze()  # what is here already need not be looked at again
def alive():
    gc.collect()
    kinds = [type(one) for one in gc.get_objects()]
    return [sum(kind.__name__ == name for kind in kinds) for name in {COUNTED_CLASSES!r}]
"""


def page_counts(page: Page) -> dict[str, int]:
    """The live objects in the page: WebGL objects by kind, blobs, listeners, contexts."""
    found: dict[str, int] = page.evaluate(COUNT_PAGE_OBJECTS_SCRIPT)
    return found


def heap_usage(page: Page) -> dict[str, int]:
    """The memory after garbage collection: JavaScript bytes, and DOM nodes attached or not."""
    session = page.context.new_cdp_session(page)
    for _ in range(2):  # the second pass collects what finalizers released
        session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")
    nodes = session.send("Memory.getDOMCounters")["nodes"]
    session.detach()
    # The content of an ArrayBuffer is outside the heap.
    return {"bytes": int(used["usedSize"] + used["backingStorageSize"]), "nodes": int(nodes)}


def bare_widget_growth(
    notebook: Notebook, first: int, last: int, every: int, *, cells: int = 1
) -> dict[str, float]:
    """Measure the heap growth per run of a cell that displays a minimal widget.

    With several cells, run in turn, the growth includes the toolbar buttons that JupyterLab keeps
    for each cell that was active.
    """
    shown = [notebook.start(BARE_WIDGET_CELL + "display(Bare())") for _ in range(cells)]
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
        """Count after both sides have disposed of the old Viewer.

        Leaked objects never disappear, so waiting doesn't hide them.
        """
        for _ in range(20):
            # Not in a cell: JupyterLab keeps a cell's buttons each time it becomes active.
            alive = [
                int(word) for word in self._notebook.evaluate_silently("print(*alive())").split()
            ]
            found = dict(zip(COUNTED_CLASSES, alive, strict=True)) | page_counts(
                self._notebook.page
            )
            if all(found[name] <= least for name, least in self._minimums.items()):
                break
            self._notebook.page.wait_for_timeout(150)
        self._minimums = self._minimums or found
        return found


def growth_rates(positions: Sequence[float], rows: Sequence[dict[str, int]]) -> dict[str, float]:
    """The growth of each counter per unit of `positions`, by a linear fit."""
    return {
        name: float(np.polyfit(positions, [row[name] for row in rows], 1)[0]) for name in rows[0]
    }
