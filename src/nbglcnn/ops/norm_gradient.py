"""Gradients of normalizations, from ordinary nodes. The mean is subtracted first, as in forward."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nbglcnn.graph import Node
from nbglcnn.ops.gradient_builder import GradientBuilder
from nbglcnn.ops.movement_gradient import apply_matrix
from nbglcnn.ops.operator import (
    axis_of,
    float_attr,
    has_input,
    int_attr,
    int_list_attr,
    normalize_axes,
)

# (v + epsilon)^(-1/2)
INVERSE_ROOT_GLSL = "return inversesqrt(a + u_epsilon);"


def reshape_per_channel(builder: GradientBuilder, value: str, rank: int) -> str:
    """Reshape a (channels,) value to broadcast over (batch, channels, …)."""
    return builder.reshape(value, (*builder.shape(value), *[1] * (rank - 2)))


def mean(builder: GradientBuilder, value: str, axes: Sequence[int]) -> str:
    """The mean along axes, which are kept with length 1."""
    return builder.add_node("ReduceMean", value, builder.add_int_list(*axes), keepdims=1)


def center(
    builder: GradientBuilder, x: str, axes: Sequence[int], epsilon: float
) -> tuple[str, str]:
    """X − mean and the inverse deviation, over `axes`."""
    apart = builder.subtract(x, mean(builder, x, axes))
    variance = mean(builder, builder.multiply(apart, apart), axes)
    return apart, builder.apply_glsl(INVERSE_ROOT_GLSL, variance, epsilon=epsilon)


def normalized_gradient(
    builder: GradientBuilder, dy: str, normalized: str, inverse_deviation: str, axes: Sequence[int]
) -> str:
    """The gradient of x if `normalized` = (x − mean) · inverse has the gradient dy."""
    shared = mean(builder, dy, axes)
    along = mean(builder, builder.multiply(dy, normalized), axes)
    inner = builder.apply_glsl("return a - b - c * d;", dy, shared, normalized, along)
    return builder.multiply(inner, inverse_deviation)


def batch_norm(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """BatchNormalization: with stored statistics, or in training mode with the batch's."""
    x, scale, bias, stored_mean, stored_variance = node.inputs
    rank = len(builder.shape(x))
    epsilon, found = float_attr(node, "epsilon", 1e-5), [""] * 5
    axes = [axis for axis in range(rank) if axis != 1]
    factor = reshape_per_channel(builder, scale, rank)
    training = int_attr(node, "training_mode", 0)
    if training:
        apart, inverse = center(builder, x, axes, epsilon)
    else:
        apart = builder.subtract(x, reshape_per_channel(builder, stored_mean, rank))
        inverse = builder.apply_glsl(
            INVERSE_ROOT_GLSL, reshape_per_channel(builder, stored_variance, rank), epsilon=epsilon
        )
    if builder.needs_gradient(scale):
        normal = builder.multiply(apart, inverse)
        found[1] = builder.sum_to_channels(builder.multiply(dy[0], normal))
    if builder.needs_gradient(bias):
        found[2] = builder.sum_to_channels(dy[0])
    scaled = builder.multiply(dy[0], factor)
    if builder.needs_gradient(x):
        if training:
            found[0] = normalized_gradient(
                builder, scaled, builder.multiply(apart, inverse), inverse, axes
            )
        else:
            found[0] = builder.multiply(scaled, inverse)
    if builder.needs_gradient(stored_mean) and not training:
        found[3] = builder.negate(builder.sum_to_channels(builder.multiply(scaled, inverse)))
    if builder.needs_gradient(stored_variance) and not training:
        part = builder.apply_glsl("return -0.5 * a * b * c * c * c;", scaled, apart, inverse)
        found[4] = builder.sum_to_channels(part)
    return found


