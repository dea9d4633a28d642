"""Size limits for models: every dimension is checked here before anything is allocated."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from nbglcnn.errors import ModelError, UnsupportedModel

MAX_RANK = 8  # per value; layouts may allow less
MAX_ELEMENTS = 2**28  # per value: 1 GiB of float32
MAX_FOLDED_BYTES = 2**27  # folded while loading; 4 times the constants' bytes are added
# Numbers in a constant that a rule generates, such as a sampling grid.
MAX_GENERATED_ELEMENTS = 2**22
MAX_EDGES = 100_000  # inputs and outputs of all nodes
MAX_NODES = 20_000  # per graph, after function bodies are inlined
MAX_QUOTED_LENGTH = 200  # characters of a model's name in a message


def quote_name(name: str) -> str:
    """Quote a name from a model for a message: escaped and truncated."""
    return repr(name if len(name) <= MAX_QUOTED_LENGTH else name[:MAX_QUOTED_LENGTH] + "…")


def validate_shape(
    error_subject: str, dims: Iterable[Any], *, itemsize: int = 4
) -> tuple[int, ...]:
    """Return the dims as a tuple; ModelError if one is negative, UnsupportedModel if too large."""
    shape = tuple(int(d) for d in dims)
    if any(d < 0 for d in shape):
        raise ModelError(f"{error_subject}: shape {list(shape)} has a negative dimension")
    if len(shape) > MAX_RANK:
        raise UnsupportedModel(
            f"{error_subject}: {len(shape)} dimensions; at most {MAX_RANK} are supported"
        )
    # Zeros are excluded from the product: (0, 2**40) is empty, but its strides would overflow.
    elements = prod(d for d in shape if d)
    if elements > MAX_ELEMENTS:
        raise UnsupportedModel(
            f"{error_subject}: shape {list(shape)} needs {elements * itemsize:,} bytes; at most "
            f"{MAX_ELEMENTS * itemsize:,} are supported per value"
        )
    return shape
