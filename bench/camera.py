"""Measures a Viewer at rest, and the rates on a camera and on a data set, in JupyterLab.

    python bench/camera.py [--renderers swiftshader llvmpipe] [--seconds 60]

The camera is Chromium's fake one, 640×480 pixels. A data set of the input's size needs neither the
camera nor resampling: the page draws the same pictures after each run, in the same view, with the
source drawer open. Both are measured in turns, since the machine's load varies. Bytes are the sizes
of the page's objects after a garbage collection, at the start and end of the camera's last and
longest turn. Before all that nothing changes for a minute, in which the page's work is counted.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

BENCH_FOLDER = Path(__file__).parent
ROOT = BENCH_FOLDER.parent
sys.path += [str(BENCH_FOLDER), str(ROOT / "scripts"), str(ROOT / "tests/support")]

from playwright.sync_api import Locator  # noqa: E402

from clicks import main_thread_ms  # noqa: E402
from jupyter_lab import Notebook  # noqa: E402
from notebooks import open_notebooks  # noqa: E402
from report import CAMERA_FPS, camera_rate_ratio  # noqa: E402
from screenshots import viewer_cell  # noqa: E402

MEASUREMENT_S = 60  # of the camera's last turn; the other turns take a quarter
ROUNDS = 3
CAMERA_CHROMIUM_FLAGS = [
    f"--use-fake-device-for-media-stream=fps={CAMERA_FPS}",
    "--use-fake-ui-for-media-stream",
]
NETWORKS = ("fashion autoencoder", "pix2pix16")
PREPARE_CELL = f"""
import sys
sys.path.insert(0, {str(BENCH_FOLDER)!r})
import numpy as np
import nbglcnn
from models import MODELS
def follow(viewer):
    rates = []
    viewer.observe(lambda change: rates.append(change.new), "runs_per_second")
    return rates
"""
VIEWER_CELL = """
network = MODELS[{name!r}]
x = np.random.default_rng(0).random(network.shape, np.float32)
viewer = nbglcnn.Viewer(network.build(), x, timeout=120)
viewer.output
viewer
"""
DATASET_CELL = """
pictures = np.random.default_rng(1).integers(0, 256, (64, *network.shape[1:]), np.uint8)
viewer.source = nbglcnn.Images(pictures, playing=True, rate=1000)
rates = follow(viewer)
"""
CAMERA_CELL = "viewer.source = nbglcnn.Webcam()\nrates = follow(viewer)"

# In the page: counts the draw calls, the messages to the server and the requested frames.
COUNT_SCRIPT = """() => {
  const counted = { draws: 0, messages: 0, frames: 0 };
  const restore = [];
  const wrap = (owner, name, kind) => {
    const call = owner[name];
    owner[name] = function (...given) {
      counted[kind] += 1;
      return call.apply(this, given);
    };
    restore.push(() => { owner[name] = call; });
  };
  wrap(WebGL2RenderingContext.prototype, "drawArrays", "draws");
  wrap(WebSocket.prototype, "send", "messages");
  wrap(window, "requestAnimationFrame", "frames");
  window.takeCounts = () => { for (const one of restore) one(); return counted; };
}"""
# The time of a run is measured again up to 16 s after the last measurement.
SETTLING_S = 40


def measure_rest(notebook: Notebook, seconds: float) -> dict[str, float]:
    """Count what the page does while nothing changes, and its main thread's milliseconds."""
    scroll_to_viewer(notebook)
    time.sleep(SETTLING_S)
    page = notebook.page
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.evaluate(COUNT_SCRIPT)
    before = main_thread_ms(session)
    time.sleep(seconds)
    busy_ms = main_thread_ms(session) - before
    session.detach()
    return {**page.evaluate("() => window.takeCounts()"), "ms": busy_ms}


def measure_network(notebook: Notebook, name: str, seconds: float) -> dict[str, Any]:
    """Measure runs per second of a data set and of the camera, and the page's bytes."""
    notebook.delete_cells()
    notebook.run(VIEWER_CELL.format(name=name))
    found: dict[str, Any] = {"rest": measure_rest(notebook, seconds)}
    found |= {"played": [], "camera": [], "bytes": []}
    for turn in range(ROUNDS):
        notebook.run(DATASET_CELL)
        open_source_drawer(notebook)
        found["played"].append(measure_rate(notebook, seconds / 6))
        notebook.run(CAMERA_CELL)
        scroll_to_viewer(notebook).get_by_role("button", name="Start the camera").click()
        if turn < ROUNDS - 1:
            found["camera"].append(measure_rate(notebook, seconds / 4))
    measure_rate(notebook, 0)  # wait until the camera has started
    found["bytes"].append(page_heap_bytes(notebook))
    found["camera"].append(measure_rate(notebook, seconds))
    found["bytes"].append(page_heap_bytes(notebook))
    notebook.run("viewer.close()")
    return found


def open_source_drawer(notebook: Notebook) -> None:
    """Open the drawer if it is closed, as the camera does."""
    cell = scroll_to_viewer(notebook)
    if cell.locator(".nbg-drawer").count() == 0:
        cell.locator(".nbg-chosen-source").click()


def scroll_to_viewer(notebook: Notebook) -> Locator:
    """Scroll to the Viewer's cell and return it: a source pauses while it isn't visible."""
    return viewer_cell(notebook)


def measure_rate(notebook: Notebook, seconds: float) -> float:
    """The median of the rates reported in this time, without the first two seconds."""
    scroll_to_viewer(notebook)
    time.sleep(2)
    # Not in a cell, which would use memory and displace the Viewer.
    notebook.evaluate_silently("rates.clear()")
    time.sleep(seconds)
    told = notebook.evaluate_silently("print(*rates)").split()
    return statistics.median(map(float, told)) if told else 0.0


def page_heap_bytes(notebook: Notebook) -> int:
    """The size of the page's objects after a garbage collection."""
    session = notebook.page.context.new_cdp_session(notebook.page)
    session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")
    session.detach()
    return round(used["usedSize"] + used.get("backingStorageSize", 0))


def measure_cameras(renderers: Sequence[str], seconds: float = MEASUREMENT_S) -> dict[str, Any]:
    """Measure by renderer and network."""
    found: dict[str, Any] = {}
    for renderer, notebook in open_notebooks(renderers, CAMERA_CHROMIUM_FLAGS):
        notebook.run(PREPARE_CELL)
        rows = found[renderer] = {}
        for name in NETWORKS:
            rows[name] = measure_network(notebook, name, seconds)
            print_rates(name, renderer, rows[name])
    return found


def print_rates(name: str, renderer: str, row: dict[str, Any]) -> None:
    """Print one network's rates."""
    early, late = row["bytes"]
    camera, played = (statistics.median(row[kind]) for kind in ("camera", "played"))
    print(
        f"{name} on {renderer}: {camera:.1f} runs a second of a camera of {CAMERA_FPS}, "
        f"{played:.1f} of a data set: {camera_rate_ratio(row):.2f} of the lesser; "
        f"{early / 1e6:.1f} MB of objects, {late / 1e6:.1f} MB at the end; at rest {row['rest']}",
        flush=True,
    )


def main() -> None:
    """Run the measurements selected on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--renderers", nargs="*", default=["swiftshader", "llvmpipe"])
    parser.add_argument("--seconds", type=float, default=MEASUREMENT_S)
    given = parser.parse_args()
    measure_cameras(given.renderers, given.seconds)


if __name__ == "__main__":
    main()
