"""What every key of a Graph should be: by PyTorch's own forward hooks, or by other engines."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Container, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from nbglcnn.errors import NbglcnnError
from nbglcnn.graph import Array, Graph, Node
from nbglcnn.load.evaluate import evaluate

EXACT_MACS = 10**10  # some ten seconds


def torch_reference(
    model: Any, graph: Graph, arrays: Sequence[Array], names: Collection[str] | None = None
) -> dict[str, Array]:
    """What forward hooks see, with the Graph's weights; functional operators computed from it.

    `names` are the keys that are wanted, all of them by default.
    """
    known = _seen(model, graph, arrays, names, np.float32)
    return completed(graph, known, names)


def exact_reference(
    model: Any, graph: Graph, arrays: Sequence[Array], names: Collection[str]
) -> dict[str, Array]:
    """The same in double precision; nothing where the model cannot be run so."""
    try:
        wide = [_as(a, np.float64) for a in arrays]
        known = _seen(model, graph, wide, names, np.float64)
        return _values(graph, known, names, np.float64)
    except Exception:  # the model's own code runs here, on types that it may not expect
        return {}


def exactly(graph: Graph, arrays: Sequence[Array], names: Collection[str]) -> dict[str, Array]:
    """A Graph's wanted keys in double precision, out of its inputs alone; nothing where it fails.

    Networks of more than EXACT_MACS are left alone: onnx.reference would take minutes.
    """
    wanted = {key.name: key.value for key in graph.keys if key.name in names}
    given = {name: _as(a, np.float64) for name, a in zip(graph.inputs, arrays, strict=True)}
    if sum(_macs(graph, node) for node in graph.nodes) > EXACT_MACS:
        return {}
    try:
        found = run_graph(graph, given, list(wanted.values()), wide=True)
    except NbglcnnError:  # onnx.reference lacks the operator for these types
        return {}
    return {name: found[value] for name, value in wanted.items()}


def _macs(graph: Graph, node: Node) -> int:
    """Multiply-adds of a convolution; what else there is takes numpy no time beside them."""
    if not node.op.startswith("Conv"):
        return 0
    filters = graph.shape(node.inputs[1])
    return prod(graph.shape(node.outputs[0])) * prod(filters) // max(1, filters[0])


def _seen(
    model: Any,
    graph: Graph,
    arrays: Sequence[Array],
    names: Collection[str] | None,
    dtype: type[np.floating[Any]],
) -> dict[str, Array]:
    """What hooks see of the keys that the wanted ones follow from."""
    import torch

    from nbglcnn.load.torch_calls import by_key, run_hooked
    from nbglcnn.load.torch_check import detached_copy, unwrapped
    from nbglcnn.load.torch_double import doubled
    from nbglcnn.load.torch_module import AUTOCAST

    twin, _ = detached_copy(unwrapped(model))  # the state that the user gave
    state = twin.state_dict(keep_vars=True)
    for name, value in graph.parameters.items():
        # The Graph may have got other weights since (with_parameters).
        data = graph.values[value].data
        assert data is not None
        np.copyto(state[name].numpy(), data)
    kept = needed(graph, names)
    tensors = [torch.from_numpy(np.array(a)) for a in arrays]
    with doubled(twin) if dtype is np.float64 else contextlib.nullcontext():
        seen = run_hooked(twin, tensors, kept, float32=AUTOCAST in graph.notes)
    known = by_key(graph, arrays, seen.arrays, seen.root)
    return {name: known[name] for name in kept}


def completed(
    graph: Graph, known: Mapping[str, Array], names: Collection[str] | None = None
) -> dict[str, Array]:
    """The wanted keys (all of them by default), those that aren't `known` computed from it."""
    return _values(graph, known, names, np.float32)


def _values(
    graph: Graph,
    known: Mapping[str, Array],
    names: Collection[str] | None,
    dtype: type[np.floating[Any]],
) -> dict[str, Array]:
    wanted = [key for key in graph.keys if names is None or key.name in names]
    values = {key.value: known[key.name] for key in graph.keys if key.name in known}
    missing = [key.value for key in wanted if key.name not in known]
    computed = run_graph(graph, values, missing, wide=dtype is np.float64)
    found = {k.name: known.get(k.name, computed.get(k.value)) for k in wanted}
    return {name: _as(array, dtype) for name, array in found.items() if array is not None}


