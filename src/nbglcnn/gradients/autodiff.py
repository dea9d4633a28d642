"""Graph to Graph: gradients by reverse accumulation, of the operators' own rules.

Every rule adds ordinary nodes, so that shapes, checks and lowering are those of any network.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from nbglcnn.errors import UnsupportedOperator
from nbglcnn.graph import FORWARD, Graph, Node
from nbglcnn.lowering.shapes import layer_name
from nbglcnn.ops import OWN_OPERATORS, RECORDS
from nbglcnn.ops.operator import Gradient
from nbglcnn.ops.rules import Rules


def writer(graph: Graph, *, section: str = FORWARD, prefix: str = "gradient") -> Rules:
    """What adds nodes to a Graph whose shapes are known (`infer_shapes`)."""
    return Rules(
        graph,
        lambda facts, node: RECORDS[node.op].shapes(facts, node),
        OWN_OPERATORS.__contains__,
        section=section,
        prefix=prefix,
    )


def written(graph: Graph, rules: Rules) -> Graph:
    """The Graph with the nodes that were added."""
    nodes = (*graph.nodes, *rules.nodes)
    return replace(graph, nodes=nodes, values=MappingProxyType(dict(rules.values)))


def differentiate(
    rules: Rules, graph: Graph, seeds: Mapping[str, str], wrt: Collection[str]
) -> dict[str, str]:
    """Add the nodes of the gradients of a sum with respect to the values `wrt`; their names.

    Args:
        rules: what adds nodes to `graph`; those that it has added already are differentiated too.
        graph: with known shapes.
        seeds: for each value that the sum is of, the value with its factors: the gradient with
            respect to it.
        wrt: names of values, constants too. One that nothing of the sum depends on is left out.

    A value that is used more than once has the sum of what comes from each use. Of values in `wrt`
    that lie on each other's way each has its own whole gradient.

    Raises:
        UnsupportedOperator: naming the layer, where an operator on the way has no gradient.
    """
    nodes = [*graph.nodes, *rules.nodes]
    rules.wanted = depending(nodes, rules, wrt)
    needed = [
        node
        for node in _leading_to(nodes, seeds)
        if rules.wanted.intersection(node.inputs) and rules.wanted.intersection(node.outputs)
    ]
    found = {node.name: rule_of(node) for node in needed}
    parts: dict[str, list[str]] = {value: [seed] for value, seed in seeds.items()}
    whole: dict[str, str] = {}

    def gradient(value: str) -> str:
        if value not in whole and value in parts:
            whole[value] = rules.total(parts[value])
        return whole.get(value, "")

    for node in reversed(needed):
        given = [gradient(value) if value else "" for value in node.outputs]
        if not any(given):
            continue
        made = found[node.name](rules, node, given)
        for value, part in zip(node.inputs, made, strict=True):
            if part and value in rules.wanted:
                assert rules.shape(part) == rules.shape(value), (node.op, value, part)
                parts.setdefault(value, []).append(part)
    return {value: gradient(value) for value in wrt if gradient(value)}


def depending(nodes: Collection[Node], rules: Rules, on: Collection[str]) -> set[str]:
    """The values of real numbers that depend on some values, and these; none without elements."""
    found = {value for value in on if rules.count(value)}
    for node in nodes:
        if found.intersection(node.inputs):
            outputs = (value for value in node.outputs if value and rules.count(value))
            found.update(v for v in outputs if rules.values[v].dtype.kind == "f")
    return found


def _leading_to(nodes: Collection[Node], values: Collection[str]) -> list[Node]:
    """The nodes that some values depend on, in order."""
    wanted, found = set(values), []
    for node in reversed([*nodes]):
        if wanted.intersection(node.outputs):
            wanted.update(filter(None, node.inputs))
            found.append(node)
    return found[::-1]


def rule_of(node: Node) -> Gradient:
    """A node's gradient rule; UnsupportedOperator, naming the layer, where there is none."""
    found = RECORDS[node.op].gradient
    if not isinstance(found, str):
        return found
    kind = f" ({node.module_type})" if node.module_type else ""
    raise UnsupportedOperator(
        f"{layer_name(node)}{kind}: {node.op} has no gradient: {found}. Gradients of what lies "
        "behind it can be had; freeze the parameters before it, or replace the layer"
    )
