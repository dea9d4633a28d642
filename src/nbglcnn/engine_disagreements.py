"""Layers on which ONNX Runtime and onnx.reference disagree, and the one that ours follow."""

from __future__ import annotations

from nbglcnn.graph import Graph, Node

RESIZE_DISAGREEMENT = (
    "ONNX Runtime rounds the resized length before it aligns the corners; onnx.reference and the "
    "tests of ONNX take scale · length, and so does this layer. Give integer lengths as sizes, "
    "and both agree"
)
LRN_DISAGREEMENT = (
    "ONNX Runtime rejects an even size, and onnx.reference omits channels if a batch has fewer "
    "images than channels; this layer follows the formula of ONNX's specification"
)
CONV_TRANSPOSE_DISAGREEMENT = (
    "if the stride exceeds the kernel, ONNX Runtime's output is shorter than length · stride; "
    "this layer and onnx.reference follow ONNX's specification. Write pads and output_padding "
    "instead of auto_pad, and both agree"
)
AVERAGE_POOL_DISAGREEMENT = (
    "ONNX Runtime and onnx.reference pad as if the kernel had no dilations; this layer pads for "
    "the dilated kernel, as ONNX's specification says. Write pads instead of auto_pad, and all "
    "agree"
)


def known_disagreement(graph: Graph, name: str) -> str:
    """Describe the known disagreement of a layer's references; "" for any other layer."""
    value = next((key.value_name for key in graph.keys if key.name == name), "")
    node = next((node for node in graph.nodes if value and value in node.outputs), None)
    if node is None or graph.framework != "onnx":
        return ""
    if (
        node.op == "Resize"
        and node.attributes.get("coordinate_transformation_mode") == ALIGN_CORNERS
    ):
        return RESIZE_DISAGREEMENT if _has_fractional_length(graph, node) else ""
    if node.op == "LRN" and _integer_attributes(node, "size")[0] % 2 == 0:
        return LRN_DISAGREEMENT
    if str(node.attributes.get("auto_pad", "")).startswith("SAME"):
        if node.op == "ConvTranspose" and _stride_exceeds_kernel(graph, node):
            return CONV_TRANSPOSE_DISAGREEMENT
        if node.op == "AveragePool" and max(_integer_attributes(node, "dilations"), default=1) > 1:
            return AVERAGE_POOL_DISAGREEMENT
    return ""


ALIGN_CORNERS = "align_corners"


def _integer_attributes(node: Node, name: str) -> tuple[int, ...]:
    found = node.attributes.get(name, ())
    return (found,) if isinstance(found, int) else tuple(map(int, found))  # type: ignore[arg-type]


def _stride_exceeds_kernel(graph: Graph, node: Node) -> bool:
    """Whether a stride exceeds the extent of the dilated kernel."""
    kernel = graph.shape(node.inputs[1])[2:]
    strides, dilations = (_integer_attributes(node, name) or (1,) * len(kernel)
                          for name in ("strides", "dilations"))  # fmt: skip
    return any(s > (k - 1) * d + 1 for s, k, d in zip(strides, kernel, dilations, strict=True))


def _has_fractional_length(graph: Graph, node: Node) -> bool:
    """Whether a resized length is not an integer."""
    scales = graph.constant_data(node.inputs[2]) if len(node.inputs) > 2 else None
    if scales is None or not scales.size:
        return False
    shape = graph.shape(node.inputs[0])
    axes = _integer_attributes(node, "axes") or tuple(range(len(shape)))
    lengths = (shape[axis] * float(s) for axis, s in zip(axes, scales.reshape(-1), strict=True))
    return any(length != round(length) for length in lengths)
