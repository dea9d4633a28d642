"""Code in forward that PyTorch runs: supported, or refused with its line and the code to write."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import nn

from assertions import assert_equal
from nbglcnn import Session, UnsupportedModel, Viewer, compile
from nbglcnn.load import load

X = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
Function = Callable[[nn.Module, torch.Tensor], torch.Tensor]


class FunctionModule(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function
        self.linear = nn.Linear(5, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(self, x)


STACK_FUNCTIONS: dict[str, Function] = {
    "hstack of numbers": lambda m, x: torch.hstack((x[0, 0, 0, 0], x[0, 0, 0, 1])),
    "hstack of vectors": lambda m, x: torch.hstack((x[0, 0, 0], x[0, 0, 1, :3])),
    "hstack of maps": lambda m, x: torch.hstack(x.unbind(1)),
    "vstack of numbers": lambda m, x: torch.vstack((x[0, 0, 0, 0], x[0, 0, 0, 1])),
    "vstack of vectors": lambda m, x: torch.vstack(x[0, 0].unbind(0)),
    "vstack of maps": lambda m, x: torch.vstack(x.unbind(1)),
    "row_stack": lambda m, x: torch.row_stack((x[0, 0, 0], x[0, 1, 0])),
    "dstack of numbers": lambda m, x: torch.dstack((x[0, 0, 0, 0], x[0, 0, 0, 1])),
    "dstack of vectors": lambda m, x: torch.dstack(x[0, 0].unbind(0)),
    "dstack of maps": lambda m, x: torch.dstack(x[0].unbind(0)),
    "dstack of batches": lambda m, x: torch.dstack(x.unbind(1)),
    "column_stack of numbers": lambda m, x: torch.column_stack((x[0, 0, 0, 0], x[0, 0, 0, 1])),
    "column_stack of vectors": lambda m, x: torch.column_stack((x[0, 0], x[0, 1, :, 0])),
    "stack of layers": lambda m, x: torch.stack([m.linear(one) for one in x.unbind(1)], 1),
}


@pytest.mark.parametrize("kind", STACK_FUNCTIONS)
def test_slices_are_stacked_as_pytorch_stacks_them(kind: str) -> None:
    model = FunctionModule(STACK_FUNCTIONS[kind]).eval()
    with Session(compile(model, X)) as session, torch.no_grad():
        assert_equal(session.run(X)["output"], model(X).numpy())


VMAP_FUNCTIONS: dict[str, Function] = {
    "of a function": lambda m, x: torch.vmap(lambda y: y * 2 + y.sum())(x),
    "of a layer": lambda m, x: torch.vmap(m.linear)(x),
    "with random numbers": lambda m, x: torch.vmap(
        lambda y: y + torch.rand_like(y), randomness="different"
    )(x),
    "of layers made in it": lambda m, x: torch.vmap(nn.Sequential(nn.Linear(5, 5)))(x),
}


@pytest.mark.parametrize("kind", VMAP_FUNCTIONS)
def test_vmap_is_refused_with_its_line_and_what_to_write(kind: str) -> None:
    with pytest.raises(UnsupportedModel) as error:
        load(nn.Sequential(nn.ReLU(), FunctionModule(VMAP_FUNCTIONS[kind])).eval(), X)
    words = str(error.value)
    assert " of test_unsupported_models.py: `" in words
    assert "torch.vmap and the other transforms of torch.func have no fixed graph" in words
    assert "torch.stack([f(one) for one in x])" in words


def test_a_viewer_has_python_compute_a_module_that_uses_vmap() -> None:
    model = nn.Sequential(nn.ReLU(), FunctionModule(VMAP_FUNCTIONS["of a layer"]), nn.ReLU()).eval()
    viewer = Viewer(model, X)
    try:
        assert viewer.verify().ok
        assert [layer.name for layer in viewer.network.plan.layers if layer.python] == ["1"]
    finally:
        viewer.close()


MODULES_IN_FORWARD: dict[str, Function] = {
    "Linear": lambda m, x: nn.Linear(5, 5)(x),
    "Conv2d": lambda m, x: nn.Conv2d(3, 3, 1)(x),
    "Embedding": lambda m, x: x + nn.Embedding(5, 5)(torch.arange(5))[0],
    "in a Sequential": lambda m, x: nn.Sequential(nn.ReLU(), nn.Linear(5, 5))(x),
}


@pytest.mark.parametrize("kind", MODULES_IN_FORWARD)
def test_a_layer_made_in_forward_is_refused_with_what_to_do(kind: str) -> None:
    with pytest.raises(UnsupportedModel) as error:
        load(nn.Sequential(nn.ReLU(), FunctionModule(MODULES_IN_FORWARD[kind])).eval(), X)
    words = str(error.value)
    assert " of test_unsupported_models.py: `" in words
    assert "has new random weights at each call; create it in __init__" in words
    assert "prims" not in words


def test_a_layer_without_random_weights_may_be_made_in_forward() -> None:
    model = FunctionModule(lambda m, x: nn.BatchNorm2d(3).eval()(nn.ReLU()(x))).eval()
    with Session(compile(model, X)) as session, torch.no_grad():
        assert_equal(session.run(X)["output"], model(X).numpy())


INPUT_READS: dict[str, tuple[Function, str]] = {
    "float": (lambda m, x: x * float(x.mean()), r"as float\(t\) does. Compute .* x \* x.mean\(\)"),
    "math": (lambda m, x: x * math.sqrt(x.var()), r"torch.sqrt\(t\) instead of math.sqrt"),
    "int": (lambda m, x: x * int(x.argmax()), r"instead of int\(t\) .* the tensor itself"),
}


@pytest.mark.parametrize("kind", INPUT_READS)
def test_a_number_that_python_reads_is_refused_with_what_to_write(kind: str) -> None:
    function, words = INPUT_READS[kind]
    with pytest.raises(UnsupportedModel, match=words):
        load(FunctionModule(function).eval(), X)


@pytest.mark.parametrize(
    "function",
    [
        lambda m, x: x * x.mean() * torch.sqrt(x.var()) * x.argmax(),  # as the messages advise
        lambda m, x: (f"{x.mean():.3f} of {x}", x * 2)[1],
        lambda m, x: x * x.mean().item() + x.max().item(),
    ],
    ids=["tensors", "a text", "item()"],
)
def test_numbers_that_python_does_not_decide_by_run(function: Function) -> None:
    model = FunctionModule(function).eval()
    with Session(compile(model, X)) as session, torch.no_grad():
        assert_equal(session.run(X)["output"], model(X).numpy())
