"""Shape inference, one node at a time by onnx; every shape is checked, as onnx has no limits."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from nbglcnn.errors import ModelError, UnsupportedModel, UnsupportedOperator
from nbglcnn.graph import PADDING_IDX, Node, attribute_values
from nbglcnn.load.draft import (
    DTYPES_CAST_TO_FLOAT32,
    FLOAT32,
    OPSET,
    FoldState,
    UnknownOutputError,
    describe_node,
    float_list_attr,
    int_attr,
)
from nbglcnn.load.passes.adaptive_pools import ADAPTIVE_POOLS, output_size, output_types
from nbglcnn.load.passes.linear_algebra import CUSTOM_DOMAIN
from nbglcnn.load.size_limits import quote_name, validate_shape

MAX_SHAPE_ELEMENTS = 4096  # elements of an integer constant passed to shape inference

# Function operators that onnx can't infer for a single node: the output is like the first input.
SAME_SHAPE_OPERATORS = {
    "GroupNormalization",
    "MeanVarianceNormalization",
    "RMSNormalization",
    "Swish",
}
RECURRENT = {"RNN", "LSTM", "GRU"}

MAX_INT32 = 2**31 - 1  # limit for integer attributes
WINDOWED = {"Conv", "ConvTranspose", "MaxPool", "AveragePool", "LpPool"}

InferredTypes = dict[str, tuple[tuple[int, ...] | None, np.dtype[Any] | None]]


def infer(node: Node, state: FoldState) -> int:
    """Infer concrete shapes and dtypes of a node's outputs; return their size in bytes."""
    adaptive = node.domain == CUSTOM_DOMAIN and node.op in ADAPTIVE_POOLS
    inferred = _infer_adaptive_pool(node, state) if adaptive else _infer_by_onnx(node, state)
    total = 0
    for name in node.outputs:
        if not name:
            continue
        shape, dtype = inferred.get(name, (None, None))
        declared = state.draft.declared_types.get(name)
        if shape is None and declared is not None:
            shape = declared[0]
        dtype = dtype or (declared[1] if declared is not None else FLOAT32)
        shape = state.draft.shapes.get(name, _drop_last_window(node, shape, state))
        if shape is None and node.op in RECURRENT:
            raise UnknownOutputError(
                f"{describe_node(node)}: recurrent layers are not supported (docs/operators.md)"
            )
        if shape is None:
            raise UnknownOutputError(
                f"{describe_node(node)}: the shape of its output {quote_name(name)} depends on "
                "the input's values, so it is unknown before the network runs"
            )
        shape = validate_shape(f"{describe_node(node)}, output {quote_name(name)}", shape)
        size = int(np.prod(shape, dtype=object)) * dtype.itemsize
        if node.op in WINDOWED and 0 in shape and all(state.shape(node.inputs[0])):
            raise ModelError(
                f"{describe_node(node)}: an input of {list(state.shape(node.inputs[0]))} is too "
                f"small for its window; the output would be empty ({list(shape)})"
            )
        total += size
        state.shapes[name] = shape
        state.dtypes[name] = FLOAT32 if dtype in DTYPES_CAST_TO_FLOAT32 else dtype
    return total


def _drop_last_window(
    node: Node, shape: tuple[int, ...] | None, state: FoldState
) -> tuple[int, ...] | None:
    """Remove the last window of a ceil_mode pool if it would start in the end padding.

    PyTorch and ONNX Runtime do so; onnx's inference doesn't: kernel 3, stride 3, padding 1 of 56
    gives 20.
    """
    if shape is None or "Pool" not in node.op or not int_attr(node, "ceil_mode", 0):
        return shape
    size = state.shape(node.inputs[0])[2:]
    strides = float_list_attr(node, "strides") or (1,) * len(size)
    pads = float_list_attr(node, "pads") or (0,) * 2 * len(size)
    fixed = [
        out - 1 if (out - 1) * stride >= extent + before else out
        for out, stride, extent, before in zip(shape[2:], strides, size, pads, strict=False)
    ]
    return (*shape[:2], *fixed)


