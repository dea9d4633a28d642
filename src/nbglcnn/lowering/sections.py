"""A Graph's sections and carries in a Plan: order, checks, and values and textures to keep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from nbglcnn.errors import ModelError
from nbglcnn.graph import FORWARD_SECTION, Carry, Graph, Node
from nbglcnn.plan import schema as p


def section_names(graph: Graph) -> tuple[str, ...]:
    """The section names in the order of the nodes; the forward section if there are no nodes."""
    return tuple(dict.fromkeys(node.section for node in graph.nodes)) or (FORWARD_SECTION,)


def group_by_section(graph: Graph) -> Graph:
    """Return the graph with its nodes sorted by section.

    Raises ModelError if a node reads from a later section, or if the values of a carry don't fit.
    """
    order = {name: number for number, name in enumerate(section_names(graph))}
    producing_section = {
        name: node.section for node in graph.nodes for name in node.outputs if name
    }
    for node in graph.nodes:
        for name in node.inputs:
            if order[producing_section.get(name, node.section)] > order[node.section]:
                raise ModelError(
                    f"section {node.section!r} reads {name!r}, which the later section "
                    f"{producing_section[name]!r} computes"
                )
    for carry in graph.carries:
        _check_carry(graph, carry, producing_section)
    nodes = sorted(graph.nodes, key=lambda node: order[node.section])
    return replace(graph, nodes=tuple(nodes))


def _check_carry(graph: Graph, carry: Carry, producing_section: Iterable[str]) -> None:
    source, target, initial = (
        graph.values[name] for name in (carry.source, carry.target, carry.initial)
    )
    if (
        target.is_constant
        or carry.target in {*producing_section, *graph.inputs}
        or not initial.is_constant
    ):
        raise ModelError(
            f"{carry.target!r} can't be carried over: it must have no other producer and a "
            f"constant initial value ({carry.initial!r})"
        )
    if [one.target for one in graph.carries].count(carry.target) > 1:
        raise ModelError(f"{carry.target!r} is carried from two values")
    kinds = {(one.shape, one.dtype) for one in (source, target, initial)}
    if len(kinds) > 1:
        found = ", ".join(f"{one.name!r} {list(one.shape)}" for one in (source, target, initial))
        raise ModelError(f"a carry's values need the same shape and type: {found}")


def section_of(graph: Graph, value: str) -> str:
    """The section that computes a value; the first section if no node computes it."""
    return next(
        (node.section for node in graph.nodes if value in node.outputs), section_names(graph)[0]
    )


def cross_section_values(graph: Graph) -> set[str]:
    """Values used outside their own section: read by another section, or the source of a carry."""
    producing_section = {
        name: node.section for node in graph.nodes for name in node.outputs if name
    }
    found = {carry.source for carry in graph.carries}
    for node in graph.nodes:
        found |= {
            name
            for name in node.inputs
            if producing_section.get(name, node.section) != node.section
        }
    return found


def cross_section_textures(passes: Sequence[p.Pass], sections: Sequence[p.Section]) -> set[int]:
    """Textures that one section writes and another reads; no other pass may write to them."""
    writer: dict[int, str] = {}
    found: set[int] = set()
    for section in sections:
        for step in passes[section.first : section.first + section.count]:
            found |= {one for one in step.inputs if writer.get(one, section.name) != section.name}
            writer[step.output] = section.name
    return found


def section_nodes(nodes: Iterable[Node], section: str) -> list[Node]:
    """The nodes of one section, in order."""
    return [node for node in nodes if node.section == section]
