"""Garbage collection of replaced Viewers, because ipywidgets keeps every widget for ever.

A cell that runs again makes a new Viewer. The old Viewer is closed when no variable, no `Out[…]`
and no view in a page refers to it. Only this file knows which references keep a widget alive.
"""

from __future__ import annotations

import weakref
from typing import Any

from ipywidgets.widgets import widget  # type: ignore[import-untyped]


def allow_collection(viewer: Any) -> None:
    """Drop ipywidgets' references to a widget; its `__del__` then closes it after its last use."""
    this = weakref.ref(viewer)

    def handle(message: Any) -> None:
        found = this()
        if found is not None:
            found._handle_msg(message)

    viewer.comm.on_msg(handle)
    _ipywidgets_instances().pop(viewer.model_id, None)


def keep_alive(viewer: Any) -> None:
    """Undo `allow_collection`, because the widget is displayed again."""
    _ipywidgets_instances()[viewer.model_id] = viewer


def _ipywidgets_instances() -> dict[str, Any]:
    found: dict[str, Any] = getattr(widget, "_instances", {})
    return found


def call_weak(viewer: weakref.ref[Any], method: str, *arguments: Any) -> Any:
    """Call a Viewer's method through a weak reference; return None if the Viewer was collected."""
    found = viewer()
    return None if found is None else getattr(found, method)(*arguments)
