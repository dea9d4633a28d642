"""Gradients of operators that move elements: they are moved back."""

from __future__ import annotations

from collections.abc import Sequence

from nbglcnn.graph import Node
from nbglcnn.ops.operator import integers
from nbglcnn.ops.rules import Rules


def reshaped_back(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Reshape and its kin: the same elements in the input's shape."""
    back = rules.reshape(dy[0], rules.shape(node.inputs[0]))
    return [back, *[""] * (len(node.inputs) - 1)]


def transpose(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Transpose: the inverse permutation."""
    rank = len(rules.shape(node.inputs[0]))
    order = integers(node, "perm", range(rank)[::-1])
    return [rules.transpose(dy[0], tuple(order.index(axis) for axis in range(rank)))]


def expand(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Expand: what was repeated is summed."""
    return [rules.sum_to(dy[0], rules.shape(node.inputs[0])), ""]
