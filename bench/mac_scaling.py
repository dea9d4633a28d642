"""Measures and plots the time of a convolution by its MACs, beside TensorFlow.js.

python bench/mac_scaling.py [--renderers swiftshader llvmpipe]
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).parents[1] / "scripts")]

from models import BenchModel, convolution_factory
from pages import open_page
from portable_model import INPUT_COUNT, export_portable
from report import MAX_ERROR, REFERENCE_PEER, fit_line
from scaling_plot import PLOT_FILE, write_plot

MAP_SIDE = 56
# From about 1 million to about 1,000 million MACs.
CONVOLUTIONS = {
    "3×3": [
        (c, BenchModel(convolution_factory(c, c, 3, 1, 1), (1, c, MAP_SIDE, MAP_SIDE)))
        for c in (6, 20, 64, 192)
    ],
    "1×1": [
        (c, BenchModel(convolution_factory(c, c, 1), (1, c, MAP_SIDE, MAP_SIDE)))
        for c in (20, 64, 192, 568)
    ],
}
PEERS = ("nbglcnn", REFERENCE_PEER)
ROUNDS = 3


def measure_scaling(renderers: list[str], rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure millions of MACs and milliseconds of each layer, by renderer, kind and peer."""
    found: dict[str, Any] = {
        r: {k: {p: [] for p in PEERS} for k in CONVOLUTIONS} for r in renderers
    }
    for kind, layers in CONVOLUTIONS.items():
        for channels, model in layers:
            network = export_portable(model)
            for renderer in renderers:
                with open_page(renderer, network.files) as (opened, _):
                    opened.evaluate("ring => bench.open(ring)", INPUT_COUNT)
                    calls: dict[str, list[dict[str, float]]] = {peer: [] for peer in PEERS}
                    for peer in PEERS:
                        opened.evaluate("name => bench.start(name)", peer)
                    for turn in range(rounds):
                        for peer, all_of_it in calls.items():
                            all_of_it += opened.evaluate(
                                "([name, turn]) => bench.run(name, turn)", [peer, turn]
                            )
                for peer, all_of_it in calls.items():
                    worst = max(call["error"] for call in all_of_it)
                    assert worst <= MAX_ERROR, (
                        f"{peer}, {kind} of {channels} channels: {worst:.1e} off"
                    )
                    ms = statistics.median(call["ms"] for call in all_of_it)
                    found[renderer][kind][peer].append((network.macs / 1e6, ms))
    return found


def main() -> None:
    """Measure, print and plot."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--renderers", nargs="*", default=["swiftshader", "llvmpipe"])
    given = parser.parse_args()
    found = measure_scaling(given.renderers)
    for renderer, kinds in found.items():
        for kind, peers in kinds.items():
            for peer, points in peers.items():
                each = ", ".join(f"{macs:.0f}: {ms / macs:.3f}" for macs, ms in points)
                fixed, more = fit_line(points)
                line = f"{fixed:.1f} ms + {more:.3f} ms per 10⁶"
                print(f"{renderer} {kind} {peer}: {line}; ms per 10⁶ at {each}")
    write_plot(found)
    print(f"drawn into {PLOT_FILE}")


if __name__ == "__main__":
    main()
