"""What a Plan's file is checked for in Python; what the page checks is in js/src/plan/checks.ts."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from nbglcnn.errors import ModelError
from nbglcnn.plan.picture_layout import picture_layout
from nbglcnn.plan.sections import written_in

if TYPE_CHECKING:
    from nbglcnn.plan.schema import Header, Move, Pass


# Of every blob in the file, and of each pass's uniforms: WebGL 2's largest offset alignment.
ALIGN = 256
UNIFORM_BYTES = 512  # of one pass's uniform block, as ops/shaders/prelude.glsl declares it
MAGIC = b"NBGLCNN2"  # then the header's length and the checksum, 4 bytes each, then the header


def header_bytes(data: bytes) -> bytes:
    """The JSON header of a Plan file; ModelError where that is none, or not what was written."""
    if data[:8] != MAGIC:
        raise ModelError(
            "not a Plan file of this version (its first 8 bytes differ); compile the model again"
        )
    kept, found = int.from_bytes(data[12:16], "little"), checksum(data)
    if len(data) < 16 or kept != found:
        raise ModelError(
            f"damaged Plan file: checksum {found:08x}, the file says {kept:08x}; copy it again"
        )
    size = int.from_bytes(data[8:12], "little")
    if size > len(data) - 16:
        raise ModelError(f"damaged Plan file: header of {size} bytes in a file of {len(data)}")
    return data[16 : 16 + size]


def checksum(data: bytes | bytearray) -> int:
    """CRC-32 of a Plan file without the 4 bytes that hold it: no flipped bit goes unnoticed."""
    view = memoryview(data)
    return zlib.crc32(view[16:], zlib.crc32(view[:12]))


def problem_of(header: Header) -> str | None:
    """What of a header points outside of what it should, in words; None when nothing does."""
    problems = (
        _texture_problem,
        _pass_problem,
        _value_problem,
        _edit_problem,
        _section_problem,
        _carry_problem,
        _reach_problem,
        _tokens_problem,
        _python_problem,
        _picture_problem,
        _moves_problem,
    )
    return next(filter(None, (find(header) for find in problems)), None)


def _texture_problem(header: Header) -> str | None:
    """A texture without texels, or what names one that is not there."""
    count = len(header.textures)
    for k, texture in enumerate(header.textures):
        if min(texture.width, texture.height, texture.layers) < 1:
            return f"texture {k} has no texels"
    for weight in header.weights:
        if not 0 <= weight.texture < count:
            return f"weight {weight.hash} has no texture"
    for value in (*header.values, *header.parameters):
        if not 0 <= value.texture < count:
            return f"value {value.key!r} has no texture"
    for record in header.inputs:
        if not 0 <= record.staging < count:
            return f"input {record.key!r} does not read its staging texture"
    return None


def _steps(header: Header) -> Iterator[tuple[str, Pass]]:
    """Everything that is drawn, and what it is called."""
    yield from ((f"pass {k}", step) for k, step in enumerate(header.passes))
    for value in header.values:
        yield f"reading value {value.key!r}", value.read.step
    for value in header.parameters:
        yield f"reading parameter {value.key!r}", value.read.step
    yield from ((f"input {record.key!r}", record.step) for record in header.inputs)


def _pass_problem(header: Header) -> str | None:
    """What of a pass points outside of the Plan."""
    count = len(header.textures)
    for what, step in _steps(header):
        width, height = step.viewport
        if not (0 <= step.program < len(header.programs) and 0 <= step.output < count):
            return f"{what} names no program or output"
        program, output = header.programs[step.program], header.textures[step.output]
        if len(step.inputs) != len(program.samplers):
            return f"{what} has {len(step.inputs)} inputs"
        if not all(0 <= texture < count for texture in step.inputs):
            return f"{what} reads a texture that is not there"
        if step.output in step.inputs:
            return f"{what} reads what it writes"
        if program.targets != output.layers:
            return f"{what} writes {program.targets} of {output.layers} layers"
        if width < 1 or height < 1:
            return f"{what} has an empty viewport"
        if width > output.width or height > output.height:
            return f"{what} draws outside its output"
        end = step.uniforms + UNIFORM_BYTES
        if step.uniforms < 0 or step.uniforms % ALIGN or end > header.uniform_bytes:
            return f"{what} has its uniforms at {step.uniforms} of {header.uniform_bytes}"
    return None


def _value_problem(header: Header) -> str | None:
    """What of values and inputs has another size than it is read or written by."""
    for value in (*header.values, *header.parameters):
        width, height = value.read.step.viewport
        if header.textures[value.read.step.output].layers != 1:
            return f"reading value {value.key!r} writes several layers"
        if min(value.shape, default=0) < 0 or value.read.count != prod(value.shape):
            return f"value {value.key!r} reads {value.read.count} elements"
        if value.read.count > 4 * width * height:
            return f"value {value.key!r} reads more than it draws"
    for record in header.inputs:
        staging = header.textures[record.staging]
        if record.staging not in record.step.inputs:
            return f"input {record.key!r} does not read its staging texture"
        if min(record.shape, default=0) < 0:
            return f"input {record.key!r} has a wrong shape"
        if staging.layers != 1:
            return f"input {record.key!r} has several staging layers"
        if prod(record.shape) > 4 * staging.width * staging.height:
            return f"input {record.key!r} does not fit its staging texture"
    keys = {value.key for value in header.values}
    if missing := [key for key in header.outputs if key not in keys]:
        return f"output {missing[0]!r} is no value"
    return None


def _edit_problem(header: Header) -> str | None:
    """Where edits of a value would run at no place, or passes read edits of something else."""
    values = header.values
    for number, value in enumerate(values):
        if not -2 <= value.after < len(header.passes):
            return f"edits of value {value.key!r} run behind pass {value.after}"
        seen, source = {number}, value.source
        while source != -1:
            if not 0 <= source < len(values) or source in seen:
                return f"value {value.key!r} is a view of value {source}"
            if values[source].texture != value.texture:
                return f"value {value.key!r} is a view of another texture"
            seen.add(source)
            source = values[source].source
    for k, step in enumerate(header.passes):
        if step.values and len(step.values) != len(step.inputs):
            return f"pass {k} has {len(step.values)} values for {len(step.inputs)} inputs"
        for texture, one in zip(step.inputs, step.values, strict=False):
            if not -1 <= one < len(values) or (one >= 0 and values[one].texture != texture):
                return f"pass {k} reads texture {texture} as value {one}"
    return None


def _section_problem(header: Header) -> str | None:
    """What is wrong with the sections' passes, or would let a section compute something else."""
    names = [section.name for section in header.sections]
    if not names or len(set(names)) < len(names):
        return f"its sections are called {', '.join(map(repr, names)) or 'nothing'}"
    end = 0
    for section in header.sections:
        if section.first != end or not 0 <= section.count <= len(header.passes) - end:
            return (
                f"section {section.name!r} has {section.count} passes from {section.first} on; "
                f"{end} of {len(header.passes)} are in sections before it"
            )
        end += section.count
    if end < len(header.passes):
        return f"pass {end} is in no section"
    return _impurity(header)


