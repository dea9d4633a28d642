"""Operators that move elements without computing: aliases, which cost no pass, and views."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.strided import (
    MAX_AXES,
    StridedView,
    compose_views,
    contiguous_view,
    per_element_shader,
    view_fetches,
    view_index_map,
)
from nbglcnn.graph import Node
from nbglcnn.ops import movement_gradient as gradients
from nbglcnn.ops.operator import (
    AttributeCheck,
    GradientRule,
    KnownValues,
    Operator,
    Shape,
    any_value,
    axis_of,
    constant_ints,
    has_input,
    int_attr,
    int_list_attr,
    no_problem,
    normalize_axes,
    one_of,
    same_shape,
    string_attr,
)
from nbglcnn.ops.receptive_field import (
    OperatorField,
    ReceptiveFieldRule,
    elementwise_fields,
    first_input_fields,
    permuted_fields,
    reshaped_fields,
    same_position,
    shifted_position,
)
from nbglcnn.plan.layout import Layout, storage_nchw
from nbglcnn.plan.schema import AxisWindow, Role

DEPTH_TO_SPACE_SHADER = per_element_shader("depth_to_space", "int block, along, across")

# Aliases: another shape for the same elements in the same order.


def lower_alias(b: Builder, node: Node) -> None:
    """Bind the output to the input's texture: same elements and order, another shape, no pass."""
    if b.reader_counts[node.inputs[0]] > 1:
        b.stored_tensor(node.inputs[0])  # once for all readers
    lower_view(b, node, contiguous_view(b.shape(node.inputs[0])))


NodeCheck = Callable[[KnownValues, Node], str | None]


def constant_input_check(input_index: int, name: str) -> NodeCheck:
    """Make a check that an optional input, if present, is known when the Plan is made."""

    def check(facts: KnownValues, node: Node) -> str | None:
        if has_input(node, input_index) and facts.constant_data(node.inputs[input_index]) is None:
            return f"its {name} depends on the input; it must be constant"
        return None

    return check


def combine_checks(*checks: NodeCheck) -> NodeCheck:
    """Make a check that returns the first problem found by several checks."""

    def check(facts: KnownValues, node: Node) -> str | None:
        return next((problem for c in checks if (problem := c(facts, node))), None)

    return check


