"""The edits of one network: the current ones, the undo stack, and the injected arrays."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from nbglcnn.channels import Channels
from nbglcnn.errors import InputError
from nbglcnn.features.edits.records import Edit, editable_value, validate_channels, validate_edits
from nbglcnn.features.edits.transforms import GLSL, INJECT
from nbglcnn.graph import Array
from nbglcnn.inputs.arrays import native_array
from nbglcnn.plan.schema import Plan, Value, content_hash
from nbglcnn.transforms import Transform

MAX_UNDO_STEPS = 50  # undo steps that are kept
COALESCE_S = 1.0  # seconds within which changes with one step name coalesce


@dataclass(frozen=True, slots=True)
class EditSnapshot:
    """A snapshot of the edits, and the number of weight edits that are applied."""

    edits: tuple[Edit, ...] = ()
    weight_edit_count: int = 0


class EditStore:
    """The edits of a network, with validation, undo and redo.

    `apply` is called with every new EditSnapshot before it becomes current; if it raises, the old
    one stays. `plan` returns the current Plan, `read_value` a key's value before its own edits.
    """

    def __init__(
        self,
        plan: Callable[[], Plan],
        apply: Callable[[EditSnapshot], None],
        read_value: Callable[[str], Array],
    ) -> None:
        self._get_plan = plan
        self._apply = apply
        self._get_value = read_value
        self.current = EditSnapshot()
        self.undo_stack: list[EditSnapshot] = []
        self.redo_stack: list[EditSnapshot] = []
        self.arrays: dict[str, Array] = {}
        self._last_step = ("", 0.0)
        self.listeners: list[Callable[[], None]] = []

    @property
    def plan(self) -> Plan:
        """The Plan whose values are edited."""
        return self._get_plan()

    @property
    def edits(self) -> tuple[Edit, ...]:
        """All current edits, in order."""
        return self.current.edits

    # Changes

    def set_edits(self, edits: Iterable[Edit], undo_step: str = "") -> None:
        """Replace the current edits, as a step that can be undone.

        Changes with the same `undo_step` within a second are undone together.
        """
        self._push_step(
            EditSnapshot(validate_edits(edits, self.plan), self.current.weight_edit_count),
            undo_step,
        )

    def set_weight_edit_count(
        self, count: int, undo_step: str = "", max_interval_s: float | None = None
    ) -> None:
        """Set the number of applied weight edits, as a step that can be undone."""
        self._push_step(EditSnapshot(self.current.edits, count), undo_step, max_interval_s)

    def try_extend_last_step(self, undo_step: str, max_interval_s: float | None = None) -> bool:
        """Whether a change coalesces with the last step; if so, update the step's time.

        `max_interval_s` is the most seconds since the last change; default: COALESCE_S.
        """
        last, at = self._last_step
        now = time.monotonic()
        found = (
            undo_step != ""
            and undo_step == last
            and now - at < (COALESCE_S if max_interval_s is None else max_interval_s)
        )
        if found:
            self._last_step = undo_step, now
        return found

    def _push_step(
        self, state: EditSnapshot, undo_step: str, max_interval_s: float | None = None
    ) -> None:
        if state == self.current:
            return
        before = self.current
        self._set_current(state)
        if not self.try_extend_last_step(undo_step, max_interval_s):
            self.undo_stack = [*self.undo_stack, before][-MAX_UNDO_STEPS:]
        self._last_step = undo_step, time.monotonic()
        self.redo_stack = []
        self._notify()

    def _set_current(self, state: EditSnapshot) -> None:
        for edit in state.edits:
            self._check_array(edit)
        self._apply(state)
        self.current = state

    def _check_array(self, edit: Edit) -> None:
        if edit.transform != INJECT:
            return
        n, c, h, w = editable_value(self.plan, edit.layer).nchw
        count = c if edit.channels is None else len(edit.channels)
        array = self.arrays.get(edit.array_hash)
        if array is None:
            raise InputError(f"inject into {edit.layer}: its array is no longer available")
        if array.size != n * count * h * w:
            raise InputError(
                f"inject into {edit.layer}: its array of shape {array.shape} does not have "
                f"{count} channels"
            )

    def _notify(self) -> None:
        for listener in self.listeners:
            listener()

    def undo(self) -> bool:
        """Undo the last step; return whether there was one."""
        return self._move_snapshot(self.undo_stack, self.redo_stack)

    def redo(self) -> bool:
        """Redo the last undone step; return whether there was one."""
        return self._move_snapshot(self.redo_stack, self.undo_stack)

    def _move_snapshot(self, source: list[EditSnapshot], target: list[EditSnapshot]) -> bool:
        if not source:
            return False
        before = self.current
        state = source[-1]
        self._set_current(
            EditSnapshot(validate_edits(state.edits, self.plan), state.weight_edit_count)
        )
        source.pop()
        target.append(before)
        self._last_step = "", 0.0
        self._notify()
        return True

    def restore(
        self,
        current: EditSnapshot,
        undo_stack: Sequence[EditSnapshot] | None,
        redo_stack: Sequence[EditSnapshot] | None,
    ) -> None:
        """Replace the edits and history by a page's; InputError or KeyError if they are invalid."""
        current = EditSnapshot(validate_edits(current.edits, self.plan), current.weight_edit_count)
        if current != self.current:
            self._set_current(current)
        if undo_stack is not None and redo_stack is not None:
            self.undo_stack, self.redo_stack = (
                [*undo_stack][-MAX_UNDO_STEPS:],
                [*redo_stack][-MAX_UNDO_STEPS:],
            )
        self._last_step = "", 0.0
        self._notify()

    def reapply(self) -> list[str]:
        """Apply the edits again, after a change of the Plan.

        Edits that don't fit the new Plan are removed, from the current edits and the history.
        Returns the reasons for the current ones.
        """
        problems: list[str] = []
        now = self._without_unfit(self.current, problems)
        self.undo_stack = [self._without_unfit(one, []) for one in self.undo_stack]
        self.redo_stack = [self._without_unfit(one, []) for one in self.redo_stack]
        changed = now != self.current
        self._set_current(now)
        if changed:
            self._notify()
        return problems

    def reduce_to_one_example(self, batch_size: int) -> None:
        """Keep only the first example of every array with `batch_size` examples, in all snapshots.

        For a change to a Plan of one example; `reapply` applies the edits afterwards.
        """
        names: dict[str, str] = {}
        arrays: dict[str, Array] = {}
        for name, data in self.arrays.items():
            first = np.ascontiguousarray(data[:1]) if len(data) == batch_size else data
            names[name] = content_hash(first.data.cast("B"))
            arrays[names[name]] = first

        def renamed(state: EditSnapshot) -> EditSnapshot:
            edits = (
                msgspec.structs.replace(one, array_hash=names.get(one.array_hash, ""))
                for one in state.edits
            )
            return EditSnapshot(tuple(edits), state.weight_edit_count)

        self.arrays = arrays
        self.current = renamed(self.current)
        self.undo_stack = [renamed(one) for one in self.undo_stack]
        self.redo_stack = [renamed(one) for one in self.redo_stack]

    def _without_unfit(self, state: EditSnapshot, problems: list[str]) -> EditSnapshot:
        kept = []
        for edit in state.edits:
            try:
                validate_edits([edit], self.plan)
                self._check_array(edit)
            except (InputError, KeyError) as error:
                problems.append(f"{edit.name}: {error.args[0]}")
            else:
                kept.append(edit)
        return EditSnapshot(tuple(kept), state.weight_edit_count)

    def clear_weight_edits(self) -> None:
        """Remove the weight edits from all snapshots, because other weights were loaded."""
        states = [EditSnapshot(one.edits) for one in (*self.undo_stack, self.current)]
        steps = [one for one, next_ in pairwise(states) if one != next_]
        future = [EditSnapshot(one.edits) for one in self.redo_stack]
        self.undo_stack, self.redo_stack = steps, [one for one in future if one != states[-1]]
        self.current = states[-1]
        self._notify()

    # New edits

    def add_bend(
        self,
        layer: str,
        transform: Transform,
        channels: Any = None,
        mix: float = 1.0,
        name: str | None = None,
        enabled: bool = True,
    ) -> Edit:
        """Add a bend after all others; return its Edit."""
        if not isinstance(transform, Transform):
            raise InputError(
                f"bend: {transform!r} is not a transform; give one of nbglcnn.transforms, as in "
                f"bend({layer!r}, transforms.rotate(30))"
            )
        value = editable_value(self.plan, layer)
        edit = Edit(
            layer=layer,
            name=self._unique_name(name, transform.name),
            transform=transform.name,
            parameters=tuple(transform.parameters.values()),
            channels=self.resolve_channels(value, channels),
            mix=mix,
            enabled=bool(enabled),
            source=transform.source,
            parameter_names=tuple(transform.parameters) if transform.name == GLSL else (),
        )
        self.set_edits((*self.edits, edit))
        return edit

    def add_injection(
        self, layer: str, array: Any, channels: Any = None, *, frozen: bool = False
    ) -> Edit:
        """Replace a layer's values, or some channels', by an array, before its bends."""
        value = editable_value(self.plan, layer)
        own = self.resolve_channels(value, channels)
        data = fit_array(array, value.shape, value.nchw, own, layer)
        name = content_hash(data.data.cast("B"))
        self.arrays[name] = data
        edit = Edit(
            layer=layer,
            name=self._unique_name(None, "freeze" if frozen else INJECT),
            transform=INJECT,
            channels=own,
            array_hash=name,
            is_frozen=frozen,
        )
        # Before the layer's bends, which apply to it; of several injections the last one wins.
        others = [one for one in self.edits if not _replaces_injection(edit, one)]
        first = next(
            (k for k, one in enumerate(others) if one.layer == layer and one.transform != INJECT),
            len(others),
        )
        self.set_edits((*others[:first], edit, *others[first:]))
        return edit

    def remove_injection(self, layer: str) -> None:
        """Remove the injected or frozen arrays of a layer."""
        editable_value(self.plan, layer)
        self.set_edits(e for e in self.edits if e.layer != layer or e.transform != INJECT)

    def resolve_channels(self, value: Value, channels: Any) -> tuple[int, ...] | None:
        """Return the channel numbers for a `channels` argument; None means all."""

        def numbers() -> Array:
            return self._get_value(value.key).reshape(value.nchw)

        return validate_channels(parse_channels(channels, value.nchw[1], numbers), value)

    def _unique_name(self, name: str | None, base_name: str) -> str:
        taken = {one.name for one in self.edits}
        if name is not None:
            if not isinstance(name, str) or not name or len(name) > 100:
                raise InputError(f"bend: name={name!r}: expected a string of 1 to 100 characters")
            if name in taken:
                raise InputError(f"a bend named {name!r} already exists; give another name")
            return name
        number, free = 1, base_name
        while free in taken:
            number += 1
            free = f"{base_name}-{number}"
        return free

    def prune_unused_arrays(self) -> Mapping[str, Array]:
        """Return the arrays that current or undoable edits inject, and drop all others."""
        states = (self.current, *self.undo_stack, *self.redo_stack)
        names = {edit.array_hash for state in states for edit in state.edits if edit.array_hash}
        self.arrays = {name: data for name, data in self.arrays.items() if name in names}
        return self.arrays


