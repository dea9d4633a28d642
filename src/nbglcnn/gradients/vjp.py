"""Vector-Jacobian product in a Graph: the gradient of one value, weighted by an input, the seed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from nbglcnn.gradients.autodiff import append_nodes, differentiate, make_gradient_builder
from nbglcnn.graph import FORWARD_SECTION, Array, Graph, Value, ValueKey


def add_vjp(
    graph: Graph,
    value_name: str,
    wrt: Collection[str],
    seed: Array,
    *,
    section: str = FORWARD_SECTION,
    name: str = "gradient",
) -> tuple[Graph, Mapping[str, str]]:
    """Add the seed as an input, and the gradient of sum(value · seed) with respect to `wrt`.

    Args:
        graph: A Graph with inferred shapes (`infer_shapes`).
        value_name: The value to differentiate.
        wrt: The values to differentiate with respect to.
        seed: The initial value of the seed input, in the shape of `value_name`.
        section: The section of the Plan that computes the gradient.
        name: The prefix of the new nodes; the seed's value and key are named `<name>.seed`.

    Returns:
        The Graph, and the names of the gradients by value. Values that `value_name` doesn't depend
        on are left out.

    Raises:
        UnsupportedOperator: If an operator on the path has no gradient; the message names the
            layer.
    """
    rules = make_gradient_builder(graph, section=section, prefix=name)
    key, initial = f"{name}.seed", f"{name}.seed.initial"
    data = np.ascontiguousarray(seed, np.float32)
    rules.values[key] = Value(key, graph.shape(value_name), data.dtype)
    rules.values[initial] = Value(initial, graph.shape(value_name), data.dtype, data)
    found = differentiate(rules, graph, {value_name: key}, set(wrt))
    whole = append_nodes(graph, rules)
    return replace(
        whole,
        inputs=(*graph.inputs, key),
        noise_defaults=MappingProxyType({**graph.noise_defaults, key: initial}),
        keys=(*graph.keys, ValueKey(key, key, "contributed")),
    ), found
