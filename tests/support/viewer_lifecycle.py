"""A Viewer's whole life as its kernel sees it, ended after any message; notebooks import this."""

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

# A kernel's first cell. No torch, which takes seconds to import.
IMPORTS = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from viewer_lifecycle import *
"""
TIMEOUT_S = 30.0  # of a read; one that ends because of a closed comm takes a fraction of it
_seeds = itertools.count(1000 * os.getpid(), 2)  # blobs that no page has from before


def network(seed: int) -> onnx.ModelProto:
    """Two layers that no page has seen yet."""
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


def assert_output(value: Any, seed: int, pictured: int) -> None:
    [truth] = ReferenceEvaluator(network(seed)).run(None, {"x": make_picture(pictured)})
    assert_equal(value, truth)


def call_after_messages(viewer: Viewer, count: int, act: Callable[[], Any]) -> None:
    """Calls `act` when so many messages have come from pages or gone to them."""
    connection, seen = viewer._connection, itertools.count(1)

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*given: Any) -> None:
            call(*given)
            if next(seen) == count:
                act()

        return counting

    connection._send_raw = counted(connection._send_raw)  # type: ignore[method-assign]
    connection.receive = counted(connection.receive)  # type: ignore[method-assign]


def exit_kernel() -> None:
    """What the kernel's last message was has left it; then it is gone at once."""
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)


def run_lifecycle(*, end: int | None = None, by: str = "page") -> list[list[Any]]:
    """Load, show, read, other input, read, close: what came of each step, and in how many seconds.

    The Viewer ends after message `end`: the page does that itself, or this kernel by closing it
    ("kernel") or by dying ("death").
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
    told = []
    for name, step in steps.items():
        since, outcome = time.monotonic(), "right"
        try:
            step()
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
        told.append([name, outcome, time.monotonic() - since])
    if end is not None and by == "death":
        exit_kernel()  # there were fewer messages
    return told


def print_outcomes(*lives: list[list[Any]]) -> None:
    print(json.dumps(lives))


def keep_viewer() -> Viewer:
    """A Viewer that stays: others need compile nothing then, and the page keeps its device."""
    viewer = Viewer(network(0), make_picture(0))
    display(viewer)
    assert_output(viewer.output, 0, 0)
    return viewer


async def exercise_viewer(viewer: Viewer, seed: int) -> None:
    """The steps of `run_lifecycle` but the last, while other Viewers do theirs."""
    assert_output(await viewer.read("y", timeout=60), seed, seed)
    viewer.input = make_picture(seed + 1)
    assert_output(await viewer.read("y", timeout=60), seed, seed + 1)


def run_side_by_side(count: int) -> list[asyncio.Task[None]]:
    """So many Viewers below each other; the tasks that use them."""
    seeds = [next(_seeds) for _ in range(count)]
    viewers = [Viewer(network(seed), make_picture(seed)) for seed in seeds]
    display(*viewers)
    return [
        asyncio.ensure_future(exercise_viewer(viewer, seed))
        for viewer, seed in zip(viewers, seeds, strict=True)
    ]