def instance_norm(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """InstanceNormalization: normalizes each channel of each example separately."""
    return _grouped_norm(builder, node, dy[0], builder.shape(node.inputs[0])[1])


def group_norm(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """GroupNormalization: normalizes groups of channels of each example."""
    return _grouped_norm(builder, node, dy[0], int_attr(node, "num_groups", 1))


def _grouped_norm(builder: GradientBuilder, node: Node, dy: str, groups: int) -> Sequence[str]:
    x, scale, bias = node.inputs
    shape = builder.shape(x)
    rows = (shape[0], groups, builder.numel(x) // (shape[0] * groups))
    epsilon = float_attr(node, "epsilon", 1e-5)
    apart, inverse = center(builder, builder.reshape(x, rows), [2], epsilon)
    normal = builder.multiply(apart, inverse)
    found = [""] * 3
    if builder.needs_gradient(scale):
        part = builder.multiply(dy, builder.reshape(normal, shape))
        found[1] = builder.sum_to_channels(part)
    if builder.needs_gradient(bias):
        found[2] = builder.sum_to_channels(dy)
    if builder.needs_gradient(x):
        scaled = builder.multiply(dy, reshape_per_channel(builder, scale, len(shape)))
        dx = normalized_gradient(builder, builder.reshape(scaled, rows), normal, inverse, [2])
        found[0] = builder.reshape(dx, shape)
    return found


def layer_norm(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """LayerNormalization: over all axes from `axis` on; scale and bias are broadcast."""
    x = node.inputs[0]
    axes = _trailing_axes(builder, node)
    apart, inverse = center(builder, x, axes, float_attr(node, "epsilon", 1e-5))
    normal = builder.multiply(apart, inverse)
    found = _affine_gradients(builder, node, dy[0], normal)
    if builder.needs_gradient(x):
        scaled = _scale_gradient(builder, node, dy[0])
        found[0] = normalized_gradient(builder, scaled, normal, inverse, axes)
    return found


def rms_norm(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """RMSNormalization: like LayerNormalization with a mean of 0."""
    x = node.inputs[0]
    axes = _trailing_axes(builder, node)
    squares = mean(builder, builder.multiply(x, x), axes)
    inverse = builder.apply_glsl(
        INVERSE_ROOT_GLSL, squares, epsilon=float_attr(node, "epsilon", 1e-5)
    )
    normal = builder.multiply(x, inverse)
    found = _affine_gradients(builder, node, dy[0], normal)
    if builder.needs_gradient(x):
        scaled = _scale_gradient(builder, node, dy[0])
        along = mean(builder, builder.multiply(scaled, normal), axes)
        found[0] = builder.apply_glsl("return (a - b * c) * d;", scaled, normal, along, inverse)
    return found


def _trailing_axes(builder: GradientBuilder, node: Node) -> list[int]:
    return list(range(axis_of(builder, node, -1), len(builder.shape(node.inputs[0]))))


def _affine_gradients(builder: GradientBuilder, node: Node, dy: str, normalized: str) -> list[str]:
    """The gradients of scale and bias, after an empty slot for the input's."""
    found = [""] * len(node.inputs)
    if has_input(node, 1) and builder.needs_gradient(node.inputs[1]):
        part = builder.multiply(dy, normalized)
        found[1] = builder.sum_to(part, builder.shape(node.inputs[1]))
    if has_input(node, 2) and builder.needs_gradient(node.inputs[2]):
        found[2] = builder.sum_to(dy, builder.shape(node.inputs[2]))
    return found


def _scale_gradient(builder: GradientBuilder, node: Node, dy: str) -> str:
    return builder.multiply(dy, node.inputs[1]) if has_input(node, 1) else dy


def lp_norm(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """LpNormalization: 0 if the norm is 0."""
    x, y = node.inputs[0], node.outputs[0]
    axis = axis_of(builder, node, -1)
    p = int_attr(node, "p", 2)
    norm = builder.add_node(f"ReduceL{p}", x, builder.add_int_list(axis), keepdims=1)
    along = builder.sum(builder.multiply(dy[0], y), [axis])
    direction = y if p == 2 else builder.add_node("Sign", x)
    glsl = "return select(equal(d, vec4(0.0)), vec4(0.0), (a - b * c) / d);"
    return [builder.apply_glsl(glsl, dy[0], direction, along, norm)]


def lrn(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """LRN: y = x · k^(−beta), k = bias + alpha / size · Σ x² over a window of channels.

    A channel contributes to the windows of the channels around it, so `before` and `behind` are
    swapped in the second sum.
    """
    x, size = node.inputs[0], int_attr(node, "size", 1)
    share, beta = float_attr(node, "alpha", 1e-4) / size, float_attr(node, "beta", 0.75)
    before, behind = (size - 1) // 2, size // 2
    squares = _window_sum(builder, builder.multiply(x, x), before, behind)
    k = builder.apply_glsl(
        "return u_bias + u_share * a;", squares, bias=float_attr(node, "bias", 1.0), share=share
    )
    part = builder.apply_glsl("return a * b * pow(c, vec4(-u_beta - 1.0));", dy[0], x, k, beta=beta)
    joined = _window_sum(builder, part, behind, before)
    glsl = "return a * pow(b, vec4(-u_beta)) - u_twice * c * d;"
    return [builder.apply_glsl(glsl, dy[0], k, x, joined, beta=beta, twice=2 * beta * share)]


def _window_sum(builder: GradientBuilder, value: str, before: int, after: int) -> str:
    """For each channel, the sum from `before` channels before it to `after` channels after it."""
    channels = np.arange(builder.shape(value)[1])
    apart = channels[None, :] - channels[:, None]
    matrix = (apart >= -before) & (apart <= after)
    return apply_matrix(builder, value, 1, matrix.astype(np.float32))


def mean_variance(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """MeanVarianceNormalization: y = (x − mean) / (deviation + 1e-9)."""
    x = node.inputs[0]
    axes = normalize_axes(int_list_attr(node, "axes", (0, 2, 3)), len(builder.shape(x)))
    axes = tuple(sorted(set(axes)))
    apart = builder.subtract(x, mean(builder, x, axes))
    deviation = builder.add_node("Sqrt", mean(builder, builder.multiply(apart, apart), axes))
    shared = mean(builder, dy[0], axes)
    along = mean(builder, builder.multiply(dy[0], apart), axes)
    first = builder.apply_glsl("return (a - b) / (c + 1e-9);", dy[0], shared, deviation)
    glsl = "return a - b * c / (d * (d + 1e-9) * (d + 1e-9));"
    return [builder.apply_glsl(glsl, first, apart, along, deviation)]
