"""Reference values of an ONNX file by ONNX Runtime, with a Graph's weights and edits."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nbglcnn.features.edits.replay import EMPTY_REPLAY, EditReplay
from nbglcnn.graph import Array, Graph
from nbglcnn.load.onnx.model_file import read_model, tensor_array

if TYPE_CHECKING:
    from onnx import ModelProto

MAX_RUNTIME_BYTES = 2**33  # limit of ONNX Runtime's memory, weights included


def run_onnx_file(
    model: Any,
    graph: Graph,
    arrays: Sequence[Array],
    wanted_names: Collection[str],
    bends: EditReplay = EMPTY_REPLAY,
) -> dict[str, Array]:
    """Compute those of `wanted_names` that an ONNX file's nodes produce, with the Graph's weights.

    Only the nodes that the values depend on run. With `bends` the file runs up to the first edited
    value, whose edited array becomes a further input, and so on. Return {} if ONNX Runtime is not
    installed or cannot run the nodes, or if the Graph computes in other types than the file.
    """
    if graph.notes:
        return {}
    try:
        import onnxruntime  # type: ignore[import-untyped]  # noqa: F401
    except ImportError:
        return {}
    proto = _with_weights(model, graph)
    inputs = dict(zip(graph.inputs, arrays, strict=True))
    overrides = {name: bends.apply(name, array) for name, array in inputs.items()}
    made = dict.fromkeys(name for node in proto.graph.node for name in node.output)
    # In the file's order, so that producers come first; noise inputs are already edited.
    bent = [name for name in made if name in bends and name not in inputs]
    for name in bent:
        before = _run(_copy_proto(proto), [name], overrides)
        if name not in before:
            return {}
        overrides[name] = bends.apply(name, before[name])
    wanted = [name for name in wanted_names if name in made and name not in overrides]
    found = _run(proto, wanted, overrides)
    return (
        found | {name: overrides[name] for name in bent if name in wanted_names}
        if found or bent
        else found
    )


def _with_weights(model: Any, graph: Graph) -> ModelProto:
    """Copy the file with all data embedded, and with the Graph's weights."""
    from onnx import numpy_helper

    source, _, folder = read_model(model)
    proto = _copy_proto(source)
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
    return proto


def _copy_proto(source: ModelProto) -> ModelProto:
    import onnx

    proto = onnx.ModelProto()
    proto.CopyFrom(source)
    return proto


def _run(
    proto: ModelProto, wanted_names: Collection[str], overrides: Mapping[str, Array]
) -> dict[str, Array]:
    """Compute these values, with the arrays in `overrides` replacing values of the file.

    Nodes that aren't needed are removed.
    """
    import onnx
    import onnxruntime
    from onnx import helper

    from nbglcnn.load.onnx.model import ancestor_nodes

    graph = proto.graph
    given = {value.name for value in graph.input}
    for name in overrides.keys() - given:
        array = overrides[name]
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.input.append(helper.make_tensor_value_info(name, kind, array.shape))
    for node in graph.node:
        for at, name in enumerate(node.output):
            if name in overrides:
                node.output[at] = f"{name} before its edits"
    outputs = {output.name: output for output in graph.output if output.name in wanted_names}
    for name in wanted_names:
        outputs.setdefault(name, onnx.ValueInfoProto(name=name))
    steps = ancestor_nodes(graph, outputs)
    if any(a.t.data_location == a.t.EXTERNAL for node in steps for a in node.attribute):
        return {}  # bytes have no folder for external data
    for field, kept in (("node", steps), ("output", list(outputs.values()))):
        graph.ClearField(field)
        getattr(graph, field).extend(kept)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    if any(node.op_type.startswith("Scatter") for node in steps):
        options.intra_op_num_threads = 1  # parallel updates of one element would race
    if _limit_memory():
        options.add_session_config_entry("session.use_env_allocators", "1")
    try:
        session = onnxruntime.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        of = [output.name for output in session.get_outputs()]
        found = session.run(None, {name: np.asarray(array) for name, array in overrides.items()})
    except Exception:  # the runtime lacks the opset or a type
        return {}
    return dict(zip(of, found, strict=True))


@functools.cache
def _limit_memory() -> bool:
    """Limit ONNX Runtime's memory, as a small file can request terabytes; False if impossible."""
    import onnxruntime as ort

    kind = ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    try:
        memory = ort.OrtMemoryInfo("Cpu", kind, 0, ort.OrtMemType.DEFAULT)
        ort.create_and_register_allocator(memory, ort.OrtArenaCfg({"max_mem": MAX_RUNTIME_BYTES}))
    except Exception:  # an allocator is already registered
        return False
    return True
