"""What loading imports, imported ahead while a notebook's kernel has nothing to do.

In the kernel's own loop and on its own thread: threads that import at once can wait for each other,
and the loser finds half of a module. A cell that comes meanwhile waits for one of these modules.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from importlib import import_module

from nbglcnn.load.torch.isolation import process_state as thread

FIRST_DELAY_S = 0.2  # so that a cell that is there already comes before
NEXT_DELAY_S = 0.02  # between two, for the kernel's messages
# Each with what it brings: a few tenths of a second. Each network needs the first one; the others,
# a second together, those with a resize, attention or another operator without a form of ours.
# A module that this torch lacks is left out.
MODULES = (
    *("nbglcnn.load.torch.module", "onnx", "sympy", "onnx_ir", "onnxscript"),
    *("onnxscript.function_libs.torch_lib.ops", "torch.onnx._internal.exporter._core"),
)
_is_started = False


def preimport() -> None:
    """Import what a first network needs from when this cell has ended: call it in a kernel's loop.

    Only where PyTorch is there by then.
    """
    global _is_started
    if _is_started:
        return
    with contextlib.suppress(RuntimeError):  # no loop here: not on the kernel's thread
        loop = asyncio.get_running_loop()
        _is_started = True
        loop.call_later(FIRST_DELAY_S, _import_next, loop, MODULES)


def _import_next(loop: asyncio.AbstractEventLoop, names: tuple[str, ...]) -> None:
    if "torch" not in sys.modules or not thread.LOCK.acquire(blocking=False):
        return  # an ONNX model needs none of it; or another thread is about to import it
    try:
        while names and names[0] in sys.modules:
            names = names[1:]
        if names:
            with contextlib.suppress(Exception), thread.suppress_warnings(), thread.gc_paused():
                import_module(names[0])
            loop.call_later(NEXT_DELAY_S, _import_next, loop, names[1:])
    finally:
        thread.LOCK.release()
