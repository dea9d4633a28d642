"""Edits a network's values: what a Session and a Viewer do when they are asked to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbglcnn.features.edits.bends import Bend, Bends
from nbglcnn.features.edits.store import EditSnapshot, EditStore
from nbglcnn.graph import Array
from nbglcnn.plan.schema import Plan
from nbglcnn.transforms import Transform, check_not_function


class Editor:
    """Bends, injected and frozen values, and the way back; `bends` is the sequence of all bends.

    `plan`, `apply` and `value` are those of the `store`; `check_open` raises where nothing can be
    edited any more.
    """

    def __init__(
        self,
        plan: Callable[[], Plan],
        apply: Callable[[EditSnapshot], None],
        value: Callable[[str], Array],
        check_open: Callable[[], None],
    ) -> None:
        self._check_open = check_open
        self._read_before_edits = value
        self.store = EditStore(plan, apply, value)
        self.bends = Bends(self.store)

    def bend(
        self,
        layer: str,
        transform: Transform,
        *,
        channels: Any = None,
        mix: float = 1.0,
        name: str | None = None,
        enabled: bool = True,
    ) -> Bend:
        """Bend a value behind the bends that it has; the live Bend."""
        self._check_open()
        check_not_function(transform)
        edit = self.store.add_bend(layer, transform, channels, mix, name, enabled)
        return self.bends[edit.name]

    def inject(self, layer: str, array: Any, *, channels: Any = None) -> None:
        """Put an array in the place of a value, or of some of its channels."""
        self._check_open()
        self.store.add_injection(layer, array, channels)

    def freeze(self, layer: str) -> None:
        """Keep a value, before its bends, as it is now."""
        self._check_open()
        self.store.add_injection(layer, self._read_before_edits(layer), frozen=True)

    def release(self, layer: str) -> None:
        """End what was injected into a value, or frozen."""
        self._check_open()
        self.store.remove_injection(layer)

    def undo(self) -> bool:
        """Take the last change of the edits back; whether there was one."""
        return self.store.undo()

    def redo(self) -> bool:
        """Do again what was undone last; whether there was something."""
        return self.store.redo()
