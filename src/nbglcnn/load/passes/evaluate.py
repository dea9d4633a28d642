"""Evaluation of single nodes on arrays, by onnx's reference implementation."""

from __future__ import annotations

import functools
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nbglcnn.errors import ModelError, NbglcnnError, UnsupportedOperator
from nbglcnn.features.edits import replay
from nbglcnn.graph import Array, Graph, Node
from nbglcnn.load.draft import describe_node, float_list_attr, int_attr
from nbglcnn.load.passes.adaptive_pools import ADAPTIVE_POOLS, compute_pool
from nbglcnn.load.passes.infer import element_type, opset_of, to_proto
from nbglcnn.load.passes.linear_algebra import CUSTOM_DOMAIN, compute_linear_algebra
from nbglcnn.load.size_limits import quote_name, validate_shape

# Inputs that must be lists: onnx.reference doesn't accept a scalar.
FIRST_LIST_INPUT_INDEX = {
    "Squeeze": 1,
    "Unsqueeze": 1,
    "Reshape": 1,
    "Slice": 1,
    "Expand": 1,
    "Tile": 1,
}
POOL_ATTRIBUTES = (
    "auto_pad",
    "ceil_mode",
    "dilations",
    "kernel_shape",
    "pads",
    "storage_order",
    "strides",
)


def evaluate(node: Node, values: Mapping[str, Array]) -> dict[str, Array]:
    """Compute a node; return its outputs by name."""
    if node.python_fallback is not None:
        own = node.python_fallback.node
        if own is None:
            raise ModelError(f"{describe_node(node)}: only its framework can compute it")
        node = replace(own, inputs=node.inputs, outputs=node.outputs)
    inputs = [values[i] if i else None for i in node.inputs]
    try:
        results = _compute_outputs(node, inputs)
    except NbglcnnError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error)[:300]}"
        raise ModelError(
            f"{describe_node(node)}: cannot be computed from its inputs: {reason}"
        ) from error
    arrays = {}
    for name, result in zip(node.outputs, results, strict=False):
        if name:
            array = np.asarray(result)
            validate_shape(f"{describe_node(node)}, output {quote_name(name)}", array.shape)
            arrays[name] = array
    return arrays


def _compute_outputs(node: Node, inputs: Sequence[Array | None]) -> Sequence[Any]:
    if node.domain == replay.EDIT_NODE_DOMAIN and inputs[0] is not None:
        return [replay.evaluate_bend_node(node, inputs[0])]
    if node.domain == CUSTOM_DOMAIN and node.op in ADAPTIVE_POOLS and inputs[0] is not None:
        return compute_pool(node, inputs[0])
    if node.domain == CUSTOM_DOMAIN:
        return [compute_linear_algebra(node, [array for array in inputs if array is not None])]
    if node.op == "Constant":
        return [_constant(node)]
    first = inputs[0] if inputs else None
    if node.op == "ConstantOfShape" and first is not None:
        fill = np.asarray(node.attributes.get("value", np.zeros(1, np.float32))).reshape(())
        shape = validate_shape(describe_node(node), first.tolist(), itemsize=fill.dtype.itemsize)
        return [np.broadcast_to(fill, shape)]  # a view: a copy would be 400 MB for a VGG
    if node.op == "Expand" and first is not None and inputs[1] is not None:
        wanted = validate_shape(describe_node(node), inputs[1].tolist())
        shape = validate_shape(describe_node(node), np.broadcast_shapes(first.shape, wanted))
        return [np.broadcast_to(first, shape)]
    if node.op == "GatherElements" and first is not None and inputs[1] is not None:
        return [_gather_elements(first, inputs[1], int_attr(node, "axis", 0))]
    if node.op == "GatherND" and first is not None and inputs[1] is not None:
        return [_gather_nd(first, inputs[1], int_attr(node, "batch_dims", 0))]
    if node.op == "ReduceLogSumExp" and first is not None and np.isneginf(first).any():
        return [_log_sum_exp(node, first, inputs)]
    if node.op == "Pad" and first is not None and inputs[1] is not None and (inputs[1] < 0).any():
        first, pads, axes = _crop_negative_pads(
            first, inputs[1], inputs[3] if len(inputs) > 3 else None
        )
        inputs = [first, pads, *inputs[2:3], *([axes] if axes is not None else [])]
    lists = range(FIRST_LIST_INPUT_INDEX.get(node.op, len(inputs)), len(inputs))
    inputs = [
        np.atleast_1d(array)
        if array is not None and (k in lists or (node.op == "Pad" and k in (1, 3)))
        else array
        for k, array in enumerate(inputs)
    ]
    if (
        node.op == "ConvTranspose"
        and (result := _conv_transpose_by_torch(node, inputs)) is not None
    ):
        return [result]
    is_wide = first is not None and first.dtype == np.float64
    if node.op == "Conv" and is_wide and (result := _conv_by_torch(node, inputs)) is not None:
        return [result]
    if node.op == "MaxPool" and first is not None:
        node = _with_pads(node, first.shape[2:])
    from onnx.reference import ReferenceEvaluator

    implementation, proto = _load_reference_operator(node.op, opset_of(node)), to_proto(node)
    with np.errstate(all="ignore"):
        if implementation is None:
            return _by_function_body(node, inputs)
        parameters = {
            "log": lambda *_: None,
            "opsets": {"": opset_of(node)},
            "verbose": 0,
            "evaluator_cls": ReferenceEvaluator,
            "new_ops": None,
            "existing_functions": {},
        }
        runner = implementation(proto, parameters)
        if node.op == "MaxPool" and len(node.outputs) > 1:
            # Its method for stride 1 counts indices in the output's plane; `_max_pool` is always
            # right.
            settings = {name: getattr(runner, name) for name in POOL_ATTRIBUTES}
            return list(runner._max_pool(first, **settings))
        return list(runner.run(*inputs))