def _infer_adaptive_pool(node: Node, state: FoldState) -> InferredTypes:
    """The shapes and dtypes of adaptive pools, which onnx doesn't have."""
    x = node.inputs[0]
    shape = (*state.shape(x)[:2], *output_size(node))
    return {
        name: (shape, dtype)
        for name, dtype in zip(node.outputs, output_types(node, state.dtype(x)), strict=True)
    }


def _infer_by_onnx(node: Node, state: FoldState) -> InferredTypes:
    from onnx import helper, numpy_helper
    from onnx.shape_inference import infer_node_outputs

    version = opset_of(node)
    schema = schema_of(node.op, node.domain, version)
    check_arity(node, schema)
    if any(name in state.sequences for name in node.inputs):
        raise UnknownOutputError(f"{describe_node(node)}: takes a sequence of tensors")
    _check_int32_attributes(node, state)
    if node.op in ("Conv", "ConvTranspose"):
        _check_groups(node, state)
    if node.op == "Split":
        _check_split(node, state)
    types, data = {}, {}
    for name in node.inputs:
        if not name:
            continue
        element = element_type(state.dtype(name))
        types[name] = helper.make_tensor_type_proto(element, state.shape(name))
        constant = state.constants.get(name)
        if constant is not None:
            limit = MAX_SHAPE_ELEMENTS if constant.dtype.kind == "i" else 64
            if constant.size <= limit:
                data[name] = numpy_helper.from_array(np.asarray(constant, order="C"))
    try:
        result = infer_node_outputs(
            schema, to_proto(node), types, data, opset_imports=[helper.make_opsetid("", version)]
        )
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ModelError(f"{describe_node(node)}: {lines[-1][:300]}") from error
    found: InferredTypes = {}
    for name, proto in result.items():
        if not proto.HasField("tensor_type"):
            raise UnsupportedOperator(f"{describe_node(node)}: its output is not a tensor")
        tensor = proto.tensor_type
        dims = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
        shape = None
        if tensor.HasField("shape") and None not in dims:
            shape = tuple(d for d in dims if d is not None)
        found[name] = shape, numpy_type(tensor.elem_type) if tensor.elem_type else None
    first = node.inputs[0] if node.inputs else ""
    if first and node.op in SAME_SHAPE_OPERATORS:
        found[node.outputs[0]] = state.shape(first), state.dtype(first)
    output_shape = state.constants.get(node.inputs[2]) if len(node.inputs) == 3 else None
    if node.op == "MaxUnpool" and output_shape is not None:
        found[node.outputs[0]] = tuple(map(int, output_shape)), state.dtype(first)
    return found


def _check_int32_attributes(node: Node, state: FoldState) -> None:
    """Raise ModelError for attributes that onnx's C++ code truncates to 32-bit indices."""
    for name, value in node.attributes.items():
        if any(
            isinstance(v, int) and not -MAX_INT32 <= v < MAX_INT32 for v in attribute_values(value)
        ):
            raise ModelError(
                f"{describe_node(node)}: attribute {name} is {list(attribute_values(value))[:8]}"
            )
    if shared := int_attr(node, "batch_dims", 0):
        ranks = [len(state.shape(name)) for name in node.inputs if name]
        if not 0 < shared < min(ranks, default=0):
            raise ModelError(
                f"{describe_node(node)}: batch_dims {shared} of inputs of ranks {ranks}"
            )
    axis = node.attributes.get("axis")
    if isinstance(axis, int) and node.inputs and node.inputs[0]:
        rank = len(state.shape(node.inputs[0])) + (node.op == "OneHot")
        if not -max(rank, 1) <= axis < max(rank, 1) + (node.op == "Flatten"):
            raise ModelError(f"{describe_node(node)}: axis {axis} of {rank} dimensions")


def _check_split(node: Node, state: FoldState) -> None:
    """Raise ModelError for a Split whose parts don't match its outputs: onnx overflows."""
    count, given = len(node.outputs), node.inputs[1] if len(node.inputs) > 1 else ""
    sizes = state.constants.get(given)
    if int_attr(node, "num_outputs", count) != count or (
        sizes is not None and sizes.shape != (count,)
    ):
        raise ModelError(f"{describe_node(node)}: its sizes don't match its {count} outputs")


