"""Resize in every mode, against PyTorch's interpolate and ONNX Runtime's node."""

import itertools

import numpy as np
import torch.nn.functional as F
from torch import nn

from cases.case import module, node

SHAPE = (1, 3, 5, 7)


class Interpolate(nn.Module):
    def __init__(self, **options) -> None:
        super().__init__()
        self.options = options

    def forward(self, x):
        return F.interpolate(x, **self.options)


def _interpolate_case(name, shape=SHAPE, **options):
    return module(f"interpolate {name}", lambda: Interpolate(**options), shape)


def _resize_node_case(name, scales=None, sizes=None, shape=(1, 2, 5, 6), **options):
    inputs = [shape, None]
    inputs += [np.float32(scales)] if scales else [None, np.int64(sizes)]
    constant = [2] if scales else [3]
    return node(f"Resize {name}", "Resize", inputs, constants=constant, **options)


COORDINATE_MODES = [
    "half_pixel",
    "pytorch_half_pixel",
    "asymmetric",
    "align_corners",
    "half_pixel_symmetric",
]

# ONNX Runtime rounds the resized length before it aligns the corners; ONNX's own rule does not.
# Integer factors avoid the difference.
SCALE_FACTORS = {"align_corners": [1, 1, 2, 3]}

CASES = [
    _interpolate_case("nearest ×2", scale_factor=2, mode="nearest"),
    _interpolate_case("nearest to an odd size", size=(8, 3), mode="nearest"),
    _interpolate_case("nearest by 1.7", scale_factor=1.7, mode="nearest"),
    _interpolate_case("nearest down", (2, 5, 9, 11), size=(4, 5), mode="nearest"),
    _interpolate_case("nearest to lengths where factors round otherwise", (1, 3, 15, 14), size=(7, 4), mode="nearest"),
    _interpolate_case("nearest by a factor that rounds otherwise", (2, 1, 39, 5), scale_factor=(0.3, 1.1), mode="nearest"),
    _interpolate_case("nearest 1-D to a length where the factor rounds otherwise", (1, 5, 39), size=12, mode="nearest"),
    _interpolate_case("nearest 3-D where factors round otherwise", (1, 2, 14, 3, 39), size=(4, 3, 6), mode="nearest"),
    _interpolate_case("bilinear corners by 1.7", scale_factor=1.7, mode="bilinear", align_corners=True),
    _interpolate_case("bicubic corners by 0.5 of odd lengths", scale_factor=0.5, mode="bicubic", align_corners=True),
    _interpolate_case("linear 1-D corners by 1.3", (2, 3, 7), scale_factor=1.3, mode="linear", align_corners=True),
    _interpolate_case("trilinear corners by 1.5", (1, 2, 3, 5, 3), scale_factor=1.5, mode="trilinear", align_corners=True),
    _interpolate_case("bilinear by a factor that changes one length", scale_factor=(1.1, 1.6), mode="bilinear"),
    _interpolate_case("bilinear by 0.58 of 50", (1, 1, 50, 3), scale_factor=(0.58, 1.0), mode="bilinear"),
    _interpolate_case("bilinear antialiased by 0.6", (1, 3, 13, 7), scale_factor=0.6, mode="bilinear", antialias=True),
    _interpolate_case("bicubic antialiased by 1.3", scale_factor=1.3, mode="bicubic", antialias=True),
    _interpolate_case("nearest 513 channels", (1, 513, 2, 3), scale_factor=(2, 3), mode="nearest"),
    _interpolate_case("nearest of one column", (1, 3, 4, 1), scale_factor=3, mode="nearest"),
    _interpolate_case("bilinear ×2", scale_factor=2, mode="bilinear"),
    _interpolate_case("bilinear corners", scale_factor=2, mode="bilinear", align_corners=True),
    _interpolate_case("bilinear down to 1×1", (2, 3, 5, 4), size=(1, 1), mode="bilinear", align_corners=True),
    _interpolate_case("bilinear to an odd size", size=(9, 4), mode="bilinear"),
    _interpolate_case("bicubic ×2", scale_factor=2, mode="bicubic"),
    _interpolate_case("bicubic corners", size=(8, 9), mode="bicubic", align_corners=True),
    _interpolate_case("linear 1-D", (2, 3, 7), scale_factor=2, mode="linear"),
    _interpolate_case("linear 1-D corners", (1, 3, 7), size=12, mode="linear", align_corners=True),
    _interpolate_case("nearest 1-D", (1, 5, 7), scale_factor=3, mode="nearest"),
    module("upsample after a transposed convolution",
           lambda: nn.Sequential(nn.ConvTranspose2d(3, 5, 4, 2, 1), nn.Upsample(scale_factor=2, mode="bilinear")), (1, 3, 3, 4)),
    *(
        _resize_node_case(f"nearest {rounding} {coordinates}", scales=SCALE_FACTORS.get(coordinates, [1, 1, 1.6, 2.6]), mode="nearest", nearest_mode=rounding, coordinate_transformation_mode=coordinates)
        for rounding, coordinates in itertools.product(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"], COORDINATE_MODES[:4])
    ),
    *(
        _resize_node_case(f"{mode} {coordinates}", scales=SCALE_FACTORS.get(coordinates, [1, 1, 0.6, 1.7]), mode=mode, coordinate_transformation_mode=coordinates)
        for mode, coordinates in itertools.product(["linear", "cubic"], COORDINATE_MODES[:4])
    ),
    _resize_node_case("cubic exclude_outside", scales=[1, 1, 0.6, 1.7], mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5),
    _resize_node_case("sizes on some axes", sizes=[9, 4], mode="linear", axes=[2, 3]),
    _resize_node_case("sizes not larger", sizes=[9, 8], mode="nearest", axes=[2, 3], keep_aspect_ratio_policy="not_larger"),
    _resize_node_case("sizes not smaller", sizes=[9, 8], mode="nearest", axes=[2, 3], keep_aspect_ratio_policy="not_smaller"),
    *(
        _resize_node_case(f"{mode} against aliasing", sizes=[4, 4], shape=(1, 3, 11, 9), axes=[2, 3], mode=mode, antialias=1, exclude_outside=1)
        for mode in ("linear", "cubic")
    ),
    _resize_node_case("larger rows against aliasing", sizes=[9, 4], axes=[2, 3], mode="linear", antialias=1, exclude_outside=1),
    *(
        node(f"Resize {mode} of a region that sticks out", "Resize", [(2, 3, 7, 5), np.float32([0.3, -0.4, 1.2, 0.8]), None, np.int64([6, 8])], constants=[1, 3], axes=[2, 3], mode=mode, coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=7.5)
        for mode in ("linear", "nearest")
    ),
    node("Resize a region to a pixel", "Resize", [(1, 3, 7, 5), np.float32([0.1, 0.2, 0.8, 1]), None, np.int64([1, 1])], constants=[1, 3], axes=[2, 3], mode="linear", coordinate_transformation_mode="tf_crop_and_resize"),
    _resize_node_case("linear of volumes", scales=[1, 1, 2, 1.5, 0.7], shape=(1, 3, 3, 4, 5), mode="linear"),
    _resize_node_case("nearest of volumes", sizes=[2, 3, 5, 4, 7], shape=(2, 3, 3, 4, 5), mode="nearest"),
    _resize_node_case("nearest of every axis", scales=[2, 1.5, 3, 0.5], shape=(1, 3, 5, 6), mode="nearest"),
    _interpolate_case("trilinear", (1, 3, 3, 4, 5), scale_factor=2, mode="trilinear"),
    _interpolate_case("bilinear down without aliasing", (1, 3, 12, 9), size=(5, 4), mode="bilinear", antialias=True),
    _interpolate_case("bicubic down without aliasing", (1, 3, 12, 9), size=(5, 4), mode="bicubic", antialias=True),
    _resize_node_case("of a matrix", scales=[2, 1.5], shape=(3, 4), mode="linear"),
]  # fmt: skip
