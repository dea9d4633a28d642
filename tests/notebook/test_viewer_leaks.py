"""Memory over many runs of a cell in real JupyterLab: the trend over runs 8 to 32 is flat.

`make soak` tests hundreds of runs.
"""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Playwright

from jupyter_lab import LabServer, new_notebook
from leaks import (
    COUNT_KERNEL_OBJECTS_CELL,
    COUNT_LISTENERS_SCRIPT,
    COUNT_PENDING_REPLIES_SCRIPT,
    DETERMINISTIC_V8_FLAGS,
    DRAWN_VIEWER_SELECTOR,
    ObjectCounter,
    bare_widget_growth,
    growth_rates,
    heap_usage,
)
from viewer_models import IMPORTS_CELL

RUNS, WARMUP_RUNS, COUNT_EVERY = 32, 8, 4
MAKE_VIEWER_CELL = """
x = np.random.default_rng(1).normal(size=(1, 1, 8, 8)).astype(np.float32)
viewer = Viewer(model, x)
viewer.output
display(viewer)
"""
# The most that a run may add to what a run of any cell with a widget adds: the page keeps the
# loader's module, 14 to 19 kB. The front-end's code would be 1,100 kB, a Viewer's elements 150 kB
# and more than a hundred nodes.
GROWTH_LIMITS = {"bytes": 40_000, "nodes": 5}


@pytest.fixture
def deterministic_browser(
    playwright: Playwright, chromium_path: str, browser_args: Callable[[str], list[str]]
) -> Iterator[Browser]:
    """A browser with a V8 configuration whose heap holds only objects that pages keep alive."""
    arguments = [*browser_args("llvmpipe"), DETERMINISTIC_V8_FLAGS]
    with playwright.chromium.launch(executable_path=chromium_path, args=arguments) as browser:
        yield browser


def test_thirty_runs_of_a_cell_leave_nothing_behind(
    lab: LabServer, deterministic_browser: Browser
) -> None:
    with new_notebook(lab, deterministic_browser, script=COUNT_LISTENERS_SCRIPT) as notebook:
        notebook.run(IMPORTS_CELL + COUNT_KERNEL_OBJECTS_CELL)
        notebook.run("model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU()).eval()")
        cell = notebook.start(MAKE_VIEWER_CELL)
        notebook.wait(cell)
        counter = ObjectCounter(notebook)
        rows: list[dict[str, int]] = []
        heaps, awaited = [], []
        for run in range(1, RUNS + 1):
            notebook.rerun(cell)
            notebook.page.locator(DRAWN_VIEWER_SELECTOR).first.wait_for()
            if run < WARMUP_RUNS or run % COUNT_EVERY > 0:
                continue
            rows.append(counter.count())
            heaps.append(heap_usage(notebook.page))
            awaited.append(notebook.page.evaluate(COUNT_PENDING_REPLIES_SCRIPT))
        bare = bare_widget_growth(notebook, WARMUP_RUNS, RUNS, COUNT_EVERY)
    at = range(WARMUP_RUNS, RUNS + 1, COUNT_EVERY)
    for name in rows[0]:
        values = [row[name] for row in rows]
        # Objects in flight count too, so compare the minima: a leak raises them.
        assert min(values[-3:]) <= min(values[:3]), f"{name} grows: {values}"
        assert values[-1] > 0 or name == "blobs"
    assert max(awaited) < 20, f"JupyterLab keeps messages to the kernel: {awaited}"
    for name, slope in growth_rates(at, heaps).items():
        said = f"{name} grow by {slope:.1f} a run, {bare[name]:.1f} without a Viewer"
        assert slope - bare[name] < GROWTH_LIMITS[name], f"{said}: {[row[name] for row in heaps]}"
