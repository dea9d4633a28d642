"""What every key of a Graph should be: by PyTorch's own forward hooks, or by other engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nbglcnn.graph import Array, Graph
from nbglcnn.load.evaluate import evaluate
from nbglcnn.load.names import walk


def torch_reference(model: Any, graph: Graph, arrays: Sequence[Array]) -> dict[str, Array]:
    """What forward hooks see, with the Graph's weights; functional operators computed from it."""
    import torch

    from nbglcnn.load.torch_calls import run_hooked
    from nbglcnn.load.torch_check import detached_copy, unwrapped

    twin, _ = detached_copy(unwrapped(model))
    state = twin.state_dict(keep_vars=True)
    with torch.no_grad():
        for name, value in graph.parameters.items():
            # The Graph may have got other weights since (with_parameters).
            state[name].copy_(torch.from_numpy(np.array(graph.values[value].data)))
    seen, root = run_hooked(twin, [torch.from_numpy(np.array(a)) for a in arrays])
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
        elif key.module_type:
            found[key.name] = hooks[key.name]
        else:
            continue
        known[key.value] = found[key.name]
    rest = [key.value for key in graph.keys if key.name not in found]
    computed = run_graph(graph, known, rest)
    return {k.name: _float(found.get(k.name, computed.get(k.value))) for k in graph.keys}


def onnx_reference(graph: Graph, arrays: Sequence[Array]) -> dict[str, Array]:
    """All keys, computed from the Graph itself by onnx.reference."""
    known = dict(zip(graph.inputs, arrays, strict=True))
    computed = run_graph(graph, known, [key.value for key in graph.keys])
    return {k.name: _float(computed[k.value]) for k in graph.keys}


def run_graph(graph: Graph, known: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
    """Compute `wanted` values node by node from `known` ones, only as far back as needed."""
    values: dict[str, Array] = {n: v.data for n, v in graph.values.items() if v.data is not None}
    values.update(known)
    needed = {name for name in wanted if name not in values}
    steps = []
    for node in reversed(graph.nodes):
        if needed & set(node.outputs):
            steps.append(node)
            needed -= set(node.outputs)
            needed |= {i for i in node.inputs if i and i not in values}
    for node in reversed(steps):
        values.update(evaluate(node, values))
    return {name: values[name] for name in wanted}


def _float(array: Array | None) -> Array:
    assert array is not None
    return array.astype(np.float32) if array.dtype in (np.float64, np.float16) else array
