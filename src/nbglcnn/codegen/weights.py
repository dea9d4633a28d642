"""Packing of a network's constants into the contents of weight textures; pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from nbglcnn.graph import Array
from nbglcnn.plan.layout import Float32, Layout
from nbglcnn.plan.schema import PackingRecipe

COLUMN_GROUPS = 1024  # input channel groups side by side in a weight texture: 4096 texels
MAX_KERNEL_ROWS = 4096  # rows of texels in a weight texture; further rows are in further layers
Packer = Callable[..., Float32]


def pack_weight(recipe: PackingRecipe, constants: Sequence[Array | None]) -> Float32:
    """Return the texture (layers, height, width, 4) that a recipe packs from its sources."""
    with np.errstate(all="ignore"):  # overflow becomes infinity
        return PACKERS[recipe.packer](*constants, **recipe.arguments)


def tensor(array: Array, *, nchw: Sequence[int], block: Sequence[int], side: int = 0) -> Float32:
    """Pack a constant as an ordinary tensor."""
    n, c, h, w = nchw
    bn, by, bx = block
    return Layout((n, c, h, w), (bn, by, bx), max_side=side).pack(array)


def filled(*, nchw: Sequence[int], block: Sequence[int], bits: int, side: int = 0) -> Float32:
    """Pack a tensor filled with one number, passed as the bits of its float32."""
    array = np.full(tuple(nchw), np.uint32(bits).view(np.float32))
    return tensor(array, nchw=nchw, block=block, side=side)


def zero() -> Float32:
    """Return one texel of zeros."""
    return np.zeros((1, 1, 1, 4), np.float32)


def batchnorm_scale(scale: Array, variance: Array, *, epsilon: float) -> Float32:
    """Return BatchNormalization's factor scale / √(variance + ε), per channel."""
    return (scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)).astype(
        np.float32
    )


def batchnorm_shift(
    scale: Array, bias: Array, mean: Array, variance: Array, *, epsilon: float
) -> Float32:
    """Return BatchNormalization's term bias − mean · scale / √(variance + ε), per channel."""
    factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
    return (bias.astype(np.float64) - mean * factor).astype(np.float32)


def _pack_vector(values: Array) -> Float32:
    return Layout((1, values.size, 1, 1)).pack(values)


def batchnorm_factor(scale: Array, variance: Array, *, epsilon: float) -> Float32:
    """Pack BatchNormalization's factor into a texture."""
    return _pack_vector(batchnorm_scale(scale, variance, epsilon=epsilon))


