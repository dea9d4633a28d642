"""Fourier transforms decomposed to products with constant matrices of cosines and sines.

Complex numbers are pairs along the last axis, as in ONNX. A transform merges its axis with the
pairs to rows, so that a single matrix product computes it.
"""

from __future__ import annotations

from math import prod

import numpy as np

from nbglcnn.errors import ModelError, UnsupportedModel, UnsupportedOperator
from nbglcnn.graph import Array, Node
from nbglcnn.load.draft import FoldState, describe_node, int_attr
from nbglcnn.load.passes.node_builder import NodeBuilder
from nbglcnn.load.size_limits import MAX_GENERATED_ELEMENTS


def decompose_dft(node: Node, state: FoldState) -> list[Node]:
    """Decompose a DFT along one axis: forward or inverse, real or complex, one-sided or full."""
    x = node.inputs[0]
    shape = state.shape(x)
    rank, parts = len(shape), shape[-1] if shape else 0
    if rank < 2 or parts not in (1, 2):
        raise ModelError(
            f"{describe_node(node)}: {list(shape)} has no last axis of 1 (real numbers) or 2 "
            "(complex)"
        )
    axis = _constant(node, 2, -2, state)
    if not -rank <= axis < rank or axis % rank == rank - 1:
        raise ModelError(f"{describe_node(node)}: axis {axis} of {rank} dimensions, of which the "
                         "last has the real and the imaginary parts")  # fmt: skip
    axis %= rank
    inverse, onesided = (bool(int_attr(node, name, 0)) for name in ("inverse", "onesided"))
    if onesided and parts != (2 if inverse else 1):
        raise ModelError(
            f"{describe_node(node)}: one-sided {'inverse ' * inverse}transforms need "
            f"{'complex' if inverse else 'real'} values"
        )
    given = shape[axis]
    length = _constant(node, 1, 2 * (given - 1) if inverse and onesided else given, state)
    if length < 1:
        raise ModelError(f"{describe_node(node)}: a transform of {length} values")
    read = min(given, length // 2 + 1 if inverse and onesided else length)
    written = length // 2 + 1 if onesided and not inverse else length
    columns = 1 if inverse and onesided else 2
    if read * parts * written * columns > MAX_GENERATED_ELEMENTS:
        raise UnsupportedModel(
            f"{describe_node(node)}: a Fourier transform of {length:,} values needs a matrix of "
            f"{read * parts * written * columns:,} elements; at most {MAX_GENERATED_ELEMENTS:,} "
            "are supported"
        )
    steps = NodeBuilder(node, state)
    if read < given:
        bounds = (steps.constant([n]) for n in (0, read, axis))
        x = steps("Slice", x, *bounds)
    others = [k for k in range(rank - 1) if k != axis]
    if axis != rank - 2:
        x = steps("Transpose", x, perm=(*others, axis, rank - 1))
    sizes = [shape[k] for k in others]
    rows = steps.reshape(x, (prod(sizes), read * parts))
    matrix = _dft_matrix(length, read, written, inverse=inverse, halves=inverse and onesided)
    chosen = np.ascontiguousarray(matrix[:, :parts, :, :columns])
    factors = steps.constant(chosen.reshape(read * parts, written * columns), np.float32)
    product = steps("MatMul", rows, factors)
    if axis == rank - 2:
        steps.reshape(product, (*sizes, written, columns), output_name=node.outputs[0])
        return steps.nodes
    found = steps.reshape(product, (*sizes, written, columns))
    back = [*range(axis), rank - 2, *range(axis, rank - 2), rank - 1]
    steps("Transpose", found, to=node.outputs[0], perm=tuple(back))
    return steps.nodes


def _constant(node: Node, position: int, default: int, state: FoldState) -> int:
    name = node.inputs[position] if len(node.inputs) > position else ""
    if not name:
        return default
    data = state.constants.get(name)
    if data is None or data.size != 1:
        raise UnsupportedOperator(
            f"{describe_node(node)}: its {'axis' if position == 2 else 'length'} must be a "
            "constant number"
        )
    return int(data.reshape(-1)[0])


def _dft_matrix(
    length: int, input_count: int, output_count: int, *, inverse: bool, halves: bool
) -> Array:
    """The DFT matrix from (n, real or imaginary part) to (k, part), shape (n, part, k, part).

    With `halves` the input is one half of a symmetric spectrum, so mirrored numbers count twice.
    """
    # The index is reduced modulo the length first: cosines of large angles are less precise.
    angle = (
        2 * np.pi / length * (np.arange(input_count)[:, None] * np.arange(output_count) % length)
    )
    cos, sin = np.cos(angle), np.sin(angle) if inverse else -np.sin(angle)
    found = np.stack([np.stack([cos, sin], -1), np.stack([-sin, cos], -1)], 1)
    if inverse:
        found /= length
    if halves:
        mirrored = (np.arange(input_count) > 0) & (2 * np.arange(input_count) != length)
        found[mirrored] *= 2
    return np.asarray(found)
