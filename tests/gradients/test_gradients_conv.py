"""Gradients of convolutions and matrix products in all forms, compared with torch.autograd."""

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.parametrize import register_parametrization

import nbglcnn
from gradient_checks import TOLERANCE, assert_gradients
from nbglcnn.ops import OPERATOR_RECORDS


def requires_rule(op: str) -> pytest.MarkDecorator:
    """Skip a test if the operator has no gradient rule yet."""
    return pytest.mark.skipif(
        isinstance(OPERATOR_RECORDS[op].gradient, str), reason=f"{op} has no gradient"
    )


class WeightedModules(nn.Module):
    """Modules with separate inputs in one Plan: the sum of their outputs, each weighted."""

    def __init__(self, parts: list[nn.Module], inputs: list[Tensor]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        for k, (part, x) in enumerate(zip(parts, inputs, strict=True)):
            self.register_buffer(f"factors{k}", torch.randn_like(part(x)))

    def forward(self, *inputs: Tensor) -> Tensor:
        total = torch.zeros(())
        for k, (part, x) in enumerate(zip(self.parts, inputs, strict=True)):
            total = total + (part(x) * self.get_buffer(f"factors{k}")).sum()
        return total


def assert_all_gradients(*forms: tuple[nn.Module, tuple[int, ...]]) -> None:
    parts, shapes = zip(*forms, strict=True)
    inputs = [torch.randn(shape) for shape in shapes]
    assert_gradients(WeightedModules([*parts], inputs), *inputs)


@pytest.fixture(autouse=True)
def seed_torch() -> None:
    torch.manual_seed(0)


def conv(*args, **options):
    return nn.Conv2d(*args, **options)


def conv_transpose(*args, **options):
    return nn.ConvTranspose2d(*args, **options)


CONVOLUTIONS = {
    "of maps": [
        (conv(5, 7, 1), (1, 5, 7, 5)),
        (conv(1, 1, 3), (2, 1, 5, 9)),
        (conv(3, 8, 3, padding=1), (3, 3, 1, 17)),
        (conv(3, 8, 3, padding=1), (2, 3, 17, 1)),
        (conv(9, 6, 4, 2, 1), (5, 9, 11, 13)),
        (conv(4, 6, (5, 3), (2, 3), (2, 1), (1, 2), bias=False), (1, 4, 15, 16)),
        (conv(3, 4, 1, stride=3), (1, 3, 10, 8)),
    ],
    "larger than their map, or as large": [
        (conv(4, 5, 4, 2, 1), (1, 4, 2, 2)),
        (conv(4, 5, 7, 3, 3), (3, 4, 2, 1)),
        (conv(8, 6, 5), (7, 8, 5, 5)),
        (conv(16, 1, 3, padding=1), (3, 16, 5, 6)),  # one channel, like the next three
        (conv(5, 1, (3, 4), padding=(1, 2)), (2, 5, 9, 10)),
        (conv(3, 1, 3, padding=2, dilation=2), (3, 3, 9, 10)),
        (conv(1, 2, (1, 7), stride=(2, 3), padding=(0, 6)), (3, 1, 9, 10)),
        (conv(3, 5, (4, 5), padding=(0, 1)), (3, 3, 9, 8)),  # this and the next: flipped kernel
        (conv(5, 2, (1, 7), padding=(0, 6)), (3, 5, 9, 8)),
        (conv(2, 9, 6, padding=(7, 2)), (2, 2, 6, 7)),  # not this one: too much padding
        (conv(3, 5, 9, padding=4, dilation=2, stride=2), (2, 3, 9, 11)),
    ],
    "of same padding": [
        (conv(3, 4, 3, padding="same", dilation=2), (1, 3, 9, 8)),
        (conv(3, 4, (5, 1), padding="same"), (2, 3, 9, 8)),
    ],
    "in groups": [
        (conv(16, 8, 3, groups=2, padding=1), (2, 16, 5, 5)),
        (conv(6, 10, 3, groups=2, padding=1), (3, 6, 5, 6)),
        (conv(3, 6, 3, groups=3), (1, 3, 5, 6)),
        (conv(12, 8, 2, 2, groups=4), (2, 12, 6, 7)),
    ],
    "of a channel each": [
        (conv(6, 6, 3, padding=1, groups=6), (2, 6, 7, 5)),
        (conv(5, 5, 3, 2, 2, 2, groups=5), (5, 5, 12, 13)),
        (conv_transpose(5, 5, 4, 2, 1, groups=5), (1, 5, 4, 3)),
    ],
    "transposed": [
        (conv_transpose(6, 5, 4, 2, 1), (5, 6, 7, 5)),
        (conv_transpose(8, 5, 4, 2, 1), (1, 8, 1, 1)),
        (conv_transpose(16, 9, 7), (3, 16, 1, 1)),
        (conv_transpose(3, 5, 3, padding=1), (1, 3, 6, 7)),
        (conv_transpose(3, 5, 3, 3, 1, 2), (2, 3, 5, 4)),
        (conv_transpose(4, 4, (3, 2), (2, 1), (1, 0), (1, 0), dilation=(1, 2)), (1, 4, 5, 6)),
        (conv_transpose(3, 4, 2, 3), (1, 3, 4, 5)),
        (conv_transpose(3, 4, 3, 2, 1, output_padding=2, dilation=3), (2, 3, 5, 5)),
        (conv_transpose(3, 4, 3, (1, 2), 1, output_padding=(1, 2), dilation=3), (2, 3, 5, 5)),
    ],
    "of what a transposed one gives, whose phases lie apart": [
        (nn.Sequential(conv_transpose(3, 4, 4, 2, 1), conv(4, 5, 3, padding=1)), (2, 3, 5, 6)),
        (nn.Sequential(conv_transpose(3, 4, 5, 3, 1), conv(4, 4, 3, 2, groups=4)), (1, 3, 6, 5)),
        (nn.Sequential(conv_transpose(3, 4, 4, 2, 1), conv_transpose(4, 3, 5, 3, 2)), (2, 3, 4, 5)),
    ],
    "transposed in groups": [
        (conv_transpose(8, 16, 4, 2, 1, groups=2), (1, 8, 5, 6)),
        (conv_transpose(6, 4, 3, 2, groups=2), (3, 6, 4, 5)),
        (conv_transpose(3, 6, 3, 2, groups=3, bias=False), (1, 3, 4, 5)),
    ],
    "of lines": [
        (nn.Conv1d(3, 5, 5, stride=2, padding=2), (5, 3, 33)),
        (nn.Conv1d(8, 8, 3, dilation=4, groups=2), (1, 8, 30)),
        (nn.Conv1d(3, 4, 1), (2, 3, 1)),
        (nn.ConvTranspose1d(4, 3, 4, 2, 1), (2, 4, 9)),
        (nn.ConvTranspose1d(6, 6, 5, 3, groups=6, output_padding=1), (2, 6, 9)),
    ],
    "of volumes": [
        (nn.Conv3d(3, 5, 3, padding=1), (2, 3, 5, 7, 9)),
        (nn.Conv3d(5, 7, (2, 3, 4), (2, 1, 3), (1, 2, 3), (3, 2, 1)), (1, 5, 8, 7, 13)),
        (nn.Conv3d(6, 5, (3, 4, 5)), (5, 6, 3, 4, 5)),
        (nn.Conv3d(8, 12, 3, groups=2, dilation=(1, 1, 2)), (1, 8, 4, 5, 7)),
        (nn.Conv3d(4, 5, (1, 2, 2), (1, 2, 2)), (3, 4, 3, 6, 8)),
    ],
    "of volumes in groups": [
        (nn.Conv3d(5, 5, 3, (1, 2, 2), 1, groups=5), (1, 5, 4, 7, 9)),
        (nn.Conv3d(6, 10, 2, groups=2, padding=1), (2, 6, 3, 4, 5)),
    ],
    "of volumes, transposed": [
        (nn.ConvTranspose3d(3, 5, 4, 2, 1), (2, 3, 3, 5, 4)),
        (
            nn.ConvTranspose3d(
                5, 3, (3, 2, 3), (2, 3, 1), (1, 0, 2), (1, 2, 0), dilation=(1, 2, 2)
            ),
            (1, 5, 3, 4, 6),
        ),
        (nn.ConvTranspose3d(6, 4, 3, (1, 2, 3), groups=2), (1, 6, 2, 3, 4)),
    ],
}  # fmt: skip


@pytest.mark.parametrize("forms", CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_convolutions(forms) -> None:
    assert_all_gradients(*forms)


@requires_rule("Pad")
def test_same_padding_of_even_kernels() -> None:
    assert_all_gradients(
        (conv(3, 4, 4, padding="same"), (1, 3, 9, 8)),
        (conv(3, 4, (2, 4), padding="same", dilation=3), (2, 3, 9, 8)),
        (conv(3, 4, 3, padding=1, padding_mode="reflect"), (1, 3, 6, 7)),
    )


def test_maps_whose_sums_go_in_strips_of_rows_and_columns() -> None:
    assert_all_gradients(
        (conv(3, 2, 3, padding=1), (2, 3, 90, 70)),
        (conv(6, 6, 3, 2, groups=6), (5, 6, 67, 61)),
        (conv(4, 6, 3, groups=2), (1, 4, 80, 60)),
        (nn.Conv1d(2, 3, 5, 2), (1, 2, 40_001)),
    )


class PaddedConv(nn.Module):
    """An ONNX convolution's window attributes in torch: asymmetric padding, cropped edges."""

    def __init__(self, op, weight, *, pads, group=1, strides=(1, 1), dilations=(1, 1), output=None):
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.op, self.group, self.strides, self.dilations = op, group, strides, dilations
        self.pads, self.output = pads, output

    def forward(self, x):
        top, left, bottom, right = self.pads
        if self.op == "Conv":
            x = pad(x, (left, right, top, bottom))
            return torch.conv2d(x, self.weight, None, self.strides, 0, self.dilations, self.group)
        y = torch.conv_transpose2d(
            x, self.weight, None, self.strides, 0, 0, self.group, self.dilations
        )
        # Negative padding appends zeros that no kernel window covers: ONNX's output_padding.
        return pad(y, (-left, -right, -top, -bottom))


CONVOLUTION_WINDOWS = {
    "asymmetric pads": (
        "Conv", (2, 3, 7, 6), (5, 3, 3, 3),
        {"pads": [0, 1, 2, 3]}, (0, 1, 2, 3),
    ),
    "SAME_LOWER of stride 2": (
        "Conv", (1, 3, 7, 6), (5, 3, 4, 4),
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]}, (2, 1, 1, 1),
    ),
    "asymmetric pads, transposed": (
        "ConvTranspose", (1, 3, 5, 4), (3, 2, 3, 4),
        {"strides": [2, 2], "pads": [0, 1, 2, 3]}, (0, 1, 2, 3),
    ),
    "output_padding of two strides and more, transposed": (
        "ConvTranspose", (2, 3, 4, 5), (3, 2, 3, 4),
        {"strides": [1, 2], "output_padding": [2, 5]}, (0, 0, -2, -5),
    ),
    "output_shape, transposed": (
        "ConvTranspose", (1, 3, 5, 4), (3, 2, 3, 3),
        {"strides": [3, 2], "output_shape": [17, 9]}, (-1, 0, -1, 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONVOLUTION_WINDOWS)
def test_windows_that_only_onnx_has(name) -> None:
    op, shape, weights, attributes, pads = CONVOLUTION_WINDOWS[name]
    x, weight = torch.randn(shape), torch.randn(weights)
    model = PaddedConv(op, weight, pads=pads, strides=attributes.get("strides", (1, 1))).double()
    given = x.double().requires_grad_()
    y = model(given)
    factors = torch.randn(y.shape)
    (y * factors).sum().backward()
    graph = helper.make_graph(
        [
            helper.make_node(op, ["x", "weight"], ["y"], **attributes),
            helper.make_node("Mul", ["y", "factors"], ["z"]),
        ],
        "window",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, tuple(y.shape))],
        [
            numpy_helper.from_array(one.numpy(), name)
            for name, one in (("weight", weight), ("factors", factors))
        ],
    )
    onnx_model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    found = nbglcnn.gradient(onnx_model, x, of="z", wrt=("x", "weight"))
    for key, right in (("x", given.grad), ("weight", model.weight.grad)):
        assert right is not None
        largest = float(right.abs().max())
        np.testing.assert_allclose(found[key], right.numpy(), atol=TOLERANCE * largest, rtol=0)


