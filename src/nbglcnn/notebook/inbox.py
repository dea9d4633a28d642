"""The registry of receivers for page messages, for the pumps that read a host's queue."""

from __future__ import annotations

from typing import Any, Protocol
from weakref import WeakValueDictionary


class Inbox(Protocol):
    """A receiver of a Viewer's custom messages, each with its content and buffers."""

    def receive(self, content: Any, buffers: list[memoryview]) -> None:
        """Receive one message; callable from any thread."""


inboxes_by_comm: WeakValueDictionary[str, Inbox] = WeakValueDictionary()  # by comm id
