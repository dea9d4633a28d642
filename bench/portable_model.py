"""Exports a network for every peer: a Plan, an ONNX file, and nodes with weights for TF.js.

BatchNorm is folded for all peers, and every peer gets the same weights and inputs.
"""

import io
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper

from models import BenchModel
from nbglcnn.load import load
from nbglcnn.lowering.lower import lower

INPUT_COUNT = 4  # inputs used in rotation, so that no result can be cached between calls


@dataclass(frozen=True)
class PortableModel:
    """The files of one network, by the last part of their URL."""

    files: dict[str, bytes]
    macs: int
    output_size: int


def export_portable(model: BenchModel) -> PortableModel:
    """Export a network for all peers, with PyTorch's output for each input of the rotation."""
    network = model.build()
    generator = torch.Generator().manual_seed(11)
    inputs = [torch.randn(model.shape, generator=generator) for _ in range(INPUT_COUNT)]
    with torch.no_grad():
        outputs = [network(x).contiguous().numpy() for x in inputs]
    graph, _ = load(network, inputs[0])
    fused, everything = (lower(graph, observe=kind) for kind in ("outputs", "all"))
    exported = _export_onnx(network, inputs[0])
    nodes, weights = _export_nodes(exported)
    return PortableModel(
        {
            "fused.plan": fused.to_bytes(),
            "all.plan": everything.to_bytes(),
            "nodes.plan": lower(load(exported)[0], observe="all").to_bytes(),
            "onnx": exported.SerializeToString(),
            "nodes.json": json.dumps(nodes).encode(),
            "weights.bin": weights,
            "inputs.bin": b"".join(x.numpy().tobytes() for x in inputs),
            "outputs.bin": b"".join(y.astype("<f4").tobytes() for y in outputs),
        },
        sum(layer.macs for layer in everything.layers),
        int(outputs[0].size),
    )


def _export_onnx(network: torch.nn.Module, x: torch.Tensor) -> onnx.ModelProto:
    file = io.BytesIO()
    program = torch.onnx.export(network, (x,), dynamo=True, opset_version=18, verbose=False)
    assert program is not None
    program.save(file)
    return onnx.load_from_string(file.getvalue())


def _export_nodes(model: onnx.ModelProto) -> tuple[dict[str, Any], bytes]:
    """The ONNX graph as JSON, and its weights concatenated."""
    parts: list[bytes] = []
    offset = 0
    constants: dict[str, dict[str, Any]] = {}

    def keep(name: str, array: np.ndarray) -> None:
        nonlocal offset
        if array.dtype.kind in "iu" or array.size == 1:
            constants[name] = {"values": array.reshape(-1).tolist(), "shape": list(array.shape)}
            return
        data = array.astype("<f4").tobytes()
        constants[name] = {"offset": offset, "shape": list(array.shape)}
        parts.append(data)
        offset += len(data)

    for tensor in model.graph.initializer:
        keep(tensor.name, numpy_helper.to_array(tensor))
    nodes = []
    for node in model.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type == "Constant":
            keep(node.output[0], numpy_helper.to_array(attributes["value"]))
            continue
        plain = {
            k: v.decode() if isinstance(v, bytes) else list(v) if hasattr(v, "__len__") else v
            for k, v in attributes.items()
        }
        nodes.append(
            {
                "op": node.op_type,
                "inputs": list(node.input),
                "output": node.output[0],
                "attributes": plain,
            }
        )
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    spec = {
        "input": model.graph.input[0].name,
        "shape": shape,
        "output": model.graph.output[0].name,
        "constants": constants,
        "nodes": nodes,
    }
    return spec, b"".join(parts)
