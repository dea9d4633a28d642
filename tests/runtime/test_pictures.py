"""Pictures from Python: pixel-equal to the page's own canvases of the same values."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace
from PIL import Image
from torch import Tensor, nn

import nbglcnn
from colours import parse_colours
from nbglcnn import InputError, Session, Viewer
from nbglcnn.pictures import feature_maps as pictures
from nbglcnn.pictures.colors import BACKGROUND, COLORMAPS, colormap_texels
from nbglcnn.plan.schema import Plan, Value
from viewer_models import autoencoder
from viewer_models import pictures as inputs
from views_page import MAP_CANVAS_SELECTOR, ViewsPage, canvas_pixels
from webgl_page import GlPage

COLOUR_TOLERANCE = 1  # of 255


class PictureKinds(nn.Module):
    """Maps, a colour picture, a grey one, values above 1, and scores of five classes."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.Conv2d(3, 6, 3, padding=1)
        self.grey, self.classes = nn.Conv2d(6, 1, 1), nn.Conv2d(6, 5, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = self.maps(x)
        return self.grey(y) * 0.7, self.classes(y), torch.sigmoid(y[:, :3])


def page_and_python_pictures(
    gl: GlPage, plan: Plan, arrays: Sequence[np.ndarray], requests: Sequence[dict[str, Any]]
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return for each the page's canvas (RGB, opacity) and Python's picture of the same values."""
    session = gl.open(plan)
    values = gl.values(session, arrays)
    known = {value.key: value for value in plan.values}
    jobs = []
    for one in requests:
        value = known[one["key"]]
        drawn = pictures.display_style(value)
        channels = one.get("channels") or list(range(value.nchw[1]))
        limits = one.get("range", "layer")
        mode: Any = {"mode": limits}
        if not isinstance(limits, str):
            mode = {"mode": "fixed", "low": limits[0], "high": limits[1]}
        if drawn in ("grey", "rgb"):
            maps = pictures.example_maps(value, values[value.key], one.get("example", 0))
            low, high = limits if isinstance(limits, tuple) else pictures.image_limits(value, maps)
            mode = {"mode": "fixed", "low": float(low), "high": float(high)}
        mode["symmetric"] = one.get("symmetric", False)
        jobs.append(
            {
                "key": value.key,
                "image": one.get("example", 0),
                "channels": channels,
                "columns": one.get("columns", 1),
                "gap": 1,
                "scale": one.get("scale", 1),
                "colormap": one.get("colormap", "signed"),
                "theme": one.get("theme", "light"),
                "range": mode,
                "drawMode": drawn,
                **({"curveSize": [42, 21]} if drawn == "curves" else {}),
            }
        )
    found = []
    for one, canvas in zip(requests, gl.draw(session, *jobs), strict=True):
        own = {name: value for name, value in one.items() if name not in ("key", "range")}
        picture = pictures.draw_picture(
            known[one["key"]],
            values[one["key"]],
            color_range=one.get("range"),
            **own,
        )
        found.append((canvas[..., :3], canvas[..., 3], np.asarray(picture)))
    return found


def assert_same_pixels(
    page: np.ndarray, opacity: np.ndarray, python: np.ndarray, theme: str
) -> None:
    """Check that all pixels are equal, except gaps, which show the background."""
    assert page.shape == python.shape
    solid = opacity == 255
    assert solid.any()
    difference = np.abs(page[solid].astype(int) - python[solid].astype(int))
    assert difference.max() <= COLOUR_TOLERANCE
    assert (python[~solid] == parse_colours(BACKGROUND[theme].lstrip("#"))[0]).all()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pictures_of_layers_are_the_pages(gl: GlPage, theme: Any) -> None:
    x = inputs(3)
    plan = nbglcnn.compile(autoencoder(3), x)
    asked: list[dict[str, Any]] = [
        {"key": "encoder.0", "columns": 3, "scale": 2},
        {"key": "encoder.4", "columns": 2, "scale": 3, "example": 1},
        {"key": "decoder.0", "columns": 4, "colormap": "viridis", "range": "channel"},
        {"key": "decoder.2", "channels": [6, 0, 3], "columns": 2, "colormap": "magma"},
        {"key": "encoder.1", "columns": 9, "colormap": "cividis", "symmetric": True},
        {"key": "encoder.2", "columns": 9, "colormap": "grey", "range": (-0.25, 0.5)},
        {"key": "input", "scale": 4},
        {"key": "output", "example": 1, "scale": 2},
    ]
    for one in page_and_python_pictures(
        gl, plan, [x], [{"theme": theme, **each} for each in asked]
    ):
        assert_same_pixels(*one, theme)


def test_pictures_in_their_own_colours_are_the_pages(gl: GlPage) -> None:
    torch.manual_seed(0)
    model = PictureKinds().eval()
    x = np.random.default_rng(0).random((2, 3, 17, 12)).astype(np.float32)
    plan = nbglcnn.compile(model, x)
    outputs = list(plan.header.outputs)
    kinds = [pictures.display_style(v) for v in plan.values if v.key in outputs]
    assert kinds == ["grey", "classes", "rgb"]
    asked = [{"key": key, "scale": 3} for key in (*outputs, "x")]
    for page, opacity, python in page_and_python_pictures(gl, plan, [x], asked):
        assert_same_pixels(page, opacity, python, "light")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("length", [30, 300])
def test_curves_are_the_pages(gl: GlPage, length: int, theme: Any) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(2, 5, 5, padding=2), nn.ReLU()).eval()
    x = np.random.default_rng(1).standard_normal((1, 2, length)).astype(np.float32)
    plan = nbglcnn.compile(model, x)
    asked = [{"key": key, "theme": theme} for key in ("input", "0", "1")]
    for one in page_and_python_pictures(gl, plan, [x], asked):
        assert_same_pixels(*one, theme)


def test_what_is_no_number_is_marked_as_in_the_page(gl: GlPage) -> None:
    x = np.linspace(-1, 1, 2 * 6 * 7, dtype=np.float32).reshape(1, 2, 6, 7)
    x[0, 0, 1, 2], x[0, 0, 3, 4], x[0, 1, 5, 6] = np.nan, np.inf, -np.inf
    plan = nbglcnn.compile(nn.Sequential(nn.Identity(), nn.Hardtanh(-5, 5), nn.Identity()), x)
    asked = [
        {"key": "input", "columns": 1, "scale": 4},
        {"key": "input", "columns": 2, "range": "channel"},
    ]
    for page, opacity, python in page_and_python_pictures(gl, plan, [x], asked):
        assert_same_pixels(page, opacity, python, "light")
        assert (python == (255, 0, 255)).all(-1).any()


class OutOfRange(nn.Module):
    """Colour and grey pictures with values far and slightly outside 0 to 1, and NaN or Inf."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x * 1.5 - 0.25, x[:, :1] * 1.004 - 0.002, torch.tanh(3 * x - 1.5)


@pytest.mark.parametrize("flawed", [False, True])
@pytest.mark.parametrize("example", [0, 2])
def test_what_a_picture_clips_is_marked_as_in_the_page(
    gl: GlPage, example: int, flawed: bool
) -> None:
    x = np.random.default_rng(3).random((3, 3, 13, 18)).astype(np.float32)
    x[example, :, 2, 3:9] = [[1.0], [0.5], [0.0]]
    if flawed:
        x[example, 0, 5, 6], x[example, 1, 7, 8], x[example, 2, 7, 9] = np.nan, np.inf, -np.inf
    plan = nbglcnn.compile(OutOfRange().eval(), x)
    colour, grey, signed = plan.header.outputs
    asked: list[dict[str, Any]] = [
        {"key": colour},
        {"key": colour, "scale": 5},
        {"key": colour, "scale": 2, "range": (0.25, 0.75)},
        {"key": grey, "scale": 4},
        {"key": grey, "scale": 3, "range": (0.4, 0.6)},
        {"key": signed, "scale": 2},
        {"key": "x", "scale": 2},
        {"key": "x", "range": (0.5, 2.0), "scale": 3},
    ]
    asked = [{"example": example, **one} for one in asked]
    for page, opacity, python in page_and_python_pictures(gl, plan, [x], asked):
        assert_same_pixels(page, opacity, python, "light")
        assert not flawed or (python == (255, 0, 255)).all(-1).any()


def test_the_pages_tiles_are_those_of_the_picture(show: Callable[..., ViewsPage]) -> None:
    x = inputs(3)
    plan = nbglcnn.compile(autoencoder(3), x)
    views = show(plan, x)
    views.open_layer("encoder.0")
    grid = canvas_pixels(views.page.locator(f".nbg-grid {MAP_CANVAS_SELECTOR.split()[-1]}").first)
    scale = grid.shape[0] // 11
    assert scale > 2
    step = 9 * scale + (grid.shape[1] - 9 * 9 * scale) // 8  # nine 11×9 maps side by side
    with Session(plan) as session:
        session.run(x)
        for channel in range(9):
            tile = grid[:, channel * step : channel * step + 9 * scale].astype(int)
            mine = np.asarray(session.picture("encoder.0", channel, scale=scale), int)
            assert mine.shape == tile.shape
            # These values differ in the last digit, which may cross the edge of a colour.
            difference = np.abs(mine - tile).max(-1)
            assert difference.max() <= 3
            assert (difference <= COLOUR_TOLERANCE).mean() > 0.99


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", COLORMAPS)
def test_colour_maps_are_monotonous_and_begin_and_end_as_they_should(name: Any, theme: Any) -> None:
    row = colormap_texels(name, theme).astype(float)
    light = row @ [0.2126, 0.7152, 0.0722]
    assert row.shape == (512, 3)
    halves = [light[1:257], light[256:]] if name == "signed" else [light]
    for half in halves:
        steps = np.diff(half)
        assert (steps >= -0.5).all() or (steps <= 0.5).all()
        assert abs(half[-1] - half[0]) > 80


@pytest.mark.filterwarnings("ignore:no page")
def test_a_viewers_picture_is_as_its_page_stands() -> None:
    x = inputs(3)
    viewer = Viewer(autoencoder(3), x)
    plan = nbglcnn.compile(autoencoder(3), x)
    with Session(plan) as session:
        session.run(x)
        viewer.example, viewer.colormap, viewer.color_range = 1, "viridis", "channel"
        mine = viewer.picture("decoder.0", [2, 0], scale=2)
        expected = session.picture(
            "decoder.0", [2, 0], example=1, colormap="viridis", color_range="channel", scale=2
        )
        assert np.abs(np.asarray(mine, int) - np.asarray(expected, int)).max() <= COLOUR_TOLERANCE
        other = viewer.picture("decoder.0", colormap="signed", example=0, theme="dark")
        assert other.size == session.picture("decoder.0", example=0, theme="dark").size
        viewer.color_range = "fixed"
        assert viewer.picture("input").size == (18, 22)
        for chosen, color_range in (("layer", "layer"), ((0.2, 0.4), (0.2, 0.4))):
            viewer.image_ranges = {"input": chosen}
            mine = np.asarray(viewer.picture("input"))
            expected = session.picture("input", example=1, color_range=color_range)
            np.testing.assert_array_equal(mine, np.asarray(expected))
        viewer.image_ranges = {}
        usual = np.asarray(session.picture("input", example=1))
        np.testing.assert_array_equal(np.asarray(viewer.picture("input")), usual)
    viewer.close()


def test_vectors_scalars_and_parameters_have_pictures() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(18, 7), nn.Linear(7, 1))
    x = np.ones((1, 1, 5, 5), np.float32)
    with Session(nbglcnn.compile(model.eval(), x)) as session:
        session.run(x)
        assert session.picture("2").height == 7 * 12
        assert session.picture("2", [1, 5]).height == 2 * 12
        assert session.picture("3").size == (132, 44)
        assert isinstance(session.picture("0.weight", scale=8), Image.Image)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"channels": [9]}, "channels: encoder.0 has 0 to 8, not [9]"),
        ({"channels": []}, "channels: encoder.0 has 0 to 8, not none"),
        ({"example": 2}, "example 2: encoder.0 has 2 examples, counted from 0"),
        (
            {"colormap": "viridus"},
            "colormap='viridus' (near: viridis, cividis); expected one of signed",
        ),
        ({"theme": "blue"}, "theme='blue'; expected one of light, dark"),
        ({"color_range": (1, 0)}, "color_range is (1, 0)"),
        ({"scale": 0}, "scale is 0; expected an integer ≥ 1"),
        ({"scale": 3000}, "at most 16384"),
        ({"columns": 1.5}, "columns is 1.5"),
    ],
)
def test_an_argument_without_meaning_is_refused(arguments: dict[str, Any], words: str) -> None:
    x = inputs(3)
    with Session(nbglcnn.compile(autoencoder(3), x)) as session:
        session.run(x)
        with pytest.raises(InputError) as caught:
            session.picture("encoder.0", **arguments)
        assert words in str(caught.value)
        with pytest.raises(KeyError, match="encoder"):
            session.picture("encoder.99")


