"""BatchVariance: nbglcnn's own operator, a part of BatchNorm in training mode."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nbglcnn.codegen.builder import Builder
from nbglcnn.graph import Node
from nbglcnn.ops.elementwise import operands_of
from nbglcnn.ops.gradient_builder import GradientBuilder
from nbglcnn.ops.norm_gradient import reshape_per_channel
from nbglcnn.ops.operator import KnownValues, Operator, Shape
from nbglcnn.ops.receptive_field import full_fields
from nbglcnn.ops.reduce import VARIANCE_KIND, draw_reduction, tensor_for_axes


def _shapes(facts: KnownValues, node: Node) -> list[Shape]:
    return [facts.shape(node.inputs[1])]


def _lower(b: Builder, node: Node) -> None:
    x, mean = operands_of(b, *node.inputs)
    axes = [axis for axis in range(len(x.shape)) if axis != 1]
    tensor, along = tensor_for_axes(b, x, axes)
    n, c, h, w = (1 if axis in along else n for axis, n in enumerate(tensor.layout.nchw))
    given = mean.to_nchw(b, (n, c, h, w))
    draw_reduction(b, tensor, along, VARIANCE_KIND, reference=given, value=node.outputs[0])


def _gradient(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """2 (x − mean) / n; the mean gets none, because deviations from the mean sum to 0."""
    x, mean = node.inputs
    shape = builder.shape(x)
    rank, joined = len(shape), math.prod(shape) // max(1, shape[1])
    slope = builder.apply_glsl(
        "return (a - b) * c * u_share;", x, reshape_per_channel(builder, mean, rank),
        reshape_per_channel(builder, dy[0], rank), share=2 / max(1, joined),
    )  # fmt: skip
    return [slope, ""]


OPERATORS = [
    Operator(
        "BatchVariance", "The population's variance of each channel, around its given mean.",
        _shapes, _lower, role="head", receptive_field=full_fields, explanation="nothing",
        formula=None, bounds=None, caption=None, shape_inputs=(), gradient=_gradient,
    )
]  # fmt: skip
