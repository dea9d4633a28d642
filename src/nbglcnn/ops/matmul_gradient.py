"""Gradients of matrix products, which are matrix products themselves."""

from __future__ import annotations

from collections.abc import Sequence

from nbglcnn.graph import Node
from nbglcnn.ops.gradient_builder import GradientBuilder
from nbglcnn.ops.operator import float_attr, has_input, int_attr


def gemm(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """Gemm: y = alpha · A B + beta · C, with A and B optionally transposed."""
    a, b = node.inputs[:2]
    turned_a, turned_b = int_attr(node, "transA", 0), int_attr(node, "transB", 0)
    alpha, beta = float_attr(node, "alpha", 1.0), float_attr(node, "beta", 1.0)
    found = ["", "", *[""] * (len(node.inputs) - 2)]
    if builder.needs_gradient(a):
        found[0] = (
            builder.add_node("Gemm", b, dy[0], transA=turned_b, transB=1, alpha=alpha)
            if turned_a
            else builder.add_node("Gemm", dy[0], b, transB=1 - turned_b, alpha=alpha)
        )
    if builder.needs_gradient(b):
        if turned_a:
            found[1] = (
                builder.add_node("Gemm", dy[0], a, transA=1, transB=1, alpha=alpha)
                if turned_b
                else builder.add_node("Gemm", a, dy[0], alpha=alpha)
            )
        else:
            rows = (a, dy[0]) if turned_b else (dy[0], a)
            found[1] = builder.scale(_sum_over_rows(builder, *rows), alpha)
    if has_input(node, 2) and builder.needs_gradient(node.inputs[2]):
        c = node.inputs[2]
        found[2] = builder.scale(builder.sum_to(dy[0], builder.shape(c)), beta)
    return found


def matmul(builder: GradientBuilder, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """MatMul: treat vectors as one-row or one-column matrices; sum over broadcast axes."""
    a, b = node.inputs
    shapes = builder.shape(a), builder.shape(b)
    rows = (1, *shapes[0]) if len(shapes[0]) == 1 else shapes[0]
    columns = (*shapes[1], 1) if len(shapes[1]) == 1 else shapes[1]
    batch = max(len(rows), len(columns)) - 2
    own = builder.shape(dy[0])
    whole = builder.reshape(dy[0], (*own[:batch], rows[-2], columns[-1]))
    found = []
    for position, (value, shape) in enumerate(((a, rows), (b, columns))):
        if not builder.needs_gradient(value):
            found.append("")
            continue
        if position == 1 and len(shape) == 2 and len(rows) > 1:
            flat = (
                builder.reshape(v, (-1, builder.shape(v)[-1]))
                for v in (whole, builder.reshape(a, rows))
            )
            part = _sum_over_rows(builder, *flat)
        elif position == 0:
            part = builder.add_node(
                "MatMul", whole, _transpose_last(builder, builder.reshape(b, columns))
            )
        else:
            part = builder.add_node(
                "MatMul", _transpose_last(builder, builder.reshape(a, rows)), whole
            )
        found.append(builder.reshape(builder.sum_to(part, shape), builder.shape(value)))
    return found


def _sum_over_rows(builder: GradientBuilder, x: str, y: str) -> str:
    """The sum over all rows of the products of y's and x's elements: yᵀ x.

    Implemented as the gradient of 1×1 filters, which reads both operands in place; a matrix product
    would pack one operand first.
    """
    return builder.add_node(
        "ConvWeightGradient", x, y, kernel_shape=(), strides=(), dilations=(), pads=(), group=1
    )


def _transpose_last(builder: GradientBuilder, value: str) -> str:
    *others, last, behind = range(len(builder.shape(value)))
    return builder.transpose(value, (*others, behind, last))
