"""Slopes of functions of one number, as GLSL of the input, or of the output where that suffices.

Of the output, the input need not be kept: a convolution may apply the function as it stores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nbglcnn.graph import Node
from nbglcnn.ops.operator import Gradient, number
from nbglcnn.ops.rules import Rules


def of_input(glsl: str, **defaults: float) -> Gradient:
    """A rule: `glsl` returns the gradient, of the input `a` and that of the output `b`."""
    return _rule(lambda node: node.inputs[0], glsl, defaults)


def of_output(glsl: str, **defaults: float) -> Gradient:
    """A rule: `glsl` returns the gradient, of the output `a` and that of the output `b`."""
    return _rule(lambda node: node.outputs[0], glsl, defaults)


def _rule(of: Callable[[Node], str], glsl: str, defaults: dict[str, float]) -> Gradient:
    def rule(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
        numbers = {key: number(node, key, default) for key, default in defaults.items()}
        dx = rules.slope(glsl, of(node), dy[0], **numbers)
        return [dx, *[""] * (len(node.inputs) - 1)]

    return rule
