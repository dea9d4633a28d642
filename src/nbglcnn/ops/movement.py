"""Operators that move elements and compute nothing: renamings, which cost no pass, and views."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nbglcnn.codegen.builder import Builder
from nbglcnn.graph import Node
from nbglcnn.ops import movement_gradient as gradients
from nbglcnn.ops.operator import (
    Allowed,
    Facts,
    Gradient,
    Operator,
    Shape,
    anything,
    axis_of,
    constant_integers,
    has_input,
    integer,
    integers,
    no_reason,
    normal_axes,
    only,
    same_shape,
    text,
)
from nbglcnn.ops.reach import Linked, Reach, first, local, permuted, renamed, same, shifted
from nbglcnn.ops.strided import MOST_AXES, View, by_element, gather, moved, whole
from nbglcnn.plan.layout import nchw_of
from nbglcnn.plan.schema import Along, Role

DEPTH_TO_SPACE = by_element("depth_to_space", "int block, along, across")

# Renamings: another shape for the same elements in the same order.


def alias(b: Builder, node: Node) -> None:
    """The output is the input's elements in the same order: no pass, only another shape."""
    b.bind(node.outputs[0], b.stored(node.inputs[0]))


Check = Callable[[Facts, Node], str | None]


def needs_constant(position: int, name: str) -> Check:
    """A check that an optional input, if given, is known when the Plan is made."""

    def check(facts: Facts, node: Node) -> str | None:
        if has_input(node, position) and facts.constant(node.inputs[position]) is None:
            return f"its {name} is computed while the network runs; it must be constant"
        return None

    return check


def first_problem(*checks: Check) -> Check:
    """The first problem that one of several checks finds."""

    def check(facts: Facts, node: Node) -> str | None:
        return next((problem for c in checks if (problem := c(facts, node))), None)

    return check


