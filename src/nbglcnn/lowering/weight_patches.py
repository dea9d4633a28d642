"""Patches: partial updates of weight textures after a few numbers change."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from nbglcnn.codegen.weights import (
    kernel_array,
    pack_dense_kernel,
    pack_weight,
    split_kernel_texture,
)
from nbglcnn.graph import Array, Graph
from nbglcnn.plan.layout import Float32, Layout
from nbglcnn.plan.schema import PackingRecipe, Patch, Plan

MAX_PATCH_TEXELS = 2**16  # 1 MiB: larger changes are repacked and sent as whole textures
MAX_PATCH_ELEMENTS = 256  # per tensor; each becomes its own rectangle

Indices = npt.NDArray[np.intp]
# A texture region: its origin (layer, row, column), its texels before, and after the change.
RegionChange = tuple[tuple[int, int, int], Float32, Float32]


def changed_elements(old: Graph, new: Graph) -> dict[str, Indices]:
    """Flat indices of the numbers that differ, by value name.

    The comparison is bitwise: -0 differs from 0, and NaNs with other bits differ.
    """
    found = {}
    for name, value in new.values.items():
        before = old.values[name]
        if value is not before and value.data is not None and before.data is not None:
            places = np.flatnonzero(_bits(value.data) != _bits(before.data))
            if places.size:
                found[name] = places
    return found


def make_patches(
    plan: Plan, old: Graph, new: Graph, changed: Mapping[str, Indices]
) -> list[Patch] | None:
    """The patches from the weight textures of `old` to those of `new`; None if too large."""
    found: list[Patch] = []
    left = MAX_PATCH_TEXELS
    for weight in plan.header.weights:
        sources = weight.recipe.sources
        if changed.keys().isdisjoint(sources):
            continue
        before, after = ([graph.values[name].data for name in sources] for graph in (old, new))
        places = [changed.get(name, _NO_INDICES) for name in sources]
        pieces = _changed_regions(weight.recipe, before, after, places, left)
        if pieces is None:
            return None
        found += (_trim_region(weight.texture, piece) for piece in pieces if _has_changes(piece))
        left = MAX_PATCH_TEXELS - sum(patch.data.size for patch in found) // 4
    return found


def apply_patch(patch: Patch, contents: Float32) -> None:
    """Write a patch into a texture's contents (layers, height, width, 4)."""
    height, width, _ = patch.data.shape
    rows = slice(patch.y, patch.y + height)
    contents[patch.layer, rows, patch.x : patch.x + width] = patch.data


_NO_INDICES: Indices = np.zeros(0, np.intp)


def _bits(array: Array) -> Array:
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(f"u{array.itemsize}") if array.itemsize <= 8 else flat


def _changed_regions(
    recipe: PackingRecipe,
    old: Sequence[Array | None],
    new: Sequence[Array | None],
    changed_indices: Sequence[Indices],
    max_texels: int,
) -> list[RegionChange] | None:
    """The texture regions that may have changed; None if they exceed `max_texels`."""
    if recipe.packer == "conv":
        return _kernel_regions(recipe, old, new, changed_indices, max_texels)
    if recipe.packer == "tensor":
        return _tensor_regions(recipe, old[0], new[0], changed_indices[0])
    # Vectors and small tables.
    elements = sum(array.size for array in new if array is not None)
    if elements > 4 * max_texels:
        return None
    before, after = pack_weight(recipe, old), pack_weight(recipe, new)
    return [((layer, 0, 0), before[layer], after[layer]) for layer in range(len(after))]


