"""How far loading is, for a listener: a first network takes seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


@contextmanager
def progress_listener(tell: Callable[[str], None]) -> Iterator[None]:
    """`tell` is called with each step that begins meanwhile, in this thread."""
    token = _listener.set(tell)
    try:
        yield
    finally:
        _listener.reset(token)


def report_step(step: str) -> None:
    """Say what is done next, in a few words."""
    if (tell := _listener.get()) is not None:
        tell(step)
