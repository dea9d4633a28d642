"""The edit stacks of a Plan's values: which edits run on each value, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nbglcnn.features.edits.records import Edit, active_edits
from nbglcnn.features.edits.skipped_passes import find_skipped_passes
from nbglcnn.plan import schema as p


@dataclass(frozen=True, slots=True)
class EditStack:
    """The active edits of one value, in order; `value_index` is its index in the Plan."""

    value_index: int
    value: p.Value
    edits: tuple[Edit, ...]


def build_edit_stacks(header: p.Header, edits: Sequence[Edit]) -> list[EditStack]:
    """Build an EditStack for each value with active edits, after those of values it is a view of.

    A value that a latent skips has no stack. The stack of a value with `shares_edits_of` includes
    the other value's edits, except injected arrays.
    """
    numbers = {value.key: number for number, value in enumerate(header.values)}
    sharing_values: dict[str, list[int]] = {}
    for number, value in enumerate(header.values):
        if value.shares_edits_of:
            sharing_values.setdefault(value.shares_edits_of, []).append(number)
    old = find_skipped_passes(header, edits).value_indices
    found: dict[int, list[Edit]] = {}
    for edit in active_edits(edits):
        also = () if edit.array_hash else sharing_values.get(edit.layer, ())
        for number in (numbers[edit.layer], *also):
            if number not in old:
                found.setdefault(number, []).append(edit)
    order = sorted(found, key=lambda one: (header.values[one].edit_pass, view_depth(header, one)))
    return [EditStack(one, header.values[one], tuple(found[one])) for one in order]


def view_depth(header: p.Header, value_index: int) -> int:
    """Return the length of a value's chain of views."""
    count = 0
    while (value_index := header.values[value_index].view_of) >= 0:
        count += 1
    return count


def source_texture(header: p.Header, value_index: int, edited_textures: Mapping[int, int]) -> int:
    """Return the texture of a value before its own edits; `edited_textures` has edited values'."""
    source = header.values[value_index].view_of
    return (
        header.values[value_index].texture
        if source < 0
        else edited_texture(header, source, edited_textures)
    )


def edited_texture(header: p.Header, value_index: int, edited_textures: Mapping[int, int]) -> int:
    """Return the texture of a value after its edits."""
    return (
        edited_textures[value_index]
        if value_index in edited_textures
        else source_texture(header, value_index, edited_textures)
    )