def _log_sum_exp(node: Node, x: Array, inputs: Sequence[Array | None]) -> Array:
    """ReduceLogSumExp of only -inf is -inf; onnx.reference returns NaN."""
    given = inputs[1].tolist() if len(inputs) > 1 and inputs[1] is not None else []
    if not given and int_attr(node, "noop_with_empty_axes", 0):
        return x
    keep = bool(int_attr(node, "keepdims", 1))
    add: Any = np.logaddexp
    axes = tuple(given) if given else None
    return np.asarray(add.reduce(x, axis=axes, keepdims=keep))


def _conv_by_torch(node: Node, inputs: Sequence[Array | None]) -> Array | None:
    """Conv by PyTorch, ten times as fast as onnx.reference; None if PyTorch can't express it."""
    import torch
    from torch.nn import functional

    x, weight, bias = (*inputs, None)[:3]
    assert x is not None and weight is not None
    rank = weight.ndim - 2
    auto_pad = node.attributes.get("auto_pad", "NOTSET")
    if auto_pad not in ("NOTSET", b"NOTSET") or not 1 <= rank <= 3:
        return None

    def integers(name: str, default: int, count: int) -> list[int]:
        return [int(n) for n in float_list_attr(node, name) or (default,) * count]

    pads = integers("pads", 0, 2 * rank)
    sides = [side for axis in reversed(range(rank)) for side in (pads[axis], pads[rank + axis])]
    run: Any = (functional.conv1d, functional.conv2d, functional.conv3d)[rank - 1]
    with torch.inference_mode():
        result: Array = run(
            functional.pad(torch.tensor(x), sides),
            torch.tensor(weight),
            None if bias is None else torch.tensor(bias),
            stride=integers("strides", 1, rank),
            dilation=integers("dilations", 1, rank),
            groups=int_attr(node, "group", 1),
        ).numpy()
    return result


def _conv_transpose_by_torch(node: Node, inputs: Sequence[Array | None]) -> Array | None:
    """ConvTranspose by PyTorch if output_padding isn't below the stride; else None.

    ONNX Runtime, onnx.reference and PyTorch's own output_padding don't support this.
    """
    import torch
    from torch.nn import functional

    x, weight, bias = (*inputs, None)[:3]
    assert x is not None and weight is not None
    rank = weight.ndim - 2

    def integers(name: str, default: int, count: int) -> list[int]:
        return [int(n) for n in float_list_attr(node, name) or (default,) * count]

    strides, extra = integers("strides", 1, rank), integers("output_padding", 0, rank)
    auto_pad = node.attributes.get("auto_pad", "NOTSET")
    if all(more < stride for more, stride in zip(extra, strides, strict=True)) or not (
        auto_pad in ("NOTSET", b"NOTSET")
        and 1 <= rank <= 3
        and not float_list_attr(node, "output_shape")
    ):
        return None
    pads = integers("pads", 0, 2 * rank)
    cut = [n for k in reversed(range(rank)) for n in (-pads[k], extra[k] - pads[rank + k])]
    runs: Any = (
        functional.conv_transpose1d,
        functional.conv_transpose2d,
        functional.conv_transpose3d,
    )
    with torch.inference_mode():
        full = runs[rank - 1](
            torch.tensor(x),
            torch.tensor(weight),
            stride=strides,
            dilation=integers("dilations", 1, rank),
            groups=int_attr(node, "group", 1),
        )
        result: Array = functional.pad(full, cut).numpy()
    return result if bias is None else result + bias.reshape(-1, *[1] * rank)


