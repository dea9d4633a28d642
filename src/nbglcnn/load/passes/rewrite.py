"""Rewriting of nodes to the target opset: old operators are upgraded, sequences resolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nbglcnn.errors import ModelError, UnsupportedModel, UnsupportedOperator
from nbglcnn.graph import Attribute, Node
from nbglcnn.load.draft import FoldState, TensorSequence, describe_node, float_list_attr, int_attr
from nbglcnn.load.passes.decompose import decompose_node
from nbglcnn.load.passes.infer import check_arity, element_type, schema_of
from nbglcnn.load.size_limits import MAX_NODES

RewriteRule = Callable[[Node, FoldState], list[Node]]
# Inputs that are shapes, for operators that loading rewrites or folds, so that they have no record.
SHAPE_INPUTS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("AffineGrid", "OneHot", "Upsample"), (1,)),
    "ConstantOfShape": (0,),
    "Range": (0, 1, 2),
}


def rewrite_node(node: Node, version: int, state: FoldState) -> list[Node]:
    """Rewrite a node to the target opset: usually one node, sometimes several or none."""
    return [
        step
        for today in _upgrade_node(node, version, state)
        for step in decompose_node(today, state)
    ]


def _upgrade_node(node: Node, version: int, state: FoldState) -> list[Node]:
    rule = ALWAYS_REWRITTEN.get(node.op)
    if rule is not None and not node.domain:
        return rule(node, state)
    for below, upgrade in UPGRADES.get(node.op, ()) if not node.domain else ():
        if version < below:
            return upgrade(node, state)
    return [node]


def _with_inputs(node: Node, inputs: tuple[str, ...], **attributes: Attribute | None) -> Node:
    """Return the node with other inputs and with attributes set, or removed if None."""
    merged = {**node.attributes, **attributes}
    kept = {n: v for n, v in merged.items() if v is not None}
    while inputs and not inputs[-1]:
        inputs = inputs[:-1]
    return replace(node, inputs=inputs, attributes=kept)


def _add_constant(
    node: Node, state: FoldState, suffix: str, data: Any, dtype: Any = np.int64
) -> str:
    return state.add_constant(f"{node.outputs[0]}.{suffix}", np.array(data, dtype))


# Sequences


def _split_to_sequence(node: Node, state: FoldState) -> list[Node]:
    check_arity(node, schema_of(node.op))
    shape = state.shape(node.inputs[0])
    split = np.array(1)
    keep = bool(int_attr(node, "keepdims", 1))
    if len(node.inputs) > 1:
        keep = True
        if node.inputs[1] not in state.constants:
            raise UnsupportedOperator(
                f"{describe_node(node)}: the sizes of its parts depend on the input"
            )
        split = state.constants[node.inputs[1]]
    axis = int_attr(node, "axis", 0)
    if not -len(shape) <= axis < len(shape):
        raise ModelError(f"{describe_node(node)}: axis {axis} of {len(shape)} dimensions")
    axis %= len(shape)
    size = shape[axis]
    if split.ndim == 0:
        if int(split) < 1:
            raise ModelError(f"{describe_node(node)}: parts of {int(split)}")
        starts = range(0, size, int(split))
        if len(starts) > MAX_NODES:  # each part would be a node
            raise UnsupportedModel(
                f"{describe_node(node)}: {len(starts):,} parts; at most {MAX_NODES:,} are supported"
            )
        bounds = [(start, min(start + int(split), size)) for start in starts]
    else:
        ends = np.cumsum(split, dtype=object).tolist()
        bounds = list(zip([0, *ends[:-1]], ends, strict=True))
        if split.min(initial=0) < 0 or not ends or ends[-1] != size:
            raise ModelError(
                f"{describe_node(node)}: parts {str(split.tolist())[:100]} of an axis of length "
                f"{size}"
            )
    state.sequences[node.outputs[0]] = TensorSequence(node.inputs[0], bounds, axis, keep)
    return []


def _sequence_at(node: Node, state: FoldState) -> list[Node]:
    check_arity(node, schema_of(node.op))
    pieces, index = state.sequences.get(node.inputs[0]), state.constants.get(node.inputs[1])
    if pieces is None or index is None:
        raise UnsupportedOperator(
            f"{describe_node(node)}: only parts of a split tensor, at a fixed index, are supported"
        )
    if not -len(pieces.bounds) <= int(index) < len(pieces.bounds):
        raise ModelError(f"{describe_node(node)}: part {int(index)} of {len(pieces.bounds)}")
    start, end = pieces.bounds[int(index)]
    out = node.outputs[0]
    axes = _add_constant(node, state, "axes", [pieces.axis])
    bounds = (
        _add_constant(node, state, "starts", [start]),
        _add_constant(node, state, "ends", [end]),
    )
    name = out if pieces.keepdims else f"{out}.piece"
    piece = replace(
        node, op="Slice", inputs=(pieces.source, *bounds, axes), outputs=(name,), attributes={}
    )
    if pieces.keepdims:
        return [piece]
    return [piece, replace(node, op="Squeeze", inputs=(name, axes), attributes={})]


# For all opsets


def _dropout(node: Node, state: FoldState) -> list[Node]:
    """Dropout is the identity in inference; its mask, if used, is all true."""
    check_arity(node, schema_of(node.op))
    if len(node.inputs) > 2 and node.inputs[2]:
        training, ratio = state.constants.get(node.inputs[2]), state.constants.get(node.inputs[1])
        if training is None or (training.any() and (ratio is None or ratio.any())):
            raise UnsupportedOperator(
                f"{describe_node(node)}: training_mode, which drops values at random, is not "
                "supported"
            )
    if len(node.outputs) > 1 and node.outputs[1]:
        state.constants[node.outputs[1]] = np.ones(state.shape(node.inputs[0]), np.bool_)
    return [
        replace(
            node, op="Identity", inputs=node.inputs[:1], outputs=node.outputs[:1], attributes={}
        )
    ]


def _cast_like(node: Node, state: FoldState) -> list[Node]:
    check_arity(node, schema_of(node.op))
    to = element_type(state.dtype(node.inputs[1]))
    return [replace(node, op="Cast", inputs=node.inputs[:1], attributes={"to": to})]


def _without_zero_bias(node: Node, state: FoldState) -> list[Node]:
    """Remove a bias of zeros, which PyTorch's exporter writes for a missing bias."""
    bias = node.inputs[2] if len(node.inputs) == 3 else ""
    data = state.constants.get(bias)
    if data is None or bias in state.derived_constants or data.any():
        return [node]
    return [replace(node, inputs=node.inputs[:2])]


