"""Building the Graph from a folded draft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from nbglcnn.graph import Graph, Node, ValueKey
from nbglcnn.load.draft import FoldState, GraphDraft


def build_graph(
    draft: GraphDraft, fold_state: FoldState, nodes: tuple[Node, ...], keys: Sequence[ValueKey]
) -> Graph:
    """Build a Graph of the values that are still needed."""
    needed = dict.fromkeys(draft.inputs)
    for node in (*fold_state.folded_nodes, *nodes):
        needed.update(dict.fromkeys((*node.inputs, *node.outputs)))
    needed.update(dict.fromkeys(key.value_name for key in keys))
    needed.update(dict.fromkeys(draft.parameters.values()))
    needed.pop("", None)
    return Graph(
        name=draft.name,
        nodes=tuple(_make_names_unique(nodes)),
        values=MappingProxyType({name: fold_state.make_value(name) for name in needed}),
        inputs=tuple(draft.inputs),
        outputs=tuple(draft.outputs),
        keys=tuple(keys),
        parameters=MappingProxyType(dict(draft.parameters)),
        buffers=frozenset(draft.buffers),
        folded_nodes=tuple(fold_state.folded_nodes),
        framework=draft.framework,
        notes=tuple(draft.notes),
        constant_reads=draft.constant_reads,
        class_names=draft.class_names,
    )


def _make_names_unique(nodes: Sequence[Node]) -> list[Node]:
    """Give each node a unique name: files omit or repeat names."""
    names = {node.name for node in nodes}
    seen = {""}
    result = []
    for node in nodes:
        name = node.name
        if name in seen:
            name = next(filter(None, node.outputs), node.op)
            while name in names:
                name += "'"
        seen.add(name)
        names.add(name)
        result.append(node if name == node.name else replace(node, name=name))
    return result
