"""The numbers in the place of what a model draws: seeded, or the user's own."""

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
    """What a call gets where nothing is given: standard normal, or uniform from 0 to 1."""
    if kind == "normal":
        return generator.standard_normal(shape, np.float32)
    return generator.random(shape, np.float32)


def resolve_noise(
    given: Mapping[str, Any] | Sequence[Any], names: Sequence[str], first: Sequence[Array]
) -> tuple[Array, ...]:
    """The user's arrays, by name or all in order, and the `first` ones for what is left out.

    InputError for others than are drawn, or of another shape.
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
    """The Graph whose last inputs are these arrays where nobody gives others."""
    values, taken = dict(graph.values), set(graph.values)
    found = {}
    for name, array in zip(graph.inputs[len(graph.inputs) - len(first) :], first, strict=True):
        found[name] = free_name(f"{name} at first", taken)
        values[found[name]] = Value(found[name], array.shape, array.dtype, array)
    return replace(graph, values=MappingProxyType(values), noise=MappingProxyType(found))


def redraw_noise(generator: np.random.Generator, first: Array) -> Array:
    """Other random numbers of the kind that `draw_noise` gave: what leaves 0 to 1 is normal."""
    uniform = first.size > 0 and first.min() >= 0 and first.max() < 1
    return draw_noise(generator, "uniform" if uniform else "normal", first.shape)
