"""Constant folding and shapes in one walk: what is known at load time leaves the graph."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nbglcnn.errors import ModelError, NbglcnnError, UnsupportedModel, UnsupportedOperator
from nbglcnn.graph import Array, Attribute, Node, Value
from nbglcnn.load.bounds import MAX_FOLDED_BYTES, checked_shape, shown
from nbglcnn.load.draft import OPSET, Draft

RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
RANDOM |= {"Bernoulli", "Multinomial"}
FLOAT32 = np.dtype(np.float32)
WIDE = {np.dtype(np.float64), np.dtype(np.float16)}  # computed as float32
MAX_INFERRED_DATA = 1 << 16  # elements of a constant that shape inference may look at


@dataclass(slots=True)
class Simplified:
    """What is left of a Draft: run-time nodes, each with its place in it, and all values known."""

    nodes: list[tuple[int, Node]] = field(default_factory=list)
    folded: list[Node] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: dict[str, np.dtype[Any]] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)

    def resolve(self, name: str) -> str:
        """The value that `name` is another name of."""
        return self.aliases.get(name, name)

    def value(self, name: str) -> Value:
        """The Value record of a resolved name."""
        data = self.constants.get(name)
        if data is not None:
            return Value(name, data.shape, data.dtype, data)
        return Value(name, self.shapes[name], self.dtypes[name])


def label(node: Node) -> str:
    """A node as messages name it: its operator and the module or node name."""
    where = f"in module {shown(node.module)}" if node.module else f"node {shown(node.name)}"
    return f"{node.op[:80]} ({where})"


def _integer(node: Node, name: str, default: int) -> int:
    value = node.attributes.get(name, default)
    if not isinstance(value, int):
        raise ModelError(
            f"{label(node)}: attribute {name} is {type(value).__name__}, not an integer"
        )
    return value


def simplify(draft: Draft) -> Simplified:
    """Fold, drop what only renames, and give every value a concrete shape."""
    state = Simplified(constants=dict(draft.constants))
    for name, (shape, dtype) in draft.inputs.items():
        state.shapes[name], state.dtypes[name] = shape, dtype
    from_parameter = set(draft.parameters.values())
    sequences: dict[str, tuple[str, list[tuple[int, int]], int, bool]] = {}
    for position, original in enumerate(draft.nodes):
        node = replace(original, inputs=tuple(state.resolve(i) for i in original.inputs))
        for name in node.inputs:
            if name and name not in state.constants and name not in state.shapes:
                if name in sequences:
                    continue
                raise ModelError(f"{label(node)}: input {shown(name)} is not produced by anything")
        if node.op == "SplitToSequence":
            sequences[node.outputs[0]] = _sequence(node, state)
            continue
        for step in _sequence_at(node, sequences, state) if node.op == "SequenceAt" else [node]:
            _one(step, position, state, draft, from_parameter)
    _drop_unused(state, [state.resolve(v) for v in (*draft.outputs, *draft.keep)])
    return state


def _one(
    node: Node, position: int, state: Simplified, draft: Draft, from_parameter: set[str]
) -> None:
    if node.op == "CastLike" and node.inputs[0] in state.constants:
        like = _element(_dtype(node.inputs[1], state))
        node = replace(node, op="Cast", inputs=node.inputs[:1], attributes={"to": like})
    same = _alias(node, state)
    if same is not None:
        state.aliases[node.outputs[0]] = same
        return
    if node.op in ("Shape", "Size") and node.inputs[0]:
        state.constants[node.outputs[0]] = _shape_of(node, state)
        return
    constant = all(not i or i in state.constants for i in node.inputs)
    if constant and node.op not in RANDOM:
        if node.op not in ("Constant", "ConstantOfShape", "Expand"):
            _infer(node, state, draft, limit=MAX_FOLDED_BYTES)
        results = evaluate(node, state.constants)
        state.constants.update(results)
        if any(i in from_parameter for i in node.inputs):
            from_parameter.update(results)
            state.folded.append(node)
        return
    if node.op in ("Conv", "ConvTranspose") and len(node.inputs) == 3 and node.inputs[2]:
        bias = state.constants.get(node.inputs[2])
        if bias is not None and node.inputs[2] not in from_parameter and not bias.any():
            node = replace(node, inputs=node.inputs[:2])  # PyTorch's exporter writes bias=None so
    _infer(node, state, draft)
    state.nodes.append((position, node))


def _alias(node: Node, state: Simplified) -> str | None:
    """The input that the node's output equals, whatever the numbers are."""
    first = node.inputs[0] if node.inputs else ""
    if node.op == "Identity" and first:
        return first
    if node.op == "Dropout" and len(node.inputs) < 3 and first:
        return first
    if node.op in ("Cast", "CastLike") and first:
        found = _dtype(first, state)
        if node.op == "Cast":
            wanted = _onnx_dtype(_integer(node, "to", 1))
        else:
            wanted = _dtype(node.inputs[1], state)
        both_float = {found, wanted} <= WIDE | {FLOAT32}
        return first if found == wanted or both_float else None
    if node.op in ("Concat", "Sum", "Max", "Min", "Mean") and len(node.inputs) == 1:
        return first
    return None


