"""Plans with damaged sections or carries, and both readers' error messages."""

import zlib
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from nbglcnn.lowering.lower import lower
from nbglcnn.plan.schema import Carry, Header, Plan, Section
from recurrent import leaky_integrator, with_delay_state


def _alter_sections(*numbers: tuple[str, int, int]) -> Callable[[Header], dict[str, Any]]:
    return lambda _: {"sections": tuple(Section(*one) for one in numbers)}


def _alter_pass(index: int, **fields: Any) -> Callable[[Header], dict[str, Any]]:
    """Replace a pass's fields; a callable field gets the header."""

    def altered(header: Header) -> dict[str, Any]:
        found = {name: one(header) if callable(one) else one for name, one in fields.items()}
        passes = list(header.passes)
        passes[index] = replace(passes[index], **found)
        return {"passes": tuple(passes)}

    return altered


def _set_carry(
    source: Callable[[Header], int] | None = None, target: Callable[[Header], int] | None = None
) -> Callable[[Header], dict[str, Any]]:
    """Replace the first carry's source or target."""

    def altered(header: Header) -> dict[str, Any]:
        first, *others = header.carries
        one = source(header) if source else first.source
        other = target(header) if target else first.target
        return {"carries": (Carry(one, other), *others)}

    return altered


def _carry_other_format(header: Header) -> dict[str, Any]:
    textures = list(header.textures)
    target = header.carries[0].target
    textures[target] = replace(textures[target], format="rgba16f")
    return {"textures": tuple(textures)}


def _alter_value_record(index: int, **fields: Any) -> Callable[[Header], dict[str, Any]]:
    """Replace a value's fields."""

    def altered(header: Header) -> dict[str, Any]:
        values = list(header.values)
        values[index] = replace(values[index], **fields)
        return {"values": tuple(values)}

    return altered


def _alter_input(**fields: Any) -> Callable[[Header], dict[str, Any]]:
    """Replace the first input's fields; a callable field gets the header."""

    def altered(header: Header) -> dict[str, Any]:
        found = {name: one(header) if callable(one) else one for name, one in fields.items()}
        return {"inputs": (replace(header.inputs[0], **found),)}

    return altered


def _alter_texture_width(header: Header) -> dict[str, Any]:
    return {"textures": (replace(header.textures[0], width=0), *header.textures[1:])}


def _later_pass_output(header: Header) -> int:
    return header.passes[3].output


