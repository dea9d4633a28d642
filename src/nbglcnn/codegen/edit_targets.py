"""The edit targets of a Plan: the kept value that a node reads, if several keys share a tensor.

An edit of a key acts where a forward hook on that module would. If a module and its last layer
share a value, the inner module's hook runs first; readers inside the outer module see the value
before the outer module's hook. A view (a Flatten beside a skip) includes the edits of its source,
not the reverse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from nbglcnn.graph import Graph, Node, ValueKey, call_return_order, is_inside_call
from nbglcnn.plan import schema as p

MODEL_RETURN_ORDER = (math.inf,)  # when a model without submodules returns


class EditTargets:
    """The keys that a Plan keeps, by number, in the order in which their hooks would run."""

    def __init__(self, graph: Graph, keys: Sequence[ValueKey]) -> None:
        self._graph = graph
        self._keys = keys
        self._views: dict[str, tuple[str, Node | None]] = {}
        self._keys_of_value: dict[str, list[int]] = {}
        for number, key in enumerate(keys):
            self._keys_of_value.setdefault(key.value_name, []).append(number)
        # Inner modules' hooks run first, the model's own last.
        return_positions = call_return_order(graph)
        for group in self._keys_of_value.values():
            group.sort(
                key=lambda number: return_positions.get(
                    keys[number].module_call, MODEL_RETURN_ORDER
                )
            )

    def value_name(self, key_index: int) -> str:
        """Return the Graph's value that a kept key names."""
        return self._keys[key_index].value_name

    def add_view(self, value: str, source: str, node: Node | None) -> None:
        """Record that a node returns the texture of `source` as `value`."""
        self._views[value] = source, node

    def applicable_key_index(self, node: Node | None, value: str) -> int:
        """Return the last key whose edits apply to a value when a node reads it, or -1."""
        while value:
            for number in reversed(self._keys_of_value.get(value, ())):
                if not self._is_inside_key_call(node, number):
                    return number
            value, node = self._views.get(value, ("", None))
        return -1

    def preceding_key_index(self, key_index: int) -> int:
        """Return the key whose edits apply to the value before this key's, or -1."""
        value = self.value_name(key_index)
        before = self._keys_of_value[value][: self._keys_of_value[value].index(key_index)]
        if self._keys[key_index].kind == "output":  # two outputs don't precede each other
            before = [one for one in before if self._keys[one].kind != "output"]
        if before:
            return before[-1]
        source, node = self._views.get(value, ("", None))
        return self.applicable_key_index(node, source)

    def _is_inside_key_call(self, node: Node | None, key_index: int) -> bool:
        key = self._keys[key_index]
        if node is None or key.kind == "input":
            return False
        if key.kind == "output":
            # Nodes of an ONNX file may read an output under its own name.
            return self._graph.framework != "onnx" or len(self._keys_of_value[key.value_name]) > 1
        return is_inside_call(self._graph, node, key)


def filter_shared_edits(values: Sequence[p.Value]) -> list[p.Value]:
    """Drop `shares_edits_of` for values whose channels differ from those of the other value."""
    channels = {value.key: value.nchw[1] for value in values}
    return [
        msgspec.structs.replace(value, shares_edits_of="")
        if value.shares_edits_of
        and (channels.get(value.shares_edits_of) != value.nchw[1] or value.edit_pass < -1)
        else value
        for value in values
    ]
