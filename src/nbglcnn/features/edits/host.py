"""The edits of a Viewer: Python and pages change them, and share one undo stack."""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import traitlets

from nbglcnn import protocol
from nbglcnn.errors import InputError, users_line
from nbglcnn.features.edits import records, weights
from nbglcnn.features.edits.editor import Editor
from nbglcnn.features.edits.messages import MESSAGES, SetWeight
from nbglcnn.features.edits.store import EditState
from nbglcnn.features.feature import Feature, Host

NO_EDITS: Mapping[str, Any] = {"edits": [], "weights": 0}


class EditsHost:
    """Holds the edits of a Viewer's values and of its weights."""

    messages = MESSAGES

    def __init__(self, host: Host) -> None:
        self._host = host
        self._network = host.network
        this = weakref.ref(self)  # a Bend that a user keeps must not keep the Viewer alive

        def own() -> EditsHost:
            found = this()
            if found is None:
                raise InputError("the Viewer is gone")
            return found

        self.editor = Editor(
            plan=lambda: own()._network.plan,
            apply=lambda state: own()._apply(state),
            value=lambda layer: own()._host.unbent(layer),
            check_open=lambda: own()._host.check_open(),
        )
        self.store = self.editor.store
        self.store.listeners.append(lambda: own()._tell())
        self._weights = weights.WeightLog(self._network, host.show_patches)
        self._planned = self._network.plan.hash
        self._offered: frozenset[str] = frozenset()
        self.offers = Feature(
            "edits",
            traits={
                "_edits": traitlets.Dict(dict(NO_EDITS)).tag(sync=True),
                "_history": traitlets.Dict({"past": [], "future": []}).tag(sync=True),
            },
            shared=("_edits", "_history"),
            take=self._take,
            messages={SetWeight: self._take_weight},
            plan_changed=self.fit_plan,
            weights_replaced=self.forget_weights,
            first_example=self.store.take_first,
        )

    # Weights

    def set_weight(self, name: str, index: Any, values: Any, step: str = "") -> None:
        """Put other numbers at `index` of a parameter; those of one `step` are undone together."""
        # Each drag has a step name of its own: a change of that name joins it at any time.
        if self.store.joins(step, math.inf) and self._weights.replace(name, index, values):
            return
        count = self._weights.add(name, index, values)
        try:
            self.store.set_weights(count, step, math.inf)
        except BaseException:
            self._weights.drop()
            raise

    def forget_weights(self) -> None:
        """Other weights were loaded: what was set before can't be undone any more."""
        told = (self._host.get("_edits") or NO_EDITS)["weights"]
        if self._weights.made or self.store.now.weights or told:
            self._weights.clear()
            self.store.forget_weights()
        self._weights.clear()

    def _take_weight(self, message: SetWeight, _: Sequence[bytes]) -> None:
        """Set what a page asks for."""
        try:
            name = self._network.graph.parameters[message.name]
            shape = self._network.graph.shape(name)
            index = weights.run_of(shape, message.index, len(message.values))
            step = f"{message.page} {message.step}"
            self.set_weight(message.name, index, message.values, step)
        except (InputError, KeyError) as error:
            protocol.warn_once(f"ignored the page's edit of a weight: {error}")

    # Both ways

    def _apply(self, state: EditState) -> None:
        """Make a state's edits and weights those of the network; raises where it can't be."""
        before = self._weights.made
        self._weights.go(state.weights)
        try:
            self._network.edit(state.edits, self.store.arrays)
        except BaseException:
            self._weights.go(before)
            raise

    def _tell(self) -> None:
        """Bring the pages up to date with the store: the arrays first, then what uses them."""
        used = self.store.used_arrays()
        self._network.injected = used
        if self._offered != used.keys():
            self._offered = frozenset(used)
            self._host.show()
        store = self.store
        self._host.set(
            _edits=_words(store.now),
            _history={
                "past": [_words(one) for one in store.past],
                "future": [_words(one) for one in store.future],
            },
        )
        self._host.edits_changed()

    def _take(self) -> None:
        """Take edits from a page, which has not checked them; invalid ones bring the old back."""
        try:
            now = _state_of(self._host.get("_edits"))
            history = self._host.get("_history")
            past, future = (
                [_state_of(one) for one in history.get(part, [])] for part in ("past", "future")
            )
            # As JSON has them, and not only equal.
            same = (past, future) == (self.store.past, self.store.future)
            if same:  # not a step: of a drag, from which weights set meanwhile don't follow
                now = EditState(now.edits, self.store.now.weights)
            self.store.restore(now, past, future)
        except (InputError, KeyError, AttributeError, TypeError) as error:
            protocol.warn_once(f"ignored the page's edits: {error}")
            self._tell()

    def fit_plan(self) -> None:
        """Remove edits that don't fit the network's Plan, with a warning, where it is another."""
        if self._planned == self._network.plan.hash:
            return
        self._planned = self._network.plan.hash
        problems = self.store.again()
        if problems:
            warnings.warn(
                f"{len(problems)} edits don't fit the network as it is compiled now and were "
                f"taken away: {'; '.join(problems)}",
                UserWarning,
                stacklevel=users_line(),
            )


def _words(state: EditState) -> dict[str, Any]:
    return {"edits": records.to_dict(state.edits), "weights": state.weights}


def _state_of(words: Mapping[str, Any]) -> EditState:
    """The inverse, of what a page says."""
    count = words["weights"]
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise InputError(f"{count!r} is no number of edits")
    try:
        return EditState(records.from_dict(words["edits"]), count)
    except (RecursionError, msgspec.ValidationError) as error:
        raise InputError(str(error)) from None
