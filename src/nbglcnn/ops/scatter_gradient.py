"""Gradients of scatters: each update reads the position to which it was written."""

from __future__ import annotations

from collections.abc import Sequence

from nbglcnn.graph import Attribute, Node
from nbglcnn.ops.gradient_builder import GradientBuilder
from nbglcnn.ops.operator import axis_of, string_attr


class _ScatterTarget:
    """Helper that reads and writes a tensor at a scatter's indices."""

    def __init__(self, builder: GradientBuilder, node: Node) -> None:
        self.builder, self.node = builder, node
        self.options: dict[str, Attribute] = {}
        if node.op == "ScatterElements":
            self.options["axis"] = axis_of(builder, node, 0)

    def read(self, a: str) -> str:
        """Read the element at the index of each update."""
        read = "GatherND" if self.node.op == "ScatterND" else "GatherElements"
        return self.builder.add_node_like(read, (a, self.node.inputs[1]), self.options)

    def write(self, a: str, updates: str, reduction: str = "none") -> str:
        """Return the tensor with updates written at the indices."""
        inputs, options = (
            (a, self.node.inputs[1], updates),
            {**self.options, "reduction": reduction},
        )
        return self.builder.add_node_like(self.node.op, inputs, options)


def scatter(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """ScatterElements and ScatterND, like PyTorch's scatter, scatter_add and scatter_reduce."""
    data, _, updates = node.inputs
    places, reduction = _ScatterTarget(builder, node), string_attr(node, "reduction", "none")
    if reduction == "mul":
        of_data, of_updates = _product_gradient(places, dy[0])
    elif reduction in ("max", "min"):
        of_data, of_updates = _max_min_gradient(places, dy[0])
    else:
        of_data = dy[0] if builder.needs_gradient(data) else ""
        if of_data and reduction == "none":
            zeros = builder.full(builder.shape(updates), 0)
            of_data = places.write(dy[0], zeros)
        of_updates = places.read(dy[0]) if builder.needs_gradient(updates) else ""
    return [of_data, "", of_updates]


def _max_min_gradient(target: _ScatterTarget, dy: str) -> tuple[str, str]:
    """All elements equal to the maximum or minimum share the gradient equally."""
    builder, (data, _, updates), y = target.builder, target.node.inputs, target.node.outputs[0]
    mine, theirs = (
        builder.apply_glsl(_IS_EQUAL_GLSL, a, b) for a, b in ((data, y), (updates, target.read(y)))
    )
    share = builder.divide(dy, target.write(mine, theirs, "add"))
    of_updates = ""
    if builder.needs_gradient(updates):
        of_updates = builder.apply_glsl(_WHERE_NONZERO_GLSL, target.read(share), theirs)
    return builder.apply_glsl(_WHERE_NONZERO_GLSL, share, mine), of_updates


def _product_gradient(target: _ScatterTarget, dy: str) -> tuple[str, str]:
    """The product of the other elements: divide by the element, with 0 replaced by 1."""
    builder, (data, _, updates), y = target.builder, target.node.inputs, target.node.outputs[0]
    of_data = of_updates = ""
    if builder.needs_gradient(data):
        filled = builder.apply_glsl(_ZERO_TO_ONE_GLSL, data)
        others = builder.divide(target.write(filled, updates, "mul"), filled)
        of_data = builder.multiply(dy, others)
    if builder.needs_gradient(updates):
        zero, none = (
            builder.apply_glsl(_IS_ZERO_GLSL, updates),
            builder.full(builder.shape(data), 0),
        )
        alone = builder.apply_glsl(
            _IS_ONLY_ZERO_GLSL, zero, target.read(target.write(none, zero, "add"))
        )
        without = target.write(data, builder.apply_glsl(_ONE_WHERE_GLSL, updates, alone), "mul")
        divided = builder.divide(target.read(y), builder.apply_glsl(_ZERO_TO_ONE_GLSL, updates))
        others = builder.apply_glsl(_SELECT_WHERE_GLSL, alone, target.read(without), divided)
        of_updates = builder.multiply(target.read(dy), others)
    return of_data, of_updates


_IS_EQUAL_GLSL = "return select(equal(a, b), vec4(1.0), vec4(0.0));"
_WHERE_NONZERO_GLSL = "return select(equal(b, vec4(0.0)), vec4(0.0), a);"
_IS_ZERO_GLSL = "return select(equal(a, vec4(0.0)), vec4(1.0), vec4(0.0));"
_ZERO_TO_ONE_GLSL = "return select(equal(a, vec4(0.0)), vec4(1.0), a);"
_ONE_WHERE_GLSL = "return select(equal(b, vec4(1.0)), vec4(1.0), a);"
_IS_ONLY_ZERO_GLSL = "return select(equal(b, vec4(1.0)), a, vec4(0.0));"
_SELECT_WHERE_GLSL = "return select(equal(a, vec4(1.0)), b, c);"
