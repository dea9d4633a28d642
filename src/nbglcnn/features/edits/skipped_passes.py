"""Passes that an active latent makes unnecessary, and the values that become stale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nbglcnn.features.edits.records import Edit, active_edits
from nbglcnn.plan import schema as p


@dataclass(frozen=True, slots=True)
class SkippedPasses:
    """The passes of a Plan that need not run, and the values that they would write, by number."""

    pass_indices: frozenset[int] = frozenset()
    value_indices: frozenset[int] = frozenset()


NONE_SKIPPED = SkippedPasses()


def skipped_value_error(key: str) -> str:
    """Return the message of the KeyError for reading a skipped value."""
    return (
        f"{key!r} has no value: an active latent skips its layer. Set viewer.source = None, or "
        "viewer.input, to compute it"
    )


def find_skipped_passes(header: p.Header, edits: Sequence[Edit]) -> SkippedPasses:
    """Find the passes and values to skip while edits with `skips_upstream` replace layers' values.

    Passes downstream of the replaced values run, and the other passes that these need, such as the
    other branch of a skip connection, and passes that compute the source of a carry. All others are
    skipped.
    """
    numbers = {value.key: number for number, value in enumerate(header.values)}
    replaced_values = {numbers[one.layer] for one in active_edits(edits) if one.skips_upstream}
    if not replaced_values:
        return NONE_SKIPPED
    is_replaced = [
        _is_alias_of(header, number, replaced_values) for number in range(len(header.values))
    ]
    is_downstream = _downstream_passes(header, is_replaced)
    needed = _needed_passes(header, is_replaced, is_downstream)
    last = {step.output: number for number, step in enumerate(header.passes)}
    stale_values = {
        number
        for number, value in enumerate(header.values)
        if not is_replaced[number] and value.texture in last and not needed[last[value.texture]]
    }
    return SkippedPasses(
        frozenset(k for k, one in enumerate(needed) if not one), frozenset(stale_values)
    )


def downstream_keys(header: p.Header, layer: str) -> frozenset[str]:
    """Return the keys of all values downstream of a layer, and of the layer's aliases and views."""
    numbers = {value.key: number for number, value in enumerate(header.values)}
    replaced_values = {numbers[layer]}
    is_replaced = [
        _is_alias_of(header, number, replaced_values) for number in range(len(header.values))
    ]
    is_downstream = _downstream_passes(header, is_replaced)
    last = {step.output: number for number, step in enumerate(header.passes)}
    return frozenset(
        value.key
        for number, value in enumerate(header.values)
        if is_replaced[number] or (value.texture in last and is_downstream[last[value.texture]])
    )


def _is_alias_of(header: p.Header, value_index: int, replaced_values: set[int]) -> bool:
    """Whether a value is among `replaced_values`, or an alias or view of one."""
    while value_index >= 0:
        if value_index in replaced_values:
            return True
        value_index = header.values[value_index].view_of
    return False


def _pass_inputs(plan_pass: p.Pass) -> list[tuple[int, int]]:
    """Return the textures that a pass reads, each with the index of its value, or -1."""
    return list(
        zip(plan_pass.inputs, plan_pass.input_values or (-1,) * len(plan_pass.inputs), strict=True)
    )


def _downstream_passes(header: p.Header, is_replaced: Sequence[bool]) -> list[bool]:
    """Return for each pass whether it is downstream of the replaced values."""
    textures: set[int] = set()  # textures with downstream values, up to this pass
    found = []
    for step in header.passes:
        one = any((v >= 0 and is_replaced[v]) or t in textures for t, v in _pass_inputs(step))
        (textures.add if one else textures.discard)(step.output)
        found.append(one)
    return found


def _needed_passes(
    header: p.Header, is_replaced: Sequence[bool], is_downstream: Sequence[bool]
) -> list[bool]:
    """Return for each pass whether it is downstream of them, or needed by a pass that runs."""
    largest_viewport: dict[int, int] = {}
    for step in header.passes:
        width, height = step.viewport
        largest_viewport[step.output] = max(largest_viewport.get(step.output, 0), width * height)
    wanted = {carry.source for carry in header.carries}
    found = [False] * len(header.passes)
    for number, step in reversed(list(enumerate(header.passes))):
        if not is_downstream[number] and step.output not in wanted:
            continue
        found[number] = True
        width, height = step.viewport
        if width * height == largest_viewport[step.output]:  # overwrites the earlier contents
            wanted.discard(step.output)
        wanted.update(t for t, v in _pass_inputs(step) if v < 0 or not is_replaced[v])
    return found
