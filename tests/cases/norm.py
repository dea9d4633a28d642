"""Normalizations over every axis they support, with means that are large relative to the spread."""

import numpy as np
from torch import nn

from cases.case import module, node

RNG = np.random.default_rng(11)
LARGE_MEAN_VALUES = (RNG.normal(0, 1, (2, 5, 9, 7)) + 300).astype(np.float32)
WITH_NAN = RNG.normal(0, 1, (2, 3, 4, 5)).astype(np.float32)
WITH_NAN[0, 1, 2, 3] = np.nan
WITH_NAN[1, 0, 0, 0] = np.inf


def positive(rng, shape):
    return rng.uniform(0.3, 2, shape)


CASES = [
    module("batch norm", lambda: nn.BatchNorm2d(5), (2, 5, 3, 7)),
    module("batch norm 513 channels", lambda: nn.BatchNorm2d(513), (1, 513, 3, 2)),
    module("batch norm 1-D", lambda: nn.BatchNorm1d(3), (5, 3, 9)),
    module("batch norm of vectors", lambda: nn.BatchNorm1d(6), (5, 6)),
    module("batch norm not affine", lambda: nn.BatchNorm2d(5, affine=False), (1, 5, 1, 7)),
    module("batch norm of a flattened map", lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(60)), (3, 5, 4, 3)),
    module("batch norm after transposed", lambda: nn.Sequential(nn.ConvTranspose2d(3, 5, 4, 2, 1), nn.BatchNorm2d(5)), (2, 3, 5, 4)),
    module("batch norm after conv", lambda: nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU()), (2, 3, 7, 6)),
    node("BatchNormalization with NaN and Inf", "BatchNormalization", [WITH_NAN, (3,), (3,), (3,), (3,)], constants=[1, 2, 3, 4], values=positive),
    node("BatchNormalization at run time", "BatchNormalization", [(2, 5, 3, 7), (5,), (5,), (5,), (5,)], values=positive, epsilon=1e-2),
    module("batch norm 3-D", lambda: nn.BatchNorm3d(5), (2, 5, 3, 4, 7)),
    *(
        node(f"BatchNormalization in training of {shape}", "BatchNormalization", [shape, *[shape[1:2]] * 4], values=positive, opset=15, outputs=3, training_mode=1, momentum=0.7, epsilon=1e-2)
        for shape in ((2, 5, 3, 7), (5, 3), (3, 1, 70), (2, 5, 3, 4, 5))
    ),
    node("BatchNormalization in training by constants", "BatchNormalization", [LARGE_MEAN_VALUES, (5,), (5,), (5,), (5,)], constants=[1, 2, 3, 4], values=positive, opset=15, outputs=3, training_mode=1, rtol=1e-4),  # 1e-4: the mean itself has an error of 3e-5
    *(module(f"instance norm of {shape}", lambda c=shape[1]: nn.InstanceNorm2d(c, affine=True), shape) for shape in ((2, 5, 3, 7), (1, 1, 70, 90), (3, 513, 2, 2), (1, 3, 1, 9))),
    module("instance norm 1-D", lambda: nn.InstanceNorm1d(5), (2, 5, 9)),
    module("instance norm 3-D", lambda: nn.InstanceNorm3d(5), (2, 5, 3, 4, 5)),
    module("instance norm after transposed", lambda: nn.Sequential(nn.ConvTranspose2d(3, 5, 4, 2, 1), nn.InstanceNorm2d(5)), (2, 3, 5, 4)),
    node("InstanceNormalization of large means", "InstanceNormalization", [LARGE_MEAN_VALUES, (5,), (5,)], constants=[1, 2], rtol=1e-4),  # 1e-4: the mean itself has an error of 3e-5
    *(
        module(f"layer norm of the last {count} of {shape}", lambda shape=shape, count=count: nn.LayerNorm(shape[-count:]), shape)
        for shape in ((2, 5, 3, 7), (3, 9, 64), (5, 6), (2, 3, 4, 5, 6)) for count in range(1, len(shape))
    ),
    module("layer norm without bias", lambda: nn.LayerNorm(7, bias=False), (2, 5, 7)),
    module("layer norm not affine", lambda: nn.LayerNorm(7, elementwise_affine=False), (2, 5, 7)),
    module("layer norm of 5000", lambda: nn.LayerNorm(5000), (3, 5000)),
    *(node(f"LayerNormalization with its statistics, axis {axis}", "LayerNormalization", [(2, 5, 3, 7), (2, 5, 3, 7)[axis:], (2, 5, 3, 7)[axis:]], outputs=3, axis=axis) for axis in range(-3, 4)),
    node("LayerNormalization with one scale", "LayerNormalization", [(2, 5, 7), (1,), (7,)]),
    *(
        module(f"group norm of {groups} in {shape}", lambda c=shape[1], groups=groups: nn.GroupNorm(groups, c), shape)
        for groups, shape in ((1, (2, 6, 3, 7)), (2, (2, 6, 3, 7)), (3, (2, 6, 3, 7)), (6, (1, 6, 5, 4)), (9, (1, 513, 3, 2)), (2, (3, 6)), (2, (3, 6, 5)), (2, (2, 6, 2, 3, 4)), (8, (1, 32, 65, 33)))
    ),
    *(node(f"GroupNormalization of {groups}", "GroupNormalization", [(2, 6, 3, 7), (6,), (6,)], num_groups=groups) for groups in (1, 2, 6)),
    *(module(f"root mean square norm of the last {count}", lambda count=count: nn.RMSNorm((2, 5, 3, 7)[-count:]), (2, 5, 3, 7)) for count in (1, 2, 3)),
    *(node(f"RMSNormalization, axis {axis}", "RMSNormalization", [(2, 5, 3, 7), (2, 5, 3, 7)[axis:]], opset=23, axis=axis) for axis in (-1, 1)),
    *(node(f"LpNormalization p={p}, axis {axis}", "LpNormalization", [(2, 5, 3, 7)], values=positive, opset=22, p=p, axis=axis) for p in (1, 2) for axis in (0, 1, 2, -1)),
    *(node(f"LpNormalization of zeros, p={p}", "LpNormalization", [np.array([[0, 0, 0], [3, 0, 4]], np.float32)], opset=22, p=p) for p in (1, 2)),
    node("MeanVarianceNormalization", "MeanVarianceNormalization", [(2, 5, 3, 7)]),
    node("MeanVarianceNormalization of images", "MeanVarianceNormalization", [(2, 5, 3, 7)], axes=[1, 2, 3]),
    *(node(f"LRN of {size} among {c}", "LRN", [(2, c, 3, 7)], size=size, alpha=0.3, beta=0.6, bias=1.5) for size, c in ((5, 7), (3, 1), (1, 5), (15, 6))),
    node("LRN of 4 among 7", "LRN", [(7, 7, 3, 2)], size=4, alpha=0.3, beta=0.6, bias=1.5),  # onnx's own reference leaves out the channels that have no image of their number
    module("local response norm", lambda: nn.LocalResponseNorm(5, 0.3), (2, 7, 3, 4)),
    *(module(f"local response norm of {size} among {c}", lambda size=size: nn.LocalResponseNorm(size, 0.3), (2, c, 3, 4)) for size, c in ((4, 7), (2, 5), (6, 3))),
    module("local response norm 3-D", lambda: nn.LocalResponseNorm(3, 0.3), (2, 5, 3, 4, 5)),
    module("local response norm 1-D", lambda: nn.LocalResponseNorm(4, 0.3), (2, 5, 7)),
    node("MeanVarianceNormalization 3-D", "MeanVarianceNormalization", [(2, 5, 3, 4, 7)], axes=[0, 2, 4]),
    *(node(f"LpNormalization p={p}, 3-D, axis {axis}", "LpNormalization", [(2, 3, 3, 4, 5)], opset=22, p=p, axis=axis) for p in (1, 2) for axis in (1, 2, 3)),
    *(node(f"RMSNormalization 3-D, axis {axis}", "RMSNormalization", [(2, 3, 3, 4, 5), (2, 3, 3, 4, 5)[axis:]], opset=23, axis=axis) for axis in (-1, 2, 3)),
    *(node(f"LayerNormalization with its statistics, 3-D, axis {axis}", "LayerNormalization", [(2, 3, 3, 4, 5), (2, 3, 3, 4, 5)[axis:], (2, 3, 3, 4, 5)[axis:]], outputs=3, axis=axis) for axis in (-1, 2, 3)),
]  # fmt: skip
