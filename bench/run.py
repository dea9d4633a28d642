"""Times nbglcnn beside its peers in one Chromium, checks every output, and records the ratios.

    python bench/run.py [--full] [--only NAME ...] [--renderers swiftshader llvmpipe] [--rounds 5]

A run is `--rounds` rounds of all peers, one after the other; its figure is their median. There are
`--runs` runs, and the report has their median and spread. With `--only` or `--parts`, all other
figures in build/bench.json stay unchanged; if that file doesn't exist, the figures are printed and
nothing is written.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

BENCH_FOLDER = Path(__file__).parent
ROOT = BENCH_FOLDER.parent
sys.path += [str(BENCH_FOLDER), str(ROOT / "scripts"), str(ROOT / "tests/support")]

from playwright.sync_api import Error, Page  # noqa: E402

from bundle import bundle_script, install_node_packages, search_path_with_node  # noqa: E402
from camera import measure_cameras  # noqa: E402
from clicks import measure_clicks  # noqa: E402
from first_picture import CELL_NETWORKS, measure_first_pictures  # noqa: E402
from loading import measure_loading  # noqa: E402
from mac_scaling import measure_scaling  # noqa: E402
from models import MODELS  # noqa: E402
from pages import PAGE_SCRIPT_BUILD, open_page  # noqa: E402
from portable_model import INPUT_COUNT, PortableModel, export_portable  # noqa: E402
from read_rate import measure_rates  # noqa: E402
from report import MAX_ERROR, REFERENCE_PEER, RESULTS_FILE, write_page  # noqa: E402
from training import measure_training  # noqa: E402

DRAWN_PEER = "nbglcnn drawn"
PEERS = ("nbglcnn", "nbglcnn all", DRAWN_PEER, REFERENCE_PEER, "tfjs wasm", "ort wasm", "ort webgl")
# A fused Plan has no activations to read, and the drawn peer has pictures instead.
PEERS_WITHOUT_ACTIVATIONS = ("nbglcnn", DRAWN_PEER)
LARGE_NETWORK_MACS = 250e6  # ORT's WebGL takes minutes for larger networks: `make bench-full` only
BENCHMARK_PARTS = ("networks", "growth", "loading", "cells", "rate", "clicks", "live", "training")
SLOW_RUN_S = 4.0  # a peer with a slower frame gets fewer rounds
PeerFigures = tuple[dict[str, Any], str]  # each peer's figures, and the graphics device's name


def main() -> None:
    """Run the measurements selected on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--full", action="store_true", help="the slowest networks and peers too")
    parser.add_argument("--only", nargs="*", default=[], help="networks whose name contains one")
    parser.add_argument("--renderers", nargs="*", default=["swiftshader", "llvmpipe"])
    parser.add_argument("--peers", nargs="*", default=list(PEERS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--parts", nargs="*", default=list(BENCHMARK_PARTS), choices=BENCHMARK_PARTS
    )
    parser.add_argument("--dry", action="store_true", help="print only: leave files as they are")
    given = parser.parse_args()
    install_node_packages(BENCH_FOLDER, search_path_with_node())
    bundle_script(*PAGE_SCRIPT_BUILD)  # fail early on an error in it
    started = time.monotonic()
    results: dict[str, Any] = {"date": date.today().isoformat(), "renderers": {}}
    if set(given.parts) != set(BENCHMARK_PARTS) or given.only:
        if RESULTS_FILE.exists():  # figures not measured now stay
            results = json.loads(RESULTS_FILE.read_text("utf-8"))
        elif not given.dry:
            print(f"{RESULTS_FILE} isn't there: figures are printed, and docs/performance.md stays")
            given.dry = True
    if "networks" in given.parts:
        found = measure_networks(given)
        if given.only:
            found = merge_results(found, results["renderers"])
        results["renderers"] = found
    if "growth" in given.parts:
        results["growth"] = measure_scaling(given.renderers)
    if "loading" in given.parts:
        results["loading"] = measure_loading()
    if "cells" in given.parts:
        results["cells"] = measure_first_pictures(CELL_NETWORKS, given.renderers, full=given.full)
    if "rate" in given.parts:
        results["rate"] = measure_rates(given.renderers)
    if "clicks" in given.parts:
        results["clicks"] = measure_clicks(given.renderers)
    if "live" in given.parts:
        results["live"] = measure_cameras(given.renderers)
    if "training" in given.parts:
        results["training"] = measure_training(given.renderers)
    seconds = round(time.monotonic() - started)
    print(f"{seconds / 60:.0f} minutes in all")
    results.setdefault("seconds", seconds)
    if not given.dry:
        RESULTS_FILE.parent.mkdir(exist_ok=True)
        RESULTS_FILE.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n", "utf-8")
        write_page(results)


def merge_results(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """Merge figures of some networks into those of an earlier run, in the order of MODELS."""
    joined = dict(old)
    for renderer, one in new.items():
        models = old.get(renderer, {}).get("models", {}) | one["models"]
        joined[renderer] = one | {"models": {n: models[n] for n in MODELS if n in models}}
    return joined


def measure_networks(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure all selected networks, by renderer."""
    found: dict[str, Any] = {}
    for name, model in MODELS.items():
        if arguments.only and not any(part in name for part in arguments.only):
            continue
        if model.is_slow and not (arguments.full or arguments.only):
            continue
        network = export_portable(model)
        left_out = set() if model.is_drawing_timed else {DRAWN_PEER}
        if network.macs > LARGE_NETWORK_MACS and not arguments.full:
            left_out.add("ort webgl")
        peers = [peer for peer in arguments.peers if peer not in left_out]
        for renderer in arguments.renderers:
            runs = arguments.runs if model.has_goal or arguments.full else 1
            rows, device = time_peers(network, renderer, peers, arguments.rounds, runs)
            found.setdefault(renderer, {"device": device, "models": {}})
            found[renderer]["models"][name] = {"macs": network.macs, "peers": rows}
            print_figures(name, renderer, rows)
    return found


def time_peers(
    network: PortableModel, renderer: str, peers: list[str], rounds: int, runs: int
) -> PeerFigures:
    """Measure all figures of all peers.

    Each run has its own browser, because only a browser's first run is a first run.
    """
    rows: dict[str, Any] = {
        peer: {"first": [], "warm": [], "all": [], "error": 0} for peer in peers
    }
    device = ""
    for run in range(runs):
        with open_page(renderer, network.files) as (opened, renderer_name):
            device = renderer_name
            opened.evaluate("ring => bench.open(ring)", INPUT_COUNT)
            for peer in rotate_peers(peers, run):
                start_peer(opened, peer, rows[peer])
            # One call of each in turn, so that a busy machine affects all alike.
            for turn in range(rounds):
                for peer in rotate_peers(peers, turn):
                    measure_peer(opened, peer, rows[peer], turn)
            for row in rows.values():
                for kind in ("warm", "all"):
                    calls = row.pop(f"{kind} calls", [])
                    row[kind] += [statistics.median(calls)] if calls else []
            read = {row["elements"] for row in rows.values() if "elements" in row}
            assert len(read) <= 1, f"the peers read {sorted(read)} numbers, not the same ones"
            if run == 0:
                for peer, row in rows.items():
                    if "fails" not in row:
                        row["counts"] = opened.evaluate("name => bench.counts(name)", peer)
    return rows, device


def rotate_peers(peers: list[str], round_index: int) -> list[str]:
    """Rotate the peers: the first one pays for what the others have left in memory."""
    first = round_index % len(peers)
    return peers[first:] + peers[:first]


def start_peer(page: Page, peer: str, row: dict[str, Any]) -> None:
    """Measure the first run, and a second run, which shows whether the peer is slow."""
    if "fails" in row:
        return
    try:
        first = page.evaluate("name => bench.start(name)", peer)
        again = page.evaluate("name => bench.run(name, 1)", peer)
    except Error as error:
        row["fails"] = first_error_line(error)
        return
    row["first"].append(first["ms"])
    row["error"] = max(row["error"], first["error"], *(call["error"] for call in again))
    row["slow"] = min(call["ms"] for call in again) > SLOW_RUN_S * 1000


def measure_peer(page: Page, peer: str, row: dict[str, Any], round_index: int) -> None:
    """Time some calls, and some that read every activation; a slow peer gets one turn of each."""
    if "fails" in row or (row["slow"] and round_index > 0):
        return
    for kind in ["run"] if peer in PEERS_WITHOUT_ACTIVATIONS else ["run", "runAll"]:
        if kind == "runAll" and "no_all" in row:
            continue
        try:
            calls = page.evaluate(
                f"([name, turn]) => bench.{kind}(name, turn)", [peer, round_index]
            )
        except Error as error:
            row["no_all" if kind == "runAll" else "fails"] = first_error_line(error)
            continue
        row["error"] = max(row["error"], *(call["error"] for call in calls))
        kept = row.setdefault("warm calls" if kind == "run" else "all calls", [])
        kept += [call["ms"] for call in calls]
        if kind == "runAll":
            row["elements"] = calls[-1]["elements"]


def first_error_line(error: Error) -> str:
    """The error message without the stack."""
    return error.message.partition("\n")[0].removeprefix("Page.evaluate: ")[:200]


def print_figures(name: str, renderer: str, rows: dict[str, Any]) -> None:
    """Print one network's figures as soon as they are measured."""
    print(f"\n{name} on {renderer}")
    base = rows.get(REFERENCE_PEER, {})
    for peer, row in rows.items():
        if "fails" in row:
            print(f"  {peer:13} fails: {row['fails']}")
            continue
        warm = statistics.median(row["warm"])
        ratio = f"{warm / statistics.median(base['warm']):7.3f}" if base.get("warm") else "      –"
        everything = f"{statistics.median(row['all']):9.1f}" if row["all"] else "        –"
        counts = row["counts"]
        void = "  WRONG" if not row["error"] <= MAX_ERROR else ""
        print(
            f"  {peer:13} warm {warm:9.2f} ms {ratio} of {REFERENCE_PEER}; "
            f"first {statistics.median(row['first']):8.0f}; "
            f"all {everything}; error {row['error']:.1e}; {counts['draws']} draws, "
            f"{counts['calls']} calls, {counts['creates']}+{counts['deletes']} made, "
            f"{counts['fences']} fences{void}",
            flush=True,
        )


if __name__ == "__main__":
    main()