def _replaces_injection(new: Edit, old: Edit) -> bool:
    """Whether an injected array replaces an older one completely."""
    if old.layer != new.layer or old.transform != INJECT:
        return False
    return new.channels is None or (
        old.channels is not None and set(old.channels) <= set(new.channels)
    )


def parse_channels(channels: Any, channel_count: int, read_value: Callable[[], Array]) -> Any:
    """Parse a `channels` argument: a number, a slice, an iterable, or one of nbglcnn.channels.

    `read_value` returns the layer's value, for rules that depend on it.
    """
    if isinstance(channels, Channels):
        return channels.numbers(channel_count, read_value)
    if isinstance(channels, slice):
        return range(*channels.indices(channel_count))
    if hasattr(channels, "__index__") and not isinstance(channels, bool):
        return [channels]
    if isinstance(channels, str):
        raise InputError(f"channels={channels!r}: expected channel indices or a slice")
    if channels is not None and not isinstance(channels, Iterable):
        raise InputError(
            f"channels={channels!r}: expected channel indices, a slice, one of nbglcnn.channels, "
            "or None for all"
        )
    return channels


def fit_array(
    array: Any,
    shape: tuple[int, ...],
    nchw_shape: tuple[int, int, int, int],
    channels: tuple[int, ...] | None,
    layer: str,
) -> Array:
    """Convert an array to inject to float32 (n, channels, h, w); one example is broadcast."""
    if hasattr(array, "detach"):
        array = array.detach().cpu().numpy()
    data = native_array(array, f"inject into {layer}")
    if data.dtype.kind not in "fiub":
        raise InputError(f"inject into {layer}: expected numbers, not {data.dtype}")
    n, c, h, w = nchw_shape
    count = c if channels is None else len(channels)
    wanted = shape if channels is None else (n, count, h, w)
    for own in (data, data[None]):
        if own.shape == wanted or own.shape == (n, count, h, w):
            break
        if own.shape == (1, *wanted[1:]) or own.shape == (1, count, h, w):
            own = np.broadcast_to(own.reshape(1, count, h, w), (n, count, h, w))
            break
    else:
        raise InputError(
            f"inject into {layer}: expected an array of shape {wanted}, or of one example; got "
            f"{data.shape}"
        )
    return np.ascontiguousarray(own, np.float32).reshape(n, count, h, w)
