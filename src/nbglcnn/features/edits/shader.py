"""The shader program of a bend: its source, a pass's uniforms, and the table of channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from textwrap import indent

import numpy as np

from nbglcnn.codegen.glsl import shader_source
from nbglcnn.codegen.uniform_slots import UniformValue, parse_slots, write_uniforms
from nbglcnn.features.edits.records import Edit
from nbglcnn.features.edits.transforms import (
    MAX_PARAMETERS,
    TRANSFORM_IDS,
    TRANSFORM_KINDS,
    TransformKind,
)
from nbglcnn.plan import schema as p

SAMPLERS = ("x0", "x1", "table", "array")
MAX_TABLE_WIDTH = 2048  # texels per row
# A Plan's passes have these as constants; here they are uniforms, so that one program fits all
# values.
SHADER_CONSTANTS: dict[str, str | int] = {
    "BN": "u.o.block.x",
    "BY": "u.o.block.y",
    "BX": "u.o.block.z",
    "PHASED": 1,
    "WHOLE": 0,
    "MANY": 1,
}
RESHAPED_CONSTANTS: dict[str, str | int] = {"RESHAPED": 1, "WRAPPED": "u_side"}
# The uniforms of bend.glsl, with the same names in JavaScript. `side` is the longest side of a
# texture in strips.
UNIFORM_SLOTS = parse_slots(
    "int transform, stage, one_channel, one_example; ivec4 shown; int injected, side;"
    "vec4 parameters[2]; float mix"
)
# User code is the body of a function with these parameters; it sets y.
CUSTOM_GLSL_TEMPLATE = """
float custom(float x, int example, int channel, int row, int column) {
  int examples = u_shown.x, channels = u_shown.y, height = u_shown.z, width = u_shown.w;
PARAMETERS  float y = x;
#line 1
SOURCE;
  return y;
}
"""


def _glsl_transform_branches(indent_level: int, glsl_of: Callable[[TransformKind], str]) -> str:
    """Return the branches by transform; transforms with equal GLSL share a branch."""
    kinds: dict[str, list[str]] = {}
    for kind in TRANSFORM_KINDS.values():
        if own := glsl_of(kind).strip():
            kinds.setdefault(own, []).append(f"TRANSFORM == {kind.name.upper()}")
    blocks = [
        f"if ({' || '.join(tests)}) {{\n{indent(own, '  ')}\n}}" for own, tests in kinds.items()
    ]
    return indent(" else ".join(blocks), "  " * indent_level)


def _shader_inserts() -> dict[str, str]:
    functions = dict.fromkeys(
        one.strip() for kind in TRANSFORM_KINDS.values() for one in kind.functions
    )
    return {
        "FUNCTIONS": "\n\n".join(functions),
        "ELEMENTS": _glsl_transform_branches(1, lambda kind: kind.glsl),
        "BEGIN": _glsl_transform_branches(
            1, lambda kind: kind.reads.begin_glsl if kind.reads else ""
        ),
        "TAP": _glsl_transform_branches(2, lambda kind: kind.reads.tap_glsl if kind.reads else ""),
        "FOLD": _glsl_transform_branches(
            2, lambda kind: kind.reads.fold_glsl if kind.reads else ""
        ),
        "END": _glsl_transform_branches(1, lambda kind: kind.reads.end_glsl if kind.reads else ""),
    }


# The replacements of the lines in bend.glsl that consist of one of these words.
SHADER_INSERTS = _shader_inserts()
BEND_GLSL = "".join(
    f"{SHADER_INSERTS.get(line, line)}\n" for line in shader_source("bend.glsl").splitlines()
)


@cache
def bend_program(
    texture_layer_count: int,
    reshaped: bool,
    transform: str,
    source: str = "",
    parameter_names: tuple[str, ...] = (),
) -> p.Program:
    """Return the program of a transform for textures with this number of layers.

    `reshaped`: for values whose displayed nchw differs from the stored one, or that are stored in
    strips.
    """
    constants: dict[str, str | int] = {"LAYERS": texture_layer_count, **SHADER_CONSTANTS}
    constants |= RESHAPED_CONSTANTS if reshaped else {}
    constants |= {"CUSTOM": 1} if source else {}
    constants |= {name.upper(): number for name, number in TRANSFORM_IDS.items()}
    # As a constant, so that compilers drop the code of other transforms, which costs as much as a
    # convolution.
    constants |= {"TRANSFORM": TRANSFORM_IDS[transform], "ONE_CHANNEL": -1}
    text = "\n".join(
        [
            *(f"#define {name} {value}" for name, value in constants.items()),
            *(slot.macro() for slot in UNIFORM_SLOTS),
            shader_source("prelude.glsl"),
            *(f"uniform sampler2DArray {name};" for name in SAMPLERS),
            *(f"layout(location = {k}) out vec4 o{k};" for k in range(texture_layer_count)),
            BEND_GLSL,
            custom_glsl_function(source, parameter_names) if source else "",
        ]
    )
    return p.Program("bend", text, SAMPLERS, texture_layer_count)


def custom_glsl_function(source: str, parameter_names: Sequence[str]) -> str:
    """Return the GLSL function whose body is the user's code."""
    places = [f"u_parameters({k // 4}).{'xyzw'[k % 4]}" for k in range(len(parameter_names))]
    pairs = zip(parameter_names, places, strict=True)
    lines = "".join(f"  float {name} = {place};\n" for name, place in pairs)
    return CUSTOM_GLSL_TEMPLATE.replace("PARAMETERS", lines).replace("SOURCE", source)


