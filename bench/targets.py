"""The benchmark's targets and floors, and the measured figures."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

REFERENCE = "tfjs webgl"
MAX_ERROR = 1e-5
DRAWING_LIMIT_MS = 1.5
PAUSE_S = 3.0  # between the cell with the imports and the first cell that shows a network
LAYER_PREFIXES = ("conv", "depthwise", "gemm")  # prefixes of the names of single layers

Rows = dict[str, Any]  # of one network, by peer
Results = dict[str, Any]  # by network name
Limits = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Goal:
    """A row of the table; `measure` returns a figure per run, or none if not measured."""

    label: str
    limits: Limits  # (target, floor) by renderer
    measure: Callable[[Results], list[float]]


def by_renderer(swiftshader: tuple[float, float], llvmpipe: tuple[float, float]) -> Limits:
    """Limits by renderer."""
    return {"swiftshader": swiftshader, "llvmpipe": llvmpipe}


def time_shares(rows: Rows, peer: str, base: str, kind: str) -> list[float]:
    """A peer's time in each run, relative to another peer's in the same run."""
    ours, theirs = rows.get(peer, {}), rows.get(base, {})
    if "fails" in ours or "fails" in theirs or not ours.get("error", 1) <= MAX_ERROR:
        return []
    return [a / b for a, b in zip(ours.get(kind, []), theirs.get(kind, []), strict=False)]


def network_figure(
    name: str, peer: str = "nbglcnn", base: str = REFERENCE, kind: str = "warm"
) -> Any:
    """Return a function that gives the figures of one network."""
    return lambda found: time_shares(found.get(name, {}).get("peers", {}), peer, base, kind)


def worst_figure(peer: str, kind: str) -> Any:
    """Return a function that gives the worst figures among whole networks."""

    def measure(found: Results) -> list[float]:
        whole = [model for name, model in found.items() if not name.startswith(LAYER_PREFIXES)]
        all_of_them = [time_shares(model["peers"], peer, REFERENCE, kind) for model in whole]
        return max(filter(None, all_of_them), key=statistics.median, default=[])

    return measure


def drawing_ms(found: Results) -> list[float]:
    """The milliseconds that drawing adds to a run of the smallest network."""
    rows = found.get("fashion autoencoder", {}).get("peers", {})
    drawn, fused = (rows.get(peer, {}).get("warm", []) for peer in ("nbglcnn drawn", "nbglcnn"))
    return [a - b for a, b in zip(drawn, fused, strict=False)]


def max_count(figure: Callable[[dict[str, int]], float]) -> Any:
    """Return a function that gives the maximum of a call-count figure over all networks."""

    def measure(found: Results) -> list[float]:
        counts = [model["peers"].get("nbglcnn", {}).get("counts") for model in found.values()]
        return [max(map(figure, present))] if (present := [c for c in counts if c]) else []

    return measure


GOALS = (
    Goal(
        "Fashion autoencoder",
        by_renderer((0.08, 0.15), (0.13, 0.25)),
        network_figure("fashion autoencoder"),
    ),
    Goal(
        "all-conv autoencoder",
        by_renderer((0.11, 0.2), (0.18, 0.3)),
        network_figure("all-conv autoencoder 32×32"),
    ),
    Goal("pix2pix16", by_renderer((0.09, 0.15), (0.1, 0.2)), network_figure("pix2pix16")),
    Goal(
        "pix2pix64 (`make bench-full`)",
        by_renderer((0.09, 0.15), (0.1, 0.2)),
        network_figure("pix2pix64"),
    ),
    Goal("resnet18", by_renderer((0.2, 0.3), (0.25, 0.4)), network_figure("resnet18")),
    Goal(
        "conv 3×3 64→64 @56",
        by_renderer((0.25, 0.35), (0.25, 0.4)),
        network_figure("conv 3×3 64→64 @56"),
    ),
    Goal("mobilenet_v2", by_renderer((0.25, 0.4), (0.35, 0.55)), network_figure("mobilenet_v2")),
    Goal(
        "all activations read, the worst network",
        by_renderer((0.2, 0.4), (0.25, 0.5)),
        worst_figure("nbglcnn all", "all"),
    ),
    Goal(
        "resnet18 kept and drawn, beside its own fused run",
        by_renderer((1.25, 1.5), (1.3, 1.6)),
        network_figure("resnet18", "nbglcnn drawn", "nbglcnn"),
    ),
    Goal(
        "Fashion autoencoder drawn: ms more",
        by_renderer((DRAWING_LIMIT_MS,) * 2, (DRAWING_LIMIT_MS,) * 2),
        drawing_ms,
    ),
    Goal(
        "first run, the worst network",
        by_renderer((0.3, 0.6), (0.5, 1)),
        worst_figure("nbglcnn", "first"),
    ),
    Goal(
        "resnet18 beside ORT wasm, 1 thread",
        by_renderer((3, 4.5), (0.9, 1.5)),
        network_figure("resnet18", base="ort wasm"),
    ),
    Goal(
        "WebGL calls a draw, at most",
        by_renderer((10, 12), (10, 12)),
        max_count(lambda counts: counts["calls"] / max(counts["draws"], 1)),
    ),
    Goal(
        "objects made and deleted in a warm call",
        by_renderer((0, 0), (0, 0)),
        max_count(lambda counts: counts["creates"] + counts["deletes"]),
    ),
)


def format_verdict(value: float, target: float, floor: float) -> str:
    """Format whether a figure meets its target or floor."""
    if value <= target:
        return "target met"
    return "floor met" if value <= floor else "**missed**"
