"""Times training steps in the page, beside TensorFlow.js and ConvNetJS; checks the losses.

    python bench/training.py [--renderers swiftshader llvmpipe] [--rounds 3] [--runs 3]

Every peer starts with the same weights, gets the same batches in the same order and uses SGD
without momentum at the same learning rate; each loss it reports must equal PyTorch's loss of that
step.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BENCH_FOLDER = Path(__file__).parent
ROOT = BENCH_FOLDER.parent
sys.path += [str(BENCH_FOLDER), str(ROOT / "scripts"), str(ROOT / "tests/support")]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import nbglcnn  # noqa: E402
from bundle import bundle_script, install_node_packages, search_path_with_node  # noqa: E402
from nbglcnn.features.training.local_training import compile_training  # noqa: E402
from pages import TRAINING_SCRIPT_BUILD, open_page  # noqa: E402
from report import MAX_LOSS_ERROR, REFERENCE_PEER  # noqa: E402

PEERS = ("nbglcnn", REFERENCE_PEER, "convnetjs")
BATCH, BATCH_COUNT = 32, 4  # batches used in rotation, so that steps can't reuse cached results
LOSSES = {"mse": F.mse_loss, "cross_entropy": F.cross_entropy}
ROUNDS, RUNS = 3, 3


@dataclass(frozen=True)
class TrainingBenchmark:
    """A network to train, a chain of layers; its inputs are grey 28×28 pictures."""

    make: Callable[[], nn.Sequential]
    loss: str
    learning_rate: float
    peers: tuple[str, ...]

    def build(self) -> tuple[nn.Sequential, torch.Tensor, torch.Tensor]:
        """Network, inputs and targets."""
        torch.manual_seed(7)
        model = self.make()
        x = torch.rand(BATCH_COUNT * BATCH, 1, 28, 28)
        if self.loss == "mse":
            return model, x, x
        return model, x, torch.randint(0, 10, (len(x),))


def autoencoder() -> nn.Sequential:
    """An autoencoder."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
        nn.Conv2d(32, 64, 3, 1, 1), nn.ReLU(), nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(),
        nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 1, 3, 1, 1), nn.Sigmoid(),
    )  # fmt: skip


