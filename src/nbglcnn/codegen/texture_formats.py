"""Texture formats of a Plan: which textures may hold 16-bit floats."""

from __future__ import annotations

import numpy as np

from nbglcnn.plan.schema import Format, Precision


class TextureFormats:
    """Properties of textures, by number, and the format that follows from them.

    With precision "float16" activations and weights are rounded to half precision. Integers are not
    rounded: half represents them exactly only up to 2048. Partial sums are not rounded either: they
    can be far larger than the final result. On a device that cannot render to float32, every
    texture that a pass writes is half.
    """

    def __init__(self, precision: Precision, float32_render: bool) -> None:
        self._half_precision = precision == "float16"
        self._float32_render = float32_render
        self._float_textures: set[int] = set()
        self._integer_textures: set[int] = set()
        self._uploaded_textures: set[int] = set()

    @property
    def texel_bytes(self) -> int:
        """Bytes of a texel in most textures."""
        return 8 if self._half_precision else 16

    def mark_dtype(self, texture: int, dtype: np.dtype[np.generic]) -> None:
        """Record that a texture holds a value of this type; integers must not be rounded."""
        (self._float_textures if dtype.kind in "fb" else self._integer_textures).add(texture)

    def mark_copy(self, texture: int, source: int) -> None:
        """Record that a texture holds copies of another texture's elements."""
        for known in (self._float_textures, self._integer_textures):
            if source in known:
                known.add(texture)

    def share_format(self, texture: int, other_texture: int) -> None:
        """Record that one texture is copied to the other unchanged, so that their formats agree."""
        self.mark_copy(texture, other_texture)
        self.mark_copy(other_texture, texture)

    def mark_uploaded(self, texture: int) -> None:
        """Record that no pass writes a texture."""
        self._uploaded_textures.add(texture)

    def format_of(self, texture: int) -> Format:
        """Return a texture's format from the properties recorded so far."""
        rounded = self._half_precision and texture in self._float_textures - self._integer_textures
        drawn = texture not in self._uploaded_textures
        return "rgba16f" if rounded or (drawn and not self._float32_render) else "rgba32f"
