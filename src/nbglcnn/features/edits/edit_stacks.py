"""Which edits run where: the stacks of a Plan's values, in the order in which they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nbglcnn.features.edits.records import Edit, active_edits
from nbglcnn.features.edits.skipped_passes import find_skipped_passes
from nbglcnn.plan import schema as p


@dataclass(frozen=True, slots=True)
class EditStack:
    """The active edits of one value, `value_index` among the Plan's, in their order."""

    value_index: int
    value: p.Value
    edits: tuple[Edit, ...]


def build_edit_stacks(header: p.Header, edits: Sequence[Edit]) -> list[EditStack]:
    """One for each value that has active edits; behind the one that it is a view of.

    A value that a latent spares has none; one that is `shares_edits_of` another has that one's too.
    """
    numbers = {value.key: number for number, value in enumerate(header.values)}
    more: dict[str, list[int]] = {}
    for number, value in enumerate(header.values):
        if value.shares_edits_of:
            more.setdefault(value.shares_edits_of, []).append(number)
    old = find_skipped_passes(header, edits).values
    found: dict[int, list[Edit]] = {}
    for edit in active_edits(edits):
        also = () if edit.array_hash else more.get(edit.layer, ())
        for number in (numbers[edit.layer], *also):
            if number not in old:
                found.setdefault(number, []).append(edit)
    order = sorted(found, key=lambda one: (header.values[one].edit_pass, view_depth(header, one)))
    return [EditStack(one, header.values[one], tuple(found[one])) for one in order]


def view_depth(header: p.Header, number: int) -> int:
    """How many values it is a view of, one of the other."""
    count = 0
    while (number := header.values[number].view_of) >= 0:
        count += 1
    return count


def source_texture(header: p.Header, number: int, bent: Mapping[int, int]) -> int:
    """The texture of a value before its own edits; `bent` are those of edited values."""
    source = header.values[number].view_of
    return header.values[number].texture if source < 0 else edited_texture(header, source, bent)


def edited_texture(header: p.Header, number: int, bent: Mapping[int, int]) -> int:
    """The texture that holds a value as its key has it."""
    return bent[number] if number in bent else source_texture(header, number, bent)
