"""Gradients of reductions: each reduced element gets its share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from nbglcnn.graph import Node
from nbglcnn.ops.gradient_builder import GradientBuilder
from nbglcnn.ops.operator import GradientRule, Shape

AxesRule = Callable[[GradientBuilder, Node], Sequence[int]]
# Returns the input's gradient from the input, the output, the output's gradient and the reduced
# axes, which have length 1 in the output and its gradient.
ReductionGradient = Callable[[GradientBuilder, str, str, str, Sequence[int]], str]
FIRST_INDEX_OPERATORS = ("max.dim", "min.dim")  # PyTorch operators that also return the index
NO_INDEX_GRADIENT_REASON = "it returns indices, which have no gradient"


def keepdims_shape(shape: Shape, axes: Sequence[int]) -> Shape:
    """Replace the lengths along some axes by 1."""
    return tuple(1 if axis in axes else n for axis, n in enumerate(shape))


def sum_or_mean_rule(axes: AxesRule, *, mean: bool = False) -> GradientRule:
    """ReduceSum and ReduceMean: the same gradient for all reduced elements."""

    def rule(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
        shape, joined = builder.shape(node.inputs[0]), axes(builder, node)
        found = builder.reshape(dy[0], keepdims_shape(shape, joined))
        if mean:
            found = builder.scale(found, 1 / max(1, math.prod(shape[axis] for axis in joined)))
        return [builder.expand(found, shape), *[""] * (len(node.inputs) - 1)]

    return rule


def reduction_rule(axes: AxesRule, gradient: ReductionGradient) -> GradientRule:
    """Make the rule of a reduction along `axes`."""

    def found(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
        x, others = node.inputs[0], [""] * (len(node.inputs) - 1)
        if not builder.numel(x):
            return ["", *others]
        joined = axes(builder, node)
        shape = keepdims_shape(builder.shape(x), joined)
        y, whole = (builder.reshape(name, shape) for name in (node.outputs[0], dy[0]))
        return [gradient(builder, x, y, whole, joined), *others]

    return found


def tied_extreme(builder: GradientBuilder, x: str, y: str, dy: str, axes: Sequence[int]) -> str:
    """ReduceMax and ReduceMin: tied elements share the gradient equally."""
    ties = builder.apply_glsl("return select(equal(a, b), vec4(1.0), vec4(0.0));", x, y)
    return builder.multiply(ties, builder.divide(dy, builder.sum(ties, axes)))


def max_min_rule(axes: AxesRule) -> GradientRule:
    """ReduceMax and ReduceMin; for PyTorch's max(dim) the first of tied elements gets it all."""
    shared, first = reduction_rule(axes, tied_extreme), reduction_rule(axes, _first_extreme)

    def found(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
        return (first if node.torch_operator in FIRST_INDEX_OPERATORS else shared)(
            builder, node, dy
        )

    return found


def _first_extreme(builder: GradientBuilder, x: str, y: str, dy: str, axes: Sequence[int]) -> str:
    shape = builder.shape(x)
    (axis,) = axes or (0,)
    if not shape:
        return dy
    places = np.arange(shape[axis], dtype=np.float32)
    numbers = builder.add_constant(
        places.reshape([-1 if k == axis else 1 for k in range(len(shape))])
    )
    glsl = "return select(equal(a, b), c, vec4(u_none));"
    at = builder.apply_glsl(glsl, x, y, numbers, none=float(shape[axis]))
    least = builder.add_node("ReduceMin", at, builder.add_int_list(axis), keepdims=1)
    return builder.apply_glsl("return select(equal(a, b), c, vec4(0.0));", numbers, least, dy)


def product(builder: GradientBuilder, x: str, y: str, dy: str, axes: Sequence[int]) -> str:
    """ReduceProd: the product of the others; nonzero also for the only element that is 0."""
    zeros = builder.apply_glsl("return select(equal(a, vec4(0.0)), vec4(1.0), vec4(0.0));", x)
    others = builder.apply_glsl("return select(equal(a, vec4(0.0)), vec4(1.0), a);", x)
    if axes:
        others = builder.add_node("ReduceProd", others, builder.add_int_list(*axes), keepdims=1)
    glsl = (
        "vec4 of_zero = select(equal(b, vec4(1.0)), c, vec4(0.0));"
        " vec4 of_other = select(equal(b, vec4(0.0)), c / a, vec4(0.0));"
        " return d * select(equal(a, vec4(0.0)), of_zero, of_other);"
    )
    return builder.apply_glsl(glsl, x, builder.sum(zeros, axes), others, dy)


def l1(builder: GradientBuilder, x: str, _y: str, dy: str, _axes: Sequence[int]) -> str:
    """ReduceL1: the sign of each element."""
    return builder.apply_glsl("return sign(a) * b;", x, dy)


def l2(builder: GradientBuilder, x: str, y: str, dy: str, _axes: Sequence[int]) -> str:
    """ReduceL2: each element divided by the norm; 0 if the norm is 0."""
    glsl = "return select(equal(b, vec4(0.0)), vec4(0.0), a / b * c);"
    return builder.apply_glsl(glsl, x, y, dy)


def sum_square(builder: GradientBuilder, x: str, _y: str, dy: str, _axes: Sequence[int]) -> str:
    """ReduceSumSquare: twice each element."""
    return builder.apply_glsl("return 2.0 * a * b;", x, dy)


def log_sum(builder: GradientBuilder, x: str, _y: str, dy: str, axes: Sequence[int]) -> str:
    """ReduceLogSum: the same gradient for all reduced elements."""
    return builder.expand(builder.divide(dy, builder.sum(x, axes)), builder.shape(x))


def log_sum_exp(builder: GradientBuilder, x: str, y: str, dy: str, _axes: Sequence[int]) -> str:
    """ReduceLogSumExp: the softmax."""
    return builder.apply_glsl("return exp(a - b) * c;", x, y, dy)
