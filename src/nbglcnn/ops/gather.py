"""Operators that select slices or elements by constant or computed indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.strided import (
    MAX_AXES,
    STRIDED_GATHER_SHADER,
    StridedView,
    contiguous_view,
    per_element_shader,
    strided_uniforms,
    view_index_map,
)
from nbglcnn.codegen.uniform_slots import UniformValue
from nbglcnn.graph import PADDING_IDX, Array, Node
from nbglcnn.ops import movement_gradient as gradients
from nbglcnn.ops.movement import lower_view, storage_shape
from nbglcnn.ops.operator import KnownValues, Operator, Shape, any_value, axis_of, int_attr
from nbglcnn.ops.receptive_field import OperatorField, full_fields, same_position, table_window
from nbglcnn.plan import schema as p
from nbglcnn.plan.layout import MAX_EXACT_INTEGER, storage_nchw
from nbglcnn.plan.schema import AxisWindow, ExplanationKind, IndexMap

GATHER_SHADER = per_element_shader(
    "gather", "int inner, rows, per_outer, moving, each; ivec2 axes[6]"
)
MAX_TABLE_LENGTH = 4096  # indices in the layer table; a window of 7×7 tokens has 2401
MAX_INDEX_LENGTH = 6  # per row: the axes of LOOKUP


@dataclass(frozen=True, slots=True)
class SliceSelection:
    """Rows of indices into axes of the data; each row selects a slice of `slice_size` elements.

    The rows repeat for each outer part of the data, which has `outer_stride` elements. With
    `has_rows_per_part`, each part has its own rows.
    """

    slice_size: int
    row_count: int
    outer_stride: int
    has_rows_per_part: bool
    strides: Shape
    lengths: Shape


def _gather_shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    shape, axis = facts.shape(node.inputs[0]), axis_of(facts, node, 0)
    return [(*shape[:axis], *facts.shape(node.inputs[1]), *shape[axis + 1 :])]


def _gather_selection(facts: KnownValues, node: Node) -> SliceSelection:
    shape, axis = facts.shape(node.inputs[0]), axis_of(facts, node, 0)
    inner = math.prod(shape[axis + 1 :])
    rows = math.prod(facts.shape(node.inputs[1]))
    return SliceSelection(inner, rows, math.prod(shape[axis:]), False, (inner,), (shape[axis],))


def _gather_nd_shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    shape, indices = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    return [(*indices[:-1], *shape[int_attr(node, "batch_dims", 0) + indices[-1] :])]


def _gather_nd_selection(facts: KnownValues, node: Node) -> SliceSelection:
    shape, indices = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    batch = int_attr(node, "batch_dims", 0)
    chosen = range(batch, batch + indices[-1])
    strides = tuple(math.prod(shape[k + 1 :]) for k in chosen)
    return SliceSelection(
        math.prod(shape[chosen.stop :]),
        math.prod(indices[batch:-1]),
        math.prod(shape[batch:]),
        True,
        strides,
        tuple(shape[k] for k in chosen),
    )


def _index_problem(indices: Array, lengths: Shape) -> str | None:
    flat = indices.reshape(-1, len(lengths))
    wrong = (flat < -np.array(lengths)) | (flat >= np.array(lengths))
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        return f"index {flat[row, column]} is outside an axis of length {lengths[column]}"
    return None


def _problem(facts: KnownValues, node: Node) -> str | None:
    if node.op == "GatherND":
        shape, indices = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
        batch = int_attr(node, "batch_dims", 0)
        if not indices or not 0 < indices[-1] <= min(len(shape) - batch, MAX_INDEX_LENGTH):
            most = f"rows of 1 to {MAX_INDEX_LENGTH} are supported"
            return f"indices of shape {indices} into {shape}; {most}"
        if shape[:batch] != indices[:batch]:
            return f"batch_dims={batch}, but {shape} and {indices} have different leading axes"
    if 0 in facts.shape(node.inputs[1]):
        return "its output would be empty"
    data = facts.constant_data(node.inputs[1])
    if node.op == "GatherElements":
        lengths: Shape = (facts.shape(node.inputs[0])[axis_of(facts, node, 0)],)
    else:
        lengths = _SELECTIONS[node.op](facts, node).lengths
    return None if data is None else _index_problem(data, lengths)


_SELECTIONS = {"Gather": _gather_selection, "GatherND": _gather_nd_selection}


def _is_evenly_spaced(indices: Array) -> bool:
    flat = indices.reshape(-1)
    return flat.size < 3 or bool((np.diff(flat) == flat[1] - flat[0]).all())


def _lower(b: Builder, node: Node) -> None:
    choice, indices = _SELECTIONS[node.op](b, node), b.constant_data(node.inputs[1])
    value = node.outputs[0]
    fixed = b.static_data(node.inputs[1])
    if node.op == "Gather" and fixed is not None:
        shape, axis = b.shape(node.inputs[0]), axis_of(b, node, 0)
        positive = np.where(fixed < 0, fixed + shape[axis], fixed).reshape(-1)
        if _is_evenly_spaced(positive):
            step = int(positive[1] - positive[0]) if positive.size > 1 else 1
            lower_view(
                b, node, contiguous_view(shape).sliced(axis, int(positive[0]), positive.size, step)
            )
            return
    source = b.stored_tensor(node.inputs[0])
    nchw = storage_nchw(storage_shape(b, value))
    output = b.create_output(value, b.layout(nchw))
    numbers: dict[str, UniformValue] = {
        "inner": choice.slice_size,
        "rows": choice.row_count,
        "per_outer": choice.outer_stride,
        "moving": choice.row_count * choice.has_rows_per_part,
        "each": len(choice.strides),
        "axes": tuple(zip(choice.strides, choice.lengths, strict=True)),
    }
    if indices is not None and choice.outer_stride <= MAX_EXACT_INTEGER:
        # The offset sums of constant indices are constant too: one read for any number of indexed
        # axes.
        arguments = {"strides": choice.strides, "lengths": choice.lengths}
        table = b.weight_texture(p.PackingRecipe("offsets", (node.inputs[1],), arguments))
        b.draw(
            GATHER_SHADER,
            output,
            [source],
            [table],
            uniforms=numbers,
            constants={"CONSTANT": 1},
            fetches=32,
        )
        return
    chosen = b.stored_tensor(node.inputs[1])
    b.draw(
        GATHER_SHADER,
        output,
        [source, chosen],
        uniforms=numbers,
        constants={"CONSTANT": 0},
        fetches=32,
    )


def _gather_index_map(facts: KnownValues, node: Node, _output_index: int) -> IndexMap | None:
    """Return the index map of constant indices, if they are few or evenly spaced."""
    indices, shape = facts.constant_data(node.inputs[1]), facts.shape(node.inputs[0])
    if indices is None:
        return None
    axis = axis_of(facts, node, 0)
    places = [row[0] for row in _wrap_indices(indices, shape[axis])]
    if _is_evenly_spaced(np.array(places)):
        step = places[1] - places[0] if len(places) > 1 else 1
        return view_index_map(contiguous_view(shape).sliced(axis, places[0], len(places), step))
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    table = tuple(place * inner for place in places)
    return _table_index_map((outer, len(table), inner), (shape[axis] * inner, 0, 1), 1, table)


def _gather_nd_index_map(facts: KnownValues, node: Node, _output_index: int) -> IndexMap | None:
    indices = facts.constant_data(node.inputs[1])
    if indices is None:
        return None
    choice = _gather_nd_selection(facts, node)
    rows = indices.reshape(-1, len(choice.lengths)) % np.array(choice.lengths)
    starts = np.arange(len(rows)) // choice.row_count * choice.outer_stride
    table = tuple(map(int, starts + rows @ np.array(choice.strides)))
    return _table_index_map((len(rows), choice.slice_size), (0, 1), 0, table)


def _table_index_map(sizes: Shape, strides: Shape, axis: int, table: Shape) -> IndexMap | None:
    return IndexMap(sizes, strides, 0, axis, table) if len(table) <= MAX_TABLE_LENGTH else None


def _explanation(
    index_map_rule: Callable[[KnownValues, Node, int], IndexMap | None],
    fallback_kind: ExplanationKind,
) -> Callable[[KnownValues, Node], ExplanationKind]:
    return lambda facts, node: fallback_kind if index_map_rule(facts, node, 0) is None else "moved"


def _gather_elements_view(facts: KnownValues, node: Node) -> StridedView:
    axis, data = axis_of(facts, node, 0), contiguous_view(facts.shape(node.inputs[0]))
    strides = tuple(0 if k == axis else stride for k, stride in enumerate(data.strides))
    return StridedView(facts.shape(node.inputs[1]), strides).simplified()


def _gather_elements_problem(facts: KnownValues, node: Node) -> str | None:
    shape, indices = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    if len(shape) != len(indices):
        return f"indices of {len(indices)} axes into data of {len(shape)}"
    if len(_gather_elements_view(facts, node).sizes) > MAX_AXES:
        return f"{len(shape)} axes; at most {MAX_AXES} are supported"
    return _problem(facts, node)


def _lower_gather_elements(b: Builder, node: Node) -> None:
    view, axis, shape = _gather_elements_view(b, node), axis_of(b, node, 0), b.shape(node.inputs[0])
    tensors = [b.stored_tensor(node.inputs[0]), b.stored_tensor(node.inputs[1])]
    numbers = strided_uniforms(view, math.prod(shape[axis + 1 :]), shape[axis])
    output = b.create_output(node.outputs[0])
    b.draw(
        STRIDED_GATHER_SHADER,
        output,
        tensors,
        uniforms=numbers,
        constants={"INDEXED": 1},
        fetches=32,
    )


def _indices_shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    return [facts.shape(node.inputs[1])]


def _gather_receptive_fields(
    facts: KnownValues, node: Node, output_index: int
) -> list[OperatorField | None]:
    """Treat multi-axis indices as one axis; computed indices may select any position."""
    source, axis = facts.shape(node.inputs[0]), axis_of(facts, node, 0)
    shape, indices = facts.shape(node.outputs[output_index]), facts.shape(node.inputs[1])
    rows, known = math.prod(indices), facts.constant_data(node.inputs[1])
    chosen: AxisWindow | None = None
    if known is not None:
        length = source[axis]
        chosen = table_window(axis, rows, length, partial(_wrap_indices, known, length))
    links = [chosen if k == axis else same_position(k) for k in range(len(source))]
    reader = (*source[:axis], rows, *source[axis + 1 :])
    choosing = tuple(same_position(axis + k) for k in range(len(indices)))
    return [OperatorField(reader, source, tuple(links)), OperatorField(shape, indices, choosing)]


def _wrap_indices(indices: Array, length: int) -> list[tuple[int]]:
    """Return each index as a row of one position; negative indices count from the end."""
    return [(int(i) % length,) for i in indices.reshape(-1)]


def _gather_elements_receptive_fields(
    facts: KnownValues, node: Node, output_index: int
) -> list[OperatorField | None]:
    """Any position along the axis, the same position along the other axes, and one index."""
    (source, indices), axis = map(facts.shape, node.inputs), axis_of(facts, node, 0)
    data = tuple(None if k == axis else same_position(k) for k in range(len(source)))
    choosing = tuple(same_position(k) for k in range(len(indices)))
    return [OperatorField(indices, source, data), OperatorField(indices, indices, choosing)]


def _gather_nd_receptive_fields(
    facts: KnownValues, node: Node, output_index: int
) -> Sequence[OperatorField | None]:
    """Exact if each column of constant indices varies along its own neighbouring axes."""
    known = facts.constant_data(node.inputs[1])
    if known is None or int_attr(node, "batch_dims", 0):
        return full_fields(facts, node, output_index)
    source, shape = facts.shape(node.inputs[0]), facts.shape(node.outputs[output_index])
    rows = known.shape[:-1]
    spans: list[range] = []
    for column in np.moveaxis(known, -1, 0):
        along = [k for k, n in enumerate(rows) if n > 1 and (np.diff(column, axis=k) != 0).any()]
        spans.append(range(along[0], along[-1] + 1) if along else range(0))
    crossed = len({k for span in spans for k in span}) != sum(map(len, spans))
    if crossed or any(not span and source[axis] > 1 for axis, span in enumerate(spans)):
        return full_fields(facts, node, output_index)
    # Treat the axes of a span as one axis.
    starts = [k for k in range(len(shape)) if not any(k in span[1:] for span in spans)]
    reader = tuple(
        math.prod(shape[a:b]) for a, b in zip(starts, [*starts[1:], len(shape)], strict=True)
    )
    links: list[AxisWindow | None] = []
    for axis, span in enumerate(spans):
        at = tuple(slice(None) if k in span else 0 for k in range(len(rows)))
        column, length = known[(*at, axis)].reshape(-1), source[axis]
        links.append(
            table_window(
                starts.index(span[0]), column.size, length, partial(_wrap_indices, column, length)
            )
            if span
            else None
        )
    behind = len(starts) - (len(source) - len(spans))
    links += [same_position(behind + k) for k in range(len(source) - len(spans))]
    return [OperatorField(reader, source, tuple(links)), None]


OPERATORS = [
    Operator("Gather", "Selects slices along an axis by index; NaN if out of range.",
             _gather_shape, _lower,
             {"axis": any_value, PADDING_IDX: any_value}, _problem, index_map=_gather_index_map,
             role="head", receptive_field=_gather_receptive_fields,
             explanation=_explanation(_gather_index_map, "chosen"),
             formula=None, bounds=None, caption=None, shape_inputs=(), gradient=gradients.gather),
    Operator("GatherND", "Selects slices by indices of several axes; NaN if out of range.",
             _gather_nd_shape, _lower, {"batch_dims": any_value}, _problem,
             index_map=_gather_nd_index_map,
             role="head", receptive_field=_gather_nd_receptive_fields,
             explanation=_explanation(_gather_nd_index_map, "nothing"),
             formula=None, bounds=None, caption=None, shape_inputs=(),
             gradient=gradients.gather_nd),
    Operator("GatherElements", "Selects elements along an axis by index; NaN if out of range.",
             _indices_shape, _lower_gather_elements, {"axis": any_value}, _gather_elements_problem,
             role="head", receptive_field=_gather_elements_receptive_fields, explanation="chosen",
             formula=None, bounds=None, caption=None, shape_inputs=(),
             gradient=gradients.gather_elements),
]  # fmt: skip