def mnist_classifier() -> nn.Sequential:
    """The layers of ConvNetJS's MNIST demo."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, 1, 2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 5, 1, 2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(784, 10),
    )  # fmt: skip


NETWORKS = {
    "autoencoder, MSE": TrainingBenchmark(
        autoencoder, "mse", 0.1, PEERS[:2]
    ),  # ConvNetJS has no transposed convolutions
    "MNIST, cross entropy": TrainingBenchmark(mnist_classifier, "cross_entropy", 0.02, PEERS),
}


def page_files(training: TrainingBenchmark) -> dict[str, bytes]:
    """The files that the page requests."""
    model, x, y = training.build()
    run, data = compile_training(
        model, (x, y), training.loss, nbglcnn.SGD(training.learning_rate), BATCH, shuffle=False
    )
    given = run.step_inputs(next(data.batches(0)), 0)
    target, rate = run.step.input_keys["target"], run.step.input_keys["lr"]
    [own] = given.keys() - {target, rate}
    layers, arrays, offset = [], [], 0
    for module in model:
        own_arrays = [p.detach().numpy() for p in module.parameters()]
        layers.append(
            {
                "kind": type(module).__name__,
                "weight": list(own_arrays[0].shape) if own_arrays else [],
                "offset": offset,
                "stride": np.ravel(getattr(module, "stride", 1)).tolist()[0],
                "padding": np.ravel(getattr(module, "padding", 0)).tolist()[0],
            }
        )
        arrays += own_arrays
        offset += sum(array.size for array in own_arrays)
    network = {
        "shape": [BATCH, *x.shape[1:]],
        "loss": training.loss,
        "rate": training.learning_rate,
        "layers": layers,
        "keys": {"input": own, "target": target, "rate": rate},
    }
    return {
        "train.plan": run.plan.to_bytes(),
        "network.json": json.dumps(network).encode(),
        "weights.bin": b"".join(array.tobytes() for array in arrays),
        "inputs.bin": x.numpy().tobytes(),
        "targets.bin": y.numpy().astype("<f4").tobytes(),
    }


def reference_losses(training: TrainingBenchmark, steps: int) -> list[float]:
    """Compute PyTorch's losses."""
    model, x, y = training.build()
    optimizer = torch.optim.SGD(model.parameters(), training.learning_rate)
    found = []
    for step in range(steps):
        rows = slice(step % BATCH_COUNT * BATCH, (step % BATCH_COUNT + 1) * BATCH)
        loss = LOSSES[training.loss](model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def measure_training(
    renderers: Sequence[str], rounds: int = ROUNDS, runs: int = RUNS
) -> dict[str, Any]:
    """Measure milliseconds per step for each run, by renderer, network and peer."""
    bundle_script(*TRAINING_SCRIPT_BUILD)  # fail early on an error in it
    found: dict[str, Any] = {renderer: {} for renderer in renderers}
    for name, training in NETWORKS.items():
        files = page_files(training)
        right: list[float] = []
        for renderer in renderers:
            rows: dict[str, Any] = {
                peer: {"first": [], "warm": [], "error": 0.0} for peer in training.peers
            }
            for run in range(runs):
                for peer, calls in time_peers(renderer, files, rows, rounds, run).items():
                    most = max(call["step"] for call in calls) + 1
                    right = right if most <= len(right) else reference_losses(training, most)
                    errors = [abs(c["loss"] / right[c["step"]] - 1) for c in calls]
                    rows[peer]["error"] = float(np.max([rows[peer]["error"], *errors]))
                    rows[peer]["steps"] = most
            found[renderer][name] = rows
            print_figures(name, renderer, rows)
            print_painting(rows)
    return found


def time_peers(
    renderer: str, files: dict[str, bytes], rows: dict[str, Any], rounds: int, run_index: int
) -> dict[str, list[dict[str, float]]]:
    """Run all peers in turns in a new browser; return the series of each peer."""
    peers = [*rows]
    found: dict[str, list[dict[str, float]]] = {}
    with open_page(renderer, files, TRAINING_SCRIPT_BUILD) as (opened, _):
        opened.evaluate("() => bench.open()")
        for peer in rotate_peers(peers, run_index):
            first = opened.evaluate("name => bench.start(name)", peer)
            rows[peer]["first"].append(first["ms"])
            found[peer] = [first]
        for turn in range(rounds):
            for peer in rotate_peers(peers, turn):
                found[peer] += opened.evaluate("name => bench.run(name)", peer)
        for peer, calls in found.items():
            rows[peer]["warm"].append(statistics.median(call["ms"] for call in calls[1:]))
            rows[peer]["counts"] = opened.evaluate("name => bench.counts(name)", peer)
        painted = opened.evaluate("name => bench.painted(name)", "nbglcnn")
        rows["nbglcnn"].setdefault("painted", []).append(painted)
        opened.evaluate("() => bench.close()")
    return found


def rotate_peers(peers: list[str], round_index: int) -> list[str]:
    """Rotate the peers, so that each turn starts with another one."""
    first = round_index % len(peers)
    return peers[first:] + peers[:first]


def print_figures(name: str, renderer: str, rows: dict[str, Any]) -> None:
    """Print one network's figures."""
    print(f"\nA step of {name} on {renderer}")
    base = statistics.median(rows[REFERENCE_PEER]["warm"])
    for peer, row in rows.items():
        warm, first = (statistics.median(row[kind]) for kind in ("warm", "first"))
        void = "" if row["error"] <= MAX_LOSS_ERROR else "  WRONG"
        print(
            f"  {peer:10} {warm:8.1f} ms, {warm / base:5.3f} of {REFERENCE_PEER}; first "
            f"{first:6.0f}; {row['counts']['draws']} draws; losses of {row['steps']} steps "
            f"{row['error']:.0e} off{void}",
            flush=True,
        )


def print_painting(rows: dict[str, Any]) -> None:
    """Print how training steps and page frames affect each other."""
    for row in rows["nbglcnn"]["painted"]:
        print(
            f"  between frames {row['free']:.1f} ms, while the page paints {row['ms']:.1f} "
            f"({row['ms'] / row['free']:.2f}) at {row['frames']:.0f} frames/s",
            flush=True,
        )


def main() -> None:
    """Run the measurements selected on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--renderers", nargs="*", default=["swiftshader", "llvmpipe"])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--runs", type=int, default=RUNS)
    given = parser.parse_args()
    install_node_packages(BENCH_FOLDER, search_path_with_node())
    measure_training(given.renderers, given.rounds, given.runs)


if __name__ == "__main__":
    main()
