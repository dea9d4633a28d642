"""The public functions that need no page: compile a model, check what of it can run."""

from __future__ import annotations

from typing import Any

from nbglcnn.layers import layer_keys, layer_nodes
from nbglcnn.load import load
from nbglcnn.lower import Observe, layer_name, lower, partial_shapes
from nbglcnn.plan import Plan, Precision, Target
from nbglcnn.report import Report, Support


def compile(
    model: Any,
    x: Any = None,
    *,
    observe: Observe = "all",
    target: Target | None = None,
    precision: Precision = "float32",
) -> Plan:
    """Compile a network into a Plan with its packed weights.

    Args:
        model: a torch.nn.Module in eval mode, an onnx.ModelProto or a path to an .onnx file.
        x: an example input (array, tensor, picture, list of pictures; for several inputs
            a tuple, or a dict by their names).
            Only an ONNX model with static shapes can do without.
        observe: what can be read afterwards: "all" layers, "outputs" alone (fastest: the rest is
        fused
            and its textures reused), or a list of layer names (outputs are always kept).
        target: limits of the device; default are WebGL 2's guaranteed minimums and 4096 texels a
        side.
        precision: what activations and weights are stored in. "float16" takes half the memory and
        is right to about three digits; numbers beyond 65504 become infinite.

    Raises:
        UnsupportedOperator, UnsupportedModel: naming the layer, before anything runs.
        InputError: `x` is missing or doesn't fit, or `precision` is neither.
        ModelError: the file is damaged or unsafe.
    """
    graph, _ = load(model, x)
    return lower(graph, observe=observe, target=target, precision=precision)


def check(model: Any, x: Any = None) -> Report[Support]:
    """Which layers can run and why the others can't, before anything runs.

    Takes what `compile` takes; raises what it raises for a model that can't be read at all.
    """
    graph, _ = load(model, x)
    _, problems = partial_shapes(graph)
    types = {key.name: key.module_type for key in layer_keys(graph)}
    rows: list[Support] = []
    told: set[str] = set()
    for layer, nodes in layer_nodes(graph).items():
        told.update(node.name for node in nodes)
        reasons = dict.fromkeys(problems[node.name] for node in nodes if node.name in problems)
        operators = " + ".join(dict.fromkeys(node.op for node in nodes)) or types[layer]
        rows.append(Support(layer, operators or "Identity", not reasons, "; ".join(reasons)))
    for node in graph.nodes:  # of no layer, as what a loop or a condition holds
        if node.name in problems and node.name not in told:
            rows.append(Support(layer_name(node), node.op, False, problems[node.name]))
    return Report(tuple(rows), "can run")