def _kernel_regions(
    recipe: PackingRecipe,
    old: Sequence[Array | None],
    new: Sequence[Array | None],
    changed_indices: Sequence[Indices],
    max_texels: int,
) -> list[RegionChange] | None:
    """The rows of each group of four outputs that a changed weight or normalization affects."""
    o, i, kh, kw = _kernel_shape(recipe)
    outputs = np.concatenate([_output_channels(recipe, changed_indices[0]), *changed_indices[1:]])
    groups = np.unique(outputs // 4)
    taps = kh * kw
    if len(groups) * taps * i > max_texels:
        return None
    each, _ = split_kernel_texture(i, o, taps)
    pieces: list[RegionChange] = []
    for group in groups.tolist():
        own = slice(4 * group, min(4 * group + 4, o))
        before, after = (
            pack_dense_kernel(
                kernel_array(*_require_arrays(arrays), **recipe.arguments, outputs=own)
            )
            for arrays in (old, new)
        )
        layer, row = divmod(group, each)
        for part in range(after.shape[1] // taps):
            rows = slice(part * taps, (part + 1) * taps)
            at = layer, (part * each + row) * taps, 0
            pieces.append((at, before[0, rows], after[0, rows]))
    return pieces


def _require_arrays(arrays: Sequence[Array | None]) -> Iterator[Array]:
    for array in arrays:
        assert array is not None
        yield array


def _kernel_shape(recipe: PackingRecipe) -> tuple[int, int, int, int]:
    """The shape (O, I/groups, KH, KW) of a recipe's `kernel_array`."""
    first, second, kh, kw = recipe.arguments["shape"]
    groups = recipe.arguments.get("transposed_groups", 0)
    return (groups * second, first // groups, kh, kw) if groups else (first, second, kh, kw)


def _output_channels(recipe: PackingRecipe, changed_indices: Indices) -> Indices:
    """The output channels that these elements of a weight contribute to."""
    o, i, kh, kw = _kernel_shape(recipe)
    groups = recipe.arguments.get("transposed_groups", 0)
    if groups:
        each = o // groups
        found: Indices = (
            changed_indices // (each * kh * kw) // i * each + changed_indices // (kh * kw) % each
        )
    elif recipe.arguments.get("transpose", False):
        found = changed_indices % o
    else:
        found = changed_indices // (i * kh * kw)
    return found


def _tensor_regions(
    recipe: PackingRecipe, old: Array | None, new: Array | None, changed_indices: Indices
) -> list[RegionChange] | None:
    """The texels that contain these elements; None if there are too many."""
    assert old is not None and new is not None
    n, c, h, w = nchw = tuple(recipe.arguments["nchw"])
    bn, by, bx = recipe.arguments["block"]
    if changed_indices.size > MAX_PATCH_ELEMENTS or math.prod(nchw) != new.size:
        return None
    layout = Layout((n, c, h, w), (bn, by, bx), max_side=recipe.arguments.get("side", 0))
    image, channel, y, x = np.unravel_index(changed_indices, nchw)
    texels = np.unique(np.stack([image, channel // 4, y, x]), axis=1)
    pieces: list[RegionChange] = []
    for one, group, row, column in texels.T.tolist():
        at = layout.texel_index(*(np.array(k) for k in (one, 4 * group, row, column)))[:3]
        before, after = (
            _as_texel(array.reshape(nchw)[one, 4 * group : 4 * group + 4, row, column])
            for array in (old, new)
        )
        pieces.append(((int(at[0]), int(at[1]), int(at[2])), before, after))
    return pieces


def _as_texel(numbers: Array) -> Float32:
    texel = np.zeros((1, 1, 4), np.float32)
    texel[0, 0, : len(numbers)] = numbers
    return texel


def _has_changes(region: RegionChange) -> bool:
    return bool((_bits(region[1]) != _bits(region[2])).any())


def _trim_region(texture: int, region: RegionChange) -> Patch:
    """Trim a region to the smallest rectangle that contains all changes."""
    (layer, top, left), before, after = region
    unlike = (before.view(np.uint32) != after.view(np.uint32)).any(-1)
    rows, columns = np.flatnonzero(unlike.any(1)), np.flatnonzero(unlike.any(0))
    y, x = int(rows[0]), int(columns[0])
    data = np.ascontiguousarray(after[y : rows[-1] + 1, x : columns[-1] + 1])
    return Patch(texture, layer, left + x, top + y, data)
