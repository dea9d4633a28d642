"""Operators that write updates to places that indices name: each element looks for its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.glsl import Kernel, shader
from nbglcnn.codegen.slots import Number
from nbglcnn.graph import Array, Node
from nbglcnn.ops import scatter_gradient as gradients
from nbglcnn.ops.operator import Facts, Operator, Shape, anything, axis_of, only, same_shape, text
from nbglcnn.ops.reach import Linked, same, same_place, unlinked
from nbglcnn.ops.strided import PLACES, by_element, whole
from nbglcnn.plan.schema import Recipe

# Both of scatter.glsl.
ELEMENTS = by_element("scatter", "int begin, end, count, axis; ivec3 axes[6]")
SLICES = by_element("scatter", "int begin, end, inner, each; ivec2 axes[6]")
NAN = shader("nan.glsl")
JOINS = ("none", "add", "mul", "max", "min")  # their numbers are scatter.glsl's JOIN
MOST_AXES = 6  # that a kernel has slots for
MOST_READS = 2**32  # indices read altogether: seconds on a small graphics card


def _join(node: Node) -> int:
    return JOINS.index(text(node, "reduction", "none"))


def _outside(facts: Facts, node: Node, lengths: Shape) -> str | None:
    """The first constant index that names no place."""
    data = facts.constant(node.inputs[1])
    if data is None or not data.size:
        return None
    rows = data.reshape(-1, len(lengths))
    wrong = (rows < -np.array(lengths)) | (rows >= np.array(lengths))
    if not wrong.any():
        return None
    row, column = np.argwhere(wrong)[0]
    return f"index {rows[row, column]} is outside an axis of length {lengths[column]}"


def _too_many(facts: Facts, node: Node, each: int) -> str | None:
    reads = math.prod(facts.shape(node.inputs[0])) * each
    return (
        f"{reads:,} indices would be read; at most {MOST_READS:,}" if reads > MOST_READS else None
    )


def _elements_problem(facts: Facts, node: Node) -> str | None:
    """Up to 6 axes."""
    shape, indices, updates = (facts.shape(name) for name in node.inputs)
    if len(indices) != len(shape) or updates != indices or not 0 < len(shape) <= MOST_AXES:
        return f"indices of shape {indices} and updates of {updates} for data of {shape}"
    axis = axis_of(facts, node, 0)
    if any(i > d for k, (i, d) in enumerate(zip(indices, shape, strict=True)) if k != axis):
        return f"indices of shape {indices} for data of {shape}"
    return _outside(facts, node, (shape[axis],)) or _too_many(facts, node, indices[axis])


def _elements(b: Builder, node: Node) -> None:
    shape, indices = b.shape(node.inputs[0]), whole(b.shape(node.inputs[1]))
    axis = axis_of(b, node, 0)
    axes = tuple(zip(shape, indices.sizes, indices.strides, strict=True))
    numbers: dict[str, Number] = {"count": len(shape), "axis": axis, "axes": axes}
    _in_parts(b, node, indices.sizes[axis], PLACES, ELEMENTS, numbers)


def _slices_problem(facts: Facts, node: Node) -> str | None:
    """Rows of up to 6 indices."""
    shape, indices, updates = (facts.shape(name) for name in node.inputs)
    if not indices or not 0 < indices[-1] <= min(len(shape), MOST_AXES):
        return f"indices of shape {indices} into {shape}; rows of 1 to {MOST_AXES} are supported"
    if updates != (*indices[:-1], *shape[indices[-1] :]):
        return f"updates of shape {updates} for indices of {indices} into {shape}"
    if problem := _outside(facts, node, shape[: indices[-1]]):
        return problem
    return None if _table(facts, node) else _too_many(facts, node, math.prod(indices))


def _table(facts: Facts, node: Node) -> bool:
    """Whether it is known now which update each slice takes, and that it takes but one.

    Indices that new weights change may name a slice twice then.
    """
    if _join(node) == 0:
        return facts.constant(node.inputs[1]) is not None
    data = facts.fixed(node.inputs[1])
    return data is not None and _unlike(data, facts.shape(node.inputs[0]))


def _unlike(data: Array, shape: Shape) -> bool:
    rows = data.reshape(-1, data.shape[-1])
    positive = np.where(rows < 0, rows + np.array(shape[: rows.shape[1]]), rows)
    return len(np.unique(positive, axis=0)) == len(rows)


def _slices(b: Builder, node: Node) -> None:
    shape, indices = b.shape(node.inputs[0]), b.shape(node.inputs[1])
    lengths, inner = shape[: indices[-1]], math.prod(shape[indices[-1] :])
    strides = whole(lengths).strides
    rows, known = math.prod(indices[:-1]), _table(b, node)
    weights = []
    if known:
        arguments = {"strides": strides, "lengths": lengths}
        weights.append(b.weight(Recipe("updates", (node.inputs[1],), arguments)))
    axes = tuple(zip(strides, lengths, strict=True))
    numbers: dict[str, Number] = {"inner": inner, "each": indices[-1], "axes": axes}
    # Each row goes round the loop over its indices, which goes round once more to end.
    most = rows if known else (PLACES - 1) // (2 + indices[-1])
    _in_parts(b, node, rows, most, SLICES, numbers, weights, each=indices[-1])


def _in_parts(
    b: Builder,
    node: Node,
    rows: int,
    most: int,
    kernel: Kernel,
    numbers: Mapping[str, Number],
    weights: Sequence[int] = (),
    *,
    each: int = 1,
) -> None:
    """Passes that look through `most` rows of `each` indices, one after the other."""
    data, indices, updates = (b.stored(name) for name in node.inputs)
    elements = int(kernel is ELEMENTS)
    constants = {"JOIN": _join(node), "ELEMENTS": elements, "TABLE": int(bool(weights))}
    for begin in range(0, max(rows, 1), max(most, 1)):
        end = min(begin + most, rows)
        written = b.output(node.outputs[0]) if end == rows else b.scratch(data.layout)
        b.draw(
            kernel, written, [data, indices, updates], weights,
            numbers={**numbers, "begin": begin, "end": end}, constants=constants, parts=[NAN],
            fetches=48 if weights else 32 * (1 + (end - begin) * each),
        )  # fmt: skip
        data = written


def _along_axis(facts: Facts, node: Node, position: int) -> list[Linked | None]:
    """What stood at the same place before, or any of the updates along the axis."""
    shape, axis = facts.shape(node.outputs[position]), axis_of(facts, node, 0)
    links = tuple(None if k == axis else same(k) for k in range(len(shape)))
    updates = [Linked(shape, facts.shape(name), links) for name in node.inputs[1:]]
    return [same_place(shape, facts.shape(node.inputs[0])), *updates]


def _in_slices(facts: Facts, node: Node, position: int) -> list[Linked | None]:
    """What stood at the same place before, or the same place of any of the updates' slices."""
    shape, rows, updates = facts.shape(node.outputs[position]), *map(facts.shape, node.inputs[1:])
    chosen, listed = rows[-1], len(rows) - 1
    inside = [same(chosen + k) for k in range(len(updates) - listed)]
    return [
        same_place(shape, facts.shape(node.inputs[0])),
        unlinked(facts, node, position, node.inputs[1]),
        Linked(shape, updates, (*[None] * listed, *inside)),
    ]


OPERATORS = [
    Operator("ScatterElements", "Writes updates to places along an axis, one for each index.",
             same_shape, _elements, {"axis": anything, "reduction": only(*JOINS)},
             _elements_problem, role="head", reach=_along_axis,
             explains="nothing", formula=None, bounds=None, short=None, shape_inputs=(),
             gradient=gradients.scatter),
    Operator("ScatterND", "Writes updates to slices that rows of indices name.",
             same_shape, _slices, {"reduction": only(*JOINS)}, _slices_problem,
             role="head", reach=_in_slices,
             explains="nothing", formula=None, bounds=None, short=None, shape_inputs=(),
             gradient=gradients.scatter),
]  # fmt: skip
