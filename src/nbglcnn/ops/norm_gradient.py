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
INVERSE_ROOT = "return inversesqrt(a + u_epsilon);"


def per_channel(rules: GradientBuilder, value: str, rank: int) -> str:
    """Reshape a (channels,) value to broadcast over (batch, channels, …)."""
    return rules.reshape(value, (*rules.shape(value), *[1] * (rank - 2)))


def mean(rules: GradientBuilder, value: str, axes: Sequence[int]) -> str:
    """The mean along axes, which are kept with length 1."""
    return rules.add_node("ReduceMean", value, rules.add_int_list(*axes), keepdims=1)


def center(rules: GradientBuilder, x: str, axes: Sequence[int], epsilon: float) -> tuple[str, str]:
    """X − mean and the inverse deviation, over `axes`."""
    apart = rules.subtract(x, mean(rules, x, axes))
    variance = mean(rules, rules.multiply(apart, apart), axes)
    return apart, rules.apply_glsl(INVERSE_ROOT, variance, epsilon=epsilon)


def normalized_gradient(
    rules: GradientBuilder, dy: str, normal: str, inverse: str, axes: Sequence[int]
) -> str:
    """The gradient of x if `normal` = (x − mean) · inverse has the gradient dy."""
    shared = mean(rules, dy, axes)
    along = mean(rules, rules.multiply(dy, normal), axes)
    inner = rules.apply_glsl("return a - b - c * d;", dy, shared, normal, along)
    return rules.multiply(inner, inverse)


