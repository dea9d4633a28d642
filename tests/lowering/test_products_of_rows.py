"""Products of rows by one matrix: 1×1 convolutions that also do what follows, in one pass."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nbglcnn
from assertions import assert_equal
from fused_runs import run_fused
from nbglcnn import Session
from onnx_models import model_of, node


class Dense(nn.Module):
    """A Linear with a bias, a value to add and an activation, each of them optional."""

    def __init__(self, inputs: int, outputs: int, bias: bool, activation: nn.Module) -> None:
        super().__init__()
        self.linear, self.activation = nn.Linear(inputs, outputs, bias=bias), activation

    def forward(self, x: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
        return self.activation(self.linear(x) + more)


@pytest.mark.parametrize("shape", [(3, 7, 5), (2, 5, 6, 9), (1, 197, 33), (2, 3, 2, 3, 8)], ids=str)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_a_linear_of_any_rank_takes_in_what_follows(shape: tuple[int, ...], bias: bool) -> None:
    torch.manual_seed(len(shape))
    model = Dense(shape[-1], 11, bias, nn.GELU())
    x, more = torch.randn(shape), torch.randn(*shape[:-1], 11)
    passes, found, expected = run_fused(model, x, more)
    # Both inputs lie otherwise than the rows: each of them is copied once.
    assert passes <= 3
    assert_equal(found, expected)


def test_layers_on_tokens_hand_on_their_rows_without_copies() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(12, 12), nn.ReLU()) for _ in range(4)))
    passes, found, expected = run_fused(model, torch.randn(2, 9, 12))
    assert passes == 5  # a copy of the input to rows, and one pass for each layer
    assert_equal(found, expected)


class Product(nn.Module):
    """A product by a matrix that is computed from the input."""

    def __init__(self, transposed: bool, alpha: float) -> None:
        super().__init__()
        self.transposed, self.alpha = transposed, alpha

    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        matrix = w.tanh()
        product = x.exp() @ (matrix.T if self.transposed else matrix)
        return F.relu(product * self.alpha)


@pytest.mark.parametrize("transposed", [True, False], ids=["transposed", "as it is"])
@pytest.mark.parametrize("shape", [(5, 6), (1, 6), (2, 7, 6)], ids=str)
def test_a_computed_matrix(shape: tuple[int, ...], transposed: bool) -> None:
    torch.manual_seed(3)
    w = torch.randn(9, 6) if transposed else torch.randn(6, 9)
    _, found, expected = run_fused(Product(transposed, 0.5), torch.randn(shape), w)
    assert_equal(found, expected)


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("constant", [True, False], ids=["constant", "computed"])
def test_gemm_adds_a_residual(turned: int, transposed: int, constant: bool) -> None:
    rng = np.random.default_rng(turned + 2 * transposed)
    x = rng.standard_normal((6, 5) if turned else (5, 6)).astype(np.float32)
    w = rng.standard_normal((7, 6) if transposed else (6, 7)).astype(np.float32)
    more = rng.standard_normal((5, 7)).astype(np.float32)
    inputs = {"x": x, "more": more} | ({} if constant else {"w": w})
    made = model_of(
        [
            node("Gemm", ["x", "w"], ["g"], transA=turned, transB=transposed, alpha=0.5),
            node("Add", ["more", "g"], ["s"]),
            node("Relu", ["s"], ["y"]),
        ],
        {name: array.shape for name, array in inputs.items()},
        ["y"],
        constants={"w": w} if constant else {},
    )
    with Session(nbglcnn.compile(made, observe="outputs")) as session:
        found = session.run(inputs)
    product = 0.5 * (x.T if turned else x) @ (w.T if transposed else w)
    assert_equal(next(iter(found.values())), np.maximum(product + more, 0))


def test_a_batch_norm_over_tokens_is_no_norm_over_features() -> None:
    class Normalized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = nn.Linear(6, 5), nn.BatchNorm1d(5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(self.linear(x))

    torch.manual_seed(1)
    model = Normalized()
    nn.init.normal_(model.norm.running_mean)
    nn.init.uniform_(model.norm.running_var, 0.5, 2)
    nn.init.normal_(model.norm.weight)
    _, found, expected = run_fused(model, torch.randn(3, 5, 6))  # as many tokens as features
    assert_equal(found, expected)
    passes, found, expected = run_fused(model, torch.randn(4, 6))
    assert passes == 1
    assert_equal(found, expected)
