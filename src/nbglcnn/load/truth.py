"""What every key of a Graph should be: by PyTorch's own forward hooks, or by other engines."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from typing import Any

import numpy as np

from nbglcnn.graph import Array, Graph, Node
from nbglcnn.load.evaluate import evaluate


def torch_reference(
    model: Any, graph: Graph, arrays: Sequence[Array], names: Collection[str] | None = None
) -> dict[str, Array]:
    """What forward hooks see, with the Graph's weights; functional operators computed from it.

    `names` are the keys that are wanted, all of them by default.
    """
    import torch

    from nbglcnn.load.torch_calls import by_key, run_hooked
    from nbglcnn.load.torch_check import detached_copy, unwrapped

    twin, _ = detached_copy(unwrapped(model))
    state = twin.state_dict(keep_vars=True)
    for name, value in graph.parameters.items():
        # The Graph may have got other weights since (with_parameters).
        data = graph.values[value].data
        assert data is not None
        np.copyto(state[name].numpy(), data)
    kept = needed(graph, names)
    seen, root = run_hooked(twin, [torch.from_numpy(np.array(a)) for a in arrays], kept)
    known = by_key(graph, arrays, seen, root)
    return completed(graph, {name: known[name] for name in kept}, names)


def completed(
    graph: Graph, known: Mapping[str, Array], names: Collection[str] | None = None
) -> dict[str, Array]:
    """The wanted keys (all of them by default), those that aren't `known` computed from it."""
    wanted = [key for key in graph.keys if names is None or key.name in names]
    values = {key.value: known[key.name] for key in graph.keys if key.name in known}
    computed = run_graph(graph, values, [key.value for key in wanted if key.name not in known])
    return {k.name: _float(known.get(k.name, computed.get(k.value))) for k in wanted}


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


def run_graph(graph: Graph, known: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
    """Compute `wanted` values node by node from `known` ones, only as far back as needed."""
    values: dict[str, Array] = {n: v.data for n, v in graph.values.items() if v.data is not None}
    values.update(known)
    for node in _steps_to(graph, values, wanted):
        values.update(evaluate(node, values))
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


def _float(array: Array | None) -> Array:
    assert array is not None
    return array.astype(np.float32) if array.dtype in (np.float64, np.float16) else array
