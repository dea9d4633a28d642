"""Letting go of Viewers that were replaced: ipywidgets keeps every widget for good.

A cell that runs again makes a new Viewer. The old one is closed once nobody has it: no variable,
no `Out[…]`, no view in a page. Only this file knows what holds a widget.
"""

from __future__ import annotations

import weakref
from typing import Any

from ipywidgets.widgets import widget  # type: ignore[import-untyped]


def allow_collection(viewer: Any) -> None:
    """Undo what keeps a widget alive; when its last user is gone, its `__del__` closes it."""
    this = weakref.ref(viewer)

    def handle(message: Any) -> None:
        found = this()
        if found is not None:
            found._handle_msg(message)

    viewer.comm.on_msg(handle)
    _instances().pop(viewer.model_id, None)


def keep_alive(viewer: Any) -> None:
    """Undo `allow_collection`: it is shown again."""
    _instances()[viewer.model_id] = viewer


def _instances() -> dict[str, Any]:
    found: dict[str, Any] = getattr(widget, "_instances", {})
    return found


def call_weak(viewer: weakref.ref[Any], method: str, *arguments: Any) -> Any:
    """Call a Viewer's method from what outlives it and must not keep it alive; None without it."""
    found = viewer()
    return None if found is None else getattr(found, method)(*arguments)
