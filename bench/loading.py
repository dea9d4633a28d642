"""Times `nbglcnn.compile` beside torchvista and TorchLens, which trace the same calls.

python bench/loading.py

The peers draw or store the calls. All of them process each network in turns, in one process; a
fresh process has imported PyTorch, the peers' networks and nbglcnn. Torchvision and the peers are
installed into .cache/loading.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGES_FOLDER = ROOT / ".cache" / "loading"
# Installed without dependencies, which .venv has; torchvision requires PyTorch's CUDA build.
PACKAGES = ("torchvision==0.28.*", "torchvista==0.2.*", "torchlens==2.36.*", "graphviz", "pandas")
# The limits in seconds for a network, in a warm process and in a fresh one.
LOADING_LIMITS_S = {
    "five lines": (0.1, 0.6),
    "resnet18": (0.5, 1.2),
    "efficientnet_b0": (1.0, None),
    "densenet121": (1.5, None),
    "vit_b_16": (2.0, None),
}
CALL_COUNTS = (100, 300, 1000, 3000)  # number of layers in a chain
ROUNDS = 5


def measure_loading() -> dict[str, Any]:
    """Measure the seconds per network by tool, in fresh processes, and by number of calls."""
    _install()
    warm = {name: _measure_in_process(name) for name in LOADING_LIMITS_S}
    fresh = {
        name: statistics.median(_measure_in_process(f"fresh {name}")["nbglcnn"] for _ in range(3))
        for name, (_, goal) in LOADING_LIMITS_S.items()
        if goal is not None
    }
    return {
        "warm": warm,
        "fresh": fresh,
        "growth": {n: _measure_in_process(f"calls {n}")["nbglcnn"] for n in CALL_COUNTS},
    }


def _install() -> None:
    stamp = PACKAGES_FOLDER / "installed"
    if stamp.exists() and stamp.read_text() == "\n".join(PACKAGES):
        return
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "--upgrade", "--no-deps", "--target", str(PACKAGES_FOLDER), *PACKAGES], check=True
    )
    stamp.write_text("\n".join(PACKAGES))


def _measure_in_process(measurement: str) -> dict[str, float]:
    """Run a measurement in its own process."""
    command = [sys.executable, "-W", "ignore", __file__, "--measure", measurement]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(said.strip().splitlines()[-1])
    return found


def _measure(measurement: str) -> dict[str, float]:
    import torch
    from torch import nn

    sys.path.append(str(PACKAGES_FOLDER))
    # torchvision's own operators need the PyTorch it was built for; no network here uses one.
    stubs = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        stubs.define(f"{name}(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    import torchvision

    import nbglcnn

    kind, _, rest = measurement.partition(" ")
    torch.manual_seed(0)
    if measurement.endswith("five lines"):
        layers = [nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1800, 10)]
        model, side = nn.Sequential(*layers), 32
    elif kind == "calls":
        block = (nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        count = int(rest)
        model, side = nn.Sequential(*(block * (count // 3 + 1))[:count]), 8
        model[0] = nn.Conv2d(3, 4, 3, padding=1)
    else:
        name = rest if kind == "fresh" else measurement
        model, side = getattr(torchvision.models, name)(weights=None), 224
    model, x = model.eval(), torch.randn(1, 3, side, side)

    def nbglcnns() -> None:
        nbglcnn.compile(model, x)

    if kind == "fresh":
        return {"nbglcnn": _time_call(nbglcnns)}
    tools: dict[str, Callable[[], Any]] = {"nbglcnn": nbglcnns}
    if kind != "calls":
        tools |= _peer_calls(model, x)
    for tool in tools.values():
        tool()
    times: dict[str, list[float]] = {name: [] for name in tools}
    for _ in range(ROUNDS if kind != "calls" else 3):
        for name, tool in tools.items():
            times[name].append(_time_call(tool))
    return {name: statistics.median(found) for name, found in times.items()}


def _peer_calls(model: Any, x: Any) -> dict[str, Callable[[], Any]]:
    import torch
    import torchlens
    import torchvista

    def forward() -> None:
        with torch.inference_mode():
            model(x)

    return {
        "forward": forward,
        "torchvista": lambda: torchvista.trace_model(model, x),
        "TorchLens": lambda: torchlens.trace(model, x),
    }


def _time_call(call: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(_measure(sys.argv[2])))
    else:
        print(json.dumps(measure_loading(), indent=2))
