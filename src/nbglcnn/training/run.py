"""What a training is of: known before its first step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nbglcnn.errors import InputError
from nbglcnn.graph import Array, Graph
from nbglcnn.training.data import as_input
from nbglcnn.training.losses import Loss, check_target, is_index, target_shape
from nbglcnn.training.step import Request


@dataclass(frozen=True)
class Run:
    """What is known before the first step."""

    graph: Graph
    request: Request
    seed: int


def targets(loss: Loss, target: Array | None, graph: Graph, output: str) -> Array:
    """The targets of a batch as float32, checked."""
    assert target is not None
    index = is_index(loss, target)
    shape = graph.shape(graph.key(output).value)
    wanted = target_shape(loss, shape, index=index)
    if not index:
        target = np.asarray(as_input(target), np.float32)
    if target.shape[1:] != wanted[1:]:
        hint = ""
        if target.size == np.prod((len(target), *wanted[1:])):
            hint = f"; reshape the targets to ({', '.join(map(str, ('-1', *wanted[1:])))},)"
        elif loss.name == "cross_entropy" and not index:
            hint = "; class indices are integers"
        raise InputError(
            f"{loss.name}: targets of shape {target.shape} for an output of shape {shape}; "
            f"{wanted} is needed{hint}"
        )
    check_target(loss, target, shape)
    return np.asarray(target, np.float32)
