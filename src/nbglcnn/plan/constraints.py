"""The constraints of a Plan's header, as one table for the readers in both languages.

Readers check the rows in order, each for all of its records, and refuse the Plan at the first one
that doesn't hold: a row may index by what the rows before it have checked. Python calls the table's
functions; `scripts/generate_types.py` translates this file into `js/src/plan/constraints.ts`, so a
function here is a single expression. Checks that need loops of their own are in
`dependencies.py`.
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
    from nbglcnn.plan.layers import Layer, Pair, Reach, Tokens
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

# Of every blob in the file, and of each pass's uniforms: WebGL 2's largest offset alignment.
ALIGN = 256
UNIFORM_BYTES = 512  # of one pass's uniform block, as ops/shaders/prelude.glsl declares it
LAYOUT_WORDS = 16
MOST_PLACES = 2**28  # of a reach, each told apart by a number: a longer signal would take seconds
PICTURE_CHANNELS = (1, 3, 4)  # grey, RGB, RGBA
DTYPES = (
    *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"),
    *("float16", "float32", "float64"),
)
IDENTIFIER = "[a-zA-Z_][a-zA-Z0-9_]{0,63}"
HASH = "[0-9a-f]{32}"


# The functions that rows use. TypeScript has those of `PRIMITIVES` in constraint_table.ts.


def quoted(text: str) -> str:
    """Text as JSON has it."""
    return json.dumps(text, ensure_ascii=False)


def matches(pattern: str, text: str) -> bool:
    """Whether all of the text matches."""
    return _compiled(pattern).fullmatch(text) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def joined(items: Sequence[object], by: str) -> str:
    """The items in words, with `by` between them."""
    return by.join(map(str, items))


PRIMITIVES = (quoted, matches, joined, prod)


def is_index(number: int, items: Sequence[object]) -> bool:
    """Whether it is an index into a list."""
    return 0 <= number < len(items)


def outside(numbers: Sequence[int], items: Sequence[object]) -> Sequence[int]:
    """The numbers that are no index into a list."""
    return [number for number in numbers if not 0 <= number < len(items)]


def range_of(items: Sequence[object]) -> str:
    """The indices of a list, in words."""
    return f"0 to {len(items) - 1}" if len(items) > 0 else "none"


def ceil_div(number: int, by: int) -> int:
    """The quotient, rounded up."""
    return (number + by - 1) // by


def elements(shape: Sequence[int]) -> int:
    """How many elements a shape has; -1 where a size is negative."""
    return prod(shape) if min((0, *shape)) == 0 else -1


def is_axes(axes: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether they are axes of a shape, in ascending order."""
    return all(
        (axes[k - 1] if k > 0 else -1) < axes[k] < len(shape) for k in range(len(axes))
    ) and all(shape[axis] >= 0 for axis in axes)


def axes_of(reach: Reach) -> Sequence[int]:
    """The axes of the reader that a reach reads along."""
    return [one.axis for one in reach.axes if one.axis != -1]


def wrong_tables(reach: Reach) -> Sequence[int]:
    """The lengths of tables that don't have a row for each place along their axis."""
    return [
        len(one.table)
        for one in reach.axes
        if len(one.table) > 0 and (one.axis < 0 or len(one.table) != reach.reader[one.axis])
    ]


def reaches_of(layer: Layer) -> Sequence[int]:
    """The numbers of the reaches that a layer reads by."""
    return [number for _, _, number in layer.reads]


def misread(step: Pass, values: Sequence[Value]) -> Sequence[int]:
    """Which inputs of a pass are read as a value that isn't there or lies in another texture."""
    return [
        k
        for k, one in enumerate(step.values)
        if one != -1 and (not is_index(one, values) or values[one].texture != step.inputs[k])
    ]


