"""Gradients of inputs, layers and parameters, compared with torch.autograd."""

import re

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

import nbglcnn
from gradient_checks import assert_gradients
from nbglcnn.errors import InputError, UnsupportedOperator
from nbglcnn.gradients.autodiff import differentiate, make_gradient_builder
from nbglcnn.load import load


def small_cnn() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(8, 6, 3, padding=1, groups=2),
        nn.Tanh(),
        nn.ConvTranspose2d(6, 5, 4, 2, 1),
        nn.Sigmoid(),
        nn.Flatten(),
        nn.Linear(5 * 6 * 8, 7),
    ).eval()


def test_a_networks_inputs_and_parameters() -> None:
    assert_gradients(small_cnn(), torch.randn(2, 3, 5, 7))


def test_layers_and_a_chosen_element() -> None:
    model, x = small_cnn(), torch.randn(2, 3, 5, 7)
    found = nbglcnn.gradient(model, x, index=(1, 3), wrt=("input", "0", "2"))
    given = x.clone().requires_grad_()
    first = model[0](given)
    second = model[2](model[1](first))
    right = torch.autograd.grad(model[3:](second)[1, 3], (given, first, second))
    for name, one in zip(("input", "0", "2"), right, strict=True):
        np.testing.assert_allclose(found[name], one.numpy(), atol=1e-5 * float(one.abs().max()))
    assert not found["input"][0].any()


class UsedTwice(nn.Module):
    """A value that is used three times, and a parameter that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        return self.conv(y) * y + y


def test_an_element_that_is_named_twice_counts_twice() -> None:
    x = torch.rand(3, 2)
    for index in ((0, [1, 1]), [0, 0, -3], (slice(None), [1, 1]), ([0, 2, 0], [1, 1, 1])):
        given = x.clone().requires_grad_()
        given[index].sum().backward()
        found = nbglcnn.gradient(nn.Identity().eval(), x, index=index)["input"]
        np.testing.assert_array_equal(found, given.grad.numpy())


def test_what_is_used_more_than_once_has_the_sum() -> None:
    assert_gradients(UsedTwice(), torch.randn(1, 3, 5, 6))


def test_what_nothing_depends_on_has_zeros() -> None:
    model = small_cnn()
    found = nbglcnn.gradient(model, torch.randn(1, 3, 5, 7), of="0", wrt=("2", "7.weight"))
    assert found["2"].shape == (1, 6, 3, 4) and not found["2"].any()
    assert found["7.weight"].shape == (7, 240) and not found["7.weight"].any()


def test_what_cannot_be_asked_is_said() -> None:
    model, x = small_cnn(), torch.randn(1, 3, 5, 7)
    with pytest.raises(KeyError, match="'encoder' is not a value of this network"):
        nbglcnn.gradient(model, x, wrt="encoder")
    with pytest.raises(InputError, match=re.escape("index=(0, 9) does not fit output")):
        nbglcnn.gradient(model, x, index=(0, 9))


def test_an_onnx_file_with_names_of_its_own() -> None:
    graph = helper.make_graph(
        [helper.make_node("Mul", ["a", "a"], ["square"])],
        "square",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, (2, 3))],
        [helper.make_tensor_value_info("square", TensorProto.FLOAT, (2, 3))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = nbglcnn.gradient(model, x, wrt=("input", "a"))
    np.testing.assert_allclose(found["input"], 2 * x)
    np.testing.assert_allclose(found["a"], 2 * x)


def test_several_inputs_and_one_of_integers() -> None:
    class Chosen(nn.Module):
        def forward(self, which: Tensor, x: Tensor) -> Tensor:
            return x[which] * x.mean()

    which, x = torch.tensor([2, 0]), torch.randn(3, 4)
    assert_gradients(Chosen(), which, x)
    with pytest.raises(InputError, match="which is int64; only real values have gradients"):
        nbglcnn.gradient(Chosen().eval(), (which, x), wrt="which")


def test_noise_is_seeded_and_can_be_asked_for() -> None:
    class Drawn(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * torch.randn_like(x)

    model, x = Drawn().eval(), torch.full((2, 3), 2.0)
    found = nbglcnn.gradient(model, x, wrt=("input", "noise"))
    again = nbglcnn.gradient(model, x)["input"]
    np.testing.assert_array_equal(found["input"], again)
    np.testing.assert_allclose(found["noise"], 2.0)
    noise = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_allclose(nbglcnn.gradient(model, (x, noise))["input"], noise)


def test_what_has_no_gradient_is_named_before_anything_runs() -> None:
    graph = helper.make_graph(
        [
            helper.make_node("Mul", ["x", "w"], ["y"], "scaled"),
            helper.make_node("Hardmax", ["y"], ["z"], "one hot"),
            helper.make_node("Add", ["z", "y"], ["sum"], "sum"),
        ],
        "jumps",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3))],
        [helper.make_tensor_value_info("sum", TensorProto.FLOAT, (2, 3))],
        [numpy_helper.from_array(np.float32([1, 2, 3]), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.float32([[1, 5, 2], [0, 3, 3]])
    loaded, _ = load(model, x)
    rules = make_gradient_builder(loaded)
    seeds = {"sum": rules.full((2, 3), 1)}
    with pytest.raises(
        UnsupportedOperator, match=r"^one hot: Hardmax has no gradient: it is piecewise constant"
    ):
        differentiate(rules, loaded, seeds, ["x"])
    assert not rules.nodes  # no node was added, nothing was lowered
    for wrt in ("x", "w", "y"):
        with pytest.raises(UnsupportedOperator, match=r"^one hot: Hardmax has no gradient"):
            nbglcnn.gradient(model, x, of="sum", wrt=wrt)
    # Gradients before and after it exist.
    np.testing.assert_array_equal(nbglcnn.gradient(model, x, "y", wrt="w")["w"], x.sum(0))
    np.testing.assert_array_equal(nbglcnn.gradient(model, x, wrt="z")["z"], np.ones((2, 3)))


def test_layers_on_each_others_way_have_each_its_whole_gradient() -> None:
    """`wrt` includes the output itself; a value with two consumers gets the sum of gradients."""
    model, x = UsedTwice().eval(), torch.randn(1, 3, 5, 6)
    given = x.clone().requires_grad_()
    first = model.conv(given)
    second = model.conv(first)
    total = (second * first + first)[0, 1].sum()
    right = torch.autograd.grad(total, (given, first, second))
    names = ("input", "conv", "conv:1")
    found = nbglcnn.gradient(model, x, index=(0, 1), wrt=(*names, "output"))
    for name, one in zip(names, right, strict=True):
        largest = float(one.abs().max())
        np.testing.assert_allclose(found[name], one.numpy(), atol=1e-5 * largest, err_msg=name)
    ones = np.zeros((1, 3, 5, 6), np.float32)
    ones[0, 1] = 1
    np.testing.assert_array_equal(found["output"], ones)
