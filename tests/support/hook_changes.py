"""Changes a key's value to 2 x + 1: by a hook in PyTorch, and after the key in a Graph."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nbglcnn.graph import Graph, Node, Value, ValueKey, is_inside_call
from nbglcnn.load.module_keys import map_tensors, tensor_leaves
from nbglcnn.load.passes.evaluate import run_graph


def is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def run_model(model: nn.Module, inputs: tuple[Tensor, ...]) -> list[np.ndarray]:
    with torch.no_grad():
        given = model(*(one.clone() for one in inputs))
    return [one.numpy() for _, one in tensor_leaves(given, is_tensor)]


def outputs_by_hook(
    model: nn.Module, inputs: tuple[Tensor, ...], key: ValueKey
) -> list[np.ndarray] | None:
    """Return the outputs when a hook changes this key's tensor, or None if no module outputs it."""
    if key.kind == "input":
        assert len(inputs) == 1
        return run_model(model, (inputs[0] * 2 + 1,))
    if key.module_call is None:
        return None
    path, _, number = key.module_call.partition(":")
    calls = 0
    # The model's own outputs are named `output`, whichever module calls the model.
    suffix = key.name.removeprefix(key.module_call or "output")

    def hook(_: nn.Module, __: Any, output: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls - 1 != int(number or 0):
            return None
        return map_tensors(output, is_tensor, lambda s, x: x * 2 + 1 if s == suffix else x)

    handle = model.get_submodule(path).register_forward_hook(hook)
    try:
        return run_model(model, inputs)
    finally:
        handle.remove()


def change_after_key(graph: Graph, key: ValueKey) -> Graph:
    """Return the Graph in which all consumers of the key's value read 2 x + 1 instead."""
    before = graph.values[key.value_name]
    names = {step: f"{key.value_name} {step}" for step in ("two", "one", "doubled", "changed")}
    numbers = {
        names[step]: Value(names[step], (), before.dtype, np.array(number, before.dtype))
        for step, number in (("two", 2), ("one", 1))
    }
    made = {names[step]: replace(before, name=names[step]) for step in ("doubled", "changed")}
    steps = (
        Node("doubled", "Mul", (key.value_name, names["two"]), (names["doubled"],)),
        Node("changed", "Add", (names["doubled"], names["one"]), (names["changed"],)),
    )
    nodes: list[Node] = list(steps) if key.value_name in graph.inputs else []
    for node in graph.nodes:
        if not is_inside_call(graph, node, key):
            swapped = (names["changed"] if name == key.value_name else name for name in node.inputs)
            node = replace(node, inputs=tuple(swapped))
        nodes.append(node)
        if key.value_name in node.outputs:
            nodes += steps
    return replace(
        graph,
        nodes=tuple(nodes),
        values=MappingProxyType({**graph.values, **numbers, **made}),
        outputs=_changed_outputs(graph, key, names["changed"]),
    )


def _changed_outputs(graph: Graph, key: ValueKey, changed_name: str) -> tuple[str, ...]:
    if key.kind != "output":
        return tuple(changed_name if name == key.value_name else name for name in graph.outputs)
    own = [one.name for one in graph.keys if one.kind == "output"].index(key.name)
    return tuple(changed_name if at == own else name for at, name in enumerate(graph.outputs))


def evaluate_outputs(graph: Graph, arrays: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    known: Mapping[str, np.ndarray] = dict(zip(graph.inputs, arrays, strict=True))
    found = run_graph(graph, known, graph.outputs)
    return [found[name] for name in graph.outputs]
