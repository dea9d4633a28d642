"""Memory over many runs of a cell in real JupyterLab: a line through runs 10 to 50 is level."""

from collections.abc import Callable

import numpy as np
from playwright.sync_api import Browser

from lab import Lab, alone
from viewer_models import IMPORTS

RUNS, SETTLED, EVERY = 50, 10, 5
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
COUNTS = """() => {
  const [store] = [...globalThis[Symbol.for("nbglcnn.v1")].values()];
  return { ...store.device.alive, users: store.users, blobs: store.blobs.size,
           listeners: window.heard(), contexts: window.probe.contexts.length };
}"""
MAKE = """
x = np.random.default_rng(1).normal(size=(1, 1, 8, 8)).astype(np.float32)
viewer = Viewer(model, x)
viewer.output
display(viewer)
"""
KERNEL = """
import gc
from nbglcnn.plan import Plan
from nbglcnn.viewer.connection import Connection
gc.collect()
gc.freeze()  # what is here already need not be looked at again
def alive():
    gc.collect()
    kinds = [type(one) for one in gc.get_objects()]
    return [sum(kind.__name__ == name for kind in kinds)
            for name in ("Viewer", "Connection", "Plan")]
"""


def test_fifty_runs_of_a_cell_leave_nothing_behind(
    lab: Lab, browser: Callable[[str], Browser]
) -> None:
    with alone(lab, browser("swiftshader"), script=LISTENERS) as notebook:
        notebook.run(IMPORTS + KERNEL)
        notebook.run("model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU()).eval()")
        cell = notebook.start(MAKE)
        notebook.wait(cell)
        counter = notebook.start("print(*alive())")

        def kernel_objects() -> list[int]:
            """Once the kernel has heard that the old view is gone; what leaks never goes."""
            for _ in range(8):
                found = [int(word) for word in notebook.again(counter).text.split()]
                if not kernel or found <= kernel[0]:
                    break
                notebook.page.wait_for_timeout(150)
            return found

        notebook.wait(counter)
        rows: list[dict[str, int]] = []
        kernel: list[list[int]] = []
        for run in range(1, RUNS + 1):
            notebook.again(cell)
            notebook.page.wait_for_selector(".nbglcnn[data-phase=ready] canvas[data-drawn]")
            if run < SETTLED or run % EVERY > 0:
                continue
            kernel.append(kernel_objects())
            notebook.page.wait_for_timeout(100)  # the page hears that the old one was closed
            rows.append(notebook.page.evaluate(COUNTS))
    runs = np.arange(SETTLED, RUNS + 1, EVERY)
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        slope = np.polyfit(runs, values, 1)[0]
        assert abs(slope) < 1e-9, f"{name} grows by {slope:.3f} a run: {values.tolist()}"
        assert values[-1] > 0 or name == "blobs"
    for name, values in zip(("Viewer", "Connection", "Plan"), np.array(kernel).T, strict=True):
        slope = np.polyfit(runs, values, 1)[0]
        assert abs(slope) < 1e-9, f"{name}s grow by {slope:.3f} a run: {values.tolist()}"