def _reshape_shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    shape, wanted = facts.shape(node.inputs[0]), constant_ints(facts, node, 1)
    assert wanted is not None
    if not int_attr(node, "allowzero", 0):
        wanted = tuple(shape[k] if d == 0 else d for k, d in enumerate(wanted))
    if -1 in wanted:
        rest = math.prod(d for d in wanted if d != -1)
        wanted = tuple(math.prod(shape) // max(rest, 1) if d == -1 else d for d in wanted)
    return [wanted]


def _reshape_problem(facts: KnownValues, node: Node) -> str | None:
    if problem := constant_input_check(1, "shape")(facts, node):
        return problem
    wanted, shape = _reshape_shape(facts, node)[0], facts.shape(node.inputs[0])
    if math.prod(wanted) != math.prod(shape):
        return f"{shape} cannot be reshaped to {wanted}"
    return None


def _flatten_shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    shape = facts.shape(node.inputs[0])
    axis = axis_of(facts, node, 1)
    return [(math.prod(shape[:axis]), math.prod(shape[axis:]))]


def _squeeze_shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    shape, axes = facts.shape(node.inputs[0]), constant_ints(facts, node, 1)
    if axes is None:
        return [tuple(d for d in shape if d != 1)]
    dropped = normalize_axes(axes, len(shape))
    return [tuple(d for k, d in enumerate(shape) if k not in dropped)]


def _squeeze_problem(facts: KnownValues, node: Node) -> str | None:
    shape, axes = facts.shape(node.inputs[0]), constant_ints(facts, node, 1) or ()
    long = [axis for axis in normalize_axes(axes, len(shape)) if shape[axis] != 1]
    return f"axis {long[0]} of {shape} is not of length 1" if long else None


def _unsqueeze_shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    shape, axes = list(facts.shape(node.inputs[0])), constant_ints(facts, node, 1)
    assert axes is not None
    for axis in sorted(normalize_axes(axes, len(shape) + len(axes))):
        shape.insert(axis, 1)
    return [tuple(shape)]


def _dropout_problem(facts: KnownValues, node: Node) -> str | None:
    if len(node.outputs) > 1 and node.outputs[1]:
        return "its mask output is not supported"
    training = facts.constant_data(node.inputs[2]) if has_input(node, 2) else None
    if has_input(node, 2) and (training is None or bool(training.reshape(()))):
        return "it drops elements (training_mode); put the model into eval mode"
    return None


# Views: every output element is one input element.


def axis_count_problem(view: StridedView) -> str | None:
    """The reason why a view cannot be gathered, or None."""
    count = len(view.simplified().sizes)
    if count > MAX_AXES:
        return f"it moves {count} axes separately; at most {MAX_AXES} are supported"
    return None


def lower_view(b: Builder, node: Node, view: StridedView, output: int = 0) -> None:
    """Bind an output to `view` of the first input; no pass if all elements keep their order.

    An output that isn't observed waits for its reader, which may be another view.
    """
    value = node.outputs[output]
    source, view = _compose_with_input(b, node.inputs[0], view)
    if view == contiguous_view((math.prod(source.layout.nchw),)).simplified():
        b.bind(value, source)
        return

    b.defer_view(node, value, source, view, _view_layout(b, value, source, view))
    if value in b.observed:
        b.stored_tensor(value)


def _view_layout(b: Builder, value: str, source: Tensor, view: StridedView) -> Layout:
    """The layout for a view: its own, or that of rows over the last axis if that reads texels."""
    shape = storage_shape(b, value)
    own = b.layout(storage_nchw(shape))
    if len(shape) < 3:
        return own
    rows = b.layout((math.prod(shape[:-1]), shape[-1], 1, 1))
    return min(own, rows, key=lambda layout: view_fetches(source.layout, layout, view))


def _compose_with_input(b: Builder, value: str, view: StridedView) -> tuple[Tensor, StridedView]:
    """A tensor, and the view of its elements that `view` of this value is."""
    source, before = b.view_source(value)
    composed = compose_views(before, view)
    if composed is not None and axis_count_problem(composed) is None:
        return source, composed.simplified()
    return b.stored_tensor(value), view.simplified()


RESHAPE_OPERATORS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity")


def storage_shape(b: Builder, value: str) -> Shape:
    """The shape to store a value in; from rank 5 on, the shape of its only reader, an alias.

    Such a tensor is never displayed as maps, and the next operator finds its elements in the layout
    that it needs. Channel shuffles and window partitions therefore take one pass.
    """
    while len(b.shape(value)) > 4:
        readers = [n for n in b.graph.nodes if value in n.inputs]
        if len(readers) != 1 or readers[0].op not in RESHAPE_OPERATORS:
            break
        value = readers[0].outputs[0]
    return b.shape(value)


def view_operator(
    name: str,
    doc: str,
    view: Callable[[KnownValues, Node], StridedView],
    *,
    attributes: Mapping[str, AttributeCheck] = {},
    shape: Callable[[KnownValues, Node], Shape] | None = None,
    check: NodeCheck = no_problem,
    role: Role = "head",
    receptive_field: ReceptiveFieldRule,
    shape_inputs: tuple[int, ...],
    gradient: GradientRule | str,
) -> Operator:
    """An operator whose output is a strided view of its first input; shape: the view's sizes."""

    def shapes(facts: KnownValues, node: Node) -> Sequence[Shape]:
        return [shape(facts, node) if shape else view(facts, node).sizes]

    def problem(facts: KnownValues, node: Node) -> str | None:
        if found := check(facts, node):
            return found
        return axis_count_problem(view(facts, node))

    def draw(b: Builder, node: Node) -> None:
        lower_view(b, node, view(b, node))

    return Operator(
        name, doc, shapes, draw, attributes, problem,
        index_map=lambda f, n, _: view_index_map(view(f, n)),
        role=role, receptive_field=receptive_field, explanation="moved", formula=None, bounds=None,
        caption=None, shape_inputs=shape_inputs, gradient=gradient,
    )  # fmt: skip


def _reshape_operator(
    name: str,
    doc: str,
    shapes: Callable[[KnownValues, Node], Sequence[Shape]],
    *,
    attributes: Mapping[str, AttributeCheck] = {},
    check: NodeCheck = no_problem,
    role: Role = "leads",
    receptive_field: ReceptiveFieldRule = reshaped_fields,
    shape_inputs: tuple[int, ...],
) -> Operator:
    """An operator whose output keeps its input's elements and their order: no pass."""
    return Operator(
        name, doc, shapes, lower_alias, attributes, check, role=role,
        receptive_field=receptive_field, explanation="same",
        formula=None, bounds=None, caption=None, shape_inputs=shape_inputs,
        gradient=gradients.reshape,
    )  # fmt: skip


def _permutation(facts: KnownValues, node: Node) -> Shape:
    rank = len(facts.shape(node.inputs[0]))
    return normalize_axes(int_list_attr(node, "perm", range(rank)[::-1]), rank)


def _transpose_view(facts: KnownValues, node: Node) -> StridedView:
    return contiguous_view(facts.shape(node.inputs[0])).transposed(_permutation(facts, node))


def _transpose_problem(facts: KnownValues, node: Node) -> str | None:
    rank, permutation = len(facts.shape(node.inputs[0])), _permutation(facts, node)
    if sorted(permutation) != list(range(rank)):
        return f"perm={permutation} is not a permutation of {rank} axes"
    return None


def _slice_ranges(facts: KnownValues, node: Node) -> dict[int, range]:
    """The positions kept along each sliced axis."""
    shape = facts.shape(node.inputs[0])
    starts, ends = constant_ints(facts, node, 1), constant_ints(facts, node, 2)
    assert starts is not None and ends is not None
    axes = constant_ints(facts, node, 3)
    axes = tuple(range(len(starts))) if axes is None else normalize_axes(axes, len(shape))
    steps = constant_ints(facts, node, 4) or (1,) * len(starts)
    # slice() clamps as ONNX does, including INT64_MIN and INT64_MAX, which mean "to the end".
    return {
        axis: range(*slice(start, end, step).indices(shape[axis]))
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True)
    }


