"""Named uniform slots: a pass's numbers, declared once in GLSL syntax and set by name.

A kernel, or a function that it calls, declares "float alpha, beta; ivec2 stride". Its GLSL reads
them as u_alpha and u_stride, macros for their offsets in the uniform block; Python sets them with
{"alpha": 0.1, "beta": 2.0, "stride": (2, 2)}. Offsets are computed, never written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from nbglcnn.graph import Array

UniformValue = float | Sequence[float] | Sequence[Sequence[float]]

# The arrays at the end of prelude.glsl's Pass: first word, and number of words.
UNIFORM_BANKS = {"i": (80, 32), "f": (112, 16)}
GLSL_TYPES = {
    **{"int": ("i", 1), "ivec2": ("i", 2), "ivec3": ("i", 3), "ivec4": ("i", 4)},
    **{"float": ("f", 1), "vec2": ("f", 2), "vec3": ("f", 3), "vec4": ("f", 4)},
}


@dataclass(frozen=True, slots=True)
class GlslFunction:
    """A GLSL function that kernels call, and the slots that it declares."""

    source: str
    uniform_slots: str = ""


@dataclass(frozen=True, slots=True)
class UniformSlot:
    """`components` numbers in a bank, starting at word `offset`.

    In an array, each of the `array_length` elements has `components` numbers.
    """

    name: str
    bank: str
    offset: int
    components: int
    array_length: int = 0

    @property
    def word_offset(self) -> int:
        """The slot's first word among a pass's 128."""
        return UNIFORM_BANKS[self.bank][0] + self.offset

    @property
    def type(self) -> str:
        """The GLSL type: "ivec2", "vec4[2]"."""
        kind = next(kind for kind, of in GLSL_TYPES.items() if of == (self.bank, self.components))
        return f"{kind}[{self.array_length}]" if self.array_length else kind

    def macro(self) -> str:
        """Return the #define that gives the slot its name."""
        line, lane = divmod(self.offset, 4)
        lanes = "" if self.components == 4 else "." + "xyzw"[lane : lane + self.components]
        if self.array_length:
            return f"#define u_{self.name}(k) u.{self.bank}[{line} + (k)]{lanes}"
        return f"#define u_{self.name} u.{self.bank}[{line}]{lanes}"

    def fill(self, words: Array, number: UniformValue) -> None:
        """Write the slot's numbers into a pass's 128 words; an array may have fewer elements."""
        dtype = np.int32 if self.bank == "i" else np.float32
        values = np.asarray(number, dtype).reshape(-1, self.components).view(np.int32)
        fits = len(values) <= self.array_length if self.array_length else len(values) == 1
        assert fits, (self.name, number)
        for k, value in enumerate(values):
            at = self.word_offset + 4 * k
            words[at : at + self.components] = value


@cache
def parse_slots(declarations: str) -> tuple[UniformSlot, ...]:
    """Assign offsets by std140's rule: no slot crosses a vec4; each array element has its own."""
    used = dict.fromkeys(UNIFORM_BANKS, 0)
    slots: list[UniformSlot] = []
    for declaration in filter(None, map(str.strip, declarations.split(";"))):
        kind, _, names = declaration.partition(" ")
        bank, size = GLSL_TYPES[kind]
        for text in names.split(","):
            found = re.fullmatch(r"([a-z_]+)(?:\[(\d+)\])?", text.strip())
            assert found, declaration
            count = int(found[2] or 0)
            first = used[bank]
            if count or first % 4 + size > 4:
                first += -first % 4
            used[bank] = first + (4 * count or size)
            assert used[bank] <= UNIFORM_BANKS[bank][1], declarations
            slots.append(UniformSlot(found[1], bank, first, size, count))
    assert len({slot.name for slot in slots}) == len(slots), declarations
    return tuple(slots)


def write_uniforms(
    words: Array, slots: Sequence[UniformSlot], uniforms: Mapping[str, UniformValue]
) -> None:
    """Write all slots; a missing or unknown name is an error."""
    names = {slot.name for slot in slots}
    assert names == uniforms.keys(), f"declared {sorted(names)}, given {sorted(uniforms)}"
    for slot in slots:
        slot.fill(words, uniforms[slot.name])
