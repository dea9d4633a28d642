"""Waiting for a page inside a running marimo cell; the only file that knows marimo's private names.

marimo handles one request at a time, and a running cell is one. What a page sends meanwhile lies in
two queues: one of all requests, and one of those of widgets alone, which marimo only reads to merge
what has piled up. The `MarimoPump` takes a Viewer's messages out of the second. Their twins in the
first are handled once the cell has ended, in the same order, and `is_duplicate` tells them from new
ones. Tried on marimo 0.25; where the names are missing, waiting is what's left.
"""

from __future__ import annotations

import asyncio
import queue
import sys
from collections import deque
from typing import Any

from nbglcnn.notebook.inbox import inboxes_by_comm

MAX_REMEMBERED = 1000  # messages that a Viewer remembers: those that come while one cell runs
_delivered: dict[
    str, deque[Any]
] = {}  # the contents that a Pump took, by comm id, until their twins


class MarimoPump:
    """Hands out what is for a Viewer while marimo itself cannot."""

    def __init__(self, requests: Any) -> None:
        self._requests = requests

    @staticmethod
    def for_thread(*, awaiting: bool) -> MarimoPump | None:
        """A Pump for this thread; None where there is nothing to pump.

        Who awaits without a cell that runs is a task in the background: marimo goes on by itself.
        """
        module = sys.modules.get("marimo._runtime.context")
        try:
            context = module.get_context() if module is not None else None
            if context is None or (awaiting and context.execution_context is None):
                return None
            enqueue = context._kernel.enqueue_control_request
            names, cells = enqueue.__code__.co_freevars, enqueue.__closure__
            found = cells[names.index("set_ui_element_queue")].cell_contents
        except Exception:  # another thread, a script, or a marimo that has changed
            return None
        # In WebAssembly nothing comes while Python is at work.
        return None if isinstance(found, asyncio.Queue) else MarimoPump(found)

    def __enter__(self) -> MarimoPump:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was held back: everything is in marimo's other queue as well."""

    def deliver_one(self, ms: int) -> bool:
        """Take one message if one comes within `ms` milliseconds; whether one came."""
        try:
            command = self._requests.get(bool(ms), ms / 1000)
        except (queue.Empty, OSError, EOFError):
            return False
        inbox = inboxes_by_comm.get(getattr(command, "model_id", ""))
        if inbox is not None and hasattr(command.message, "content"):  # not a changed trait
            content = command.message.content
            _delivered.setdefault(command.model_id, deque(maxlen=MAX_REMEMBERED)).append(content)
            inbox.receive(content, [memoryview(each) for each in command.buffers])
        return True


def is_comm(comm: object) -> bool:
    """Whether a comm is marimo's: its exported pages keep a widget's state, and no MIME bundle."""
    return type(comm).__module__.partition(".")[0] == "marimo"


def is_duplicate(name: str, content: Any) -> bool:
    """Whether a Pump has handed out this message to this comm already; told once for each."""
    taken = _delivered.get(name)
    if not taken or content not in taken:
        return False
    while taken.popleft() != content:
        pass  # its twin came before the cell ran
    if not taken:
        del _delivered[name]
    return True
