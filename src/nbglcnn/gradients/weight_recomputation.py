"""Parameters that change at run time: values folded from them are recomputed in each run."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from types import MappingProxyType

from nbglcnn.graph import Graph, Node


def unfold_constants(graph: Graph, values: Collection[str]) -> Graph:
    """Return the Graph with the nodes folded from these constants turned back into run-time nodes.

    `values` are names of constants, as in `graph.parameters`; they stay constants. The unfolded
    nodes come first, in order; nodes that depend on other constants only stay folded.
    """
    changed, nodes = set(values), []
    for node in graph.folded_nodes:
        if changed.intersection(node.inputs):
            changed.update(filter(None, node.outputs))
            nodes.append(node)
    used = {name for node in graph.nodes for name in node.inputs} | set(graph.outputs)
    used |= {key.value_name for key in graph.keys}
    kept: list[Node] = []
    for node in reversed(nodes):
        if used.intersection(node.outputs):
            used.update(filter(None, node.inputs))
            kept.append(node)
    run = {name for node in kept for name in node.outputs if name}
    records = dict(graph.values)
    for name in run:
        if name in records:
            records[name] = replace(records[name], data=None)
    return replace(
        graph,
        nodes=(*reversed(kept), *graph.nodes),
        values=MappingProxyType(records),
        folded_nodes=tuple(
            node for node in graph.folded_nodes if not run.intersection(node.outputs)
        ),
    )
