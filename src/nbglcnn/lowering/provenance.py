"""Provenance: the source elements of a layer's values, through operators that only move them."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from nbglcnn.codegen.strided import StridedView
from nbglcnn.graph import Graph, Node
from nbglcnn.ops import OPERATOR_RECORDS
from nbglcnn.ops.operator import Shape
from nbglcnn.plan import schema as p

# Explanation kinds that look up each element, so the operator may read moved elements.
_ELEMENT_LOOKUP_EXPLANATIONS = {
    "matrix",
    "softmax",
    "log softmax",
    "sum",
    "elementwise",
    "concatenation",
}
# Kinds whose view overlays the input: it may be reshaped, but not reordered.
_MAP_OVERLAY_EXPLANATIONS = {
    "max pool",
    "mean pool",
    "sum pool",
    "convolution",
    "transposed convolution",
}


@dataclass(frozen=True)
class Provenance:
    """The value that has the source elements, and the index maps to them, in order."""

    source_value: str
    index_maps: tuple[p.IndexMap, ...] = ()


def is_movement(graph: Graph, node: Node) -> bool:
    """Whether an operator only moves elements of its first input: all or some, in any order."""
    record = OPERATOR_RECORDS[node.op]
    if record.role in ("leads", "alias"):
        return record.explanation_kind(graph, node) == "same"
    return record.explanation_kind(graph, node) == "moved"


def trace_provenance(
    graph: Graph, name: str, producer: Mapping[str, Node], boundary_values: Container[str]
) -> tuple[Provenance, tuple[Node, ...]]:
    """Trace a value to its source elements, at most to `boundary_values`; also the nodes passed."""
    moves: list[p.IndexMap] = []
    passed: list[Node] = []
    while name not in boundary_values and (node := producer.get(name)) is not None:
        step = _trace_step(graph, node, name, producer, boundary_values)
        if step is None:
            break
        found, more = step
        name = found.source_value
        moves += found.index_maps
        passed += more
    return Provenance(name, tuple(moves)), tuple(passed)


def _trace_step(
    graph: Graph,
    node: Node,
    name: str,
    producer: Mapping[str, Node],
    boundary_values: Container[str],
) -> tuple[Provenance, tuple[Node, ...]] | None:
    """Trace one operator back; None if it computes or combines several values."""
    record = OPERATOR_RECORDS.get(node.op)
    if record is None or node.python_fallback is not None:
        return None
    if record.explanation_kind(graph, node) == "concatenation":
        return _trace_concat(graph, node, producer, boundary_values)
    if not is_movement(graph, node):
        return None
    move = record.index_map(graph, node, node.outputs.index(name)) if record.index_map else None
    source = node.inputs[0]
    if move is None or _is_identity(move, math.prod(graph.shape(source))):
        return Provenance(source), (node,)
    return Provenance(source, (_simplify_map(move),)), (node,)


def _is_identity(index_map: p.IndexMap, count: int) -> bool:
    simple = _simplify_map(index_map)
    return not index_map.table and (simple.sizes, simple.strides, simple.offset) == (
        (count,),
        (1,),
        0,
    )


def _simplify_map(index_map: p.IndexMap) -> p.IndexMap:
    if index_map.table:
        return index_map
    view = StridedView(index_map.sizes, index_map.strides, index_map.offset).simplified()
    return p.IndexMap(view.sizes, view.strides, view.offset)


def _trace_concat(
    graph: Graph, node: Node, producer: Mapping[str, Node], boundary_values: Container[str]
) -> tuple[Provenance, tuple[Node, ...]] | None:
    """Trace a Concat of one value's parts in another order, as in `torch.roll`; else None."""
    shape, rank = graph.shape(node.outputs[0]), len(graph.shape(node.outputs[0]))
    axis = node.attributes.get("axis", 0)
    assert isinstance(axis, int)
    axis %= rank
    table: list[int] = []
    sources, strides, passed = set(), set(), [node]
    for part in node.inputs:
        cut = None if part in boundary_values else producer.get(part)
        record = OPERATOR_RECORDS.get(cut.op) if cut else None
        if cut is None or record is None or record.index_map is None or not is_movement(graph, cut):
            return None
        move = record.index_map(graph, cut, cut.outputs.index(part))
        if move is None or move.table or move.sizes != graph.shape(part):
            return None
        step = move.strides[axis]
        table += [move.offset + k * step for k in range(move.sizes[axis])]
        sources.add(cut.inputs[0])
        strides.add((*move.strides[:axis], 0, *move.strides[axis + 1 :]))
        passed.append(cut)
    if len(sources) > 1 or len(strides) > 1 or len(table) > MAX_TABLE_LENGTH:
        return None
    [source], [others] = sources, strides
    return Provenance(source, (p.IndexMap(shape, others, 0, axis, tuple(table)),)), tuple(passed)


MAX_TABLE_LENGTH = 4096  # longest axis for which a table lists positions


@dataclass(frozen=True)
class OperandTrace:
    """The values that a layer's operator reads for its explanation, each with its shape there.

    `index_maps` map the layer's elements to those of the operator's result of shape `raw_shape`.
    `is_single_operator`: no other node computes; `is_movement`: no node computes.
    """

    operands: tuple[tuple[Provenance, Shape], ...]
    raw_shape: Shape = ()
    index_maps: tuple[p.IndexMap, ...] = ()
    is_single_operator: bool = False
    is_movement: bool = False


def trace_operands(
    graph: Graph,
    value: str,
    nodes: Sequence[Node],
    main_node: Node,
    inputs: Sequence[str],
    producer: Mapping[str, Node],
    boundary_values: Container[str],
) -> OperandTrace:
    """Trace the operands of a layer of `nodes`, whose `main_node` reads `inputs`."""
    mine = {node.name for node in nodes}
    plain = tuple((Provenance(name), graph.shape(name) if name else ()) for name in inputs)
    whole, passed = trace_provenance(graph, value, producer, boundary_values)
    seen = {node.name for node in passed}
    if whole.source_value in boundary_values and seen == mine:
        return OperandTrace(
            ((whole, graph.shape(value)),), is_single_operator=True, is_movement=True
        )
    reads, single = plain, len(mine) == 1
    if not single:
        if producer.get(whole.source_value) is not main_node or len(main_node.outputs) != 1:
            return OperandTrace(plain)
        found = [
            trace_provenance(graph, name, producer, boundary_values) for name in inputs if name
        ]
        seen.update(node.name for _, before in found for node in before)
        if seen | {main_node.name} != mine:
            return OperandTrace(plain)
        of = iter(found)
        reads = tuple((next(of)[0] if read.source_value else read, shape) for read, shape in plain)
    record = OPERATOR_RECORDS[main_node.op]
    frame = record.reduction_view(graph, main_node) if record.reduction_view else None
    kind = record.explanation_kind(graph, main_node)
    straight = not any(read.index_maps for read, _ in reads)
    if not (
        single
        or kind in _ELEMENT_LOOKUP_EXPLANATIONS
        or (kind in _MAP_OVERLAY_EXPLANATIONS and (straight or frame))
    ):
        return OperandTrace(plain)
    made = graph.shape(main_node.outputs[0])
    if frame is not None:
        shape, move = frame
        own = (
            ()
            if _is_identity(move, math.prod(graph.shape(main_node.inputs[0])))
            else (_simplify_map(move),)
        )
        first = Provenance(reads[0][0].source_value, (*own, *reads[0][0].index_maps))
        reads, made = ((first, shape), *reads[1:]), shape[:2]
    elif made == graph.shape(value):
        made = ()
    return OperandTrace(reads, made, whole.index_maps, is_single_operator=True)
