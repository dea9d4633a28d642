"""Where edits act on what a training learns: values of their own, which a gradient passes through.

Behind the value of a key its readers in the network get another one, which is the same until
somebody edits it. What a layer gave without the edit is what its own gradient is computed from, so
that an edit counts as a constant: the slope of an edited value with respect to the unedited is 1.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from nbglcnn.features.edits.bent_graph import insert_at_keys
from nbglcnn.graph import Graph, Key, Node

EDITED_PREFIX = "bent "  # before the name of a key: where edits of it act


def add_edit_points(graph: Graph, names: Collection[str], section: str) -> Graph:
    """The Graph in which edits of these keys have a place; it has a key "bent <name>" for each.

    Keys that aren't there, or whose values are no floats, are left out.
    """
    own = {
        key.name: key for key in graph.keys
        if key.name in names and graph.values[key.value].dtype.kind == "f"
    }  # fmt: skip
    if not own:
        return graph
    pointed = insert_at_keys(
        graph, own, "bent",
        lambda _, value, name: [Node(name, "Identity", (value,), (name,), section=section)],
    )  # fmt: skip
    found = {key.name: key.value for key in pointed.keys if key.name in own}
    # An input's key says where it is written.
    inputs = {key.name: key.value for key in graph.keys if key.kind == "input"}
    keys = (replace(key, value=inputs.get(key.name, key.value)) for key in pointed.keys)
    points = (Key(EDITED_PREFIX + n, value, "layer", edited_as=n) for n, value in found.items())
    return replace(pointed, keys=(*keys, *points))
