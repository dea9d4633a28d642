"""Gradients of operators that read maps where grids and boxes say, and of those that put back."""

import itertools
import math

import numpy as np
import onnx
import pytest
import torch
from cases.pool import Unpooled
from cases.sample import Warp, boxes
from torch import Tensor, nn
from torch.nn import functional as F

import nbglcnn
from gradients import assert_gradients
from nbglcnn.errors import UnsupportedOperator
from operator_gradients import RNG, Row, assert_rows, between, ints

STATE = RNG.bit_generator.state
NAMES = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}
PADDINGS = ("zeros", "border", "reflection")


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Whichever tests run."""
    RNG.bit_generator.state = STATE


def sampled(mode: str, padding: str, corners: int, x: np.ndarray, grid: np.ndarray) -> Row:
    """Maps or volumes beside torch's."""
    return Row(
        "GridSample", lambda x, g: F.grid_sample(x, g, NAMES[mode], padding, bool(corners)),
        [x, grid], {"mode": mode, "padding_mode": padding, "align_corners": corners},
    )  # fmt: skip


def mixed(mode: str, padding: str) -> list[Row]:
    """Within and far beyond -1 to 1."""
    sizes = ((2, 5, 6, 4), (2, 3, 7, 2)), ((1, 3, 1, 5), (1, 13, 9, 2))
    return [
        sampled(mode, padding, corners, between(-1, 1, *x), between(-2.7, 2.7, *grid))
        for corners, (x, grid) in itertools.product((0, 1), sizes)
    ]


@pytest.mark.parametrize("mode", NAMES)
@pytest.mark.parametrize("padding", PADDINGS)
def test_maps_sampled_within_and_far_beyond(mode: str, padding: str) -> None:
    assert_rows(mixed(mode, padding))


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_volumes_sampled_within_and_far_beyond(mode: str) -> None:
    assert_rows([
        sampled(mode, padding, padding == "border", between(-1, 1, 2, 3, 2, 4, 3),
                between(-1.7, 1.7, 2, 2, 3, 5, 3))
        for padding in PADDINGS
    ])  # fmt: skip


def cubic(x: Tensor, grid: Tensor) -> Tensor:
    """Volumes sampled by a matrix of shares along each axis, zeros outside; torch has no such."""
    shares = []
    for axis, size in enumerate(x.shape[:1:-1]):
        d = (((grid[..., axis, None] + 1) * size - 1) / 2 - torch.arange(size)).abs()
        near = (1.25 * d - 2.25) * d * d + 1
        far = ((-0.75 * d + 3.75) * d - 6) * d + 3
        shares.append(torch.where(d <= 1, near, torch.where(d <= 2, far, 0)))
    return torch.einsum("nczyx,ndhwx,ndhwy,ndhwz->ncdhw", x, *shares)


def test_volumes_sampled_by_cubic_mixtures() -> None:
    grid = between(-1.5, 1.5, 2, 2, 3, 5, 3)
    assert_rows(
        [Row("GridSample", cubic, [between(-1, 1, 2, 3, 3, 4, 5), grid], {"mode": "cubic"})]
    )


def test_samples_just_on_pixels_and_on_the_edge() -> None:
    line = torch.linspace(-1, 1, 5)
    grid = torch.stack(torch.meshgrid(line, 1.5 * line, indexing="xy"), -1)[None].numpy()
    x = between(-1, 1, 1, 3, 5, 5)
    assert_rows([sampled("linear", padding, 1, x, grid) for padding in PADDINGS])


def test_more_samples_than_a_pass_looks_at() -> None:
    x, grid = between(-1, 1, 1, 3, 5, 7), between(-1.2, 1.2, 1, 97, 101, 2)
    assert_rows([sampled("linear", "border", 0, x, grid)])


def test_a_spatial_transformer() -> None:
    class Turned(nn.Module):
        def forward(self, x: Tensor, theta: Tensor) -> Tensor:
            return Warp()(x, theta)[1]

    torch.manual_seed(0)
    assert_gradients(Turned(), torch.randn(2, 3, 5, 7), torch.randn(2, 2, 3))


def means(
    x: Tensor, corners: Tensor, images: np.ndarray, bins: tuple[int, int], samples: int,
    scale: float, least: float,
) -> Tensor:  # fmt: skip
    """Boxes cut into bins of means, by a matrix of shares along each axis."""
    found = []
    for box, image in zip(corners.detach().double().numpy() * scale, images, strict=True):
        matrices = []
        for axis, (size, count) in enumerate(zip(x.shape[2:], bins, strict=True)):
            shift = 0.0 if least else 0.5
            begin, end = box[1 - axis] - shift, box[3 - axis] - shift
            width = (max(end - begin, least) if least else end - begin) / count
            total = samples or math.ceil(width)
            matrix = np.zeros((count, size))
            for row, k in itertools.product(range(count), range(max(total, 0))):
                v = begin + row * width + (k + 0.5) * width / total
                if -1 <= v <= size:
                    v = min(max(v, 0), size - 1)
                    matrix[row, int(v)] += 1 - v % 1
                    matrix[row, min(int(v) + 1, size - 1)] += v % 1
            matrices.append(torch.tensor(matrix / max(total, 1)).to(x.dtype))
        found.append(torch.einsum("chw,ih,jw->cij", x[image], *matrices))
    return torch.stack(found)


