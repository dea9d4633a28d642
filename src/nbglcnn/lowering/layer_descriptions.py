"""Layer descriptions for readers: from the operator's record, or from here for composite layers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from nbglcnn.graph import Graph, Node, ValueKey
from nbglcnn.ops import OPERATOR_RECORDS, OPERATORS
from nbglcnn.plan import schema as p

# Padding modes that repeat the map's own values, by ONNX's names.
_PADDING_MODES = ("reflect", "edge", "wrap")


@dataclass(frozen=True)
class SingleOperator:
    """A layer as one equivalent operator, with its inputs and attributes."""

    operator: str
    inputs: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    pads_begin: tuple[int, ...] = ()
    pads_end: tuple[int, ...] = ()
    is_composite: bool = False


@dataclass(frozen=True)
class CompositeModule:
    """A PyTorch module that exporters write as several operators, without an ONNX operator.

    `formula` is set for elementwise functions: it has the module's settings in braces, with
    defaults in `settings`. None for other modules.
    """

    formula: str | None
    settings: Mapping[str, float] = field(default_factory=dict)
    bounds: p.Bounds = (None, None)
    role: p.Role = "follows"


# By the module's class. A string is the ONNX operator that computes the same.
MODULE_EQUIVALENTS: Mapping[str, CompositeModule | str] = {
    "SiLU": "Swish",
    "GELU": "Gelu",
    "Mish": "Mish",
    "Hardswish": "HardSwish",
    "ELU": "Elu",
    "Softsign": "Softsign",
    "Hardsigmoid": CompositeModule("clip(x / 6 + 0.5, 0, 1)", bounds=(0.0, 1.0)),
    "ReLU6": CompositeModule("clip(x, 0, 6)", bounds=(0.0, 6.0)),
    "Softplus": CompositeModule(
        "where({beta} * x > {threshold}, x, softplus({beta} * x) / {beta})",
        {"beta": 1, "threshold": 20},
        (0.0, None),
    ),
    "LogSigmoid": CompositeModule("-softplus(-x)", bounds=(None, 0.0)),
    "Tanhshrink": CompositeModule("x - tanh(x)"),
    "Softmin": CompositeModule(None, bounds=(0.0, 1.0)),
}


@dataclass(frozen=True)
class LayerDescription:
    """The fields of a Layer with these names (plan_layers.py)."""

    role: p.Role
    caption: str
    explanation: p.ExplanationKind = "nothing"
    is_composite: bool = False
    formula: str = ""
    bounds: p.Bounds = (None, None)


def describe_layer(
    graph: Graph,
    nodes: Sequence[Node],
    main_node: Node | None,
    single_operator: SingleOperator,
    key: ValueKey,
    *,
    is_movement: bool,
) -> LayerDescription:
    """Describe a layer for the page; `nodes` compute it, in order, and `main_node` is one of them.

    `is_movement`: all nodes only move elements.
    """
    short = short_caption(key.module_type or single_operator.operator)
    if main_node is None:
        return LayerDescription("alias", short, "same")
    if single_operator.is_composite and key.module_type in MODULE_EQUIVALENTS:
        return _describe_module(
            graph, nodes[0], MODULE_EQUIVALENTS[key.module_type], key.description, short
        )
    record = OPERATOR_RECORDS[single_operator.operator]
    same = all(OPERATOR_RECORDS[node.op].explanation_kind(graph, node) == "same" for node in nodes)
    main_node = replace(main_node, op=single_operator.operator)
    found = LayerDescription(
        record.role,
        short,
        "same" if same else "moved" if is_movement else record.explanation_kind(graph, main_node),
        single_operator.is_composite and not same,
        record.formula(graph, main_node)
        if record.formula and not single_operator.is_composite
        else "",
        OPERATOR_RECORDS[nodes[-1].op].output_bounds(graph, nodes[-1]),
    )
    return _describe_preprocess(graph, key, found) if key.name in graph.preprocess_keys else found


def _describe_preprocess(
    graph: Graph, key: ValueKey, description: LayerDescription
) -> LayerDescription:
    """Describe a preprocessing step: all steps form one stage, with formulas if available."""
    before = key.name.rpartition(".")[0]  # each compared model has its own
    first = next(name for name in graph.preprocess_keys if name.rpartition(".")[0] == before)
    description = replace(description, role="head" if key.name == first else "follows")
    call = ast.parse(f"step({key.description})", mode="eval").body
    assert isinstance(call, ast.Call)
    settings = {one.arg: ast.literal_eval(one.value) for one in call.keywords}
    if key.module_type == "Range":
        scale, offset = settings["scale"], settings["offset"]
        behind = f" {'-' if offset < 0 else '+'} {abs(offset)}" if offset else ""
        formula = f"x * {scale}{behind}"
    elif key.module_type == "Normalize":
        formula = f"(x - {_channel_formula(settings['mean'])})" if "mean" in settings else "x"
        formula += f" / {_channel_formula(settings['std'])}" if "std" in settings else ""
    else:
        return description
    return replace(description, explanation="pointwise", is_composite=False, formula=formula)


def _channel_formula(numbers: Any) -> str:
    """A number in a formula, or a choice of numbers by channel."""
    if not isinstance(numbers, tuple):
        return str(numbers) if numbers >= 0 else f"({numbers})"
    return f"choose(channel, {', '.join(map(str, numbers))})"


def short_caption(name: str) -> str:
    """The caption of an operator or module: "BN" for BatchNorm2d and BatchNormalization."""
    name = re.sub(r"[123]d$", "", name)
    bare = name.removeprefix("Adaptive")
    for known in (bare, f"{bare}alization", bare.replace("Avg", "Average")):
        if known in OPERATORS:
            return OPERATORS[known].caption or bare
    return name


def _describe_module(
    graph: Graph, node: Node, equivalent: CompositeModule | str, description: str, caption: str
) -> LayerDescription:
    settings = _parse_settings(description)
    if isinstance(equivalent, str):
        record = OPERATOR_RECORDS[equivalent]
        node = replace(node, op=equivalent, attributes=settings)
        formula = record.formula(graph, node) if record.formula else ""
        return LayerDescription(
            record.role, caption, "pointwise", False, formula, record.output_bounds(graph, node)
        )
    if equivalent.formula is None:
        return LayerDescription(
            equivalent.role, caption, is_composite=True, bounds=equivalent.bounds
        )
    formula = equivalent.formula.format(**{**equivalent.settings, **settings})
    return LayerDescription(
        equivalent.role, caption, "pointwise", False, formula, equivalent.bounds
    )


def _parse_settings(description: str) -> dict[str, Any]:
    """The settings in a module's description: {"alpha": 0.5} for "alpha=0.5"."""
    pairs = re.findall(r"\b(\w+)=('\w*'|-?[\d.]+(?:e[-+]?\d+)?)", description)
    return {name: ast.literal_eval(value) for name, value in pairs}


