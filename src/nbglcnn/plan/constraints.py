"""The constraints of a Plan's header: one table for the readers in both languages.

Readers check the rows in order, each row for all of its records, and reject the Plan at the first
violation. A row may therefore index by anything that earlier rows have validated. Python calls the
table's functions; `scripts/generate_types.py` translates this file into
`js/src/plan/constraints.ts`, so a function here is a single expression. Checks that need loops are
in `dependencies.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from nbglcnn.plan.layers import FieldMap, Layer, LayerPair, TokenGrid
    from nbglcnn.plan.schema import (
        Carry,
        Header,
        Input,
        Pass,
        Program,
        Section,
        Texture,
        Value,
        Weight,
    )

Record = TypeVar("Record")
PictureLayout = Literal["NCHW", "NHWC"]

# The alignment in bytes of every blob in the file and of each pass's uniforms: WebGL 2's largest
# offset alignment.
ALIGNMENT_BYTES = 256
UNIFORM_BYTES = 512  # bytes of one pass's uniform block, as ops/shaders/prelude.glsl declares it
LAYOUT_WORDS = 16
MAX_POSITIONS = 2**28  # per field map, which numbers them all: a longer signal would take seconds
PICTURE_CHANNELS = (1, 3, 4)  # greyscale, RGB, RGBA
DTYPES = (
    *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    *("float16", "float32", "float64"),
)
IDENTIFIER = "[a-zA-Z_][a-zA-Z0-9_]{0,63}"
HASH = "[0-9a-f]{32}"


# The functions that rows use. TypeScript implements those of `HANDWRITTEN_FUNCTIONS` in
# constraint_table.ts.


def quote(text: str) -> str:
    """Quote text as JSON does."""
    return json.dumps(text, ensure_ascii=False)


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern matches the whole text."""
    return _compile_pattern(pattern).fullmatch(text) is not None


@cache
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def join_text(items: Sequence[object], by: str) -> str:
    """Join the items as text, separated by `by`."""
    return by.join(map(str, items))


HANDWRITTEN_FUNCTIONS = (quote, matches, join_text, prod)


def is_index(number: int, items: Sequence[object]) -> bool:
    """Whether the number is an index into the list."""
    return 0 <= number < len(items)


def out_of_range(numbers: Sequence[int], items: Sequence[object]) -> Sequence[int]:
    """The numbers that are not an index into the list."""
    return [number for number in numbers if not 0 <= number < len(items)]


def format_range(items: Sequence[object]) -> str:
    """The valid indices of a list as text: "0 to 3", or "none"."""
    return f"0 to {len(items) - 1}" if len(items) > 0 else "none"


def ceil_div(number: int, by: int) -> int:
    """Return the quotient, rounded up."""
    return (number + by - 1) // by


def element_count(shape: Sequence[int]) -> int:
    """The number of elements of a shape; -1 if a size is negative."""
    return prod(shape) if min((0, *shape)) == 0 else -1


