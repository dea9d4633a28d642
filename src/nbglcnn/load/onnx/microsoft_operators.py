"""Operators of com.microsoft, which ONNX Runtime writes into optimized files, as ONNX operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from nbglcnn.errors import ModelError, UnsupportedOperator
from nbglcnn.graph import Attribute, Node
from nbglcnn.load.draft import describe_node

MICROSOFT_DOMAIN = "com.microsoft"
Attributes = Mapping[str, Attribute]
# Parameters of fused activations, in the order of activation_params, with ONNX's defaults.
ACTIVATIONS: dict[str, tuple[tuple[str, float], ...]] = {
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "LeakyRelu": (("alpha", 0.01),),
    "HardSigmoid": (("alpha", 0.2), ("beta", 0.5)),
    "Clip": (),
    # The remaining ones are used only by FusedGemm so far.
    "Elu": (("alpha", 1.0),),
    "Selu": (("alpha", 1.67326319217681884765625), ("gamma", 1.05070102214813232421875)),
    "Softplus": (),
    "Softsign": (),
    "ThresholdedRelu": (("alpha", 1.0),),
}


def convert_node(node: Node, attributes: Attributes) -> list[Node]:
    """Convert a node to ONNX nodes; ModelError if its inputs or attributes are not valid."""
    least, most, allowed, rule = CONVERSION_RULES[node.op]
    if not least <= len(node.inputs) <= most or len(node.outputs) != 1 or not node.outputs[0]:
        raise ModelError(
            f"{describe_node(node)}: {len(node.inputs)} inputs; expected {least} to {most}"
        )
    if not all(node.inputs[:least]):
        raise ModelError(f"{describe_node(node)}: a required input is missing")
    for name, value in attributes.items():
        kinds = allowed.get(name)
        if kinds is None or not isinstance(value, kinds):
            raise ModelError(f"{describe_node(node)}: attribute {name[:80]!r} is not allowed here")
    return rule(replace(node, domain="", attributes={}), attributes)


def _add_activation(node: Node, fused_attributes: Attributes, source: str) -> list[Node]:
    """The activation of a fused node, as a node with the fused node's output."""
    name = str(fused_attributes.get("activation", ""))
    if not name:
        return [replace(node, op="Identity", inputs=(source,))]
    if name not in ACTIVATIONS:
        raise UnsupportedOperator(f"{describe_node(node)}: its activation {name[:80]!r}")
    numbers = fused_attributes.get("activation_params", ())
    assert isinstance(numbers, tuple)
    if name == "Clip":
        bounds = [f"{node.outputs[0]}.{bound}" for bound in ("least", "most")][: len(numbers)]
        steps = [
            replace(node, op="Constant", inputs=(), outputs=(bound,), attributes={"value_float": n})
            for bound, n in zip(bounds, map(_to_float, numbers), strict=False)
        ]
        return [*steps, replace(node, op="Clip", inputs=(source, *bounds))]
    parameters = ACTIVATIONS[name]
    attributes: dict[str, Attribute] = dict(parameters)
    for (parameter, _), number in zip(parameters, numbers, strict=False):
        attributes[parameter] = _to_float(number)
    return [replace(node, op=name, inputs=(source,), attributes=attributes)]


def _to_float(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)


def _fused_conv(node: Node, fused_attributes: Attributes) -> list[Node]:
    """Expand to a Conv, an optional Add, and an activation."""
    out = node.outputs[0]
    attributes = {n: v for n, v in fused_attributes.items() if not n.startswith("activation")}
    inputs = node.inputs[:3] if len(node.inputs) > 2 and node.inputs[2] else node.inputs[:2]
    source = f"{out}.conv"
    steps = [replace(node, op="Conv", inputs=inputs, outputs=(source,), attributes=attributes)]
    if len(node.inputs) > 3 and node.inputs[3]:
        steps.append(
            replace(node, op="Add", inputs=(source, node.inputs[3]), outputs=(f"{out}.sum",))
        )
        source = f"{out}.sum"
    return [*steps, *_add_activation(node, fused_attributes, source)]


def _fused_gemm(node: Node, fused_attributes: Attributes) -> list[Node]:
    attributes = {n: v for n, v in fused_attributes.items() if not n.startswith("activation")}
    source = f"{node.outputs[0]}.gemm"
    gemm = replace(node, op="Gemm", outputs=(source,), attributes=attributes)
    parameters = ACTIVATIONS.get(str(fused_attributes.get("activation", "")), ())
    numbers = tuple(
        _to_float(fused_attributes.get(f"activation_{n}", default)) for n, default in parameters
    )
    with_numbers: dict[str, Attribute] = {"activation_params": numbers}
    if "activation" in fused_attributes:
        with_numbers["activation"] = fused_attributes["activation"]
    return [gemm, *_add_activation(node, with_numbers, source)]


def _quick_gelu(node: Node, fused_attributes: Attributes) -> list[Node]:
    """Expand to x · sigmoid(alpha · x)."""
    x, out = node.inputs[0], node.outputs[0]
    factor, scaled, gate = (f"{out}.{part}" for part in ("alpha", "scaled", "gate"))
    alpha = _to_float(fused_attributes.get("alpha", 1.702))
    return [
        replace(
            node, op="Constant", inputs=(), outputs=(factor,), attributes={"value_float": alpha}
        ),
        replace(node, op="Mul", inputs=(x, factor), outputs=(scaled,)),
        replace(node, op="Sigmoid", inputs=(scaled,), outputs=(gate,)),
        replace(node, op="Mul", inputs=(x, gate)),
    ]


def _gelu(node: Node, fused_attributes: Attributes) -> list[Node]:
    return [replace(node, op="Gelu")]


def _bias_gelu(node: Node, fused_attributes: Attributes) -> list[Node]:
    total = f"{node.outputs[0]}.sum"
    return [
        replace(node, op="Add", outputs=(total,)),
        replace(node, op="Gelu", inputs=(total,)),
    ]


_CONV_ATTRIBUTE_TYPES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("dilations", "kernel_shape", "pads", "strides", "activation_params"), tuple),
    "auto_pad": str,
    "group": int,
    "activation": str,
}
_GEMM_ATTRIBUTE_TYPES: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("alpha", "beta", "activation_alpha", "activation_beta"), float),
    "activation_gamma": float,
    "transA": int,
    "transB": int,
    "activation": str,
}
ConversionRule = Callable[[Node, Attributes], list[Node]]
# Minimum and maximum number of inputs, attribute types, and the conversion rule.
CONVERSION_RULES: dict[str, tuple[int, int, dict[str, type | tuple[type, ...]], ConversionRule]] = {
    "BiasGelu": (2, 2, {}, _bias_gelu),
    "FusedConv": (2, 4, _CONV_ATTRIBUTE_TYPES, _fused_conv),
    "FusedGemm": (2, 3, _GEMM_ATTRIBUTE_TYPES, _fused_gemm),
    "Gelu": (1, 1, {}, _gelu),
    "QuickGelu": (1, 1, {"alpha": float}, _quick_gelu),
}
