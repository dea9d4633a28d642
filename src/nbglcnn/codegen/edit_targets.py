"""Which kept value a node reads, where several keys name one tensor: what edits of them act on.

An edit of a key acts where a forward hook on that module would. Of the keys of one value, a module
and its last layer, the inner one's hook comes first; what reads the value inside the outer module
does so before the outer one's hook. A view (a Flatten beside a skip) has what is edited of its
source, not the reverse.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from nbglcnn.graph import Graph, Key, Node, is_inside_call, return_order
from nbglcnn.plan import schema as p

MODEL_RETURN = (math.inf,)  # when a model without modules of its own returns


class EditTargets:
    """Keys that a Plan keeps, by number, in the order in which their values are passed on."""

    def __init__(self, graph: Graph, keys: Sequence[Key]) -> None:
        self._graph = graph
        self._keys = keys
        self._views: dict[str, tuple[str, Node | None]] = {}
        self._keys_of_value: dict[str, list[int]] = {}
        for number, key in enumerate(keys):
            self._keys_of_value.setdefault(key.value, []).append(number)
        turns = return_order(graph)  # inner modules' hooks come first, the model's own last
        for group in self._keys_of_value.values():
            group.sort(key=lambda number: turns.get(keys[number].call, MODEL_RETURN))

    def value(self, number: int) -> str:
        """The Graph's value that a kept key names."""
        return self._keys[number].value

    def add_view(self, value: str, source: str, node: Node | None) -> None:
        """Say that a node passes on the texture of `view_of` as `value`."""
        self._views[value] = source, node

    def key_read_by(self, node: Node | None, value: str) -> int:
        """The last key that a value has passed when a node reads it; -1 where there is none."""
        while value:
            for number in reversed(self._keys_of_value.get(value, ())):
                if not self._is_inside(node, number):
                    return number
            value, node = self._views.get(value, ("", None))
        return -1

    def view_of(self, number: int) -> int:
        """The key that the value has passed before this one; -1 where there is none."""
        value = self.value(number)
        before = self._keys_of_value[value][: self._keys_of_value[value].index(number)]
        if self._keys[number].kind == "output":  # of two outputs neither has passed the other
            before = [one for one in before if self._keys[one].kind != "output"]
        if before:
            return before[-1]
        source, node = self._views.get(value, ("", None))
        return self.key_read_by(node, source)

    def _is_inside(self, node: Node | None, number: int) -> bool:
        key = self._keys[number]
        if node is None or key.kind == "input":
            return False
        if key.kind == "output":
            # An ONNX file's output may be read on, under that very name.
            return self._graph.source != "onnx" or len(self._keys_of_value[key.value]) > 1
        return is_inside_call(self._graph, node, key)


def filter_shared_edits(values: Sequence[p.Value]) -> list[p.Value]:
    """The values, of which one is edited as another only where both have the same channels."""
    channels = {value.key: value.nchw[1] for value in values}
    return [
        msgspec.structs.replace(value, shares_edits_of="")
        if value.shares_edits_of
        and (channels.get(value.shares_edits_of) != value.nchw[1] or value.edit_pass < -1)
        else value
        for value in values
    ]