def _reshape(facts: Facts, node: Node) -> Sequence[Shape]:
    shape, wanted = facts.shape(node.inputs[0]), constant_integers(facts, node, 1)
    assert wanted is not None
    if not integer(node, "allowzero", 0):
        wanted = tuple(shape[k] if d == 0 else d for k, d in enumerate(wanted))
    if -1 in wanted:
        rest = math.prod(d for d in wanted if d != -1)
        wanted = tuple(math.prod(shape) // max(rest, 1) if d == -1 else d for d in wanted)
    return [wanted]


def _reshape_problem(facts: Facts, node: Node) -> str | None:
    if problem := needs_constant(1, "shape")(facts, node):
        return problem
    wanted, shape = _reshape(facts, node)[0], facts.shape(node.inputs[0])
    if math.prod(wanted) != math.prod(shape):
        return f"{shape} cannot be reshaped to {wanted}"
    return None


def _flatten(facts: Facts, node: Node) -> Sequence[Shape]:
    shape = facts.shape(node.inputs[0])
    axis = axis_of(facts, node, 1)
    return [(math.prod(shape[:axis]), math.prod(shape[axis:]))]


def _squeeze(facts: Facts, node: Node) -> Sequence[Shape]:
    shape, axes = facts.shape(node.inputs[0]), constant_integers(facts, node, 1)
    if axes is None:
        return [tuple(d for d in shape if d != 1)]
    dropped = normal_axes(axes, len(shape))
    return [tuple(d for k, d in enumerate(shape) if k not in dropped)]


def _squeeze_problem(facts: Facts, node: Node) -> str | None:
    shape, axes = facts.shape(node.inputs[0]), constant_integers(facts, node, 1) or ()
    long = [axis for axis in normal_axes(axes, len(shape)) if shape[axis] != 1]
    return f"axis {long[0]} of {shape} is not of length 1" if long else None


def _unsqueeze(facts: Facts, node: Node) -> Sequence[Shape]:
    shape, axes = list(facts.shape(node.inputs[0])), constant_integers(facts, node, 1)
    assert axes is not None
    for axis in sorted(normal_axes(axes, len(shape) + len(axes))):
        shape.insert(axis, 1)
    return [tuple(shape)]


def _dropout_problem(facts: Facts, node: Node) -> str | None:
    if len(node.outputs) > 1 and node.outputs[1]:
        return "its mask output is not supported"
    training = facts.constant(node.inputs[2]) if has_input(node, 2) else None
    if has_input(node, 2) and (training is None or bool(training.reshape(()))):
        return "it drops elements (training_mode); put the model into eval mode"
    return None


# Views: every output element is one input element.


def too_many_axes(view: View) -> str | None:
    """Why a view cannot be gathered, or None."""
    count = len(view.simple().sizes)
    if count > MOST_AXES:
        return f"it moves {count} axes separately; at most {MOST_AXES} are supported"
    return None


def place(b: Builder, node: Node, view: View, output: int = 0) -> None:
    """An output is `view` of the first input: no pass where all elements keep their order."""
    source, value = b.stored(node.inputs[0]), node.outputs[output]
    simple = view.simple()
    if simple == whole((math.prod(source.layout.nchw),)).simple():
        b.bind(value, source)
        return
    nchw = nchw_of(settled_shape(b, value))
    b.bind(value, gather(b, source, nchw, simple.sizes, simple.strides, simple.offset))


RENAMINGS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")


def settled_shape(b: Builder, value: str) -> Shape:
    """The shape to store a value in: from rank 5 on that of the one renaming which reads it.

    Nobody looks at such a tensor as maps, and the next operator finds its elements where it wants
    them: channel shuffles and window partitions then take one pass.
    """
    while len(b.shape(value)) > 4:
        readers = [n for n in b.graph.nodes if value in n.inputs]
        if len(readers) != 1 or readers[0].op not in RENAMINGS:
            break
        value = readers[0].outputs[0]
    return b.shape(value)


def moving(
    name: str,
    doc: str,
    view: Callable[[Facts, Node], View],
    *,
    attributes: Mapping[str, Allowed] = {},
    shape: Callable[[Facts, Node], Shape] | None = None,
    check: Check = no_reason,
    role: Role = "head",
    reach: Reach,
    shape_inputs: tuple[int, ...],
    gradient: Gradient | str,
) -> Operator:
    """An operator whose output is a strided view of its first input; its shape the view's sizes."""

    def shapes(facts: Facts, node: Node) -> Sequence[Shape]:
        return [shape(facts, node) if shape else view(facts, node).sizes]

    def problem(facts: Facts, node: Node) -> str | None:
        if found := check(facts, node):
            return found
        return too_many_axes(view(facts, node))

    def draw(b: Builder, node: Node) -> None:
        place(b, node, view(b, node))

    return Operator(
        name, doc, shapes, draw, attributes, problem, move=lambda f, n, _: moved(view(f, n)),
        role=role, reach=reach, explains="moved", formula=None, bounds=None, short=None,
        shape_inputs=shape_inputs, gradient=gradient,
    )  # fmt: skip


def _renaming(
    name: str,
    doc: str,
    shapes: Callable[[Facts, Node], Sequence[Shape]],
    *,
    attributes: Mapping[str, Allowed] = {},
    check: Check = no_reason,
    role: Role = "leads",
    reach: Reach = renamed,
    shape_inputs: tuple[int, ...],
) -> Operator:
    """An operator whose output has its input's elements in the same order: no pass."""
    return Operator(
        name, doc, shapes, alias, attributes, check, role=role, reach=reach, explains="same",
        formula=None, bounds=None, short=None, shape_inputs=shape_inputs,
        gradient=gradients.reshaped_back,
    )  # fmt: skip


def _permutation(facts: Facts, node: Node) -> Shape:
    rank = len(facts.shape(node.inputs[0]))
    return normal_axes(integers(node, "perm", range(rank)[::-1]), rank)


def _transposed(facts: Facts, node: Node) -> View:
    return whole(facts.shape(node.inputs[0])).transposed(_permutation(facts, node))


def _transpose_problem(facts: Facts, node: Node) -> str | None:
    rank, permutation = len(facts.shape(node.inputs[0])), _permutation(facts, node)
    if sorted(permutation) != list(range(rank)):
        return f"perm={permutation} is no order of {rank} axes"
    return None


def _slices(facts: Facts, node: Node) -> dict[int, range]:
    """The places that are kept along each axis that is cut."""
    shape = facts.shape(node.inputs[0])
    starts, ends = constant_integers(facts, node, 1), constant_integers(facts, node, 2)
    assert starts is not None and ends is not None
    axes = constant_integers(facts, node, 3)
    axes = tuple(range(len(starts))) if axes is None else normal_axes(axes, len(shape))
    steps = constant_integers(facts, node, 4) or (1,) * len(starts)
    # slice() clamps as ONNX does, also INT64_MIN and INT64_MAX, which mean "to the end".
    return {
        axis: range(*slice(start, end, step).indices(shape[axis]))
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True)
    }


