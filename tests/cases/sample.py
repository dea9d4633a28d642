"""GridSample, RoiAlign, AffineGrid, DeformConv and Col2Im, against PyTorch and ONNX's reference."""

import itertools

import numpy as np
import torch.nn.functional as F
from torch import nn

from cases.case import module, node

GRID_SHAPE = (2, 3, 7, 2)
INPUT_SHAPE = (2, 5, 6, 4)


def wide_coordinates(rng, shape):
    """Coordinates within and far outside -1 to 1; also usable as values of the map."""
    return rng.uniform(-2.7, 2.7, shape)


class Warp(nn.Module):
    """A spatial transformer: the affine grid of a matrix, and the map sampled there."""

    def forward(self, x, theta):
        grid = F.affine_grid(theta, list(x.shape), align_corners=False)
        return grid, F.grid_sample(x, grid, align_corners=False)


class Fold(nn.Module):
    def __init__(self, *size, **options) -> None:
        super().__init__()
        self.size, self.options = size, options

    def forward(self, x):
        return F.fold(x, self.size, **self.options)


GRID_SAMPLE_OPTIONS = itertools.product(
    ("linear", "nearest", "cubic"), ("zeros", "border", "reflection"), (0, 1)
)


def boxes(count):
    """Boxes inside, across and outside a map of 9×7, some empty, one inverted, in pixels."""
    known = [
        [1, 2, 5, 8], [-3, -3, 2, 2], [3, 3, 3, 3], [5, 6, 2, 1], [20, 20, 30, 30], [0, 0, 7, 9],
        [-50, -40, 70, 80], [0.3, 0.2, 0.4, 0.9], [2, 2, 9, 11], [-300, -200, 500, 400],
    ]  # fmt: skip
    return np.float32(known[:count])


def roi_align_case(name, count=9, *, x=(2, 5, 9, 7), constants=(), opset=16, **attributes):
    images = np.arange(count) % (len(x) if isinstance(x, np.ndarray) else x[0])
    inputs = [x, boxes(count), images]
    return node(
        f"RoiAlign {name}", "RoiAlign", inputs, constants=constants, opset=opset, **attributes
    )


def negative(shape):
    return -np.random.default_rng(5).uniform(1, 2, shape).astype(np.float32)


ROI_ALIGN_OPTIONS = itertools.product(("avg", "max"), ("half_pixel", "output_half_pixel"), (0, 2))

CASES = [
    *(
        node(f"GridSample {mode} {padding} {corners}", "GridSample", [INPUT_SHAPE, GRID_SHAPE], mode=mode, padding_mode=padding, align_corners=corners, values=wide_coordinates)
        for mode, padding, corners in GRID_SAMPLE_OPTIONS
    ),
    node("GridSample of one column", "GridSample", [(1, 1, 5, 1), (1, 2, 3, 2)], align_corners=1, padding_mode="reflection", values=wide_coordinates),
    node("GridSample 513 channels", "GridSample", [(1, 513, 3, 2), (1, 1, 2, 2)], values=wide_coordinates),
    *(
        node(f"GridSample of volumes {mode} {padding}", "GridSample", [(2, 3, 2, 4, 3), (2, 2, 3, 2, 3)], mode=mode, padding_mode=padding, values=wide_coordinates)
        for mode, padding in [("linear", "zeros"), ("linear", "reflection"), ("nearest", "border")]
    ),
    module("spatial transformer", Warp, (2, 3, 5, 7), (2, 2, 3)),
    *(
        roi_align_case(f"{mode} {corners} {samples}", mode=mode, coordinate_transformation_mode=corners, sampling_ratio=samples, output_height=3, output_width=2)
        for mode, corners, samples in ROI_ALIGN_OPTIONS
    ),
    roi_align_case("of known boxes", constants=[1, 2], output_height=2, output_width=4, spatial_scale=0.5),
    roi_align_case("of operator set 10", opset=10, output_height=3, output_width=3, sampling_ratio=1),
    roi_align_case("of operator set 22", opset=22, mode="max", output_width=2, spatial_scale=1.25),
    roi_align_case("of one image, far larger boxes", 10, x=(1, 3, 9, 7), mode="max", output_height=2),
    roi_align_case("max of negative numbers", x=negative((2, 5, 9, 7)), mode="max", sampling_ratio=2),
    roi_align_case("of a line", 3, x=(3, 1, 1, 7), output_height=2, output_width=3, sampling_ratio=3),
    node("AffineGrid corners", "AffineGrid", [(2, 2, 3), np.int64([2, 3, 4, 5])], constants=[1], align_corners=1),
    node("AffineGrid of volumes", "AffineGrid", [(1, 3, 4), np.int64([1, 1, 2, 3, 4])], constants=[1]),
    node("DeformConv", "DeformConv", [(2, 3, 6, 5), (4, 3, 3, 2), (2, 12, 4, 4)], opset=22),
    node("DeformConv in groups", "DeformConv", [(1, 4, 7, 7), (6, 2, 3, 3), (1, 36, 4, 4), (6,), (1, 18, 4, 4)], opset=22, group=2, offset_group=2, strides=[2, 2], pads=[1, 1, 1, 1]),
    node("DeformConv dilated", "DeformConv", [(1, 1, 7, 8), (1, 1, 3, 3), (1, 18, 3, 4)], opset=22, dilations=[2, 2]),
    module("fold", lambda: Fold(6, 7, kernel_size=(2, 3)), (2, 18, 25)),
    module("fold with strides and padding", lambda: Fold(7, 9, kernel_size=3, stride=2, padding=1), (1, 27, 20)),
    module("fold dilated", lambda: Fold(7, 9, kernel_size=(3, 2), dilation=2), (1, 6, 21)),
    node("Col2Im of lines", "Col2Im", [(2, 6, 4), np.int64([9]), np.int64([3])], constants=[1, 2], strides=[2]),
    node("Col2Im of volumes", "Col2Im", [(1, 10, 12), np.int64([3, 4, 5]), np.int64([1, 1, 5])], constants=[1, 2]),
]  # fmt: skip