def _check_groups(node: Node, state: FoldState) -> None:
    """Raise ModelError if channels don't fit a convolution's weights: onnx doesn't check."""
    x, w, group = (
        state.shape(node.inputs[0]),
        state.shape(node.inputs[1]),
        int_attr(node, "group", 1),
    )
    turned = node.op == "ConvTranspose"
    fits = len(x) == len(w) >= 2 and group >= 1 and w[0] % group == 0
    if not fits or (x[1] != w[0] if turned else x[1] != w[1] * group):
        raise ModelError(
            f"{describe_node(node)}: an input of {list(x)} with weights of {list(w)} in {group} "
            "groups"
        )
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    channels = w[1] * group if turned else w[0]
    if bias and state.shape(bias) != (channels,):
        raise ModelError(
            f"{describe_node(node)}: a bias of {list(state.shape(bias))} for {channels} channels"
        )


def opset_of(node: Node) -> int:
    """The opset that has the node's attributes: OPSET, or else the newest."""
    import onnx

    newest = onnx.defs.onnx_opset_version()
    known = schema_of(node.op, node.domain).attributes
    return OPSET if all(name in known for name in node.attributes) else newest


@functools.cache
def schema_of(op: str, domain: str = "", version: int = OPSET) -> Any:
    """Onnx's schema of an operator, from the newest opset if this one doesn't have it."""
    import onnx

    if domain:
        raise UnsupportedOperator(
            f"operator {quote_name(op)} of the domain {quote_name(domain)}: not ONNX's"
        )
    try:
        return onnx.defs.get_schema(op, version, "")
    except onnx.defs.SchemaError:
        try:
            return onnx.defs.get_schema(op, onnx.defs.onnx_opset_version(), "")
        except onnx.defs.SchemaError:
            raise UnsupportedOperator(f"{quote_name(op)} is not an ONNX operator") from None


def check_arity(node: Node, schema: Any) -> None:
    """Check the number of inputs and outputs: invalid counts can crash onnx's C++ code."""
    for what, names, least, most in (
        ("inputs", node.inputs, schema.min_input, schema.max_input),
        ("outputs", node.outputs, schema.min_output, schema.max_output),
    ):
        if not least <= len(names) <= most:
            allowed = str(least) if least == most else f"{least} to {min(most, 2**15)}"
            raise ModelError(f"{describe_node(node)}: {len(names)} {what}; expected {allowed}")
    if not all(node.inputs[: min(schema.min_input, len(schema.inputs))]):
        raise ModelError(f"{describe_node(node)}: a required input is missing")


def element_type(dtype: np.dtype[Any]) -> int:
    """The ONNX element type of a numpy dtype."""
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(dtype))


def numpy_type(element: int) -> np.dtype[Any]:
    """The numpy dtype of an ONNX element type."""
    from onnx import helper

    try:
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(element))
    except (KeyError, TypeError):
        raise ModelError(f"unknown element type {element}") from None
    if dtype.kind not in "fiub":
        raise UnsupportedModel(
            f"values of type {dtype} are not supported: nbglcnn computes in float32. Convert "
            "them (in PyTorch with .float())"
        )
    return dtype


def to_proto(node: Node) -> Any:
    """Convert a Node to an onnx.NodeProto."""
    from onnx import helper, numpy_helper

    proto = helper.make_node(node.op, node.inputs, node.outputs, name=node.name, domain=node.domain)
    types = schema_of(node.op, node.domain).attributes
    for name, value in node.attributes.items():
        if name == PADDING_IDX:
            continue
        given: Any = list(value) if isinstance(value, tuple) else value
        if isinstance(value, np.ndarray):
            given = numpy_helper.from_array(np.asarray(value, order="C"))
        kind = types[name].type.value if given == [] and name in types else None
        proto.attribute.append(helper.make_attribute(name, given, attr_type=kind))
    return proto
