"""Graph to Graph: gradients by reverse accumulation, of the operators' own rules.

Every rule adds ordinary nodes, so that shapes, checks and lowering are those of any network.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from nbglcnn.errors import UnsupportedOperator
from nbglcnn.graph import FORWARD_SECTION, Graph, Node
from nbglcnn.lowering.shape_inference import layer_name
from nbglcnn.ops import CUSTOM_OPERATORS, OPERATOR_RECORDS
from nbglcnn.ops.gradient_builder import GradientBuilder
from nbglcnn.ops.operator import GradientRule


def make_gradient_builder(
    graph: Graph, *, section: str = FORWARD_SECTION, prefix: str = "gradient"
) -> GradientBuilder:
    """What adds nodes to a Graph whose shapes are known (`infer_shapes`)."""
    return GradientBuilder(
        graph,
        lambda facts, node: OPERATOR_RECORDS[node.op].shapes(facts, node),
        CUSTOM_OPERATORS.__contains__,
        section=section,
        prefix=prefix,
    )


def append_nodes(graph: Graph, rules: GradientBuilder) -> Graph:
    """The Graph with the nodes that were added."""
    nodes = (*graph.nodes, *rules.nodes)
    return replace(graph, nodes=nodes, values=MappingProxyType(dict(rules.values)))


def differentiate(
    rules: GradientBuilder, graph: Graph, seeds: Mapping[str, str], wrt: Collection[str]
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
    rules.gradient_values = dependent_values(nodes, rules, wrt)
    needed = [
        node
        for node in _ancestor_nodes(nodes, seeds)
        if rules.gradient_values.intersection(node.inputs)
        and rules.gradient_values.intersection(node.outputs)
    ]
    found = {node.name: gradient_rule(node) for node in needed}
    parts: dict[str, list[str]] = {value: [seed] for value, seed in seeds.items()}
    whole: dict[str, str] = {}

    def gradient(value: str) -> str:
        if value not in whole and value in parts:
            whole[value] = rules.sum_tensors(parts[value])
        return whole.get(value, "")

    for node in reversed(needed):
        given = [gradient(value) if value else "" for value in node.outputs]
        if not any(given):
            continue
        made = found[node.name](rules, node, given)
        for value, part in zip(node.inputs, made, strict=True):
            if part and value in rules.gradient_values:
                assert rules.shape(part) == rules.shape(value), (node.op, value, part)
                parts.setdefault(value, []).append(part)
    return {value: gradient(value) for value in wrt if gradient(value)}


def dependent_values(
    nodes: Collection[Node], rules: GradientBuilder, on: Collection[str]
) -> set[str]:
    """The values of real numbers that depend on some values, and these; none without elements."""
    found = {value for value in on if rules.numel(value)}
    for node in nodes:
        if found.intersection(node.inputs):
            outputs = (value for value in node.outputs if value and rules.numel(value))
            found.update(v for v in outputs if rules.values[v].dtype.kind == "f")
    return found


def _ancestor_nodes(nodes: Collection[Node], values: Collection[str]) -> list[Node]:
    """The nodes that some values depend on, in order."""
    wanted, found = set(values), []
    for node in reversed([*nodes]):
        if wanted.intersection(node.outputs):
            wanted.update(filter(None, node.inputs))
            found.append(node)
    return found[::-1]


def gradient_rule(node: Node) -> GradientRule:
    """A node's gradient rule; UnsupportedOperator, naming the layer, where there is none."""
    found = OPERATOR_RECORDS[node.op].gradient
    if not isinstance(found, str):
        return found
    kind = f" ({node.module_type})" if node.module_type else ""
    raise UnsupportedOperator(
        f"{layer_name(node)}{kind}: {node.op} has no gradient: {found}. Gradients of the layers "
        "after it are available; freeze the parameters before it, or replace the layer"
    )
