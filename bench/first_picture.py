"""Measures the time from `Viewer(model, x)` in a real JupyterLab's cell to its first picture.

    python bench/first_picture.py [--only NAME ...] [--renderers swiftshader llvmpipe] [--pause
    SECONDS]

The time is split into parts. Each network is shown by two cells of a new kernel, the second with
other weights. After the cell with the imports there is a pause, for the time that a user needs to
write the first one; with `--pause 0` the cells follow each other, as with Run All.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

BENCH_FOLDER = Path(__file__).parent
ROOT = BENCH_FOLDER.parent
sys.path += [str(BENCH_FOLDER), str(ROOT / "scripts"), str(ROOT / "tests/support")]

from playwright.sync_api import Page, sync_playwright  # noqa: E402

from browsers import chromium_arguments, find_chromium  # noqa: E402
from jupyter_lab import LabServer, new_notebook, running_lab  # noqa: E402
from targets import PAUSE_BEFORE_CELL_S  # noqa: E402

CELL_NETWORKS = ("fashion autoencoder", "resnet18", "densenet121", "vgg16", "pix2pix64")
HEAVY_NETWORK = "pix2pix64"  # 218 MB of weights; on one renderer only, unless `full`
STARTUP_PHASES = ("load", "plan", "transfer", "shaders", "run")
TIMEOUT_MS = 300_000
RESET_CLOCK_SCRIPT = "() => { window.clock = { tasks: [] }; }"
VIEW_IS_GONE_SCRIPT = "() => !document.querySelector('.nbglcnn')"
VIEW_IS_DRAWN_SCRIPT = "() => window.clock?.drawn !== undefined"

# In the page: the times of visible events, by the same clock as Python's.
CLOCK_SCRIPT = """
() => {
window.clock = {tasks: []};
const now = () => Date.now() / 1000;
const first = (name) => { window.clock[name] ??= now(); };
new PerformanceObserver((list) => {
  for (const {startTime, duration} of list.getEntries()) {
    window.clock.tasks.push([(performance.timeOrigin + startTime) / 1000, duration]);
  }
}).observe({type: "longtask"});
const look = () => {
  const view = document.querySelector(".nbglcnn");
  if (view === null) return;
  if (window.clock.shown === undefined) view.scrollIntoView(); // what nobody sees isn't drawn
  first("shown");
  if (view.textContent.trim() !== "") first("text");
  if (view.querySelector("canvas") !== null) first("layers"); // with their names, without pictures
  if (view.querySelector("canvas[data-drawn]") !== null) first("drawn");
};
new MutationObserver(look).observe(document, {
  subtree: true, childList: true, characterData: true, attributes: true,
  attributeFilter: ["data-drawn"],
});
const {send} = WebSocket.prototype;
WebSocket.prototype.send = function (data) {
  const text = typeof data === "string" ? data : new TextDecoder("latin1").decode(data);
  if (text.includes('"hello"')) first("hello");
  send.call(this, data);
};
const own = WebGL2RenderingContext.prototype;
for (const [name, label] of [["compileShader", "compiling"], ["texSubImage3D", "uploading"]]) {
  const call = own[name];
  own[name] = function (...given) {
    if (window.clock.hello !== undefined) first(label); // else it is of the cell before
    return call.apply(this, given);
  };
}
}"""

# In the kernel: the time spent in each part of Viewer().
PREPARE_CELL = """
import json, sys, time
sys.path[:0] = [{bench!r}]
import torch
from nbglcnn import Viewer
from nbglcnn.lowering import lower
from nbglcnn.widget import network as module
from models import MODELS
spent = {{}}
def clocked(owner, name, label):
    call = getattr(owner, name)
    def timed(*given, **named):
        start = time.time()
        try:
            return call(*given, **named)
        finally:
            spent[label] = spent.get(label, 0) + time.time() - start
    setattr(owner, name, timed)
