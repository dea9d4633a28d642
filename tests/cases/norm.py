"""Normalizations over every axis they know, with means that are large against the spread."""

import numpy as np
from torch import nn

from cases.case import module, node

RNG = np.random.default_rng(11)
SPREAD = (RNG.normal(0, 1, (2, 5, 9, 7)) + 300).astype(np.float32)
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
]  # fmt: skip
