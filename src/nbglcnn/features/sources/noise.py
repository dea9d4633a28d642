"""Seeded noise as a source, with equal numbers in pages and in Python."""

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

# By default 95 % of the numbers are between 0 and 1, the range of pictures.
DEFAULT_MEAN, DEFAULT_STD = 0.5, 0.25


class NoiseRecord(SourceRecord, frozen=True, kw_only=True, tag="noise"):
    """Noise of the input's size, computed as in `noise_array`."""

    seed: NonNegative = 0
    mean: float = DEFAULT_MEAN
    std: float = DEFAULT_STD


@dataclass(frozen=True, repr=False)
class Noise(InputSource):
    """Approximately normal random numbers of the input's shape, as a source.

    Pages and Python compute the same numbers, equal bit by bit. With the defaults, about 95 % of
    the numbers are between 0 and 1, as in a picture; they are not clipped. `Noise(mean=0, std=1)`
    is suitable for a generator.

    Args:
        seed: The seed, an integer from 0 to 2³¹. Default: 0.
        mean: The mean. Default: 0.5.
        std: The standard deviation, at least 0. Default: 0.25. All numbers are within 6 std of the
            mean.
        input: The key of the input to feed, if the network has several. Default: the first
            compatible one.
        owner: Read-only: unused for noise.

    Raises:
        InputError: If an argument is not valid.

    Source: a sum of twelve uniform numbers (Irwin–Hall distribution).

    Example:
        >>> viewer.input = nbglcnn.Noise(seed=3)
    """

    record_type: ClassVar[type[SourceRecord]] = NoiseRecord
    accepted_inputs_text: ClassVar[str] = "float32"

    seed: int = 0
    mean: float = DEFAULT_MEAN
    std: float = DEFAULT_STD

    def __post_init__(self) -> None:
        check_int_field(self, "seed")
        for name in ("mean", "std"):
            number = float_field(self, name)
            object.__setattr__(self, name, number)
        if self.std < 0:
            raise InputError(f"Noise: std={self.std}; expected a number ≥ 0")

    def fits_input(self, model_input: Input) -> bool:
        """Return whether an input can take this source: float32 of any shape.

        Args:
            model_input: The input.

        Returns:
            True if it can.
        """
        return model_input.dtype == "float32"

    def current_input_array(self, model_input: Input, blobs: SourceBlobs | None) -> Array:
        """Return the numbers of this seed.

        Args:
            model_input: The input.
            blobs: Not used.

        Returns:
            A float32 array in the shape of the input.
        """
        return noise_array(math.prod(model_input.shape), self.seed, self.mean, self.std).reshape(
            model_input.shape
        )


def noise_array(element_count: int, seed: int, mean: float, std: float) -> Array:
    """Return `element_count` elements of noise in row-major order, float32.

    Each is mean + std · (u₁ + … + u₁₂ − 6) in doubles, rounded once to float32. The uniform numbers
    are those of the bend `noise`: with s₁ = scrambled(index ^ scrambled(seed)) and sₖ₊₁ =
    scrambled(sₖ), all in unsigned 32-bit integers, uₖ = ((sₖ >> 9) + 0.5) / 2²³. Their sum is exact
    in any order.
    """
    normal = transforms.TRANSFORM_KINDS["noise"].formula
    return (mean + std * normal(np.zeros(element_count), 1.0, seed)).astype(np.float32)
