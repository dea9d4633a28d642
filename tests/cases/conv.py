"""Conv and ConvTranspose with every attribute PyTorch can give them, at odd sizes."""

from torch import nn

from cases.case import module, node

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
]  # fmt: skip