ALWAYS_REWRITTEN: dict[str, RewriteRule] = {
    "SplitToSequence": _split_to_sequence,
    "SequenceAt": _sequence_at,
    "Dropout": _dropout,
    "CastLike": _cast_like,
    "Conv": _without_zero_bias,
    "ConvTranspose": _without_zero_bias,
}


# Older opsets: onnx's Changelog.md lists the changes


def _attributes_to_inputs(*moved: tuple[str, Any]) -> RewriteRule:
    """A rule for attributes that became inputs, in order."""

    def rule(node: Node, state: FoldState) -> list[Node]:
        inputs = list(node.inputs)
        for name, dtype in moved:
            value = node.attributes.get(name)
            inputs.append("" if value is None else _add_constant(node, state, name, value, dtype))
        return [_with_inputs(node, tuple(inputs), **{name: None for name, _ in moved})]

    return rule


def _slice(node: Node, state: FoldState) -> list[Node]:
    starts = float_list_attr(node, "starts")
    axes = float_list_attr(node, "axes") or tuple(range(len(starts or ())))
    return _attributes_to_inputs(("starts", np.int64), ("ends", np.int64), ("axes", np.int64))(
        _with_inputs(node, node.inputs, axes=axes), state
    )


def _clip(node: Node, state: FoldState) -> list[Node]:
    rule = _attributes_to_inputs(("min", np.float32), ("max", np.float32))
    return rule(node, state)


def _resize(node: Node, state: FoldState) -> list[Node]:
    """Upsample, and Resize before opset 11: asymmetric coordinates, nearest rounds down."""
    scales = node.inputs[1] if len(node.inputs) > 1 else ""
    if not scales:
        if float_list_attr(node, "scales") is None:
            raise ModelError(f"{describe_node(node)}: has no scales")
        scales = _add_constant(node, state, "scales", node.attributes["scales"], np.float32)
    mode = node.attributes.get("mode", "nearest")
    return [
        replace(
            node,
            op="Resize",
            inputs=(node.inputs[0], "", scales),
            attributes={
                "mode": "linear" if mode == "bilinear" else mode,
                "coordinate_transformation_mode": "asymmetric",
                "nearest_mode": "floor",
            },
        )
    ]


