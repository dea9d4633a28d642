"""Memory over many runs of a cell in real JupyterLab: a line through runs 10 to 50 is level."""

from collections.abc import Callable

from playwright.sync_api import Browser

from lab import Lab, alone
from leaks import (
    AWAITED,
    KERNEL,
    LISTENERS,
    READY,
    KernelCounter,
    heap_bytes,
    page_counts,
    slopes,
)
from viewer_models import IMPORTS

RUNS, SETTLED, EVERY = 50, 10, 5
MAKE = """
x = np.random.default_rng(1).normal(size=(1, 1, 8, 8)).astype(np.float32)
viewer = Viewer(model, x)
viewer.output
display(viewer)
"""
# What a run of any cell may add. JupyterLab and the browser keep 35 kB of one that shows an
# anywidget of one line; the front-end's code would be 1,100 kB.
HEAP_BYTES = 100_000


def test_fifty_runs_of_a_cell_leave_nothing_behind(
    lab: Lab, browser: Callable[[str], Browser]
) -> None:
    with alone(lab, browser("llvmpipe"), script=LISTENERS) as notebook:
        notebook.run(IMPORTS + KERNEL)
        notebook.run("model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU()).eval()")
        cell = notebook.start(MAKE)
        notebook.wait(cell)
        kernel = KernelCounter(notebook)
        rows: list[dict[str, int]] = []
        cells, heap, awaited = [], [], []
        for run in range(1, RUNS + 1):
            notebook.again(cell)
            notebook.page.locator(READY).first.wait_for()
            if run < SETTLED or run % EVERY > 0:
                continue
            objects = kernel.count()
            notebook.page.wait_for_timeout(100)  # the page hears that the old one was closed
            rows.append(page_counts(notebook.page) | objects)
            cells.append(run + kernel.runs)
            heap.append({"bytes": heap_bytes(notebook.page)})
            awaited.append(notebook.page.evaluate(AWAITED))
    for name, slope in slopes(range(SETTLED, RUNS + 1, EVERY), rows).items():
        values = [row[name] for row in rows]
        assert abs(slope) < 1e-9, f"{name} grows by {slope:.3f} a run: {values}"
        assert values[-1] > 0 or name == "blobs"
    assert max(awaited) < 20, f"JupyterLab keeps messages to the kernel: {awaited}"
    grows = slopes(cells, heap)["bytes"]
    assert grows < HEAP_BYTES, f"the heap grows by {grows:.0f} bytes a cell: {cells} {heap}"
