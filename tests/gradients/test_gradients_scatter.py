"""Gradients of scattered updates, some to the same position, compared with PyTorch's."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gradient_checks import assert_gradients
from operator_gradients import RNG, GradientCase, assert_operator_gradients
from scatter_gradients import (
    REDUCTIONS,
    scatter_cases,
    scatter_elements_case,
    scatter_nd_case,
    uniform_values,
)

RNG_STATE = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def reset_rng() -> None:
    """Make random numbers independent of the tests that run before."""
    RNG.bit_generator.state = RNG_STATE


def tied_values(*shape: int) -> np.ndarray:
    """Integers with ties and zeros."""
    return RNG.integers(-2, 3, shape).astype(np.float32)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_updates_of_places(reduction: str) -> None:
    assert_operator_gradients(scatter_cases(reduction))


@pytest.mark.parametrize("reduction", ["mul", "max", "min"])
def test_updates_that_are_equal_or_zero(reduction: str) -> None:
    assert_operator_gradients([
        scatter_elements_case(reduction, (5, 7), 1, 6, tied_values),
        scatter_elements_case(reduction, (4,), 0, 9, tied_values),
        scatter_nd_case(reduction, (2, 3, 4), 2, (3, 3), tied_values),
    ])  # fmt: skip


def test_of_updates_that_one_place_had_each_has_its_gradient() -> None:
    """The last update wins; as in PyTorch, all of them receive the position's gradient."""
    places = np.array([[3, 0, 3], [1, 1, 1]])

    def right(x: Tensor, updates: Tensor) -> Tensor:
        return x.scatter(1, torch.tensor(places), updates)

    assert_operator_gradients(
        [
            GradientCase(
                "ScatterElements",
                right,
                [uniform_values(2, 5), places, uniform_values(2, 3)],
                {"axis": 1},
            )
        ]
    )


class ScatterReduce(nn.Module):
    def __init__(self, reduce: str, include_self: bool) -> None:
        super().__init__()
        self.how = {"reduce": reduce, "include_self": include_self}

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.scatter_reduce(1, torch.tensor([[0, 1, 0, 3], [2, 2, 2, 0]]), y, **self.how)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False], ids=["with self", "without self"])
def test_reductions_of_a_module_with_and_without_what_was_there(
    reduce: str, include_self: bool
) -> None:
    torch.manual_seed(3)
    assert_gradients(ScatterReduce(reduce, include_self), torch.randn(2, 5), torch.randn(2, 4))
