"""Sums and searches that exceed llvmpipe's silent loop limit (65,535 iterations per fragment)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from torch import nn
from torch.nn import functional as F

import nbglcnn
from gradient_checks import assert_gradients
from nbglcnn import Session, UnsupportedOperator

MANY_ITERATIONS = 6000  # indices: llvmpipe's loops over 16 elements end at 4,096


def assert_verified(model: object, x: object) -> None:
    with Session(nbglcnn.compile(model, x)) as session:
        report = nbglcnn.verify(session, model, x)
    assert report.ok, str(report)


def node_model(op: str, inputs: Sequence[np.ndarray], **attributes: object) -> onnx.ModelProto:
    """A model of one operator, whose inputs are all fed at run time."""
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for name, a in zip("abc", inputs, strict=False)
    ]
    names = [info.name for info in infos]
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], **attributes)], op, infos, [output]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_many_updates_are_all_written(reduction: str) -> None:
    random = np.random.default_rng(0)
    data, updates = random.random(6500, np.float32), random.random(MANY_ITERATIONS, np.float32)
    places = random.permutation(len(data))[:MANY_ITERATIONS]
    if reduction != "none":
        places[MANY_ITERATIONS // 2 :] = places[
            : MANY_ITERATIONS // 2
        ]  # two updates per position, in separate passes: both count
    arrays = (data, places[:, None], updates)
    assert_verified(node_model("ScatterND", arrays, reduction=reduction), arrays)


@pytest.mark.parametrize("named", [1, 2, 3])
def test_many_updates_of_places_named_by_several_indices_are_all_written(named: int) -> None:
    """For each row, the loop over its indices takes one more iteration to end."""
    random = np.random.default_rng(11)
    shape = (14, 13, 3, 2)
    data, updates = (
        random.random(shape, np.float32),
        random.random((4000, *shape[named:]), np.float32),
    )
    places = np.stack([random.integers(0, n, 4000) for n in shape[:named]], -1)
    arrays = (data, places, updates)
    assert_verified(node_model("ScatterND", arrays, reduction="add"), arrays)


@pytest.mark.parametrize("side", [17, 41])
def test_the_gradient_of_a_pool_of_many_windows_over_each_pixel(side: int) -> None:
    torch.manual_seed(12)
    assert_gradients(nn.MaxPool2d(side, 1, side // 2), torch.randn(2, 3, 48, 40))


def test_the_gradient_of_a_convolution_of_uneven_groups_over_a_tall_map() -> None:
    torch.manual_seed(13)
    assert_gradients(nn.Conv2d(6, 3, (3, 1), groups=3), torch.randn(40, 6, 130, 2))


def test_many_updates_along_an_axis_are_all_written() -> None:
    random = np.random.default_rng(1)
    data, updates = (
        random.random((2, 6500), np.float32),
        random.random((2, MANY_ITERATIONS), np.float32),
    )
    places = np.stack([random.permutation(6500)[:MANY_ITERATIONS] for _ in range(2)])
    arrays = (data, places, updates)
    assert_verified(node_model("ScatterElements", arrays, axis=1), arrays)


def test_max_unpool_of_a_large_map_is_that_of_pytorch() -> None:
    class Unpool(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            # With overlapping windows, each element searches all indices.
            self.pool = nn.MaxPool2d(3, 2, padding=1, return_indices=True)
            self.unpool = nn.MaxUnpool2d(3, 2, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.unpool(*self.pool(x), output_size=x.shape[-2:])

    torch.manual_seed(2)
    assert_verified(Unpool(), torch.rand(1, 6, 64, 64))


class WideLinear(nn.Module):
    """Rows of 600,000 numbers take three passes; bias, skip and activation are applied once."""

    def __init__(self) -> None:
        super().__init__()
        self.line, self.skip = nn.Linear(600_000, 6), nn.Linear(7, 6)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.tanh(100 * torch.relu(self.line(x) + self.skip(y)))


def test_a_long_sum_is_added_up_in_several_passes() -> None:
    torch.manual_seed(3)
    assert_verified(WideLinear().eval(), (torch.rand(3, 600_000), torch.rand(3, 7)))


def test_a_long_sum_over_maps_is_added_up_in_several_passes() -> None:
    torch.manual_seed(4)
    assert_verified(
        nn.Sequential(nn.Flatten(), nn.Linear(96 * 64 * 64, 3)), torch.rand(1, 96, 64, 64)
    )


def test_a_long_sum_of_a_computed_matrix_is_added_up_in_several_passes() -> None:
    random = np.random.default_rng(5)
    arrays = (
        random.random((2, 300_000), np.float32),
        random.random((300_000, 5), np.float32) - 0.5,
    )
    assert_verified(node_model("Gemm", arrays), arrays)


@pytest.mark.parametrize(
    ("model", "shape", "words"),
    [
        (nn.Conv2d(1, 4, 150), (1, 1, 150, 151), r"kernel of \(150, 150\) has 22,500 elements"),
        (
            nn.Conv2d(1204, 6, 5, groups=2),
            (1, 1204, 5, 5),
            r"\(5, 5\) times the channels of a group has 15,050 elements; at most 15,000",
        ),
        (nn.MaxPool2d((300, 301), 1), (1, 1, 301, 301), "has 90,300 elements; at most 60,000"),
        (nn.AvgPool2d((20_000, 2), 1), (1, 1, 20_001, 3), "80,001 iterations"),
        (nn.Conv2d(3, 6, 75, groups=3), (1, 3, 77, 77), "68,104 iterations"),
    ],
)  # fmt: skip
def test_what_is_too_much_for_one_fragment_is_refused_with_numbers(
    model: nn.Module, shape: tuple[int, ...], words: str
) -> None:
    with pytest.raises(UnsupportedOperator, match=words):
        nbglcnn.compile(model, torch.rand(shape))


def test_unpooling_by_indices_of_no_pool_is_refused_where_they_are_many() -> None:
    x = np.random.default_rng(6).random((1, 1, 80, 80), np.float32)
    model = node_model("MaxUnpool", (x, np.arange(6400).reshape(x.shape)), kernel_shape=(1, 1))
    with pytest.raises(UnsupportedOperator, match="would search all 6400 indices"):
        nbglcnn.compile(model, (x, np.arange(6400).reshape(x.shape)))


def test_a_mean_of_many_elements_is_that_of_pytorch() -> None:
    class Mean(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mean((0, 2, 3)), x.flatten(1).amax(1), x.sum()

    torch.manual_seed(7)
    assert_verified(Mean(), torch.rand(2, 3, 1024, 700))


def roi_align_model(
    size: int, **attributes: object
) -> tuple[onnx.ModelProto, tuple[np.ndarray, ...]]:
    """One box that covers the whole map, in one bin."""
    x = np.random.default_rng(8).random((1, 3, size, size), np.float32)
    arrays = x, np.float32([[0, 0, size, size]]), np.int64([0])
    return node_model("RoiAlign", arrays, output_height=1, output_width=1, **attributes), arrays


def test_the_mean_of_a_large_box_is_that_of_its_pixels() -> None:
    model, arrays = roi_align_model(300)
    with Session(nbglcnn.compile(model, arrays)) as session:
        found = session.run(*arrays)["y"]
    np.testing.assert_allclose(found.ravel(), arrays[0].mean((2, 3)).ravel(), rtol=1e-5)


def test_the_largest_of_a_large_box_is_refused() -> None:
    model, arrays = roi_align_model(300, mode="max")
    words = "mode='max' of up to 308×308 samples a bin; at most 15,000"
    with pytest.raises(UnsupportedOperator, match=words):
        nbglcnn.compile(model, arrays)


class Downsampled(nn.Module):
    """Each output pixel mixes hundreds of rows and columns."""

    def __init__(self, mode: str, size: tuple[int, int]) -> None:
        super().__init__()
        self.mode, self.size = mode, size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, self.size, mode=self.mode, antialias=True)


@pytest.mark.parametrize(
    ("mode", "before", "after"),
    [("bilinear", (400, 390), (3, 2)), ("bicubic", (33, 1200), (1, 3))],
)
def test_shrinking_by_a_large_factor_is_that_of_pytorch(
    mode: str, before: tuple[int, int], after: tuple[int, int]
) -> None:
    torch.manual_seed(9)
    assert_verified(Downsampled(mode, after), torch.rand(1, 2, *before))


def test_what_lies_outside_stays_so_where_rows_are_mixed_before_columns() -> None:
    """Three rows and columns of a region whose first row lies outside the map."""
    size, scales = 400, (3 / 440 + 1e-6, 3 / 400 + 1e-6)
    constants = {
        "roi": np.float32([0, 0, -0.1, 0, 1, 1, 1, 1]),
        "scales": np.float32([1, 1, *scales]),
    }
    resize = helper.make_node(
        "Resize", ["x", *constants], ["y"], mode="linear", antialias=1, extrapolation_value=7.0,
        coordinate_transformation_mode="tf_crop_and_resize",
    )  # fmt: skip
    graph = helper.make_graph(
        [resize],
        "cropped",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 1, size, size))],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(a, name) for name, a in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    x = np.random.default_rng(10).random((1, 1, size, size), np.float32)
    with Session(nbglcnn.compile(model, x)) as session:
        [[found]] = session.run(x)["y"]
    assert found[0].tolist() == [7, 7, 7]
    weights = []
    for scale, start in zip(scales, (-0.1, 0), strict=True):
        middle = (start + 1) / 2 * (size - 1)  # of the region, which ends at 1
        triangle = np.maximum(1 - np.abs(np.arange(size) - middle) * scale, 0)
        weights.append(triangle / triangle.sum())
    np.testing.assert_allclose(found[1, 1], weights[0] @ x[0, 0] @ weights[1], rtol=1e-5)


def test_mixtures_of_too_many_places_are_refused_with_numbers() -> None:
    with pytest.raises(UnsupportedOperator, match="combines 16,000 elements of an axis into one"):
        nbglcnn.compile(Downsampled("bilinear", (1, 1)), torch.rand(1, 1, 8000, 2))
    with pytest.raises(UnsupportedOperator, match=r"combines 7,000 elements .* at most 4,999"):
        nbglcnn.compile(Downsampled("bilinear", (2, 2)), torch.rand(1, 1, 7000, 2))