def _slice_view(facts: KnownValues, node: Node) -> StridedView:
    view = contiguous_view(facts.shape(node.inputs[0]))
    for axis, places in _slice_ranges(facts, node).items():
        view = view.sliced(axis, places.start, len(places), places.step)
    return view


def _slice_receptive_field(facts: KnownValues, node: Node, output_index: int) -> OperatorField:
    source, slices = facts.shape(node.inputs[0]), _slice_ranges(facts, node)
    links = [
        shifted_position(k, -slices[k].start, slices[k].step) if k in slices else same_position(k)
        for k in range(len(source))
    ]
    return OperatorField(facts.shape(node.outputs[output_index]), source, tuple(links))


_slice_problem = combine_checks(
    *(
        constant_input_check(k, name)
        for k, name in enumerate(("", "starts", "ends", "axes", "steps"))
        if k
    )
)


def _expand_view(facts: KnownValues, node: Node) -> StridedView:
    shape, wanted = facts.shape(node.inputs[0]), constant_ints(facts, node, 1)
    assert wanted is not None
    return contiguous_view(shape).expanded(np.broadcast_shapes(shape, wanted))


def _repeats(facts: KnownValues, node: Node) -> Shape:
    repeats = constant_ints(facts, node, 1)
    assert repeats is not None
    return repeats


def _tile_shape(facts: KnownValues, node: Node) -> Shape:
    shape = facts.shape(node.inputs[0])
    return tuple(n * r for n, r in zip(shape, _repeats(facts, node), strict=True))


def _tile_view(facts: KnownValues, node: Node) -> StridedView:
    one = contiguous_view(facts.shape(node.inputs[0]))
    sizes, strides = [], []
    for count, stride, repeats in zip(one.sizes, one.strides, _repeats(facts, node), strict=True):
        sizes += [repeats, count]
        strides += [0, stride]
    return StridedView(tuple(sizes), tuple(strides))


def _tile_receptive_field(facts: KnownValues, node: Node, output_index: int) -> OperatorField:
    source, shape = facts.shape(node.inputs[0]), facts.shape(node.outputs[output_index])
    return OperatorField(
        shape, source, tuple(AxisWindow(k, padding="wrap") for k in range(len(source)))
    )


def _blocks_receptive_field(facts: KnownValues, node: Node, output_index: int) -> OperatorField:
    block, spread = int_attr(node, "blocksize", 1), node.op == "DepthToSpace"
    sides = [AxisWindow(axis, block, block, transposed=spread) for axis in (2, 3)]
    source, shape = facts.shape(node.inputs[0]), facts.shape(node.outputs[output_index])
    return OperatorField(shape, source, (same_position(0), None, *sides))


def _blocks_problem(facts: KnownValues, node: Node) -> str | None:
    shape, block = facts.shape(node.inputs[0]), int_attr(node, "blocksize", 0)
    if len(shape) != 4 or block < 1:
        return f"an input of shape {shape} with blocksize={block}; expected 4 axes and at least 1"
    if node.op == "DepthToSpace" and shape[1] % (block * block):
        return f"{shape[1]} channels are not a multiple of blocksize²={block * block}"
    if node.op == "SpaceToDepth" and (shape[2] % block or shape[3] % block):
        return f"a map of {shape[2]}×{shape[3]} is not a multiple of blocksize={block}"
    return None


