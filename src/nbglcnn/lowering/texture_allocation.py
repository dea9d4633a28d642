"""The last steps once all passes are known: assign texture formats and share texture memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from nbglcnn.codegen.builder import TEXTURE_BUDGET_BYTES, Builder, too_large_error
from nbglcnn.plan import schema as p


def assign_formats(builder: Builder) -> None:
    """Assign a format to every texture; needs the final layout of all values."""
    for carry in builder.carries * 2:  # 2nd round: carries may share a source
        builder.formats.share_format(carry.source, carry.target)
    builder.textures = [
        msgspec.structs.replace(texture, format=builder.formats.format_of(number))
        for number, texture in enumerate(builder.textures)
    ]


def reuse_textures(
    builder: Builder, pinned_textures: set[int], observe: str | Collection[str]
) -> dict[int, int]:
    """Let unobserved textures share memory if their lifetimes don't overlap.

    Textures in `pinned_textures` are never shared: weights, staging, observed values. Textures
    share memory only if they are equal, and textures with a border of zeros share only with each
    other, because other passes would draw over the border. Returns the new number of every texture
    still in use. Raises UnsupportedModel if the textures exceed the memory budget.
    """

    def kind(texture: int) -> tuple[p.Texture, bool]:
        return builder.textures[texture], texture in builder.bordered_textures

    last: dict[int, int] = {}
    for number, step in enumerate(builder.passes):
        for texture in (*step.inputs, step.output):
            last[texture] = number
    renamed: dict[int, int] = {}
    free: dict[tuple[p.Texture, bool], list[int]] = {}
    for number, step in enumerate(builder.passes):
        # Choose the output before freeing the inputs: a pass must not write a texture that it
        # reads.
        if step.output not in pinned_textures and step.output not in renamed:
            pool = free.get(kind(step.output), [])
            renamed[step.output] = pool.pop() if pool else step.output
        for texture in dict.fromkeys((*step.inputs, step.output)):
            if texture not in pinned_textures and last[texture] == number and texture in renamed:
                free.setdefault(kind(texture), []).append(renamed[texture])
    used = sorted({renamed.get(t, t) for t in [*pinned_textures, *last]})
    compact = {old: new for new, old in enumerate(used)}
    new_numbers = {t: compact[renamed.get(t, t)] for t in [*pinned_textures, *last]}
    builder.passes = [renumber_pass(step, new_numbers) for step in builder.passes]
    builder.textures = [builder.textures[t] for t in used]
    if sum(texture.bytes for texture in builder.textures) > TEXTURE_BUDGET_BYTES:
        raise too_large_error(builder.graph.name, observe if isinstance(observe, str) else "")
    builder.weights = [p.Weight(new_numbers[w.texture], w.hash, w.recipe) for w in builder.weights]
    return new_numbers


def renumber_pass(step: p.Pass, new_numbers: Mapping[int, int]) -> p.Pass:
    """Return a pass with its textures renumbered."""
    inputs = tuple(new_numbers[t] for t in step.inputs)
    return msgspec.structs.replace(step, inputs=inputs, output=new_numbers[step.output])
