"""Edits of numpy arrays: what the runtimes compute, for PyTorch, verify and tests."""

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
    array: Array, nchw: NCHW, edits: Iterable[Edit], arrays: Mapping[str, Array]
) -> Array:
    """A value after its edits, in its own shape, float32, or float64 where it is that.

    `nchw` is how it is shown; `arrays` has the injected arrays by their hash. InputError for a text
    in GLSL, which only a graphics device runs.
    """
    kept = array.dtype if array.dtype == np.float64 else np.dtype(np.float32)
    found = np.array(array, kept).reshape(nchw)
    for edit in active_edits(edits):
        channels = range(nchw[1]) if edit.channels is None else edit.channels
        chosen = np.ix_(range(nchw[0]), list(channels), range(nchw[2]), range(nchw[3]))
        old = found[chosen]
        made = _transform_channels(found, chosen, edit, arrays)
        mix = np.float32(edit.mix)
        found[chosen] = made if edit.mix == 1 else old * (1 - mix) + made.astype(kept) * mix
    return found.reshape(array.shape)


def _transform_channels(
    whole: Array, chosen: tuple[Array, ...], edit: Edit, arrays: Mapping[str, Array]
) -> Array:
    """What an edit makes of the chosen channels, before it is mixed."""
    if edit.transform == GLSL:
        raise InputError(
            f"the bend {edit.name!r} of {edit.layer} is written in GLSL, which runs only on a "
            "GPU: disable it (enabled = False) or remove it"
        )
    if edit.transform == INJECT:
        return arrays[edit.array_hash].reshape(whole[chosen].shape)
    kind = TRANSFORM_KINDS[edit.transform]
    with np.errstate(all="ignore"):
        if kind.needs_all_channels:
            return kind.formula(whole, *edit.parameters)[chosen]
        return kind.formula(whole[chosen], *edit.parameters)


def group_by_layer(edits: Iterable[Edit]) -> dict[str, list[Edit]]:
    """The active edits of each layer, in their order."""
    rows = sorted(
        active_edits(edits), key=lambda one: one.layer
    )  # stable: the order within one stays
    return {layer: list(group) for layer, group in groupby(rows, lambda one: one.layer)}
