"""Gradient cases of scatter operators, with torch's own."""

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from operator_gradients import RNG, GradientCase, uniform

REDUCTIONS = {"none": "", "add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def torch_scatter(
    x: Tensor, axis: int, target_indices: Tensor, updates: Tensor, reduction: str
) -> Tensor:
    if reduction == "none":
        return x.scatter(axis, target_indices, updates)
    return x.scatter_reduce(axis, target_indices, updates, REDUCTIONS[reduction])


def scatter_elements_case(
    reduction: str, shape: tuple[int, ...], axis: int, length: int,
    make_values: Callable[..., np.ndarray],
) -> GradientCase:  # fmt: skip
    """Scatter along an axis; "none" has no repeated index, whose result is undefined."""
    size = tuple(max(1, n - (k == 0)) if k != axis else length for k, n in enumerate(shape))
    if reduction == "none":
        order = RNG.random((*size[:axis], shape[axis], *size[axis + 1 :])).argsort(axis)
        places = np.take(order, range(length), axis)
    else:
        places = RNG.integers(0, shape[axis], size)
    negative = np.where(RNG.random(size) < 0.3, places - shape[axis], places)

    def right(x: Tensor, updates: Tensor) -> Tensor:
        return torch_scatter(x, axis, torch.tensor(places), updates, reduction)

    inputs = [make_values(*shape), negative, make_values(*size)]
    return GradientCase("ScatterElements", right, inputs, {"axis": axis, "reduction": reduction})


def scatter_nd_case(
    reduction: str, shape: tuple[int, ...], indexed_axes: int, row_shape: tuple[int, ...],
    make_values: Callable[..., np.ndarray],
) -> GradientCase:  # fmt: skip
    """ScatterND: rows of indices into the first axes."""
    lengths, count = shape[:indexed_axes], math.prod(row_shape)
    whole, inner = math.prod(lengths), math.prod(shape[indexed_axes:])
    flat = RNG.permutation(whole)[:count] if reduction == "none" else RNG.integers(0, whole, count)
    indices = np.stack(np.unravel_index(flat, lengths), -1).reshape(*row_shape, indexed_axes)

    def right(x: Tensor, updates: Tensor) -> Tensor:
        places = torch.tensor(flat)[:, None].expand(count, inner)
        lines = x.reshape(whole, inner), 0, places, updates.reshape(count, inner), reduction
        return torch_scatter(*lines).reshape(shape)

    inputs = [make_values(*shape), indices, make_values(*row_shape, *shape[indexed_axes:])]
    return GradientCase("ScatterND", right, inputs, {"reduction": reduction})


def uniform_values(*shape: int) -> np.ndarray:
    return uniform(-1, 1, *shape)


def scatter_cases(reduction: str) -> list[GradientCase]:
    return [
        scatter_elements_case(reduction, (5, 7), 1, 6, uniform_values),
        scatter_elements_case(reduction, (2, 5, 3), 1, 5, uniform_values),
        scatter_elements_case(reduction, (6,), 0, 5, uniform_values),
        scatter_nd_case(reduction, (5, 3), 1, (4,), uniform_values),
        scatter_nd_case(reduction, (3, 4, 5), 2, (2, 5), uniform_values),
        scatter_nd_case(reduction, (7,), 1, (6,), uniform_values),
    ]
