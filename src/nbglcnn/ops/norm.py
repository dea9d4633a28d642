"""Normalizations: by stored statistics, or by those of the input itself."""

from __future__ import annotations

from nbglcnn.builder import Builder, Tensor
from nbglcnn.graph import Node
from nbglcnn.layout import Layout
from nbglcnn.ops.elementwise import Operand, combine, named
from nbglcnn.ops.operator import Facts, Operator, anything, number, only, same_shape
from nbglcnn.plan import Recipe

# The mean goes first: x · factor + shift would lose digits where the mean is large.
NORMALIZE = "vec4 combine(vec4 x, vec4 mean, vec4 by, vec4 bias) { return (x - mean) * by + bias; }"
FACTOR = "vec4 combine(vec4 scale, vec4 variance) { return scale / sqrt(variance + u.f[3].x); }"


def batch_normalized(b: Builder, node: Node, x: Operand, value: str = "") -> Tensor:
    """A BatchNormalization node of any tensor, its own input or one it was fused to."""
    _, scale, bias, mean, variance = node.inputs
    epsilon = number(node, "epsilon", 1e-5)
    channels = b.shape(scale)[0]
    one_each = (channels,) + (1,) * (len(x.shape) - 2)
    if b.constant(scale) is not None and b.constant(variance) is not None:
        recipe = Recipe("batchnorm_factor", (scale, variance), {"epsilon": epsilon})
        factor = Tensor(b.weight(recipe), Layout((1, channels, 1, 1)))
    else:
        factor = combine(b, named(b, scale, variance), FACTOR, floats=[epsilon])
    operands = [
        x,
        Operand(one_each, mean),
        Operand(one_each, tensor=factor),
        Operand(one_each, bias),
    ]
    return combine(b, operands, NORMALIZE, value=value)


def _batch(b: Builder, node: Node) -> None:
    (x,) = named(b, node.inputs[0])
    batch_normalized(b, node, x, node.outputs[0])


def _batch_problem(facts: Facts, node: Node) -> str | None:
    x = facts.shape(node.inputs[0])
    if len(x) < 2:
        return f"an input of shape {x}; expected (batch, channels, …)"
    for value in node.inputs[1:]:
        if facts.shape(value) != (x[1],):
            return f"parameters of shape {facts.shape(value)} for an input of {x[1]} channels"
    if len([name for name in node.outputs if name]) > 1:
        return "running statistics as outputs; only inference is supported"
    return None


OPERATORS = [
    Operator("BatchNormalization",
             "Shifts and scales each channel by statistics of the training data.", same_shape,
             _batch,
             {"epsilon": anything, "momentum": anything, "training_mode": only(0)}, _batch_problem),
]  # fmt: skip
