"""A Viewer's edits: what Python and pages change, kept the same in both, with one way back."""

from __future__ import annotations

import math
import os
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anywidget
import msgspec
import traitlets

from nbglcnn.errors import InputError, users_line
from nbglcnn.features.edits import records, weights
from nbglcnn.features.edits.editable import Editable
from nbglcnn.features.edits.store import EditState
from nbglcnn.graph import Array
from nbglcnn.plan.schema import Patch
from nbglcnn.widget import protocol
from nbglcnn.widget.connection import Connection
from nbglcnn.widget.network import Network

TOLD = ("_edits", "_history")  # what pages and Python tell each other


class Edited(Editable, anywidget.AnyWidget):
    """Mixin: the edits of a Viewer, which Python and its pages share."""

    network: Network
    unbent: Mapping[str, Array]
    _connection: Connection

    _edits: traitlets.Dict[str, Any] = traitlets.Dict({"edits": [], "weights": 0}).tag(sync=True)
    _history: traitlets.Dict[str, Any] = traitlets.Dict({"past": [], "future": []}).tag(sync=True)

    def _show(self) -> int:
        """Bring the pages up to date."""
        raise NotImplementedError

    def _show_patches(self, patches: Sequence[Patch]) -> None:
        """Bring them up to date by what has changed in the weights; anew where that is nothing."""
        raise NotImplementedError

    def _begin(self) -> None:
        """Before anything is edited, and before the traits are there."""
        this = weakref.ref(self)  # a Bend that somebody has kept holds no Viewer

        def viewer() -> Edited:
            found = this()
            if found is None:
                raise InputError("the Viewer is gone")
            return found

        self._begin_edits(
            plan=lambda: viewer().network.plan,
            apply=lambda state: viewer()._apply(state),
            value=lambda layer: viewer().unbent[layer],
        )
        self._store.listeners.append(lambda: viewer()._tell())
        self._weights = weights.WeightLog(
            self.network, lambda patches: viewer()._show_patches(patches)
        )
        self._planned = self.network.plan.hash
        self._offered: frozenset[str] = frozenset()
        self._telling = False

    # Weights

    def set_weight(self, name: str, index: Any, values: Any) -> None:
        """Put other numbers at `index` of a parameter, as numpy takes it; `undo` takes them back.

        One number is one small upload; nothing is compiled again.

        Raises:
            KeyError: there is no such parameter.
            InputError: the index or the numbers don't fit, or a number isn't finite.
        """
        self._check_open()
        self._set_weight(name, index, values)

    def state_dict(self) -> dict[str, Any]:
        """Every parameter and buffer as it is now, those set and loaded here included.

        Of a PyTorch model tensors, as `model.load_state_dict` takes them; else arrays, by the names
        of the ONNX file.
        """
        return weights.state_dict(self.network.model, self.network.graph)

    def to_onnx(self, path: str | os.PathLike[str]) -> Path:
        """Write an ONNX file of the model with the weights of now."""
        return weights.to_onnx(self.network.model, self.network.graph, path)

    def _set_weight(self, name: str, index: Any, values: Any, step: str = "") -> None:
        # A page names each drag's step anew: a change of it belongs to it, whenever it comes.
        if self._store.joins(step, math.inf) and self._weights.replace(name, index, values):
            return
        count = self._weights.add(name, index, values)
        try:
            self._store.set_weights(count, step, math.inf)
        except BaseException:
            self._weights.drop()
            raise

    def _weigh_for_pages(self) -> None:
        """Do what pages ask of the weights."""
        asked = self._connection.weighed
        while asked:
            one = asked.pop(0)
            try:
                name = self.network.graph.parameters[one.name]
                shape = self.network.graph.shape(name)
                index = weights.run_of(shape, one.index, len(one.values))
                self._set_weight(one.name, index, one.values, f"{one.page} {one.step}")
            except (InputError, KeyError) as error:
                protocol.warn_once(f"ignored the page's edit of a weight: {error}")

    # Both ways

    def _apply(self, state: EditState) -> None:
        """Make a state's edits and weights those of the network; raises where it can't be."""
        before = self._weights.made
        self._weights.go(state.weights)
        try:
            self.network.edit(state.edits, self._store.arrays)
        except BaseException:
            self._weights.go(before)
            raise

    def _tell(self) -> None:
        """Bring the pages up to date with the store: the arrays first, then what uses them."""
        used = self._store.used_arrays()
        self.network.injected = used
        if self._offered != used.keys():
            self._offered = frozenset(used)
            self._show()
        store = self._store
        with self._told_by_python():
            self._edits = _words(store.now)
            self._history = {
                "past": [_words(one) for one in store.past],
                "future": [_words(one) for one in store.future],
            }
        self._edits_changed()

    def _edits_changed(self) -> None:
        """For whoever follows them."""

    @contextmanager
    def _told_by_python(self) -> Iterator[None]:
        before, self._telling = self._telling, True
        try:
            with self.hold_sync():  # one message for both
                yield
        finally:
            self._telling = before

    @traitlets.observe(*TOLD)
    def _take(self, _: Any) -> None:
        """Take edits from a page, which has not checked them; invalid ones bring the old back."""
        if self._telling:
            return
        try:
            now = _state_of(self._edits)
            past, future = (
                [_state_of(one) for one in self._history.get(part, [])]
                for part in ("past", "future")
            )
            # As JSON has them, and not only equal.
            same = (past, future) == (self._store.past, self._store.future)
            if same:  # not a step: of a drag, from which weights set meanwhile don't follow
                now = EditState(now.edits, self._store.now.weights)
            self._store.restore(now, past, future)
        except (InputError, KeyError, AttributeError, TypeError) as error:
            protocol.warn_once(f"ignored the page's edits: {error}")
            self._tell()

    def _keep_edits(self) -> None:
        """The network may have another Plan: edits that don't fit it are left out, with a word."""
        if self._planned == self.network.plan.hash:
            return
        self._planned = self.network.plan.hash
        problems = self._store.again()
        if problems:
            warnings.warn(
                f"{len(problems)} edits don't fit the network as it is compiled now and were "
                f"taken away: {'; '.join(problems)}",
                UserWarning,
                stacklevel=users_line(),
            )

    def _forget_weights(self) -> None:
        """Other weights were loaded: what was set before can't be taken back any more."""
        if self._weights.made or self._store.now.weights or self._edits["weights"]:
            self._weights.clear()
            self._store.forget_weights()
        self._weights.clear()


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
