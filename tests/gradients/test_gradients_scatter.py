"""Gradients of updates that are written to places, some of them to one place, beside PyTorch's."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from operator_gradients import RNG, Row, assert_rows, between

STATE = RNG.bit_generator.state
REDUCTIONS = {"none": "", "add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Whichever tests run."""
    RNG.bit_generator.state = STATE


def few(*shape: int) -> np.ndarray:
    """Whole numbers, so that some are equal and some are 0."""
    return RNG.integers(-2, 3, shape).astype(np.float32)


def joined(x: Tensor, axis: int, places: Tensor, updates: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return x.scatter(axis, places, updates)
    return x.scatter_reduce(axis, places, updates, REDUCTIONS[reduction])


def elements(
    reduction: str, shape: tuple[int, ...], axis: int, length: int,
    numbers: Callable[..., np.ndarray],
) -> Row:  # fmt: skip
    """Along an axis; with "none" no place twice, whose value would be anybody's."""
    size = tuple(max(1, n - (k == 0)) if k != axis else length for k, n in enumerate(shape))
    if reduction == "none":
        order = RNG.random((*size[:axis], shape[axis], *size[axis + 1 :])).argsort(axis)
        places = np.take(order, range(length), axis)
    else:
        places = RNG.integers(0, shape[axis], size)
    negative = np.where(RNG.random(size) < 0.3, places - shape[axis], places)

    def right(x: Tensor, updates: Tensor) -> Tensor:
        return joined(x, axis, torch.tensor(places), updates, reduction)

    inputs = [numbers(*shape), negative, numbers(*size)]
    return Row("ScatterElements", right, inputs, {"axis": axis, "reduction": reduction})


def slices(
    reduction: str, shape: tuple[int, ...], named: int, rows: tuple[int, ...],
    numbers: Callable[..., np.ndarray],
) -> Row:  # fmt: skip
    """Rows of indices of the first axes."""
    lengths, count = shape[:named], math.prod(rows)
    whole, inner = math.prod(lengths), math.prod(shape[named:])
    flat = RNG.permutation(whole)[:count] if reduction == "none" else RNG.integers(0, whole, count)
    indices = np.stack(np.unravel_index(flat, lengths), -1).reshape(*rows, named)

    def right(x: Tensor, updates: Tensor) -> Tensor:
        places = torch.tensor(flat)[:, None].expand(count, inner)
        lines = x.reshape(whole, inner), 0, places, updates.reshape(count, inner), reduction
        return joined(*lines).reshape(shape)

    inputs = [numbers(*shape), indices, numbers(*rows, *shape[named:])]
    return Row("ScatterND", right, inputs, {"reduction": reduction})


def uneven(*shape: int) -> np.ndarray:
    return between(-1, 1, *shape)


def scattered(reduction: str) -> list[Row]:
    return [
        elements(reduction, (5, 7), 1, 6, uneven),
        elements(reduction, (2, 5, 3), 1, 5, uneven),
        elements(reduction, (6,), 0, 5, uneven),
        slices(reduction, (5, 3), 1, (4,), uneven),
        slices(reduction, (3, 4, 5), 2, (2, 5), uneven),
        slices(reduction, (7,), 1, (6,), uneven),
    ]


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_updates_of_places(reduction: str) -> None:
    assert_rows(scattered(reduction))


@pytest.mark.parametrize("reduction", ["mul", "max", "min"])
def test_updates_that_are_equal_or_zero(reduction: str) -> None:
    assert_rows([
        elements(reduction, (5, 7), 1, 6, few),
        elements(reduction, (4,), 0, 9, few),
        slices(reduction, (2, 3, 4), 2, (3, 3), few),
    ])  # fmt: skip


def test_of_updates_that_one_place_had_each_has_its_gradient() -> None:
    """The last stays in the data; as PyTorch has it, all of them pass the gradient of the place."""
    places = np.array([[3, 0, 3], [1, 1, 1]])

    def right(x: Tensor, updates: Tensor) -> Tensor:
        return x.scatter(1, torch.tensor(places), updates)

    assert_rows([Row("ScatterElements", right, [uneven(2, 5), places, uneven(2, 3)], {"axis": 1})])
