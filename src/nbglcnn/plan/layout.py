"""The layout of a tensor in a texture array: four channels per texel, pixel blocks over layers.

A tensor of any rank is first reshaped to *nchw* (n, c, h, w), without moving its row-major elements
(`storage_nchw`). Texel (X, Y) of layer L stores channels 4g..4g+3 of one pixel:

- the block (bn, by, bx) distributes bn images, by rows and bx columns over bn*by*bx layers;
- a *tile* is one (image block, channel group) pair; each row has `columns` tiles, side by side;
- phases (sy, sx) store rows y % sy == p, and columns likewise, in separate areas, which is how a
  transposed convolution of that stride writes its result in one pass;
- a tensor wider (or taller) than a texture may be is cut into strips of equal width (height), which
  lie one below (beside) the other;
- a texture of 2×2 blocks ends with a column and a row of zeros that no pass draws: convolutions
  read what is outside the map there, where clamping leads, and need not ask at every read.

The constants follow measurements of texel fetches, which dominate the cost of these shaders:
kernels.md, sections 1, 3 and 11.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
NCHW = tuple[int, int, int, int]
PixelBlock = tuple[
    int, int, int
]  # the images, rows and columns at one texel position, over all layers

MAX_EXACT_INTEGER = 2**24  # float32 represents all integers up to here
# Maximum row width: long rows keep llvmpipe's 64-pixel bins and all cores busy.
MAX_ROW_TEXELS = 2048
# Maximum tiles per row: 4 weight columns per channel group fit 4096 texels.
MAX_TILES_PER_ROW = 1024
# Texels per side of llvmpipe's smallest shaded block, and of a thread's bin.
SHADE_BLOCK, BIN_TEXELS = (4, 64)
# Measured cost factor of a convolution that reads several rows of tiles.
MULTI_ROW_COST_FACTOR = 1.04


def storage_nchw(shape: tuple[int, ...]) -> NCHW:
    """Return the nchw (n, c, h, w) that stores a tensor of this shape, by a reshape alone."""
    match shape:
        case ():
            return (1, 1, 1, 1)
        case (c,):
            return (1, c, 1, 1)
        case (n, c):
            return (n, c, 1, 1)
        case (n, c, w):
            return (n, c, 1, w)
        case (n, c, *inner, w):
            return (n, c, math.prod(inner), w)
    raise AssertionError(shape)


def display_nchw(shape: tuple[int, ...], batch: int) -> NCHW:
    """The nchw (n, c, h, w) in which a tensor of this shape is displayed and indexed.

    It is `storage_nchw` if the first axis is the batch, or 1. A vector with one number per example
    is (batch, 1, 1, 1). If the first axis isn't the batch, the whole tensor belongs to every
    example and is one image: the heads of (heads, tokens, tokens) are its channels; of rank 4 and
    more, the first two axes are. This is a reshape, too: a view may be stored in its source's nchw,
    and is still displayed in this one.
    """
    if shape == (batch,):
        return (batch, 1, 1, 1)
    if len(shape) < 2 or shape[0] in (1, batch):
        return storage_nchw(shape)
    if len(shape) < 4:
        return storage_nchw((1, *shape))
    n, c, h, w = storage_nchw(shape)
    return (1, n * c, h, w)


@cache
def _tiles_per_row(tiles: int, width: int, height: int, texels: int) -> int:
    """The tiles per row. A tile is `width` × `height` over all phases, `texels` wide in each.

    All rows have the same length, because unused texels are drawn, too. Tiles one texel high get at
    least two rows, because devices draw 2×2 squares. Other numbers of rows are for sizes that split
    badly: 448 × 7 texels are shaded as 448 × 8, and as seven bins they leave a second thread idle.
    """
    max_columns = max(1, min(tiles, MAX_TILES_PER_ROW, MAX_ROW_TEXELS // texels))
    min_rows = max(-(-tiles // max_columns), 2 if height == 1 else 1)

    def cost(rows: int) -> float:
        columns = -(-tiles // rows)
        across, down = columns * width, -(-tiles // columns) * height
        # Because SwiftShader's two threads alternate.
        by_rows = across * SHADE_BLOCK * -(-down // SHADE_BLOCK)
        return (by_rows + 2 * _busier_thread_texels(across, down)) * (
            MULTI_ROW_COST_FACTOR if rows > min_rows else 1
        )

    splits = texels & (texels - 1) == 0 or -(-tiles // min_rows) * width <= BIN_TEXELS
    shaded = -(-min_rows * height // SHADE_BLOCK) * SHADE_BLOCK
    more = (2, 4, shaded // height) if not splits else (shaded // height,)
    rows = (min_rows, *(k for k in more if min_rows < k <= tiles))
    return -(-tiles // min(rows, key=cost))


def _busier_thread_texels(width: int, height: int) -> int:
    """The texels that the busier of two threads shades, if each takes the next bin when idle."""
    busy = [0, 0]
    for top in range(0, height, BIN_TEXELS):
        rows = SHADE_BLOCK * -(-min(BIN_TEXELS, height - top) // SHADE_BLOCK)
        for left in range(0, width, BIN_TEXELS):
            columns = SHADE_BLOCK * -(-min(BIN_TEXELS, width - left) // SHADE_BLOCK)
            busy[busy[0] > busy[1]] += rows * columns
    return max(busy)


class Layout(msgspec.Struct, frozen=True):
    """The position of each element of an nchw tensor in a texture array; see the module docstring.

    Attributes:
        nchw: The shape of the tensor.
        block: The images, rows and columns that the layers of the texture store at one texel.
        phases: The numbers of row and column phases, which are stored in separate areas.
        max_side: The longest side of a texture, if the tensor needs strips; 0 otherwise.
    """

    nchw: tuple[int, int, int, int]
    block: PixelBlock = (1, 1, 1)
    phases: tuple[int, int] = (1, 1)
    max_side: int = 0  # the maximum texture side, if the tensor exceeds it; otherwise 0

    def split_to_fit(self, longest: int) -> Layout:
        """Divide the tensor into strips if a side of the texture would be too long.

        Args:
            longest: The longest side in texels.

        Returns:
            The layout with strips, or this layout if it fits.
        """
        if max(self.size[:2]) <= longest:
            return self
        return msgspec.structs.replace(self, max_side=longest)

    @property
    def groups(self) -> int:
        """The number of channel groups of four."""
        return -(-self.nchw[1] // 4)

    @property
    def has_whole_texels(self) -> bool:
        """Whether a texel's lanes are elements that follow each other in row-major order."""
        n, c, h, w = self.nchw
        single = h * w == 1 and self.phases == (1, 1) and not self.max_side
        return single and (n == 1 or c % 4 == 0)

    @property
    def tile(self) -> tuple[int, int]:
        """(width, height) of one tile in texels, in each phase area."""
        _, _, h, w = self.nchw
        (_, by, bx), (sy, sx) = self.block, self.phases
        return -(-w // (sx * bx)), -(
            -h // (sy * by)
        )  # ceil(ceil(w / sx) / bx) == ceil(w / (sx bx))

    @property
    def tiles(self) -> int:
        """The number of tiles: image blocks times channel groups."""
        return -(-self.nchw[0] // self.block[0]) * self.groups

    @property
    def columns(self) -> int:
        """The tiles per row: as many as fit, or fewer if rows then split better into squares."""
        (tw, th), (sy, sx), groups = self.tile, self.phases, self.groups
        images = self.tiles // groups
        if images > 1 and groups * tw <= MAX_ROW_TEXELS and groups <= MAX_TILES_PER_ROW:
            return groups * _tiles_per_row(images, tw * sx * groups, th * sy, tw * groups)
        return _tiles_per_row(self.tiles, tw * sx, th * sy, tw)

    @property
    def phase_size(self) -> tuple[int, int]:
        """(width, height) of one phase area in texels."""
        tw, th = self.tile
        return self.columns * tw, -(-self.tiles // self.columns) * th

    @property
    def whole(self) -> tuple[int, int]:
        """(width, height) in texels of all phase areas, before they are cut into strips."""
        (sy, sx), (aw, ah) = self.phases, self.phase_size
        return aw * sx, ah * sy

    @property
    def strips(self) -> tuple[int, int]:
        """The number of strips that the width and the height are cut into; one of them is 1."""
        width, height = self.whole
        return (
            (-(-width // self.max_side), -(-height // self.max_side)) if self.max_side else (1, 1)
        )

    @property
    def drawn(self) -> tuple[int, int]:
        """(width, height) in texels of the area that passes draw: all strips."""
        (width, height), (across, down) = self.whole, self.strips
        return -(-width // across) * down, -(-height // down) * across

    @property
    def border(self) -> int:
        """The number of columns and rows of zeros after the drawn area."""
        return int(self.block == (1, 2, 2) and not self.max_side)

    @property
    def size(self) -> tuple[int, int, int]:
        """(width, height, layers) of the texture array."""
        width, height = self.drawn
        return width + self.border, height + self.border, math.prod(self.block)

    @property
    def bytes(self) -> int:
        """The size of the texture in bytes, as float32."""
        return math.prod(self.size) * 16

    def to_words(self) -> tuple[int, ...]:
        """Return the layout as GLSL's `struct Layout` (ops/shaders/prelude.glsl).

        Returns:
            16 integers.
        """
        return (
            *self.nchw,
            *self.tile, self.columns, self.groups,
            *self.block, self.tiles,
            *self.phases, *self.phase_size,
        )  # fmt: skip

    def _full_index(self) -> tuple[npt.NDArray[Any], ...]:
        """The index arrays (layer, row, column, lane), each broadcastable to the nchw."""
        n, c, h, w = self.nchw
        return self.texel_index(*np.ogrid[:n, :c, :h, :w])

    def texel_index(
        self,
        i: npt.NDArray[Any],
        ch: npt.NDArray[Any],
        y: npt.NDArray[Any],
        x: npt.NDArray[Any],
    ) -> tuple[npt.NDArray[Any], ...]:
        """Compute the position of elements in the texture.

        Args:
            i: The images of the elements.
            ch: Their channels.
            y: Their rows.
            x: Their columns.

        Returns:
            Arrays (layer, row, column, lane).
        """
        (bn, by, bx), (sy, sx) = self.block, self.phases
        (tw, th), (aw, ah) = self.tile, self.phase_size
        tile = i // bn * self.groups + ch // 4
        qy, qx = y // sy, x // sx
        layer = i % bn * (by * bx) + qy % by * bx + qx % bx
        row = y % sy * ah + tile // self.columns * th + qy // by
        column = x % sx * aw + tile % self.columns * tw + qx // bx
        (width, height), (across, down) = self.whole, self.strips
        if across > 1:
            strip, column = np.divmod(column, -(-width // across))
            row = row + strip * height
        if down > 1:
            strip, row = np.divmod(row, -(-height // down))
            column = column + strip * width
        return layer, row, column, ch % 4

    def pack(self, array: npt.NDArray[Any]) -> Float32:
        """Pack an array into the texels of a texture.

        Args:
            array: An array with the elements of `nchw`, in row-major order.

        Returns:
            The texels, shape (layers, height, width, 4), float32; 0 outside the array.
        """
        (bn, by, bx), (sy, sx), (tw, th) = self.block, self.phases, self.tile
        images, rows = -(-self.nchw[0] // bn), -(-self.tiles // self.columns)
        whole = np.zeros((images * bn, self.groups * 4, th * by * sy, tw * bx * sx), np.float32)
        n, c, h, w = self.nchw
        whole[:n, :c, :h, :w] = np.asarray(array).reshape(self.nchw)
        # Copying whole blocks is ten times faster than indexing every element.
        parts = whole.reshape(images, bn, self.groups, 4, th, by, sy, tw, bx, sx)
        tiles = parts.transpose(1, 5, 8, 0, 2, 6, 4, 9, 7, 3)
        tiles = tiles.reshape(bn, by, bx, self.tiles, sy, th, sx, tw, 4)
        if rows * self.columns > self.tiles:
            spare = rows * self.columns - self.tiles
            tiles = np.pad(tiles, [(0, spare if axis == 3 else 0) for axis in range(9)])
        grid = tiles.reshape(bn, by, bx, rows, self.columns, sy, th, sx, tw, 4)
        (width, height), edge = self.whole, (0, self.border)
        placed = grid.transpose(0, 1, 2, 5, 3, 6, 7, 4, 8, 9).reshape(-1, height, width, 4)
        across, down = self.strips
        if across > 1 or down > 1:
            wide, high = -(-width // across), -(-height // down)
            ends = [(0, 0), (0, high * down - height), (0, wide * across - width), (0, 0)]
            cut = np.pad(placed, ends).reshape(-1, down, high, across, wide, 4)
            # Strips of a width are stacked vertically, strips of a height horizontally.
            placed = cut.transpose(0, 3, 2, 1, 4, 5).reshape(-1, across * high, down * wide, 4)
        return np.ascontiguousarray(np.pad(placed, [(0, 0), edge, edge, (0, 0)]))

    def unpack(self, texture: Float32) -> Float32:
        """Unpack an array from a texture: the inverse of `pack`.

        Args:
            texture: The texels, shape (layers, height, width, 4).

        Returns:
            The array, shape `nchw`, float32.
        """
        return np.ascontiguousarray(texture[self._full_index()])
