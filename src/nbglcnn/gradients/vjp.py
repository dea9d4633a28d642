"""Vector-Jacobian product in a Graph: the gradient of one value, weighted by an input, the seed."""

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
    """Add the seed as an input, and the gradient of sum(value · seed) with respect to `wrt`.

    Args:
        graph: A Graph with inferred shapes (`infer_shapes`).
        of: The value to differentiate.
        wrt: The values to differentiate with respect to.
        seed: The initial value of the seed input, in the shape of `of`.
        section: The section of the Plan that computes the gradient.
        name: The prefix of the new nodes; the seed's value and key are named `<name>.seed`.

    Returns:
        The Graph, and the names of the gradients by value. Values that `of` doesn't depend on are
        left out.

    Raises:
        UnsupportedOperator: If an operator on the path has no gradient; the message names the
            layer.
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