def _dtype(name: str, state: Simplified) -> np.dtype[Any]:
    data = state.constants.get(name)
    return state.dtypes[name] if data is None else data.dtype


def _shape(name: str, state: Simplified) -> tuple[int, ...]:
    data = state.constants.get(name)
    return state.shapes[name] if data is None else data.shape


def _shape_of(node: Node, state: Simplified) -> Array:
    shape = _shape(node.inputs[0], state)
    if node.op == "Size":
        return np.array(np.prod(shape, dtype=np.int64))
    start, end = _integer(node, "start", 0), _integer(node, "end", len(shape))
    return np.array(shape[start:end], np.int64)


def _sequence(node: Node, state: Simplified) -> tuple[str, list[tuple[int, int]], int, bool]:
    """SplitToSequence as the pieces' (start, end) along its axis."""
    shape = _shape(node.inputs[0], state)
    axis = _integer(node, "axis", 0) % max(len(shape), 1)
    split = state.constants.get(node.inputs[1]) if len(node.inputs) > 1 else np.int64(1)
    if split is None or not shape:
        raise UnsupportedOperator(f"{label(node)}: the sizes of the pieces depend on the input")
    keep = bool(node.attributes.get("keepdims", 1)) or len(node.inputs) > 1
    sizes = np.asarray(split)
    if sizes.ndim == 0:
        step = int(sizes)
        if step < 1:
            raise ModelError(f"{label(node)}: pieces of {step}")
        starts = range(0, shape[axis], step)
        return node.inputs[0], [(s, min(s + step, shape[axis])) for s in starts], axis, keep
    ends = np.cumsum(sizes, dtype=object).tolist()
    pieces = list(zip([0, *ends[:-1]], ends, strict=True))
    if min(sizes, default=0) < 0 or (ends and ends[-1] != shape[axis]):
        raise ModelError(f"{label(node)}: pieces {sizes.tolist()} of an axis of {shape[axis]}")
    return node.inputs[0], pieces, axis, keep


def _sequence_at(
    node: Node,
    sequences: Mapping[str, tuple[str, list[tuple[int, int]], int, bool]],
    state: Simplified,
) -> list[Node]:
    """One piece of a split tensor as a Slice (and Squeeze): no sequence is left at run time."""
    index = state.constants.get(node.inputs[1])
    if node.inputs[0] not in sequences or index is None:
        raise UnsupportedOperator(f"{label(node)}: only pieces of a split tensor, by a fixed index")
    source, pieces, axis, keep = sequences[node.inputs[0]]
    if not -len(pieces) <= int(index) < len(pieces):
        raise ModelError(f"{label(node)}: piece {int(index)} of {len(pieces)}")
    start, end = pieces[int(index)]
    out = node.outputs[0]
    names = tuple(f"{out}.{part}" for part in ("starts", "ends", "axes"))
    for name, number in zip(names, (start, end, axis), strict=True):
        state.constants[name] = np.array([number], np.int64)
    piece = out if keep else f"{out}.piece"
    steps = [replace(node, op="Slice", inputs=(source, *names), outputs=(piece,), attributes={})]
    if not keep:
        steps.append(replace(node, op="Squeeze", inputs=(piece, names[2]), attributes={}))
    return steps