def _sliced(facts: Facts, node: Node) -> View:
    view = whole(facts.shape(node.inputs[0]))
    for axis, places in _slices(facts, node).items():
        view = view.sliced(axis, places.start, len(places), places.step)
    return view


def _slice_linked(facts: Facts, node: Node, position: int) -> Linked:
    source, slices = facts.shape(node.inputs[0]), _slices(facts, node)
    links = [
        shifted(k, -slices[k].start, slices[k].step) if k in slices else same(k)
        for k in range(len(source))
    ]
    return Linked(facts.shape(node.outputs[position]), source, tuple(links))


_slice_problem = first_problem(
    *(
        needs_constant(k, name)
        for k, name in enumerate(("", "starts", "ends", "axes", "steps"))
        if k
    )
)


def _expanded(facts: Facts, node: Node) -> View:
    shape, wanted = facts.shape(node.inputs[0]), constant_integers(facts, node, 1)
    assert wanted is not None
    return whole(shape).expanded(np.broadcast_shapes(shape, wanted))


def _repeats(facts: Facts, node: Node) -> Shape:
    repeats = constant_integers(facts, node, 1)
    assert repeats is not None
    return repeats


def _tile(facts: Facts, node: Node) -> Shape:
    shape = facts.shape(node.inputs[0])
    return tuple(n * r for n, r in zip(shape, _repeats(facts, node), strict=True))


def _tiled(facts: Facts, node: Node) -> View:
    one = whole(facts.shape(node.inputs[0]))
    sizes, strides = [], []
    for count, stride, repeats in zip(one.sizes, one.strides, _repeats(facts, node), strict=True):
        sizes += [repeats, count]
        strides += [0, stride]
    return View(tuple(sizes), tuple(strides))


def _tile_linked(facts: Facts, node: Node, position: int) -> Linked:
    source, shape = facts.shape(node.inputs[0]), facts.shape(node.outputs[position])
    return Linked(shape, source, tuple(Along(k, padding="wrap") for k in range(len(source))))


def _blocks_linked(facts: Facts, node: Node, position: int) -> Linked:
    block, spread = integer(node, "blocksize", 1), node.op == "DepthToSpace"
    sides = [Along(axis, block, block, transposed=spread) for axis in (2, 3)]
    source, shape = facts.shape(node.inputs[0]), facts.shape(node.outputs[position])
    return Linked(shape, source, (same(0), None, *sides))


def _blocks_problem(facts: Facts, node: Node) -> str | None:
    shape, block = facts.shape(node.inputs[0]), integer(node, "blocksize", 0)
    if len(shape) != 4 or block < 1:
        return f"an input of shape {shape} with blocksize={block}; expected 4 axes and at least 1"
    if node.op == "DepthToSpace" and shape[1] % (block * block):
        return f"{shape[1]} channels are no multiple of blocksize²={block * block}"
    if node.op == "SpaceToDepth" and (shape[2] % block or shape[3] % block):
        return f"a map of {shape[2]}×{shape[3]} is no multiple of blocksize={block}"
    return None


