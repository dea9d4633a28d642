"""Where the messages of a Viewer's pages go, for whoever takes them out of a host's queue."""

from __future__ import annotations

from typing import Any, Protocol
from weakref import WeakValueDictionary


class Inbox(Protocol):
    """Where a Viewer's messages go: called with a custom message's content and buffers."""

    def receive(self, content: Any, buffers: list[memoryview]) -> None:
        """Take one message; may be called on any thread."""


inboxes_by_comm: WeakValueDictionary[str, Inbox] = WeakValueDictionary()  # by comm id