def _infer(node: Node, state: Simplified, draft: Draft, *, limit: int | None = None) -> None:
    """Concrete shapes and types of a node's outputs, by onnx's rule for this one operator."""
    inferred = _onnx_shapes(node, state)
    for name in node.outputs:
        if not name:
            continue
        shape, dtype = inferred.get(name, (None, None))
        if shape is None and name in draft.declared:
            shape = draft.declared[name][0]
        if dtype is None:
            dtype = draft.declared[name][1] if name in draft.declared else FLOAT32
        shape = draft.shapes.get(name, _ceil_pool(node, shape, state))
        if shape is None:
            raise UnsupportedOperator(
                f"{label(node)}: the shape of its output {shown(name)} cannot be told before "
                "it runs (it depends on the input's numbers, or the operator is unknown)"
            )
        checked_shape(f"{label(node)}, output {shown(name)}", shape)
        if limit is not None and int(np.prod(shape, dtype=object)) * dtype.itemsize > limit:
            raise UnsupportedModel(
                f"{label(node)}: its constant output {shown(name)} of shape {list(shape)} is over "
                f"the {limit:,} bytes that are computed while loading"
            )
        state.shapes[name], state.dtypes[name] = shape, FLOAT32 if dtype in WIDE else dtype


def _ceil_pool(
    node: Node, shape: tuple[int, ...] | None, state: Simplified
) -> tuple[int, ...] | None:
    """Drop the last window of a ceil_mode pool that would start in the end padding.

    PyTorch and ONNX Runtime do; onnx's inference counts it: 3, stride 3, padding 1 of 56 gives 20.
    """
    if shape is None or not node.attributes.get("ceil_mode") or "Pool" not in node.op:
        return shape
    size = _shape(node.inputs[0], state)[2:]
    strides = node.attributes.get("strides") or (1,) * len(size)
    pads = node.attributes.get("pads") or (0,) * 2 * len(size)
    fixed = [
        out - 1 if (out - 1) * stride >= extent + before else out
        for out, stride, extent, before in zip(shape[2:], strides, size, pads, strict=False)  # type: ignore[arg-type]
    ]
    return (*shape[:2], *fixed)


def _onnx_shapes(
    node: Node, state: Simplified
) -> dict[str, tuple[tuple[int, ...] | None, np.dtype[Any] | None]]:
    import onnx
    from onnx import helper, numpy_helper
    from onnx.shape_inference import infer_node_outputs

    schema = _schema(node.op, node.domain)
    types, data = {}, {}
    for name in node.inputs:
        if not name:
            continue
        constant = state.constants.get(name)
        element = _element(_dtype(name, state))
        types[name] = helper.make_tensor_type_proto(element, _shape(name, state))
        if constant is not None and constant.dtype == np.int64 and constant.size < 4096:
            data[name] = numpy_helper.from_array(constant)
        elif constant is not None and node.op == "Resize" and constant.size < 64:
            data[name] = numpy_helper.from_array(np.ascontiguousarray(constant))
    _check_arity(node, schema)
    try:
        result = infer_node_outputs(
            schema,
            to_proto(node),
            types,
            data,
            opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        )
    except Exception as error:
        reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
        raise ModelError(f"{label(node)}: {reason[:300]}") from error
    found: dict[str, tuple[tuple[int, ...] | None, np.dtype[Any] | None]] = {}
    for name, proto in result.items():
        if not proto.HasField("tensor_type"):
            raise UnsupportedOperator(f"{label(node)}: gives something that is not a tensor")
        tensor = proto.tensor_type
        dims = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
        shape = None
        if tensor.HasField("shape") and None not in dims:
            shape = tuple(d for d in dims if d is not None)
        dtype = _onnx_dtype(tensor.elem_type) if tensor.elem_type else None
        found[name] = shape, dtype
    return found


@functools.cache
def _schema(op: str, domain: str) -> Any:
    import onnx

    if domain not in ("", "ai.onnx"):
        raise UnsupportedOperator(f"operator {shown(op)} of domain {shown(domain)} is not known")
    try:
        return onnx.defs.get_schema(op, OPSET, "")
    except onnx.defs.SchemaError:
        try:
            return onnx.defs.get_schema(op)  # an operator newer than the opset that is lowered
        except onnx.defs.SchemaError:
            raise UnsupportedOperator(f"operator {shown(op)} is not an ONNX operator") from None


def _check_arity(node: Node, schema: Any) -> None:
    """Refuse what onnx's C++ code trusts (an Upsample without inputs once ended the process)."""
    if not schema.min_input <= len(node.inputs) <= schema.max_input:
        raise ModelError(
            f"{label(node)}: {len(node.inputs)} inputs; it takes {schema.min_input} to "
            f"{schema.max_input}"
        )
    if not schema.min_output <= len(node.outputs) <= schema.max_output:
        raise ModelError(f"{label(node)}: {len(node.outputs)} outputs")
    for needed in range(schema.min_input):
        if (
            not node.inputs[needed]
            and not schema.inputs[min(needed, len(schema.inputs) - 1)].option
        ):
            continue


