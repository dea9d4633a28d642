"""The registry of receivers for page messages, for the pumps that read a host's queue."""

from __future__ import annotations

from typing import Any, Protocol
from weakref import WeakValueDictionary


class MessageReceiver(Protocol):
    """A receiver of a Viewer's custom messages, each with its content and buffers."""

    def receive(self, content: Any, buffers: list[memoryview]) -> None:
        """Receive one message; callable from any thread."""


receivers_by_comm_id: WeakValueDictionary[str, MessageReceiver] = (
    WeakValueDictionary()
)  # by comm id
