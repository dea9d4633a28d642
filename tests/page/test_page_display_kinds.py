"""Display kinds that aren't maps, in the page: the pixels of curves and of classes."""

from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from playwright.sync_api import Error

import nbglcnn
from colours import NON_FINITE_COLOR, parse_colours
from display_kind_models import ViT, plans_with_damaged_tokens
from layout_plans import layout_plan
from nbglcnn import Plan
from nbglcnn.pictures.colors import CLASS_COLORS
from nbglcnn.plan.layout import NCHW, Layout
from nbglcnn.plan.schema import DisplayKind
from webgl_page import ONE_RENDERER, GlPage

# Of a curve: the zero line is in the middle of a row if zero is in the middle of the range.
CELL_SIZE = (40, 23)
CURVES_JOB = {"drawMode": "curves", "scale": 1, "curveSize": CELL_SIZE}


def display_kind_plan(layout: Layout, display_kind: DisplayKind, nchw: NCHW | None = None) -> Plan:
    plan = layout_plan(layout, nchw)
    values = [msgspec.structs.replace(value, display_kind=display_kind) for value in plan.values]
    return Plan(msgspec.structs.replace(plan.header, values=tuple(values)), plan.uniforms, {})


def draw_plan(gl: GlPage, plan: Plan, array: np.ndarray, *jobs: dict[str, Any]) -> list[np.ndarray]:
    session = gl.open(plan)
    gl.write(session, "x", array)
    gl.run(session)
    return gl.draw(session, *({"key": "x", **job} for job in jobs))


def curve_row(range_fraction: float) -> float:
    """The row of a cell, from the top, at this share of its range."""
    return 1.5 + (1 - range_fraction) * (CELL_SIZE[1] - 3)


def is_ink(pixels: np.ndarray, name: str) -> np.ndarray:
    """The pixels of the curve itself, above or below zero: its saturated colours."""
    r, _, b = (pixels[..., k].astype(int) for k in range(3))
    return b - r > 90 if name == "positive" else r - b > 90


SIGNAL_LAYOUTS = [
    (Layout((1, 3, 1, 20), (1, 1, 4)), None),
    (Layout((1, 3, 20, 1), (1, 4, 1)), None),
    (Layout((1, 60, 1, 1)), (1, 3, 1, 20)),
    (Layout((1, 3, 1, 20), (1, 1, 4), max_side=16), None),
]