class ColourOutput(nn.Module):
    """Returns the input, as a colour output."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 1


def uneven_channels(batch: int = 2) -> np.ndarray:
    """Pictures whose channels differ in range; few values are outside 0 to 1."""
    x = np.random.default_rng(5).random((batch, 3, 9, 8)).astype(np.float32)
    x[:, 1] = 0.3 + 0.1 * x[:, 1]
    x[:, 0, 0, 0], x[:, 2, 1, 1] = 2.5, -1.5
    return x


@pytest.mark.parametrize("key", ["x", "output"])
@pytest.mark.parametrize("example", [0, 1])
def test_a_channel_of_a_picture_in_colour_is_drawn_in_the_range_of_the_picture(
    key: str, example: int
) -> None:
    x = uneven_channels()
    x[1] = x[1, :, ::-1] * 0.5 + 0.25  # another range in the second example
    with Session(nbglcnn.compile(ColourOutput().eval(), x)) as session:
        session.run(x)
        whole = np.asarray(session.picture(key, example=example))
        inside = ((x[example] >= 0) & (x[example] <= 1)).all(0)
        assert inside.mean() > 0.9
        for channel in range(3):
            alone = np.asarray(session.picture(key, channel, example=example))
            np.testing.assert_array_equal(alone[inside, 0], whole[inside, channel])
            assert (alone[inside] == alone[inside][:, :1]).all(), "grey"
        # All three side by side, and each one in its own range on request.
        three = np.asarray(session.picture(key, [2, 1, 0], example=example, columns=3))
        width = x.shape[3] + pictures.MAP_GAP_PIXELS
        np.testing.assert_array_equal(three[:, width : width + x.shape[3]][inside, 0],
                                      whole[inside, 1])  # fmt: skip
        own = np.asarray(session.picture(key, 1, example=example, color_range="channel"))
        assert (own[inside] != three[:, width : width + x.shape[3]][inside]).any()


@pytest.mark.parametrize("color_range", ["layer", "channel", (-2.0, 3.0)])
def test_maps_are_drawn_in_the_range_of_their_example(color_range: Any) -> None:
    x = uneven_channels()
    x[1] *= 4
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU()).eval()
    plan = nbglcnn.compile(model, x)
    with Session(plan) as session:
        values = session.run(x)
        [value] = [one for one in plan.values if one.key == "0"]
        found = {}
        for example in (0, 1):
            maps = values["0"][example]
            for channel in (0, 3):
                low, high = maps.min(), maps.max()
                if color_range == "channel":
                    low, high = maps[channel].min(), maps[channel].max()
                elif color_range != "layer":
                    low, high = map(np.float32, color_range)
                expected = pictures.apply_colormap(maps[channel], (low, high), "magma", "light")
                drawn = pictures.draw_picture(
                    value, values["0"], channels=channel, example=example, colormap="magma",
                    color_range=color_range,
                )  # fmt: skip
                np.testing.assert_array_equal(np.asarray(drawn), expected)
                found[example, channel] = np.asarray(drawn)
        assert (found[0, 0] != found[1, 0]).any()


def make_value(*shape: int) -> Value:
    """A layer's value record of this shape."""
    return replace(LAYER, shape=shape, nchw=shape, kind="layer", display_kind="maps")