def is_reshaped(value: p.Value) -> bool:
    """Whether a value's displayed nchw differs from the stored one, or it is stored in strips."""
    return bool(value.layout.max_side) or value.nchw != value.layout.nchw


def uniform_block(value: p.Value, edit: Edit, pass_index: int) -> bytes:
    """Return the uniform block of one pass."""
    block = np.zeros(p.UNIFORM_BYTES // 4, np.int32)
    for at in (0, 16, 32):
        block[at : at + 16] = value.layout_words
    injected = value.nchw[1] if edit.channels is None else len(edit.channels)
    parameters = [*edit.parameters, *[0.0] * (MAX_PARAMETERS - len(edit.parameters))]
    numbers: dict[str, UniformValue] = {
        "transform": TRANSFORM_IDS[edit.transform], "stage": pass_index, "one_channel": -1,
        "one_example": 0,
        "shown": value.nchw, "injected": injected, "side": value.layout.max_side or 2**24,
        "parameters": parameters, "mix": edit.mix,
    }  # fmt: skip
    write_uniforms(block, UNIFORM_SLOTS, numbers)
    return block.tobytes()


def pass_count(edit: Edit) -> int:
    """Return the number of passes of an edit."""
    return TRANSFORM_KINDS[edit.transform].stages if edit.transform in TRANSFORM_KINDS else 1


def channel_table(value: p.Value, channels: Sequence[int] | None) -> p.Float32:
    """Return one texel (row, column, 4) per channel group: 1 + index among `channels`, or 0."""
    groups = -(-value.nchw[1] // 4)
    width = min(groups, MAX_TABLE_WIDTH)
    found = np.zeros((-(-groups // width), width, 4), np.float32)
    chosen = np.arange(value.nchw[1]) if channels is None else np.asarray(channels, int)
    found.reshape(-1)[chosen] = np.arange(1, len(chosen) + 1)
    return found


def pack_texels(array: p.Float32) -> p.Float32:
    """Pack an injected array into texels (row, column, 4) in row-major order."""
    texels = max(1, -(-array.size // 4))
    width = min(texels, MAX_TABLE_WIDTH)
    found = np.zeros((-(-texels // width), width, 4), np.float32)
    found.reshape(-1)[: array.size] = array.reshape(-1)
    return found
