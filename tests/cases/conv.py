"""Conv and ConvTranspose with every attribute PyTorch can give them, at odd sizes."""

import numpy as np
import torch
from torch import nn

from cases.case import Case, module, node

NONFINITE_MAPS = np.random.default_rng(5).normal(0, 1, (2, 6, 4, 5, 6)).astype(np.float32)
NONFINITE_MAPS[0, 1, 2, 3, 4] = np.nan
NONFINITE_MAPS[1, 5, 0, 0, 0] = np.inf


class ComputedKernel(nn.Module):
    """Blends two kernels by statistics of the input: the weights are known only at run time."""

    def __init__(self, kind, *shape, **options):
        super().__init__()
        self.kind, self.options = kind, options
        self.first, self.second = nn.Parameter(torch.randn(shape)), nn.Parameter(torch.randn(shape))
        self.norm = nn.BatchNorm2d(shape[0])

    def forward(self, x):
        kernel = self.first + x.mean() * self.second
        return torch.relu(self.norm(self.kind(x, kernel, kernel[:, 0, 0, 0], **self.options)))


CASES = [
    module("conv 1x1", lambda: nn.Conv2d(5, 7, 1), (1, 5, 7, 5)),
    module("conv 3x3 one channel", lambda: nn.Conv2d(1, 1, 3), (1, 1, 5, 9)),
    module("conv 3x3 padded, 1 row", lambda: nn.Conv2d(3, 8, 3, padding=1), (1, 3, 1, 17)),
    module("conv 3x3, 1 column", lambda: nn.Conv2d(3, 8, 3, padding=1), (2, 3, 17, 1)),
    module("conv 3x3 batch 3", lambda: nn.Conv2d(3, 5, 3, padding=1), (3, 3, 9, 7)),
    module("conv 513 channels", lambda: nn.Conv2d(513, 6, 3), (1, 513, 4, 5)),
    module("conv to 513 channels", lambda: nn.Conv2d(3, 513, 3, stride=2), (1, 3, 7, 6)),
    module("conv 4x4 stride 2", lambda: nn.Conv2d(3, 16, 4, 2, 1), (1, 3, 32, 32)),
    module("conv 5x3 stride 2x3 dilation 1x2", lambda: nn.Conv2d(4, 6, (5, 3), (2, 3), (2, 1), (1, 2)), (1, 4, 15, 16)),
    module("conv 7x7 stride 2", lambda: nn.Conv2d(3, 8, 7, 2, 3), (1, 3, 23, 22)),
    module("conv dilation 3", lambda: nn.Conv2d(4, 4, 3, padding=3, dilation=3), (1, 4, 10, 11)),
    module("conv no bias", lambda: nn.Conv2d(6, 5, 3, bias=False), (1, 6, 6, 6)),
    module("conv padding same", lambda: nn.Conv2d(3, 4, 4, padding="same"), (1, 3, 9, 8)),
    module("conv reflect padding", lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), (1, 3, 6, 7)),
    module("conv stride larger than kernel", lambda: nn.Conv2d(3, 4, 1, stride=3), (1, 3, 10, 8)),
    module("conv kernel larger than map", lambda: nn.Conv2d(4, 4, 4, 2, 1), (1, 4, 2, 2)),
    module("conv depthwise", lambda: nn.Conv2d(6, 6, 3, padding=1, groups=6), (2, 6, 7, 5)),
    module("conv depthwise multiplier 3", lambda: nn.Conv2d(4, 12, 3, groups=4), (1, 4, 6, 6)),
    module("conv depthwise stride 2 dilation 2", lambda: nn.Conv2d(5, 5, 3, 2, 2, 2, groups=5), (1, 5, 12, 13)),
    module("conv groups of 4", lambda: nn.Conv2d(16, 8, 3, groups=2, padding=1), (1, 16, 5, 5)),
    module("conv groups of 3", lambda: nn.Conv2d(6, 10, 3, groups=2, padding=1), (2, 6, 5, 6)),
    module("conv groups 1 to 2 channels", lambda: nn.Conv2d(3, 6, 3, groups=3), (1, 3, 5, 6)),
    module("conv 1-D", lambda: nn.Conv1d(3, 5, 5, stride=2, padding=2), (2, 3, 33)),
    module("conv 1-D dilated groups", lambda: nn.Conv1d(8, 8, 3, dilation=4, groups=2), (1, 8, 30)),
    module("conv 1-D length 1", lambda: nn.Conv1d(3, 4, 1), (1, 3, 1)),
    module("conv of 4 rows of tiles", lambda: nn.Conv2d(256, 5, 3, padding=1), (1, 256, 14, 14)),
    module("conv of 4 rows of tiles, stride 2", lambda: nn.Conv2d(128, 6, 5, 2, 2), (1, 128, 26, 25)),
    module("conv 1x1 of 4 rows of tiles, batch 3", lambda: nn.Conv2d(256, 5, 1), (3, 256, 14, 14)),
    module("conv groups over two rows of tiles", lambda: nn.Conv2d(384, 12, 3, groups=3), (2, 384, 13, 14)),
    module("transposed of 4 rows of tiles", lambda: nn.ConvTranspose2d(256, 5, 4, 2, 1), (1, 256, 14, 14)),
    module("conv whole map, batch 5", lambda: nn.Conv2d(8, 6, 5), (5, 8, 5, 5)),
    node("Conv asymmetric pads", "Conv", [(1, 3, 7, 6), (5, 3, 3, 3), (5,)], constants=[1, 2], pads=[0, 1, 2, 3]),
    node("Conv SAME_UPPER stride 2", "Conv", [(1, 3, 7, 6), (5, 3, 3, 3)], constants=[1], auto_pad="SAME_UPPER", strides=[2, 2]),
    node("Conv SAME_LOWER stride 2", "Conv", [(1, 3, 7, 6), (5, 3, 4, 4)], constants=[1], auto_pad="SAME_LOWER", strides=[2, 2]),
    module("transposed 4x4 stride 2", lambda: nn.ConvTranspose2d(6, 5, 4, 2, 1), (1, 6, 7, 5)),
    module("transposed 4x4 stride 2 on 1x1", lambda: nn.ConvTranspose2d(8, 5, 4, 2, 1), (1, 8, 1, 1)),
    module("transposed 7x7 from 1x1, batch 3", lambda: nn.ConvTranspose2d(16, 9, 7), (3, 16, 1, 1)),
    module("transposed stride 1", lambda: nn.ConvTranspose2d(3, 5, 3, padding=1), (1, 3, 6, 7)),
    module("transposed stride 3 output padding", lambda: nn.ConvTranspose2d(3, 5, 3, 3, 1, 2), (2, 3, 5, 4)),
    module("transposed stride 2x1 dilation 1x2", lambda: nn.ConvTranspose2d(4, 4, (3, 2), (2, 1), (1, 0), (1, 0), dilation=(1, 2)), (1, 4, 5, 6)),
    module("transposed kernel smaller than stride", lambda: nn.ConvTranspose2d(3, 4, 2, 3), (1, 3, 4, 5)),
    module("transposed dilation 2 stride 2", lambda: nn.ConvTranspose2d(3, 4, 3, 2, 1, dilation=2), (1, 3, 5, 5)),
    module("transposed groups of 4", lambda: nn.ConvTranspose2d(8, 16, 4, 2, 1, groups=2), (1, 8, 5, 6)),
    module("transposed groups of 3", lambda: nn.ConvTranspose2d(6, 4, 3, 2, groups=2), (1, 6, 4, 5)),
    module("transposed depthwise", lambda: nn.ConvTranspose2d(5, 5, 4, 2, 1, groups=5), (1, 5, 4, 3)),
    module("transposed 1-D", lambda: nn.ConvTranspose1d(4, 3, 4, 2, 1), (2, 4, 9)),
    module("transposed 513 channels", lambda: nn.ConvTranspose2d(513, 3, 2, 2), (1, 513, 3, 3)),
    node("ConvTranspose output_shape", "ConvTranspose", [(1, 3, 5, 4), (3, 2, 3, 3)], constants=[1], strides=[3, 2], output_shape=[15, 9]),
    node("ConvTranspose SAME_UPPER", "ConvTranspose", [(1, 3, 5, 4), (3, 2, 3, 3)], constants=[1], strides=[2, 2], auto_pad="SAME_UPPER"),
    module(
        "transposed then conv then transposed",
        lambda: nn.Sequential(
            nn.ConvTranspose2d(4, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 6, 3, padding=1), nn.ConvTranspose2d(6, 3, 4, 2, 1)
        ),
        (1, 4, 5, 7),
    ),
    module("conv 3-D 3x3x3", lambda: nn.Conv3d(3, 5, 3, padding=1), (2, 3, 5, 7, 9)),
    module("conv 3-D one channel, odd rows", lambda: nn.Conv3d(1, 1, 2), (1, 1, 4, 4, 6)),
    module("conv 3-D strides, pads, dilations", lambda: nn.Conv3d(5, 7, (2, 3, 4), (2, 1, 3), (1, 2, 3), (3, 2, 1)), (1, 5, 8, 7, 13)),
    module("conv 3-D 513 channels", lambda: nn.Conv3d(513, 3, (2, 1, 2)), (1, 513, 2, 3, 3)),
    module("conv 3-D to 1x1x1, batch 5", lambda: nn.Conv3d(6, 5, (3, 4, 5)), (5, 6, 3, 4, 5)),
    module("conv 3-D to one column", lambda: nn.Conv3d(3, 5, (1, 1, 4)), (2, 3, 3, 5, 4)),
    module("conv 3-D to two columns", lambda: nn.Conv3d(3, 5, (1, 2, 2), bias=False), (2, 3, 3, 5, 3)),
    module("conv 3-D depthwise", lambda: nn.Conv3d(5, 5, 3, (1, 2, 2), 1, groups=5), (1, 5, 4, 7, 9)),
    module("conv 3-D groups of 3", lambda: nn.Conv3d(6, 10, 2, groups=2, padding=1), (2, 6, 3, 4, 5)),
    module("conv 3-D groups of 4", lambda: nn.Conv3d(8, 12, 3, groups=2, dilation=(1, 1, 2)), (1, 8, 4, 5, 7)),
    module("conv 3-D, norm, residual", lambda: nn.Sequential(nn.Conv3d(3, 6, 3, padding=1), nn.BatchNorm3d(6), nn.ReLU(), nn.Conv3d(6, 3, 1)), (1, 3, 3, 5, 7)),
    module("conv 3-D of what a 2-D one gives", lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.Unflatten(1, (4, 2)), nn.Conv3d(4, 5, 2), nn.Flatten(1, 2), nn.Conv2d(5, 3, 3)), (1, 3, 9, 8)),
    node("Conv 3-D with NaN and Inf in groups of 3", "Conv", [NONFINITE_MAPS, (4, 3, 2, 3, 2)], constants=[1], group=2, pads=[1, 0, 1, 0, 2, 1]),
    node("Conv 3-D SAME_LOWER", "Conv", [(1, 3, 5, 6, 7), (5, 3, 2, 3, 4)], constants=[1], auto_pad="SAME_LOWER", strides=[2, 1, 2]),
    module("transposed 3-D 4x4x4 stride 2", lambda: nn.ConvTranspose3d(3, 5, 4, 2, 1), (2, 3, 3, 5, 4)),
    module("transposed 3-D strides, dilations, output padding", lambda: nn.ConvTranspose3d(5, 3, (3, 2, 3), (2, 3, 1), (1, 0, 2), (1, 2, 0), dilation=(1, 2, 2)), (1, 5, 3, 4, 6)),
    module("transposed 3-D groups of 3", lambda: nn.ConvTranspose3d(6, 4, 3, (1, 2, 3), groups=2), (1, 6, 2, 3, 4)),
    module("transposed 3-D groups of 4", lambda: nn.ConvTranspose3d(8, 8, 2, 2, groups=2), (1, 8, 2, 3, 4)),
    module("transposed 3-D depthwise, then conv", lambda: nn.Sequential(nn.ConvTranspose3d(5, 5, 3, 2, groups=5), nn.ReLU(), nn.Conv3d(5, 3, 3)), (1, 5, 2, 3, 4)),
    node("ConvTranspose 3-D output_shape", "ConvTranspose", [(1, 3, 2, 5, 4), (3, 2, 3, 3, 2)], constants=[1], strides=[2, 3, 2], output_shape=[4, 15, 9]),
    node("ConvTranspose asymmetric pads", "ConvTranspose", [(1, 3, 5, 4), (3, 2, 3, 4)], constants=[1], strides=[2, 2], pads=[0, 1, 2, 3]),
    node("ConvTranspose SAME_LOWER", "ConvTranspose", [(1, 3, 5, 4), (3, 2, 4, 3)], constants=[1], strides=[2, 1], auto_pad="SAME_LOWER"),
    node("Conv by computed weights", "Conv", [(2, 5, 7, 6), (6, 5, 3, 2), (6,)], pads=[1, 0, 1, 1], strides=[2, 1]),
    node("Conv by computed weights, 4101 channels", "Conv", [(1, 4101, 2, 2), (5, 4101, 2, 1)]),
    node("Conv by a computed bias", "Conv", [(1, 3, 7, 6), (5, 3, 3, 3), (5,)], constants=[1]),
    module("conv to 1030 channels, weights in two layers", lambda: nn.Conv2d(1, 1030, 4), (1, 1, 5, 6)),
    module("conv to 1030 channels, weights in two layers, dilated", lambda: nn.Conv2d(1, 1030, 4, dilation=2), (1, 1, 8, 7)),
    module("conv to 2056 channels in groups, weights in three layers", lambda: nn.Conv2d(8, 2056, 5, groups=2), (1, 8, 5, 6)),
    module("transposed to 4100 channels, weights in two layers", lambda: nn.ConvTranspose2d(3, 4100, 2, 2), (1, 3, 2, 3)),
    node("Conv by computed weights in two layers", "Conv", [(1, 5, 5, 6), (1030, 5, 4, 4)]),
    node("Conv 1-D by computed weights", "Conv", [(2, 3, 17), (5, 3, 3)], dilations=[2]),
    node("Conv 3-D by computed weights", "Conv", [(1, 3, 3, 4, 6), (5, 3, 2, 3, 2), (5,)]),
    node("Conv by computed weights in groups of 4", "Conv", [(1, 8, 5, 6), (12, 4, 3, 3)], group=2),
    node("Conv by computed weights in groups of 3", "Conv", [(2, 6, 5, 6), (10, 3, 3, 2), (10,)], group=2),
    node("Conv by computed weights, depthwise", "Conv", [(1, 5, 5, 6), (5, 1, 3, 3)], group=5),
    node("ConvTranspose by computed weights", "ConvTranspose", [(2, 5, 4, 3), (5, 6, 3, 4), (6,)], strides=[2, 2]),
    node("ConvTranspose by computed weights in groups of 4", "ConvTranspose", [(1, 8, 4, 3), (8, 4, 4, 4)], group=2, strides=[2, 2], pads=[1, 1, 1, 1]),
    node("ConvTranspose by computed weights in groups of 3", "ConvTranspose", [(1, 6, 4, 3), (6, 2, 3, 2)], group=2, strides=[2, 1]),
    node("ConvTranspose 3-D by computed weights, depthwise", "ConvTranspose", [(1, 5, 2, 3, 4), (5, 1, 3, 2, 3)], group=5, strides=[1, 2, 2]),
    Case("conv by blended kernels", lambda: (ComputedKernel(torch.conv2d, 6, 6, 3, 3, padding=1).eval(), (np.random.default_rng(3).normal(0, 1, (2, 6, 7, 5)).astype(np.float32),))),
]  # fmt: skip