[LAYER] = [
    one
    for one in nbglcnn.compile(nn.Conv2d(1, 2, 1), np.zeros((1, 1, 2, 3), np.float32)).values
    if one.kind == "output"
]


def test_a_picture_has_at_most_so_many_pixels_a_side() -> None:
    assert pictures.MAX_SIDE == 16_384
    value = make_value(1, 2, 1, 4096)
    array = np.zeros(value.shape, np.float32)
    assert pictures.draw_picture(value, array, columns=1, scale=4).size == (16_384, 9)
    with pytest.raises(InputError, match="20480 pixels per side"):
        pictures.draw_picture(value, array, columns=1, scale=5)
    with pytest.raises(InputError, match=r"32769.*Give fewer channels"):
        pictures.draw_picture(value, array, columns=2, scale=4)
    half = make_value(1, 2, 1, 8192)
    with pytest.raises(InputError, match="16385"):
        pictures.draw_picture(half, np.zeros(half.shape, np.float32), columns=2)


def test_arguments_are_taken_at_their_bounds_and_not_beyond() -> None:
    value = make_value(2, 3, 4, 5)
    array = np.random.default_rng(0).random(value.shape).astype(np.float32)
    for right in ({"example": 1}, {"channels": 2}, {"channels": [0, 2]}, {"scale": 1},
                  {"columns": 1}, {"color_range": (0, 1e-6)}):  # fmt: skip
        pictures.draw_picture(value, array, **right)
    for wrong in ({"example": 2}, {"example": -1}, {"channels": 3}, {"channels": [-1]},
                  {"channels": []}, {"scale": 0}, {"columns": 0}, {"scale": 1.5},
                  {"color_range": (1, 1)}, {"color_range": (2, 1)}):  # fmt: skip
        with pytest.raises(InputError):
            pictures.draw_picture(value, array, **wrong)