def _impurity(header: Header) -> str | None:
    """Where running a section once more would give other values than running it once."""
    filled = {weight.texture for weight in header.weights}
    filled |= {texture for one in header.inputs for texture in (one.staging, one.step.output)}
    writers = written_in(header)
    if wrong := filled & writers.keys():
        return f"a pass writes texture {min(wrong)}, which an input or weight fills"
    for number, section in enumerate(header.sections):
        written: set[int] = set()
        for k in range(section.first, section.first + section.count):
            step = header.passes[k]
            for texture in step.inputs:
                # Of its own section an earlier pass, or only one section, and that an earlier one.
                own = writers.get(texture, ())
                if own and texture not in written and (len(own) > 1 or max(own) >= number):
                    return f"pass {k} reads texture {texture} before it is written"
            written.add(step.output)
    return None


def _python_problem(header: Header) -> str | None:
    """Where inputs and layers don't agree on what Python computes."""
    layers = [one.layer for one in header.inputs]
    if layers != sorted(layers, key=lambda layer: layer >= 0):
        return "an input stands behind what Python computes"
    for one in header.inputs:
        if one.layer >= len(header.layers) or (
            one.layer >= 0 and not header.layers[one.layer].python
        ):
            return f"input {one.key!r} is of layer {one.layer}, which Python doesn't compute"
    return None


def _picture_problem(header: Header) -> str | None:
    """Where an input says that it takes pictures and can't."""
    for one in header.inputs:
        fits = picture_layout(one.shape, one.dtype) == one.layout
        if one.fit and not (fits and one.layer < 0 and 0 < one.share <= 1):
            return f"input {one.key!r} of {one.shape} and {one.dtype} takes no pictures"
    return None


