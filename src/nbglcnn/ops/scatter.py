"""Operators that write updates at indices: each output element searches for its updates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.glsl import FragmentShader, shader_source
from nbglcnn.codegen.strided import MAX_LOOKUPS, contiguous_view, per_element_shader
from nbglcnn.codegen.uniform_slots import UniformValue
from nbglcnn.graph import Array, Node
from nbglcnn.ops import scatter_gradient as gradients
from nbglcnn.ops.operator import (
    KnownValues,
    Operator,
    Shape,
    any_value,
    axis_of,
    one_of,
    same_shape,
    string_attr,
)
from nbglcnn.ops.receptive_field import OperatorField, broadcast_field, full_field, same_position
from nbglcnn.plan.schema import PackingRecipe

# Both use scatter.glsl.
SCATTER_ELEMENTS_SHADER = per_element_shader(
    "scatter", "int begin, end, count, axis; ivec3 axes[6]"
)
SCATTER_ND_SHADER = per_element_shader("scatter", "int begin, end, inner, each; ivec2 axes[6]")
NAN_GLSL = shader_source("nan.glsl")
REDUCTIONS = ("none", "add", "mul", "max", "min")  # in the order of JOIN in scatter.glsl
MAX_SCATTER_AXES = 6  # slots of the shader
MAX_READS = 2**32  # total index reads: seconds on a small graphics card


def _reduction_index(node: Node) -> int:
    return REDUCTIONS.index(string_attr(node, "reduction", "none"))


def _index_problem(facts: KnownValues, node: Node, lengths: Shape) -> str | None:
    """The problem of the first constant index that is out of range."""
    data = facts.constant_data(node.inputs[1])
    if data is None or not data.size:
        return None
    rows = data.reshape(-1, len(lengths))
    wrong = (rows < -np.array(lengths)) | (rows >= np.array(lengths))
    if not wrong.any():
        return None
    row, column = np.argwhere(wrong)[0]
    return f"index {rows[row, column]} is outside an axis of length {lengths[column]}"


def _reads_problem(facts: KnownValues, node: Node, reads_per_element: int) -> str | None:
    reads = math.prod(facts.shape(node.inputs[0])) * reads_per_element
    return f"{reads:,} indices would be read; at most {MAX_READS:,}" if reads > MAX_READS else None


def _scatter_elements_problem(facts: KnownValues, node: Node) -> str | None:
    """Check for up to 6 axes."""
    shape, indices, updates = (facts.shape(name) for name in node.inputs)
    if len(indices) != len(shape) or updates != indices or not 0 < len(shape) <= MAX_SCATTER_AXES:
        return f"indices of shape {indices} and updates of {updates} for data of {shape}"
    axis = axis_of(facts, node, 0)
    if any(i > d for k, (i, d) in enumerate(zip(indices, shape, strict=True)) if k != axis):
        return f"indices of shape {indices} for data of {shape}"
    return _index_problem(facts, node, (shape[axis],)) or _reads_problem(facts, node, indices[axis])


def _lower_scatter_elements(b: Builder, node: Node) -> None:
    shape, indices = b.shape(node.inputs[0]), contiguous_view(b.shape(node.inputs[1]))
    axis = axis_of(b, node, 0)
    axes = tuple(zip(shape, indices.sizes, indices.strides, strict=True))
    numbers: dict[str, UniformValue] = {"count": len(shape), "axis": axis, "axes": axes}
    _draw_chunks(b, node, indices.sizes[axis], MAX_LOOKUPS, SCATTER_ELEMENTS_SHADER, numbers)


def _scatter_nd_problem(facts: KnownValues, node: Node) -> str | None:
    """Check for rows of up to 6 indices."""
    shape, indices, updates = (facts.shape(name) for name in node.inputs)
    if not indices or not 0 < indices[-1] <= min(len(shape), MAX_SCATTER_AXES):
        return (
            f"indices of shape {indices} into {shape}; rows of 1 to {MAX_SCATTER_AXES} are "
            "supported"
        )
    if updates != (*indices[:-1], *shape[indices[-1] :]):
        return f"updates of shape {updates} for indices of {indices} into {shape}"
    if problem := _index_problem(facts, node, shape[: indices[-1]]):
        return problem
    return (
        None if _has_update_table(facts, node) else _reads_problem(facts, node, math.prod(indices))
    )


def _has_update_table(facts: KnownValues, node: Node) -> bool:
    """Whether each slice's update is known at compile time and there is at most one.

    Indices that new weights can change don't count, because they may later repeat a slice.
    """
    if _reduction_index(node) == 0:
        return facts.constant_data(node.inputs[1]) is not None
    data = facts.static_data(node.inputs[1])
    return data is not None and _is_unique(data, facts.shape(node.inputs[0]))


def _is_unique(data: Array, shape: Shape) -> bool:
    rows = data.reshape(-1, data.shape[-1])
    positive = np.where(rows < 0, rows + np.array(shape[: rows.shape[1]]), rows)
    return len(np.unique(positive, axis=0)) == len(rows)


def _lower_scatter_nd(b: Builder, node: Node) -> None:
    shape, indices = b.shape(node.inputs[0]), b.shape(node.inputs[1])
    lengths, inner = shape[: indices[-1]], math.prod(shape[indices[-1] :])
    strides = contiguous_view(lengths).strides
    rows, known = math.prod(indices[:-1]), _has_update_table(b, node)
    weights = []
    if known:
        arguments = {"strides": strides, "lengths": lengths}
        weights.append(b.weight_texture(PackingRecipe("updates", (node.inputs[1],), arguments)))
    axes = tuple(zip(strides, lengths, strict=True))
    numbers: dict[str, UniformValue] = {"inner": inner, "each": indices[-1], "axes": axes}
    # Each row runs a loop over its indices, which has one more iteration to terminate.
    most = rows if known else (MAX_LOOKUPS - 1) // (2 + indices[-1])
    _draw_chunks(b, node, rows, most, SCATTER_ND_SHADER, numbers, weights, each=indices[-1])


def _draw_chunks(
    b: Builder,
    node: Node,
    rows: int,
    max_rows_per_pass: int,
    kernel: FragmentShader,
    numbers: Mapping[str, UniformValue],
    weights: Sequence[int] = (),
    *,
    each: int = 1,
) -> None:
    """Add passes that each search at most `max_rows_per_pass` rows of `each` indices."""
    data, indices, updates = (b.stored_tensor(name) for name in node.inputs)
    elements = int(kernel is SCATTER_ELEMENTS_SHADER)
    constants = {"JOIN": _reduction_index(node), "ELEMENTS": elements, "TABLE": int(bool(weights))}
    for begin in range(0, max(rows, 1), max(max_rows_per_pass, 1)):
        end = min(begin + max_rows_per_pass, rows)
        written = (
            b.create_output(node.outputs[0])
            if end == rows
            else b.create_scratch_tensor(data.layout)
        )
        b.draw(
            kernel, written, [data, indices, updates], weights,
            uniforms={**numbers, "begin": begin, "end": end}, constants=constants,
            functions=[NAN_GLSL], fetches=48 if weights else 32 * (1 + (end - begin) * each),
        )  # fmt: skip
        data = written


def _scatter_elements_receptive_fields(
    facts: KnownValues, node: Node, output_index: int
) -> list[OperatorField | None]:
    """The data at the same position, or any of the updates along the axis."""
    shape, axis = facts.shape(node.outputs[output_index]), axis_of(facts, node, 0)
    links = tuple(None if k == axis else same_position(k) for k in range(len(shape)))
    updates = [OperatorField(shape, facts.shape(name), links) for name in node.inputs[1:]]
    return [broadcast_field(shape, facts.shape(node.inputs[0])), *updates]


def _scatter_nd_receptive_fields(
    facts: KnownValues, node: Node, output_index: int
) -> list[OperatorField | None]:
    """The data at the same position, or the same position within any slice of the updates."""
    shape, rows, updates = (
        facts.shape(node.outputs[output_index]),
        *map(facts.shape, node.inputs[1:]),
    )
    chosen, listed = rows[-1], len(rows) - 1
    inside = [same_position(chosen + k) for k in range(len(updates) - listed)]
    return [
        broadcast_field(shape, facts.shape(node.inputs[0])),
        full_field(facts, node, output_index, node.inputs[1]),
        OperatorField(shape, updates, (*[None] * listed, *inside)),
    ]


OPERATORS = [
    Operator("ScatterElements", "Writes updates along an axis, one for each index.",
             same_shape, _lower_scatter_elements,
             {"axis": any_value, "reduction": one_of(*REDUCTIONS)},
             _scatter_elements_problem, role="head",
             receptive_field=_scatter_elements_receptive_fields,
             explanation="nothing", formula=None, bounds=None, caption=None, shape_inputs=(),
             gradient=gradients.scatter),
    Operator("ScatterND", "Writes updates to the slices that rows of indices select.",
             same_shape, _lower_scatter_nd, {"reduction": one_of(*REDUCTIONS)}, _scatter_nd_problem,
             role="head", receptive_field=_scatter_nd_receptive_fields,
             explanation="nothing", formula=None, bounds=None, caption=None, shape_inputs=(),
             gradient=gradients.scatter),
]  # fmt: skip