clocked(module, "load_with_fallback", "load")
clocked(lower, "lower", "lower")
clocked(module, "pack_file", "pack")
"""
SHOW_CELL = """
torch.manual_seed({seed})
model = MODELS[{name!r}].make().eval()
x = torch.randn(MODELS[{name!r}].shape)
spent.clear()
begun = time.time()
viewer = Viewer(model, x)
made = time.time()
print(json.dumps({{"begun": begun, "made": made, **spent}}))
viewer
"""


def split_into_phases(page: Page, kernel_times: dict[str, float]) -> dict[str, Any]:
    """Seconds of each part, and the longest main-thread task in milliseconds."""
    clock = page.evaluate("() => window.clock")
    begun, made, drawn = kernel_times["begun"], kernel_times["made"], clock["drawn"]
    hello = clock.get("hello", made)
    uploading = clock.get("uploading", drawn)
    compiling = min(clock.get("compiling", uploading), uploading)  # a second cell doesn't compile
    tasks = [ms for start, ms in clock["tasks"] if start + ms / 1000 > hello]
    return {
        "total": drawn - begun,
        "load": kernel_times["load"],
        "plan": kernel_times["lower"] + kernel_times["pack"],
        "transfer": compiling - made,
        "shaders": uploading - compiling,
        "run": drawn - uploading,
        "text": clock.get("text", drawn) - made,
        "layers": clock.get("layers", drawn) - begun,
        "task_ms": max(tasks, default=0.0),
    }


def measure_cells(lab: LabServer, name: str, renderer: str, pause_s: float) -> list[dict[str, Any]]:
    """Measure a kernel's first and second cell."""
    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=chromium_arguments(renderer)
        )
        with new_notebook(lab, browser) as notebook:
            notebook.run(PREPARE_CELL.format(bench=str(BENCH_FOLDER)))
            notebook.page.wait_for_timeout(1000 * pause_s)
            for seed in (1, 2):
                notebook.page.evaluate(CLOCK_SCRIPT if seed == 1 else RESET_CLOCK_SCRIPT)
                index = notebook.start(SHOW_CELL.format(seed=seed, name=name))
                seen = json.loads(notebook.wait(index, TIMEOUT_MS / 1000).text)
                notebook.page.wait_for_function(VIEW_IS_DRAWN_SCRIPT, timeout=TIMEOUT_MS)
                notebook.page.wait_for_timeout(1000)  # long tasks are reported late
                found.append(split_into_phases(notebook.page, seen))
                notebook.page.evaluate(
                    "index => window.lab.panel().content.model.cells.get(index).clearExecution?.()"
                    " ?? window.lab.panel().content.model.cells.get(index).outputs.clear()",
                    index,
                )
                notebook.page.wait_for_function(VIEW_IS_GONE_SCRIPT, timeout=TIMEOUT_MS)
        browser.close()
    return found


def measure_first_pictures(
    names: Sequence[str],
    renderers: Sequence[str],
    *,
    full: bool = True,
    pause_s: float = PAUSE_BEFORE_CELL_S,
) -> dict[str, Any]:
    """Measure both cells, by renderer and network."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, running_lab(Path(folder) / "lab") as lab:
        for renderer in renderers:
            for name in names:
                if name == HEAVY_NETWORK and renderer != renderers[0] and not full:
                    continue
                rows = measure_cells(lab, name, renderer, pause_s)
                found.setdefault(renderer, {})[name] = rows
                print_cells(name, renderer, rows)
    return found


def print_cells(name: str, renderer: str, rows: list[dict[str, Any]]) -> None:
    """Print both cells."""
    print(f"\n{name} on {renderer}: `Viewer(model, x)` to its first picture")
    for which, row in zip(("first", "second"), rows, strict=True):
        parts = ", ".join(f"{part} {row[part]:.2f}" for part in STARTUP_PHASES)
        print(f"  {which:6} cell {row['total']:6.2f} s: {parts};", end=" ")
        print(
            f"first text after {row['text']:.2f} s, layers {row['layers']:.2f} s after the cell's "
            f"start; longest task {row['task_ms']:.0f} ms",
            flush=True,
        )


def main() -> None:
    """Run the measurements selected on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", nargs="*", default=[], help="networks whose name contains one")
    parser.add_argument("--renderers", nargs="*", default=["swiftshader", "llvmpipe"])
    parser.add_argument(
        "--pause", type=float, default=PAUSE_BEFORE_CELL_S, help="seconds before the first"
    )
    given = parser.parse_args()
    names = [n for n in CELL_NETWORKS if not given.only or any(part in n for part in given.only)]
    measure_first_pictures(names, given.renderers, pause_s=given.pause)


if __name__ == "__main__":
    main()
