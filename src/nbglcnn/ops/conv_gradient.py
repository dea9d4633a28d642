"""Gradients of convolutions: of inputs they are convolutions, of weights an operator of ours."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nbglcnn.graph import Node
from nbglcnn.layout import nchw_of
from nbglcnn.lowering.builder import Builder
from nbglcnn.lowering.glsl import ROUNDS, Kernel, shader
from nbglcnn.ops.operator import (
    Facts,
    Operator,
    Shape,
    anything,
    has_input,
    integer,
    integers,
)
from nbglcnn.ops.reach import everything
from nbglcnn.ops.rules import Rules
from nbglcnn.ops.window import Window, sliding, transposed

WEIGHT_GRADIENT = Kernel(
    "weight_gradient", shader("weight_gradient.glsl") + shader("pixels.glsl"), pixel=False
)
SUM = Kernel("weight_gradient_sum", shader("weight_gradient_sum.glsl"))


def conv_gradient(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Conv: dx is a transposed convolution with the same weights."""
    x, w = node.inputs[:2]
    spatial = rules.shape(x)[2:]
    window = sliding(rules, node, rules.shape(w)[2:])
    group = integer(node, "group", 1)
    dx = ""
    if rules.wants(x):
        extra = tuple(
            n + begin + end - (d * (k - 1) + 1) - s * (o - 1)
            for n, begin, end, d, k, s, o in zip(
                spatial, window.begins, window.ends, window.dilations, window.kernel,
                window.strides, window.output, strict=True,
            )
        )  # fmt: skip
        dx = rules.node(
            "ConvTranspose", dy[0], w, group=group, strides=window.strides,
            dilations=window.dilations, pads=(*window.begins, *window.ends), output_padding=extra,
        )  # fmt: skip
    return [dx, _weights(rules, w, x, dy[0], window, group), *_bias(rules, node, dy[0])]


def transposed_gradient(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """ConvTranspose: dx is a convolution with the same weights."""
    x, w = node.inputs[:2]
    window = transposed(rules, node, rules.shape(w)[2:])
    group = integer(node, "group", 1)
    dx = ""
    if rules.wants(x):
        dx = rules.node(
            "Conv", dy[0], w, group=group, strides=window.strides, dilations=window.dilations,
            pads=(*window.begins, *window.ends),
        )  # fmt: skip
        shape = rules.shape(x)
        if rules.shape(dx) != shape:  # an output_padding of a stride or more
            axes = range(2, len(shape))
            dx = rules.node(
                "Slice", dx, rules.integers(*[0] * len(axes)), rules.integers(*shape[2:]),
                rules.integers(*axes),
            )  # fmt: skip
    return [dx, _weights(rules, w, dy[0], x, window, group), *_bias(rules, node, dy[0])]


def _weights(rules: Rules, w: str, x: str, dy: str, window: Window, group: int) -> str:
    if not rules.wants(w):
        return ""
    return rules.node(
        "ConvWeightGradient", x, dy, kernel_shape=window.kernel, strides=window.strides,
        dilations=window.dilations, pads=window.begins, group=group,
    )  # fmt: skip


def _bias(rules: Rules, node: Node, dy: str) -> list[str]:
    if not has_input(node, 2):
        return [""] * (len(node.inputs) - 2)
    if not rules.wants(node.inputs[2]):
        return [""]
    axes = [axis for axis in range(len(rules.shape(dy))) if axis != 1]
    return [rules.sum(dy, axes, keepdims=False)]


# The operator.


def _shapes(facts: Facts, node: Node) -> list[Shape]:
    x, dy = (facts.shape(name) for name in node.inputs)
    return [(dy[1], x[1] // integer(node, "group", 1), *integers(node, "kernel_shape", ()))]


def _three(values: Shape, filling: int) -> Shape:
    return (filling, filling, *values)[-3:]


def _lower(b: Builder, node: Node) -> None:
    x, dy = (b.tensor(name) for name in node.inputs)
    (shape,), group = _shapes(b, node), integer(node, "group", 1)
    kernel, strides, dilations, begins = (
        _three(integers(node, name, ()), filling)
        for name, filling in (("kernel_shape", 1), ("strides", 1), ("dilations", 1), ("pads", 0))
    )
    spatial, places = (_three(b.shape(name)[2:], 1) for name in node.inputs)
    images, outputs = b.shape(node.inputs[0])[0], shape[0]
    each = max(1, ROUNDS // (4 * math.prod(places)))
    parts, rows = -(-images // each), 4 * -(-outputs // 4)
    _, channels, height, width = nchw_of(shape)
    sums = b.scratch(b.layout((parts * rows, channels, height, width), (4, 1, 1)))
    b.draw(
        WEIGHT_GRADIENT, sums, [x, dy],
        integers=[
            kernel[1], *places, *strides, outputs // group, *dilations, shape[1], *begins, images,
            *spatial, each, rows, outputs,
        ],
        constants={"GROUPED": int(group > 1)}, fetches=8 * each * math.prod(places),
    )  # fmt: skip
    output = b.output(node.outputs[0])
    b.draw(SUM, output, [sums], integers=[parts, rows], fetches=4 * parts)


def _macs(facts: Facts, node: Node) -> int:
    (shape,) = _shapes(facts, node)
    n, _, *places = facts.shape(node.inputs[1])
    return n * math.prod(places) * math.prod(shape)


OPERATORS = [
    Operator(
        "ConvWeightGradient", "The gradient of a convolution with respect to its filters.",
        _shapes, _lower,
        {"kernel_shape": anything, "strides": anything, "dilations": anything, "pads": anything,
         "group": anything},
        macs=_macs, role="head", reach=everything, explains="nothing", formula=None, bounds=None,
        short=None, shape_inputs=(), gradient="it is itself part of a gradient",
    )
]  # fmt: skip