def split_kernel_texture(inputs: int, outputs: int, taps: int) -> tuple[int, int]:
    """Return how a dense kernel's texture is split: output groups per layer, and layers."""
    parts = -(-inputs // (4 * COLUMN_GROUPS))
    groups = -(-outputs // 4)
    layers = -(-groups // max(1, MAX_KERNEL_ROWS // (parts * taps)))
    return -(-groups // layers), layers


def pack_dense_kernel(weight: Array) -> Float32:
    """Pack a dense kernel (O, I, KH, KW): texel (i, og·KK + k) has 4 outputs' weights of input i.

    Columns beyond COLUMN_GROUPS input groups continue below, after all rows. Outputs beyond
    MAX_KERNEL_ROWS are in further layers; all layers have equally many.
    """
    o, i, kh, kw = weight.shape
    ig, kk = -(-i // 4), kh * kw
    each, layers = split_kernel_texture(i, o, kk)
    columns = min(ig, COLUMN_GROUPS) * 4
    parts = -(-ig * 4 // columns)
    texture = np.zeros((layers, parts * each * kk, columns, 4), np.float32)
    for layer in range(layers):
        own = weight[layer * each * 4 : (layer + 1) * each * 4]
        padded = np.zeros((each * 4, ig * 4, kk), np.float32)
        padded[: len(own), :i] = own.reshape(-1, i, kk)
        # (og, lane, column, k) -> (og, k, column, lane)
        split = padded.reshape(each, 4, ig * 4, kk).transpose(0, 3, 2, 1)
        table = split.reshape(each * kk, ig * 4, 4)
        for part in range(parts):
            piece = table[:, part * columns : (part + 1) * columns]
            texture[layer, part * each * kk : (part + 1) * each * kk, : piece.shape[1]] = piece
    return texture


def conv(weight: Array, *normalization: Array, shape: Sequence[int], **options: Any) -> Float32:
    """Pack a Conv, ConvTranspose or Gemm kernel with `pack_dense_kernel`.

    The arguments are those of `kernel_array`.
    """
    return pack_dense_kernel(kernel_array(weight, *normalization, shape=shape, **options))


def kernel_array(
    weight: Array,
    *normalization: Array,
    shape: Sequence[int],
    transposed_groups: int = 0,
    transpose: bool = False,
    factor: float = 1.0,
    epsilon: float = 0.0,
    outputs: slice = slice(None),
) -> Array:
    """Return the kernel (O, I/groups, KH, KW) of a Conv, ConvTranspose or Gemm, for `outputs`.

    `shape` is the kernel's 4-D shape (1-D kernels get a height of 1, matrices 1×1);
    `transposed_groups` is ConvTranspose's group count (its kernels are (I, O/groups, KH, KW));
    `transpose` transposes a matrix (Gemm's B unless it is already transposed), `factor` multiplies
    it; `normalization` (scale, variance) of a BatchNormalization is multiplied in.
    """
    array = np.asarray(weight, np.float32)
    if transpose:
        array = array.T
    array = array.reshape(tuple(shape))
    if transposed_groups:
        i, o, kh, kw = array.shape
        grouped = array.reshape(transposed_groups, i // transposed_groups, o, kh, kw)
        group, own = np.divmod(np.arange(transposed_groups * o)[outputs], o)
        array = grouped.swapaxes(1, 2)[group, own]
    else:
        array = array[outputs]
    array = array * np.float32(factor) if factor != 1 else array
    if normalization:
        scale, variance = (vector[outputs] for vector in normalization)
        array = array * batchnorm_scale(scale, variance, epsilon=epsilon)[:, None, None, None]
    return array


def grouped(weight: Array, *normalization: Array, shape: Sequence[int], **options: Any) -> Float32:
    """Pack a kernel whose groups aren't multiples of 4 in nchw (I/groups, O, KH, KW)."""
    array = kernel_array(weight, *normalization, shape=shape, **options)
    o, i, kh, kw = array.shape
    return Layout((i, o, kh, kw)).pack(array.swapaxes(0, 1))


def bias(
    *arrays: Array, epsilon: float = 0.0, has_bias: bool = True, factor: float = 1.0
) -> Float32:
    """Pack a bias vector, combined with the four vectors of a following BatchNormalization if any.

    If `has_bias` is false, only the four vectors are passed.
    """
    own = arrays[0].reshape(-1) * np.float32(factor) if has_bias else None
    normalization = arrays[1:] if has_bias else arrays
    if not normalization:
        assert own is not None
        return _pack_vector(own)
    scale, shift, mean, variance = normalization
    shifted = batchnorm_shift(
        scale, shift, mean if own is None else mean - own, variance, epsilon=epsilon
    )
    return _pack_vector(shifted)


def _slice_starts(indices: Array, strides: Sequence[int], lengths: Sequence[int]) -> Array:
    """Return the slice start that each row of indices selects; negative ones count from the end."""
    rows = indices.reshape(-1, len(strides)).astype(np.int64)
    starts: Array = np.where(rows < 0, rows + np.array(lengths), rows) @ np.array(strides, np.int64)
    return starts


def offsets(indices: Array, *, strides: Sequence[int], lengths: Sequence[int]) -> Float32:
    """Pack the slice starts that rows of indices select; 4 per texel, 1024 texels per row."""
    starts = _slice_starts(indices, strides, lengths)
    width = min(1024, -(-starts.size // 4))
    flat = np.zeros(-(-starts.size // (4 * width)) * 4 * width, np.float32)
    flat[: starts.size] = starts
    return flat.reshape(1, -1, width, 4)


def updates(indices: Array, *, strides: Sequence[int], lengths: Sequence[int]) -> Float32:
    """Pack a table: for each slice of the data the last row of `indices` that selects it, or -1.

    4 per texel, 1024 texels per row.
    """
    places = _slice_starts(indices, strides, lengths)
    count = int(np.prod(lengths))
    flat = np.full(-(-count // 4096) * 4096, -1, np.float32)
    flat[places] = np.arange(len(places))
    return flat.reshape(1, -1, COLUMN_GROUPS, 4)


def taps(*, places: Sequence[Sequence[int]], weights: Sequence[Sequence[float]]) -> Float32:
    """Pack a table of (place, weight) texels, the taps of each position in order."""
    pairs = np.stack([np.asarray(places, np.float32), np.asarray(weights, np.float32)], -1)
    flat = pairs.reshape(-1, 2)
    texture = np.zeros((-(-len(flat) // COLUMN_GROUPS) * COLUMN_GROUPS, 4), np.float32)
    texture[: len(flat), :2] = flat
    return texture.reshape(1, -1, COLUMN_GROUPS, 4)


INTEGER_PACKERS = {"offsets", "updates", "taps"}  # hold indices: integers that must not be rounded
PACKERS: Mapping[str, Packer] = {
    f.__name__: f
    for f in (zero, tensor, filled, batchnorm_factor, conv, grouped, bias, offsets, updates, taps)
}
# Packers that fold a BatchNormalization into a convolution; its variance is the last source.
BATCHNORM_PACKERS = frozenset({"conv", "grouped", "bias"})
