"""The comparison of a Viewer of two networks, for its host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nbglcnn import load
from nbglcnn.errors import InputError, unknown_name_message
from nbglcnn.features.edits import weight_log
from nbglcnn.features.feature import Feature, ViewerHost
from nbglcnn.graph import Array
from nbglcnn.plan.schema import Comparison
from nbglcnn.protocol import Messages
from nbglcnn.report import Change, Report


@dataclass(frozen=True, slots=True)
class Difference:
    """The values of a layer in both networks of a comparison.

    Attributes:
        a: The value in A.
        b: The value in B.
        difference: B − A, as the GPU computed it.
    """

    a: Array
    b: Array
    difference: Array


class CompareHost:
    """The compared layers, their values and differences, and the weights of B."""

    message_types = Messages()  # pages send no messages of this feature

    def __init__(self, host: ViewerHost) -> None:
        self._host = host
        self._network = host.network
        model = host.network.loaded_model
        if not isinstance(model, load.ComparisonModel):
            raise TypeError(f"a comparison takes two models, not a {type(model).__name__}")
        self._a, self._b = model.sides
        self.feature = Feature("compare", list_views=lambda: {"compare": ""})

    @property
    def comparison(self) -> Comparison:
        """The comparison that the Plan describes."""
        return self._network.plan.header.comparison

    @property
    def matched(self) -> tuple[tuple[str, str], ...]:
        """Pairs of names in A and in B, in the order of A."""
        return tuple((pair.name, pair.b.removeprefix("B.")) for pair in self.comparison.pairs)

    @property
    def unmatched(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The layers of A, and of B, without a partner."""
        found = self.comparison
        return (
            tuple(key.removeprefix("A.") for key in found.only_a),
            tuple(key.removeprefix("B.") for key in found.only_b),
        )

    def read(
        self, names: Sequence[str] | None = None, timeout: float | None = None
    ) -> dict[str, Difference]:
        """Return the values and differences by names in A, of all layers if `names` is None.

        Raises KeyError for a name that isn't compared.
        """
        known = {pair.name: pair for pair in self.comparison.pairs}
        for name in names or ():
            if name not in known:
                raise KeyError(unknown_name_message(name, list(known)))
        pairs = [known[name] for name in (known if names is None else names)]
        keys = dict.fromkeys(key for pair in pairs for key in (pair.a, pair.b, pair.difference))
        arrays = self._host.reader.read(list(keys), timeout).arrays
        values = dict(zip(keys, arrays, strict=True))
        return {
            pair.name: Difference(values[pair.a], values[pair.b], values[pair.difference])
            for pair in pairs
        }

    def changes(self, timeout: float | None = None) -> Report[Change]:
        """Return the differences of each layer of B from A, over all examples."""
        compared = self.comparison
        [table] = self._host.reader.read([compared.table], timeout).arrays
        table = table.astype(np.float64)
        rows = []
        layers = {layer.name for layer in self._network.plan.layers}
        for pair in sorted(compared.pairs, key=lambda pair: pair.a not in layers):
            mean, most, own = table[:, 3 * pair.row : 3 * pair.row + 3].T
            change, size = float(mean.mean()), float(own.mean())
            relative = change / size if size else np.inf if change else 0.0
            worst = float(most.max())
            rows.append(Change(pair.name, worst, change, relative, worst == 0))
        names = frozenset(pair.name for pair in compared.pairs if pair.a in layers)
        return Report(tuple(rows), "are equal in A and B", names)

    def resolve_view(self, layer: str | int | None, view: str | None) -> tuple[str | None, Any]:
        """Return the view and the key for `show`: the Compare tab if a layer's name is passed."""
        compared = {pair.name: pair.difference for pair in self.comparison.pairs}
        if view in (None, "compare") and (layer is None or layer in compared):
            return "compare", None if layer is None else compared[str(layer)]
        return view, layer

    def merge_weights_of_b(self, state_dict: Mapping[str, Any]) -> dict[str, Any]:
        """Merge the current weights of A with those of a state_dict for B.

        Raises:
            InputError: If A and B share weights.
        """
        values = self._network.graph.parameters
        of_a = {value for name, value in values.items() if name.startswith("A.")}
        if any(name.startswith("B.") and value in of_a for name, value in values.items()):
            raise InputError(
                "A and B share their weights, so B's can't be replaced: compare(model, "
                "state_dict, x) gives B its own"
            )
        now = self._network.weights()
        names = [name.removeprefix("B.") for name in now if name.startswith("B.")]
        of_b = load.match_state_dict_names(state_dict, names)
        kept = {name: array for name, array in now.items() if name.startswith("A.")}
        return {**kept, **{f"B.{name}": array for name, array in of_b.items()}}

    def state_dict(self) -> dict[str, Any]:
        """Return the current parameters and buffers of B."""
        return weight_log.state_dict(self._b.model, self._network.graph, "B.")

    @property
    def summary(self) -> str:
        """A description of the comparison, for its repr."""
        layers = {layer.name for layer in self._network.plan.layers}
        pairs = sum(pair.a in layers for pair in self.comparison.pairs)
        count = f"{self._network.plan.layer_count} layers, {pairs} compared"
        return f"Comparison of {self._a.graph.name} (A) and {self._b.graph.name} (B): {count}"
