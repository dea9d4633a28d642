"""BatchVariance: an operator of nbglcnn's own, of which BatchNorm in training mode is made."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nbglcnn.codegen.builder import Builder
from nbglcnn.graph import Node
from nbglcnn.ops.elementwise import named
from nbglcnn.ops.norm_gradient import per_channel
from nbglcnn.ops.operator import Facts, Operator, Shape
from nbglcnn.ops.reach import everything
from nbglcnn.ops.reduce import VARIANCE, lying_for, reduce_frame
from nbglcnn.ops.rules import Rules


def _shapes(facts: Facts, node: Node) -> list[Shape]:
    return [facts.shape(node.inputs[1])]


def _lower(b: Builder, node: Node) -> None:
    x, mean = named(b, *node.inputs)
    axes = [axis for axis in range(len(x.shape)) if axis != 1]
    tensor, along = lying_for(b, x, axes)
    n, c, h, w = (1 if axis in along else n for axis, n in enumerate(tensor.layout.nchw))
    given = mean.lying(b, (n, c, h, w))
    reduce_frame(b, tensor, along, VARIANCE, given=given, value=node.outputs[0])


def _gradient(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """2 (x − mean) / n; a mean of these very elements has none: deviations from it sum up to 0."""
    x, mean = node.inputs
    shape = rules.shape(x)
    rank, joined = len(shape), math.prod(shape) // max(1, shape[1])
    slope = rules.slope(
        "return (a - b) * c * u_share;", x, per_channel(rules, mean, rank),
        per_channel(rules, dy[0], rank), share=2 / max(1, joined),
    )  # fmt: skip
    return [slope, ""]


OPERATORS = [
    Operator(
        "BatchVariance", "The population's variance of each channel, around its given mean.",
        _shapes, _lower, role="head", reach=everything, explains="nothing", formula=None,
        bounds=None, short=None, shape_inputs=(), gradient=_gradient,
    )
]  # fmt: skip
