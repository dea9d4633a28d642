"""Which elements a layer's numbers are, or are computed of: what its operators move, joined."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from nbglcnn.graph import Graph, Node
from nbglcnn.ops import RECORDS
from nbglcnn.ops.operator import Shape
from nbglcnn.ops.strided import View
from nbglcnn.plan import schema as p

# Kinds whose operator may read what was moved before it: each of its numbers is looked up.
_LOOKED_UP = {"matrix", "softmax", "log softmax", "sum", "elementwise", "concatenation"}
# Those whose pictures lie over what is read: that may have another shape, and no other order.
_SEEN = {"max pool", "mean pool", "sum pool", "convolution", "transposed convolution"}


@dataclass(frozen=True)
class Moved:
    """A value whose elements others are; the moves lead there, one after the other."""

    name: str
    moves: tuple[p.Move, ...] = ()


def moves_only(graph: Graph, node: Node) -> bool:
    """Whether an operator's numbers are its first input's, all of them or some, in any order."""
    record = RECORDS[node.op]
    if record.role in ("leads", "alias"):
        return record.explained(graph, node) == "same"
    return record.explained(graph, node) == "moved"


def moved_from(
    graph: Graph, name: str, producer: Mapping[str, Node], known: Container[str]
) -> tuple[Moved, tuple[Node, ...]]:
    """The value that a value's elements are of, back to `known` at most, and what lies between."""
    moves: list[p.Move] = []
    passed: list[Node] = []
    while name not in known and (node := producer.get(name)) is not None:
        step = _step(graph, node, name, producer, known)
        if step is None:
            break
        found, more = step
        name = found.name
        moves += found.moves
        passed += more
    return Moved(name, tuple(moves)), tuple(passed)


def _step(
    graph: Graph, node: Node, name: str, producer: Mapping[str, Node], known: Container[str]
) -> tuple[Moved, tuple[Node, ...]] | None:
    """One operator back; None where it computes, or brings several values together."""
    record = RECORDS.get(node.op)
    if record is None or node.python is not None:
        return None
    if record.explained(graph, node) == "concatenation":
        return _rejoined(graph, node, producer, known)
    if not moves_only(graph, node):
        return None
    move = record.move(graph, node, node.outputs.index(name)) if record.move else None
    source = node.inputs[0]
    if move is None or _keeps(move, math.prod(graph.shape(source))):
        return Moved(source), (node,)
    return Moved(source, (_simple(move),)), (node,)


def _keeps(move: p.Move, count: int) -> bool:
    simple = _simple(move)
    return not move.table and (simple.sizes, simple.strides, simple.offset) == ((count,), (1,), 0)


def _simple(move: p.Move) -> p.Move:
    if move.table:
        return move
    view = View(move.sizes, move.strides, move.offset).simple()
    return p.Move(view.sizes, view.strides, view.offset)


def _rejoined(
    graph: Graph, node: Node, producer: Mapping[str, Node], known: Container[str]
) -> tuple[Moved, tuple[Node, ...]] | None:
    """Parts of one value along an axis in another order, as `torch.roll` has them; else None."""
    shape, rank = graph.shape(node.outputs[0]), len(graph.shape(node.outputs[0]))
    axis = node.attributes.get("axis", 0)
    assert isinstance(axis, int)
    axis %= rank
    table: list[int] = []
    sources, strides, passed = set(), set(), [node]
    for part in node.inputs:
        cut = None if part in known else producer.get(part)
        record = RECORDS.get(cut.op) if cut else None
        if cut is None or record is None or record.move is None or not moves_only(graph, cut):
            return None
        move = record.move(graph, cut, cut.outputs.index(part))
        if move is None or move.table or move.sizes != graph.shape(part):
            return None
        step = move.strides[axis]
        table += [move.offset + k * step for k in range(move.sizes[axis])]
        sources.add(cut.inputs[0])
        strides.add((*move.strides[:axis], 0, *move.strides[axis + 1 :]))
        passed.append(cut)
    if len(sources) > 1 or len(strides) > 1 or len(table) > MOST_TOLD:
        return None
    [source], [others] = sources, strides
    return Moved(source, (p.Move(shape, others, 0, axis, tuple(table)),)), tuple(passed)


MOST_TOLD = 4096  # places along an axis that a table lists


@dataclass(frozen=True)
class Reading:
    """What a layer's operator reads for its explanation: each value, and the shape it reads it in.

    `behind` leads from the layer's elements to those of what it gives, which has the shape `made`.
    `alone`: nothing else computes; `moves`: nothing computes at all.
    """

    reads: tuple[tuple[Moved, Shape], ...]
    made: Shape = ()
    behind: tuple[p.Move, ...] = ()
    alone: bool = False
    moves: bool = False


def reading_of(
    graph: Graph,
    value: str,
    nodes: Sequence[Node],
    main: Node,
    inputs: Sequence[str],
    producer: Mapping[str, Node],
    known: Container[str],
) -> Reading:
    """Of a layer that `nodes` compute, `main` for the most part, which reads `inputs`."""
    mine = {node.name for node in nodes}
    plain = tuple((Moved(name), graph.shape(name) if name else ()) for name in inputs)
    whole, passed = moved_from(graph, value, producer, known)
    seen = {node.name for node in passed}
    if whole.name in known and seen == mine:
        return Reading(((whole, graph.shape(value)),), alone=True, moves=True)
    reads, single = plain, len(mine) == 1
    if not single:
        if producer.get(whole.name) is not main or len(main.outputs) != 1:
            return Reading(plain)
        found = [moved_from(graph, name, producer, known) for name in inputs if name]
        seen.update(node.name for _, before in found for node in before)
        if seen | {main.name} != mine:
            return Reading(plain)
        of = iter(found)
        reads = tuple((next(of)[0] if read.name else read, shape) for read, shape in plain)
    record = RECORDS[main.op]
    frame = record.reads(graph, main) if record.reads else None
    kind = record.explained(graph, main)
    straight = not any(read.moves for read, _ in reads)
    if not (single or kind in _LOOKED_UP or (kind in _SEEN and (straight or frame))):
        return Reading(plain)
    made = graph.shape(main.outputs[0])
    if frame is not None:
        shape, move = frame
        own = () if _keeps(move, math.prod(graph.shape(main.inputs[0]))) else (_simple(move),)
        first = Moved(reads[0][0].name, (*own, *reads[0][0].moves))
        reads, made = ((first, shape), *reads[1:]), shape[:2]
    elif made == graph.shape(value):
        made = ()
    return Reading(reads, made, whole.moves, alone=True)
