"""Gradients of Pad and CenterCropPad: repeated margins are added to their source positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nbglcnn.graph import Node
from nbglcnn.ops.gradient_builder import GradientBuilder
from nbglcnn.ops.movement_gradient import apply_matrix, flip_axis, pad_axis, slice_axis
from nbglcnn.ops.operator import GradientRule, has_input, string_attr

# For each axis: its length and the margins before and after (negative if cropped).
PaddingRule = Callable[[GradientBuilder, Node], Sequence[tuple[int, int, int]]]


def pad_rule(paddings: PaddingRule) -> GradientRule:
    """Make the rule of an operator that pads or crops axes."""

    def rule(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
        mode = string_attr(node, "mode", "constant")
        found = dy[0]
        for axis, (length, before, after) in enumerate(paddings(builder, node)):
            found = _unpad_axis(builder, found, axis, length, before, after, mode)
        rest = [""] * (len(node.inputs) - 1)
        if node.op == "Pad" and has_input(node, 2) and builder.needs_gradient(node.inputs[2]):
            rest[1] = _pad_value_gradient(builder, node, dy[0], paddings(builder, node))
        return [found if builder.needs_gradient(node.inputs[0]) else "", *rest]

    return rule


def _unpad_axis(
    builder: GradientBuilder, dy: str, axis: int, length: int, before: int, after: int, mode: str
) -> str:
    """The gradient along one axis."""
    start, end = max(0, -before), length - max(0, -after)
    kept, front, behind = end - start, max(0, before), max(0, after)
    if mode != "constant" and (front or behind):
        found = _fold_margins(builder, dy, axis, kept, front, behind, mode)
    else:
        found = slice_axis(builder, dy, axis, front, front + kept)
    return pad_axis(builder, found, axis, start, length - end)


def _fold_margins(
    builder: GradientBuilder,
    dy: str,
    axis: int,
    kept_length: int,
    before: int,
    after: int,
    mode: str,
) -> str:
    """The gradient of the kept positions, including their repetitions in the margins."""
    whole = builder.shape(dy)[axis]
    if max(before, after) > kept_length - (mode == "reflect"):
        return _apply_padding_matrix(builder, dy, axis, kept_length, before, after, mode)
    parts = [slice_axis(builder, dy, axis, before, before + kept_length)]
    for size, start, first in ((before, 0, True), (after, whole - after, False)):
        if not size:
            continue
        margin = slice_axis(builder, dy, axis, start, start + size)
        if mode == "edge":
            margin, size = builder.sum(margin, [axis]), 1
        elif mode == "reflect":
            margin = flip_axis(builder, margin, axis)
        room = kept_length - size
        offset = 1 if mode == "reflect" else 0
        at = offset if first else room - offset
        if mode == "wrap":
            at = room - at
        parts.append(pad_axis(builder, margin, axis, at, room - at))
    return builder.sum_tensors(parts)


def _apply_padding_matrix(
    builder: GradientBuilder,
    dy: str,
    axis: int,
    kept_length: int,
    before: int,
    after: int,
    mode: str,
) -> str:
    """For margins longer than their source: sum all copies of each position by a matrix."""
    places = np.pad(np.arange(kept_length), (before, after), mode=mode)  # type: ignore[call-overload]
    matrix = (np.arange(kept_length)[:, None] == places).astype(np.float32)
    return apply_matrix(builder, dy, axis, matrix)


def _pad_value_gradient(
    builder: GradientBuilder, node: Node, dy: str, paddings: Sequence[tuple[int, int, int]]
) -> str:
    """The gradient of the padding constant: the sum over the margins."""
    inner = dy
    for axis, (length, before, after) in enumerate(paddings):
        front = max(0, before)
        kept = length - max(0, -before) - max(0, -after)
        inner = slice_axis(builder, inner, axis, front, front + kept)
    sums = [builder.sum(one, range(len(builder.shape(one))), keepdims=False) for one in (dy, inner)]
    return builder.reshape(builder.subtract(*sums), builder.shape(node.inputs[2]))