def batch_norm(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """BatchNormalization: with stored statistics, or in training mode with the batch's."""
    x, scale, bias, stored_mean, stored_variance = node.inputs
    rank = len(rules.shape(x))
    epsilon, found = float_attr(node, "epsilon", 1e-5), [""] * 5
    axes = [axis for axis in range(rank) if axis != 1]
    factor = per_channel(rules, scale, rank)
    training = int_attr(node, "training_mode", 0)
    if training:
        apart, inverse = center(rules, x, axes, epsilon)
    else:
        apart = rules.subtract(x, per_channel(rules, stored_mean, rank))
        inverse = rules.apply_glsl(
            INVERSE_ROOT, per_channel(rules, stored_variance, rank), epsilon=epsilon
        )
    if rules.needs_gradient(scale):
        normal = rules.multiply(apart, inverse)
        found[1] = rules.sum_to_channels(rules.multiply(dy[0], normal))
    if rules.needs_gradient(bias):
        found[2] = rules.sum_to_channels(dy[0])
    scaled = rules.multiply(dy[0], factor)
    if rules.needs_gradient(x):
        if training:
            found[0] = normalized_gradient(
                rules, scaled, rules.multiply(apart, inverse), inverse, axes
            )
        else:
            found[0] = rules.multiply(scaled, inverse)
    if rules.needs_gradient(stored_mean) and not training:
        found[3] = rules.negate(rules.sum_to_channels(rules.multiply(scaled, inverse)))
    if rules.needs_gradient(stored_variance) and not training:
        part = rules.apply_glsl("return -0.5 * a * b * c * c * c;", scaled, apart, inverse)
        found[4] = rules.sum_to_channels(part)
    return found


def instance_norm(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """InstanceNormalization: normalizes each channel of each example separately."""
    return _grouped_norm(rules, node, dy[0], rules.shape(node.inputs[0])[1])


def group_norm(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """GroupNormalization: normalizes groups of channels of each example."""
    return _grouped_norm(rules, node, dy[0], int_attr(node, "num_groups", 1))


def _grouped_norm(rules: GradientBuilder, node: Node, dy: str, groups: int) -> Sequence[str]:
    x, scale, bias = node.inputs
    shape = rules.shape(x)
    rows = (shape[0], groups, rules.numel(x) // (shape[0] * groups))
    epsilon = float_attr(node, "epsilon", 1e-5)
    apart, inverse = center(rules, rules.reshape(x, rows), [2], epsilon)
    normal = rules.multiply(apart, inverse)
    found = [""] * 3
    if rules.needs_gradient(scale):
        part = rules.multiply(dy, rules.reshape(normal, shape))
        found[1] = rules.sum_to_channels(part)
    if rules.needs_gradient(bias):
        found[2] = rules.sum_to_channels(dy)
    if rules.needs_gradient(x):
        scaled = rules.multiply(dy, per_channel(rules, scale, len(shape)))
        dx = normalized_gradient(rules, rules.reshape(scaled, rows), normal, inverse, [2])
        found[0] = rules.reshape(dx, shape)
    return found


def layer_norm(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """LayerNormalization: over all axes from `axis` on; scale and bias are broadcast."""
    x = node.inputs[0]
    axes = _trailing_axes(rules, node)
    apart, inverse = center(rules, x, axes, float_attr(node, "epsilon", 1e-5))
    normal = rules.multiply(apart, inverse)
    found = _affine_gradients(rules, node, dy[0], normal)
    if rules.needs_gradient(x):
        scaled = _scale_gradient(rules, node, dy[0])
        found[0] = normalized_gradient(rules, scaled, normal, inverse, axes)
    return found


def rms_norm(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """RMSNormalization: like LayerNormalization with a mean of 0."""
    x = node.inputs[0]
    axes = _trailing_axes(rules, node)
    squares = mean(rules, rules.multiply(x, x), axes)
    inverse = rules.apply_glsl(INVERSE_ROOT, squares, epsilon=float_attr(node, "epsilon", 1e-5))
    normal = rules.multiply(x, inverse)
    found = _affine_gradients(rules, node, dy[0], normal)
    if rules.needs_gradient(x):
        scaled = _scale_gradient(rules, node, dy[0])
        along = mean(rules, rules.multiply(scaled, normal), axes)
        found[0] = rules.apply_glsl("return (a - b * c) * d;", scaled, normal, along, inverse)
    return found


def _trailing_axes(rules: GradientBuilder, node: Node) -> list[int]:
    return list(range(axis_of(rules, node, -1), len(rules.shape(node.inputs[0]))))


def _affine_gradients(rules: GradientBuilder, node: Node, dy: str, normal: str) -> list[str]:
    """The gradients of scale and bias, after an empty slot for the input's."""
    found = [""] * len(node.inputs)
    if has_input(node, 1) and rules.needs_gradient(node.inputs[1]):
        part = rules.multiply(dy, normal)
        found[1] = rules.sum_to(part, rules.shape(node.inputs[1]))
    if has_input(node, 2) and rules.needs_gradient(node.inputs[2]):
        found[2] = rules.sum_to(dy, rules.shape(node.inputs[2]))
    return found


def _scale_gradient(rules: GradientBuilder, node: Node, dy: str) -> str:
    return rules.multiply(dy, node.inputs[1]) if has_input(node, 1) else dy


def lp_norm(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """LpNormalization: 0 if the norm is 0."""
    x, y = node.inputs[0], node.outputs[0]
    axis = axis_of(rules, node, -1)
    p = int_attr(node, "p", 2)
    norm = rules.add_node(f"ReduceL{p}", x, rules.add_int_list(axis), keepdims=1)
    along = rules.sum(rules.multiply(dy[0], y), [axis])
    direction = y if p == 2 else rules.add_node("Sign", x)
    glsl = "return select(equal(d, vec4(0.0)), vec4(0.0), (a - b * c) / d);"
    return [rules.apply_glsl(glsl, dy[0], direction, along, norm)]


def lrn(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """LRN: y = x · k^(−beta), k = bias + alpha / size · Σ x² over a window of channels.

    A channel contributes to the windows of the channels around it, so `before` and `behind` are
    swapped in the second sum.
    """
    x, size = node.inputs[0], int_attr(node, "size", 1)
    share, beta = float_attr(node, "alpha", 1e-4) / size, float_attr(node, "beta", 0.75)
    before, behind = (size - 1) // 2, size // 2
    squares = _window_sum(rules, rules.multiply(x, x), before, behind)
    k = rules.apply_glsl(
        "return u_bias + u_share * a;", squares, bias=float_attr(node, "bias", 1.0), share=share
    )
    part = rules.apply_glsl("return a * b * pow(c, vec4(-u_beta - 1.0));", dy[0], x, k, beta=beta)
    joined = _window_sum(rules, part, behind, before)
    glsl = "return a * pow(b, vec4(-u_beta)) - u_twice * c * d;"
    return [rules.apply_glsl(glsl, dy[0], k, x, joined, beta=beta, twice=2 * beta * share)]


def _window_sum(rules: GradientBuilder, value: str, before: int, behind: int) -> str:
    """For each channel, the sum from `before` channels before it to `behind` channels after it."""
    channels = np.arange(rules.shape(value)[1])
    apart = channels[None, :] - channels[:, None]
    matrix = (apart >= -before) & (apart <= behind)
    return apply_matrix(rules, value, 1, matrix.astype(np.float32))


def mean_variance(rules: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """MeanVarianceNormalization: y = (x − mean) / (deviation + 1e-9)."""
    x = node.inputs[0]
    axes = normalize_axes(int_list_attr(node, "axes", (0, 2, 3)), len(rules.shape(x)))
    axes = tuple(sorted(set(axes)))
    apart = rules.subtract(x, mean(rules, x, axes))
    deviation = rules.add_node("Sqrt", mean(rules, rules.multiply(apart, apart), axes))
    shared = mean(rules, dy[0], axes)
    along = mean(rules, rules.multiply(dy[0], apart), axes)
    first = rules.apply_glsl("return (a - b) / (c + 1e-9);", dy[0], shared, deviation)
    glsl = "return a - b * c / (d * (d + 1e-9) * (d + 1e-9));"
    return [rules.apply_glsl(glsl, first, apart, along, deviation)]
