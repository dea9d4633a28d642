"""Layers that exporters write as several operators, told as the one operator a reader knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nbglcnn.graph import Graph, Node

# Padding that repeats the map's own numbers, by ONNX's names.
_MODES = ("reflect", "edge", "wrap")


@dataclass(frozen=True)
class Whole:
    """What the main operator would read and say, were it alone."""

    operator: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    begins: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()


def whole(graph: Graph, nodes: Iterable[Node], main: Node) -> Whole:
    """What a layer's operators are together; `main` is the one that multiplies most."""
    others = [node for node in nodes if node is not main]
    found = None
    if main.op == "Conv" and len(others) == 1:
        found = _padded(graph, others[0], main)
    elif main.op == "MatMul" and len(others) <= 1:
        found = _linear(graph, others, main)
    elif main.op == "Div":
        found = _response(graph, others, main)
    return found or Whole(main.op, main.inputs)


def _padded(graph: Graph, pad: Node, conv: Node) -> Whole | None:
    if pad.op != "Pad" or pad.outputs[0] != conv.inputs[0] or len(pad.inputs) > 3:
        return None
    mode, pads = pad.attributes.get("mode"), graph.values[pad.inputs[1]].data
    if mode not in _MODES or pads is None or np.any(conv.attributes.get("pads", 0)):
        return None
    rank = len(graph.shape(conv.inputs[0]))
    begins, ends = (tuple(int(one) for one in pads[k : k + rank]) for k in (0, rank))
    if any(begins[:2]) or any(ends[:2]) or min(*begins, *ends) < 0:
        return None
    inputs = (pad.inputs[0], *conv.inputs[1:])
    return Whole("Conv", inputs, {"padding_mode": mode}, begins[2:], ends[2:])


def _linear(graph: Graph, others: list[Node], product: Node) -> Whole | None:
    """What is multiplied is folded from PyTorch's weight, which has a row for each output."""
    a, b = product.inputs
    turned = [node for node in graph.folded if b in node.outputs and node.op == "Transpose"]
    if not turned or len(graph.shape(b)) != 2:
        return None
    bias: tuple[str, ...] = ()
    for add in others:
        bias = tuple(name for name in add.inputs if name != product.outputs[0])
        if add.op != "Add" or len(bias) != 1 or not graph.values[bias[0]].is_constant:
            return None
    return Whole("MatMul", (a, turned[0].inputs[0], *bias), {"transB": 1})


def _response(graph: Graph, others: list[Node], quotient: Node) -> Whole | None:
    """PyTorch's LocalResponseNorm: a mean of squares over channels, which is padded and pooled."""
    by_op = {node.op: node for node in others if node.op not in ("Reshape", "Squeeze", "Mul")}
    scales = [_number(graph, node) for node in others if node.op == "Mul"]
    alpha = [scale for scale in scales if scale is not None]
    if set(by_op) != {"Pad", "AveragePool", "Add", "Pow"} or len(scales) != 2 or len(alpha) != 1:
        return None
    pads = graph.values[by_op["Pad"].inputs[1]].data
    bias, beta = (_number(graph, by_op[op]) for op in ("Add", "Pow"))
    kernel = np.asarray(by_op["AveragePool"].attributes.get("kernel_shape", ()))
    x, power = quotient.inputs
    if pads is None or bias is None or beta is None or power != by_op["Pow"].outputs[0]:
        return None
    if kernel.size == 0 or kernel.prod() != kernel[0]:
        return None
    size, before = int(kernel[0]), int(pads[2])
    numbers = {"size": size, "alpha": alpha[0], "beta": beta, "bias": bias, "before": before}
    return Whole("LRN", (x,), numbers)


def _number(graph: Graph, node: Node) -> float | None:
    """The one constant that an operator reads beside a value."""
    for name in node.inputs[1:]:
        data = graph.values[name].data
        if data is not None and data.size == 1:
            return float(data.item())
    return None
