"""Noise of a seed as a source, the same in pages and in Python."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from nbglcnn.errors import InputError
from nbglcnn.features.edits import transforms
from nbglcnn.features.sources.input_source import (
    InputSource,
    SourceBlobs,
    check_int_field,
    float_field,
)
from nbglcnn.features.sources.records import NonNegative, SourceRecord
from nbglcnn.graph import Array
from nbglcnn.plan.schema import Input

# By default 95 of 100 numbers lie between 0 and 1, as those of a picture do.
DEFAULT_MEAN, DEFAULT_STD = 0.5, 0.25


class NoiseRecord(SourceRecord, frozen=True, kw_only=True, tag="noise"):
    """Noise of the input's size: `noise_array` has the formula."""

    seed: NonNegative = 0
    mean: float = DEFAULT_MEAN
    std: float = DEFAULT_STD


@dataclass(frozen=True, repr=False)
class Noise(InputSource):
    """Nearly normal numbers of the input's shape, in pages and Python the same to the bit.

    Another seed gives others. The defaults suit a network that takes pictures with numbers from 0
    to 1, of which 95 in 100 lie there and none is cut; `Noise(mean=0, std=1)` suits a generator.

    Args:
        seed: a whole number from 0 to 2³¹.
        mean: of the numbers.
        std: their standard deviation, at least 0. No number is further than 6 of it from the mean.

    Raises:
        InputError: an argument is none of these.
    """

    record_type: ClassVar[type[SourceRecord]] = NoiseRecord
    accepts: ClassVar[str] = "float32"

    seed: int = 0
    mean: float = DEFAULT_MEAN
    std: float = DEFAULT_STD

    def __post_init__(self) -> None:
        check_int_field(self, "seed")
        for name in ("mean", "std"):
            number = float_field(self, name)
            object.__setattr__(self, name, number)
        if self.std < 0:
            raise InputError(f"Noise: std={self.std}; at least 0 is needed")

    def fits(self, record: Input) -> bool:
        """Whether it is of floats, of whatever shape."""
        return record.dtype == "float32"

    def tensor(self, record: Input, blobs: SourceBlobs | None) -> Array:
        """The numbers of this seed."""
        return noise_array(math.prod(record.shape), self.seed, self.mean, self.std).reshape(
            record.shape
        )


def noise_array(count: int, seed: int, mean: float, std: float) -> Array:
    """So many elements of noise in row-major order, float32.

    Each is mean + std · (u₁ + … + u₁₂ − 6) in doubles, rounded once. The uniform numbers are those
    of the bend `noise`: with s₁ = scrambled(index ^ scrambled(seed)) and sₖ₊₁ =
    scrambled(sₖ), all in 32 bits without a sign, uₖ = ((sₖ >> 9) + 0.5) / 2²³. Their sum is exact,
    in whatever order.
    """
    normal = transforms.TRANSFORM_KINDS["noise"].formula
    return (mean + std * normal(np.zeros(count), 1.0, seed)).astype(np.float32)
