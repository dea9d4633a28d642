"""Receptive fields without the positions of an input that a constant mask excludes."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from nbglcnn.graph import Array, Node
from nbglcnn.ops.operator import KnownValues
from nbglcnn.ops.receptive_field import OperatorField, same_position
from nbglcnn.plan.schema import AxisWindow


def exclude_masked(
    facts: KnownValues,
    node: Node,
    fields: list[OperatorField | None],
    input_index: int,
    mask: Array,
) -> None:
    """Exclude masked positions of an input; split by axes if the mask is a product over them."""
    shape = facts.shape(node.outputs[0])
    if mask.all() or facts.shape(node.inputs[input_index]) != shape:
        return
    mask = mask.reshape((1,) * (len(shape) - mask.ndim) + mask.shape)
    ends = [
        k
        for k in range(1, mask.ndim)
        if (_project_mask(mask, 0, k) & _project_mask(mask, k) == mask).all()
    ]
    groups = list(pairwise([0, *ends, mask.ndim]))
    links = []
    for axis, (start, end) in enumerate(groups):
        own = np.broadcast_to(
            _project_mask(mask, start, end).reshape(mask.shape[start:end]), shape[start:end]
        )
        table = tuple((k,) if there else () for k, there in enumerate(own.reshape(-1).tolist()))
        links.append(same_position(axis) if own.all() else AxisWindow(axis, table=table))
    view = tuple(math.prod(shape[start:end]) for start, end in groups)
    fields[input_index] = OperatorField(view, view, tuple(links))


def _project_mask(mask: Array, start: int, end: int | None = None) -> Array:
    """Project a mask onto some axes: true if any element along the other axes is true."""
    axes = range(mask.ndim)[start:end]
    others = tuple(k for k in range(mask.ndim) if k not in axes)
    return np.asarray(mask.any(axis=others, keepdims=True))