def _depth_to_space_shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    (n, c, h, w), block = facts.shape(node.inputs[0]), int_attr(node, "blocksize", 1)
    return [(n, c // (block * block), h * block, w * block)]


def _lower_depth_to_space(b: Builder, node: Node) -> None:
    x, block = b.tensor(node.inputs[0]), int_attr(node, "blocksize", 1)
    output = b.create_output(node.outputs[0])
    # Input channel: c * along + (row within the block * block + column within the block) * across.
    crd = string_attr(node, "mode", "DCR") == "CRD"
    along, across = (block * block, 1) if crd else (1, output.layout.nchw[1])
    numbers = {"block": block, "along": along, "across": across}
    b.draw(DEPTH_TO_SPACE_SHADER, output, [x], uniforms=numbers, fetches=16)


def _depth_to_space_view(facts: KnownValues, node: Node) -> StridedView:
    shape, block = facts.shape(node.inputs[0]), int_attr(node, "blocksize", 1)
    channels = shape[1] // (block * block)
    crd = string_attr(node, "mode", "DCR") == "CRD"
    parts = (channels, block, block) if crd else (block, block, channels)
    split = contiguous_view(shape).split(1, parts)
    return split.transposed((0, 1, 4, 2, 5, 3) if crd else (0, 3, 4, 1, 5, 2))


def _space_to_depth_shape(facts: KnownValues, node: Node) -> Shape:
    (n, c, h, w), block = facts.shape(node.inputs[0]), int_attr(node, "blocksize", 1)
    return (n, c * block * block, h // block, w // block)


def _space_to_depth_view(facts: KnownValues, node: Node) -> StridedView:
    shape, block = facts.shape(node.inputs[0]), int_attr(node, "blocksize", 1)
    split = (
        contiguous_view(shape)
        .split(3, (shape[3] // block, block))
        .split(2, (shape[2] // block, block))
    )
    crd = string_attr(node, "mode", "DCR") == "CRD"
    return split.transposed((0, 1, 3, 5, 2, 4) if crd else (0, 3, 5, 1, 2, 4))


OPERATORS = [
    _reshape_operator("Identity", "Returns its input.", same_shape, role="alias",
                      receptive_field=elementwise_fields, shape_inputs=()),
    _reshape_operator("Dropout", "Returns its input: outside training nothing is dropped.",
                      same_shape,
                      attributes={"seed": any_value}, check=_dropout_problem, role="alias",
                      receptive_field=elementwise_fields, shape_inputs=(1, 2)),
    _reshape_operator("Reshape", "Changes the shape, not the elements' order.", _reshape_shape,
                      attributes={"allowzero": any_value}, check=_reshape_problem,
                      shape_inputs=(1,)),
    _reshape_operator("Flatten", "Joins axes into a matrix, in the elements' order.",
                      _flatten_shape, attributes={"axis": any_value}, shape_inputs=()),
    _reshape_operator("Squeeze", "Drops axes of length 1.", _squeeze_shape,
                      check=combine_checks(constant_input_check(1, "axes"), _squeeze_problem),
                      shape_inputs=(1,)),
    _reshape_operator("Unsqueeze", "Adds axes of length 1.", _unsqueeze_shape,
                      check=constant_input_check(1, "axes"), shape_inputs=(1,)),
    view_operator("Transpose", "Reorders axes.", _transpose_view,
                  attributes={"perm": any_value},
                  check=_transpose_problem, receptive_field=permuted_fields(_permutation),
                  shape_inputs=(), gradient=gradients.transpose),
    view_operator("Slice", "Selects a part of each axis, with steps or backwards.", _slice_view,
                  check=_slice_problem, receptive_field=first_input_fields(_slice_receptive_field),
                  shape_inputs=(1, 2, 3, 4), gradient=gradients.slice_rule(_slice_ranges)),
    view_operator("Expand", "Repeats axes of length 1 up to a given shape.", _expand_view,
                  check=constant_input_check(1, "shape"), receptive_field=elementwise_fields,
                  shape_inputs=(1,), gradient=gradients.expand),
    view_operator("Tile", "Repeats the whole tensor along its axes.", _tile_view, shape=_tile_shape,
                  check=constant_input_check(1, "repeats"),
                  receptive_field=first_input_fields(_tile_receptive_field), shape_inputs=(1,),
                  gradient=gradients.tile),
    Operator("DepthToSpace", "Spreads groups of channels over blocks of pixels (pixel shuffle).",
             _depth_to_space_shape, _lower_depth_to_space,
             {"blocksize": any_value, "mode": one_of("DCR", "CRD")}, _blocks_problem,
             index_map=lambda f, n, _: view_index_map(_depth_to_space_view(f, n)),
             role="resamples", receptive_field=first_input_fields(_blocks_receptive_field),
             explanation="moved", formula=None, bounds=None, caption=None, shape_inputs=(),
             gradient=gradients.space_to_depth),
    view_operator("SpaceToDepth", "Gathers blocks of pixels into channels.", _space_to_depth_view,
                  attributes={"blocksize": any_value, "mode": one_of("DCR", "CRD")},
                  shape=_space_to_depth_shape,
                  check=_blocks_problem, role="resamples",
                  receptive_field=first_input_fields(_blocks_receptive_field),
                  shape_inputs=(), gradient=gradients.depth_to_space),
]  # fmt: skip
