"""Waiting for a page inside a running marimo cell; the only file with marimo's private names.

marimo handles one request at a time, and a running cell is one request. Meanwhile each page message
waits in two queues: the queue of all requests, and a queue of widget messages, which marimo reads
only to merge accumulated updates. The `MarimoPump` takes a Viewer's messages out of the second
queue. marimo handles their duplicates in the first queue after the cell, in the same order, and
`is_duplicate_message` recognizes them. Tested with marimo 0.25. If a private name is missing, the
fallback is to wait without delivering messages.
"""

from __future__ import annotations

import asyncio
import queue
import sys
from collections import deque
from typing import Any

from nbglcnn.notebook.message_receivers import receivers_by_comm_id

MAX_REMEMBERED = 1000  # messages remembered per Viewer, from one run of a cell
_delivered_by_comm_id: dict[
    str, deque[Any]
] = {}  # contents that a pump delivered, by comm id, until their duplicates arrive


class MarimoPump:
    """Delivers messages to Viewers while marimo is busy with a cell."""

    def __init__(self, requests: Any) -> None:
        self._requests = requests

    @staticmethod
    def for_thread(*, awaiting: bool) -> MarimoPump | None:
        """Return a pump for this thread, or None if there is no queue to read.

        Code that awaits outside a running cell is a background task; marimo then delivers by
        itself.
        """
        module = sys.modules.get("marimo._runtime.context")
        try:
            context = module.get_context() if module is not None else None
            if context is None or (awaiting and context.execution_context is None):
                return None
            enqueue = context._kernel.enqueue_control_request
            names, cells = enqueue.__code__.co_freevars, enqueue.__closure__
            found = cells[names.index("set_ui_element_queue")].cell_contents
        except Exception:  # another thread, a script, or a changed marimo
            return None
        # In WebAssembly no message arrives while Python runs.
        return None if isinstance(found, asyncio.Queue) else MarimoPump(found)

    def __enter__(self) -> MarimoPump:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: every message is also in marimo's other queue."""

    def deliver_one(self, timeout_ms: int) -> bool:
        """Take one message if one arrives within `timeout_ms`; return whether one did."""
        try:
            command = self._requests.get(bool(timeout_ms), timeout_ms / 1000)
        except (queue.Empty, OSError, EOFError):
            return False
        inbox = receivers_by_comm_id.get(getattr(command, "model_id", ""))
        if inbox is not None and hasattr(command.message, "content"):  # not a trait change
            content = command.message.content
            _delivered_by_comm_id.setdefault(command.model_id, deque(maxlen=MAX_REMEMBERED)).append(
                content
            )
            inbox.receive(content, [memoryview(each) for each in command.buffers])
        return True


def is_marimo_comm(comm: object) -> bool:
    """Whether a comm is marimo's; its exported pages keep a widget's state, but no MIME bundle."""
    return type(comm).__module__.partition(".")[0] == "marimo"


def is_duplicate_message(comm_id: str, content: Any) -> bool:
    """Whether a pump has already delivered this message to this comm; true once per delivery."""
    delivered_contents = _delivered_by_comm_id.get(comm_id)
    if not delivered_contents or content not in delivered_contents:
        return False
    while delivered_contents.popleft() != content:
        pass  # its duplicate preceded the cell
    if not delivered_contents:
        del _delivered_by_comm_id[comm_id]
    return True