def layout_of(shape: Sequence[int | None], dtype: str) -> PictureLayout | None:
    """The layout of an input that takes pictures, if it takes any."""
    return (
        None
        if len(shape) != 4 or 0 in shape
        else "NCHW"
        if shape[1] in PICTURE_CHANNELS and dtype in ("float32", "uint8")
        else "NHWC"
        if shape[3] in PICTURE_CHANNELS and dtype == "uint8"
        else None
    )


def strips(length: int, side: int, layout_side: int) -> int:
    """Into how many strips a layout cuts a length, for a texture of this side."""
    return ceil_div(length, side) if layout_side > 0 else 1


def fits(words: Sequence[int], side: int, texture: Texture) -> bool:
    """Whether the words of layout.py's Layout, in its order, describe an area in the texture.

    Words 1 to 15 are c, h, w, a tile's width and height, tiles side by side, groups of four
    channels, the block, tiles, phases along y and x, and a phase's width and height.
    """
    return (
        words[7] == ceil_div(words[1], 4)
        and words[6] * words[4] <= words[14]
        and ceil_div(words[11], words[6]) * words[5] <= words[15]
        and ceil_div(words[13] * words[14], strips(words[13] * words[14], texture.width, side))
        * strips(words[12] * words[15], texture.height, side)
        <= texture.width
        and ceil_div(words[12] * words[15], strips(words[12] * words[15], texture.height, side))
        * strips(words[13] * words[14], texture.width, side)
        <= texture.height
        and words[8] * words[9] * words[10] <= texture.layers
    )


@dataclass(frozen=True)
class Facts:
    """A header, and what rows look up in it."""

    header: Header
    textures: Sequence[Texture]
    programs: Sequence[Program]
    values: Sequence[Value]
    inputs: Sequence[Input]
    value_of: Mapping[str, int]  # a value's number by its key; of two, the last one's
    input_keys: AbstractSet[str]
    written: AbstractSet[int]  # textures that passes write
    read: AbstractSet[int]  # textures that reading a value writes
    fed: AbstractSet[int]  # textures that inputs write
    filled: AbstractSet[int]  # textures that weights fill
    carried: Sequence[int]  # the targets of carries
    in_sections: int  # how many passes


def facts_of(header: Header) -> Facts:
    """What rows look up."""
    return Facts(
        header=header,
        textures=header.textures,
        programs=header.programs,
        values=header.values,
        inputs=header.inputs,
        value_of={value.key: k for k, value in enumerate(header.values)},
        input_keys={one.key for one in header.inputs},
        written={step.output for step in header.passes},
        read={
            *(value.read.step.output for value in header.values),
            *(value.read.step.output for value in header.parameters),
        },
        fed={
            *(one.staging for one in header.inputs),
            *(one.step.output for one in header.inputs),
        },
        filled={weight.texture for weight in header.weights},
        carried=[carry.target for carry in header.carries],
        in_sections=sum(section.count for section in header.sections),
    )


@dataclass(frozen=True, eq=False)
class Records(Generic[Record]):
    """Records of a header, and what messages call each."""

    of: Callable[[Header], Sequence[Record]]
    name: Callable[[Header, int], str]


@dataclass(frozen=True)
class Constraint(Generic[Record]):
    """A row: what holds of each of these records, or what a message says, which begins with it.

    Both are functions of the facts and the record; `holds` takes its number too, `says` its name.
    """

    records: Sequence[Records[Record]]
    holds: Callable[[Facts, int, Record], bool]
    says: Callable[[Facts, str, Record], str]