DAMAGES: dict[str, tuple[Callable[[Header], dict[str, Any]], str]] = {
    "no section": (_alter_sections(), "its sections are named nothing"),
    "one name twice": (_alter_sections(("a", 0, 2), ("a", 2, 4)), "its sections are named"),
    "sections that overlap": (_alter_sections(("a", 0, 3), ("b", 2, 4)), "has 4 passes from 2 on"),
    "a gap": (_alter_sections(("a", 0, 2), ("b", 3, 3)), "has 3 passes from 3 on"),
    "beyond the passes": (_alter_sections(("a", 0, 2), ("b", 2, 5)), "has 5 passes from 2 on"),
    "before the passes": (_alter_sections(("a", -1, 7)), "has 7 passes from -1 on"),
    "a negative number": (_alter_sections(("a", 0, 7), ("b", 7, -1)), "has 7 passes from 0 on"),
    "a pass too many": (_alter_sections(("a", 0, 5)), "pass 5 is in no section"),
    "the later section first": (
        lambda h: {
            "sections": (Section("post", 0, 3), Section("forward", 3, 3)),
            "passes": (*h.passes[3:], *h.passes[:3]),
        },
        "before it is written",
    ),
    "a pass that reads what a later one writes": (
        _alter_pass(0, inputs=lambda h: (_later_pass_output(h), *h.passes[0].inputs[1:])),
        "pass 0 reads texture",
    ),
    "a pass that writes the state": (
        _alter_pass(1, output=lambda h: h.carries[0].target),
        "which an input or weight fills",
    ),
    "a pass that writes an input": (
        _alter_pass(0, output=lambda h: h.inputs[0].pack_pass.output),
        "which an input or weight fills",
    ),
    "a source that is not there": (_set_carry(source=lambda h: len(h.textures)), "does not exist"),
    "a target that is not there": (_set_carry(target=lambda _: -1), "does not exist"),
    "another format": (_carry_other_format, "of another size or format"),
    "another size": (
        _set_carry(target=lambda h: h.inputs[0].staging),
        "of another size or format",
    ),
    "a source that no pass writes": (
        _set_carry(source=lambda h: h.inputs[0].pack_pass.output),
        "no pass writes the source of carry 0",
    ),
    "a target that a pass writes": (
        _set_carry(target=lambda h: h.passes[0].output),
        "something else writes a texture of carry 0",
    ),
    "a target that an input writes": (
        _set_carry(target=lambda h: h.inputs[0].pack_pass.output),
        "something else writes a texture of carry 0",
    ),
    "a target twice": (
        _set_carry(target=lambda h: h.carries[1].target),
        "carry 1 has the target of another one",
    ),
    "a texture without texels": (_alter_texture_width, "texture 0 has no texels"),
    "a program that is not there": (
        _alter_pass(0, program=99),
        "pass 0 names no program or output",
    ),
    "a texture before the first as output": (
        _alter_pass(1, output=-1),
        "pass 1 names no program or",
    ),
    "an input too many": (
        _alter_pass(0, inputs=lambda h: (*h.passes[0].inputs, 0)),
        "pass 0 has 3 inp",
    ),
    "an input that is not there": (
        _alter_pass(0, inputs=lambda h: (len(h.textures), *h.passes[0].inputs[1:])),
        "pass 0 reads a texture that does not exist",
    ),
    "an input before the first": (
        _alter_pass(0, inputs=lambda h: (-1, *h.passes[0].inputs[1:])),
        "pass 0 reads a texture that does not exist",
    ),
    "a pass that reads what it writes": (
        _alter_pass(0, inputs=lambda h: (h.passes[0].output, *h.passes[0].inputs[1:])),
        "pass 0 reads what it writes",
    ),
    "a viewport of nothing": (_alter_pass(2, viewport=(0, 1)), "pass 2 has an empty viewport"),
    "a viewport beyond its output": (
        _alter_pass(2, viewport=(9999, 1)),
        "pass 2 draws outside its",
    ),
    "uniforms beyond the last": (
        _alter_pass(0, uniforms=lambda h: h.uniform_bytes),
        "pass 0 has its uniforms at",
    ),
    "uniforms between two": (_alter_pass(0, uniforms=8), "pass 0 has its uniforms at 8 of"),
    "a value without a texture": (_alter_value_record(1, texture=-1), "has no texture"),
    "a value of another size": (_alter_value_record(1, shape=(2, 5, 6, 8)), "reads 420 elements"),
    "an output that is no value": (lambda _: {"outputs": ("z",)}, "output .z. is not a value"),
    "an input that reads another texture": (
        _alter_input(staging=lambda h: h.inputs[0].pack_pass.output),
        "does not read its staging texture",
    ),
    "an input beyond its texture": (
        _alter_input(shape=(99, 5, 6, 7)),
        "does not fit its staging text",
    ),
    "edits behind a pass that is not there": (
        _alter_value_record(1, edit_pass=6),
        "run after pass 6",
    ),
    "edits before all": (_alter_value_record(1, edit_pass=-3), "run after pass -3"),
    "a view of a value that is not there": (
        _alter_value_record(1, view_of=99),
        "is a view of value 99",
    ),
    "a view of itself": (_alter_value_record(1, view_of=1), "is a view of value 1"),
    "a view of another texture": (
        _alter_value_record(1, view_of=0),
        "is a view of another texture",
    ),
    "a pass with a value too many": (
        _alter_pass(0, input_values=lambda h: (*[-1] * len(h.passes[0].inputs), -1)),
        "pass 0 has 3 values for 2 inputs",
    ),
    "a pass that reads a value that is not there": (
        _alter_pass(0, input_values=lambda h: (99, *[-1] * (len(h.passes[0].inputs) - 1))),
        "pass 0 reads texture .* as value 99",
    ),
    "a pass that reads another texture's value": (
        _alter_pass(
            0, input_values=lambda h: (len(h.values) - 1, *[-1] * (len(h.passes[0].inputs) - 1))
        ),
        "pass 0 reads texture .* as value",
    ),
    "a state without contents": (
        lambda h: {
            "weights": tuple(one for one in h.weights if one.texture != h.carries[0].target)
        },
        "the target of carry 0 has no contents at first",
    ),
}


def damaged_plan(name: str) -> Plan:
    """Return a Plan with this damage."""
    plan = lower(with_delay_state(leaky_integrator()))
    alter, _ = DAMAGES[name]
    return Plan(replace(plan.header, **alter(plan.header)), plan.uniforms, plan.blobs)


def update_checksum(data: bytes) -> bytes:
    """Update the checksum of a modified Plan file."""
    if len(data) < 16:
        return data
    kept = zlib.crc32(data[:12] + data[16:])
    return data[:12] + kept.to_bytes(4, "little") + data[16:]
