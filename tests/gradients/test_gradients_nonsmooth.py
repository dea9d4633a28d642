"""Gradients where a function has a kink, a bound or a tie: PyTorch's convention at each."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import nbglcnn
from assertions import assert_equal
from nbglcnn import Session, compile

X = torch.tensor([[-6.0, -3, -2, -1, -0.5, -0.0, 0, 0.5, 1, 2, 3, 6, 20]])
MAGNITUDES = X.abs()
TIED_VALUES = torch.tensor([[0.0, 1, 1, 0.5, 1, 1, 0, -0.0]])
PROBABILITIES = torch.tensor([[0.1, 0.25, 0.5, 0.75, 0.9]])
NONFINITE = torch.tensor([[math.nan, 1.0, -0.25, -2.0, 5.0]])
SATURATED_PROBABILITIES = torch.tensor([[0.0, 1, 0.5, 1e-8, 1e-13, 1 - 1e-7, 0, 1]])
TARGETS = torch.tensor([[0.0, 1, 1, 0, 0, 1, 1, 0]])
HYPOT_SIDES = torch.tensor([[0.0, 2, 3, 3e20]])


def zero_gradient(x: Tensor) -> Tensor:
    return 0 * x


def constant_like(x: Tensor, number: float) -> Tensor:
    return torch.full_like(x, number)


Function = Callable[[Any], Any]
FUNCTIONS: dict[str, tuple[Function, Tensor]] = {
    # Activations at their bounds.
    "relu": (F.relu, X),
    "relu6": (F.relu6, X),
    "nn.ReLU6": (nn.ReLU6(), X),
    "nn.Hardtanh": (nn.Hardtanh(-2, 3), X),
    "hardtanh": (F.hardtanh, X),
    "hardtanh from -2 to 3": (lambda x: F.hardtanh(x, -2, 3), X),
    "hardsigmoid": (F.hardsigmoid, X),
    "hardswish": (F.hardswish, X),
    "hardshrink": (F.hardshrink, X),
    "softshrink": (F.softshrink, X),
    "threshold": (lambda x: F.threshold(x, 1, 5), X),
    "leaky_relu": (F.leaky_relu, X),
    "rrelu": (F.rrelu, X),
    "prelu": (lambda x: F.prelu(x, torch.tensor([0.3])), X),
    "elu": (F.elu, X),
    "celu": (F.celu, X),
    "selu": (F.selu, X),
    "softplus": (lambda x: F.softplus(x, 2, 3), X),
    "logit": (lambda x: torch.logit(x, 0.25), PROBABILITIES),
    # At NaN.
    "relu of NaN": (F.relu, NONFINITE),
    "elu of NaN": (F.elu, NONFINITE),
    "celu of NaN": (F.celu, NONFINITE),
    "selu of NaN": (F.selu, NONFINITE),
    "hardswish of NaN": (F.hardswish, NONFINITE),
    "softshrink of NaN": (F.softshrink, NONFINITE),
    # Where a logarithm or a quotient is undefined.
    "binary_cross_entropy": (
        lambda x: F.binary_cross_entropy(x, TARGETS, reduction="none"), SATURATED_PROBABILITIES
    ),
    "weighted binary_cross_entropy": (
        lambda x: F.binary_cross_entropy(x, TARGETS, weight=1 + TARGETS, reduction="sum"),
        SATURATED_PROBABILITIES,
    ),
    "binary_cross_entropy of a sigmoid": (
        lambda x: F.binary_cross_entropy(torch.sigmoid(x), TARGETS, reduction="sum"),
        torch.tensor([[200.0, -200, 0, 30, -30, 90, -90, 200]]),
    ),
    "hypot from 0": (lambda x: torch.hypot(x, torch.tensor([[0.0, 1, 0, 4e20]])), HYPOT_SIDES),
    "hypot from 0 and 0": (lambda x: torch.hypot(x, zero_gradient(x)), HYPOT_SIDES),
    "xlogy of 0": (lambda x: torch.xlogy(x, torch.tensor([[0.0, 0, 2, 3]])), HYPOT_SIDES),
    "xlogy by 0": (lambda x: torch.xlogy(torch.tensor([[0.0, 0, 2, 3]]), x), HYPOT_SIDES),
    "xlogy of 0 by a number": (lambda x: torch.xlogy(0.0, x), HYPOT_SIDES),
    "xlog1py of 0": (
        lambda x: torch.special.xlog1py(x, torch.tensor([[1.0, -1, 2, -0.5]])), HYPOT_SIDES
    ),
    "fmod by 0": (lambda x: torch.fmod(torch.tensor([[1.0, -7, 7, 9]]), x), HYPOT_SIDES),
    "remainder by 0": (lambda x: torch.remainder(torch.tensor([[1.0, -7, 7, 9]]), x), HYPOT_SIDES),
    "fmax": (lambda x: torch.fmax(x, torch.tensor([[0.0, 2, math.nan, 3e20]])), HYPOT_SIDES),
    "fmin": (lambda x: torch.fmin(torch.tensor([[0.0, 2, math.nan, 3e20]]), x), HYPOT_SIDES),
    # Clamps.
    "clamp": (lambda x: x.clamp(-1, 1), X),
    "clamp min": (lambda x: x.clamp(min=0), X),
    "clamp max": (lambda x: x.clamp(max=1), X),
    "clamp by tensors": (lambda x: x.clamp(constant_like(x, -1), constant_like(x, 1)), X),
    "clip by tensors": (lambda x: x.clip(constant_like(x, -1), constant_like(x, 1)), X),
    "clip from a tensor": (lambda x: x.clip(min=constant_like(x, -1)), X),
    "clamp by tensors that cross": (lambda x: x.clamp(constant_like(x, 2), constant_like(x, 1)), X),
    "clamp_min by a tensor": (lambda x: torch.clamp_min(x, torch.tensor([1.0])), X),
    "clamp_max by a tensor": (lambda x: torch.clamp_max(x, torch.tensor([1.0])), X),
    "what clamps": (lambda x: torch.clamp(constant_like(x, 1), x, 2 * x), MAGNITUDES),
    # Ties.
    "max of all": (lambda x: x.max(), TIED_VALUES),
    "min of all": (lambda x: x.min(), TIED_VALUES),
    "amax": (lambda x: x.amax(), TIED_VALUES),
    "amax of an axis": (lambda x: x.amax(1), TIED_VALUES),
    "amin of an axis": (lambda x: x.amin(1), TIED_VALUES),
    "max of an axis": (lambda x: x.max(1)[0], TIED_VALUES),
    "max of an axis of three": (lambda x: x.reshape(2, 2, 2).max(1, keepdim=True)[0], TIED_VALUES),
    "min of the first axis": (lambda x: x.reshape(4, 2).min(0)[0], TIED_VALUES),
    "max of a number": (lambda x: x.sum().max(0)[0], TIED_VALUES),
    "maximum": (lambda x: torch.maximum(x, torch.tensor(1.0)), X),
    "minimum": (lambda x: torch.minimum(x, torch.tensor(1.0)), X),
    "maximum of equals": (lambda x: torch.maximum(x, 1 * x), X),
    "max_pool1d": (lambda x: F.max_pool1d(x[None], 2), TIED_VALUES),
    "adaptive_max_pool1d": (lambda x: F.adaptive_max_pool1d(x[None], 1), TIED_VALUES),
    "median": (lambda x: x.median(), TIED_VALUES),
    "sort": (lambda x: x.sort(1)[0][:, -2:], TIED_VALUES),
    "infinite norm": (lambda x: torch.linalg.vector_norm(x, math.inf), TIED_VALUES),
    "logsumexp": (lambda x: x.logsumexp(1), TIED_VALUES),
    # Roots and norms at zero.
    "abs": (torch.abs, X),
    "sign": (torch.sign, X),
    "sqrt": (torch.sqrt, MAGNITUDES),
    "rsqrt": (torch.rsqrt, MAGNITUDES),
    "pow 0": (lambda x: x**0, X),
    "pow 0.5": (lambda x: x**0.5, MAGNITUDES),
    "pow 1.5": (lambda x: x**1.5, MAGNITUDES),
    "0 to the power": (lambda x: torch.pow(torch.tensor(0.0), x), X),
    "norm": (lambda x: zero_gradient(x).norm(), X),
    "norm of an axis": (lambda x: zero_gradient(x).norm(dim=1), X),
    "norm 1": (lambda x: x.norm(p=1, dim=1), X),
    "norm 3 of nothing": (lambda x: zero_gradient(x).norm(p=3, dim=1), X),
    "norm 0.5": (lambda x: torch.linalg.vector_norm(x, 0.5, 1), X),
    "normalize": (lambda x: F.normalize(zero_gradient(x)), X),
    "cosine_similarity": (lambda x: F.cosine_similarity(zero_gradient(x), x), X),
    "pairwise_distance": (lambda x: F.pairwise_distance(x, x), X),
    "cdist": (lambda x: torch.cdist(x, 1 * x), X),
    "cdist 3": (lambda x: torch.cdist(x, 1 * x, p=3.0), X),
    "std": (lambda x: zero_gradient(x).std(), X),
    "std of an axis": (lambda x: zero_gradient(x).std(1, correction=0), X),
    "var": (lambda x: zero_gradient(x).var(), X),
    # Limits.
    "sinc": (torch.sinc, X),
    "xlogy": (lambda x: torch.xlogy(x, x.abs() + 1), X),
    "xlogy of a number": (lambda x: torch.xlogy(x, 2.0), X),
    "a number's xlogy": (lambda x: torch.xlogy(2.0, x), MAGNITUDES),
    "xlogy of 0 and what has no logarithm": (lambda x: torch.xlogy(zero_gradient(x), x - 7.5), X),
    "atan2": (lambda x: torch.atan2(x, torch.tensor([0.0, 1, -1])[:, None]), X),
    "atan2 of the second": (lambda x: torch.atan2(torch.tensor([0.0, 1, -1])[:, None], x), X),
    "prod": (lambda x: x.prod(1), X),
    "prod of one 0": (lambda x: x[:, :6].prod(1), X),
    "smooth_l1_loss": (lambda x: F.smooth_l1_loss(x, torch.zeros_like(x)), X),
    "l1_loss": (lambda x: F.l1_loss(x, torch.zeros_like(x)), X),
    "huber_loss": (lambda x: F.huber_loss(x, torch.zeros_like(x)), X),
    "round": (torch.round, X),
    "remainder": (lambda x: torch.remainder(x, 2.0), X),
}  # fmt: skip


class FunctionModule(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_corners_gradient_is_pytorchs(name: str) -> None:
    function, given = FUNCTIONS[name]
    model, x = FunctionModule(function).eval(), given.clone().requires_grad_()
    y = model(x)
    y.sum().backward()
    assert x.grad is not None
    found = nbglcnn.gradient(model, given)["input"]
    right = x.grad.numpy()
    assert np.isfinite(right).any()
    np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)


NUMBERS = [-math.inf, -2, -1, -0.0, 0.0, 1e-30, 1, 3, math.inf, math.nan]


def test_atan2_has_pytorchs_quadrants_zeros_and_nan() -> None:
    class Angle(nn.Module):
        def forward(self, y: Tensor, x: Tensor) -> Tensor:
            return torch.atan2(y, x)

    pairs = torch.meshgrid(torch.tensor(NUMBERS), torch.tensor(NUMBERS), indexing="ij")
    y, x = (one.reshape(10, 10).clone() for one in pairs)
    with Session(compile(Angle().eval(), (y, x))) as session:
        assert_equal(session.run(y.numpy(), x.numpy())["output"], torch.atan2(y, x).numpy())


def test_xlogy_is_pytorchs_at_zero_and_infinity() -> None:
    class Both(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return torch.xlogy(x, y)

    pairs = torch.meshgrid(torch.tensor(NUMBERS), torch.tensor(NUMBERS), indexing="ij")
    x, y = (one.clone() for one in pairs)
    with Session(compile(Both().eval(), (x, y))) as session, warnings.catch_warnings():
        assert_equal(session.run(x.numpy(), y.numpy())["output"], torch.xlogy(x, y).numpy())