PLAN: Records[Header] = Records(lambda h: [h], lambda h, k: "the Plan")
TEXTURES: Records[Texture] = Records(lambda h: h.textures, lambda h, k: f"texture {k}")
PROGRAMS: Records[Program] = Records(
    lambda h: h.programs, lambda h, k: f"program {k} ({h.programs[k].name})"
)
PASSES: Records[Pass] = Records(lambda h: h.passes, lambda h, k: f"pass {k}")
SECTIONS: Records[Section] = Records(
    lambda h: h.sections, lambda h, k: f"section {quoted(h.sections[k].name)}"
)
VALUES: Records[Value] = Records(
    lambda h: h.values, lambda h, k: f"value {quoted(h.values[k].key)}"
)
PARAMETERS: Records[Value] = Records(
    lambda h: h.parameters, lambda h, k: f"parameter {quoted(h.parameters[k].key)}"
)
INPUTS: Records[Input] = Records(
    lambda h: h.inputs, lambda h, k: f"input {quoted(h.inputs[k].key)}"
)
WEIGHTS: Records[Weight] = Records(lambda h: h.weights, lambda h, k: f"weight {h.weights[k].hash}")
OUTPUTS: Records[str] = Records(lambda h: h.outputs, lambda h, k: f"output {quoted(h.outputs[k])}")
CARRIES: Records[Carry] = Records(lambda h: h.carries, lambda h, k: f"carry {k}")
TOKENS: Records[Tokens] = Records(lambda h: h.tokens, lambda h, k: f"tokens {k}")
PAIRS: Records[Pair] = Records(
    lambda h: h.comparison.pairs, lambda h, k: f"a comparison of {quoted(h.comparison.pairs[k].a)}"
)
REACHES: Records[Reach] = Records(lambda h: h.reaches, lambda h, k: f"reach {k}")
LAYERS: Records[Layer] = Records(
    lambda h: h.layers, lambda h, k: f"layer {quoted(h.layers[k].name)}"
)
# The passes that read a value or parameter, and that write an input.
READS_OF_VALUES: Records[Pass] = Records(
    lambda h: [value.read.step for value in h.values],
    lambda h, k: f"reading value {quoted(h.values[k].key)}",
)
READS_OF_PARAMETERS: Records[Pass] = Records(
    lambda h: [value.read.step for value in h.parameters],
    lambda h, k: f"reading parameter {quoted(h.parameters[k].key)}",
)
STEPS_OF_INPUTS: Records[Pass] = Records(
    lambda h: [one.step for one in h.inputs], lambda h, k: f"input {quoted(h.inputs[k].key)}"
)
READS: Sequence[Records[Pass]] = (READS_OF_VALUES, READS_OF_PARAMETERS)
STEPS: Sequence[Records[Pass]] = (PASSES, READS_OF_VALUES, READS_OF_PARAMETERS, STEPS_OF_INPUTS)
READABLE: Sequence[Records[Value]] = (VALUES, PARAMETERS)

