"""A Viewer's full lifecycle in its kernel, ended after any message; imported by notebooks."""

import asyncio
import itertools
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from IPython.display import display
from onnx.reference import ReferenceEvaluator

import timeouts  # noqa: F401
from assertions import assert_equal
from nbglcnn import Viewer
from onnx_models import model_of, node

# A kernel's first cell. It avoids torch, which takes seconds to import.
IMPORTS_CELL = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from viewer_lifecycle import *
"""
TIMEOUT_S = 30.0  # of a read; one that fails on a closed comm ends much earlier
_seeds = itertools.count(1000 * os.getpid(), 2)  # so that no page has these blobs cached


def network(seed: int) -> onnx.ModelProto:
    """Two layers with a new name and weights, so that no page has cached them."""
    rng = np.random.default_rng(seed)
    return model_of(
        [
            node("Conv", ["x", "w", "b"], [f"hidden{seed}"], kernel_shape=[3, 3], pads=[1] * 4),
            node("Relu", [f"hidden{seed}"], ["y"]),
        ],
        {"x": (1, 1, 5, 6)},
        ["y"],
        constants={
            "w": rng.normal(size=(3, 1, 3, 3)).astype(np.float32),
            "b": rng.normal(size=3).astype(np.float32),
        },
    )


def make_picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(1, 1, 5, 6)).astype(np.float32)


def assert_output(value: Any, seed: int, picture_seed: int) -> None:
    [truth] = ReferenceEvaluator(network(seed)).run(None, {"x": make_picture(picture_seed)})
    assert_equal(value, truth)


def call_after_messages(viewer: Viewer, count: int, action: Callable[[], Any]) -> None:
    """Call `action` after `count` messages to or from pages."""
    connection, seen = viewer._connection, itertools.count(1)

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*given: Any) -> None:
            call(*given)
            if next(seen) == count:
                action()

        return counting

    connection._send_raw = counted(connection._send_raw)  # type: ignore[method-assign]
    connection.receive = counted(connection.receive)  # type: ignore[method-assign]


def exit_kernel() -> None:
    """Kill the kernel as soon as its last message has been sent."""
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)


def run_lifecycle(*, end: int | None = None, by: str = "page") -> list[list[Any]]:
    """Load, show, read, change the input, read and close a Viewer; time each step.

    Returns each step's name, outcome and seconds.

    After message `end` the Viewer ends: closed by the page ("page"), closed by this kernel
    ("kernel"), or because the kernel dies ("death").
    """
    seed = next(_seeds)
    viewer = Viewer(network(seed), make_picture(seed), timeout=TIMEOUT_S)
    if end is not None and by != "page":
        call_after_messages(viewer, end, viewer.close if by == "kernel" else exit_kernel)

    def read(pictured: int) -> None:
        assert_output(viewer.output, seed, pictured)

    def change() -> None:
        viewer.input = make_picture(seed + 1)

    steps = {
        "show": lambda: display(viewer),
        "read": lambda: read(seed),
        "change": change,
        "read again": lambda: read(seed + 1),
        "close": viewer.close,
    }
    step_results = []
    for name, step in steps.items():
        since, outcome = time.monotonic(), "right"
        try:
            step()
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
        step_results.append([name, outcome, time.monotonic() - since])
    if end is not None and by == "death":
        exit_kernel()  # fewer messages than `end` were sent
    return step_results


def print_outcomes(*lives: list[list[Any]]) -> None:
    print(json.dumps(lives))


def show_persistent_viewer() -> Viewer:
    """Show a persistent Viewer, so that others compile nothing and the page keeps its device."""
    viewer = Viewer(network(0), make_picture(0))
    display(viewer)
    assert_output(viewer.output, 0, 0)
    return viewer


async def exercise_viewer(viewer: Viewer, seed: int) -> None:
    """Run the steps of `run_lifecycle` except the last, concurrently with other Viewers."""
    assert_output(await viewer.read("y", timeout=60), seed, seed)
    viewer.input = make_picture(seed + 1)
    assert_output(await viewer.read("y", timeout=60), seed, seed + 1)


def run_side_by_side(count: int) -> list[asyncio.Task[None]]:
    """Show `count` Viewers; return the tasks that exercise them."""
    seeds = [next(_seeds) for _ in range(count)]
    viewers = [Viewer(network(seed), make_picture(seed)) for seed in seeds]
    display(*viewers)
    return [
        asyncio.ensure_future(exercise_viewer(viewer, seed))
        for viewer, seed in zip(viewers, seeds, strict=True)
    ]