def _resize_11(node: Node, state: FoldState) -> list[Node]:
    """Remove empty scales and roi: since opset 18 they must be omitted."""

    def given(i: int) -> str:
        name = node.inputs[i] if len(node.inputs) > i else ""
        data = state.constants.get(name)
        return "" if data is not None and not data.size else name

    if given(2) and given(3):
        raise ModelError(f"{describe_node(node)}: has both scales and sizes")
    return [_with_inputs(node, (node.inputs[0], given(1), given(2), given(3)))]


def _split(node: Node, state: FoldState) -> list[Node]:
    if node.attributes.get("split") is not None:
        return _attributes_to_inputs(("split", np.int64))(node, state)
    if len(node.inputs) > 1 and node.inputs[1]:
        return [node]
    shape, count, axis = state.shape(node.inputs[0]), len(node.outputs), int_attr(node, "axis", 0)
    if not -len(shape) <= axis < len(shape) or not count or shape[axis] % count:
        raise ModelError(
            f"{describe_node(node)}: {list(shape)} into {count} equal parts of axis {axis}"
        )
    return [_with_inputs(node, node.inputs[:1], num_outputs=count)]


def _flat_softmax(node: Node, state: FoldState) -> list[Node]:
    """Before opset 13, all dimensions from `axis` on are flattened to one."""
    shape = state.shape(node.inputs[0])
    axis = int_attr(node, "axis", 1)
    if not -len(shape) <= axis <= len(shape):
        raise ModelError(f"{describe_node(node)}: axis {axis} of {len(shape)} dimensions")
    axis += len(shape) if axis < 0 else 0
    if axis == len(shape) - 1 or all(d == 1 for d in shape[axis + 1 :]):
        return (
            [_with_inputs(node, node.inputs, axis=min(axis, len(shape) - 1))] if shape else [node]
        )
    flat, soft, out = (f"{node.outputs[0]}.{part}" for part in ("flat", "soft", "shape"))
    back = state.add_constant(out, np.array(shape, np.int64))
    return [
        replace(node, op="Flatten", outputs=(flat,), attributes={"axis": axis}),
        replace(node, inputs=(flat,), outputs=(soft,), attributes={"axis": -1}),
        replace(node, op="Reshape", inputs=(soft, back), attributes={}),
    ]


def _batch_norm(node: Node, state: FoldState) -> list[Node]:
    if any(node.outputs[1:]):
        raise UnsupportedOperator(
            f"{describe_node(node)}: it is in training mode, since it has more than one output"
        )
    if int_attr(node, "spatial", 1) != 1:
        raise UnsupportedOperator(f"{describe_node(node)}: spatial=0")
    bare = _with_inputs(node, node.inputs, spatial=None, is_test=None, consumed_inputs=None)
    return [replace(bare, outputs=node.outputs[:1])]