CONSTRAINTS = (
    Constraint(
        [PLAN],
        lambda f, k, h: h.batch >= 1,
        lambda f, it, h: f"{it} has a batch of {h.batch}; at least 1 is needed",
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
        lambda f, it, program: f"{it} has a wrong sampler name; a GLSL identifier is needed",
    ),
    Constraint(
        [PROGRAMS],
        lambda f, k, program: program.targets >= 1,
        lambda f, it, program: f"{it} has no target: its number of targets is {program.targets}",
    ),
    # Passes, also those that read values and write inputs.
    Constraint(
        STEPS,
        lambda f, k, step: is_index(step.program, f.programs),
        lambda f, it, step: (
            f"{it} names no program or output: program {step.program} of {range_of(f.programs)}"
        ),
    ),
    Constraint(
        STEPS,
        lambda f, k, step: is_index(step.output, f.textures),
        lambda f, it, step: (
            f"{it} names no program or output: texture {step.output} of {range_of(f.textures)}"
        ),
    ),
    Constraint(
        STEPS,
        lambda f, k, step: len(step.inputs) == len(f.programs[step.program].samplers),
        lambda f, it, step: (
            f"{it} has {len(step.inputs)} inputs; "
            f"its program takes {len(f.programs[step.program].samplers)}"
        ),
    ),
    Constraint(
        STEPS,
        lambda f, k, step: len(outside(step.inputs, f.textures)) == 0,
        lambda f, it, step: (
            f"{it} reads a texture that is not there: "
            f"{joined(outside(step.inputs, f.textures), ', ')} of {range_of(f.textures)}"
        ),
    ),
    Constraint(
        STEPS,
        lambda f, k, step: step.output not in step.inputs,
        lambda f, it, step: f"{it} reads what it writes, texture {step.output}",
    ),
    Constraint(
        STEPS,
        lambda f, k, step: f.programs[step.program].targets == f.textures[step.output].layers,
        lambda f, it, step: (
            f"{it} writes {f.programs[step.program].targets} of "
            f"{f.textures[step.output].layers} layers"
        ),
    ),
    Constraint(
        STEPS,
        lambda f, k, step: min(step.viewport) >= 1,
        lambda f, it, step: f"{it} has an empty viewport of {joined(step.viewport, '×')}",
    ),
    Constraint(
        STEPS,
        lambda f, k, step: (
            step.viewport[0] <= f.textures[step.output].width
            and step.viewport[1] <= f.textures[step.output].height
        ),
        lambda f, it, step: (
            f"{it} draws outside its output: a viewport of {joined(step.viewport, '×')} in a "
            f"texture of {f.textures[step.output].width}×{f.textures[step.output].height}"
        ),
    ),
    Constraint(
        STEPS,
        lambda f, k, step: (
            step.uniforms >= 0
            and step.uniforms % ALIGN == 0
            and step.uniforms + UNIFORM_BYTES <= f.header.uniform_bytes
        ),
        lambda f, it, step: (
            f"{it} has its uniforms at {step.uniforms} of {f.header.uniform_bytes}; "
            f"{UNIFORM_BYTES} bytes at a multiple of {ALIGN} are needed"
        ),
    ),
    Constraint(
        STEPS,
        lambda f, k, step: step.cost >= 0,
        lambda f, it, step: f"{it} costs {step.cost}; 0 or more is needed",
    ),
    # Sections cover the passes in order.
    Constraint(
        [PLAN],
        lambda f, k, h: 0 < len(h.sections) == len({section.name for section in h.sections}),
        lambda f, it, h: (
            "its sections are called "
            f"{joined([section.name for section in h.sections], ', ') or 'nothing'}; "
            "each needs a name of its own"
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
        lambda f, k, h: f.in_sections == len(h.passes),
        lambda f, it, h: f"pass {f.in_sections} is in no section",
    ),
    Constraint(
        [PASSES],
        lambda f, k, step: step.output not in f.fed and step.output not in f.filled,
        lambda f, it, step: f"{it} writes texture {step.output}, which an input or weight fills",
    ),
    # Values and parameters.
    Constraint(
        [VALUES],
        lambda f, k, value: f.value_of.get(value.key, -1) == k,
        lambda f, it, value: f"{it} is there twice",
    ),
    Constraint(
        READABLE,
        lambda f, k, value: is_index(value.texture, f.textures),
        lambda f, it, value: (
            f"{it} has no texture: its number is {value.texture} of {range_of(f.textures)}"
        ),
    ),
    Constraint(
        READABLE,
        lambda f, k, value: len(value.words) == LAYOUT_WORDS,
        lambda f, it, value: f"{it} has {len(value.words)} layout words, not {LAYOUT_WORDS}",
    ),
    Constraint(
        READABLE,
        lambda f, k, value: min(value.words) >= 1,
        lambda f, it, value: (
            f"{it} has an empty layout: each of its words {joined(value.words, ', ')} is at least 1"
        ),
    ),
    Constraint(
        READS,
        lambda f, k, step: f.textures[step.output].layers == 1,
        lambda f, it, step: (
            f"{it} writes several layers, {f.textures[step.output].layers}; a read has 1"
        ),
    ),
    Constraint(
        READABLE,
        lambda f, k, value: value.read.count == elements(value.shape),
        lambda f, it, value: (
            f"{it} reads {value.read.count} elements; its shape is {joined(value.shape, '×')}"
        ),
    ),
    Constraint(
        READABLE,
        lambda f, k, value: (
            min(value.nchw) >= 1 and elements(value.nchw) == max(1, value.read.count)
        ),
        lambda f, it, value: (
            f"{it} is shown as {joined(value.nchw, '×')}, and has {value.read.count} elements"
        ),
    ),
    Constraint(
        READABLE,
        lambda f, k, value: value.read.count <= 4 * prod(value.read.step.viewport),
        lambda f, it, value: (
            f"{it} reads more than it draws: {value.read.count} elements of "
            f"{joined(value.read.step.viewport, '×')} texels"
        ),
    ),
    # A parameter lies in its weight texture as a kernel wants it: it can be read, not drawn.
    Constraint(
        [VALUES],
        lambda f, k, value: fits(value.words, value.layout.side, f.textures[value.texture]),
        lambda f, it, value: (
            f"{it} does not fit its texture {value.texture}: its layout is "
            f"{joined(value.words, ', ')}"
        ),
    ),
    # Edits of values.
    Constraint(
        [VALUES],
        lambda f, k, value: (
            value.edited_as == ""
            or (
                value.edited_as in f.value_of
                and f.values[f.value_of.get(value.edited_as, -1)].nchw[1] == value.nchw[1]
            )
        ),
        lambda f, it, value: (
            f"{it} is edited as {quoted(value.edited_as)}; a value of {value.nchw[1]} channels is "
            "needed"
        ),
    ),
    Constraint(
        [VALUES],
        lambda f, k, value: -2 <= value.after < len(f.header.passes),
        lambda f, it, value: (
            f"edits of {it} run behind pass {value.after} of {range_of(f.header.passes)}"
        ),
    ),
    Constraint(
        [PASSES],
        lambda f, k, step: len(step.values) in (0, len(step.inputs)),
        lambda f, it, step: f"{it} has {len(step.values)} values for {len(step.inputs)} inputs",
    ),
    Constraint(
        [PASSES],
        lambda f, k, step: len(misread(step, f.values)) == 0,
        lambda f, it, step: (
            f"{it} reads texture {step.inputs[misread(step, f.values)[0]]} as value "
            f"{step.values[misread(step, f.values)[0]]}, which lies in another or is not there"
        ),
    ),
    # Tokens.
    Constraint(
        [TOKENS],
        lambda f, k, tokens: tokens.input in f.input_keys and min(tokens.rows, tokens.columns) >= 1,
        lambda f, it, tokens: (
            f"{it} have {tokens.rows}×{tokens.columns} places of {quoted(tokens.input)}"
        ),
    ),
    Constraint(
        [TOKENS],
        lambda f, k, tokens: all(
            -1 <= place < tokens.rows * tokens.columns for place in tokens.places
        ),
        lambda f, it, tokens: (
            f"{it} stand for places outside of their picture of {tokens.rows}×{tokens.columns}"
        ),
    ),
    Constraint(
        [VALUES],
        lambda f, k, value: all(
            number == -1
            or (
                is_index(number, f.header.tokens)
                and len(f.header.tokens[number].places) == value.nchw[i + 2]
            )
            for i, number in enumerate(value.tokens)
        ),
        lambda f, it, value: (
            f"{it} has tokens that are not its own: {joined(value.tokens, ', ')} of "
            f"{range_of(f.header.tokens)}"
        ),
    ),
    # Inputs and outputs.
    Constraint(
        [INPUTS],
        lambda f, k, one: is_index(one.staging, f.textures) and one.staging in one.step.inputs,
        lambda f, it, one: f"{it} does not read its staging texture {one.staging}",
    ),
    Constraint(
        [INPUTS],
        lambda f, k, one: one.dtype in DTYPES,
        lambda f, it, one: f"{it} is of {quoted(one.dtype)}, not of {joined(DTYPES, ', ')}",
    ),
    Constraint(
        [INPUTS],
        lambda f, k, one: elements(one.shape) >= 0,
        lambda f, it, one: f"{it} has a wrong shape, {joined(one.shape, '×')}",
    ),
    Constraint(
        [INPUTS],
        lambda f, k, one: f.textures[one.staging].layers == 1,
        lambda f, it, one: f"{it} has several staging layers, {f.textures[one.staging].layers}",
    ),
    Constraint(
        [INPUTS],
        lambda f, k, one: (
            elements(one.shape)
            <= 4 * f.textures[one.staging].width * f.textures[one.staging].height
        ),
        lambda f, it, one: (
            f"{it} does not fit its staging texture: {joined(one.shape, '×')} elements in "
            f"{f.textures[one.staging].width}×{f.textures[one.staging].height} texels"
        ),
    ),
    Constraint(
        [INPUTS],
        lambda f, k, one: is_axes(one.places, one.shape),
        lambda f, it, one: (
            f"{it} has places along {joined(one.places, ',')}; ascending axes of "
            f"{joined(one.shape, '×')} are needed"
        ),
    ),
    Constraint(
        [INPUTS],
        lambda f, k, one: k == 0 or one.layer >= 0 or f.inputs[k - 1].layer < 0,
        lambda f, it, one: f"{it} stands behind what Python computes",
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
            or (layout_of(one.shape, one.dtype) == one.layout and one.layer < 0 < one.share <= 1)
        ),
        lambda f, it, one: (
            f"{it} of {joined(one.shape, '×')} and {one.dtype} takes no pictures in {one.layout}"
        ),
    ),
    Constraint(
        [OUTPUTS],
        lambda f, k, key: key in f.value_of,
        lambda f, it, key: f"{it} is no value",
    ),
    Constraint(
        [PAIRS],
        lambda f, k, pair: (
            pair.a in f.value_of
            and pair.b in f.value_of
            and pair.difference in f.value_of
            and f.header.comparison.table in f.value_of
            and len(f.values[f.value_of.get(f.header.comparison.table, -1)].shape) >= 2
            and pair.row >= 0
            and 3 * pair.row < f.values[f.value_of.get(f.header.comparison.table, -1)].shape[1]
        ),
        lambda f, it, pair: (
            f"{it} is none of values: {quoted(pair.b)}, {quoted(pair.difference)}, row {pair.row} "
            f"of {quoted(f.header.comparison.table)}"
        ),
    ),
    # Reaches, and where layers read.
    Constraint(
        [REACHES],
        lambda f, k, reach: 0 <= elements(reach.reader) <= MOST_PLACES,
        lambda f, it, reach: (
            f"{it} has {elements(reach.reader)} places of its reader, {joined(reach.reader, '×')}; "
            f"at most {MOST_PLACES} are possible"
        ),
    ),
    Constraint(
        [REACHES],
        lambda f, k, reach: 0 <= elements(reach.source) <= MOST_PLACES,
        lambda f, it, reach: (
            f"{it} has {elements(reach.source)} places of its source, {joined(reach.source, '×')}; "
            f"at most {MOST_PLACES} are possible"
        ),
    ),
    Constraint(
        [REACHES],
        lambda f, k, reach: len(reach.axes) == len(reach.source),
        lambda f, it, reach: (
            f"{it} has {len(reach.axes)} axes of places {joined(reach.source, '×')}"
        ),
    ),
    Constraint(
        [REACHES],
        lambda f, k, reach: len(outside(axes_of(reach), reach.reader)) == 0,
        lambda f, it, reach: (
            f"{it} reads along axis {joined(outside(axes_of(reach), reach.reader), ', ')} of "
            f"{range_of(reach.reader)}"
        ),
    ),
    Constraint(
        [REACHES],
        lambda f, k, reach: len(set(axes_of(reach))) == len(axes_of(reach)),
        lambda f, it, reach: f"{it} names an axis twice: {joined(axes_of(reach), ', ')}",
    ),
    Constraint(
        [REACHES],
        lambda f, k, reach: all(1 <= one.kernel <= MOST_PLACES for one in reach.axes),
        lambda f, it, reach: (
            f"{it} has a window of {joined([one.kernel for one in reach.axes], '×')}"
        ),
    ),
    Constraint(
        [REACHES],
        lambda f, k, reach: len(wrong_tables(reach)) == 0,
        lambda f, it, reach: (
            f"{it} has {joined(wrong_tables(reach), ', ')} rows for places "
            f"{joined(reach.reader, '×')}"
        ),
    ),
    Constraint(
        [REACHES],
        lambda f, k, reach: all(
            0 <= place < reach.source[i]
            for i, one in enumerate(reach.axes)
            for row in one.table
            for place in row
        ),
        lambda f, it, reach: f"{it} reads outside of its source of {joined(reach.source, '×')}",
    ),
    Constraint(
        [LAYERS],
        lambda f, k, layer: is_axes(layer.places, layer.output_shape),
        lambda f, it, layer: (
            f"{it} has places along axes {joined(layer.places, ',')}; ascending axes of "
            f"{joined(layer.output_shape, '×')} are needed"
        ),
    ),
    Constraint(
        [LAYERS],
        lambda f, k, layer: len(outside(reaches_of(layer), f.header.reaches)) == 0,
        lambda f, it, layer: (
            f"{it} reads by reach {joined(outside(reaches_of(layer), f.header.reaches), ', ')} of "
            f"{range_of(f.header.reaches)}"
        ),
    ),
    # State that lives over runs.
    Constraint(
        [CARRIES],
        lambda f, k, one: is_index(one.source, f.textures) and is_index(one.target, f.textures),
        lambda f, it, one: (
            f"{it} names a texture that is not there: from {one.source} to {one.target} of "
            f"{range_of(f.textures)}"
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
        lambda f, k, one: one.source in f.written,
        lambda f, it, one: f"no pass writes the source of {it}, texture {one.source}",
    ),
    Constraint(
        [CARRIES],
        lambda f, k, one: (
            one.target not in f.written
            and one.target not in f.fed
            and one.target not in f.read
            and one.source not in f.read
        ),
        lambda f, it, one: f"something else writes a texture of {it}, {one.source} or {one.target}",
    ),
    Constraint(
        [CARRIES],
        lambda f, k, one: f.carried.index(one.target) == k,
        lambda f, it, one: f"{it} has the target of another one, texture {one.target}",
    ),
    Constraint(
        [CARRIES],
        lambda f, k, one: one.target in f.filled,
        lambda f, it, one: f"the target of {it} has no contents at first, texture {one.target}",
    ),
    Constraint(
        [WEIGHTS],
        lambda f, k, weight: matches(HASH, weight.hash),
        lambda f, it, weight: f"a weight has no hash, but {quoted(weight.hash)}",
    ),
    Constraint(
        [WEIGHTS],
        lambda f, k, weight: is_index(weight.texture, f.textures),
        lambda f, it, weight: (
            f"{it} has no texture: its number is {weight.texture} of {range_of(f.textures)}"
        ),
    ),
)


def broken_constraint(header: Header) -> str | None:
    """The message of the first row that doesn't hold of a header; None where all do."""
    facts = facts_of(header)
    found: dict[Records[Any], Sequence[Any]] = {}
    rows: Sequence[Constraint[Any]] = CONSTRAINTS
    for holds, says, records in ((row.holds, row.says, one) for row in rows for one in row.records):
        if records not in found:
            found[records] = records.of(header)
        for k, record in enumerate(found[records]):
            if not holds(facts, k, record):
                return says(facts, records.name(header, k), record)
    return None