@ONE_RENDERER
@pytest.mark.parametrize(
    ("layout", "nchw"), SIGNAL_LAYOUTS, ids=["row", "column", "view", "in strips"]
)
def test_a_curve_stands_at_its_values(gl: GlPage, layout: Layout, nchw: NCHW | None) -> None:
    rng = np.random.default_rng(3)
    array = rng.uniform(0.3, 1, (3, 20)) * np.where(np.arange(20) // 5 % 2, -1, 1)
    array[:, 0], array[:, 7] = 1, -1
    plan = display_kind_plan(layout, "signal", nchw)
    [pixels] = draw_plan(gl, plan, array, CURVES_JOB | {"channels": [2, 0], "columns": 1, "gap": 1})
    assert pixels.shape[:2] == (2 * CELL_SIZE[1] + 1, CELL_SIZE[0])
    assert (pixels[CELL_SIZE[1]] == 0).all()
    for k, channel in enumerate((2, 0)):
        cell = pixels[k * (CELL_SIZE[1] + 1) :][: CELL_SIZE[1]]
        for at in range(1, 19):
            value = array[channel, at]
            row = curve_row((value + 1) / 2)
            # The value's middle is on one side in both of its pixels.
            columns = cell[:, 2 * at : 2 * at + 2]
            found = is_ink(columns, "positive" if value > 0 else "negative")
            rows = np.flatnonzero(found.any(1))
            assert rows.min() - 1 <= row <= rows.max() + 2, (channel, at)
            if value > 0:
                assert not is_ink(columns, "negative")[: CELL_SIZE[1] // 2].any()


def test_a_column_of_pixels_shows_all_values_that_it_covers(gl: GlPage) -> None:
    array = np.zeros((1, 1, 1, 4000), np.float32)
    array[..., 1230], array[..., 3333] = 1, -1  # a hundred values share a column of pixels
    plan = display_kind_plan(Layout((1, 1, 1, 4000), (1, 1, 4)), "signal")
    [pixels] = draw_plan(gl, plan, array, CURVES_JOB | {"channels": [0]})
    assert np.flatnonzero(is_ink(pixels, "positive")[2]).tolist() == [12]
    assert np.flatnonzero(is_ink(pixels, "negative")[-3]).tolist() == [33]


def test_zero_is_in_the_range_of_a_curve(gl: GlPage) -> None:
    array = np.full((1, 2, 1, 20), 4, np.float32)
    array[:, 1] = 8
    plan = display_kind_plan(Layout((1, 2, 1, 20)), "signal")
    by_layer, own, fixed = draw_plan(
        gl, plan, array,
        CURVES_JOB | {"channels": [0]},
        CURVES_JOB | {"channels": [0], "range": {"mode": "channel"}},
        CURVES_JOB | {"channels": [0], "range": {"mode": "fixed", "low": -4.0, "high": 4.0}},
    )  # fmt: skip
    for pixels, share in ((by_layer, 0.5), (own, 1.0), (fixed, 1.0)):
        rows = np.flatnonzero(is_ink(pixels, "positive")[:, 20])
        assert abs(rows.mean() + 0.5 - curve_row(share)) <= 0.5


def test_what_is_no_number_is_marked_in_a_curve(gl: GlPage) -> None:
    array = np.ones((1, 1, 1, 10), np.float32)
    array[..., 2], array[..., 7] = np.nan, np.inf
    plan = display_kind_plan(Layout((1, 1, 1, 10)), "signal")
    [pixels] = draw_plan(gl, plan, array, CURVES_JOB | {"channels": [0]})
    hatched, solid = pixels[:, 8:12].reshape(-1, 4), pixels[:, 28:32].reshape(-1, 4)
    assert {tuple(one) for one in hatched} == {tuple(NON_FINITE_COLOR), (0, 0, 0, 255)}
    assert (solid == NON_FINITE_COLOR).all()
    others = np.delete(pixels, [*range(8, 12), *range(28, 32)], axis=1)
    assert not (others == NON_FINITE_COLOR).all(-1).any()


@pytest.mark.parametrize(
    ("layout", "nchw"),
    [
        (Layout((2, 7, 9, 12), (1, 2, 2)), None),
        (Layout((2, 7, 9, 12), (1, 1, 1), (2, 2)), None),
        (Layout((2, 7 * 108, 1, 1)), (2, 7, 9, 12)),
    ],
    ids=["blocks", "phases", "view"],
)
def test_the_largest_channel_of_a_place_gives_its_colour(
    gl: GlPage, layout: Layout, nchw: NCHW | None
) -> None:
    array = np.random.default_rng(5).standard_normal((2, 7, 9, 12)).astype(np.float32) - 3
    array[1, :, 0, 0] = -np.inf  # the first of equal values
    array[1, 2, 0, 1] = np.nan
    plan = display_kind_plan(layout, "classes", nchw)
    job = {
        "drawMode": "classes",
        "channels": list(range(7)),
        "image": 1,
        "range": {"mode": "fixed"},
    }
    plain, large = draw_plan(gl, plan, array, job, job | {"scale": 2})
    colours = parse_colours(CLASS_COLORS.replace("#", ""))
    expected = colours[array[1].argmax(0)]
    np.testing.assert_array_equal(plain[1:, :, :3], expected[1:])
    assert plain[0, 0, :3].tolist() == colours[0].tolist()
    assert plain[0, 1].tolist() in (NON_FINITE_COLOR, [0, 0, 0, 255])
    np.testing.assert_array_equal(large[2:, :, :3], expected[1:].repeat(2, 0).repeat(2, 1))


def test_a_class_number_has_the_colour_of_its_class(gl: GlPage) -> None:
    array = np.arange(64, dtype=np.float32).reshape(1, 1, 8, 8)
    plan = display_kind_plan(Layout((1, 1, 8, 8), (1, 2, 2)), "classes")
    [pixels] = draw_plan(gl, plan, array, {"drawMode": "classes", "channels": [0]})
    colours = parse_colours(CLASS_COLORS.replace("#", ""))
    flat = pixels.reshape(64, 4)[:, :3]
    np.testing.assert_array_equal(flat[:20], colours)
    lighter = np.rint(colours * 0.55 + 115)
    np.testing.assert_allclose(flat[20:40], lighter, atol=1)
    np.testing.assert_array_equal(flat[60:], flat[:4])
    assert len({tuple(one) for one in flat[:60].tolist()}) == 60


@ONE_RENDERER
def test_a_plan_with_tokens_of_nothing_is_refused(gl: GlPage) -> None:
    for broken in plans_with_damaged_tokens(
        nbglcnn.compile(ViT().eval(), torch.rand(1, 3, 16, 16))
    ):
        with pytest.raises(Error, match=r"damaged Plan: .*tokens"):
            gl.open(broken)
