"""Model code that changes gradients: refused with its line, or equal to PyTorch's numbers."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import nbglcnn
from nbglcnn.errors import UnsupportedModel

X = torch.randn(2, 3, generator=torch.Generator().manual_seed(0))


class GradientReversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        return -dy


class StoppedGradient(torch.autograd.Function):
    """An autograd function whose result has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        result = x * 2
        ctx.mark_non_differentiable(result)
        return result

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> None:
        return None


class OverrideNet(nn.Module):
    """A linear layer, then `between`, a stand-in for a model's own code."""

    def __init__(self, between: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 2)
        self.between = between

    def forward(self, x: Tensor) -> Any:
        return self.last(self.between(self.first(x)))


def under_no_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        return x * 2


def with_grad_disabled(x: Tensor) -> Tensor:
    torch.set_grad_enabled(False)
    x = x * 2
    torch.set_grad_enabled(True)
    return x


@torch.inference_mode()
def in_inference_mode(x: Tensor) -> Tensor:
    return x * 2


def written_under_no_grad(x: Tensor) -> Tensor:
    x = x * 1
    with torch.no_grad():
        x.mul_(2)
    return x


def straight_through(x: Tensor) -> Tensor:
    return x + (torch.round(x) - x).detach()


def detached_in_place(x: Tensor) -> Tensor:
    return x + x.clone().detach_()


def through_data(x: Tensor) -> Tensor:
    return x + x.data


def through_copy(x: Tensor) -> Tensor:
    return x + torch.tensor(x)


def with_tensor_hook(x: Tensor) -> Tensor:
    x = x * 1
    if x.requires_grad:
        x.register_hook(lambda dy: dy * 3)
    return x


def through_bincount(x: Tensor) -> Tensor:
    return x * torch.bincount(torch.arange(4), weights=x.mean(0)).to(x.dtype)