def _with_pads(node: Node, spatial: Sequence[int]) -> Node:
    """Replace auto_pad by explicit pads: onnx.reference computes negative ones in some cases.

    They occur if the kernel is smaller than the stride.
    """
    mode = node.attributes.get("auto_pad", "NOTSET")
    mode = mode.decode() if isinstance(mode, bytes) else mode
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        return node
    rank = len(spatial)
    kernel, strides, dilations = (
        [int(n) for n in float_list_attr(node, name) or (1,) * rank]
        for name in ("kernel_shape", "strides", "dilations")
    )
    totals = [
        max(0, (-(-n // s) - 1) * s + d * (k - 1) + 1 - n)
        for n, s, d, k in zip(spatial, strides, dilations, kernel, strict=True)
    ]
    less, more = [t // 2 for t in totals], [t - t // 2 for t in totals]
    pads = (*less, *more) if mode == "SAME_UPPER" else (*more, *less)
    return replace(node, attributes={**node.attributes, "auto_pad": "NOTSET", "pads": pads})


def _gather_elements(x: Array, indices: Array, axis: int) -> Array:
    """GatherElements by NumPy: onnx.reference loops for hours over an out-of-range index."""
    size = x.shape[axis]
    if indices.size and not -size <= indices.min() <= indices.max() < size:
        raise IndexError(f"indices {indices.min()} to {indices.max()} of an axis of {size}")
    return np.take_along_axis(x, indices % max(size, 1), axis)


def _gather_nd(x: Array, indices: Array, batch_dims: int) -> Array:
    """GatherND by NumPy: onnx.reference takes microseconds per row."""
    behind = (1,) * (indices.ndim - 1 - batch_dims)
    images = [
        index.reshape(*index.shape, *behind)
        for index in np.ogrid[tuple(map(slice, x.shape[:batch_dims]))]
    ]
    return np.asarray(x[(*images, *np.moveaxis(indices, -1, 0))])


def _crop_negative_pads(
    x: Array, pads: Array, axes: Array | None
) -> tuple[Array, Array, Array | None]:
    """Crop for negative pads and set these to 0: onnx.reference doesn't support them."""
    count = len(pads) // 2
    index = [slice(None)] * x.ndim
    for at, axis in enumerate(axes.tolist() if axes is not None else range(count)):
        before, after = -min(int(pads[at]), 0), -min(int(pads[count + at]), 0)
        index[axis] = slice(before, max(x.shape[axis] - after, before))
    return x[tuple(index)], np.maximum(pads, 0), axes


@functools.cache
def _load_reference_operator(op: str, version: int) -> Any:
    from onnx.reference.ops import load_op

    try:
        return load_op("", op, version)
    except Exception:
        return None


def _by_function_body(node: Node, inputs: Sequence[Array | None]) -> list[Any]:
    """Compute operators such as Gelu, which onnx defines as functions of the input types."""
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    given = {n: a for n, a in zip(node.inputs, inputs, strict=True) if a is not None}
    typed = [
        helper.make_tensor_value_info(n, element_type(a.dtype), a.shape) for n, a in given.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.outputs if name]
    graph = helper.make_graph([to_proto(node)], "node", typed, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset_of(node))])
    results = iter(ReferenceEvaluator(model).run(None, given))
    return [next(results) if name else None for name in node.outputs]


def _constant(node: Node) -> Array:
    for name, value in node.attributes.items():
        if name == "value" and isinstance(value, np.ndarray):
            return value
        if name in ("value_float", "value_floats"):
            return np.array(value, np.float32)
        if name in ("value_int", "value_ints"):
            return np.array(value, np.int64)
    kinds = ", ".join(sorted(node.attributes)) or "nothing"
    raise UnsupportedOperator(
        f"{describe_node(node)}: expected dense tensors and numbers, not {kinds[:80]}"
    )


def run_graph(
    graph: Graph, known: Mapping[str, Array], wanted: Sequence[str], *, float64: bool = False
) -> dict[str, Array]:
    """Compute the `wanted` values from the `known` ones, evaluating only the nodes needed.

    `float64`: compute in double precision.
    """
    values: dict[str, Array] = {n: v.data for n, v in graph.values.items() if v.data is not None}
    values.update(known)
    for node in nodes_to_compute(graph, values, wanted):
        if float64:
            read = {n: values[n] for n in node.inputs if n}
            values.update((n, a.astype(np.float64)) for n, a in read.items() if a.dtype.kind == "f")
        found = evaluate(node, values)
        # A Cast to float16 rounds; later nodes compute in float32, as on the device.
        values.update(
            (n, a.astype(np.float32) if a.dtype == np.float16 else a) for n, a in found.items()
        )
    return {name: values[name] for name in wanted}


def nodes_to_compute(graph: Graph, known: Container[str], wanted: Sequence[str]) -> list[Node]:
    """The nodes that compute the `wanted` values from the `known` ones, in order."""
    needed = {name for name in wanted if name not in known}
    steps = []
    for node in reversed(graph.nodes):
        if needed & set(node.outputs):
            steps.append(node)
            needed -= set(node.outputs)
            needed |= {i for i in node.inputs if i and i not in known}
    return steps[::-1]
