"""Which of a Plan's textures hold 16-bit floats: those whose numbers may be rounded."""

from __future__ import annotations

import numpy as np

from nbglcnn.plan.schema import Format, Precision


class TextureFormats:
    """What is known of textures, by number, and which format follows from that.

    With precision "float16" activations and weights are rounded to half precision. Integers are
    not: half holds them exactly only up to 2048. Nor are partial sums, which may be far larger than
    what they lead to. A device that cannot draw float32 gets half wherever a pass writes.
    """

    def __init__(self, precision: Precision, float32_render: bool) -> None:
        self._half_precision = precision == "float16"
        self._float32_render = float32_render
        self._float_textures: set[int] = set()
        self._integer_textures: set[int] = set()
        self._uploaded_textures: set[int] = set()

    @property
    def texel_bytes(self) -> int:
        """Bytes of most texels."""
        return 8 if self._half_precision else 16

    def mark_dtype(self, texture: int, dtype: np.dtype[np.generic]) -> None:
        """Say that a value of this type lies there: integers forbid rounding."""
        (self._float_textures if dtype.kind in "fb" else self._integer_textures).add(texture)

    def mark_copy(self, texture: int, source: int) -> None:
        """Say that a texture holds copies of what is in another one."""
        for known in (self._float_textures, self._integer_textures):
            if source in known:
                known.add(texture)

    def share_format(self, one: int, other: int) -> None:
        """Say that one texture is copied to the other as it is: they have one format."""
        self.mark_copy(one, other)
        self.mark_copy(other, one)

    def mark_uploaded(self, texture: int) -> None:
        """Say that no pass writes a texture."""
        self._uploaded_textures.add(texture)

    def format_of(self, texture: int) -> Format:
        """A texture's format by what is known of it so far."""
        rounded = self._half_precision and texture in self._float_textures - self._integer_textures
        drawn = texture not in self._uploaded_textures
        return "rgba16f" if rounded or (drawn and not self._float32_render) else "rgba32f"
