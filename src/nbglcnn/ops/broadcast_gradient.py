"""Gradients of functions of several tensors: what broadcasting has repeated is summed."""

from __future__ import annotations

from collections.abc import Sequence

from nbglcnn.graph import Node
from nbglcnn.ops.operator import Gradient
from nbglcnn.ops.rules import Rules


def each(*glsl: str) -> Gradient:
    """A rule of an operator of two tensors: `glsl` returns the gradient of each, of `a`, `b`, `c`.

    a and b are the inputs, c is the gradient of the output.
    """

    def rule(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
        return [
            rules.sum_to(rules.slope(one, *node.inputs, dy[0]), rules.shape(name))
            if rules.wants(name)
            else ""
            for name, one in zip(node.inputs, glsl, strict=True)
        ]

    return rule


def add(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Add and Sum: all inputs have the output's."""
    return [
        rules.sum_to(dy[0], rules.shape(name)) if rules.wants(name) else "" for name in node.inputs
    ]


def subtract(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Sub: the second has its negative."""
    a, b = node.inputs
    return [
        rules.sum_to(dy[0], rules.shape(a)) if rules.wants(a) else "",
        rules.negative(rules.sum_to(dy[0], rules.shape(b))) if rules.wants(b) else "",
    ]


def multiply(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Mul: each has the other as its slope."""
    a, b = node.inputs
    return [
        rules.sum_to(rules.multiply(dy[0], other), rules.shape(name)) if rules.wants(name) else ""
        for name, other in ((a, b), (b, a))
    ]
