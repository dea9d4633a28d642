"""What every key of a Graph should be: by PyTorch's own forward hooks, or by other engines."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from typing import Any

import numpy as np

from nbglcnn.graph import Array, Graph, Node
from nbglcnn.load.evaluate import evaluate
from nbglcnn.load.names import walk


def torch_reference(
    model: Any, graph: Graph, arrays: Sequence[Array], names: Collection[str] | None = None
) -> dict[str, Array]:
    """What forward hooks see, with the Graph's weights; functional operators computed from it.

    `names` are the keys that are wanted, all of them by default.
    """
    import torch

    from nbglcnn.load.torch_calls import run_hooked
    from nbglcnn.load.torch_check import detached_copy, unwrapped

    twin, _ = detached_copy(unwrapped(model))
    state = twin.state_dict(keep_vars=True)
    for name, value in graph.parameters.items():
        # The Graph may have got other weights since (with_parameters).
        data = graph.values[value].data
        assert data is not None
        np.copyto(state[name].numpy(), data)
    wanted = [key for key in graph.keys if names is None or key.name in names]
    kept = _seen_for(graph, [key.value for key in wanted])
    seen, root = run_hooked(twin, [torch.from_numpy(np.array(a)) for a in arrays], kept)
    hooks = {c.name + s: seen[i] for c in walk(root) if c is not root for s, i in c.outputs}
    outputs = iter([seen[index] for _, index in root.outputs])
    inputs = iter(arrays)
    found: dict[str, Array] = {}
    known: dict[str, Array] = {}
    for key in graph.keys:
        if key.kind == "input":
            found[key.name] = next(inputs)
        elif key.kind == "output":
            found[key.name] = next(outputs)
        elif key.name in kept:
            found[key.name] = hooks[key.name]
        else:
            continue
        known[key.value] = found[key.name]
    rest = [key.value for key in wanted if key.name not in found]
    computed = run_graph(graph, known, rest)
    return {k.name: _float(found.get(k.name, computed.get(k.value))) for k in wanted}


def _seen_for(graph: Graph, wanted: Sequence[str]) -> set[str]:
    """Keys of the modules whose values are wanted, or needed to compute what no hook sees."""
    seen = {key.value for key in graph.keys if key.kind in ("input", "output") or key.module_type}
    constant = {name for name, value in graph.values.items() if value.data is not None}
    steps = _steps_to(graph, seen | constant, wanted)
    read = {*wanted, *(name for node in steps for name in node.inputs)}
    return {key.name for key in graph.keys if key.module_type and key.value in read}


def onnx_reference(model: Any, graph: Graph, arrays: Sequence[Array]) -> dict[str, Array]:
    """All keys, by ONNX Runtime from the file itself; by onnx.reference what that doesn't give."""
    known = dict(zip(graph.inputs, arrays, strict=True))
    given = {} if graph.notes else _by_runtime(model, graph, arrays)
    for key in graph.keys:
        if key.name in given and given[key.name].shape == graph.shape(key.value):
            known.setdefault(key.value, given[key.name])
    computed = run_graph(graph, known, [key.value for key in graph.keys])
    return {k.name: _float(computed[k.value]) for k in graph.keys}


def _by_runtime(model: Any, graph: Graph, arrays: Sequence[Array]) -> dict[str, Array]:
    """What ONNX Runtime gives for every value of the file, with the Graph's weights."""
    try:
        import onnxruntime  # type: ignore[import-untyped]
    except ImportError:
        return {}
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
    for key in graph.keys:
        if key.name in made - outputs:
            proto.graph.output.append(onnx.ValueInfoProto(name=key.name))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        names = [output.name for output in session.get_outputs()]
        inputs = dict(zip(graph.inputs, map(np.asarray, arrays), strict=True))
        return dict(zip(names, session.run(None, inputs), strict=True))
    except Exception:  # an operator set that is newer than the runtime's, or a type it lacks
        return {}


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
