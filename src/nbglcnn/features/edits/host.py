"""The host of a Viewer's edits: Python and pages change them and share one undo stack."""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import traitlets

from nbglcnn import protocol
from nbglcnn.errors import InputError, user_stacklevel
from nbglcnn.features.edits import records, weight_log
from nbglcnn.features.edits.editor import Editor
from nbglcnn.features.edits.messages import MESSAGES, SetWeight
from nbglcnn.features.edits.store import EditSnapshot
from nbglcnn.features.feature import Feature, ViewerHost

EMPTY_EDITS: Mapping[str, Any] = {"edits": [], "weights": 0}


class EditsHost:
    """The edits of a Viewer's values and of its weights."""

    message_types = MESSAGES

    def __init__(self, host: ViewerHost) -> None:
        self._host = host
        self._network = host.network
        this = weakref.ref(self)  # a Bend that the user keeps must not keep the Viewer alive

        def own() -> EditsHost:
            found = this()
            if found is None:
                raise InputError("the Viewer was closed or deleted")
            return found

        self.editor = Editor(
            plan=lambda: own()._network.plan,
            apply=lambda state: own()._apply_snapshot(state),
            read_before_edits=lambda layer: own()._host.read_before_edits(layer),
            check_open=lambda: own()._host.check_open(),
        )
        self.store = self.editor.store
        self.store.listeners.append(lambda: own()._publish())
        self._weight_log = weight_log.WeightLog(self._network, host.send_patches)
        self._plan_hash = self._network.plan.hash
        self._published_arrays: frozenset[str] = frozenset()
        self.feature = Feature(
            "edits",
            traits={
                "_edits": traitlets.Dict(dict(EMPTY_EDITS)).tag(sync=True),
                "_history": traitlets.Dict({"past": [], "future": []}).tag(sync=True),
            },
            page_writable_traits=("_edits", "_history"),
            on_traits_changed=self._handle_traits,
            message_handlers={SetWeight: self._handle_set_weight},
            on_plan_changed=self.remove_unfit_edits,
            on_weights_replaced=self.clear_weight_edits,
            on_batch_reduced=self.store.reduce_to_one_example,
        )

    # Weights

    def set_weight(self, name: str, index: Any, values: Any, undo_step: str = "") -> None:
        """Write numbers at `index` of a parameter; one undo takes back one `undo_step`."""
        # Each drag has a unique step name, so a change of that name joins the step at any time.
        if self.store.try_extend_last_step(undo_step, math.inf) and self._weight_log.replace(
            name, index, values
        ):
            return
        count = self._weight_log.add(name, index, values)
        try:
            self.store.set_weight_edit_count(count, undo_step, math.inf)
        except BaseException:
            self._weight_log.discard_unapplied()
            raise

    def clear_weight_edits(self) -> None:
        """Clear the weights' undo history, because other weights were loaded."""
        published_weight_count = (self._host.get_trait("_edits") or EMPTY_EDITS)["weights"]
        if (
            self._weight_log.applied_count
            or self.store.current.weight_edit_count
            or published_weight_count
        ):
            self._weight_log.clear()
            self.store.clear_weight_edits()
        self._weight_log.clear()

    def _handle_set_weight(self, message: SetWeight, _: Sequence[bytes]) -> None:
        """Apply a weight edit of a page."""
        try:
            name = self._network.graph.parameters[message.name]
            shape = self._network.graph.shape(name)
            index = weight_log.unravel_range(shape, message.index, len(message.values))
            step = f"{message.page} {message.step}"
            self.set_weight(message.name, index, message.values, step)
        except (InputError, KeyError) as error:
            protocol.warn_once(f"ignored a weight edit of the page: {error}")

    # Values and weights together

    def _apply_snapshot(self, state: EditSnapshot) -> None:
        """Apply a snapshot's edits and weights to the network; if this raises, nothing changes."""
        before = self._weight_log.applied_count
        self._weight_log.set_applied_count(state.weight_edit_count)
        try:
            self._network.set_edits(state.edits, self.store.arrays)
        except BaseException:
            self._weight_log.set_applied_count(before)
            raise

    def _publish(self) -> None:
        """Send the store to the pages: arrays first, then the edits that use them."""
        used = self.store.prune_unused_arrays()
        self._network.injected = used
        if self._published_arrays != used.keys():
            self._published_arrays = frozenset(used)
            self._host.update_pages()
        store = self.store
        self._host.set_traits(
            _edits=_snapshot_to_dict(store.current),
            _history={
                "past": [_snapshot_to_dict(one) for one in store.undo_stack],
                "future": [_snapshot_to_dict(one) for one in store.redo_stack],
            },
        )
        self._host.notify_edits_changed()

    def _handle_traits(self) -> None:
        """Apply edits from a page after validation; if they are invalid, send the old ones back."""
        try:
            now = _snapshot_from_dict(self._host.get_trait("_edits"))
            history = self._host.get_trait("_history")
            past, future = (
                [_snapshot_from_dict(one) for one in history.get(part, [])]
                for part in ("past", "future")
            )
            # Equal as parsed from JSON, not only by value.
            same = (past, future) == (self.store.undo_stack, self.store.redo_stack)
            if same:  # not an undo step: during a drag the page's weight count may be old
                now = EditSnapshot(now.edits, self.store.current.weight_edit_count)
            self.store.restore(now, past, future)
        except (InputError, KeyError, AttributeError, TypeError) as error:
            protocol.warn_once(f"ignored the page's edits: {error}")
            self._publish()

    def remove_unfit_edits(self) -> None:
        """If the Plan has changed, remove edits that don't fit it, with a warning."""
        if self._plan_hash == self._network.plan.hash:
            return
        self._plan_hash = self._network.plan.hash
        problems = self.store.reapply()
        if problems:
            warnings.warn(
                f"{len(problems)} edits don't fit the compiled network and were removed: "
                f"{'; '.join(problems)}",
                UserWarning,
                stacklevel=user_stacklevel(),
            )


def _snapshot_to_dict(state: EditSnapshot) -> dict[str, Any]:
    return {"edits": records.edits_to_dicts(state.edits), "weights": state.weight_edit_count}


def _snapshot_from_dict(data: Mapping[str, Any]) -> EditSnapshot:
    """Parse an EditSnapshot that a page has sent."""
    count = data["weights"]
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise InputError(f"{count!r} is not a valid number of edits")
    try:
        return EditSnapshot(records.edits_from_dicts(data["edits"]), count)
    except (RecursionError, msgspec.ValidationError) as error:
        raise InputError(str(error)) from None
