"""The Graph made of what folding left."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from nbglcnn.graph import Graph, Key, Node
from nbglcnn.load.draft import Draft, State


def finish(draft: Draft, done: State, nodes: tuple[Node, ...], keys: Sequence[Key]) -> Graph:
    """A Graph with the values that are still needed."""
    needed = dict.fromkeys(draft.inputs)
    for node in (*done.folded, *nodes):
        needed.update(dict.fromkeys((*node.inputs, *node.outputs)))
    needed.update(dict.fromkeys(key.value for key in keys))
    needed.update(dict.fromkeys(draft.parameters.values()))
    needed.pop("", None)
    return Graph(
        name=draft.name,
        nodes=nodes,
        values=MappingProxyType({name: done.value(name) for name in needed}),
        inputs=tuple(draft.inputs),
        outputs=tuple(draft.outputs),
        keys=tuple(keys),
        parameters=MappingProxyType(dict(draft.parameters)),
        folded=tuple(done.folded),
        source=draft.source,
        notes=tuple(draft.notes),
    )
