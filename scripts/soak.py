"""Simulates ten minutes of a user's actions on Viewers in a real JupyterLab: `make soak`.

Cells are rerun, inputs and weights change, Viewers open and close, layers are selected. After each
round, always in the same state, all growing resources are counted; a linear fit gives their growth
per round. `make soak ARGS="--minutes 2"` is shorter.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from browsers import chromium_arguments, find_chromium
from jupyter_lab import Notebook, new_notebook, running_lab
from leaks import (
    COUNT_KERNEL_OBJECTS_CELL,
    COUNT_LISTENERS_SCRIPT,
    DETERMINISTIC_V8_FLAGS,
    DRAWN_VIEWER_SELECTOR,
    ObjectCounter,
    bare_widget_growth,
    growth_rates,
    heap_usage,
)
from nbglcnn.tables import table

TEST_SUPPORT_FOLDER = Path(__file__).resolve().parents[1] / "tests" / "support"
WARM_UP_ROUNDS = 8  # rounds that fill the caches of the page and the kernel
HEAP_GROWTH_LIMIT_BYTES = 10_000  # heap growth allowed per cell run, beyond JupyterLab's own
PREPARE_CELL = f"""
import sys
sys.path.insert(0, {str(TEST_SUPPORT_FOLDER)!r})
import itertools, numpy as np
from nbglcnn import Viewer
from viewer_models import autoencoder, pictures
{COUNT_KERNEL_OBJECTS_CELL}
models = [autoencoder(k) for k in range(2)]
again = itertools.cycle(range(6))  # the page keeps what it was sent, up to 64 MiB
"""
# Fixed cells that are rerun: new cells would add JupyterLab's own growth.
VIEWER_CELL = "viewer = Viewer(models[0], pictures(0))\nviewer.output\ndisplay(viewer)"
ROUND_CELLS = (
    # Other inputs; some are read, and some are replaced by the next before a read.
    "for k in range(5):\n    viewer.input = pictures(next(again))\n    if k % 2: viewer.output",
    # Two more Viewers; one of them is never displayed.
    "more = [Viewer(models[1], pictures(k)) for k in range(2)]\n"
    "values = [one.activations.to_dict() for one in more]\ndisplay(more[0])",
    # autoencoder(4 * k) has the same shapes as autoencoder(0).
    "viewer.load_state_dict(autoencoder(4 * next(again)).state_dict())\nviewer.output",
    "for key in list(viewer.activations)[1:4]: viewer.selected = {'layer': key}\n"
    "viewer.selected = None\n"
    "for name in ('viridis', 'grey', 'signed'): viewer.colormap = name",
    "for one in more: one.close()\ndel more, values, one",
)


def main() -> int:
    """Run the soak test and report growth."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10)
    minutes = parser.parse_args().minutes
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(),
            args=[*chromium_arguments("swiftshader"), DETERMINISTIC_V8_FLAGS],
        )
        with (
            running_lab(Path(folder) / "lab") as lab,
            new_notebook(lab, browser, script=COUNT_LISTENERS_SCRIPT) as notebook,
        ):
            notebook.run(PREPARE_CELL)
            # As in a round, each run activates another cell.
            bare = bare_widget_growth(notebook, 10, 40, 10, cells=2)["bytes"]
            rows = run_rounds(notebook, minutes * 60)
        browser.close()
    return report_growth(
        rows[WARM_UP_ROUNDS:], (1 + len(ROUND_CELLS)) * (bare + HEAP_GROWTH_LIMIT_BYTES)
    )


def run_rounds(notebook: Notebook, seconds: float) -> list[dict[str, int]]:
    """Run rounds for `seconds`; return the counts after each round."""
    cells = []
    for source in (VIEWER_CELL, *ROUND_CELLS):
        cells.append(notebook.start(source))
        error = notebook.wait(cells[-1]).error
        assert not error, error
    counter = ObjectCounter(notebook)
    rows: list[dict[str, int]] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for cell in cells:
            notebook.rerun(cell)
        notebook.page.locator(".nbglcnn").last.scroll_into_view_if_needed()
        notebook.page.locator(DRAWN_VIEWER_SELECTOR).first.wait_for()
        rows.append(counter.count() | {"heap": heap_usage(notebook.page)["bytes"]})
        print(f"round {len(rows)}: {rows[-1]}", flush=True)
    return rows


def report_growth(rows: list[dict[str, int]], heap_limit: float) -> int:
    """Print each counter's slope; return 1 if one grows, or if there are too few rounds.

    `heap_limit` is the number of bytes by which the heap may grow per round.
    """
    if len(rows) < 5:
        print(f"{len(rows)} rounds after the first {WARM_UP_ROUNDS} are too few to tell")
        return 1
    failed = []
    print(f"\n{len(rows)} rounds after the first {WARM_UP_ROUNDS}")
    lines = []
    for name, slope in growth_rates(range(len(rows)), rows).items():
        allowed = heap_limit if name == "heap" else 1 / len(rows)
        grows = slope > allowed
        failed += [name] if grows else []
        mark = f"GROWS (at most {allowed:.3g})" if grows else ""
        first, last = rows[0][name], rows[-1][name]
        lines.append((name, f"{first:,}", f"{last:,}", f"{slope:+.3f}", mark))
    print(table(("", "first", "last", "a round", ""), lines, number_columns=(1, 2, 3)))
    print(f"{', '.join(failed)} grew" if failed else "nothing grew")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