def test_a_mosaic_has_as_many_columns_as_make_a_square() -> None:
    assert [pictures.mosaic_columns(count) for count in (1, 2, 3, 4, 5, 9, 10)] == [
        1,
        2,
        2,
        2,
        3,
        3,
        4,
    ]
    tiles = [np.full((2, 3, 3), k, np.uint8) for k in range(5)]
    sheet = np.asarray(pictures.draw_mosaic(tiles, 3, (9, 9, 9)))
    assert sheet.shape == (5, 11, 3)
    assert sheet[0, 4, 0] == 1 and sheet[3, 0, 0] == 3 and sheet[0, 3, 0] == 9
    assert sheet[4, 10, 0] == 9, "the last place stays empty"


def test_classes_of_one_map_are_its_numbers_and_of_several_the_first_largest() -> None:
    scores = np.array([[[1.0, 0, np.nan]], [[1.0, 2, 0]], [[0.0, 2, 1]]], np.float32)
    colours = pictures.class_colors()
    found = pictures.draw_classes(scores)
    np.testing.assert_array_equal(found[0, :2], colours[[0, 1]])
    assert tuple(found[0, 2]) in ((255, 0, 255), (0, 0, 0))
    count = len(colours)
    alone = pictures.draw_classes(np.array([[[0.0, count - 1, count]]], np.float32))
    np.testing.assert_array_equal(alone[0], colours[[0, count - 1, 0]])
