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


def draw_noise(
    generator: np.random.Generator, distribution: Distribution, shape: tuple[int, ...]
) -> Array:
    """Draw the default numbers of a random call: standard normal, or uniform in 0..1."""
    if distribution == "normal":
        return generator.standard_normal(shape, np.float32)
    return generator.random(shape, np.float32)


def resolve_noise(
    user_arrays: Mapping[str, Any] | Sequence[Any],
    noise_names: Sequence[str],
    default_arrays: Sequence[Array],
) -> tuple[Array, ...]:
    """The user's noise arrays, by name or in order; missing ones default to `default_arrays`.

    Raise InputError for an unknown name, or another number or shape of arrays.
    """
    known = ", ".join(map(repr, noise_names))
    if isinstance(user_arrays, Mapping):
        for name in user_arrays:
            if name not in noise_names:
                raise InputError(
                    f"no input {name!r}{suggest_names(name, noise_names)}; the model samples "
                    f"{known or 'no random numbers'}"
                )
    elif user_arrays and len(user_arrays) != len(noise_names):
        raise InputError(
            f"{len(user_arrays)} arrays were given for the model's random numbers; it samples "
            f"{len(noise_names)} ({known}). Give all of them, none, or some by name in a dict"
        )
    if not noise_names:
        return ()
    specs = [
        InputSpec(name, array.shape, array.dtype, default=array)
        for name, array in zip(noise_names, default_arrays, strict=True)
    ]
    return to_input_arrays(
        user_arrays if isinstance(user_arrays, Mapping) else tuple(user_arrays), specs
    )


def add_noise_inputs(graph: Graph, default_arrays: Sequence[Array]) -> Graph:
    """Return the Graph with these arrays as the defaults of its last inputs, the noise."""
    values, taken = dict(graph.values), set(graph.values)
    found = {}
    for name, array in zip(
        graph.inputs[len(graph.inputs) - len(default_arrays) :], default_arrays, strict=True
    ):
        found[name] = free_name(f"{name} at first", taken)
        values[found[name]] = Value(found[name], array.shape, array.dtype, array)
    return replace(graph, values=MappingProxyType(values), noise_defaults=MappingProxyType(found))


def redraw_noise(generator: np.random.Generator, previous: Array) -> Array:
    """Draw numbers distributed as `previous`: uniform if all are in 0..1, else normal."""
    uniform = previous.size > 0 and previous.min() >= 0 and previous.max() < 1
    return draw_noise(generator, "uniform" if uniform else "normal", previous.shape)