GRADIENT_OVERRIDES = {
    under_no_grad: "torch.no_grad", with_grad_disabled: "torch.no_grad",
    in_inference_mode: "torch.no_grad",
    written_under_no_grad: "torch.no_grad", straight_through: "detach()",
    detached_in_place: "detach_()", through_data: ".data", through_copy: "torch.tensor(…)",
    with_tensor_hook: "register_hook(…)",
    GradientReversal.apply: "the autograd.Function GradientReversal",
    StoppedGradient.apply: "the autograd.Function StoppedGradient",
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("between", GRADIENT_OVERRIDES, ids=lambda one: one.__qualname__)
def test_code_that_changes_gradients_is_refused_with_its_line(between: Any) -> None:
    model = OverrideNet(between).eval()
    line = r" in forward at line \d+ of test_gradient_overrides.py: `.+`: it changes gradients"
    said = re.escape(f"'the model itself' calls {GRADIENT_OVERRIDES[between]}") + line
    for wrt in ("input", "first.weight", "first"):
        with pytest.raises(UnsupportedModel, match=said):
            nbglcnn.gradient(model, X, wrt=wrt)
    with pytest.raises(UnsupportedModel, match=said):
        nbglcnn.train(model, (X, X[:, :2]), batch_size=2, steps=1, progress=False)


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize("between",
                         [one for one in GRADIENT_OVERRIDES if one is not in_inference_mode],
                         ids=lambda one: one.__qualname__)  # fmt: skip
def test_a_gradient_behind_such_code_is_pytorchs(between: Any) -> None:
    model = OverrideNet(between).eval()
    model(X).sum().backward()
    found = nbglcnn.gradient(model, X, wrt=("last.weight", "last.bias"))
    for name in found:
        wanted = model.get_parameter(name).grad
        assert wanted is not None
        np.testing.assert_allclose(found[name], wanted.numpy(), atol=1e-5)
    result = nbglcnn.train(model, (X, X[:, :2]), batch_size=2, steps=1, progress=False,
                           parameters=["last"])  # fmt: skip
    model.zero_grad()
    F.mse_loss(model(X), X[:, :2]).backward()
    assert model.last.bias.grad is not None
    wanted = model.last.bias.grad.numpy()
    np.testing.assert_allclose(result.gradients["last.bias"], wanted, atol=1e-5)
    with pytest.raises(UnsupportedModel, match="it changes gradients"):
        result.gradients["x"]


class HarmlessOverrides(nn.Module):
    """Overrides (no_grad, detach, …) that end no gradient which the output depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            grid = torch.linspace(0, 1, 3) * self.scale
            mask = x > 0
        y = self.linear(x) * grid + torch.zeros_like(x) + grid.detach().type_as(x)
        return y * mask.float() + y.round() + x.new_ones(3) * torch.sign(y)


EMBEDDING_MODULES: dict[str, Callable[[Tensor], Tensor]] = {
    "a function": lambda x: F.embedding(EMBEDDING_INDICES, x, scale_grad_by_freq=True),
    "an operator": lambda x: torch.embedding(x, EMBEDDING_INDICES, -1, True),
    "bags": lambda x: F.embedding_bag(EMBEDDING_INDICES, x, scale_grad_by_freq=True),
}
EMBEDDING_INDICES = torch.tensor([[0, 1], [1, 1]])


@pytest.mark.parametrize("kind", EMBEDDING_MODULES)
def test_gradients_of_an_embedding_that_counts_its_rows_are_refused(kind: str) -> None:
    class Looked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.ones(3, 2))

        def forward(self, x: Tensor) -> Tensor:
            return EMBEDDING_MODULES[kind](self.table).sum() * x

    model = Looked().eval()
    with pytest.raises(UnsupportedModel, match=r"calls embedding\w*\(scale_grad_by_freq=True\)"):
        nbglcnn.gradient(model, X, wrt="table")
    (found,) = nbglcnn.gradient(model, X).values()
    assert found.any()  # the input's gradient, to which the table's doesn't contribute


def test_an_embedding_module_that_counts_its_rows_is_refused_by_name() -> None:
    model = nn.Sequential(nn.Embedding(3, 2, scale_grad_by_freq=True), nn.Linear(2, 2)).eval()
    words = "'0' calls embedding(scale_grad_by_freq=True) in forward: it changes gradients"
    with pytest.raises(UnsupportedModel, match=re.escape(words)):
        nbglcnn.gradient(model, EMBEDDING_INDICES, wrt="0.weight")
    with pytest.raises(UnsupportedModel, match=re.escape(words)):
        nbglcnn.train(
            model, (EMBEDDING_INDICES, torch.zeros(2, 2, 2)), batch_size=2, steps=1, progress=False
        )
    assert nbglcnn.gradient(model, EMBEDDING_INDICES, wrt="1.weight")["1.weight"].any()


def test_code_that_ends_no_gradient_is_not_refused() -> None:
    model, x = HarmlessOverrides().eval(), X.clone().requires_grad_()
    model(x).sum().backward()
    found = nbglcnn.gradient(model, X, wrt=("input", "linear.weight"))
    assert x.grad is not None and model.linear.weight.grad is not None
    np.testing.assert_allclose(found["input"], x.grad.numpy(), atol=1e-5)
    np.testing.assert_allclose(found["linear.weight"], model.linear.weight.grad.numpy(), atol=1e-5)


def assert_refused(model: nn.Module, wrt: str, *, trained: bool = True) -> None:
    """Check that `gradient` and `train` refuse the model and name the hook."""
    message = "has a backward hook.*: it changes gradients"
    with pytest.raises(UnsupportedModel, match=message):
        nbglcnn.gradient(model, X, wrt=wrt)
    if trained:
        with pytest.raises(UnsupportedModel, match=message):
            nbglcnn.train(model, (X, X[:, :2]), batch_size=2, steps=1, progress=False)


def test_backward_hooks_are_refused() -> None:
    def tripled(_: nn.Module, __: Any, given: Any) -> Any:
        return tuple(3 * one for one in given)

    model = OverrideNet(torch.relu).eval()
    handle = model.first.register_full_backward_hook(lambda module, dx, dy: tripled(module, dy, dx))
    assert_refused(model, "input")
    handle.remove()
    handle = model.last.register_full_backward_pre_hook(lambda module, dy: tripled(module, dy, dy))
    assert_refused(model, "first")
    handle.remove()
    handle = torch.nn.modules.module.register_module_full_backward_hook(
        lambda module, dx, dy: tripled(module, dy, dx)
    )
    assert_refused(model, "input")
    handle.remove()
    handle = model.first.weight.register_hook(lambda dy: 3 * dy)
    assert_refused(model, "first.weight")
    model(given := X.clone().requires_grad_()).sum().backward()
    assert given.grad is not None
    np.testing.assert_allclose(nbglcnn.gradient(model, X)["input"], given.grad.numpy(), atol=1e-5)


def test_arguments_by_name_and_a_preprocess_are_checked_too() -> None:
    class Named(nn.Module):
        def forward(self, x: Tensor, parts: dict[str, Tensor]) -> Tensor:
            return x * 2 + parts["a"].detach()

    given = {"x": X, "parts": {"a": X}}
    found = nbglcnn.gradient(Named().eval(), given, wrt="x")
    np.testing.assert_allclose(found["x"], 2)
    with pytest.raises(UnsupportedModel, match=re.escape("calls detach()")):
        nbglcnn.gradient(Named().eval(), given, wrt="parts['a']")

    class Pictured(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * x.detach()

    preprocess = nbglcnn.Preprocess(size=(4, 4), mean=0.5, std=0.5)
    picture = np.zeros((1, 3, 4, 4), np.float32)
    with pytest.raises(UnsupportedModel, match=re.escape("calls detach()")):
        nbglcnn.gradient(Pictured().eval(), picture, preprocess=preprocess)
