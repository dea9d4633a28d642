"""Gradients of reductions: what was joined gets a share each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nbglcnn.graph import Node
from nbglcnn.ops.operator import Gradient, Shape
from nbglcnn.ops.rules import Rules

Axes = Callable[[Rules, Node], Sequence[int]]


def kept(shape: Shape, axes: Sequence[int]) -> Shape:
    """The shape with length 1 along some axes."""
    return tuple(1 if axis in axes else n for axis, n in enumerate(shape))


def spread(axes: Axes, *, mean: bool = False) -> Gradient:
    """ReduceSum and ReduceMean: the same for all that were joined."""

    def rule(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
        shape, joined = rules.shape(node.inputs[0]), axes(rules, node)
        found = rules.reshape(dy[0], kept(shape, joined))
        if mean:
            found = rules.scale(found, 1 / max(1, math.prod(shape[axis] for axis in joined)))
        return [rules.expand(found, shape), *[""] * (len(node.inputs) - 1)]

    return rule
