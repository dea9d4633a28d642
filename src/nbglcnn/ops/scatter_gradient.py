"""Gradients of scatters: each update reads the position to which it was written."""

from __future__ import annotations

from collections.abc import Sequence

from nbglcnn.graph import Attribute, Node
from nbglcnn.ops.gradient_builder import GradientBuilder
from nbglcnn.ops.operator import axis_of, string_attr


class _ScatterTarget:
    """Helper that reads and writes a tensor at a scatter's indices."""

    def __init__(self, rules: GradientBuilder, node: Node) -> None:
        self.rules, self.node = rules, node
        self.options: dict[str, Attribute] = {}
        if node.op == "ScatterElements":
            self.options["axis"] = axis_of(rules, node, 0)

    def read(self, a: str) -> str:
        """Read the element at the index of each update."""
        read = "GatherND" if self.node.op == "ScatterND" else "GatherElements"
        return self.rules.add_node_like(read, (a, self.node.inputs[1]), self.options)

    def write(self, a: str, updates: str, reduction: str = "none") -> str:
        """Return the tensor with updates written at the indices."""
        inputs, options = (
            (a, self.node.inputs[1], updates),
            {**self.options, "reduction": reduction},
        )
        return self.rules.add_node_like(self.node.op, inputs, options)


def scatter(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """ScatterElements and ScatterND, like PyTorch's scatter, scatter_add and scatter_reduce."""
    data, _, updates = node.inputs
    places, reduction = _ScatterTarget(rules, node), string_attr(node, "reduction", "none")
    if reduction == "mul":
        of_data, of_updates = _product_gradient(places, dy[0])
    elif reduction in ("max", "min"):
        of_data, of_updates = _max_min_gradient(places, dy[0])
    else:
        of_data = dy[0] if rules.needs_gradient(data) else ""
        if of_data and reduction == "none":
            zeros = rules.full(rules.shape(updates), 0)
            of_data = places.write(dy[0], zeros)
        of_updates = places.read(dy[0]) if rules.needs_gradient(updates) else ""
    return [of_data, "", of_updates]


def _max_min_gradient(places: _ScatterTarget, dy: str) -> tuple[str, str]:
    """All elements equal to the maximum or minimum share the gradient equally."""
    rules, (data, _, updates), y = places.rules, places.node.inputs, places.node.outputs[0]
    mine, theirs = (
        rules.apply_glsl(_IS_EQUAL, a, b) for a, b in ((data, y), (updates, places.read(y)))
    )
    share = rules.divide(dy, places.write(mine, theirs, "add"))
    of_updates = ""
    if rules.needs_gradient(updates):
        of_updates = rules.apply_glsl(_WHERE_NONZERO, places.read(share), theirs)
    return rules.apply_glsl(_WHERE_NONZERO, share, mine), of_updates


def _product_gradient(places: _ScatterTarget, dy: str) -> tuple[str, str]:
    """The product of the other elements: divide by the element, with 0 replaced by 1."""
    rules, (data, _, updates), y = places.rules, places.node.inputs, places.node.outputs[0]
    of_data = of_updates = ""
    if rules.needs_gradient(data):
        filled = rules.apply_glsl(_ZERO_TO_ONE, data)
        others = rules.divide(places.write(filled, updates, "mul"), filled)
        of_data = rules.multiply(dy, others)
    if rules.needs_gradient(updates):
        zero, none = rules.apply_glsl(_IS_ZERO, updates), rules.full(rules.shape(data), 0)
        alone = rules.apply_glsl(_IS_ONLY_ZERO, zero, places.read(places.write(none, zero, "add")))
        without = places.write(data, rules.apply_glsl(_ONE_WHERE, updates, alone), "mul")
        divided = rules.divide(places.read(y), rules.apply_glsl(_ZERO_TO_ONE, updates))
        others = rules.apply_glsl(_SELECT_WHERE, alone, places.read(without), divided)
        of_updates = rules.multiply(places.read(dy), others)
    return of_data, of_updates


_IS_EQUAL = "return select(equal(a, b), vec4(1.0), vec4(0.0));"
_WHERE_NONZERO = "return select(equal(b, vec4(0.0)), vec4(0.0), a);"
_IS_ZERO = "return select(equal(a, vec4(0.0)), vec4(1.0), vec4(0.0));"
_ZERO_TO_ONE = "return select(equal(a, vec4(0.0)), vec4(1.0), a);"
_ONE_WHERE = "return select(equal(b, vec4(1.0)), vec4(1.0), a);"
_IS_ONLY_ZERO = "return select(equal(b, vec4(1.0)), a, vec4(0.0));"
_SELECT_WHERE = "return select(equal(a, vec4(1.0)), b, c);"
