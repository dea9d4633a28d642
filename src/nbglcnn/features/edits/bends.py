"""Bends as objects with their parameters as traits, and the sequence of a network's bends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, overload
from weakref import WeakValueDictionary

import msgspec
import traitlets

from nbglcnn.errors import InputError, suggest_names, unknown_name_message
from nbglcnn.features.edits import records
from nbglcnn.features.edits.records import Edit
from nbglcnn.features.edits.store import EditStore
from nbglcnn.features.edits.transforms import GLSL, INJECT, TRANSFORM_KINDS
from nbglcnn.transforms import Transform

COMMON_PARAMETERS = ("mix", "channels", "enabled")  # parameters of each bend
SEPARATELY_UNDONE_TRAITS = ("enabled", "channels")  # each change of these is a separate undo step


class Bend(traitlets.HasTraits):
    """An active bend, as `viewer.bend` and `session.bend` return it.

    The parameters of its transform are float traits, too: `bend.degrees = 45`. All traits can be
    set, observed and linked, for example with `ipywidgets.link`. An invalid value raises an
    InputError, and the bend doesn't change.

    Args:
        store: The edits that the bend belongs to.
        edit: The record of the bend.

    Attributes:
        mix: Trait. The weight of the transformed value, from 0 (unbent) to 1.
        enabled: Trait. Whether the bend is active.
        channels: Trait. The bent channels: a list of numbers, or None for all.
        removed: Whether the bend was removed.
    """

    mix = traitlets.Float(1.0)
    enabled = traitlets.Bool(True)
    channels: traitlets.TraitType[Any, Any] = traitlets.TraitType(None, allow_none=True)

    removed = False

    def __init__(self, store: EditStore, edit: Edit) -> None:
        super().__init__()
        self._store = store
        self._edit = edit
        self._ignore_changes = False
        self.update_traits(edit)
        self.observe(self._handle_change)

    def __setattr__(self, name: str, value: Any) -> None:
        # Without this check, Python would accept a misspelt parameter as a new attribute.
        if not name.startswith("_") and not hasattr(type(self), name):
            kind, own = (
                self._edit.transform,
                [*records.parameters_of(self._edit), *COMMON_PARAMETERS],
            )
            raise AttributeError(
                f"{kind} has no parameter {name!r}{suggest_names(name, own)}; it has "
                f"{', '.join(own)}"
            )
        super().__setattr__(name, value)

    @property
    def name(self) -> str:
        """The name of the bend in `viewer.bends`."""
        return self._edit.name

    @property
    def layer(self) -> str:
        """The key of the bent value."""
        return self._edit.layer

    @property
    def transform(self) -> Transform:
        """The transform with its current parameters."""
        return Transform(self._edit.transform, records.parameters_of(self._edit), self._edit.source)

    def remove(self) -> None:
        """Remove the bend. A second call does nothing."""
        if not self.removed:
            self._store.set_edits(one for one in self._store.edits if one.name != self.name)

    def reattach(self, store: EditStore, edit: Edit) -> None:
        """Make the bend active again after an undo.

        Args:
            store: The edits that the bend belongs to.
            edit: The record of the bend.
        """
        self._store, self.removed = store, False
        self.update_traits(edit)

    def mark_removed(self) -> None:
        """Mark the bend as removed and drop its reference to the edits."""
        self.removed = True
        del self._store

    def __repr__(self) -> str:
        edit = self._edit
        which = "" if edit.channels is None else f", channels={list(edit.channels)}"
        rest = f", mix={edit.mix:g}" if edit.mix != 1 else ""
        rest += "" if edit.enabled else ", enabled=False"
        end = " (removed)" if self.removed else ""
        return f"bend({edit.layer!r}, {self.transform!r}{which}{rest}, name={edit.name!r}){end}"

    def update_traits(self, edit: Edit) -> None:
        """Set the traits from a record.

        Args:
            edit: The record of the bend.
        """
        self._edit = edit
        numbers = records.parameters_of(edit)
        with self._ignoring_changes():
            for name, number in numbers.items():
                setattr(self, self._trait_name(name), number)
            self.mix, self.enabled = edit.mix, edit.enabled
            self.channels = None if edit.channels is None else list(edit.channels)

    @contextmanager
    def _ignoring_changes(self) -> Iterator[None]:
        before, self._ignore_changes = self._ignore_changes, True
        try:
            yield
        finally:
            self._ignore_changes = before

    @staticmethod
    def _trait_name(name: str) -> str:
        return name

    def _handle_change(self, change: Mapping[str, Any]) -> None:
        if self._ignore_changes:
            return
        name = change["name"]
        try:
            if self.removed:
                raise InputError(f"the bend {self.name!r} was removed; add another")
            self._store.set_edits(
                [self._updated_edit(name, change["new"]) if one.name == self.name else one
                 for one in self._store.edits],
                "" if name in SEPARATELY_UNDONE_TRAITS else f"{self.name} {name}",
            )  # fmt: skip
        except Exception:
            self.update_traits(self._edit)
            raise
        self.update_traits(next(one for one in self._store.edits if one.name == self.name))

    def _updated_edit(self, name: str, new: Any) -> Edit:
        edit = self._edit
        if name == "channels":
            [value] = [v for v in self._store.plan.values if v.key == edit.layer]
            own = self._store.resolve_channels(value, new)
            return msgspec.structs.replace(edit, channels=own)
        if name == "enabled":
            return msgspec.structs.replace(edit, enabled=new)
        # float(): a trait accepts a numpy number, a message doesn't.
        if name == "mix":
            return msgspec.structs.replace(edit, mix=float(new))
        numbers = {**records.parameters_of(edit), name: float(new)}
        return msgspec.structs.replace(edit, parameters=tuple(numbers.values()))


@cache
def _bend_class(transform: str, names: tuple[str, ...]) -> type[Bend]:
    """Return the class of a transform's bends, with the transform's parameters as traits."""
    traits = {name: traitlets.Float() for name in names}
    return type("Bend", (Bend,), {"__doc__": Bend.__doc__, "__module__": __name__, **traits})


def make_bend(store: EditStore, edit: Edit) -> Bend:
    """Create the Bend of an edit."""
    kind = TRANSFORM_KINDS.get(edit.transform)
    names = tuple(one.name for one in kind.parameters) if kind else edit.parameter_names
    return _bend_class(edit.transform, names)(store, edit)


class Bends(Sequence[Bend]):
    """The bends of a network in the order in which they apply, indexed by position or name.

    Args:
        store: The edits that the bends belong to.

    Example:
        >>> viewer.bends[0].enabled = False
    """

    def __init__(self, store: EditStore) -> None:
        self._store = store
        self._current_bends: dict[str, Bend] = {}
        # Removed bends that are still referenced; an undo reattaches them.
        self._removed_bends: WeakValueDictionary[str, Bend] = WeakValueDictionary()
        store.listeners.append(self._sync)

    @property
    def store(self) -> EditStore:
        """All edits, including injected values and their arrays."""
        return self._store

    def _sync(self) -> None:
        now = {one.name: one for one in self._store.edits if one.transform != INJECT}
        for name, bend in list(self._current_bends.items()):
            edit = now.get(name)
            if edit is None or not _is_same_bend(edit, bend._edit):
                bend.mark_removed()
                self._removed_bends[name] = self._current_bends.pop(name)
            else:
                bend.update_traits(edit)
        for name, bend in list(self._removed_bends.items()):
            if name in now and _is_same_bend(now[name], bend._edit):
                bend.reattach(self._store, now[name])
                self._current_bends[name] = self._removed_bends.pop(name)

    def _list_bends(self) -> list[Bend]:
        found = []
        for edit in self._store.edits:
            if edit.transform != INJECT:
                if edit.name not in self._current_bends:
                    self._current_bends[edit.name] = make_bend(self._store, edit)
                found.append(self._current_bends[edit.name])
        return found

    def __len__(self) -> int:
        return sum(edit.transform != INJECT for edit in self._store.edits)

    @overload
    def __getitem__(self, which: int | str) -> Bend: ...
    @overload
    def __getitem__(self, which: slice) -> list[Bend]: ...
    def __getitem__(self, which: int | str | slice) -> Bend | list[Bend]:
        found = self._list_bends()
        if isinstance(which, str):
            names = {bend.name: bend for bend in found}
            if which not in names:
                raise KeyError(unknown_name_message(which, list(names), "bend"))
            return names[which]
        return found[which]

    def clear(self) -> None:
        """Remove all bends. Injected values stay."""
        self._store.set_edits(one for one in self._store.edits if one.transform == INJECT)

    def to_dict(self) -> dict[str, Any]:
        """Return all bends as data for JSON, without injected and frozen values.

        Returns:
            A dict `{"bends": [...]}`, for `from_dict` and `apply_bends`.
        """
        edits = [one for one in self._store.edits if one.transform != INJECT]
        return {"bends": records.edits_to_dicts(edits)}

    def from_dict(self, data: Mapping[str, Any]) -> None:
        """Replace all bends by those of a dict.

        GLSL code is accepted only if this process has created it by `transforms.glsl`, so that a
        file cannot bring its own program.

        Args:
            data: The result of `to_dict`.

        Raises:
            InputError: If `data` is not such a dict, or a bend doesn't fit this network.
            KeyError: If a layer doesn't exist.
        """
        if not isinstance(data, Mapping) or set(data) != {"bends"}:
            raise InputError('from_dict: expected the dict of a to_dict(), {"bends": [...]}')
        edits = records.edits_from_dicts(data["bends"])
        for one in edits:
            if one.transform == INJECT:
                raise InputError("from_dict: bends can't contain arrays; use inject()")
            if one.transform == GLSL:
                records.check_trusted_glsl(one.source)
        kept = [one for one in self._store.edits if one.transform == INJECT]
        self._store.set_edits((*kept, *edits))

    def __repr__(self) -> str:
        return "\n".join(map(repr, self._list_bends())) or "no bends"


def _is_same_bend(one: Edit, other: Edit) -> bool:
    """Whether a Bend can represent this edit."""
    return (one.layer, one.transform, one.source, one.parameter_names) == (
        other.layer,
        other.transform,
        other.source,
        other.parameter_names,
    )
