"""Edit points: values at which edits act on training, with a straight-through gradient.

The consumers of a key's value read a second value instead, which is equal to it until a user edits
the key. A layer's own gradient is computed from its unedited output. An edit therefore counts as a
constant: the derivative of the edited value with respect to the unedited one is 1.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from nbglcnn.features.edits.bent_graph import insert_nodes_at_keys
from nbglcnn.graph import Graph, Node, ValueKey

EDIT_POINT_PREFIX = "bent "  # prefix of the keys of edit points: "bent <name>"


def add_edit_points(graph: Graph, key_names: Collection[str], section: str) -> Graph:
    """Return the Graph with an edit point for each of these keys, under the key "bent <name>".

    Skip names that are not keys, and keys whose values are not floats.
    """
    own = {
        key.name: key for key in graph.keys
        if key.name in key_names and graph.values[key.value_name].dtype.kind == "f"
    }  # fmt: skip
    if not own:
        return graph
    pointed = insert_nodes_at_keys(
        graph, own, "bent",
        lambda _, value, name: [Node(name, "Identity", (value,), (name,), section=section)],
    )  # fmt: skip
    found = {key.name: key.value_name for key in pointed.keys if key.name in own}
    # The key of an input stays at the value that is written.
    inputs = {key.name: key.value_name for key in graph.keys if key.kind == "input"}
    keys = (replace(key, value_name=inputs.get(key.name, key.value_name)) for key in pointed.keys)
    points = (
        ValueKey(EDIT_POINT_PREFIX + n, value, "layer", shares_edits_of=n)
        for n, value in found.items()
    )
    return replace(pointed, keys=(*keys, *points))
