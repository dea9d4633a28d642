"""Named uniform slots: the numbers of a pass, declared once in GLSL's words and filled by name.

A kernel, or a function that it calls, declares "float alpha, beta; ivec2 stride". Its text finds
them as u_alpha and u_stride, macros for their places in the uniform block; Python fills them with
{"alpha": 0.1, "beta": 2.0, "stride": (2, 2)}. Nobody counts words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from nbglcnn.graph import Array

Number = float | Sequence[float] | Sequence[Sequence[float]]

# The arrays at the end of prelude.glsl's Pass: first word, and how many words.
BANKS = {"i": (80, 32), "f": (112, 16)}
TYPES = {
    **{"int": ("i", 1), "ivec2": ("i", 2), "ivec3": ("i", 3), "ivec4": ("i", 4)},
    **{"float": ("f", 1), "vec2": ("f", 2), "vec3": ("f", 3), "vec4": ("f", 4)},
}


@dataclass(frozen=True, slots=True)
class Part:
    """A GLSL function that kernels call, and the slots that it declares."""

    text: str
    slots: str = ""


@dataclass(frozen=True, slots=True)
class Slot:
    """`size` numbers from the `first` word of a bank on; of an array, each of `count` elements."""

    name: str
    bank: str
    first: int
    size: int
    count: int = 0

    @property
    def word(self) -> int:
        """The first of the slot's words among a pass's 128."""
        return BANKS[self.bank][0] + self.first

    @property
    def type(self) -> str:
        """As GLSL declares it: "ivec2", "vec4[2]"."""
        kind = next(kind for kind, of in TYPES.items() if of == (self.bank, self.size))
        return f"{kind}[{self.count}]" if self.count else kind

    def macro(self) -> str:
        """The line of GLSL that gives the slot its name."""
        line, lane = divmod(self.first, 4)
        lanes = "" if self.size == 4 else "." + "xyzw"[lane : lane + self.size]
        if self.count:
            return f"#define u_{self.name}(k) u.{self.bank}[{line} + (k)]{lanes}"
        return f"#define u_{self.name} u.{self.bank}[{line}]{lanes}"

    def fill(self, words: Array, number: Number) -> None:
        """Write the slot's numbers into a pass's 128 words; an array may have fewer elements."""
        dtype = np.int32 if self.bank == "i" else np.float32
        values = np.asarray(number, dtype).reshape(-1, self.size).view(np.int32)
        fits = len(values) <= self.count if self.count else len(values) == 1
        assert fits, (self.name, number)
        for k, value in enumerate(values):
            at = self.word + 4 * k
            words[at : at + self.size] = value


@cache
def placed(declarations: str) -> tuple[Slot, ...]:
    """Where declared slots lie, by std140's rule: none crosses a vec4, each of an array has one."""
    used = dict.fromkeys(BANKS, 0)
    slots: list[Slot] = []
    for declaration in filter(None, map(str.strip, declarations.split(";"))):
        kind, _, names = declaration.partition(" ")
        bank, size = TYPES[kind]
        for text in names.split(","):
            found = re.fullmatch(r"([a-z_]+)(?:\[(\d+)\])?", text.strip())
            assert found, declaration
            count = int(found[2] or 0)
            first = used[bank]
            if count or first % 4 + size > 4:
                first += -first % 4
            used[bank] = first + (4 * count or size)
            assert used[bank] <= BANKS[bank][1], declarations
            slots.append(Slot(found[1], bank, first, size, count))
    assert len({slot.name for slot in slots}) == len(slots), declarations
    return tuple(slots)


def write(words: Array, slots: Sequence[Slot], numbers: Mapping[str, Number]) -> None:
    """Fill all slots, and no others: a name that is missing or unknown is a mistake."""
    names = {slot.name for slot in slots}
    assert names == numbers.keys(), f"declared {sorted(names)}, given {sorted(numbers)}"
    for slot in slots:
        slot.fill(words, numbers[slot.name])
