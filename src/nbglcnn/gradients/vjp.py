"""A Graph with the gradient of one of its values; an input, the seed, weights its elements."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from nbglcnn.gradients.autodiff import append_nodes, differentiate, make_gradient_builder
from nbglcnn.graph import FORWARD_SECTION, Array, Graph, Key, Value


def add_vjp(
    graph: Graph,
    of: str,
    wrt: Collection[str],
    seed: Array,
    *,
    section: str = FORWARD_SECTION,
    name: str = "gradient",
) -> tuple[Graph, Mapping[str, str]]:
    """Add an input, the seed, and the gradient of sum(value · seed) with respect to other values.

    Args:
        graph: with known shapes (`infer_shapes`).
        of: the value that is differentiated.
        wrt: the values that it is differentiated with respect to.
        seed: of the value's shape, what the input holds until another array is written to it.
        section: the section of the Plan that computes the gradient.
        name: of the input's value and its key, with ".seed" behind it, and of the new nodes.

    Returns:
        The Graph, and by each of `wrt` that the value depends on the name of its gradient.

    Raises:
        UnsupportedOperator: naming the layer, where an operator on the way has no gradient.
    """
    rules = make_gradient_builder(graph, section=section, prefix=name)
    key, initial = f"{name}.seed", f"{name}.seed.initial"
    data = np.ascontiguousarray(seed, np.float32)
    rules.values[key] = Value(key, graph.shape(of), data.dtype)
    rules.values[initial] = Value(initial, graph.shape(of), data.dtype, data)
    found = differentiate(rules, graph, {of: key}, set(wrt))
    whole = append_nodes(graph, rules)
    return replace(
        whole,
        inputs=(*graph.inputs, key),
        noise=MappingProxyType({**graph.noise, key: initial}),
        keys=(*graph.keys, Key(key, key, "contributed")),
    ), found
