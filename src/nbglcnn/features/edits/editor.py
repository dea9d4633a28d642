"""The editing methods that a Session and a Viewer share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbglcnn.features.edits.bends import Bend, Bends
from nbglcnn.features.edits.store import EditSnapshot, EditStore
from nbglcnn.graph import Array
from nbglcnn.plan.schema import Plan
from nbglcnn.transforms import Transform, check_not_function


class Editor:
    """Bends, injected and frozen values, undo and redo; `bends` is the sequence of all bends.

    `plan`, `apply` and `read_before_edits` are passed to the `store`; `check_open` raises if edits
    are no longer possible.
    """

    def __init__(
        self,
        plan: Callable[[], Plan],
        apply: Callable[[EditSnapshot], None],
        read_before_edits: Callable[[str], Array],
        check_open: Callable[[], None],
    ) -> None:
        self._check_open = check_open
        self._read_before_edits = read_before_edits
        self.store = EditStore(plan, apply, read_before_edits)
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
        """Bend a value after its existing bends; return the Bend."""
        self._check_open()
        check_not_function(transform)
        edit = self.store.add_bend(layer, transform, channels, mix, name, enabled)
        return self.bends[edit.name]

    def inject(self, layer: str, array: Any, *, channels: Any = None) -> None:
        """Replace a value, or some of its channels, by an array."""
        self._check_open()
        self.store.add_injection(layer, array, channels)

    def freeze(self, layer: str) -> None:
        """Freeze a value at its current state, before its bends."""
        self._check_open()
        self.store.add_injection(layer, self._read_before_edits(layer), frozen=True)

    def release(self, layer: str) -> None:
        """Remove the injected or frozen array of a value."""
        self._check_open()
        self.store.remove_injection(layer)

    def undo(self) -> bool:
        """Undo the last change of the edits; return whether there was one."""
        return self.store.undo()

    def redo(self) -> bool:
        """Redo the last undone change; return whether there was one."""
        return self.store.redo()
