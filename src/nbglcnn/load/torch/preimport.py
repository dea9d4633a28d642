"""Imports that loading needs, done in advance while a notebook's kernel is idle.

The imports run in the kernel's event loop on its own thread: threads that import at the same time
can deadlock, and the loser then sees a partially initialized module. A cell that starts during an
import waits for that one module only.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from importlib import import_module

from nbglcnn.load.torch.isolation import process_state as thread

FIRST_DELAY_S = 0.2  # so that a cell that is already queued runs first
NEXT_DELAY_S = 0.02  # between two imports, so that the kernel can handle messages
# Each import includes its dependencies and takes a few tenths of a second. Every network needs the
# first module. The others (a second together) are needed only by networks with a resize, attention
# or another operator that nbglcnn does not translate itself. A module that this version of torch
# lacks is skipped.
MODULES = (
    *("nbglcnn.load.torch.module", "onnx", "sympy", "onnx_ir", "onnxscript"),
    *("onnxscript.function_libs.torch_lib.ops", "torch.onnx._internal.exporter._core"),
)
_is_started = False


def preimport() -> None:
    """Schedule the imports for a first network after this cell; call it in a kernel's event loop.

    Does nothing unless PyTorch is imported by then.
    """
    global _is_started
    if _is_started:
        return
    with contextlib.suppress(RuntimeError):  # no running event loop: not the kernel's thread
        loop = asyncio.get_running_loop()
        _is_started = True
        loop.call_later(FIRST_DELAY_S, _import_next, loop, MODULES)


def _import_next(loop: asyncio.AbstractEventLoop, names: tuple[str, ...]) -> None:
    if "torch" not in sys.modules or not thread.RECORDING_LOCK.acquire(blocking=False):
        return  # an ONNX model doesn't need torch; or another thread is about to import it
    try:
        while names and names[0] in sys.modules:
            names = names[1:]
        if names:
            with contextlib.suppress(Exception), thread.suppress_warnings(), thread.pause_gc():
                import_module(names[0])
            loop.call_later(NEXT_DELAY_S, _import_next, loop, names[1:])
    finally:
        thread.RECORDING_LOCK.release()