class MatrixProduct(nn.Module):
    """The product with a parameter matrix, on the right or on the left."""

    def __init__(self, *shape: int, left: bool = False) -> None:
        super().__init__()
        self.matrix, self.left = nn.Parameter(torch.randn(shape)), left

    def forward(self, x: Tensor) -> Tensor:
        return self.matrix @ x if self.left else x @ self.matrix


MATRIX_PRODUCT_CASES = {
    "linear": [
        (nn.Linear(5, 7), (3, 5)),
        (nn.Linear(13, 1, bias=False), (1, 13)),
        (nn.Linear(6, 9), (2, 5, 6)),
        (nn.Linear(3, 4), (2, 2, 3, 3)),
        (nn.Sequential(nn.Flatten(), nn.Linear(42, 5)), (5, 3, 2, 7)),
    ],
    "two matrices": [
        (MatrixProduct(5, 3), (7, 5)),
        (MatrixProduct(7, 5, left=True), (5, 3)),
        (MatrixProduct(5, 1), (1, 5)),
    ],
    "vectors": [
        (MatrixProduct(5), (7, 5)),
        (MatrixProduct(5), (5,)),
        (MatrixProduct(5, 3), (5,)),
        (MatrixProduct(5, left=True), (5, 6)),
        (MatrixProduct(5), (2, 3, 5)),
        (MatrixProduct(2, 5, 3), (5,)),
    ],
    "batches": [
        (MatrixProduct(2, 5, 3), (2, 4, 5)),
        (MatrixProduct(5, 3), (2, 4, 5)),
        (MatrixProduct(2, 1, 5, 3), (3, 4, 5)),
        (MatrixProduct(3, 1, 4, 5, left=True), (2, 5, 6)),
        (MatrixProduct(1, 5, 3), (2, 1, 4, 5)),
    ],
}