def _depth_to_space(facts: Facts, node: Node) -> Sequence[Shape]:
    (n, c, h, w), block = facts.shape(node.inputs[0]), integer(node, "blocksize", 1)
    return [(n, c // (block * block), h * block, w * block)]


def _draw_depth_to_space(b: Builder, node: Node) -> None:
    x, block = b.tensor(node.inputs[0]), integer(node, "blocksize", 1)
    output = b.output(node.outputs[0])
    # Channel of the input: c * along + (row in the block * block + column in the block) * across.
    crd = text(node, "mode", "DCR") == "CRD"
    along, across = (block * block, 1) if crd else (1, output.layout.nchw[1])
    numbers = {"block": block, "along": along, "across": across}
    b.draw(DEPTH_TO_SPACE, output, [x], numbers=numbers, fetches=16)


def _depth_to_space_view(facts: Facts, node: Node) -> View:
    shape, block = facts.shape(node.inputs[0]), integer(node, "blocksize", 1)
    channels = shape[1] // (block * block)
    crd = text(node, "mode", "DCR") == "CRD"
    parts = (channels, block, block) if crd else (block, block, channels)
    split = whole(shape).split(1, parts)
    return split.transposed((0, 1, 4, 2, 5, 3) if crd else (0, 3, 4, 1, 5, 2))


def _space_to_depth(facts: Facts, node: Node) -> Shape:
    (n, c, h, w), block = facts.shape(node.inputs[0]), integer(node, "blocksize", 1)
    return (n, c * block * block, h // block, w // block)


def _space_to_depth_view(facts: Facts, node: Node) -> View:
    shape, block = facts.shape(node.inputs[0]), integer(node, "blocksize", 1)
    split = whole(shape).split(3, (shape[3] // block, block)).split(2, (shape[2] // block, block))
    crd = text(node, "mode", "DCR") == "CRD"
    return split.transposed((0, 1, 3, 5, 2, 4) if crd else (0, 3, 5, 1, 2, 4))


OPERATORS = [
    _renaming("Identity", "Passes its input on.", same_shape, role="alias", reach=local,
              shape_inputs=()),
    _renaming("Dropout", "Passes its input on: nothing is dropped outside training.", same_shape,
              attributes={"seed": anything}, check=_dropout_problem, role="alias", reach=local,
              shape_inputs=(1, 2)),
    _renaming("Reshape", "Other shape, same elements in the same order.", _reshape,
              attributes={"allowzero": anything}, check=_reshape_problem, shape_inputs=(1,)),
    _renaming("Flatten", "Joins axes into a matrix, same elements in the same order.", _flatten,
              attributes={"axis": anything}, shape_inputs=()),
    _renaming("Squeeze", "Drops axes of length 1.", _squeeze,
              check=first_problem(needs_constant(1, "axes"), _squeeze_problem), shape_inputs=(1,)),
    _renaming("Unsqueeze", "Adds axes of length 1.", _unsqueeze,
              check=needs_constant(1, "axes"), shape_inputs=(1,)),
    moving("Transpose", "Axes in another order.", _transposed, attributes={"perm": anything},
           check=_transpose_problem, reach=permuted(_permutation), shape_inputs=(),
           gradient=gradients.transpose),
    moving("Slice", "A part of each axis, also at steps or backwards.", _sliced,
           check=_slice_problem, reach=first(_slice_linked), shape_inputs=(1, 2, 3, 4),
           gradient=gradients.slices(_slices)),
    moving("Expand", "Repeats axes of length 1 up to a given shape.", _expanded,
           check=needs_constant(1, "shape"), reach=local, shape_inputs=(1,),
           gradient=gradients.expand),
    moving("Tile", "Repeats the whole tensor along its axes.", _tiled, shape=_tile,
           check=needs_constant(1, "repeats"), reach=first(_tile_linked), shape_inputs=(1,),
           gradient=gradients.tile),
    Operator("DepthToSpace", "Spreads groups of channels over blocks of pixels (pixel shuffle).",
             _depth_to_space, _draw_depth_to_space,
             {"blocksize": anything, "mode": only("DCR", "CRD")}, _blocks_problem,
             move=lambda f, n, _: moved(_depth_to_space_view(f, n)),
             role="resamples", reach=first(_blocks_linked), explains="moved",
             formula=None, bounds=None, short=None, shape_inputs=(),
             gradient=gradients.space_to_depth),
    moving("SpaceToDepth", "Gathers blocks of pixels into channels.", _space_to_depth_view,
           attributes={"blocksize": anything, "mode": only("DCR", "CRD")}, shape=_space_to_depth,
           check=_blocks_problem, role="resamples", reach=first(_blocks_linked),
           shape_inputs=(), gradient=gradients.depth_to_space),
]  # fmt: skip
