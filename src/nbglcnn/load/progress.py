"""Loading progress for a listener, since loading a first network takes seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_listener: ContextVar[Callable[[str], None] | None] = ContextVar("listener", default=None)


@contextmanager
def progress_listener(on_step: Callable[[str], None]) -> Iterator[None]:
    """Call `on_step` with each loading step that begins inside the context, in this thread."""
    token = _listener.set(on_step)
    try:
        yield
    finally:
        _listener.reset(token)


def report_step(step: str) -> None:
    """Report the next step to the listener, as a short text."""
    if (tell := _listener.get()) is not None:
        tell(step)