@pytest.mark.parametrize("name", MATRIX_PRODUCT_CASES)
def test_matrix_products(name) -> None:
    assert_all_gradients(*MATRIX_PRODUCT_CASES[name])


class SelfProduct(nn.Module):
    """The product of a value with itself."""

    def forward(self, x: Tensor) -> Tensor:
        return x @ x


def test_a_matrix_times_itself() -> None:
    assert_all_gradients((SelfProduct(), (5, 5)), (SelfProduct(), (2, 3, 3)), (SelfProduct(), (7,)))


@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_gemm_with_factors_and_either_matrix_turned(turned) -> None:
    a, b, c = torch.randn(3, 5), torch.randn(5, 7), torch.randn(7)
    factors, given = torch.randn(3, 7), [one.double().requires_grad_() for one in (a, b, c)]
    y = 0.5 * given[0] @ given[1] - 1.5 * given[2]
    (y * factors).sum().backward()
    stored = [one.T.contiguous() if k else one for one, k in zip((a, b), turned, strict=True)]
    graph = helper.make_graph(
        [
            helper.make_node(
                "Gemm", ["a", "b", "c"], ["y"],
                alpha=0.5, beta=-1.5, transA=turned[0], transB=turned[1],
            ),
            helper.make_node("Mul", ["y", "factors"], ["z"]),
        ],
        "gemm",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, tuple(stored[0].shape))],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, (3, 7))],
        [
            numpy_helper.from_array(one.numpy(), name)
            for name, one in (("b", stored[1]), ("c", c), ("factors", factors))
        ],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    found = nbglcnn.gradient(model, stored[0], of="z", wrt=("a", "b", "c"))
    for key, one, k in zip("abc", given, (*turned, 0), strict=True):
        right = (one.grad.T if k else one.grad).numpy()
        np.testing.assert_allclose(found[key], right, atol=TOLERANCE * abs(right).max(), rtol=0)


