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

import patient  # noqa: F401
from equal import assert_equal
from nbglcnn import Viewer
from onnx_models import model_of, node

# A kernel's first cell. No torch, which takes seconds to import.
IMPORTS = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from steps import *
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


def picture(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(1, 1, 5, 6)).astype(np.float32)


def compare(value: Any, seed: int, pictured: int) -> None:
    [truth] = ReferenceEvaluator(network(seed)).run(None, {"x": picture(pictured)})
    assert_equal(value, truth)


def after(viewer: Viewer, count: int, act: Callable[[], Any]) -> None:
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


def die() -> None:
    """What the kernel's last message was has left it; then it is gone at once."""
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)


def live(*, end: int | None = None, by: str = "page") -> list[list[Any]]:
    """Load, show, read, other input, read, close: what came of each step, and in how many seconds.

    The Viewer ends after message `end`: the page does that itself, or this kernel by closing it
    ("kernel") or by dying ("death").
    """
    seed = next(_seeds)
    viewer = Viewer(network(seed), picture(seed), timeout=TIMEOUT_S)
    if end is not None and by != "page":
        after(viewer, end, viewer.close if by == "kernel" else die)

    def read(pictured: int) -> None:
        compare(viewer.output, seed, pictured)

    def change() -> None:
        viewer.input = picture(seed + 1)

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
        die()  # there were fewer messages
    return told


def tell(*lives: list[list[Any]]) -> None:
    print(json.dumps(lives))


def keep() -> Viewer:
    """A Viewer that stays: others need compile nothing then, and the page keeps its device."""
    viewer = Viewer(network(0), picture(0))
    display(viewer)
    compare(viewer.output, 0, 0)
    return viewer


async def ask(viewer: Viewer, seed: int) -> None:
    """The steps of `live` but the last, while other Viewers do theirs."""
    compare(await viewer.read("y", timeout=60), seed, seed)
    viewer.input = picture(seed + 1)
    compare(await viewer.read("y", timeout=60), seed, seed + 1)


def live_side_by_side(count: int) -> list[asyncio.Task[None]]:
    """So many Viewers below each other; the tasks that use them."""
    seeds = [next(_seeds) for _ in range(count)]
    viewers = [Viewer(network(seed), picture(seed)) for seed in seeds]
    display(*viewers)
    return [
        asyncio.ensure_future(ask(viewer, seed))
        for viewer, seed in zip(viewers, seeds, strict=True)
    ]