def regions(
    x: tuple[int, ...], count: int, bins: tuple[int, int], samples: int = 0, scale: float = 1.0,
    least: float = 0, constants: tuple[int, ...] = (),
) -> Row:  # fmt: skip
    images = np.arange(count) % x[0]

    def right(x: Tensor, corners: Tensor | None = None) -> Tensor:
        corners = torch.tensor(boxes(count)) if corners is None else corners
        return means(x, corners, images, bins, samples, scale, least)

    mode = "output_half_pixel" if least else "half_pixel"
    return Row(
        "RoiAlign", right, [between(-1, 1, *x), boxes(count), images],
        {"output_height": bins[0], "output_width": bins[1], "sampling_ratio": samples,
         "spatial_scale": scale, "coordinate_transformation_mode": mode},
        constants,
    )  # fmt: skip


REGIONS = [
    regions((2, 5, 9, 7), 9, (3, 2)),
    regions((2, 5, 9, 7), 9, (3, 2), 2),
    regions((2, 5, 9, 7), 9, (3, 2), 0, least=1),
    regions((2, 5, 9, 7), 9, (2, 4), 3, 0.5, 1, (1,)),
    regions((1, 3, 9, 7), 10, (2, 1)),
    regions((3, 1, 1, 7), 3, (2, 3), 3),
]


def test_maps_of_boxes_have_gradients_and_boxes_none() -> None:
    assert_rows(REGIONS)


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
        nbglcnn.gradient(model, between(-1, 1, 1, 1, 4, 4), "y", wrt="x")


def added(window: tuple[int, ...], strides: tuple[int, ...], pads: tuple[int, ...],
          dilations: tuple[int, ...], counts: tuple[int, ...], channels: int) -> Row:  # fmt: skip
    """Windows put back: a transposed convolution with a filter for each of their elements."""
    taps, rank = math.prod(window), len(window)
    image = tuple(
        (o - 1) * s + d * (k - 1) + 1 - 2 * p
        for o, s, d, k, p in zip(counts, strides, dilations, window, pads, strict=True)
    )
    turned = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]

    def right(x: Tensor) -> Tensor:
        columns = x.reshape(-1, taps, *counts)
        ones = torch.eye(taps, dtype=x.dtype).reshape(taps, 1, *window)
        found = turned(columns, ones, stride=strides, padding=pads, dilation=dilations)
        return found.reshape(len(x), channels, *image)

    x = between(-1, 1, 2, channels * taps, math.prod(counts))
    attributes = {"strides": strides, "pads": pads * 2, "dilations": dilations}
    return Row("Col2Im", right, [x, ints(*image), ints(*window)], attributes)


WINDOWS = [
    added((3,), (2,), (0,), (1,), (4,), 3),
    added((2, 3), (1, 1), (0, 0), (1, 1), (5, 5), 3),
    added((3, 3), (2, 1), (1, 2), (1, 1), (4, 6), 1),
    added((3, 2), (1, 3), (2, 0), (2, 3), (5, 3), 5),
    added((1, 2, 3), (1, 2, 1), (0, 1, 1), (1, 1, 2), (3, 4, 3), 2),
]


def test_windows_that_are_added_where_they_came_from() -> None:
    assert_rows(WINDOWS)


def test_windows_that_leave_a_rest_of_the_image() -> None:
    right = lambda x: F.fold(x, (7, 8), 3, stride=3, padding=1)  # noqa: E731
    x = between(-1, 1, 1, 18, 9)
    attributes = {"strides": (3, 3), "pads": (1, 1, 1, 1)}
    assert_rows([Row("Col2Im", right, [x, ints(7, 8), ints(3, 3)], attributes)])


@pytest.mark.parametrize(
    ("axes", "window", "shape"),
    [(1, 2, (2, 2, 16)), (2, (2, 3), (1, 2, 8, 9)), (3, 2, (1, 2, 4, 6, 8))],
)
def test_largest_elements_that_are_put_back(
    axes: int, window: int | tuple[int, ...], shape: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    assert_gradients(Unpooled(axes, window), torch.randn(shape))


def placed(x: tuple[int, ...], indices: list[int], counted: tuple[int, ...],
           output: tuple[int, ...] | None = None) -> Row:  # fmt: skip
    """By indices of no pool, some of them twice: each that names a place has its gradient."""
    places = np.array(indices).reshape(x)

    def right(x: Tensor) -> Tensor:
        zeros = torch.zeros(math.prod(counted), dtype=x.dtype)
        found = zeros.scatter(0, torch.tensor(indices), x.reshape(-1)).reshape(counted)
        margins = [(0, o - c) for o, c in zip(output or counted, counted, strict=True)]
        return F.pad(found, [n for pair in margins[::-1] for n in pair])

    inputs = [between(-1, 1, *x), places, *([] if output is None else [ints(*output)])]
    window = {"kernel_shape": (2,) * (len(x) - 2), "strides": (2,) * (len(x) - 2)}
    return Row("MaxUnpool", right, inputs, window)


UNPOOLED = [
    placed((1, 3, 2), [0, 3, 5, 6, 8, 11], (1, 3, 4)),
    placed((1, 2, 2, 2), [1, 1, 20, 1, 5, 20, 0, 31], (1, 2, 4, 4)),
    placed((1, 2, 2, 2), [3, 2, 20, 1, 5, 28, 0, 31], (1, 2, 4, 4), (1, 2, 5, 7)),
]


def test_elements_that_are_put_to_any_place() -> None:
    assert_rows(UNPOOLED)
