"""ONNX If nodes: both branches are inlined, and folding keeps the branch that is taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import ModelError, UnsupportedModel, UnsupportedOperator
from nbglcnn.load.draft import free_name
from nbglcnn.load.size_limits import MAX_NODES, quote_name

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

MAX_IF_DEPTH = 20  # nesting depth
Guards = tuple[tuple[str, bool], ...]
GuardedNode = tuple["NodeProto", Mapping[str, int], Guards]


def inline_branches(
    nodes: Iterable[tuple[NodeProto, Mapping[str, int]]], model: ModelProto
) -> list[GuardedNode]:
    """Inline all branches; return each node with its guards: (value name, required truth).

    An If stays as a node without attributes: its inputs are the condition, the outputs of the
    then-branch, and the outputs of the else-branch.
    """
    nodes = list(nodes)
    if not any(node.op_type == "If" for node, _ in nodes):
        return [(node, opsets, ()) for node, opsets in nodes]
    taken = {v.name for v in (*model.graph.input, *model.graph.initializer)}
    taken |= {name for node, _ in nodes for name in (*node.input, *node.output)}
    found: list[GuardedNode] = []
    for node, opsets in nodes:
        _add_node(node, opsets, {}, (), taken, found)
    return found


def _add_node(
    node: NodeProto,
    opsets: Mapping[str, int],
    renamed: Mapping[str, str],
    guards: Guards,
    taken_names: set[str],
    expanded_nodes: list[GuardedNode],
) -> None:
    """Add a node under unique names; the nodes of an If's branches come before it."""
    from onnx import NodeProto

    if len(expanded_nodes) > MAX_NODES:
        raise UnsupportedModel(f"more than {MAX_NODES:,} nodes after branches are expanded")
    copy = NodeProto()
    copy.CopyFrom(node)
    del copy.input[:], copy.output[:]
    copy.input.extend(renamed.get(name, name) for name in node.input)
    copy.output.extend(renamed.get(name, name) for name in node.output)
    if node.op_type != "If" or node.domain not in ("", "ai.onnx"):
        expanded_nodes.append((copy, opsets, guards))
        return
    given: dict[str, Any] = {a.name: a.g for a in node.attribute if a.type == a.GRAPH}
    if set(given) != {"then_branch", "else_branch"} or len(copy.input) != 1 or not copy.input[0]:
        raise ModelError(
            f"If (node {quote_name(node.name)}): expected one condition and two branches"
        )
    if len(guards) >= MAX_IF_DEPTH:
        raise UnsupportedOperator(
            f"control flow: an If more than {MAX_IF_DEPTH} deep inside others"
        )
    del copy.attribute[:]
    condition = copy.input[0]
    for branch, wanted in (("then_branch", True), ("else_branch", False)):
        outputs = _add_branch(
            given[branch],
            opsets,
            renamed,
            (*guards, (condition, wanted)),
            taken_names,
            expanded_nodes,
        )
        if len(outputs) != len(node.output):
            raise ModelError(
                f"If (node {quote_name(node.name)}): {len(node.output)} outputs; its {branch} has "
                f"{len(outputs)}"
            )
        copy.input.extend(outputs)
    expanded_nodes.append((copy, opsets, guards))


def _add_branch(
    graph: GraphProto,
    opsets: Mapping[str, int],
    outer_renamed: Mapping[str, str],
    guards: Guards,
    taken_names: set[str],
    expanded_nodes: list[GuardedNode],
) -> list[str]:
    """Add a branch's nodes under unique names; return the names of its outputs."""
    from onnx import NodeProto

    if len(graph.input) or len(graph.sparse_initializer):
        raise ModelError(f"the branch {quote_name(graph.name)} of an If has inputs of its own")
    names = dict(outer_renamed)
    for name in (
        *(tensor.name for tensor in graph.initializer),
        *(name for node in graph.node for name in node.output if name),
    ):
        names[name] = free_name(name, taken_names)
    for tensor in graph.initializer:
        constant = NodeProto(op_type="Constant", output=[names[tensor.name]])
        attribute = constant.attribute.add(name="value", type=4)  # AttributeProto.TENSOR
        attribute.t.CopyFrom(tensor)
        expanded_nodes.append((constant, opsets, guards))
    for node in graph.node:
        _add_node(node, opsets, names, guards, taken_names, expanded_nodes)
    return [names.get(output.name, output.name) for output in graph.output]
