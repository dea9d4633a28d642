"""Concatenation of tensors along an axis, and Split."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import FragmentShader, shader_source
from nbglcnn.codegen.strided import contiguous_view, gather_strided, view_index_map
from nbglcnn.graph import Node
from nbglcnn.ops import movement_gradient as gradients
from nbglcnn.ops.operator import (
    KnownValues,
    Operator,
    Shape,
    any_value,
    axis_of,
    constant_ints,
    has_input,
    int_attr,
)
from nbglcnn.ops.pointwise import activation_of
from nbglcnn.ops.receptive_field import (
    OperatorField,
    first_input_fields,
    same_position,
    shifted_position,
)
from nbglcnn.plan.layout import NCHW, storage_nchw
from nbglcnn.plan.schema import IndexMap

CONCAT_SHADER = FragmentShader("concat", shader_source("concat.glsl"), uniform_slots="ivec4 starts")
CONCAT_BLOCKS_SHADER = replace(CONCAT_SHADER, has_pixel_function=False)
MAX_INPUTS = 4  # inputs of one pass
ABSENT_INPUT_START = 2**30  # start of an absent input


def _nchw_shapes(shapes: Sequence[Shape], axis: int) -> tuple[list[NCHW], int]:
    """Return NCHW shapes that have the concatenation axis as one axis, and its index."""
    rank = len(shapes[0])
    places = {1: {0: 1}, 2: {0: 0, 1: 1}, 3: {0: 0, 1: 1, 2: 3}}.get(
        rank, {0: 0, 1: 1, rank - 1: 3}
    )
    if rank == 4:
        places = {0: 0, 1: 1, 2: 2, 3: 3}
    if axis in places:
        return [storage_nchw(shape) for shape in shapes], places[axis]
    return [(1, math.prod(s[:axis]), s[axis], math.prod(s[axis + 1 :])) for s in shapes], 2


def draw_concat(
    b: Builder, tensors: Sequence[Tensor], axis: int, activation: Node | None = None
) -> Tensor:
    """Concatenate tensors whose NCHW shapes differ only along `axis` (0 n, 1 c, 2 h, 3 w).

    `activation` is a unary node to apply to the result; it requires at least two tensors.
    """
    while len(tensors) > MAX_INPUTS:
        tensors = [
            draw_concat(b, tensors[k : k + MAX_INPUTS], axis)
            if k + 1 < len(tensors)
            else tensors[k]
            for k in range(0, len(tensors), MAX_INPUTS)
        ]
    if len(tensors) == 1:
        assert activation is None
        return tensors[0]
    sizes = [tensor.layout.nchw[axis] for tensor in tensors]
    starts = [0, *accumulate(sizes[:-1])]
    n, c, h, w = (
        sum(sizes) if k == axis else length for k, length in enumerate(tensors[0].layout.nchw)
    )
    copied = tensors[0] if activation is None else None
    output = b.create_scratch_tensor(b.layout((n, c, h, w)), copied)
    aligned = int(all(size % 4 == 0 for size in sizes[:-1]))
    blocks = int(
        b.target.fast_kernels and axis == 1 and aligned and output.layout.block == (1, 2, 2)
    )
    function, numbers = activation_of(b, activation)
    b.draw(
        CONCAT_BLOCKS_SHADER if blocks else CONCAT_SHADER,
        output,
        tensors,
        uniforms={
            **numbers,
            "starts": [*starts, *[ABSENT_INPUT_START] * (MAX_INPUTS - len(starts))],
        },
        constants={"COUNT": len(tensors), "AXIS": axis, "ALIGNED": aligned, "BLOCKS": blocks},
        functions=[function],
        fetches=4 if aligned or axis != 1 else 16,
    )
    return output


def _concat_shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    axis = axis_of(facts, node, 0)
    shapes = [facts.shape(name) for name in node.inputs]
    return [(*shapes[0][:axis], sum(s[axis] for s in shapes), *shapes[0][axis + 1 :])]


def _concat_problem(facts: KnownValues, node: Node) -> str | None:
    shapes = [facts.shape(name) for name in node.inputs]
    axis = axis_of(facts, node, 0)
    for shape in shapes:
        if not 0 <= axis < len(shape) or len(shape) != len(shapes[0]):
            return (
                f"inputs of shapes {', '.join(map(str, shapes))} cannot be joined along axis {axis}"
            )
        if any(a != b for k, (a, b) in enumerate(zip(shape, shapes[0], strict=True)) if k != axis):
            return (
                f"inputs of shapes {', '.join(map(str, shapes))} cannot be joined along axis {axis}"
            )
    return None


def _lower_concat(b: Builder, node: Node) -> None:
    axis = axis_of(b, node, 0)
    names = [name for name in node.inputs if math.prod(b.shape(name))] or node.inputs[:1]
    nchw_shapes, place = _nchw_shapes([b.shape(name) for name in names], axis)
    tensors = [b.tensor(name, nchw) for name, nchw in zip(names, nchw_shapes, strict=True)]
    epilogue = b.epilogue(node)
    b.bind(epilogue.output_name, draw_concat(b, tensors, place, epilogue.activation))


def _split_sizes(facts: KnownValues, node: Node) -> tuple[int, ...]:
    """The length of each output of Split."""
    given = constant_ints(facts, node, 1)
    if given is not None:
        return given
    length = facts.shape(node.inputs[0])[axis_of(facts, node, 0)]
    count = int_attr(node, "num_outputs", len(node.outputs))
    each = -(-length // count)
    return (*[each] * (count - 1), length - each * (count - 1))


def _split_shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    shape, axis = facts.shape(node.inputs[0]), axis_of(facts, node, 0)
    return [(*shape[:axis], size, *shape[axis + 1 :]) for size in _split_sizes(facts, node)]


def _split_problem(facts: KnownValues, node: Node) -> str | None:
    if has_input(node, 1) and facts.constant_data(node.inputs[1]) is None:
        return "its sizes depend on the input; they must be constant"
    shape, axis = facts.shape(node.inputs[0]), axis_of(facts, node, 0)
    sizes = _split_sizes(facts, node)
    if min(sizes) < 0 or sum(sizes) != shape[axis] or len(sizes) < len(node.outputs):
        return f"an axis of length {shape[axis]} cannot be split into {sizes}"
    return None


def _lower_split(b: Builder, node: Node) -> None:
    shape, axis = b.shape(node.inputs[0]), axis_of(b, node, 0)
    start = 0
    for name, size in zip(node.outputs, _split_sizes(b, node), strict=False):
        if name and size:
            view = contiguous_view(shape).sliced(axis, start, size)
            nchw = storage_nchw(view.sizes)
            source = b.stored_tensor(node.inputs[0])
            b.bind(name, gather_strided(b, source, nchw, view.sizes, view.strides, view.offset))
        start += size


def _split_index_map(facts: KnownValues, node: Node, output_index: int) -> IndexMap:
    shape, axis, sizes = (
        facts.shape(node.inputs[0]),
        axis_of(facts, node, 0),
        _split_sizes(facts, node),
    )
    return view_index_map(
        contiguous_view(shape).sliced(axis, sum(sizes[:output_index]), sizes[output_index])
    )


def _concat_receptive_fields(
    facts: KnownValues, node: Node, output_index: int
) -> list[OperatorField | None]:
    shape, axis = facts.shape(node.outputs[output_index]), axis_of(facts, node, 0)
    found: list[OperatorField | None] = []
    start = 0
    for name in node.inputs:
        source = facts.shape(name)
        links = [
            shifted_position(k, start) if k == axis else same_position(k)
            for k in range(len(source))
        ]
        found.append(OperatorField(shape, source, tuple(links)))
        start += source[axis]
    return found


def _split_receptive_field(facts: KnownValues, node: Node, output_index: int) -> OperatorField:
    source, axis = facts.shape(node.inputs[0]), axis_of(facts, node, 0)
    start = sum(_split_sizes(facts, node)[:output_index])
    links = [
        shifted_position(k, -start) if k == axis else same_position(k) for k in range(len(source))
    ]
    return OperatorField(facts.shape(node.outputs[output_index]), source, tuple(links))


OPERATORS = [
    Operator(
        "Concat",
        "Joins tensors along an axis, such as the channels of a skip connection.",
        _concat_shape,
        _lower_concat,
        {"axis": any_value},
        _concat_problem,
        accepts_empty=True,
        role="merges",
        receptive_field=_concat_receptive_fields,
        explanation="concatenation",
        formula=None,
        bounds=None,
        caption="cat",
        shape_inputs=(),
        gradient=gradients.concat,
    ),
    Operator(
        "Split",
        "Splits a tensor into parts along an axis.",
        _split_shape,
        _lower_split,
        {"axis": any_value, "num_outputs": any_value},
        _split_problem,
        index_map=_split_index_map,
        role="head",
        receptive_field=first_input_fields(_split_receptive_field),
        explanation="moved",
        formula=None,
        bounds=None,
        caption=None,
        shape_inputs=(1,),
        gradient=gradients.split_rule(_split_sizes),
    ),
]
