"""A Graph pass: reverse-mode differentiation with each operator's gradient rule.

Every rule adds ordinary nodes, so that shapes, checks and lowering work as for any network.
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
    """Return a builder that adds nodes to a Graph with inferred shapes (`infer_shapes`)."""
    return GradientBuilder(
        graph,
        lambda facts, node: OPERATOR_RECORDS[node.op].shapes(facts, node),
        CUSTOM_OPERATORS.__contains__,
        section=section,
        prefix=prefix,
    )


def append_nodes(graph: Graph, builder: GradientBuilder) -> Graph:
    """Return the Graph with the builder's nodes appended."""
    nodes = (*graph.nodes, *builder.nodes)
    return replace(graph, nodes=nodes, values=MappingProxyType(dict(builder.values)))


def differentiate(
    builder: GradientBuilder, graph: Graph, seeds: Mapping[str, str], wrt: Collection[str]
) -> dict[str, str]:
    """Add the nodes of a sum's gradients with respect to the values `wrt`; return their names.

    Args:
        builder: The builder of nodes for `graph`; nodes that it has already added are
            differentiated too.
        graph: A Graph with inferred shapes.
        seeds: Maps each value in the sum to the value with its factors: the gradient of the sum
            with respect to it.
        wrt: Names of values, constants included. A value that the sum doesn't depend on is left
            out.

    The gradient of a value that is used several times is the sum over its uses. If one value in
    `wrt` depends on another, each still gets its full gradient.

    Raises:
        UnsupportedOperator: If an operator on the path has no gradient; the message names the
            layer.
    """
    nodes = [*graph.nodes, *builder.nodes]
    builder.gradient_values = dependent_values(nodes, builder, wrt)
    needed = [
        node
        for node in _ancestor_nodes(nodes, seeds)
        if builder.gradient_values.intersection(node.inputs)
        and builder.gradient_values.intersection(node.outputs)
    ]
    found = {node.name: gradient_rule(node) for node in needed}
    parts: dict[str, list[str]] = {value: [seed] for value, seed in seeds.items()}
    whole: dict[str, str] = {}

    def gradient(value: str) -> str:
        if value not in whole and value in parts:
            whole[value] = builder.sum_tensors(parts[value])
        return whole.get(value, "")

    for node in reversed(needed):
        given = [gradient(value) if value else "" for value in node.outputs]
        if not any(given):
            continue
        made = found[node.name](builder, node, given)
        for value, part in zip(node.inputs, made, strict=True):
            if part and value in builder.gradient_values:
                assert builder.shape(part) == builder.shape(value), (node.op, value, part)
                parts.setdefault(value, []).append(part)
    return {value: gradient(value) for value in wrt if gradient(value)}


def dependent_values(
    nodes: Collection[Node], builder: GradientBuilder, sources: Collection[str]
) -> set[str]:
    """These values and the real values that depend on them, without empty ones."""
    found = {value for value in sources if builder.numel(value)}
    for node in nodes:
        if found.intersection(node.inputs):
            outputs = (value for value in node.outputs if value and builder.numel(value))
            found.update(v for v in outputs if builder.values[v].dtype.kind == "f")
    return found


def _ancestor_nodes(nodes: Collection[Node], values: Collection[str]) -> list[Node]:
    """The nodes that these values depend on, in order."""
    wanted, found = set(values), []
    for node in reversed([*nodes]):
        if wanted.intersection(node.outputs):
            wanted.update(filter(None, node.inputs))
            found.append(node)
    return found[::-1]


def gradient_rule(node: Node) -> GradientRule:
    """Return a node's gradient rule; if it has none, UnsupportedOperator naming the layer."""
    found = OPERATOR_RECORDS[node.op].gradient
    if not isinstance(found, str):
        return found
    kind = f" ({node.module_type})" if node.module_type else ""
    raise UnsupportedOperator(
        f"{layer_name(node)}{kind}: {node.op} has no gradient: {found}. Gradients of the layers "
        "after it are available; freeze the parameters before it, or replace the layer"
    )
