"""Gradients of operators that sample maps at grids and boxes, and of the reverse operators."""

import numpy as np
import onnx
import pytest
import torch
from cases.pool import UnpoolAutoencoder
from cases.sample import Warp, boxes
from torch import Tensor, nn
from torch.nn import functional as F

import nbglcnn
from gradient_checks import assert_gradients
from nbglcnn.errors import UnsupportedOperator
from operator_gradients import RNG, GradientCase, assert_operator_gradients, int_vector, uniform
from sampling_gradients import (
    COL2IM_CASES,
    MAX_UNPOOL_CASES,
    ROI_ALIGN_CASES,
    TORCH_MODES,
    grid_sample_case,
    grid_sample_cases,
)

RNG_STATE = RNG.bit_generator.state
PADDINGS = ("zeros", "border", "reflection")


@pytest.fixture(autouse=True)
def reset_rng() -> None:
    """Make random numbers independent of the tests that run before."""
    RNG.bit_generator.state = RNG_STATE


@pytest.mark.parametrize("mode", TORCH_MODES)
@pytest.mark.parametrize("padding", PADDINGS)
def test_maps_sampled_within_and_far_beyond(mode: str, padding: str) -> None:
    assert_operator_gradients(grid_sample_cases(mode, padding))


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_volumes_sampled_within_and_far_beyond(mode: str) -> None:
    assert_operator_gradients([
        grid_sample_case(mode, padding, padding == "border", uniform(-1, 1, 2, 3, 2, 4, 3),
                         uniform(-1.7, 1.7, 2, 2, 3, 5, 3))
        for padding in PADDINGS
    ])  # fmt: skip


def cubic_volume_sample(x: Tensor, grid: Tensor) -> Tensor:
    """Volumes sampled cubically along each axis, zeros outside; torch has no equivalent."""
    shares = []
    for axis, size in enumerate(x.shape[:1:-1]):
        d = (((grid[..., axis, None] + 1) * size - 1) / 2 - torch.arange(size)).abs()
        near = (1.25 * d - 2.25) * d * d + 1
        far = ((-0.75 * d + 3.75) * d - 6) * d + 3
        shares.append(torch.where(d <= 1, near, torch.where(d <= 2, far, 0)))
    return torch.einsum("nczyx,ndhwx,ndhwy,ndhwz->ncdhw", x, *shares)


def test_volumes_sampled_by_cubic_mixtures() -> None:
    grid = uniform(-1.5, 1.5, 2, 2, 3, 5, 3)
    assert_operator_gradients(
        [
            GradientCase(
                "GridSample",
                cubic_volume_sample,
                [uniform(-1, 1, 2, 3, 3, 4, 5), grid],
                {"mode": "cubic"},
            )
        ]
    )


def test_samples_just_on_pixels_and_on_the_edge() -> None:
    line = torch.linspace(-1, 1, 5)
    grid = torch.stack(torch.meshgrid(line, 1.5 * line, indexing="xy"), -1)[None].numpy()
    x = uniform(-1, 1, 1, 3, 5, 5)
    assert_operator_gradients(
        [grid_sample_case("linear", padding, 1, x, grid) for padding in PADDINGS]
    )


def test_more_samples_than_a_pass_looks_at() -> None:
    x, grid = uniform(-1, 1, 1, 3, 5, 7), uniform(-1.2, 1.2, 1, 97, 101, 2)
    assert_operator_gradients([grid_sample_case("linear", "border", 0, x, grid)])


def test_a_spatial_transformer() -> None:
    class Turned(nn.Module):
        def forward(self, x: Tensor, theta: Tensor) -> Tensor:
            return Warp()(x, theta)[1]

    torch.manual_seed(0)
    assert_gradients(Turned(), torch.randn(2, 3, 5, 7), torch.randn(2, 2, 3))


def test_maps_of_boxes_have_gradients_and_boxes_none() -> None:
    assert_operator_gradients(ROI_ALIGN_CASES)


def test_the_largest_share_of_a_bin_has_no_gradient() -> None:
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("RoiAlign", ["x", "boxes", "images"], ["y"], "boxes", mode="max")],
        "regions",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 1, 4, 4))],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(boxes(1), "boxes"),
         onnx.numpy_helper.from_array(np.array([0]), "images")],
    )  # fmt: skip
    opset = [onnx.helper.make_opsetid("", 16)]
    model = onnx.helper.make_model(graph, opset_imports=opset, ir_version=10)
    said = "^boxes: RoiAlign with mode='max' has no gradient; avg has"
    with pytest.raises(UnsupportedOperator, match=said):
        nbglcnn.gradient(model, uniform(-1, 1, 1, 1, 4, 4), "y", wrt="x")


def test_windows_that_are_added_where_they_came_from() -> None:
    assert_operator_gradients(COL2IM_CASES)


def test_windows_that_leave_a_rest_of_the_image() -> None:
    right = lambda x: F.fold(x, (7, 8), 3, stride=3, padding=1)  # noqa: E731
    x = uniform(-1, 1, 1, 18, 9)
    attributes = {"strides": (3, 3), "pads": (1, 1, 1, 1)}
    assert_operator_gradients(
        [GradientCase("Col2Im", right, [x, int_vector(7, 8), int_vector(3, 3)], attributes)]
    )


@pytest.mark.parametrize(
    ("axes", "window", "shape"),
    [(1, 2, (2, 2, 16)), (2, (2, 3), (1, 2, 8, 9)), (3, 2, (1, 2, 4, 6, 8))],
)
def test_largest_elements_that_are_put_back(
    axes: int, window: int | tuple[int, ...], shape: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    assert_gradients(UnpoolAutoencoder(axes, window), torch.randn(shape))


def test_elements_that_are_put_to_any_place() -> None:
    assert_operator_gradients(MAX_UNPOOL_CASES)
