"""What a Session and a Viewer have in common: the calls that edit their networks' values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbglcnn.features.edits.bends import Bend, Bends
from nbglcnn.features.edits.records import Edit
from nbglcnn.features.edits.store import EditState, Store
from nbglcnn.graph import Array
from nbglcnn.plan.schema import Plan
from nbglcnn.transforms import Transform, check_called


class Editable:
    """Bends, injected and frozen values, and the way back; `bends` is the sequence of all bends."""

    bends: Bends
    _store: Store

    def _begin_edits(
        self,
        plan: Callable[[], Plan],
        apply: Callable[[EditState], None],
        value: Callable[[str], Array],
    ) -> None:
        """The arguments are those of the Store."""
        self._value_before = value
        self._store = Store(plan, apply, value)
        self.bends = Bends(self._store)

    def _check_open(self) -> None:
        """Raise where nothing can be edited any more."""
        raise NotImplementedError

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All that is edited now, as data: bends and what is injected, in order."""
        return self._store.edits

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
        """Bend a layer's value, or an input, behind the bends that it has; the live Bend.

        `layer` is the key of a value, which bends act on where a forward hook of that module would.
        `channels` are numbers, a slice, or what `nbglcnn.channels` gives; None for all. `mix` goes
        from 0 (unbent) to 1. `transform` is one of `nbglcnn.transforms`. A Session bends it from
        its next run on, a Viewer at once.

        Raises:
            KeyError: there is no such value, or the Plan doesn't keep it.
            InputError: it cannot be edited (integers, constants), a channel isn't there, or a
                number isn't finite; nothing is changed then.
        """
        self._check_open()
        check_called(transform)
        edit = self._store.bent(layer, transform, channels, mix, name, enabled)
        return self.bends[edit.name]

    def inject(self, layer: str, array: Any, *, channels: Any = None) -> None:
        """Put an array in the place of a layer's value, or of some channels', before its bends.

        `array` has the value's shape, or that of one example; with `channels` (n, channels, h, w).
        """
        self._check_open()
        self._store.injected(layer, array, channels)

    def freeze(self, layer: str) -> None:
        """Keep a layer's value, before its bends, as it is now: in a Session after the last run."""
        self._check_open()
        self._store.injected(layer, self._value_before(layer), frozen=True)

    def release(self, layer: str) -> None:
        """End what was injected into a layer, or frozen."""
        self._check_open()
        self._store.released(layer)

    def undo(self) -> bool:
        """Take the last change of the edits back; whether there was one."""
        return self._store.undo()

    def redo(self) -> bool:
        """Do again what was undone last; whether there was something."""
        return self._store.redo()