def _carry_problem(header: Header) -> str | None:
    """What of the carries cannot be copied, or has more than one source."""
    writers = written_in(header)
    reads = {value.read.step.output for value in (*header.values, *header.parameters)}
    filled = {weight.texture for weight in header.weights}
    inputs = {texture for one in header.inputs for texture in (one.staging, one.step.output)}
    targets: set[int] = set()
    for k, carry in enumerate(header.carries):
        source, target = carry.source, carry.target
        if not all(0 <= one < len(header.textures) for one in (source, target)):
            return f"carry {k} names a texture that is not there"
        if header.textures[source] != header.textures[target]:
            return f"carry {k} goes from a texture to one of another size or format"
        if source not in writers:
            return f"no pass writes the source of carry {k}"
        if target in writers or target in inputs or {source, target} & reads:
            return f"something else writes a texture of carry {k}"
        if target in targets:
            return f"carry {k} has the target of another one"
        if target not in filled:
            return f"the target of carry {k} has no contents at first"
        targets.add(target)
    return None


def _reach_problem(header: Header) -> str | None:
    """What of reaches, or of layers that read by them, points outside of what it should."""
    for k, reach in enumerate(header.reaches):
        sizes = (*reach.reader, *reach.source)
        if len(reach.axes) != len(reach.source) or min(sizes, default=0) < 0:
            return f"reach {k} has {len(reach.axes)} axes of places {reach.source}"
        for along, size in zip(reach.axes, reach.source, strict=True):
            length = reach.reader[along.axis] if 0 <= along.axis < len(reach.reader) else None
            if along.axis != -1 and length is None:
                return f"reach {k} reads along axis {along.axis} of {len(reach.reader)}"
            if along.kernel < 1 or len(along.table) not in (0, length):
                return f"reach {k} has a window of {along.kernel} and {len(along.table)} rows"
            if any(not 0 <= place < size for row in along.table for place in row):
                return f"reach {k} reads outside of its source"
    for layer in header.layers:
        if any(not 0 <= axis < len(layer.output_shape) for axis in layer.places):
            return f"layer {layer.name!r} has places along axes {layer.places}"
        if any(not 0 <= reach < len(header.reaches) for _, _, reach in layer.reads):
            return f"layer {layer.name!r} reads by a reach that is not there"
    return None


def _tokens_problem(header: Header) -> str | None:
    """What of tokens, or of values that have them, points outside of what it should."""
    inputs = {record.key for record in header.inputs}
    for k, tokens in enumerate(header.tokens):
        if tokens.input not in inputs or min(tokens.rows, tokens.columns) < 1:
            return f"tokens {k} have {tokens.rows}×{tokens.columns} places of {tokens.input!r}"
        if any(not -1 <= place < tokens.rows * tokens.columns for place in tokens.places):
            return f"tokens {k} stand for places outside of their picture"
    for value in header.values:
        for number, side in zip(value.tokens, value.nchw[2:], strict=True):
            if number != -1 and not 0 <= number < len(header.tokens):
                return f"value {value.key!r} has tokens that are not there"
            if number != -1 and len(header.tokens[number].places) != side:
                return f"value {value.key!r} has {side} tokens along an axis of others"
    return None


def _moves_problem(header: Header) -> str | None:
    """Where a layer's numbers are said to come from elements that are not there."""
    sizes = {one.key: prod(one.shape) for one in (*header.values, *header.parameters)}
    for layer in header.layers:
        # What the Plan doesn't keep cannot be looked at, and has no size to hold to.
        ways = [(one.moves, one.shape, sizes.get(one.key)) for one in layer.operands]
        ways.append((layer.moves, layer.output_shape, prod(layer.made or layer.output_shape)))
        for moves, shape, size in ways:
            count = prod(shape)
            if count == 0:
                continue  # nothing is moved
            for move in moves:
                low, high = _reached(move, count)
                if low < 0 or high < 0:
                    return f"layer {layer.name!r} moves elements of {shape} that are not there"
                count = high + 1
            if moves and size is not None and count > size:
                return f"layer {layer.name!r} moves elements of {shape} from outside of a value"
    return None


def _reached(move: Move, count: int) -> tuple[int, int]:
    """The first and the last element that a move of so many leads to; (−1, −1) where it is none."""
    lengths = len(move.strides) == len(move.sizes) and -1 <= move.axis < len(move.sizes)
    if not lengths or min(move.sizes, default=1) < 1 or prod(move.sizes) < count:
        return -1, -1
    if len(move.table) != (move.sizes[move.axis] if move.axis >= 0 else 0):
        return -1, -1
    low = high = move.offset
    for axis, (size, stride) in enumerate(zip(move.sizes, move.strides, strict=True)):
        ends = move.table if axis == move.axis else (0, (size - 1) * stride)
        low, high = low + min(ends), high + max(ends)
    return low, high
