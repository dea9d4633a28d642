"""Gradients of functions element by element, of reductions and of their kin, beside PyTorch's."""

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper
from torch import Tensor, nn

import nbglcnn
from gradients import assert_gradients
from nbglcnn.errors import UnsupportedOperator
from operator_gradients import (
    RNG,
    Row,
    along,
    assert_rows,
    between,
    floats,
    ints,
)
from pointwise_gradients import (
    ACTIVATIONS,
    BINARY,
    FLAT,
    FUNCTIONS,
    PARTS,
    RANKED,
    SEVERAL,
    pairs,
    reductions,
    shares,
)

STATE = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Whichever tests run."""
    RNG.bit_generator.state = STATE


@pytest.mark.parametrize("rows", [ACTIVATIONS, FUNCTIONS], ids=["activations", "functions"])
def test_functions_of_one_number(rows: list[Row]) -> None:
    assert_rows(rows)


def test_flat_functions_pass_nothing() -> None:
    assert_rows(FLAT)


class Bounded(nn.Module):
    """Modules that pass nothing at their bounds; a convolution applies one as it stores."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 3, 1)
        self.six, self.tanh = nn.ReLU6(), nn.Hardtanh(-0.5, 0.75)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.six(self.conv(x)) * self.tanh(y) + self.six(y)


def test_relu6_and_hardtanh_pass_nothing_at_their_bounds() -> None:
    torch.manual_seed(0)
    y = torch.tensor([[[-0.5, 0.75, 0.6, 0.0, -1.0, 6.0, 6.5]]])
    found = assert_gradients(Bounded(), 3 * torch.randn(1, 2, 7), y)
    assert not found["inputs[1]"][0, 0, 5] and found["inputs[1]"][0, 0, 2]


def test_functions_that_convolutions_apply_as_they_store() -> None:
    torch.manual_seed(1)
    parts = [nn.LeakyReLU(0.2), nn.ELU(), nn.GELU(), nn.SiLU(), nn.Hardswish(), nn.Softplus()]
    layers = [layer for part in parts for layer in (nn.Conv2d(3, 3, 3, padding=1), part)]
    assert_gradients(nn.Sequential(*layers), torch.randn(2, 3, 5, 4))


class Modulo(nn.Module):
    """What the exporter may write in several nodes."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.remainder(x, y)


@pytest.mark.parametrize("op", BINARY)
def test_functions_of_two_tensors_however_they_are_broadcast(op: str) -> None:
    assert_rows(pairs(op))


def test_functions_of_several_tensors() -> None:
    assert_rows(SEVERAL)


def test_a_modulus_with_the_divisors_sign() -> None:
    assert_gradients(Modulo(), torch.tensor(between(-9, 9)), torch.tensor(between(-2, -0.5, 5, 1)))


@pytest.mark.parametrize("op", PARTS)
def test_reductions_over_any_axes(op: str) -> None:
    assert_rows(reductions(op))


ZEROS = floats(2, 3, 0.5, 0, 3, -2, 0, 3, 0, 0, 0, 0).reshape(4, 3)  # none, one, two, three a row
FEW = RNG.integers(0, 3, (4, 3)).astype(np.float32)


ODD = [
    Row("ReduceProd", along(torch.prod, 1), [ZEROS, ints(1)], {"keepdims": 0}),
    Row("ReduceProd", torch.prod, [ZEROS], {"keepdims": 0}),
    Row("ReduceMax", along(torch.amax, 1), [FEW, ints(1)], {"keepdims": 0}),
    Row("ReduceMin", along(torch.amin, (0, 1)), [FEW], {"keepdims": 0}),
    Row("ReduceL1", along(PARTS["ReduceL1"], 1, False), [ZEROS, ints(1)], {"keepdims": 0}),
    Row("ReduceL2", along(PARTS["ReduceL2"], 1, False), [ZEROS, ints(1)], {"keepdims": 0}),
    Row("ReduceLogSumExp", along(torch.logsumexp, 1), [100 * ZEROS, ints(1)], {"keepdims": 0}),
]  # fmt: skip


def test_reductions_with_zeros_and_of_equal_elements() -> None:
    assert_rows(ODD)


@pytest.mark.parametrize(("scale", "tolerance"), [(1, 1e-5), (10, 1e-4)])
def test_softmax_along_any_axis(scale: float, tolerance: float) -> None:
    # Where one share is nearly 1 all gradients are small, as digits cancel, in PyTorch too.
    assert_rows(shares(scale), tolerance)


def test_the_largest_elements_pass_to_their_places() -> None:
    assert_rows(RANKED)


class Halved(nn.Module):
    """Numbers of half precision, as which PyTorch passes the gradient, too."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x.half().to(x.dtype) * y


def test_a_loss_of_digits_passes_the_gradient() -> None:
    x, y = torch.tensor(between(-3, 3)), torch.tensor(between(-3, 3, 5, 1))
    assert_gradients(Halved(), x, y, tolerance=1e-3)


class Steps(nn.Module):
    """Types of numbers, truths and places beside what has a slope."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        kept = (x > 0.3) & ~(y >= x) | torch.isnan(y)
        return x.int().to(x.dtype) * y + kept.to(x.dtype) * x + x.argmax(1, keepdim=True) * y


def test_types_pass_gradients_and_truths_and_places_have_none() -> None:
    assert_gradients(Steps(), torch.tensor(between(-3, 3)), torch.tensor(between(-3, 3, 5, 1)))


def test_reductions_of_nothing_pass_nothing() -> None:
    nothing = np.zeros((2, 0, 3), np.float32)
    assert_rows([
        Row("ReduceProd", along(torch.prod, 1), [nothing, ints(1)], {"keepdims": 0}),
        Row("ReduceSum", along(torch.sum, 1), [nothing, ints(1)], {"keepdims": 0}),
    ])  # fmt: skip


def test_what_has_no_slope_says_why() -> None:
    graph = helper.make_graph(
        [helper.make_node("Hardmax", ["x"], ["y"], "one hot")], "hard",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (2, 3))],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(UnsupportedOperator, match=r"one hot.*Hardmax has no gradient: it jumps"):
        nbglcnn.gradient(model, between(-1, 1, 2, 3), of="y", wrt="x")
