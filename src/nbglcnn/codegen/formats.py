"""Which of a Plan's textures hold 16-bit floats: those whose numbers may be rounded."""

from __future__ import annotations

import numpy as np

from nbglcnn.plan.schema import Format, Precision


class Formats:
    """What is known of textures, by number, and which format follows from that.

    With precision "float16" activations and weights are rounded to half precision. Integers are
    not: half holds them exactly only up to 2048. Nor are partial sums, which may be far larger than
    what they lead to. A device that cannot draw float32 gets half wherever a pass writes.
    """

    def __init__(self, precision: Precision, float32_render: bool) -> None:
        self._half = precision == "float16"
        self._float32_render = float32_render
        self._rounded: set[int] = set()
        self._exact: set[int] = set()
        self._uploaded: set[int] = set()

    @property
    def texel_bytes(self) -> int:
        """Bytes of most texels."""
        return 8 if self._half else 16

    def holds(self, texture: int, dtype: np.dtype[np.generic]) -> None:
        """Say that a value of this type lies there: integers forbid rounding."""
        (self._rounded if dtype.kind in "fb" else self._exact).add(texture)

    def same(self, texture: int, source: int) -> None:
        """Say that a texture holds copies of what is in another one."""
        for known in (self._rounded, self._exact):
            if source in known:
                known.add(texture)

    def tied(self, one: int, other: int) -> None:
        """Say that one texture is copied to the other as it is: they have one format."""
        self.same(one, other)
        self.same(other, one)

    def uploaded(self, texture: int) -> None:
        """Say that no pass writes a texture."""
        self._uploaded.add(texture)

    def of(self, texture: int) -> Format:
        """A texture's format by what is known of it so far."""
        rounded = self._half and texture in self._rounded - self._exact
        drawn = texture not in self._uploaded
        return "rgba16f" if rounded or (drawn and not self._float32_render) else "rgba32f"