def _element(dtype: np.dtype[Any]) -> int:
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(dtype))


def _onnx_dtype(element: int) -> np.dtype[Any]:
    from onnx import helper

    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(element))
    except KeyError:
        raise ModelError(f"unknown element type {element}") from None


def to_proto(node: Node) -> Any:
    """The node as an onnx.NodeProto."""
    from onnx import helper, numpy_helper

    proto = helper.make_node(node.op, node.inputs, node.outputs, name=node.name, domain=node.domain)
    types = _schema(node.op, node.domain).attributes
    for name, value in node.attributes.items():
        given: Any = list(value) if isinstance(value, tuple) else value
        if isinstance(value, np.ndarray):
            given = numpy_helper.from_array(value)
        kind = types[name].type.value if given == [] and name in types else None
        proto.attribute.append(helper.make_attribute(name, given, attr_type=kind))
    return proto


def evaluate(node: Node, values: Mapping[str, Array]) -> dict[str, Array]:
    """Compute one node from arrays, by onnx's reference implementation of its operator."""
    inputs = [values[i] if i else None for i in node.inputs]
    if node.op == "ConstantOfShape" and inputs[0] is not None:
        fill = np.asarray(node.attributes.get("value", np.zeros(1, np.float32))).reshape(())
        shape = checked_shape(label(node), inputs[0].tolist(), itemsize=fill.dtype.itemsize)
        return {node.outputs[0]: np.broadcast_to(_narrow(fill), shape)}  # 400 MB in a VGG: no copy
    if node.op == "Expand" and inputs[0] is not None and inputs[1] is not None:
        wanted = checked_shape(label(node), inputs[1].tolist())
        try:
            shape = np.broadcast_shapes(inputs[0].shape, wanted)
        except ValueError as error:
            raise ModelError(f"{label(node)}: {error}") from None
        checked_shape(label(node), shape)
        return {node.outputs[0]: np.broadcast_to(inputs[0], shape)}
    try:
        results = _run_reference(node, inputs)
    except NbglcnnError:
        raise
    except Exception as error:
        raise ModelError(
            f"{label(node)}: cannot be computed from its constants: {error}"
        ) from error
    arrays = {}
    for name, result in zip(node.outputs, results, strict=False):
        if not name:
            continue
        array = np.asarray(result)
        checked_shape(f"{label(node)}, output {shown(name)}", array.shape)
        arrays[name] = _narrow(array)
    return arrays


def _narrow(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype in WIDE else array


def _run_reference(node: Node, inputs: Sequence[Array | None]) -> Sequence[Any]:
    from onnx.reference import ReferenceEvaluator

    if node.op == "Constant":
        return [_constant(node)]
    implementation = _implementation(node.op)
    proto = to_proto(node)
    if implementation is None:
        arrays = {n: a for n, a in zip(node.inputs, inputs, strict=True) if a is not None}
        return list(ReferenceEvaluator(proto).run(None, arrays))
    parameters = {
        "log": lambda *_: None,
        "opsets": {"": OPSET},
        "verbose": 0,
        "evaluator_cls": ReferenceEvaluator,
        "new_ops": None,
        "existing_functions": {},
    }
    with np.errstate(all="ignore"):
        return list(implementation(proto, parameters).run(*inputs))


@functools.cache
def _implementation(op: str) -> Any:
    from onnx.reference.ops import load_op

    try:
        return load_op("", op, OPSET)
    except Exception:
        return None


def _constant(node: Node) -> Array:
    for name, dtype in (("value_float", np.float32), ("value_floats", np.float32)):
        if name in node.attributes:
            return np.array(node.attributes[name], dtype)
    for name in ("value_int", "value_ints"):
        if name in node.attributes:
            return np.array(node.attributes[name], np.int64)
    value: Attribute | None = node.attributes.get("value")
    if not isinstance(value, np.ndarray):
        raise UnsupportedOperator(
            f"{label(node)}: only tensors and numbers, not {sorted(node.attributes)}"
        )
    return value


def _drop_unused(state: Simplified, needed: Sequence[str]) -> None:
    """Remove nodes that nothing reads."""
    live = set(needed)
    kept = []
    for position, node in reversed(state.nodes):
        if any(out in live for out in node.outputs):
            live.update(i for i in node.inputs if i)
            kept.append((position, node))
    state.nodes = kept[::-1]
    folded = []
    for node in reversed(state.folded):
        if any(out in live for out in node.outputs):
            live.update(i for i in node.inputs if i)
            folded.append(node)
    state.folded = folded[::-1]
