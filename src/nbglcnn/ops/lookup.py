"""Operators that choose slices or elements by indices, constant ones or computed ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.slots import Number
from nbglcnn.graph import PADDING_IDX, Array, Node
from nbglcnn.ops import movement_gradient as gradients
from nbglcnn.ops.movement import place, settled_shape
from nbglcnn.ops.operator import Facts, Operator, Shape, anything, axis_of, integer
from nbglcnn.ops.reach import Linked, everything, listed, same
from nbglcnn.ops.strided import MOST_AXES, STRIDED, View, by_element, moved, strided_numbers, whole
from nbglcnn.plan import schema as p
from nbglcnn.plan.layout import EXACT, nchw_of
from nbglcnn.plan.schema import Along, Explains, Move

LOOKUP = by_element("lookup", "int inner, rows, per_outer, moving, each; ivec2 axes[6]")
MOST_TOLD = 4096  # indices in the layer table: those of a window of 7×7 tokens are 2401
MOST_INDICES = 6  # of one row: LOOKUP's axes


@dataclass(frozen=True, slots=True)
class Choice:
    """Rows of indices into axes of the data; each row chooses a slice of `inner` elements.

    The rows follow each other for each of the `outer` parts of the data, `per_outer` elements each;
    `moving`: each part has rows of its own.
    """

    inner: int
    rows: int
    per_outer: int
    moving: bool
    strides: Shape
    lengths: Shape


def _gather_shape(facts: Facts, node: Node) -> Sequence[Shape]:
    shape, axis = facts.shape(node.inputs[0]), axis_of(facts, node, 0)
    return [(*shape[:axis], *facts.shape(node.inputs[1]), *shape[axis + 1 :])]


def _gather_choice(facts: Facts, node: Node) -> Choice:
    shape, axis = facts.shape(node.inputs[0]), axis_of(facts, node, 0)
    inner = math.prod(shape[axis + 1 :])
    rows = math.prod(facts.shape(node.inputs[1]))
    return Choice(inner, rows, math.prod(shape[axis:]), False, (inner,), (shape[axis],))


def _gather_nd_shape(facts: Facts, node: Node) -> Sequence[Shape]:
    shape, indices = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    return [(*indices[:-1], *shape[integer(node, "batch_dims", 0) + indices[-1] :])]


def _gather_nd_choice(facts: Facts, node: Node) -> Choice:
    shape, indices = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    batch = integer(node, "batch_dims", 0)
    chosen = range(batch, batch + indices[-1])
    strides = tuple(math.prod(shape[k + 1 :]) for k in chosen)
    return Choice(
        math.prod(shape[chosen.stop :]),
        math.prod(indices[batch:-1]),
        math.prod(shape[batch:]),
        True,
        strides,
        tuple(shape[k] for k in chosen),
    )


def _outside(indices: Array, lengths: Shape) -> str | None:
    flat = indices.reshape(-1, len(lengths))
    wrong = (flat < -np.array(lengths)) | (flat >= np.array(lengths))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        return f"index {flat[row, column]} is outside an axis of length {lengths[column]}"
    return None


def _problem(facts: Facts, node: Node) -> str | None:
    if node.op == "GatherND":
        shape, indices = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
        batch = integer(node, "batch_dims", 0)
        if not indices or not 0 < indices[-1] <= min(len(shape) - batch, MOST_INDICES):
            most = f"rows of 1 to {MOST_INDICES} are supported"
            return f"indices of shape {indices} into {shape}; {most}"
        if shape[:batch] != indices[:batch]:
            return f"batch_dims={batch}, but {shape} and {indices} don't begin alike"
    if 0 in facts.shape(node.inputs[1]):
        return "its result would be empty"
    data = facts.constant(node.inputs[1])
    if node.op == "GatherElements":
        lengths: Shape = (facts.shape(node.inputs[0])[axis_of(facts, node, 0)],)
    else:
        lengths = _CHOICES[node.op](facts, node).lengths
    return None if data is None else _outside(data, lengths)


_CHOICES = {"Gather": _gather_choice, "GatherND": _gather_nd_choice}


def _evenly_spaced(indices: Array) -> bool:
    flat = indices.reshape(-1)
    return flat.size < 3 or bool((np.diff(flat) == flat[1] - flat[0]).all())


def _draw(b: Builder, node: Node) -> None:
    choice, indices = _CHOICES[node.op](b, node), b.constant(node.inputs[1])
    value = node.outputs[0]
    fixed = b.fixed(node.inputs[1])
    if node.op == "Gather" and fixed is not None:
        shape, axis = b.shape(node.inputs[0]), axis_of(b, node, 0)
        positive = np.where(fixed < 0, fixed + shape[axis], fixed).reshape(-1)
        if _evenly_spaced(positive):
            step = int(positive[1] - positive[0]) if positive.size > 1 else 1
            place(b, node, whole(shape).sliced(axis, int(positive[0]), positive.size, step))
            return
    source = b.stored(node.inputs[0])
    nchw = nchw_of(settled_shape(b, value))
    output = b.output(value, b.layout(nchw))
    numbers: dict[str, Number] = {
        "inner": choice.inner,
        "rows": choice.rows,
        "per_outer": choice.per_outer,
        "moving": choice.rows * choice.moving,
        "each": len(choice.strides),
        "axes": tuple(zip(choice.strides, choice.lengths, strict=True)),
    }
    if indices is not None and choice.per_outer <= EXACT:
        # The sums of the indices are constants too: one read, however many axes they choose from.
        arguments = {"strides": choice.strides, "lengths": choice.lengths}
        table = b.weight(p.Recipe("offsets", (node.inputs[1],), arguments))
        b.draw(
            LOOKUP,
            output,
            [source],
            [table],
            numbers=numbers,
            constants={"CONSTANT": 1},
            fetches=32,
        )
        return
    chosen = b.stored(node.inputs[1])
    b.draw(LOOKUP, output, [source, chosen], numbers=numbers, constants={"CONSTANT": 0}, fetches=32)


def _gather_move(facts: Facts, node: Node, _position: int) -> Move | None:
    """Of indices that are known, and are few or at even distances."""
    indices, shape = facts.constant(node.inputs[1]), facts.shape(node.inputs[0])
    if indices is None:
        return None
    axis = axis_of(facts, node, 0)
    places = [row[0] for row in _wrapped(indices, shape[axis])]
    if _evenly_spaced(np.array(places)):
        step = places[1] - places[0] if len(places) > 1 else 1
        return moved(whole(shape).sliced(axis, places[0], len(places), step))
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    table = tuple(place * inner for place in places)
    return _listed((outer, len(table), inner), (shape[axis] * inner, 0, 1), 1, table)


def _gather_nd_move(facts: Facts, node: Node, _position: int) -> Move | None:
    indices = facts.constant(node.inputs[1])
    if indices is None:
        return None
    choice = _gather_nd_choice(facts, node)
    rows = indices.reshape(-1, len(choice.lengths)) % np.array(choice.lengths)
    starts = np.arange(len(rows)) // choice.rows * choice.per_outer
    table = tuple(map(int, starts + rows @ np.array(choice.strides)))
    return _listed((len(rows), choice.inner), (0, 1), 0, table)


def _listed(sizes: Shape, strides: Shape, axis: int, table: Shape) -> Move | None:
    return Move(sizes, strides, 0, axis, table) if len(table) <= MOST_TOLD else None


def _known(
    move: Callable[[Facts, Node, int], Move | None], otherwise: Explains
) -> Callable[[Facts, Node], Explains]:
    return lambda facts, node: otherwise if move(facts, node, 0) is None else "moved"


def _elements_view(facts: Facts, node: Node) -> View:
    axis, data = axis_of(facts, node, 0), whole(facts.shape(node.inputs[0]))
    strides = tuple(0 if k == axis else stride for k, stride in enumerate(data.strides))
    return View(facts.shape(node.inputs[1]), strides).simple()


def _elements_problem(facts: Facts, node: Node) -> str | None:
    shape, indices = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    if len(shape) != len(indices):
        return f"indices of {len(indices)} axes into data of {len(shape)}"
    if len(_elements_view(facts, node).sizes) > MOST_AXES:
        return f"{len(shape)} axes; at most {MOST_AXES} are supported"
    return _problem(facts, node)


def _draw_elements(b: Builder, node: Node) -> None:
    view, axis, shape = _elements_view(b, node), axis_of(b, node, 0), b.shape(node.inputs[0])
    tensors = [b.stored(node.inputs[0]), b.stored(node.inputs[1])]
    numbers = strided_numbers(view, math.prod(shape[axis + 1 :]), shape[axis])
    output = b.output(node.outputs[0])
    b.draw(STRIDED, output, tensors, numbers=numbers, constants={"INDEXED": 1}, fetches=32)


def _indices_shape(facts: Facts, node: Node) -> Sequence[Shape]:
    return [facts.shape(node.inputs[1])]


def _gather_reach(facts: Facts, node: Node, position: int) -> list[Linked | None]:
    """Indices of several axes are told as one; computed ones may choose anything."""
    source, axis = facts.shape(node.inputs[0]), axis_of(facts, node, 0)
    shape, indices = facts.shape(node.outputs[position]), facts.shape(node.inputs[1])
    rows, known = math.prod(indices), facts.constant(node.inputs[1])
    chosen: Along | None = None
    if known is not None:
        length = source[axis]
        chosen = listed(axis, rows, length, partial(_wrapped, known, length))
    links = [chosen if k == axis else same(k) for k in range(len(source))]
    reader = (*source[:axis], rows, *source[axis + 1 :])
    choosing = tuple(same(axis + k) for k in range(len(indices)))
    return [Linked(reader, source, tuple(links)), Linked(shape, indices, choosing)]


def _wrapped(indices: Array, length: int) -> list[tuple[int]]:
    """Each index as a row of places; negative ones count from the end."""
    return [(int(i) % length,) for i in indices.reshape(-1)]


def _elements_reach(facts: Facts, node: Node, position: int) -> list[Linked | None]:
    """Anything along the axis, at the same place along the others; and one index."""
    (source, indices), axis = map(facts.shape, node.inputs), axis_of(facts, node, 0)
    data = tuple(None if k == axis else same(k) for k in range(len(source)))
    choosing = tuple(same(k) for k in range(len(indices)))
    return [Linked(indices, source, data), Linked(indices, indices, choosing)]


def _gather_nd_reach(facts: Facts, node: Node, position: int) -> Sequence[Linked | None]:
    """Exact where each column of known indices varies along neighbouring axes of its own."""
    known = facts.constant(node.inputs[1])
    if known is None or integer(node, "batch_dims", 0):
        return everything(facts, node, position)
    source, shape = facts.shape(node.inputs[0]), facts.shape(node.outputs[position])
    rows = known.shape[:-1]
    spans: list[range] = []
    for column in np.moveaxis(known, -1, 0):
        along = [k for k, n in enumerate(rows) if n > 1 and (np.diff(column, axis=k) != 0).any()]
        spans.append(range(along[0], along[-1] + 1) if along else range(0))
    crossed = len({k for span in spans for k in span}) != sum(map(len, spans))
    if crossed or any(not span and source[axis] > 1 for axis, span in enumerate(spans)):
        return everything(facts, node, position)
    # The axes of a span are seen as one.
    starts = [k for k in range(len(shape)) if not any(k in span[1:] for span in spans)]
    reader = tuple(
        math.prod(shape[a:b]) for a, b in zip(starts, [*starts[1:], len(shape)], strict=True)
    )
    links: list[Along | None] = []
    for axis, span in enumerate(spans):
        at = tuple(slice(None) if k in span else 0 for k in range(len(rows)))
        column, length = known[(*at, axis)].reshape(-1), source[axis]
        links.append(
            listed(starts.index(span[0]), column.size, length, partial(_wrapped, column, length))
            if span
            else None
        )
    behind = len(starts) - (len(source) - len(spans))
    links += [same(behind + k) for k in range(len(source) - len(spans))]
    return [Linked(reader, source, tuple(links)), None]


OPERATORS = [
    Operator("Gather", "Chooses slices along an axis by their numbers; one outside of it is NaN.",
             _gather_shape, _draw,
             {"axis": anything, PADDING_IDX: anything}, _problem, move=_gather_move,
             role="head", reach=_gather_reach, explains=_known(_gather_move, "chosen"),
             formula=None, bounds=None, short=None, shape_inputs=(), gradient=gradients.gather),
    Operator("GatherND", "Chooses slices by the numbers of several axes; one outside is NaN.",
             _gather_nd_shape, _draw, {"batch_dims": anything}, _problem, move=_gather_nd_move,
             role="head", reach=_gather_nd_reach, explains=_known(_gather_nd_move, "nothing"),
             formula=None, bounds=None, short=None, shape_inputs=(), gradient=gradients.gather_nd),
    Operator("GatherElements", "Chooses elements along an axis by indices; one outside is NaN.",
             _indices_shape, _draw_elements, {"axis": anything}, _elements_problem,
             role="head", reach=_elements_reach, explains="chosen",
             formula=None, bounds=None, short=None, shape_inputs=(),
             gradient=gradients.gather_elements),
]  # fmt: skip
