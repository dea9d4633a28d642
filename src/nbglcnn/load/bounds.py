"""What sizes a model may ask for: every dimension is checked here before anything is allocated."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from nbglcnn.errors import ModelError, UnsupportedModel

MAX_RANK = 8  # of any value; layouts may allow less
MAX_ELEMENTS = 2**28  # of one value: 1 GiB of float32
MAX_FOLDED_BYTES = 2**27  # computed while loading, besides some times the bytes of the constants
MAX_GENERATED_ELEMENTS = (
    2**22
)  # numbers of a constant that a rule makes up: the places of a sampling grid
MAX_EDGES = 100_000  # inputs and outputs of all nodes
MAX_NODES = 20_000  # of a graph, after function bodies are written out
MAX_NAME = 200  # characters of a model's name that a message repeats


def quote_name(name: str) -> str:
    """A name from a model as a message may repeat it: quoted, escaped and cut."""
    return repr(name if len(name) <= MAX_NAME else name[:MAX_NAME] + "…")


def validate_shape(what: str, dims: Iterable[Any], *, itemsize: int = 4) -> tuple[int, ...]:
    """The dims as a tuple, or ModelError when one is negative, or there is too much of it all."""
    shape = tuple(int(d) for d in dims)
    if any(d < 0 for d in shape):
        raise ModelError(f"{what}: shape {list(shape)} has a negative dimension")
    if len(shape) > MAX_RANK:
        raise UnsupportedModel(f"{what}: {len(shape)} dimensions; at most {MAX_RANK} are supported")
    # Zeroes are left out of the product: (0, 2**40) is empty, but its strides would overflow.
    elements = prod(d for d in shape if d)
    if elements > MAX_ELEMENTS:
        raise UnsupportedModel(
            f"{what}: shape {list(shape)} needs {elements * itemsize:,} bytes; at most "
            f"{MAX_ELEMENTS * itemsize:,} are supported per value"
        )
    return shape
