"""Gradients of normalizations and pools, compared with torch.autograd."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import Tensor, nn
from torch.nn import functional as F

import nbglcnn
from gradient_checks import assert_gradients


def with_random_statistics(module: nn.Module) -> nn.Module:
    """Give the module non-trivial parameters and statistics."""
    generator = torch.Generator().manual_seed(3)
    for name, one in [*module.named_parameters(), *module.named_buffers()]:
        if one.is_floating_point():
            one.data = torch.rand(one.shape, generator=generator) + (0.3 if "var" in name else -0.4)
    return module


NORM_CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "batch 2-D": (lambda: nn.BatchNorm2d(5), (3, 5, 4, 7)),
    "batch 1-D": (lambda: nn.BatchNorm1d(6), (4, 6, 5)),
    "batch of rows": (lambda: nn.BatchNorm1d(6), (4, 6)),
    "batch without affine": (lambda: nn.BatchNorm2d(3, affine=False), (2, 3, 5, 3)),
    "instance": (lambda: nn.InstanceNorm2d(5, affine=True), (2, 5, 3, 7)),
    "group": (lambda: nn.GroupNorm(3, 6), (2, 6, 3, 5)),
    "group of one channel": (lambda: nn.GroupNorm(6, 6), (2, 6, 7)),
    "layer": (lambda: nn.LayerNorm(7), (2, 5, 7)),
    "layer of two axes": (lambda: nn.LayerNorm((5, 6)), (2, 3, 5, 6)),
    "layer without affine": (lambda: nn.LayerNorm(9, elementwise_affine=False), (4, 9)),
    "root mean square": (lambda: nn.RMSNorm(7, eps=1e-5), (2, 5, 7)),
}


@pytest.mark.parametrize("name", NORM_CASES)
def test_normalizations(name: str) -> None:
    make, shape = NORM_CASES[name]
    torch.manual_seed(1)
    assert_gradients(with_random_statistics(make()), torch.randn(shape) * 2 + 1)


def test_a_large_mean_costs_no_digits() -> None:
    torch.manual_seed(1)
    assert_gradients(with_random_statistics(nn.GroupNorm(2, 4)), torch.randn(2, 4, 5, 5) + 100)


def node_model(
    op: str, arrays: dict[str, np.ndarray], *more: str, **attributes: object
) -> onnx.ModelProto:
    """A network of one ONNX node, whose output is multiplied by `factors`."""
    names = [name for name in arrays if name != "factors"]
    shape = arrays["factors"].shape
    graph = helper.make_graph(
        [
            helper.make_node(op, names, ["y", *more], **attributes),
            helper.make_node("Mul", ["y", "factors"], ["output"]),
        ],
        "one",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape)
            for name, array in arrays.items()
        ],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, shape)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def assert_gradients_equal(
    model: onnx.ModelProto, arrays: dict[str, np.ndarray], reference_function: Callable[..., Tensor]
) -> None:
    """Check the gradients of all inputs but `factors` against those of a torch function."""
    names = [name for name in arrays if name != "factors"]
    inputs = [torch.tensor(arrays[name], dtype=torch.float64, requires_grad=True) for name in names]
    (reference_function(*inputs) * torch.tensor(arrays["factors"])).sum().backward()
    found = nbglcnn.gradient(model, arrays, wrt=names)
    for name, one in zip(names, inputs, strict=True):
        assert one.grad is not None
        truth = one.grad.numpy()
        np.testing.assert_allclose(found[name], truth, atol=1e-5 * np.abs(truth).max())


def random_array(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(3, 5, 4, 3), (6, 4)])
def test_batch_statistics(shape: tuple[int, ...]) -> None:
    channels = shape[1]
    arrays = {
        "x": random_array(*shape) + 3, "scale": random_array(channels, seed=1),
        "bias": random_array(channels, seed=2),
        "mean": np.zeros(channels, np.float32), "var": np.ones(channels, np.float32),
        "factors": random_array(*shape, seed=3),
    }  # fmt: skip
    model = node_model("BatchNormalization", arrays, "mean_now", "var_now", training_mode=1)

    def reference_function(
        x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor
    ) -> Tensor:
        return F.batch_norm(x, None, None, scale, bias, training=True) + 0 * (mean + var).sum()

    assert_gradients_equal(model, arrays, reference_function)


@pytest.mark.parametrize(("p", "axis"), [(1, 1), (2, -1), (2, 0)])
def test_lengths(p: int, axis: int) -> None:
    arrays = {"x": random_array(3, 5, 4), "factors": random_array(3, 5, 4, seed=1)}
    model = node_model("LpNormalization", arrays, p=p, axis=axis)
    assert_gradients_equal(model, arrays, lambda x: x / x.norm(p=p, dim=axis, keepdim=True))


@pytest.mark.parametrize("size", [3, 4])
def test_neighbouring_channels(size: int) -> None:
    torch.manual_seed(1)
    assert_gradients(nn.LocalResponseNorm(size, alpha=0.5, k=1.5), torch.randn(2, 6, 3, 4))


def test_mean_and_variance() -> None:
    arrays = {"x": random_array(2, 3, 5, 4), "factors": random_array(2, 3, 5, 4, seed=1)}

    def reference_function(x: Tensor) -> Tensor:
        apart = x - x.mean((0, 2, 3), keepdim=True)
        return apart / ((apart * apart).mean((0, 2, 3), keepdim=True).sqrt() + 1e-9)

    assert_gradients_equal(
        node_model("MeanVarianceNormalization", arrays), arrays, reference_function
    )


POOL_CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "max": (lambda: nn.MaxPool2d(2), (2, 5, 6, 8)),
    "max, with a rest": (lambda: nn.MaxPool2d(2), (3, 6, 7, 5)),
    "max of two, rounded up": (lambda: nn.MaxPool2d(2, ceil_mode=True), (2, 5, 7, 5)),
    "max, overlapping": (lambda: nn.MaxPool2d(3, 2, 1), (2, 5, 7, 9)),
    "max, dilated": (lambda: nn.MaxPool2d((2, 3), 1, dilation=(2, 1)), (1, 3, 7, 5)),
    "max, rounded up": (lambda: nn.MaxPool2d(3, 2, ceil_mode=True), (1, 3, 6, 8)),
    "max 1-D": (lambda: nn.MaxPool1d(3, 2), (2, 3, 11)),
    "max 3-D": (lambda: nn.MaxPool3d((2, 3, 2), (1, 2, 2), (1, 1, 0)), (1, 3, 4, 5, 6)),
    "max of all": (lambda: nn.AdaptiveMaxPool2d(1), (2, 5, 4, 7)),
    "mean": (lambda: nn.AvgPool2d(2), (2, 5, 6, 8)),
    "mean, overlapping": (lambda: nn.AvgPool2d(3, 2, 1), (2, 5, 7, 9)),
    "mean without padding": (
        lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False), (1, 5, 7, 8),
    ),
    "mean, rounded up": (lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True), (1, 3, 6, 8)),
    "mean 1-D": (lambda: nn.AvgPool1d(4, 3, 1), (2, 3, 12)),
    "mean 3-D": (lambda: nn.AvgPool3d(2, (1, 2, 1)), (1, 3, 4, 5, 3)),
    "mean of all": (lambda: nn.AdaptiveAvgPool2d(1), (2, 5, 4, 7)),
    "adaptive mean": (lambda: nn.AdaptiveAvgPool2d((3, 2)), (1, 5, 7, 5)),
    "2-norm": (lambda: nn.LPPool2d(2, 3, 2), (1, 3, 7, 7)),
}  # fmt: skip


@pytest.mark.parametrize("name", POOL_CASES)
def test_pools(name: str) -> None:
    make, shape = POOL_CASES[name]
    torch.manual_seed(1)
    x = torch.randn(shape)
    assert_gradients(make(), x.abs() + 0.1 if "norm" in name else x)


def test_of_equal_elements_the_first_has_the_gradient() -> None:
    x = torch.zeros(1, 2, 5, 6)
    x[0, 0, 2, 3] = x[0, 0, 3, 2] = x[0, 1, 1, 1] = 1
    assert_gradients(nn.MaxPool2d(3, 2, 1), x)
    few = torch.randint(0, 2, (2, 5, 7, 8)).float()
    for pool in (nn.MaxPool2d(2), nn.MaxPool2d(2, ceil_mode=True)):
        assert_gradients(pool, few)
    # Values computed outside the pool's map, which nothing reads, do not contribute.
    assert_gradients(nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(5, 6, 3, padding=1)), few)
    assert_gradients(nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(5, 6, 1, bias=False)), few + 1)


class AdaptivePools(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.adaptive_max_pool2d(x, (3, 2))


def test_an_adaptive_pool_of_the_largest() -> None:
    torch.manual_seed(2)
    assert_gradients(AdaptivePools(), torch.randn(1, 5, 7, 5))
