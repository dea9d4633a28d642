"""Process and PyTorch state during loading: changed for one thread only, and restored after."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, cast

# PyTorch keeps the state of a running recording per process.
RECORDING_LOCK = threading.RLock()
NOISY_LOGGERS = ("torch", "onnxscript", "onnx_ir")  # names of loggers


IS_FORKED_CHILD = False  # whether this process was forked after this module was imported
_is_gc_paused = False


def _after_fork() -> None:
    global RECORDING_LOCK, IS_FORKED_CHILD
    RECORDING_LOCK, IS_FORKED_CHILD = threading.RLock(), True
    if _is_gc_paused:  # by a thread that exists only in the parent
        gc.enable()


if hasattr(os, "register_at_fork"):
    # Else a child forked while another thread loads would wait for the lock forever.
    os.register_at_fork(after_in_child=_after_fork)


@contextlib.contextmanager
def load_lock() -> Iterator[None]:
    """Hold the lock that serializes loading and PyTorch's computations across threads."""
    with RECORDING_LOCK, _single_thread_if_forked():
        yield


@contextlib.contextmanager
def _single_thread_if_forked() -> Iterator[None]:
    """In a forked child, let PyTorch use a single thread.

    The parent's worker threads don't exist in the child, and OpenMP would wait for them forever.
    """
    torch = sys.modules.get("torch")
    if not IS_FORKED_CHILD or torch is None:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def pause_gc() -> Iterator[None]:
    """Pause the garbage collector: most objects that loading creates stay alive.

    It would take a tenth of the loading time of a network with 400 operators.
    """
    global _is_gc_paused
    if not gc.isenabled():
        yield
        return
    try:
        gc.disable()
        _is_gc_paused = True
        yield
    finally:
        _is_gc_paused = False
        gc.enable()


class _ThreadFilter(logging.Filter):
    """Filters the warnings and log records of one thread while it is `active`."""

    def __init__(self) -> None:
        super().__init__()
        self.thread = threading.get_ident()
        self.active = True

    def match(self, _: str) -> bool:
        """Whether to ignore a warning; a warnings filter calls it as its message pattern."""
        return self.active and threading.get_ident() == self.thread

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a handler emits the record."""
        noise = any(
            record.name == one or record.name.startswith(one + ".") for one in NOISY_LOGGERS
        )
        return not (self.active and noise and record.thread == self.thread)


@contextlib.contextmanager
def suppress_warnings() -> Iterator[None]:
    """Suppress PyTorch's warnings and logs of this thread; those of other threads still appear.

    warnings.catch_warnings, logger levels and redirect_stdout would affect the whole process.
    """
    mine = _ThreadFilter()
    handlers = [*logging.root.handlers, *filter(None, [logging.lastResort])]
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if name.partition(".")[0] in NOISY_LOGGERS and isinstance(logger, logging.Logger):
            handlers += logger.handlers
    for handler in handlers:
        handler.addFilter(mine)
    entry: Any = ("ignore", mine, Warning, None, 0)
    filters: Any = warnings.filters
    own = getattr(sys.flags, "context_aware_warnings", False)  # Python 3.14: filters per thread
    with warnings.catch_warnings() if own else contextlib.nullcontext():
        if own:
            warnings.simplefilter("ignore")
        else:
            filters.insert(0, entry)
        try:
            yield
        finally:
            mine.active = False
            if entry in filters:
                filters.remove(entry)
            for handler in handlers:
                handler.removeFilter(mine)


@contextlib.contextmanager
def restore_torch_on_error() -> Iterator[None]:
    """Restore PyTorch's state after an interrupted or failed recording.

    An interrupt can occur between the start of a mode and the `try` that would end it.
    """
    import torch

    _C, ops = cast(Any, torch._C), cast(Any, torch._ops)
    keys = _C._TorchDispatchModeKey
    infra = (keys.FAKE, keys.PROXY, keys.FUNCTIONAL)
    pre = ops.mode_stack_state_for_pre_dispatch()
    recording = pre._schema_check_mode
    traced = {keys.PROXY: pre.get(0), keys.FUNCTIONAL: pre.get(1)}
    slots = {key: _C._get_dispatch_mode(key) for key in infra}
    dispatch, function = _C._len_torch_dispatch_stack(), _C._len_torch_function_stack()
    included = _C._dispatch_tls_is_dispatch_key_included("PreDispatch")
    flags = torch.compiler._is_compiling_flag, torch.compiler._is_exporting_flag
    grad = torch.is_grad_enabled()
    dynamo: Any = sys.modules.get("torch._dynamo.eval_frame")
    stance = getattr(dynamo, "_stance", None)
    try:
        yield
    except BaseException:
        if stance is not None:
            dynamo._stance = stance
        while _C._len_torch_function_stack() > function:
            _C._pop_torch_function_stack()
        for key, before in slots.items():
            if before is None and _C._get_dispatch_mode(key) is not None:
                _C._unset_dispatch_mode(key)
        while _C._len_torch_dispatch_stack() > dispatch:
            _C._pop_torch_dispatch_stack(None)
        for key, before in traced.items():
            if before is None:
                ops.unset_mode_pre_dispatch(key)
        pre._schema_check_mode = recording
        _C._dispatch_tls_set_dispatch_key_included("PreDispatch", included)
        torch.compiler._is_compiling_flag, torch.compiler._is_exporting_flag = flags
        torch.set_grad_enabled(grad)
        raise


def force_eager() -> contextlib.AbstractContextManager[Any]:
    """Run torch.compile'd code eagerly: dynamo would hide its operators."""
    if "torch._dynamo" not in sys.modules:
        return contextlib.nullcontext()
    import torch

    stance: contextlib.AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
    return stance


@contextlib.contextmanager
def preserve_rng_state(has_drawn: Callable[[], bool]) -> Iterator[None]:
    """Keep a model that draws random numbers from changing the user's random state.

    The state is restored only if it changed, and if the model `has_drawn` or set a seed: draws of
    another thread are kept.
    """
    import torch

    state, seed = torch.get_rng_state(), torch.initial_seed()
    try:
        yield
    finally:
        moved = not torch.equal(torch.get_rng_state(), state)
        if moved and (torch.initial_seed() != seed or has_drawn()):
            torch.set_rng_state(state)


def uses_random_numbers(function: Callable[[], Any]) -> bool:
    """Whether `function` draws from PyTorch's generator directly, on the calling thread."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    drawn = []

    class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if torch.Tag.nondeterministic_seeded in func.tags:
                drawn.append(func)
            return func(*args, **(kwargs or {}))

    with contextlib.suppress(Exception), torch.no_grad(), cast(Any, Watch)():
        function()
    return bool(drawn)


def disable_autocast() -> Any:
    """Return a mode that disables torch.autocast, and keeps grad-mode changes out of recordings.

    `mode.entered` is whether an autocast was entered. PyTorch reports that only to this class of
    modes.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import PreDispatchTorchFunctionMode

    class Plainly(PreDispatchTorchFunctionMode):
        def __init__(self) -> None:
            self.entered = False

        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func is torch.amp.autocast_mode._enter_autocast:
                self.entered = self.entered or bool(args[2])
                torch.set_autocast_enabled(args[0], False)  # exiting restores the previous state
                return None
            if func is torch.amp.autocast_mode._exit_autocast:
                return None
            if func is torch._C._set_grad_enabled:
                with torch._C.DisableTorchFunction():
                    return func(*args)
            return func(*args, **(kwargs or {}))

    return Plainly()
