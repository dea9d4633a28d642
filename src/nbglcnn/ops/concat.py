"""Joining tensors along an axis and cutting them apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import Kernel, shader
from nbglcnn.graph import Node
from nbglcnn.ops import movement_gradient as gradients
from nbglcnn.ops.operator import (
    Facts,
    Operator,
    Shape,
    anything,
    axis_of,
    constant_integers,
    has_input,
    integer,
)
from nbglcnn.ops.pointwise import activation_of
from nbglcnn.ops.reach import Linked, first, same, shifted
from nbglcnn.ops.strided import gather, moved, whole
from nbglcnn.plan.layout import NCHW, nchw_of
from nbglcnn.plan.schema import Move

CONCAT = Kernel("concat", shader("concat.glsl"), slots="ivec4 starts")
BLOCKS = replace(CONCAT, pixel=False)
MOST = 4  # inputs of one pass
NOWHERE = 2**30  # where an input that isn't there starts


def _nchw_shapes(shapes: Sequence[Shape], axis: int) -> tuple[list[NCHW], int]:
    """The shapes as NCHW shapes in which the axis is one of the four, and which."""
    rank = len(shapes[0])
    places = {1: {0: 1}, 2: {0: 0, 1: 1}, 3: {0: 0, 1: 1, 2: 3}}.get(
        rank, {0: 0, 1: 1, rank - 1: 3}
    )
    if rank == 4:
        places = {0: 0, 1: 1, 2: 2, 3: 3}
    if axis in places:
        return [nchw_of(shape) for shape in shapes], places[axis]
    return [(1, math.prod(s[:axis]), s[axis], math.prod(s[axis + 1 :])) for s in shapes], 2


def joined(
    b: Builder, tensors: Sequence[Tensor], axis: int, activation: Node | None = None
) -> Tensor:
    """Tensors whose NCHW shapes differ along `axis` alone (0 n, 1 c, 2 h, 3 w), one after another.

    `activation` is a unary node to apply to all of it; there must be two tensors or more then.
    """
    while len(tensors) > MOST:
        tensors = [
            joined(b, tensors[k : k + MOST], axis) if k + 1 < len(tensors) else tensors[k]
            for k in range(0, len(tensors), MOST)
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
    output = b.scratch(b.layout((n, c, h, w)), copied)
    aligned = int(all(size % 4 == 0 for size in sizes[:-1]))
    blocks = int(
        b.target.fast_kernels and axis == 1 and aligned and output.layout.block == (1, 2, 2)
    )
    function, numbers = activation_of(b, activation)
    b.draw(
        BLOCKS if blocks else CONCAT,
        output,
        tensors,
        numbers={**numbers, "starts": [*starts, *[NOWHERE] * (MOST - len(starts))]},
        constants={"COUNT": len(tensors), "AXIS": axis, "ALIGNED": aligned, "BLOCKS": blocks},
        parts=[function],
        fetches=4 if aligned or axis != 1 else 16,
    )
    return output


def _concat_shape(facts: Facts, node: Node) -> Sequence[Shape]:
    axis = axis_of(facts, node, 0)
    shapes = [facts.shape(name) for name in node.inputs]
    return [(*shapes[0][:axis], sum(s[axis] for s in shapes), *shapes[0][axis + 1 :])]


def _concat_problem(facts: Facts, node: Node) -> str | None:
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


def _concat(b: Builder, node: Node) -> None:
    axis = axis_of(b, node, 0)
    names = [name for name in node.inputs if math.prod(b.shape(name))] or node.inputs[:1]
    nchw_shapes, place = _nchw_shapes([b.shape(name) for name in names], axis)
    tensors = [b.tensor(name, nchw) for name, nchw in zip(names, nchw_shapes, strict=True)]
    epilogue = b.epilogue(node)
    b.bind(epilogue.value, joined(b, tensors, place, epilogue.activation))


def _sizes(facts: Facts, node: Node) -> tuple[int, ...]:
    """How long each output of Split is."""
    given = constant_integers(facts, node, 1)
    if given is not None:
        return given
    length = facts.shape(node.inputs[0])[axis_of(facts, node, 0)]
    count = integer(node, "num_outputs", len(node.outputs))
    each = -(-length // count)
    return (*[each] * (count - 1), length - each * (count - 1))


def _split_shape(facts: Facts, node: Node) -> Sequence[Shape]:
    shape, axis = facts.shape(node.inputs[0]), axis_of(facts, node, 0)
    return [(*shape[:axis], size, *shape[axis + 1 :]) for size in _sizes(facts, node)]


def _split_problem(facts: Facts, node: Node) -> str | None:
    if has_input(node, 1) and facts.constant(node.inputs[1]) is None:
        return "its sizes are computed while the network runs; they must be constant"
    shape, axis = facts.shape(node.inputs[0]), axis_of(facts, node, 0)
    sizes = _sizes(facts, node)
    if min(sizes) < 0 or sum(sizes) != shape[axis] or len(sizes) < len(node.outputs):
        return f"an axis of length {shape[axis]} cannot be split into {sizes}"
    return None


def _split(b: Builder, node: Node) -> None:
    shape, axis = b.shape(node.inputs[0]), axis_of(b, node, 0)
    start = 0
    for name, size in zip(node.outputs, _sizes(b, node), strict=False):
        if name and size:
            view = whole(shape).sliced(axis, start, size)
            nchw = nchw_of(view.sizes)
            source = b.stored(node.inputs[0])
            b.bind(name, gather(b, source, nchw, view.sizes, view.strides, view.offset))
        start += size


def _split_move(facts: Facts, node: Node, position: int) -> Move:
    shape, axis, sizes = facts.shape(node.inputs[0]), axis_of(facts, node, 0), _sizes(facts, node)
    return moved(whole(shape).sliced(axis, sum(sizes[:position]), sizes[position]))


def _concat_reach(facts: Facts, node: Node, position: int) -> list[Linked | None]:
    shape, axis = facts.shape(node.outputs[position]), axis_of(facts, node, 0)
    found: list[Linked | None] = []
    start = 0
    for name in node.inputs:
        source = facts.shape(name)
        links = [shifted(k, start) if k == axis else same(k) for k in range(len(source))]
        found.append(Linked(shape, source, tuple(links)))
        start += source[axis]
    return found


def _split_linked(facts: Facts, node: Node, position: int) -> Linked:
    source, axis = facts.shape(node.inputs[0]), axis_of(facts, node, 0)
    start = sum(_sizes(facts, node)[:position])
    links = [shifted(k, -start) if k == axis else same(k) for k in range(len(source))]
    return Linked(facts.shape(node.outputs[position]), source, tuple(links))


OPERATORS = [
    Operator(
        "Concat",
        "Joins tensors along an axis, such as the channels of a skip connection.",
        _concat_shape,
        _concat,
        {"axis": anything},
        _concat_problem,
        empty=True,
        role="merges",
        reach=_concat_reach,
        explains="concatenation",
        formula=None,
        bounds=None,
        short="cat",
        shape_inputs=(),
        gradient=gradients.concat,
    ),
    Operator(
        "Split",
        "Cuts a tensor into pieces along an axis.",
        _split_shape,
        _split,
        {"axis": anything, "num_outputs": anything},
        _split_problem,
        move=_split_move,
        role="head",
        reach=first(_split_linked),
        explains="moved",
        formula=None,
        bounds=None,
        short=None,
        shape_inputs=(1,),
        gradient=gradients.split(_sizes),
    ),
]
