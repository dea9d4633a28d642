"""Gradients of scatters: updates read the places to which they were written."""

from __future__ import annotations

from collections.abc import Sequence

from nbglcnn.graph import Attribute, Node
from nbglcnn.ops.operator import axis_of, text
from nbglcnn.ops.rules import Rules


class _Places:
    """Reads and writes at a scatter's indices."""

    def __init__(self, rules: Rules, node: Node) -> None:
        self.rules, self.node = rules, node
        self.options: dict[str, Attribute] = {}
        if node.op == "ScatterElements":
            self.options["axis"] = axis_of(rules, node, 0)

    def read(self, a: str) -> str:
        """What is there, for each update."""
        read = "GatherND" if self.node.op == "ScatterND" else "GatherElements"
        return self.rules.like(read, (a, self.node.inputs[1]), self.options)

    def write(self, a: str, updates: str, reduction: str = "none") -> str:
        """The tensor with updates at these places."""
        inputs, options = (
            (a, self.node.inputs[1], updates),
            {**self.options, "reduction": reduction},
        )
        return self.rules.like(self.node.op, inputs, options)


def scatter(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """ScatterElements and ScatterND, as PyTorch's scatter, scatter_add and scatter_reduce."""
    data, _, updates = node.inputs
    places, reduction = _Places(rules, node), text(node, "reduction", "none")
    if reduction == "mul":
        of_data, of_updates = _of_product(places, dy[0])
    elif reduction in ("max", "min"):
        of_data, of_updates = _of_extreme(places, dy[0])
    else:
        of_data = dy[0] if rules.wants(data) else ""
        if of_data and reduction == "none":
            zeros = rules.filled(rules.shape(updates), 0)
            of_data = places.write(dy[0], zeros)
        of_updates = places.read(dy[0]) if rules.wants(updates) else ""
    return [of_data, "", of_updates]


def _of_extreme(places: _Places, dy: str) -> tuple[str, str]:
    """All that are equal to the largest or smallest have the same share."""
    rules, (data, _, updates), y = places.rules, places.node.inputs, places.node.outputs[0]
    mine, theirs = (rules.slope(_EQUAL, a, b) for a, b in ((data, y), (updates, places.read(y))))
    share = rules.divide(dy, places.write(mine, theirs, "add"))
    of_updates = ""
    if rules.wants(updates):
        of_updates = rules.slope(_WHERE, places.read(share), theirs)
    return rules.slope(_WHERE, share, mine), of_updates


def _of_product(places: _Places, dy: str) -> tuple[str, str]:
    """The product of all others: by division, and where an element is 0 as if that were 1."""
    rules, (data, _, updates), y = places.rules, places.node.inputs, places.node.outputs[0]
    of_data = of_updates = ""
    if rules.wants(data):
        filled = rules.slope(_FILLED, data)
        others = rules.divide(places.write(filled, updates, "mul"), filled)
        of_data = rules.multiply(dy, others)
    if rules.wants(updates):
        zero, none = rules.slope(_ZERO, updates), rules.filled(rules.shape(data), 0)
        alone = rules.slope(_ALONE, zero, places.read(places.write(none, zero, "add")))
        without = places.write(data, rules.slope(_OR_ONE, updates, alone), "mul")
        divided = rules.divide(places.read(y), rules.slope(_FILLED, updates))
        others = rules.slope(_CHOSEN, alone, places.read(without), divided)
        of_updates = rules.multiply(places.read(dy), others)
    return of_data, of_updates


_EQUAL = "return select(equal(a, b), vec4(1.0), vec4(0.0));"
_WHERE = "return select(equal(b, vec4(0.0)), vec4(0.0), a);"
_ZERO = "return select(equal(a, vec4(0.0)), vec4(1.0), vec4(0.0));"
_FILLED = "return select(equal(a, vec4(0.0)), vec4(1.0), a);"
_OR_ONE = "return select(equal(b, vec4(1.0)), vec4(1.0), a);"
_ALONE = "return select(equal(b, vec4(1.0)), a, vec4(0.0));"
_CHOSEN = "return select(equal(a, vec4(1.0)), b, c);"
