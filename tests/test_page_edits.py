"""Edits in the page's session: every transform, where they act, what follows from them, and their cost."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Error, Page
from torch import nn

import nbglcnn
from carrier import LAYOUTS, carrier
from equal import assert_equal
from nbglcnn.edits.kinds import KINDS
from nbglcnn.edits.records import Edit
from nbglcnn.edits.reference import edited
from nbglcnn.layout import nchw_of
from page import JOB, ONE_RENDERER, GlPage, decode

RANDOM = np.random.default_rng(20)
CASES = {
    "ablate": [()],
    "invert": [()],
    "multiply": [(-1.5,)],
    "add": [(0.75,)],
    "clamp": [(-0.5, 0.6)],
    "threshold": [(0.2,)],
    "noise": [(0.5, 7)],
    "blur": [(1.3,)],
    "sharpen": [(0.8, 0.9)],
    "erode": [(2,)],
    "dilate": [(1,)],
    "translate": [(0.3, -0.4)],
    "scale": [(1.7,), (0.4,)],
    "rotate": [(30,), (180,)],
    "flip_h": [()],
    "flip_v": [()],
}


def edit(layer: str, transform: str, *parameters: float, name: str = "", **fields: Any) -> Edit:
    name = name or f"{transform} of {layer} {RANDOM.integers(1 << 30)}"
    return Edit(layer=layer, name=name, transform=transform, parameters=parameters, **fields)


def close(found: np.ndarray, expected: np.ndarray, name: str, rtol: float = 1e-5) -> None:
    """To `rtol`, and for what is read between pixels to where float32 says that is."""
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    place = max(expected.shape[2:], default=1) * 2.0**-22
    atol = (2 * rtol + place) * scale
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol, err_msg=name)


def test_every_transform_equals_numpy_in_every_layout(gl: GlPage) -> None:
    """Also of channel subsets, batches and maps of one row; the whole value too."""
    assert set(CASES) == set(KINDS)
    for name, layout in LAYOUTS.items():
        plan = editable(carrier(layout))
        session = gl.open(plan)
        array = RANDOM.standard_normal(layout.nchw).astype(np.float32)
        gl.write(session, "x", array)
        gl.run(session)
        c = layout.nchw[1]
        for transform, cases in CASES.items():
            for parameters in cases:
                channels = None if transform in ("noise", "flip_h") else tuple(range(0, c, 2))
                edits = [edit("x", transform, *parameters, channels=channels, mix=0.75)]
                gl.set_edits(session, edits)
                expected = edited(array, layout.nchw, edits, {})
                close(gl.read(session, "x"), expected, f"{name}, {transform} {parameters}")
        gl.set_edits(session, [])
        np.testing.assert_array_equal(gl.read(session, "x"), array)
        gl.close(session)


def editable(plan: nbglcnn.Plan) -> nbglcnn.Plan:
    """A Plan by hand whose only value can be edited."""
    replace = nbglcnn.plan.msgspec.structs.replace
    [value] = plan.header.values
    header = replace(plan.header, values=(replace(value, after=-1),))
    return nbglcnn.Plan(header, plan.uniforms, plan.blobs)