class TiedAutoencoder(nn.Module):
    """An autoencoder whose decoder shares the encoder's filters."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = conv(3, 8, 4, 2, 1), conv_transpose(8, 3, 4, 2, 1)
        self.decoder.weight = self.encoder.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(torch.relu(self.encoder(x)))


def test_tied_filters_have_the_sum_of_both_uses() -> None:
    assert_gradients(TiedAutoencoder(), torch.randn(2, 3, 8, 6))


class ScaledFilter(nn.Module):
    """A filter computed from another: each output channel is scaled by a parameter."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.rand(channels) + 0.5)

    def forward(self, weight: Tensor) -> Tensor:
        return weight * self.factor.reshape(-1, *[1] * (weight.dim() - 1))


def parametrized_convs(scaled) -> nn.Module:
    return nn.Sequential(
        scaled(conv(3, 5, 3), 5), nn.ReLU(), scaled(conv_transpose(5, 4, 2, 2), 5), nn.Flatten(),
        scaled(nn.Linear(4 * 6 * 8, 3), 3),
    )  # fmt: skip


def test_what_a_filter_was_computed_of() -> None:
    model = parametrized_convs(
        lambda part, n: register_parametrization(part, "weight", ScaledFilter(n))
    )
    found = assert_gradients(model, torch.randn(2, 3, 5, 6))
    assert found["model.0.parametrizations.weight.0.factor"].any()


@requires_rule("ReduceL2")
def test_filters_of_weight_norm() -> None:
    model = parametrized_convs(lambda part, _: weight_norm(part))
    with torch.no_grad():
        for name, one in model.named_parameters():
            if "original0" in name:
                one.mul_(torch.rand_like(one) + 0.5)
    assert_gradients(model, torch.randn(2, 3, 5, 6))
