"""The benchmark's targets and floors, and the measured figures."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

REFERENCE_PEER = "tfjs webgl"
MAX_ERROR = 1e-5
# Between the cell with the imports and the first cell that shows a network.
PAUSE_BEFORE_CELL_S = 3.0
SINGLE_LAYER_PREFIXES = (
    "conv 1",
    "conv 3",
    "conv 4",
    "conv 7",
    "convT",
    "depthwise",
    "gemm",
    "linear",
)  # prefixes of the names of single layers

PeerRows = dict[str, Any]  # of one network, by peer
ResultsByNetwork = dict[str, Any]  # by network name
LimitsByRenderer = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Goal:
    """A row of the table; `measure` returns a figure per run, or none if not measured."""

    label: str
    limits: LimitsByRenderer  # (target, floor) by renderer
    measure: Callable[[ResultsByNetwork], list[float]]


def limits_by_renderer(
    swiftshader: tuple[float, float], llvmpipe: tuple[float, float]
) -> LimitsByRenderer:
    """Limits by renderer."""
    return {"swiftshader": swiftshader, "llvmpipe": llvmpipe}


def time_ratios(rows: PeerRows, peer: str, base: str, kind: str) -> list[float]:
    """A peer's time in each run, relative to another peer's in the same run."""
    ours, theirs = rows.get(peer, {}), rows.get(base, {})
    if "fails" in ours or "fails" in theirs or not ours.get("error", 1) <= MAX_ERROR:
        return []
    return [a / b for a, b in zip(ours.get(kind, []), theirs.get(kind, []), strict=False)]


def network_ratio_measure(
    name: str, peer: str = "nbglcnn", base: str = REFERENCE_PEER, kind: str = "warm"
) -> Any:
    """Return a function that gives the figures of one network."""
    return lambda found: time_ratios(found.get(name, {}).get("peers", {}), peer, base, kind)


def layer_ratio_measure(name: str, base: str) -> Any:
    """Return a function that gives nbglcnn's time of one network, relative to another network."""

    def measure(found: ResultsByNetwork) -> list[float]:
        ours, theirs = (
            found.get(one, {}).get("peers", {}).get("nbglcnn", {}) for one in (name, base)
        )
        return [a / b for a, b in zip(ours.get("warm", []), theirs.get("warm", []), strict=False)]

    return measure


def worst_ratio_measure(peer: str, kind: str, *, single_layers: bool = False) -> Any:
    """Return a function that gives the worst figures among whole networks or single layers."""

    def measure(found: ResultsByNetwork) -> list[float]:
        kept = [
            model
            for name, model in found.items()
            if name.startswith(SINGLE_LAYER_PREFIXES) == single_layers
        ]
        all_of_them = [time_ratios(model["peers"], peer, REFERENCE_PEER, kind) for model in kept]
        return max(filter(None, all_of_them), key=statistics.median, default=[])

    return measure


def drawing_ms(found: ResultsByNetwork) -> list[float]:
    """The milliseconds that drawing adds to a run of the smallest network."""
    rows = found.get("fashion autoencoder", {}).get("peers", {})
    drawn, fused = (rows.get(peer, {}).get("warm", []) for peer in ("nbglcnn drawn", "nbglcnn"))
    return [a - b for a, b in zip(drawn, fused, strict=False)]


def max_call_count_measure(figure: Callable[[dict[str, int]], float]) -> Any:
    """Return a function that gives the maximum of a call-count figure over all networks."""

    def measure(found: ResultsByNetwork) -> list[float]:
        counts = [model["peers"].get("nbglcnn", {}).get("counts") for model in found.values()]
        return [max(map(figure, present))] if (present := [c for c in counts if c]) else []

    return measure


