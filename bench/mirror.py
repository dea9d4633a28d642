"""Measures the milliseconds that `mirror()` adds to a training step, with and without a page.

`python bench/mirror.py [--only NAME] [--every 10] [--renderer llvmpipe]`: a loop in one cell of a
real JupyterLab, whose page follows it; then a Viewer that no page shows. A software renderer shares
the processor with the loop, so steps take longer beside it: the time of a call is compared with a
step of the loop alone. "Work" is the processor time of the loop's own thread, which other processes
don't increase.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

BENCH_FOLDER = Path(__file__).parent
ROOT = BENCH_FOLDER.parent
sys.path += [str(BENCH_FOLDER), str(ROOT / "scripts"), str(ROOT / "tests/support")]

from playwright.sync_api import sync_playwright  # noqa: E402

from browsers import chromium_arguments, find_chromium  # noqa: E402
from jupyter_lab import Notebook, new_notebook, running_lab  # noqa: E402
from nbglcnn.tables import table  # noqa: E402

# Batch size and steps.
TRAINING_LOOPS = {"fashion autoencoder": (64, 300), "resnet18": (4, 20)}
TIMEOUT_S = 900
PREPARE_CELL = """
import json, sys, time
sys.path[:0] = [{bench!r}]
import numpy as np, torch, nbglcnn
from models import MODELS

def loop(model, shape, batch, count, mirror=None):
    "Milliseconds of each step, of each call of the mirror, and of this thread's work in it."
    torch.manual_seed(0)
    x = torch.rand(batch, *shape[1:])
    with torch.no_grad():
        target = torch.rand_like(model.eval()(x))
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    steps, calls, works = [], [], []
    for step in range(count):
        begun = time.perf_counter()
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        trained, work = time.perf_counter(), time.thread_time()
        if mirror is not None:
            mirror(loss=loss)
        steps.append(1000 * (trained - begun))
        calls.append(1000 * (time.perf_counter() - trained))
        works.append(1000 * (time.thread_time() - work))
    model.eval()
    return steps, calls, works

def told(of, every):
    own = MODELS[of]
    model, x = own.build(), torch.zeros(own.shape)
    return own, model, nbglcnn.Viewer(model, x, timeout=120)
"""
UNMIRRORED_CELL = """
own = MODELS[{name!r}]
alone, *_ = loop(own.build(), own.shape, {batch}, {count})
"""
VIEWER_CELL = "own, model, viewer = told({name!r}, {every})\nviewer"
MIRROR_CELL = """
with nbglcnn.mirror(viewer, model, every={every}) as mirror:
    steps, calls, works = loop(model, own.shape, {batch}, {count}, mirror)
    frames = mirror.frames
print(json.dumps([alone, steps, calls, works, frames]))
"""


def run_cell(notebook: Notebook, source: str) -> str:
    """Run a cell and return its printed text."""
    outputs = notebook.wait(notebook.start(source), TIMEOUT_S)
    assert not outputs.error, outputs.error
    return outputs.text


def table_row(name: str, page_renderer: str, every: int, measurements: Any) -> list[str]:
    """A row of the table."""
    import numpy as np

    alone, steps, calls, works, frames = measurements
    step = float(np.median(alone))
    copies = works[every - 1 :: every]
    median, high = np.percentile(calls, [50, 95])
    least, most = np.percentile(works, [50, 95])
    return [
        name, page_renderer, f"{step:.1f}", f"{np.median(steps):.1f}", f"{median:.2f}",
        f"{high:.2f}",
        f"{least:.2f}", f"{most:.2f}", f"{np.median(copies):.2f}",
        f"{100 * np.mean(calls) / step:.2f} %",
        str(frames),
    ]  # fmt: skip


COLUMN_TITLES = [
    "loop", "page", "step alone", "step", "call, median", "95 %", "its work, median", "95 %",
    "work where it copies",
    "mean call / step alone", "states sent",
]  # fmt: skip


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=TRAINING_LOOPS, nargs="*", default=list(TRAINING_LOOPS))
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--renderer", default="llvmpipe")
    options = parser.parse_args()
    rows = []
    with (
        tempfile.TemporaryDirectory() as folder,
        running_lab(Path(folder)) as lab,
        sync_playwright() as playwright,
    ):
        chromium = playwright.chromium.launch(
            executable_path=find_chromium(), args=chromium_arguments(options.renderer)
        )
        for name in options.only:
            batch, count = TRAINING_LOOPS[name]
            words = {"name": name, "batch": batch, "count": count, "every": options.every}
            with new_notebook(lab, chromium) as notebook:
                run_cell(
                    notebook,
                    PREPARE_CELL.format(bench=str(BENCH_FOLDER)) + UNMIRRORED_CELL.format(**words),
                )
                run_cell(notebook, VIEWER_CELL.format(**words))
                run_cell(notebook, "viewer.activations.source")
                found = json.loads(run_cell(notebook, MIRROR_CELL.format(**words)))
                rows.append(table_row(name, options.renderer, options.every, found))
        chromium.close()
    for name in options.only:
        batch, count = TRAINING_LOOPS[name]
        words = {"name": name, "batch": batch, "count": count, "every": options.every}
        script = PREPARE_CELL.format(bench=str(BENCH_FOLDER)) + "".join(
            part.format(**words) for part in (UNMIRRORED_CELL, VIEWER_CELL, MIRROR_CELL)
        )
        told = subprocess.run(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # as JupyterLab's kernels do
        ).stdout
        rows.append(table_row(name, "none", options.every, json.loads(told)))
    print(f"every={options.every}, milliseconds")
    print(table(COLUMN_TITLES, rows))


if __name__ == "__main__":
    main()
