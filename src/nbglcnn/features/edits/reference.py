"""Edits of numpy arrays: the reference of the GPU's edits, for PyTorch, verify and tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

import numpy as np

from nbglcnn.errors import InputError
from nbglcnn.features.edits.records import Edit, active_edits
from nbglcnn.features.edits.transforms import GLSL, INJECT, TRANSFORM_KINDS
from nbglcnn.graph import Array
from nbglcnn.plan.layout import NCHW


def apply_edits(
    array: Array, nchw_shape: NCHW, edits: Iterable[Edit], injected_arrays: Mapping[str, Array]
) -> Array:
    """Return a value after its edits, in its own shape, as float32, or float64 if it was.

    `nchw_shape` is the shape in which the value is displayed and edited; `injected_arrays` maps
    hashes to injected arrays. Raises InputError for GLSL code, which runs only on a graphics
    device.
    """
    kept = array.dtype if array.dtype == np.float64 else np.dtype(np.float32)
    found = np.array(array, kept).reshape(nchw_shape)
    for edit in active_edits(edits):
        channels = range(nchw_shape[1]) if edit.channels is None else edit.channels
        chosen = np.ix_(
            range(nchw_shape[0]), list(channels), range(nchw_shape[2]), range(nchw_shape[3])
        )
        old = found[chosen]
        made = _transform_channels(found, chosen, edit, injected_arrays)
        mix = np.float32(edit.mix)
        found[chosen] = made if edit.mix == 1 else old * (1 - mix) + made.astype(kept) * mix
    return found.reshape(array.shape)


def _transform_channels(
    array: Array,
    selected_index: tuple[Array, ...],
    edit: Edit,
    injected_arrays: Mapping[str, Array],
) -> Array:
    """Return the transformed values of the selected channels, before mixing."""
    if edit.transform == GLSL:
        raise InputError(
            f"the bend {edit.name!r} of {edit.layer} is written in GLSL, which runs only on a "
            "GPU: disable it (enabled = False) or remove it"
        )
    if edit.transform == INJECT:
        return injected_arrays[edit.array_hash].reshape(array[selected_index].shape)
    kind = TRANSFORM_KINDS[edit.transform]
    with np.errstate(all="ignore"):
        if kind.needs_all_channels:
            return kind.formula(array, *edit.parameters)[selected_index]
        return kind.formula(array[selected_index], *edit.parameters)


def group_by_layer(edits: Iterable[Edit]) -> dict[str, list[Edit]]:
    """Group the active edits by layer, in order."""
    # Stable: keeps the order within a layer.
    rows = sorted(active_edits(edits), key=lambda one: one.layer)
    return {layer: list(group) for layer, group in groupby(rows, lambda one: one.layer)}