def is_axis_list(axes: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether these are axes of the shape, in ascending order, with no negative size."""
    return all(
        (axes[k - 1] if k > 0 else -1) < axes[k] < len(shape) for k in range(len(axes))
    ) and all(shape[axis] >= 0 for axis in axes)


def reader_axes(field_map: FieldMap) -> Sequence[int]:
    """The axes of the reader that a field map's windows read along."""
    return [one.axis for one in field_map.windows if one.axis != -1]


def wrong_table_sizes(field_map: FieldMap) -> Sequence[int]:
    """The lengths of window tables that don't have one row per position of their axis."""
    return [
        len(one.table)
        for one in field_map.windows
        if len(one.table) > 0
        and (one.axis < 0 or len(one.table) != field_map.output_sizes[one.axis])
    ]


def field_map_indices(layer: Layer) -> Sequence[int]:
    """The indices of the field maps that a layer uses."""
    return [number for _, _, number in layer.dependencies]


def mismatched_inputs(step: Pass, values: Sequence[Value]) -> Sequence[int]:
    """The inputs of a pass whose value doesn't exist or is in another texture."""
    return [
        k
        for k, one in enumerate(step.input_values)
        if one != -1 and (not is_index(one, values) or values[one].texture != step.inputs[k])
    ]


def infer_picture_layout(shape: Sequence[int | None], dtype: str) -> PictureLayout | None:
    """The layout of an input that takes pictures; None for any other input."""
    return (
        None
        if len(shape) != 4 or 0 in shape
        else "NCHW"
        if shape[1] in PICTURE_CHANNELS and dtype in ("float32", "uint8")
        else "NHWC"
        if shape[3] in PICTURE_CHANNELS and dtype == "uint8"
        else None
    )


def strip_count(length: int, side: int, layout_side: int) -> int:
    """The number of strips that a length is cut into; 1 if the layout has no strips."""
    return ceil_div(length, side) if layout_side > 0 else 1


def layout_fits(words: Sequence[int], side: int, texture: Texture) -> bool:
    """Whether the words of a `Layout` (layout.py) describe an area inside the texture.

    Words 1 to 15 are c, h, w, the tile's width and height, tiles per row, groups of four channels,
    the block (3 words), the number of tiles, phases along y and x, and a phase area's width and
    height.
    """
    return (
        words[7] == ceil_div(words[1], 4)
        and words[6] * words[4] <= words[14]
        and ceil_div(words[11], words[6]) * words[5] <= words[15]
        and ceil_div(words[13] * words[14], strip_count(words[13] * words[14], texture.width, side))
        * strip_count(words[12] * words[15], texture.height, side)
        <= texture.width
        and ceil_div(
            words[12] * words[15], strip_count(words[12] * words[15], texture.height, side)
        )
        * strip_count(words[13] * words[14], texture.width, side)
        <= texture.height
        and words[8] * words[9] * words[10] <= texture.layers
    )


@dataclass(frozen=True)
class HeaderIndex:
    """A header, with the lookup tables that constraints use."""

    header: Header
    textures: Sequence[Texture]
    programs: Sequence[Program]
    values: Sequence[Value]
    inputs: Sequence[Input]
    value_indices: Mapping[str, int]  # value index by key; the last one if a key repeats
    input_keys: AbstractSet[str]
    pass_textures: AbstractSet[int]  # textures that passes write
    readback_textures: AbstractSet[int]  # textures that readbacks of values write
    input_textures: AbstractSet[int]  # textures that inputs write
    weight_textures: AbstractSet[int]  # textures that hold weights
    carry_targets: Sequence[int]  # the targets of carries
    section_pass_count: int  # the number of passes in all sections


def index_header(header: Header) -> HeaderIndex:
    """Build the lookup tables of a header."""
    return HeaderIndex(
        header=header,
        textures=header.textures,
        programs=header.programs,
        values=header.values,
        inputs=header.inputs,
        value_indices={value.key: k for k, value in enumerate(header.values)},
        input_keys={one.key for one in header.inputs},
        pass_textures={step.output for step in header.passes},
        readback_textures={
            *(value.readback.draw_pass.output for value in header.values),
            *(value.readback.draw_pass.output for value in header.parameters),
        },
        input_textures={
            *(one.staging for one in header.inputs),
            *(one.pack_pass.output for one in header.inputs),
        },
        weight_textures={weight.texture for weight in header.weights},
        carry_targets=[carry.target for carry in header.carries],
        section_pass_count=sum(section.count for section in header.sections),
    )


@dataclass(frozen=True, eq=False)
class RecordSet(Generic[Record]):
    """A selection of records of a header, and how messages name each record."""

    select: Callable[[Header], Sequence[Record]]
    label: Callable[[Header, int], str]


@dataclass(frozen=True)
class Constraint(Generic[Record]):
    """A row of the table: a condition on each of these records, and the message if it fails.

    Both are functions of the HeaderIndex and the record. `holds` also takes the record's index,
    `message` its label.
    """

    records: Sequence[RecordSet[Record]]
    holds: Callable[[HeaderIndex, int, Record], bool]
    message: Callable[[HeaderIndex, str, Record], str]


PLAN: RecordSet[Header] = RecordSet(lambda h: [h], lambda h, k: "the Plan")
TEXTURES: RecordSet[Texture] = RecordSet(lambda h: h.textures, lambda h, k: f"texture {k}")
PROGRAMS: RecordSet[Program] = RecordSet(
    lambda h: h.programs, lambda h, k: f"program {k} ({h.programs[k].name})"
)
PASSES: RecordSet[Pass] = RecordSet(lambda h: h.passes, lambda h, k: f"pass {k}")
SECTIONS: RecordSet[Section] = RecordSet(
    lambda h: h.sections, lambda h, k: f"section {quote(h.sections[k].name)}"
)
VALUES: RecordSet[Value] = RecordSet(
    lambda h: h.values, lambda h, k: f"value {quote(h.values[k].key)}"
)
PARAMETERS: RecordSet[Value] = RecordSet(
    lambda h: h.parameters, lambda h, k: f"parameter {quote(h.parameters[k].key)}"
)
INPUTS: RecordSet[Input] = RecordSet(
    lambda h: h.inputs, lambda h, k: f"input {quote(h.inputs[k].key)}"
)
WEIGHTS: RecordSet[Weight] = RecordSet(
    lambda h: h.weights, lambda h, k: f"weight {h.weights[k].hash}"
)
OUTPUTS: RecordSet[str] = RecordSet(
    lambda h: h.outputs, lambda h, k: f"output {quote(h.outputs[k])}"
)
CARRIES: RecordSet[Carry] = RecordSet(lambda h: h.carries, lambda h, k: f"carry {k}")
TOKENS: RecordSet[TokenGrid] = RecordSet(lambda h: h.tokens, lambda h, k: f"tokens {k}")
PAIRS: RecordSet[LayerPair] = RecordSet(
    lambda h: h.comparison.pairs, lambda h, k: f"a comparison of {quote(h.comparison.pairs[k].a)}"
)
FIELD_MAPS: RecordSet[FieldMap] = RecordSet(lambda h: h.field_maps, lambda h, k: f"field map {k}")
LAYERS: RecordSet[Layer] = RecordSet(
    lambda h: h.layers, lambda h, k: f"layer {quote(h.layers[k].name)}"
)
# The passes that read back a value or parameter, and the passes that write an input.
VALUE_READ_PASSES: RecordSet[Pass] = RecordSet(
    lambda h: [value.readback.draw_pass for value in h.values],
    lambda h, k: f"reading value {quote(h.values[k].key)}",
)
PARAMETER_READ_PASSES: RecordSet[Pass] = RecordSet(
    lambda h: [value.readback.draw_pass for value in h.parameters],
    lambda h, k: f"reading parameter {quote(h.parameters[k].key)}",
)
INPUT_PASSES: RecordSet[Pass] = RecordSet(
    lambda h: [one.pack_pass for one in h.inputs], lambda h, k: f"input {quote(h.inputs[k].key)}"
)
READ_PASSES: Sequence[RecordSet[Pass]] = (VALUE_READ_PASSES, PARAMETER_READ_PASSES)
ALL_PASSES: Sequence[RecordSet[Pass]] = (
    PASSES,
    VALUE_READ_PASSES,
    PARAMETER_READ_PASSES,
    INPUT_PASSES,
)
READABLE: Sequence[RecordSet[Value]] = (VALUES, PARAMETERS)

CONSTRAINTS = (
    Constraint(
        [PLAN],
        lambda f, k, h: h.batch >= 1,
        lambda f, it, h: f"{it} has a batch of {h.batch}; expected at least 1",
    ),
    Constraint(
        [PLAN],
        lambda f, k, h: h.uniform_bytes >= 0,
        lambda f, it, h: f"{it} has {h.uniform_bytes} bytes of uniforms",
    ),
    Constraint(
        [TEXTURES],
        lambda f, k, t: min(t.width, t.height, t.layers) >= 1,
        lambda f, it, t: f"{it} has no texels: its size is {t.width}×{t.height}×{t.layers}",
    ),
    Constraint(
        [PROGRAMS],
        lambda f, k, program: all(matches(IDENTIFIER, name) for name in program.samplers),
        lambda f, it, program: f"{it} has a wrong sampler name; expected a GLSL identifier",
    ),
    Constraint(
        [PROGRAMS],
        lambda f, k, program: program.targets >= 1,
        lambda f, it, program: f"{it} has no target: it has {program.targets} targets",
    ),
    # All passes, including those of readbacks and inputs.
    Constraint(
        ALL_PASSES,
        lambda f, k, step: is_index(step.program, f.programs),
        lambda f, it, step: (
            f"{it} names no program or output: program {step.program} of {format_range(f.programs)}"
        ),
    ),
    Constraint(
        ALL_PASSES,
        lambda f, k, step: is_index(step.output, f.textures),
        lambda f, it, step: (
            f"{it} names no program or output: texture {step.output} of {format_range(f.textures)}"
        ),
    ),
    Constraint(
        ALL_PASSES,
        lambda f, k, step: len(step.inputs) == len(f.programs[step.program].samplers),
        lambda f, it, step: (
            f"{it} has {len(step.inputs)} inputs; "
            f"its program takes {len(f.programs[step.program].samplers)}"
        ),
    ),
    Constraint(
        ALL_PASSES,
        lambda f, k, step: len(out_of_range(step.inputs, f.textures)) == 0,
        lambda f, it, step: (
            f"{it} reads a texture that does not exist: "
            f"{join_text(out_of_range(step.inputs, f.textures), ', ')} of "
            f"{format_range(f.textures)}"
        ),
    ),
    Constraint(
        ALL_PASSES,
        lambda f, k, step: step.output not in step.inputs,
        lambda f, it, step: f"{it} reads what it writes, texture {step.output}",
    ),
    Constraint(
        ALL_PASSES,
        lambda f, k, step: f.programs[step.program].targets == f.textures[step.output].layers,
        lambda f, it, step: (
            f"{it} writes {f.programs[step.program].targets} of "
            f"{f.textures[step.output].layers} layers"
        ),
    ),
    Constraint(
        ALL_PASSES,
        lambda f, k, step: min(step.viewport) >= 1,
        lambda f, it, step: f"{it} has an empty viewport of {join_text(step.viewport, '×')}",
    ),
    Constraint(
        ALL_PASSES,
        lambda f, k, step: (
            step.viewport[0] <= f.textures[step.output].width
            and step.viewport[1] <= f.textures[step.output].height
        ),
        lambda f, it, step: (
            f"{it} draws outside its output: a viewport of {join_text(step.viewport, '×')} in a "
            f"texture of {f.textures[step.output].width}×{f.textures[step.output].height}"
        ),
    ),
    Constraint(
        ALL_PASSES,
        lambda f, k, step: (
            step.uniforms >= 0
            and step.uniforms % ALIGNMENT_BYTES == 0
            and step.uniforms + UNIFORM_BYTES <= f.header.uniform_bytes
        ),
        lambda f, it, step: (
            f"{it} has its uniforms at {step.uniforms} of {f.header.uniform_bytes}; expected "
            f"{UNIFORM_BYTES} bytes at a multiple of {ALIGNMENT_BYTES}"
        ),
    ),
    Constraint(
        ALL_PASSES,
        lambda f, k, step: step.cost >= 0,
        lambda f, it, step: f"{it} costs {step.cost}; expected at least 0",
    ),
    # Sections cover the passes in order.
    Constraint(
        [PLAN],
        lambda f, k, h: 0 < len(h.sections) == len({section.name for section in h.sections}),
        lambda f, it, h: (
            "its sections are named "
            f"{join_text([section.name for section in h.sections], ', ') or 'nothing'}; each "
            "needs a unique name"
        ),
    ),
    Constraint(
        [SECTIONS],
        lambda f, k, section: (
            section.first == sum(one.count for one in f.header.sections[:k])
            and 0 <= section.count <= len(f.header.passes) - section.first
        ),
        lambda f, it, section: (
            f"{it} has {section.count} passes from {section.first} on of {len(f.header.passes)}; "
            "sections follow each other"
        ),
    ),
    Constraint(
        [PLAN],
        lambda f, k, h: f.section_pass_count == len(h.passes),
        lambda f, it, h: f"pass {f.section_pass_count} is in no section",
    ),
    Constraint(
        [PASSES],
        lambda f, k, step: (
            step.output not in f.input_textures and step.output not in f.weight_textures
        ),
        lambda f, it, step: f"{it} writes texture {step.output}, which an input or weight fills",
    ),
    # Values and parameters.
    Constraint(
        [VALUES],
        lambda f, k, value: f.value_indices.get(value.key, -1) == k,
        lambda f, it, value: f"{it} exists twice",
    ),
    Constraint(
        READABLE,
        lambda f, k, value: is_index(value.texture, f.textures),
        lambda f, it, value: (
            f"{it} has no texture: its index is {value.texture} of {format_range(f.textures)}"
        ),
    ),
    Constraint(
        READABLE,
        lambda f, k, value: len(value.layout_words) == LAYOUT_WORDS,
        lambda f, it, value: f"{it} has {len(value.layout_words)} layout words, not {LAYOUT_WORDS}",
    ),
    Constraint(
        READABLE,
        lambda f, k, value: min(value.layout_words) >= 1,
        lambda f, it, value: (
            f"{it} has an empty layout: each of its words "
            f"{join_text(value.layout_words, ', ')} is at least 1"
        ),
    ),
    Constraint(
        READ_PASSES,
        lambda f, k, step: f.textures[step.output].layers == 1,
        lambda f, it, step: (
            f"{it} writes several layers, {f.textures[step.output].layers}; a read has 1"
        ),
    ),
    Constraint(
        READABLE,
        lambda f, k, value: value.readback.count == element_count(value.shape),
        lambda f, it, value: (
            f"{it} reads {value.readback.count} elements; its shape is "
            f"{join_text(value.shape, '×')}"
        ),
    ),
    Constraint(
        READABLE,
        lambda f, k, value: (
            min(value.nchw) >= 1 and element_count(value.nchw) == max(1, value.readback.count)
        ),
        lambda f, it, value: (
            f"{it} is shown as {join_text(value.nchw, '×')}, and has "
            f"{value.readback.count} elements"
        ),
    ),
    Constraint(
        READABLE,
        lambda f, k, value: value.readback.count <= 4 * prod(value.readback.draw_pass.viewport),
        lambda f, it, value: (
            f"{it} reads more than it draws: {value.readback.count} elements of "
            f"{join_text(value.readback.draw_pass.viewport, '×')} texels"
        ),
    ),
    # A parameter is stored in its weight texture in the kernel's layout: it can be read back, but
    # not drawn.
    Constraint(
        [VALUES],
        lambda f, k, value: layout_fits(
            value.layout_words, value.layout.max_side, f.textures[value.texture]
        ),
        lambda f, it, value: (
            f"{it} does not fit its texture {value.texture}: its layout is "
            f"{join_text(value.layout_words, ', ')}"
        ),
    ),
    # Edits of values.
    Constraint(
        [VALUES],
        lambda f, k, value: (
            value.shares_edits_of == ""
            or (
                value.shares_edits_of in f.value_indices
                and f.values[f.value_indices.get(value.shares_edits_of, -1)].nchw[1]
                == value.nchw[1]
            )
        ),
        lambda f, it, value: (
            f"{it} is edited as {quote(value.shares_edits_of)}; expected a value of "
            f"{value.nchw[1]} channels"
        ),
    ),
    Constraint(
        [VALUES],
        lambda f, k, value: -2 <= value.edit_pass < len(f.header.passes),
        lambda f, it, value: (
            f"edits of {it} run after pass {value.edit_pass} of {format_range(f.header.passes)}"
        ),
    ),
    Constraint(
        [PASSES],
        lambda f, k, step: len(step.input_values) in (0, len(step.inputs)),
        lambda f, it, step: (
            f"{it} has {len(step.input_values)} values for {len(step.inputs)} inputs"
        ),
    ),
    Constraint(
        [PASSES],
        lambda f, k, step: len(mismatched_inputs(step, f.values)) == 0,
        lambda f, it, step: (
            f"{it} reads texture {step.inputs[mismatched_inputs(step, f.values)[0]]} as value "
            f"{step.input_values[mismatched_inputs(step, f.values)[0]]}, which is in another "
            "texture or does not exist"
        ),
    ),
    # Tokens.
    Constraint(
        [TOKENS],
        lambda f, k, tokens: tokens.input in f.input_keys and min(tokens.rows, tokens.columns) >= 1,
        lambda f, it, tokens: (
            f"{it} have {tokens.rows}×{tokens.columns} positions of {quote(tokens.input)}"
        ),
    ),
    Constraint(
        [TOKENS],
        lambda f, k, tokens: all(
            -1 <= place < tokens.rows * tokens.columns for place in tokens.positions
        ),
        lambda f, it, tokens: (
            f"{it} represent positions outside of their picture of {tokens.rows}×{tokens.columns}"
        ),
    ),
    Constraint(
        [VALUES],
        lambda f, k, value: all(
            number == -1
            or (
                is_index(number, f.header.tokens)
                and len(f.header.tokens[number].positions) == value.nchw[i + 2]
            )
            for i, number in enumerate(value.tokens)
        ),
        lambda f, it, value: (
            f"{it} has tokens that are not its own: {join_text(value.tokens, ', ')} of "
            f"{format_range(f.header.tokens)}"
        ),
    ),
    # Inputs and outputs.
    Constraint(
        [INPUTS],
        lambda f, k, one: is_index(one.staging, f.textures) and one.staging in one.pack_pass.inputs,
        lambda f, it, one: f"{it} does not read its staging texture {one.staging}",
    ),
    Constraint(
        [INPUTS],
        lambda f, k, one: one.dtype in DTYPES,
        lambda f, it, one: f"{it} is of {quote(one.dtype)}, not of {join_text(DTYPES, ', ')}",
    ),
    Constraint(
        [INPUTS],
        lambda f, k, one: element_count(one.shape) >= 0,
        lambda f, it, one: f"{it} has a wrong shape, {join_text(one.shape, '×')}",
    ),
    Constraint(
        [INPUTS],
        lambda f, k, one: f.textures[one.staging].layers == 1,
        lambda f, it, one: f"{it} has several staging layers, {f.textures[one.staging].layers}",
    ),
    Constraint(
        [INPUTS],
        lambda f, k, one: (
            element_count(one.shape)
            <= 4 * f.textures[one.staging].width * f.textures[one.staging].height
        ),
        lambda f, it, one: (
            f"{it} does not fit its staging texture: {join_text(one.shape, '×')} elements in "
            f"{f.textures[one.staging].width}×{f.textures[one.staging].height} texels"
        ),
    ),
    Constraint(
        [INPUTS],
        lambda f, k, one: is_axis_list(one.position_axes, one.shape),
        lambda f, it, one: (
            f"{it} has positions along axes {join_text(one.position_axes, ',')}; expected "
            f"ascending axes of {join_text(one.shape, '×')}"
        ),
    ),
    Constraint(
        [INPUTS],
        lambda f, k, one: k == 0 or one.layer >= 0 or f.inputs[k - 1].layer < 0,
        lambda f, it, one: f"{it} is after an input that Python computes",
    ),
    Constraint(
        [INPUTS],
        lambda f, k, one: (
            one.layer < 0
            or (is_index(one.layer, f.header.layers) and f.header.layers[one.layer].python != "")
        ),
        lambda f, it, one: f"{it} is of layer {one.layer}, which Python doesn't compute",
    ),
    Constraint(
        [INPUTS],
        lambda f, k, one: (
            one.fit == ""
            or (
                infer_picture_layout(one.shape, one.dtype) == one.layout
                and one.layer < 0 < one.crop_fraction <= 1
            )
        ),
        lambda f, it, one: (
            f"{it} of {join_text(one.shape, '×')} and {one.dtype} takes no pictures in {one.layout}"
        ),
    ),
    Constraint(
        [OUTPUTS],
        lambda f, k, key: key in f.value_indices,
        lambda f, it, key: f"{it} is not a value",
    ),
    Constraint(
        [PAIRS],
        lambda f, k, pair: (
            pair.a in f.value_indices
            and pair.b in f.value_indices
            and pair.difference in f.value_indices
            and f.header.comparison.table in f.value_indices
            and len(f.values[f.value_indices.get(f.header.comparison.table, -1)].shape) >= 2
            and pair.row >= 0
            and 3 * pair.row < f.values[f.value_indices.get(f.header.comparison.table, -1)].shape[1]
        ),
        lambda f, it, pair: (
            f"{it} names a value that does not exist: {quote(pair.b)}, {quote(pair.difference)}, "
            f"row {pair.row} of {quote(f.header.comparison.table)}"
        ),
    ),
    # Field maps, and the dependencies of layers.
    Constraint(
        [FIELD_MAPS],
        lambda f, k, field_map: 0 <= element_count(field_map.output_sizes) <= MAX_POSITIONS,
        lambda f, it, field_map: (
            f"{it} has {element_count(field_map.output_sizes)} positions of its reader, "
            f"{join_text(field_map.output_sizes, '×')}; at most {MAX_POSITIONS} are supported"
        ),
    ),
    Constraint(
        [FIELD_MAPS],
        lambda f, k, field_map: 0 <= element_count(field_map.input_sizes) <= MAX_POSITIONS,
        lambda f, it, field_map: (
            f"{it} has {element_count(field_map.input_sizes)} positions of its source, "
            f"{join_text(field_map.input_sizes, '×')}; at most {MAX_POSITIONS} are supported"
        ),
    ),
    Constraint(
        [FIELD_MAPS],
        lambda f, k, field_map: len(field_map.windows) == len(field_map.input_sizes),
        lambda f, it, field_map: (
            f"{it} has {len(field_map.windows)} axes for positions "
            f"{join_text(field_map.input_sizes, '×')}"
        ),
    ),
    Constraint(
        [FIELD_MAPS],
        lambda f, k, field_map: (
            len(out_of_range(reader_axes(field_map), field_map.output_sizes)) == 0
        ),
        lambda f, it, field_map: (
            f"{it} reads along axis "
            f"{join_text(out_of_range(reader_axes(field_map), field_map.output_sizes), ', ')} of "
            f"{format_range(field_map.output_sizes)}"
        ),
    ),
    Constraint(
        [FIELD_MAPS],
        lambda f, k, field_map: len(set(reader_axes(field_map))) == len(reader_axes(field_map)),
        lambda f, it, field_map: (
            f"{it} names an axis twice: {join_text(reader_axes(field_map), ', ')}"
        ),
    ),
    Constraint(
        [FIELD_MAPS],
        lambda f, k, field_map: all(1 <= one.kernel <= MAX_POSITIONS for one in field_map.windows),
        lambda f, it, field_map: (
            f"{it} has a window of {join_text([one.kernel for one in field_map.windows], '×')}"
        ),
    ),
    Constraint(
        [FIELD_MAPS],
        lambda f, k, field_map: len(wrong_table_sizes(field_map)) == 0,
        lambda f, it, field_map: (
            f"{it} has {join_text(wrong_table_sizes(field_map), ', ')} rows for positions "
            f"{join_text(field_map.output_sizes, '×')}"
        ),
    ),
    Constraint(
        [FIELD_MAPS],
        lambda f, k, field_map: all(
            0 <= place < field_map.input_sizes[i]
            for i, one in enumerate(field_map.windows)
            for row in one.table
            for place in row
        ),
        lambda f, it, field_map: (
            f"{it} reads outside of its source of {join_text(field_map.input_sizes, '×')}"
        ),
    ),
    Constraint(
        [LAYERS],
        lambda f, k, layer: is_axis_list(layer.position_axes, layer.output_shape),
        lambda f, it, layer: (
            f"{it} has positions along axes {join_text(layer.position_axes, ',')}; expected "
            f"ascending axes of {join_text(layer.output_shape, '×')}"
        ),
    ),
    Constraint(
        [LAYERS],
        lambda f, k, layer: len(out_of_range(field_map_indices(layer), f.header.field_maps)) == 0,
        lambda f, it, layer: (
            f"{it} reads by field map "
            f"{join_text(out_of_range(field_map_indices(layer), f.header.field_maps), ', ')} of "
            f"{format_range(f.header.field_maps)}"
        ),
    ),
    # State that persists between runs.
    Constraint(
        [CARRIES],
        lambda f, k, one: is_index(one.source, f.textures) and is_index(one.target, f.textures),
        lambda f, it, one: (
            f"{it} names a texture that does not exist: from {one.source} to {one.target} of "
            f"{format_range(f.textures)}"
        ),
    ),
    Constraint(
        [CARRIES],
        lambda f, k, one: (
            f.textures[one.source].width == f.textures[one.target].width
            and f.textures[one.source].height == f.textures[one.target].height
            and f.textures[one.source].layers == f.textures[one.target].layers
            and f.textures[one.source].format == f.textures[one.target].format
        ),
        lambda f, it, one: (
            f"{it} goes from a texture to one of another size or format: from {one.source} to "
            f"{one.target}"
        ),
    ),
    Constraint(
        [CARRIES],
        lambda f, k, one: one.source in f.pass_textures,
        lambda f, it, one: f"no pass writes the source of {it}, texture {one.source}",
    ),
    Constraint(
        [CARRIES],
        lambda f, k, one: (
            one.target not in f.pass_textures
            and one.target not in f.input_textures
            and one.target not in f.readback_textures
            and one.source not in f.readback_textures
        ),
        lambda f, it, one: f"something else writes a texture of {it}, {one.source} or {one.target}",
    ),
    Constraint(
        [CARRIES],
        lambda f, k, one: f.carry_targets.index(one.target) == k,
        lambda f, it, one: f"{it} has the target of another one, texture {one.target}",
    ),
    Constraint(
        [CARRIES],
        lambda f, k, one: one.target in f.weight_textures,
        lambda f, it, one: f"the target of {it} has no contents at first, texture {one.target}",
    ),
    Constraint(
        [WEIGHTS],
        lambda f, k, weight: matches(HASH, weight.hash),
        lambda f, it, weight: f"a weight has no hash, but {quote(weight.hash)}",
    ),
    Constraint(
        [WEIGHTS],
        lambda f, k, weight: is_index(weight.texture, f.textures),
        lambda f, it, weight: (
            f"{it} has no texture: its index is {weight.texture} of {format_range(f.textures)}"
        ),
    ),
)


def broken_constraint(header: Header) -> str | None:
    """The message of the first constraint that a header violates; None if all hold."""
    header_index = index_header(header)
    found: dict[RecordSet[Any], Sequence[Any]] = {}
    rows: Sequence[Constraint[Any]] = CONSTRAINTS
    for holds, says, records in (
        (row.holds, row.message, one) for row in rows for one in row.records
    ):
        if records not in found:
            found[records] = records.select(header)
        for k, record in enumerate(found[records]):
            if not holds(header_index, k, record):
                return says(header_index, records.label(header, k), record)
    return None