def needed(graph: Graph, names: Collection[str] | None = None) -> set[str]:
    """Keys of inputs, outputs and module calls that `completed` needs for the wanted ones."""
    wanted = [key.value for key in graph.keys if names is None or key.name in names]
    seen = {key.value for key in graph.keys if key.kind in ("input", "output") or key.module_type}
    constant = {name for name, value in graph.values.items() if value.data is not None}
    steps = _steps_to(graph, seen | constant, wanted)
    read = {*wanted, *(name for node in steps for name in node.inputs)}
    ends = {key.name for key in graph.keys if key.kind in ("input", "output")}
    return ends | {key.name for key in graph.keys if key.module_type and key.value in read}


def onnx_reference(
    model: Any, graph: Graph, arrays: Sequence[Array], names: Collection[str] | None = None
) -> dict[str, Array]:
    """The wanted keys (all of them by default), by ONNX Runtime from the file itself.

    What that doesn't give is computed by onnx.reference.
    """
    return completed(graph, _by_runtime(model, graph, arrays, names), names)


def runtime_reference(
    model: Any, graph: Graph, arrays: Sequence[Array], names: Collection[str]
) -> dict[str, Array] | None:
    """The same if ONNX Runtime gives all of it: onnx.reference takes seconds a large network."""
    found = _by_runtime(model, graph, arrays, names)
    values = {key.value for key in graph.keys if key.name in found}
    if any(key.value not in values for key in graph.keys if key.name in names):
        return None
    return completed(graph, found, names)


def _by_runtime(
    model: Any, graph: Graph, arrays: Sequence[Array], names: Collection[str] | None
) -> dict[str, Array]:
    """Inputs, and what ONNX Runtime gives for wanted keys of the file, with the Graph's weights."""
    keys = [key for key in graph.keys if names is None or key.name in names]
    inputs = dict(zip(graph.inputs, arrays, strict=True))
    known = {key.name: inputs[key.value] for key in graph.keys if key.kind == "input"}
    if graph.notes:
        return known
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError:
        return known
    import onnx
    from onnx import numpy_helper

    from nbglcnn.load.onnx_file import read_model, tensor_array

    source, _, folder = read_model(model)
    proto = onnx.ModelProto()
    proto.CopyFrom(source)
    constants = {t.name: t for t in proto.graph.initializer}
    for node in proto.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                constants[node.output[0]] = attribute.t
    for name, tensor in constants.items():
        value = graph.parameters.get(name)
        data = graph.values[value].data if value else tensor_array(tensor, name, folder)
        if value or tensor.data_location == tensor.EXTERNAL:
            tensor.CopyFrom(numpy_helper.from_array(np.asarray(data, order="C"), name))
    outputs = {output.name for output in proto.graph.output}
    made = {name for node in proto.graph.node for name in node.output}
    for key in keys:
        if key.name in made - outputs:
            proto.graph.output.append(onnx.ValueInfoProto(name=key.name))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        of = [output.name for output in session.get_outputs()]
        found = session.run(None, {name: np.asarray(array) for name, array in inputs.items()})
    except Exception:  # an operator set that is newer than the runtime's, or a type it lacks
        return known
    given = dict(zip(of, found, strict=True))
    for key in keys:
        if key.name in given and given[key.name].shape == graph.shape(key.value):
            known.setdefault(key.name, given[key.name])
    return known


def run_graph(
    graph: Graph, known: Mapping[str, Array], wanted: Sequence[str], *, wide: bool = False
) -> dict[str, Array]:
    """Compute `wanted` values node by node from `known` ones, only as far back as needed.

    `wide`: in double precision.
    """
    values: dict[str, Array] = {n: v.data for n, v in graph.values.items() if v.data is not None}
    values.update(known)
    for node in _steps_to(graph, values, wanted):
        if wide:
            values.update({n: _as(values[n], np.float64) for n in node.inputs if n})
        found = evaluate(node, values)
        # Rounded by a Cast to float16; computed with in float32, as on the device.
        values.update(
            (n, a.astype(np.float32) if a.dtype == np.float16 else a) for n, a in found.items()
        )
    return {name: values[name] for name in wanted}


def _steps_to(graph: Graph, known: Container[str], wanted: Sequence[str]) -> list[Node]:
    """The nodes that give `wanted` values out of `known` ones, in order."""
    needed = {name for name in wanted if name not in known}
    steps = []
    for node in reversed(graph.nodes):
        if needed & set(node.outputs):
            steps.append(node)
            needed -= set(node.outputs)
            needed |= {i for i in node.inputs if i and i not in known}
    return steps[::-1]


def _as(array: Array, dtype: type[np.floating[Any]]) -> Array:
    """The array, in this precision where its numbers aren't integers."""
    return array.astype(dtype, copy=False) if array.dtype.kind == "f" else array
