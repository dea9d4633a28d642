"""Cast: every tensor is float32 on the device, so only a loss of digits needs a pass."""

from __future__ import annotations

import numpy as np

from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.glsl import shader_source
from nbglcnn.codegen.uniform_slots import GlslFunction
from nbglcnn.graph import ONNX_FLOAT16, Node
from nbglcnn.ops.movement import lower_alias
from nbglcnn.ops.operator import KnownValues, Operator, any_value, int_attr, same_shape
from nbglcnn.ops.pointwise import POINTWISE_SHADER, SELECT_GLSL
from nbglcnn.ops.receptive_field import elementwise_fields

# ONNX's codes of element types (onnx.TensorProto.DataType).
FLOAT_TYPES = {1: "float32", ONNX_FLOAT16: "float16", 11: "float64"}
INTEGER_TYPES = {
    2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 12: "uint32",
    13: "uint64",
}  # fmt: skip
BOOL_TYPE = 9

TO_BOOL_GLSL = (
    SELECT_GLSL
    + "vec4 activate(vec4 v) { return select(equal(v, vec4(0.0)), vec4(0.0), vec4(1.0)); }"
)
TRUNCATE_GLSL = "vec4 activate(vec4 v) { return trunc(v); }"
# Reduce modulo a power of two, into the range that starts at the smallest integer. C leaves this
# conversion undefined for floats; PyTorch and ONNX Runtime wrap around too.
WRAP_INTEGER_FUNCTION = GlslFunction(
    "vec4 activate(vec4 v) {\n"
    "  v = trunc(v);\n"
    "  return v - u_modulus * floor((v - u_smallest) / u_modulus);\n"
    "}",
    "float modulus, smallest",
)

TO_HALF_GLSL = SELECT_GLSL + shader_source("half.glsl")


def _problem(_facts: KnownValues, node: Node) -> str | None:
    to = int_attr(node, "to", 0)
    if to == BOOL_TYPE or to in FLOAT_TYPES or to in INTEGER_TYPES:
        return None
    names = ", ".join([*FLOAT_TYPES.values(), *INTEGER_TYPES.values(), "bool"])
    return f"to={to}, an element type that is not supported; supported: {names}"


def _lower(b: Builder, node: Node) -> None:
    to, source = int_attr(node, "to", 0), b.graph.values[node.inputs[0]].dtype
    function: str | GlslFunction = ""
    numbers: dict[str, float] = {}
    if to == BOOL_TYPE and source.kind != "b":
        function = TO_BOOL_GLSL
    elif to == ONNX_FLOAT16 and not np.can_cast(source, np.float16):
        function = TO_HALF_GLSL
    elif to in INTEGER_TYPES and source.kind in "fiu":
        wanted = np.dtype(INTEGER_TYPES[to])
        # Integers on the device stay below 2^24, so wider types hold all of them.
        if wanted.itemsize < 4 and not np.can_cast(source, wanted):
            function = WRAP_INTEGER_FUNCTION
            numbers = {"modulus": 2 ** (8 * wanted.itemsize), "smallest": np.iinfo(wanted).min}
        elif source.kind == "f":
            function = TRUNCATE_GLSL
    if not function:
        lower_alias(b, node)
        return
    x = b.stored_tensor(node.inputs[0])
    output = b.create_scratch_tensor(x.layout)
    b.bind(node.outputs[0], output)
    b.draw(POINTWISE_SHADER, output, [x], uniforms=numbers, functions=[function])


OPERATORS = [
    Operator("Cast", "Converts to another type: booleans, integers, floats.", same_shape, _lower,
             {"to": any_value, "saturate": any_value}, _problem, role="head",
             receptive_field=elementwise_fields,
             explanation="same", formula=None, bounds=None, caption=None, shape_inputs=(),
             # Requested only for real numbers: the gradient passes through rounding, as in PyTorch.
             gradient=lambda _builder, _node, dy: dy),
]  # fmt: skip
