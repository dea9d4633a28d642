"""ONNX functions: calls are replaced by their bodies, after the resulting nodes are counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import ModelError, UnsupportedModel, UnsupportedOperator
from nbglcnn.load.draft import free_name
from nbglcnn.load.size_limits import MAX_EDGES, MAX_NODES, quote_name

if TYPE_CHECKING:
    from onnx import FunctionProto, ModelProto, NodeProto

FunctionId = tuple[str, str, str]
NodesWithOpsets = list[tuple["NodeProto", Mapping[str, int]]]


def normalize_domain(name: str) -> str:
    """Normalize a domain name: the standard domain has two spellings."""
    return "" if name == "ai.onnx" else name


def inline_functions(model: ModelProto) -> Iterable[tuple[NodeProto, Mapping[str, int]]]:
    """Return all nodes with the opsets they were written for; function calls are inlined."""
    functions: dict[FunctionId, FunctionProto] = {}
    for function in model.functions:
        identifier = (normalize_domain(function.domain), function.name, function.overload)
        if identifier in functions:
            raise ModelError(f"two functions are named {quote_name(function.name)}")
        functions[identifier] = function
    opsets = _opsets(model.opset_import)
    if not functions:
        if len(model.graph.node) > MAX_NODES:
            raise UnsupportedModel(
                f"{len(model.graph.node):,} nodes; at most {MAX_NODES:,} are supported"
            )
        return _check_edge_count([(node, opsets) for node in model.graph.node])
    total = sum(_count_expanded_nodes(node, functions, {}, ()) for node in model.graph.node)
    if total > MAX_NODES:
        raise UnsupportedModel(
            f"{total:,} nodes after functions are expanded; at most {MAX_NODES:,} are supported"
        )
    taken = {v.name for v in (*model.graph.input, *model.graph.initializer)}
    taken |= {name for node in model.graph.node for name in node.output}
    return _check_edge_count(list(_expand(model.graph.node, opsets, functions, taken)))


def _check_edge_count(nodes: NodesWithOpsets) -> NodesWithOpsets:
    """Return the nodes; UnsupportedModel for too many edges: a Sum of n inputs needs n passes."""
    edges = sum(len(node.input) + len(node.output) for node, _ in nodes)
    if edges > MAX_EDGES:
        raise UnsupportedModel(
            f"{edges:,} inputs and outputs of nodes; at most {MAX_EDGES:,} are supported"
        )
    return nodes


def _opsets(imports: Iterable[Any]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for entry in imports:
        domain = normalize_domain(entry.domain)
        if found.setdefault(domain, entry.version) != entry.version:
            raise ModelError(f"two versions of the operator set {quote_name(domain)}")
    return found


def _function_id(node: NodeProto) -> FunctionId:
    return (normalize_domain(node.domain), node.op_type, node.overload)


def _count_expanded_nodes(
    node: NodeProto,
    functions: Mapping[FunctionId, FunctionProto],
    node_counts: dict[FunctionId, int],
    call_stack: tuple[FunctionId, ...],
) -> int:
    """The number of nodes that a call expands to; ModelError if a function calls itself."""
    identifier = _function_id(node)
    if identifier not in functions:
        return 1
    if identifier in call_stack:
        raise ModelError(f"the function {quote_name(node.op_type)} calls itself")
    if len(call_stack) > 50:
        raise ModelError("functions call each other more than 50 deep")
    if identifier not in node_counts:
        node_counts[identifier] = sum(
            _count_expanded_nodes(inner, functions, node_counts, (*call_stack, identifier))
            for inner in functions[identifier].node
        )
    return node_counts[identifier]


def _expand(
    nodes: Iterable[NodeProto],
    opsets: Mapping[str, int],
    functions: Mapping[FunctionId, FunctionProto],
    taken_names: set[str],
) -> Iterable[tuple[NodeProto, Mapping[str, int]]]:
    from onnx import NodeProto

    for node in nodes:
        function = functions.get(_function_id(node))
        if function is None:
            yield node, opsets
            continue
        if len(node.input) > len(function.input) or len(node.output) > len(function.output):
            raise ModelError(
                f"a call of the function {quote_name(node.op_type)} has more inputs or outputs "
                "than it"
            )
        names = {"": ""}
        for inner, outer in zip(function.input, node.input, strict=False):
            names[inner] = outer
        for inner in function.input[len(node.input) :]:
            names[inner] = ""
        for inner, outer in zip(function.output, node.output, strict=False):
            if outer:
                names[inner] = outer
        given = {a.name: a for a in function.attribute_proto} | {a.name: a for a in node.attribute}
        prefix = node.name or node.op_type
        body = []
        for inner_node in function.node:
            if any(a.type in (a.GRAPH, a.GRAPHS) for a in inner_node.attribute):
                raise UnsupportedOperator(
                    f"{quote_name(inner_node.op_type)} in the function {quote_name(node.op_type)}: "
                    "control flow inside functions is not supported"
                )
            copy = NodeProto()
            copy.CopyFrom(inner_node)
            del copy.input[:], copy.output[:], copy.attribute[:]
            for inner, of_copy in (
                (inner_node.input, copy.input),
                (inner_node.output, copy.output),
            ):
                for name in inner:
                    if name not in names:
                        names[name] = free_name(f"{prefix}.{name}", taken_names)
                    of_copy.append(names[name])
            for attribute in inner_node.attribute:
                if not attribute.ref_attr_name:
                    copy.attribute.append(attribute)
                elif attribute.ref_attr_name in given:
                    copy.attribute.append(given[attribute.ref_attr_name])
                    copy.attribute[-1].name = attribute.name
            body.append(copy)
        yield from _expand(body, _opsets(function.opset_import), functions, taken_names)