def _group_norm(node: Node, state: FoldState) -> list[Node]:
    """Opset 18 has one scale and bias per group, opset 21 one per channel."""
    check_arity(node, schema_of(node.op))
    channels, groups = state.shape(node.inputs[0])[1], int_attr(node, "num_groups", 0)
    if groups < 1 or channels % groups:
        raise ModelError(f"{describe_node(node)}: {groups} groups of {channels} channels")
    inputs, steps = [node.inputs[0]], []
    for name, what in zip(node.inputs[1:], ("scale", "bias"), strict=True):
        column, wide, out = (f"{node.outputs[0]}.{what}{i}" for i in range(3))
        axes = _add_constant(node, state, f"{what}.axes", [1])
        shape = _add_constant(node, state, f"{what}.shape", [groups, channels // groups])
        flat = _add_constant(node, state, f"{what}.flat", [channels])
        steps += [
            replace(node, op="Unsqueeze", inputs=(name, axes), outputs=(column,), attributes={}),
            replace(node, op="Expand", inputs=(column, shape), outputs=(wide,), attributes={}),
            replace(node, op="Reshape", inputs=(wide, flat), outputs=(out,), attributes={}),
        ]
        inputs.append(out)
    return [*steps, _with_inputs(node, tuple(inputs))]


def _align_operand(node: Node, state: FoldState) -> list[Node]:
    """Before opset 7 the second operand is aligned at `axis`, and only if `broadcast` is set."""
    check_arity(node, schema_of(node.op))
    first, second = node.inputs
    shape, other = state.shape(first), state.shape(second)
    bare = _with_inputs(node, node.inputs, axis=None, broadcast=None, consumed_inputs=None)
    if not int_attr(node, "broadcast", 0):
        if shape != other:
            raise ModelError(
                f"{describe_node(node)}: {list(shape)} and {list(other)} without broadcast"
            )
        return [bare]
    axis = int_attr(node, "axis", len(shape) - len(other))
    axis += len(shape) if axis < 0 else 0
    behind = len(shape) - axis - len(other)
    if axis < 0 or behind < 0:
        raise ModelError(f"{describe_node(node)}: {list(other)} at axis {axis} of {list(shape)}")
    if not behind:
        return [bare]
    name = f"{node.outputs[0]}.aligned"
    wanted = _add_constant(node, state, "shape", (*other, *[1] * behind))
    aligned = replace(node, op="Reshape", inputs=(second, wanted), outputs=(name,), attributes={})
    return [aligned, replace(bare, inputs=(first, name))]


def _prelu(node: Node, state: FoldState) -> list[Node]:
    """Before opset 7 a vector of slopes has one slope per channel."""
    check_arity(node, schema_of(node.op))
    (x, slope), name = node.inputs, f"{node.outputs[0]}.slope"
    rank, found = len(state.shape(x)), state.shape(slope)
    if len(found) != 1 or found == (1,) or rank < 3:
        return [node]
    shape = _add_constant(node, state, "shape", (*found, *[1] * (rank - 2)))
    column = replace(node, op="Reshape", inputs=(slope, shape), outputs=(name,), attributes={})
    return [column, _with_inputs(node, (x, name))]


def _drop_attributes(*names: str) -> RewriteRule:
    """A rule that removes attributes without effect in inference."""
    return lambda node, state: [_with_inputs(node, node.inputs, **dict.fromkeys(names))]


def _top_k(node: Node, state: FoldState) -> list[Node]:
    k = _add_constant(node, state, "k", [int_attr(node, "k", 1)])
    return [_with_inputs(node, (*node.inputs, k), k=None)]


def _rename(op: str) -> RewriteRule:
    return lambda node, state: [replace(node, op=op)]


def _set_defaults(**attributes: Attribute) -> RewriteRule:
    """A rule for attributes whose default changed."""
    return lambda node, state: [
        _with_inputs(node, node.inputs, **{**attributes, **node.attributes})
    ]


def _grid_sample(node: Node, state: FoldState) -> list[Node]:
    names = {"bilinear": "linear", "bicubic": "cubic"}
    mode = node.attributes.get("mode", "bilinear")
    return [
        _with_inputs(
            node, node.inputs, mode=names.get(mode, mode) if isinstance(mode, str) else mode
        )
    ]


def _fourier(node: Node, state: FoldState) -> list[Node]:
    """Before opset 20 the axis is an attribute; the default is 1, the first after the batch."""
    length = node.inputs[1] if len(node.inputs) > 1 else ""
    axis = _add_constant(node, state, "axis", int_attr(node, "axis", 1))
    return [_with_inputs(node, (node.inputs[0], length, axis), axis=None)]


_AXES_TO_INPUT = _attributes_to_inputs(("axes", np.int64))
_REDUCE_SUFFIXES = ["Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"]

# Per operator: (opset before which the rule applies, rule), oldest first.
UPGRADES: dict[str, tuple[tuple[int, RewriteRule], ...]] = {
    **dict.fromkeys(
        ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor"), ((7, _align_operand),)
    ),
    **dict.fromkeys(("Equal", "Less", "Greater"), ((7, _align_operand),)),
    "BatchNormalization": ((14, _batch_norm),),
    "Clip": ((11, _clip),),
    "DFT": ((20, _fourier),),
    "Gemm": ((7, _drop_attributes("broadcast")),),
    "GridSample": ((20, _grid_sample),),
    "GroupNormalization": ((21, _group_norm),),
    "Hardmax": ((13, _flat_softmax),),
    "LogSoftmax": ((13, _flat_softmax),),
    "PRelu": ((7, _prelu),),
    "Pad": ((11, _attributes_to_inputs(("pads", np.int64), ("value", np.float32))),),
    "Resize": ((11, _resize), (18, _resize_11)),
    "RoiAlign": ((16, _set_defaults(coordinate_transformation_mode="output_half_pixel")),),
    "Scatter": ((99, _rename("ScatterElements")),),
    "Slice": ((10, _slice),),
    "Softmax": ((13, _flat_softmax),),
    "Split": ((18, _split),),
    "Squeeze": ((13, _AXES_TO_INPUT),),
    "TopK": ((10, _top_k),),
    "Unsqueeze": ((13, _AXES_TO_INPUT),),
    "Upsample": ((99, _resize),),
    "ReduceSum": ((13, _AXES_TO_INPUT),),
    **{f"Reduce{name}": ((18, _AXES_TO_INPUT),) for name in _REDUCE_SUFFIXES},
}