def as_single_operator(graph: Graph, nodes: Iterable[Node], main_node: Node) -> SingleOperator:
    """A layer's operators as one; `main_node` is the node with the most multiplications."""
    others = [node for node in nodes if node is not main_node]
    found: SingleOperator | None = None
    if main_node.op == "Conv" and len(others) == 1:
        found = _match_padded_conv(graph, others[0], main_node)
    elif main_node.op == "MatMul" and len(others) <= 1:
        found = _match_linear(graph, others, main_node)
    elif main_node.op == "Div":
        found = _match_local_response(graph, others, main_node)
    return found or SingleOperator(main_node.op, main_node.inputs, is_composite=bool(others))


def _match_padded_conv(graph: Graph, pad: Node, conv: Node) -> SingleOperator | None:
    if pad.op != "Pad" or pad.outputs[0] != conv.inputs[0] or len(pad.inputs) > 3:
        return None
    mode, pads = pad.attributes.get("mode"), graph.values[pad.inputs[1]].data
    if mode not in _PADDING_MODES or pads is None or np.any(conv.attributes.get("pads", 0)):
        return None
    rank = len(graph.shape(conv.inputs[0]))
    begins, ends = (tuple(int(one) for one in pads[k : k + rank]) for k in (0, rank))
    if any(begins[:2]) or any(ends[:2]) or min(*begins, *ends) < 0:
        return None
    inputs = (pad.inputs[0], *conv.inputs[1:])
    return SingleOperator("Conv", inputs, {"padding_mode": mode}, begins[2:], ends[2:])


def _match_linear(graph: Graph, other_nodes: list[Node], product: Node) -> SingleOperator | None:
    """Match a product with PyTorch's transposed weight, whose rows are outputs."""
    a, b = product.inputs
    turned = [node for node in graph.folded_nodes if b in node.outputs and node.op == "Transpose"]
    if not turned or len(graph.shape(b)) != 2:
        return None
    bias: tuple[str, ...] = ()
    for add in other_nodes:
        bias = tuple(name for name in add.inputs if name != product.outputs[0])
        if add.op != "Add" or len(bias) != 1 or not graph.values[bias[0]].is_constant:
            return None
    return SingleOperator("MatMul", (a, turned[0].inputs[0], *bias), {"transB": 1})


def _match_local_response(
    graph: Graph, other_nodes: list[Node], quotient: Node
) -> SingleOperator | None:
    """Match PyTorch's LocalResponseNorm: a padded, pooled mean of squares over channels."""
    by_op = {node.op: node for node in other_nodes if node.op not in ("Reshape", "Squeeze", "Mul")}
    scales = [_scalar_constant(graph, node) for node in other_nodes if node.op == "Mul"]
    alpha = [scale for scale in scales if scale is not None]
    if set(by_op) != {"Pad", "AveragePool", "Add", "Pow"} or len(scales) != 2 or len(alpha) != 1:
        return None
    pads = graph.values[by_op["Pad"].inputs[1]].data
    bias, beta = (_scalar_constant(graph, by_op[op]) for op in ("Add", "Pow"))
    kernel = np.asarray(by_op["AveragePool"].attributes.get("kernel_shape", ()))
    x, power = quotient.inputs
    if pads is None or bias is None or beta is None or power != by_op["Pow"].outputs[0]:
        return None
    if kernel.size == 0 or kernel.prod() != kernel[0]:
        return None
    size, before = int(kernel[0]), int(pads[2])
    numbers = {"size": size, "alpha": alpha[0], "beta": beta, "bias": bias, "before": before}
    return SingleOperator("LRN", (x,), numbers)


def _scalar_constant(graph: Graph, node: Node) -> float | None:
    """The first scalar constant among an operator's further inputs; None if there is none."""
    for name in node.inputs[1:]:
        data = graph.values[name].data
        if data is not None and data.size == 1:
            return float(data.item())
    return None
