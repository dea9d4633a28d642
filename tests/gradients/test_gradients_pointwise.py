"""Gradients of elementwise functions, reductions and related operators, compared with PyTorch's."""

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper
from torch import Tensor, nn

import nbglcnn
from gradient_checks import assert_gradients
from nbglcnn.errors import UnsupportedOperator
from operator_gradients import (
    RNG,
    GradientCase,
    assert_operator_gradients,
    float_vector,
    int_vector,
    uniform,
    with_arguments,
)
from pointwise_gradients import (
    ACTIVATION_CASES,
    BINARY_FUNCTIONS,
    FUNCTION_CASES,
    REDUCTIONS,
    TOPK_CASES,
    VARIADIC_CASES,
    ZERO_GRADIENT_CASES,
    binary_cases,
    reduction_cases,
    softmax_cases,
)

RNG_STATE = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def reset_rng() -> None:
    """Make random numbers independent of the tests that run before."""
    RNG.bit_generator.state = RNG_STATE


@pytest.mark.parametrize(
    "rows", [ACTIVATION_CASES, FUNCTION_CASES], ids=["activations", "functions"]
)
def test_functions_of_one_number(rows: list[GradientCase]) -> None:
    assert_operator_gradients(rows)


def test_flat_functions_pass_nothing() -> None:
    assert_operator_gradients(ZERO_GRADIENT_CASES)


class BoundedActivations(nn.Module):
    """Activations with zero gradient at their bounds; a convolution applies one as it stores."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 3, 1)
        self.six, self.tanh = nn.ReLU6(), nn.Hardtanh(-0.5, 0.75)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.six(self.conv(x)) * self.tanh(y) + self.six(y)


def test_relu6_and_hardtanh_pass_nothing_at_their_bounds() -> None:
    torch.manual_seed(0)
    y = torch.tensor([[[-0.5, 0.75, 0.6, 0.0, -1.0, 6.0, 6.5]]])
    found = assert_gradients(BoundedActivations(), 3 * torch.randn(1, 2, 7), y)
    assert not found["inputs[1]"][0, 0, 5] and found["inputs[1]"][0, 0, 2]


def test_functions_that_convolutions_apply_as_they_store() -> None:
    torch.manual_seed(1)
    parts = [nn.LeakyReLU(0.2), nn.ELU(), nn.GELU(), nn.SiLU(), nn.Hardswish(), nn.Softplus()]
    layers = [layer for part in parts for layer in (nn.Conv2d(3, 3, 3, padding=1), part)]
    assert_gradients(nn.Sequential(*layers), torch.randn(2, 3, 5, 4))


class Modulo(nn.Module):
    """A remainder, which the exporter may write as several nodes."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.remainder(x, y)


@pytest.mark.parametrize("op", BINARY_FUNCTIONS)
def test_functions_of_two_tensors_however_they_are_broadcast(op: str) -> None:
    assert_operator_gradients(binary_cases(op))


def test_functions_of_several_tensors() -> None:
    assert_operator_gradients(VARIADIC_CASES)


def test_a_modulus_with_the_divisors_sign() -> None:
    assert_gradients(Modulo(), torch.tensor(uniform(-9, 9)), torch.tensor(uniform(-2, -0.5, 5, 1)))


@pytest.mark.parametrize("op", REDUCTIONS)
def test_reductions_over_any_axes(op: str) -> None:
    assert_operator_gradients(reduction_cases(op))


# No, one, two, three zeros in a row.
ROWS_WITH_ZEROS = float_vector(2, 3, 0.5, 0, 3, -2, 0, 3, 0, 0, 0, 0).reshape(4, 3)
TIED_VALUES = RNG.integers(0, 3, (4, 3)).astype(np.float32)


SPECIAL_CASES = [
    GradientCase("ReduceProd", with_arguments(torch.prod, 1), [ROWS_WITH_ZEROS, int_vector(1)],
                 {"keepdims": 0}),
    GradientCase("ReduceProd", torch.prod, [ROWS_WITH_ZEROS], {"keepdims": 0}),
    GradientCase("ReduceMax", with_arguments(torch.amax, 1), [TIED_VALUES, int_vector(1)],
                 {"keepdims": 0}),
    GradientCase("ReduceMin", with_arguments(torch.amin, (0, 1)), [TIED_VALUES], {"keepdims": 0}),
    GradientCase("ReduceL1", with_arguments(REDUCTIONS["ReduceL1"], 1, False),
                 [ROWS_WITH_ZEROS, int_vector(1)], {"keepdims": 0}),
    GradientCase("ReduceL2", with_arguments(REDUCTIONS["ReduceL2"], 1, False),
                 [ROWS_WITH_ZEROS, int_vector(1)], {"keepdims": 0}),
    GradientCase("ReduceLogSumExp", with_arguments(torch.logsumexp, 1),
                 [100 * ROWS_WITH_ZEROS, int_vector(1)], {"keepdims": 0}),
]  # fmt: skip


def test_reductions_with_zeros_and_of_equal_elements() -> None:
    assert_operator_gradients(SPECIAL_CASES)


@pytest.mark.parametrize(("scale", "tolerance"), [(1, 1e-5), (10, 1e-4)])
def test_softmax_along_any_axis(scale: float, tolerance: float) -> None:
    # Where one softmax value is nearly 1, all gradients are small by cancellation, in PyTorch too.
    assert_operator_gradients(softmax_cases(scale), tolerance)


def test_the_largest_elements_pass_to_their_places() -> None:
    assert_operator_gradients(TOPK_CASES)


class HalfPrecision(nn.Module):
    """Numbers rounded to half precision; PyTorch also passes the gradient in half precision."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.half().to(x.dtype) * y


def test_a_loss_of_digits_passes_the_gradient() -> None:
    x, y = torch.tensor(uniform(-3, 3)), torch.tensor(uniform(-3, 3, 5, 1))
    assert_gradients(HalfPrecision(), x, y, tolerance=1e-3)


class StepFunctions(nn.Module):
    """Integers, booleans and indices combined with differentiable values."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        kept = (x > 0.3) & ~(y >= x) | torch.isnan(y)
        return x.int().to(x.dtype) * y + kept.to(x.dtype) * x + x.argmax(1, keepdim=True) * y


def test_types_pass_gradients_and_truths_and_places_have_none() -> None:
    assert_gradients(
        StepFunctions(), torch.tensor(uniform(-3, 3)), torch.tensor(uniform(-3, 3, 5, 1))
    )


def test_reductions_of_nothing_pass_nothing() -> None:
    nothing = np.zeros((2, 0, 3), np.float32)
    assert_operator_gradients([
        GradientCase("ReduceProd", with_arguments(torch.prod, 1), [nothing, int_vector(1)],
                     {"keepdims": 0}),
        GradientCase("ReduceSum", with_arguments(torch.sum, 1), [nothing, int_vector(1)],
                     {"keepdims": 0}),
    ])  # fmt: skip


def test_what_has_no_slope_says_why() -> None:
    graph = helper.make_graph(
        [helper.make_node("Hardmax", ["x"], ["y"], "one hot")], "hard",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 3))],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(
        UnsupportedOperator, match=r"one hot.*Hardmax has no gradient: it is piecewise constant"
    ):
        nbglcnn.gradient(model, uniform(-1, 1, 2, 3), of="y", wrt="x")
