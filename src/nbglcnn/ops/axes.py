"""How the axes of a shape map to the axes of an nchw, for any nchw that can store the tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nbglcnn.ops.operator import Shape

Flags = tuple[bool, ...]


def nchw_flags(shape: Shape, flags: Sequence[bool], nchw: Shape) -> tuple[bool, ...] | None:
    """Return, for each axis of the nchw, the flag of the axes of the shape that it covers.

    Returns None if an axis of the nchw mixes both flag values. Axes of length 1 are ignored.
    """
    spans = [
        (unit, unit * length, flag)
        for (unit, length), flag in zip(_axis_strides(shape), flags, strict=True)
        if length > 1
    ]
    found = []
    for unit, length in _axis_strides(nchw):
        parts = {flag for low, high, flag in spans if low < unit * length and unit < high}
        if length > 1 and len(parts) > 1:
            return None
        found.append(length > 1 and True in parts)
    return tuple(found)


def _axis_strides(lengths: Sequence[int]) -> list[tuple[int, int]]:
    return [(math.prod(lengths[k + 1 :]), length) for k, length in enumerate(lengths)]


def merge_axes(shape: Shape, flags: Sequence[Flags]) -> list[tuple[int, Flags]]:
    """Merge neighbouring axes with equal flags; returns lengths and flags, none of length 1."""
    axes: list[tuple[int, Flags]] = []
    for length, flag in zip(shape, flags, strict=True):
        if length == 1:
            continue
        if axes and axes[-1][1] == flag:
            axes[-1] = (axes[-1][0] * length, flag)
        else:
            axes.append((length, flag))
    return axes


def merged_lengths(shape: Shape, flags: Sequence[Flags]) -> Shape:
    """The lengths of `merge_axes`."""
    return tuple(length for length, _ in merge_axes(shape, flags))


def pad_rank(shape: Shape, rank: int) -> Shape:
    """Prepend axes of length 1 up to this rank."""
    return (1,) * (rank - len(shape)) + shape
