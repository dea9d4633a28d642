"""The snapshot in a saved notebook has the page's colours for the same values."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import nbglcnn
from colours import signed_colours
from nbglcnn import Viewer
from nbglcnn.pictures.bars import NEGATIVE_BAR_COLORS, POSITIVE_BAR_COLORS, draw_bars
from nbglcnn.widget.snapshot import GAP, PICTURE_SIDE, TOP, draw_snapshot, snapshot_values

COLOR_TOLERANCE = 14  # of 255: the picture has a 128-colour palette


class PositiveNegative(nn.Module):
    """Has a value with a positive and a negative map."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, -0.5 * x], 1) * 1.0


RAMP = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4) / 15
BATCH = np.concatenate([RAMP, -RAMP])


def map_pixels(png: bytes, plan: nbglcnn.Plan, key: str, count: int, side: int) -> list[np.ndarray]:
    """The pixels of a value's square maps, each from the middle of its drawn square."""
    sheet = np.asarray(Image.open(io.BytesIO(png)).convert("RGB"), float)
    left = GAP + [value.key for value in snapshot_values(plan)].index(key) * (PICTURE_SIDE + GAP)
    across = int(np.ceil(np.sqrt(count)))
    pixel = (PICTURE_SIDE - across + 1) // across // side
    tile = pixel * side
    top = TOP + PICTURE_SIDE + 1 - -(-count // across) * (tile + 1)
    middles = np.arange(side) * pixel + pixel // 2
    places = [divmod(k, across) for k in range(count)]
    corners = [(top + row * (tile + 1), left + column * (tile + 1)) for row, column in places]
    return [sheet[y + middles][:, x + middles] for y, x in corners]


@pytest.mark.parametrize("example", [0, 1])
def test_positive_and_negative_maps_have_the_pages_colours(example: int) -> None:
    plan = nbglcnn.compile(PositiveNegative(), BATCH)
    true = np.concatenate([BATCH, -0.5 * BATCH], 1)
    values = {value.key: true[:, : value.shape[1]] for value in plan.values}
    png = draw_snapshot(plan, values, example, "test")
    for drawn, values_of in zip(map_pixels(png, plan, "output", 2, 4), true[example], strict=True):
        np.testing.assert_allclose(drawn, signed_colours(values_of, 1.0), atol=COLOR_TOLERANCE)


def test_the_range_is_that_of_all_channels_also_of_those_left_out() -> None:
    x = np.zeros((1, 20, 3, 3), np.float32)
    x[0, :4], x[0, 19] = 1, 4  # only 16 maps are shown
    plan = nbglcnn.compile(nn.ReLU(), x)
    png = draw_snapshot(plan, {value.key: x for value in plan.values}, 0, "test")
    drawn, *_ = map_pixels(png, plan, "output", 16, 3)
    np.testing.assert_allclose(drawn, signed_colours(x[0, 0], 4.0), atol=COLOR_TOLERANCE)


def test_the_picture_shows_the_example_that_is_chosen_now() -> None:
    viewer = Viewer(PositiveNegative(), BATCH)
    first = viewer._repr_mimebundle_()[0]["image/png"]
    viewer.example = 1
    second = viewer._repr_mimebundle_()[0]["image/png"]
    blue, orange = (
        map_pixels(png, viewer.network.plan, "output", 2, 4)[0][3, 3] for png in (first, second)
    )
    viewer.close()
    np.testing.assert_allclose(blue, signed_colours(np.array(1.0), 1.0), atol=COLOR_TOLERANCE)
    np.testing.assert_allclose(orange, signed_colours(np.array(-1.0), 1.0), atol=COLOR_TOLERANCE)


def test_every_head_of_an_attention_has_its_map() -> None:
    weights = np.zeros((1, 4, 8, 8), np.float32)
    weights[0, np.arange(4), np.arange(4), 0] = 1  # head k attends from token k to the first token
    plan = nbglcnn.compile(nn.Sequential(nn.ReLU(), nn.Softmax(-1)), weights)
    [value] = [value for value in plan.values if value.key == "1"]
    values = {one.key: weights for one in plan.values}
    assert value.nchw == (1, 4, 8, 8)
    for head, drawn in enumerate(
        map_pixels(draw_snapshot(plan, values, 0, "test"), plan, "output", 4, 8)
    ):
        np.testing.assert_allclose(
            drawn, signed_colours(weights[0, head], 1.0), atol=COLOR_TOLERANCE
        )


def color_position(picture: Image.Image, color: tuple[int, int, int]) -> np.ndarray:
    """The positions with this colour in a picture."""
    return (np.asarray(picture) == color).all(-1)


def test_a_vector_is_bars_negative_to_the_left_and_the_largest_where_not_all_fit() -> None:
    vector = np.zeros(40, np.float32)
    vector[7], vector[31] = -2, 1
    picture = draw_bars(vector, PICTURE_SIDE, height=PICTURE_SIDE)
    left, right = (
        color_position(picture, of["light"]) for of in (NEGATIVE_BAR_COLORS, POSITIVE_BAR_COLORS)
    )
    assert left.any() and right.any()
    assert np.flatnonzero(left.any(0)).max() < np.flatnonzero(right.any(0)).min()
    assert left.any(0).sum() == pytest.approx(2 * right.any(0).sum(), abs=2)
    assert np.flatnonzero(left.any(1)).max() < np.flatnonzero(right.any(1)).min()


def test_outside_marimo_the_state_of_a_viewer_holds_no_picture() -> None:
    viewer = Viewer(PositiveNegative(), RAMP)
    data, _ = viewer._repr_mimebundle_()
    assert data["image/png"].startswith(b"\x89PNG")
    assert viewer.get_state()["_snapshot_url"] == ""
