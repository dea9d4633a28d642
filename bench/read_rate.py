"""Measures the rate of bulk reads from the page into NumPy, beside a bare widget's.

    python bench/read_rate.py [--renderers swiftshader llvmpipe] [--rounds 5]

The bare widget sends the same number of bytes from ready buffers, in parts of the same size,
through the same server and its websocket, to a handler that only counts them: an upper bound. A
read also draws each value into a buffer in row-major order, reads it back from the graphics device,
and assembles it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

BENCH_FOLDER = Path(__file__).parent
ROOT = BENCH_FOLDER.parent
sys.path += [str(BENCH_FOLDER), str(ROOT / "scripts"), str(ROOT / "tests/support")]

from jupyter_lab import Notebook  # noqa: E402
from notebooks import open_notebooks  # noqa: E402

ROUNDS = 5
PREPARE_CELL = """
import json, time
import anywidget, numpy as np, torch, traitlets
from torch import nn
from nbglcnn import Viewer
from nbglcnn.protocol import CHUNK_BYTES
class Bare(anywidget.AnyWidget):
    _esm = '''
    function initialize({ model }) {
      let ready = [];
      model.on("msg:custom", async ({ sizes, go }) => {
        if (sizes) ready = sizes.map((size) => new Float32Array(size / 4).fill(0.1).buffer);
        if (go) for (const part of ready) model.send({ part: true }, undefined, [part]);
        else model.send({ ready: true });
      });
    }
    export default { initialize };
    '''
    def __init__(self):
        super().__init__()
        self.left, self.took, self.ready = 0, 0, False
        self.on_msg(self.count)
    def count(self, _, content, buffers):
        self.ready = True
        if not buffers: return
        self.left -= buffers[0].nbytes
        self.took = time.perf_counter() - self.began
    def prepare(self, total):
        self.total, self.ready = total, False
        sizes = [min(CHUNK_BYTES, total - at) for at in range(0, total, CHUNK_BYTES)]
        self.send({"sizes": sizes})
    def go(self):
        self.left, self.began = self.total, time.perf_counter()
        self.send({"go": True})
bare = Bare()
torch.manual_seed(3)
"""
# Several values (27 MB, as much as all layers of mobilenet_v2) and one large value.
NETWORKS = {
    "27 MB in 8 values": "nn.Sequential(nn.Conv2d(1, 16, 1), *[nn.Conv2d(16, 16, 1) "
    "for _ in range(5)]), torch.randn(1, 1, 256, 256)",
    "60 MB in one value": "nn.Sequential(nn.Conv2d(1, 60, 1)), torch.randn(1, 1, 500, 500)",
}
MAKE_VIEWER_CELL = """
model, x = {network}
viewer = Viewer(model.eval(), x, timeout=120)
keys = list(viewer.activations) if {all} else ["output"]
total = sum(one.nbytes for one in viewer.activations.read(keys).values())
bare.prepare(total)
"""
READ_CELL = """
began = time.perf_counter()
viewer.activations.read(keys)
print(time.perf_counter() - began)
"""
REPORT_CELL = "print(json.dumps([total, bare.ready, bare.left, bare.took]))"


def measure_network(
    notebook: Notebook, network: str, *, reads_all_values: bool, rounds: int
) -> dict[str, Any]:
    """Measure the seconds of each round, of a read and of the bare widget in turns."""
    notebook.run(MAKE_VIEWER_CELL.format(network=network, all=reads_all_values))
    notebook.wait_until("bare.ready")
    read, raw = [], []
    for _ in range(rounds):
        read.append(float(notebook.run(READ_CELL).text))
        notebook.run("bare.go()")
        notebook.wait_until("bare.left == 0")
        total, _, _, took = json.loads(notebook.run(REPORT_CELL).text)
        raw.append(took)
    notebook.run("viewer.close()")
    return {"bytes": total, "read": read, "raw": raw}


def measure_rates(renderers: Sequence[str], rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure bytes and the seconds of each round, by renderer and network."""
    found: dict[str, Any] = {}
    for renderer, notebook in open_notebooks(renderers):
        notebook.run(PREPARE_CELL)
        rows = found[renderer] = {}
        for name, network in NETWORKS.items():
            rows[name] = measure_network(
                notebook, network, reads_all_values="values" in name, rounds=rounds
            )
            print_rates(name, renderer, rows[name])
    return found


def print_rates(name: str, renderer: str, row: dict[str, Any]) -> None:
    """Print one network's rates."""
    megabytes = row["bytes"] / 1e6
    read, raw = (megabytes / statistics.median(row[kind]) for kind in ("read", "raw"))
    print(
        f"{name} on {renderer}: {read:.0f} MB/s read, {raw:.0f} MB/s from a bare widget: "
        f"{read / raw:.2f}",
        flush=True,
    )


def main() -> None:
    """Run the measurements selected on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--renderers", nargs="*", default=["swiftshader", "llvmpipe"])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    measure_rates(given.renderers, given.rounds)


if __name__ == "__main__":
    main()
