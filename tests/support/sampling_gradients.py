"""Gradient cases of operators that sample maps or scatter samples back, with torch's."""

import itertools
import math

import numpy as np
import torch
from cases.sample import boxes
from torch import Tensor
from torch.nn import functional as F

from operator_gradients import GradientCase, int_vector, uniform

TORCH_MODES = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}


def grid_sample_case(
    mode: str, padding: str, align_corners: int, x: np.ndarray, grid: np.ndarray
) -> GradientCase:
    """GridSample of maps or volumes, with torch's."""
    return GradientCase(
        "GridSample", lambda x,
        g: F.grid_sample(x, g, TORCH_MODES[mode], padding, bool(align_corners)),
        [x, grid], {"mode": mode, "padding_mode": padding, "align_corners": align_corners},
    )  # fmt: skip


def grid_sample_cases(mode: str, padding: str) -> list[GradientCase]:
    """Grid coordinates within and far beyond -1 to 1."""
    sizes = ((2, 5, 6, 4), (2, 3, 7, 2)), ((1, 3, 1, 5), (1, 13, 9, 2))
    return [
        grid_sample_case(mode, padding, corners, uniform(-1, 1, *x), uniform(-2.7, 2.7, *grid))
        for corners, (x, grid) in itertools.product((0, 1), sizes)
    ]


def roi_bin_means(
    x: Tensor, boxes_xyxy: Tensor, image_indices: np.ndarray, bin_counts: tuple[int, int],
    samples_per_bin: int,
    scale: float, min_box_size: float,
) -> Tensor:  # fmt: skip
    """Average-pool boxes in bins, by a weight matrix along each axis."""
    found = []
    for box, image in zip(boxes_xyxy.detach().double().numpy() * scale, image_indices, strict=True):
        matrices = []
        for axis, (size, count) in enumerate(zip(x.shape[2:], bin_counts, strict=True)):
            shift = 0.0 if min_box_size else 0.5
            begin, end = box[1 - axis] - shift, box[3 - axis] - shift
            width = (max(end - begin, min_box_size) if min_box_size else end - begin) / count
            total = samples_per_bin or math.ceil(width)
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


def roi_align_case(
    x: tuple[int, ...], box_count: int, bin_counts: tuple[int, int], samples_per_bin: int = 0,
    scale: float = 1.0,
    min_box_size: float = 0, constants: tuple[int, ...] = (),
) -> GradientCase:  # fmt: skip
    images = np.arange(box_count) % x[0]

    def right(x: Tensor, corners: Tensor | None = None) -> Tensor:
        corners = torch.tensor(boxes(box_count)) if corners is None else corners
        return roi_bin_means(x, corners, images, bin_counts, samples_per_bin, scale, min_box_size)

    mode = "output_half_pixel" if min_box_size else "half_pixel"
    return GradientCase(
        "RoiAlign", right, [uniform(-1, 1, *x), boxes(box_count), images],
        {"output_height": bin_counts[0], "output_width": bin_counts[1],
            "sampling_ratio": samples_per_bin,
         "spatial_scale": scale, "coordinate_transformation_mode": mode},
        constants,
    )  # fmt: skip


ROI_ALIGN_CASES = [
    roi_align_case((2, 5, 9, 7), 9, (3, 2)),
    roi_align_case((2, 5, 9, 7), 9, (3, 2), 2),
    roi_align_case((2, 5, 9, 7), 9, (3, 2), 0, min_box_size=1),
    roi_align_case((2, 5, 9, 7), 9, (2, 4), 3, 0.5, 1, (1,)),
    roi_align_case((1, 3, 9, 7), 10, (2, 1)),
    roi_align_case((3, 1, 1, 7), 3, (2, 3), 3),
]


def col2im_case(window: tuple[int, ...], strides: tuple[int, ...], pads: tuple[int, ...],
                dilations: tuple[int, ...], window_counts: tuple[int, ...],
                channels: int) -> GradientCase:  # fmt: skip
    """Col2Im as a transposed convolution with one filter per window element."""
    taps, rank = math.prod(window), len(window)
    image = tuple(
        (o - 1) * s + d * (k - 1) + 1 - 2 * p
        for o, s, d, k, p in zip(window_counts, strides, dilations, window, pads, strict=True)
    )
    turned = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]

    def right(x: Tensor) -> Tensor:
        columns = x.reshape(-1, taps, *window_counts)
        ones = torch.eye(taps, dtype=x.dtype).reshape(taps, 1, *window)
        found = turned(columns, ones, stride=strides, padding=pads, dilation=dilations)
        return found.reshape(len(x), channels, *image)

    x = uniform(-1, 1, 2, channels * taps, math.prod(window_counts))
    attributes = {"strides": strides, "pads": pads * 2, "dilations": dilations}
    return GradientCase("Col2Im", right, [x, int_vector(*image), int_vector(*window)], attributes)


COL2IM_CASES = [
    col2im_case((3,), (2,), (0,), (1,), (4,), 3),
    col2im_case((2, 3), (1, 1), (0, 0), (1, 1), (5, 5), 3),
    col2im_case((3, 3), (2, 1), (1, 2), (1, 1), (4, 6), 1),
    col2im_case((3, 2), (1, 3), (2, 0), (2, 3), (5, 3), 5),
    col2im_case((1, 2, 3), (1, 2, 1), (0, 1, 1), (1, 1, 2), (3, 4, 3), 2),
]


def max_unpool_case(x: tuple[int, ...], indices: list[int], indexed_shape: tuple[int, ...],
           output: tuple[int, ...] | None = None) -> GradientCase:  # fmt: skip
    """Unpool by arbitrary indices, some repeated: each element has the gradient of its target."""
    places = np.array(indices).reshape(x)

    def right(x: Tensor) -> Tensor:
        zeros = torch.zeros(math.prod(indexed_shape), dtype=x.dtype)
        found = zeros.scatter(0, torch.tensor(indices), x.reshape(-1)).reshape(indexed_shape)
        margins = [(0, o - c) for o, c in zip(output or indexed_shape, indexed_shape, strict=True)]
        return F.pad(found, [n for pair in margins[::-1] for n in pair])

    inputs = [uniform(-1, 1, *x), places, *([] if output is None else [int_vector(*output)])]
    window = {"kernel_shape": (2,) * (len(x) - 2), "strides": (2,) * (len(x) - 2)}
    return GradientCase("MaxUnpool", right, inputs, window)


MAX_UNPOOL_CASES = [
    max_unpool_case((1, 3, 2), [0, 3, 5, 6, 8, 11], (1, 3, 4)),
    max_unpool_case((1, 2, 2, 2), [1, 1, 20, 1, 5, 20, 0, 31], (1, 2, 4, 4)),
    max_unpool_case((1, 2, 2, 2), [3, 2, 20, 1, 5, 28, 0, 31], (1, 2, 4, 4), (1, 2, 5, 7)),
]
