"""Noise inputs: the numbers that replace a model's random numbers; seeded, or from the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from nbglcnn.errors import InputError, suggest_names
from nbglcnn.graph import Array, Graph, Value
from nbglcnn.inputs.arguments import InputSpec, to_input_arrays
from nbglcnn.load.draft import free_name

Distribution = Literal["normal", "uniform"]
DRAW_OUTSIDE_HINT = "sample them outside the model and pass them as an input"


def draw_noise(generator: np.random.Generator, kind: Distribution, shape: tuple[int, ...]) -> Array:
    """Draw the default numbers of a random call: standard normal, or uniform in 0..1."""
    if kind == "normal":
        return generator.standard_normal(shape, np.float32)
    return generator.random(shape, np.float32)


def resolve_noise(
    given: Mapping[str, Any] | Sequence[Any], names: Sequence[str], first: Sequence[Array]
) -> tuple[Array, ...]:
    """The user's noise arrays, by name or in order; missing ones default to `first`.

    Raise InputError for an unknown name, or another number or shape of arrays.
    """
    known = ", ".join(map(repr, names))
    if isinstance(given, Mapping):
        for name in given:
            if name not in names:
                raise InputError(
                    f"no input {name!r}{suggest_names(name, names)}; the model samples "
                    f"{known or 'no random numbers'}"
                )
    elif given and len(given) != len(names):
        raise InputError(
            f"{len(given)} arrays were given for the model's random numbers; it samples "
            f"{len(names)} ({known}). Give all of them, none, or some by name in a dict"
        )
    if not names:
        return ()
    specs = [
        InputSpec(name, array.shape, array.dtype, default=array)
        for name, array in zip(names, first, strict=True)
    ]
    return to_input_arrays(given if isinstance(given, Mapping) else tuple(given), specs)


def add_noise_inputs(graph: Graph, first: Sequence[Array]) -> Graph:
    """Return the Graph with these arrays as the defaults of its last inputs, the noise."""
    values, taken = dict(graph.values), set(graph.values)
    found = {}
    for name, array in zip(graph.inputs[len(graph.inputs) - len(first) :], first, strict=True):
        found[name] = free_name(f"{name} at first", taken)
        values[found[name]] = Value(found[name], array.shape, array.dtype, array)
    return replace(graph, values=MappingProxyType(values), noise=MappingProxyType(found))


def redraw_noise(generator: np.random.Generator, first: Array) -> Array:
    """Draw numbers of the same distribution as `first`: uniform if all are in 0..1, else normal."""
    uniform = first.size > 0 and first.min() >= 0 and first.max() < 1
    return draw_noise(generator, "uniform" if uniform else "normal", first.shape)
