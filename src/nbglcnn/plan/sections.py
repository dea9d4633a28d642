"""The sections of a Plan: which ones write a texture, and which ones a section depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbglcnn.plan.schema import Header


def sections_by_texture(header: Header) -> dict[int, set[int]]:
    """The indices of the sections that write each texture."""
    found: dict[int, set[int]] = {}
    for number, section in enumerate(header.sections):
        for step in header.passes[section.first : section.first + section.count]:
            found.setdefault(step.output, set()).add(number)
    return found


def section_dependencies(header: Header, number: int) -> set[int]:
    """The earlier sections that a section reads from."""
    writers = sections_by_texture(header)
    section = header.sections[number]
    steps = header.passes[section.first : section.first + section.count]
    own = {texture for texture, numbers in writers.items() if number in numbers}
    read = {texture for step in steps for texture in step.inputs} - own
    return {one for texture in read for one in writers.get(texture, ())}


def required_sections(header: Header, number: int) -> list[int]:
    """A section and all sections that it depends on, in run order."""
    found = {number}
    for earlier in range(number, -1, -1):
        if earlier in found:
            found |= section_dependencies(header, earlier)
    return sorted(found)