GOALS = (
    Goal(
        "Fashion autoencoder",
        limits_by_renderer((0.08, 0.15), (0.13, 0.25)),
        network_ratio_measure("fashion autoencoder"),
    ),
    Goal(
        "all-conv autoencoder",
        limits_by_renderer((0.11, 0.2), (0.18, 0.3)),
        network_ratio_measure("all-conv autoencoder 32×32"),
    ),
    Goal(
        "pix2pix16",
        limits_by_renderer((0.09, 0.15), (0.1, 0.2)),
        network_ratio_measure("pix2pix16"),
    ),
    Goal(
        "pix2pix64 (`make bench-full`)",
        limits_by_renderer((0.09, 0.15), (0.1, 0.2)),
        network_ratio_measure("pix2pix64"),
    ),
    Goal(
        "resnet18", limits_by_renderer((0.2, 0.3), (0.25, 0.4)), network_ratio_measure("resnet18")
    ),
    Goal(
        "conv 3×3 64→64 @56",
        limits_by_renderer((0.25, 0.35), (0.25, 0.4)),
        network_ratio_measure("conv 3×3 64→64 @56"),
    ),
    Goal(
        "mobilenet_v2",
        limits_by_renderer((0.25, 0.4), (0.35, 0.55)),
        network_ratio_measure("mobilenet_v2"),
    ),
    Goal(
        "convnext_tiny",
        limits_by_renderer((0.35, 0.6), (0.35, 0.6)),
        network_ratio_measure("convnext_tiny"),
    ),
    Goal(
        "ViT-S/16",
        limits_by_renderer((0.35, 0.6), (0.35, 0.6)),
        network_ratio_measure("ViT-S/16"),
    ),
    Goal(
        "linear 384→1536 of 196 rows, beside nbglcnn's 1×1 convolution of this size",
        limits_by_renderer((1.25, 1.5), (1.25, 1.5)),
        layer_ratio_measure("linear 384→1536, 196 rows", "conv 1×1 384→1536 @14"),
    ),
    Goal(
        "conv 3×3 512→512 @7, beside nbglcnn's 64→64 @56 with as many MACs",
        limits_by_renderer((1.33, 1.6), (1.33, 1.6)),
        layer_ratio_measure("conv 3×3 512→512 @7", "conv 3×3 64→64 @56"),
    ),
    Goal(
        "all activations read, the worst network",
        limits_by_renderer((0.2, 0.4), (0.25, 0.5)),
        worst_ratio_measure("nbglcnn all", "all"),
    ),
    Goal(
        "resnet18 kept and drawn, beside its own fused run",
        limits_by_renderer((1.25, 1.5), (1.3, 1.6)),
        network_ratio_measure("resnet18", "nbglcnn drawn", "nbglcnn"),
    ),
    Goal(
        "Fashion autoencoder drawn: ms more",
        limits_by_renderer((1.3, 2.5), (1.4, 2.5)),
        drawing_ms,
    ),
    Goal(
        "first run, the worst network",
        limits_by_renderer((0.4, 0.6), (0.4, 0.6)),
        worst_ratio_measure("nbglcnn", "first"),
    ),
    Goal(
        "first run, the worst single layer",
        limits_by_renderer((0.4, 0.8), (0.4, 0.8)),
        worst_ratio_measure("nbglcnn", "first", single_layers=True),
    ),
    Goal(
        "resnet18 beside ORT wasm, 1 thread",
        limits_by_renderer((3, 4.5), (0.9, 1.5)),
        network_ratio_measure("resnet18", base="ort wasm"),
    ),
    Goal(
        "WebGL calls a draw, at most",
        limits_by_renderer((10, 12), (10, 12)),
        max_call_count_measure(lambda counts: counts["calls"] / max(counts["draws"], 1)),
    ),
    Goal(
        "objects made and deleted in a warm call",
        limits_by_renderer((0, 0), (0, 0)),
        max_call_count_measure(lambda counts: counts["creates"] + counts["deletes"]),
    ),
)


def format_verdict(value: float, target: float, floor: float) -> str:
    """Format whether a figure meets its target or floor."""
    if value <= target:
        return "target met"
    return "floor met" if value <= floor else "**missed**"
