"""Cast: every tensor is float32 on the device, so only what loses digits needs a pass."""

from __future__ import annotations

import numpy as np

from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.glsl import shader
from nbglcnn.codegen.slots import Part
from nbglcnn.graph import FLOAT16, Node
from nbglcnn.ops.movement import alias
from nbglcnn.ops.operator import Facts, Operator, anything, integer, same_shape
from nbglcnn.ops.pointwise import SAME, SELECT
from nbglcnn.ops.reach import local

# ONNX's numbers of element types (onnx.TensorProto.DataType).
FLOATS = {1: "float32", FLOAT16: "float16", 11: "float64"}
INTEGERS = {
    2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 12: "uint32",
    13: "uint64",
}  # fmt: skip
BOOL = 9

BOOLEAN = (
    SELECT + "vec4 activate(vec4 v) { return select(equal(v, vec4(0.0)), vec4(0.0), vec4(1.0)); }"
)
TRUNCATE = "vec4 activate(vec4 v) { return trunc(v); }"
# Modulo a power of two, into the range that begins at the smallest number. C leaves it open for
# floats; PyTorch and ONNX Runtime do the same there.
WRAP = Part(
    "vec4 activate(vec4 v) {\n"
    "  v = trunc(v);\n"
    "  return v - u_modulus * floor((v - u_smallest) / u_modulus);\n"
    "}",
    "float modulus, smallest",
)

HALF = SELECT + shader("half.glsl")


def _problem(_facts: Facts, node: Node) -> str | None:
    to = integer(node, "to", 0)
    if to == BOOL or to in FLOATS or to in INTEGERS:
        return None
    names = ", ".join([*FLOATS.values(), *INTEGERS.values(), "bool"])
    return f"to={to}, an element type that is not supported; supported: {names}"


def _draw(b: Builder, node: Node) -> None:
    to, source = integer(node, "to", 0), b.graph.values[node.inputs[0]].dtype
    function: str | Part = ""
    numbers: dict[str, float] = {}
    if to == BOOL and source.kind != "b":
        function = BOOLEAN
    elif to == FLOAT16 and not np.can_cast(source, np.float16):
        function = HALF
    elif to in INTEGERS and source.kind in "fiu":
        wanted = np.dtype(INTEGERS[to])
        # Numbers on the device stay below 2^24, so that wider types hold all of them.
        if wanted.itemsize < 4 and not np.can_cast(source, wanted):
            function = WRAP
            numbers = {"modulus": 2 ** (8 * wanted.itemsize), "smallest": np.iinfo(wanted).min}
        elif source.kind == "f":
            function = TRUNCATE
    if not function:
        alias(b, node)
        return
    x = b.stored(node.inputs[0])
    output = b.scratch(x.layout)
    b.bind(node.outputs[0], output)
    b.draw(SAME, output, [x], numbers=numbers, parts=[function])


OPERATORS = [
    Operator("Cast", "Another type of numbers: booleans, integers, floats.", same_shape, _draw,
             {"to": anything, "saturate": anything}, _problem, role="head", reach=local,
             explains="same", formula=None, bounds=None, short=None, shape_inputs=(),
             # Asked for of real numbers alone: what is rounded passes it, as in PyTorch.
             gradient=lambda _rules, _node, dy: dy),
]  # fmt: skip
