"""Pictures in the page: the pixels of a drawn canvas against colours computed here."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from colours import NON_FINITE_COLOR, SIGNED_STOPS, parse_colours, signed_colours
from layout_plans import LAYOUTS, layout_plan
from nbglcnn.load import load
from nbglcnn.lowering.lower import lower
from nbglcnn.plan.layout import NCHW, Layout
from webgl_page import DRAW_JOB, ONE_RENDERER, GlPage

# matplotlib's and d3's viridis at 0, 1/4, 1/2, 3/4 and 1.
VIRIDIS_STOPS = ["440154", "3b528b", "21918c", "5ec962", "fde725"]
COLOUR_TOLERANCE = 6  # of 255: neighbouring texels of a colour map differ by less


def draw_layout(
    gl: GlPage,
    layout: Layout,
    array: np.ndarray,
    *jobs: dict[str, Any],
    nchw: NCHW | None = None,
) -> list[np.ndarray]:
    session = gl.open(layout_plan(layout, nchw))
    gl.write(session, "x", array)
    gl.run(session)
    return gl.draw(session, *({"key": "x", **job} for job in jobs))


def assert_close(pixels: np.ndarray, colours: np.ndarray, step: float = COLOUR_TOLERANCE) -> None:
    assert pixels.shape[:2] == colours.shape[:2]
    np.testing.assert_allclose(pixels[..., :3], colours, atol=step)
    assert (pixels[..., 3] == 255).all()


@pytest.mark.parametrize("name", LAYOUTS)
def test_maps_of_every_layout_have_the_colours_of_their_values(gl: GlPage, name: str) -> None:
    layout = LAYOUTS[name]
    n, c, h, w = layout.nchw
    array = np.random.default_rng(1).standard_normal(layout.nchw).astype(np.float32)
    channels = list(range(c))[::-1]
    columns = max(1, min(3, 2000 // w))
    image = n - 1
    job = {"image": image, "channels": channels, "columns": columns, "gap": 1}
    [pixels] = draw_layout(gl, layout, array, job)
    across = min(columns, c)
    assert pixels.shape[:2] == (-(-c // columns) * (h + 1) - 1, across * (w + 1) - 1)
    most = np.abs(array[image]).max()
    for slot, channel in enumerate(channels):
        y, x = slot // columns * (h + 1), slot % columns * (w + 1)
        assert_close(pixels[y : y + h, x : x + w], signed_colours(array[image, channel], most))
        assert (pixels[y : y + h, x + w : x + w + 1] == 0).all(), "a gap is not transparent"


# Values stored in one nchw and displayed in another: heads, a view of all elements, of channels.
RESHAPED_LAYOUTS = [
    (Layout((8, 16, 1, 16)), (2, 4, 16, 16)),
    (LAYOUTS["2x2 pixels"], (1, 10, 13, 19)),
    (LAYOUTS["quadrants of 2x2 pixels"], (2, 3, 20, 14)),
    (LAYOUTS["4 images"], (2, 9, 4, 5)),
    (LAYOUTS["odd"], (1, 105, 1, 1)),
    (LAYOUTS["vector"], (1, 2, 1, 513)),
]


def test_maps_in_another_frame_than_they_lie_in_have_the_colours_of_their_values(
    gl: GlPage,
) -> None:
    for layout, nchw in RESHAPED_LAYOUTS:
        n, c, h, w = nchw
        array = np.random.default_rng(1).standard_normal(nchw).astype(np.float32)
        array *= 1 + np.arange(c, dtype=np.float32)[:, None, None] % 4
        channels = list(range(c))[::-1][:9]
        job = {"image": n - 1, "channels": channels, "columns": 3, "gap": 1}
        jobs = [job | {"range": {"mode": mode}} for mode in ("layer", "channel")]
        fixed = {"mode": "fixed", "high": 3.0}
        [*drawn, small] = draw_layout(
            gl, layout, array, *jobs, job | {"scale": 0.5, "range": fixed}, nchw=nchw
        )
        for pixels, each in zip(drawn, (False, True), strict=True):
            for slot, channel in enumerate(channels):
                y, x = slot // 3 * (h + 1), slot % 3 * (w + 1)
                most = np.abs(array[n - 1, channel] if each else array[n - 1]).max()
                colours = signed_colours(array[n - 1, channel], most)
                assert_close(pixels[y : y + h, x : x + w], colours)
        if h % 2 == w % 2 == 0:
            mean = array[n - 1, channels[0]].reshape(h // 2, 2, w // 2, 2).mean((1, 3))
            assert_close(small[: h // 2, : w // 2], signed_colours(mean, 3))


@pytest.mark.parametrize("nchw", [(1, 5, 3, 4), (1, 3, 4, 5)], ids=["as it lies", "reshaped"])
def test_the_greatest_value_of_a_negative_layer_is_not_the_zero_of_unused_lanes(
    gl: GlPage, nchw: NCHW
) -> None:
    array = -1 - np.random.default_rng(7).random(nchw).astype(np.float32)
    channels = list(range(nchw[1]))
    job = {"channels": channels, "columns": nchw[1], "colormap": "viridis"}
    last = {"channels": channels[-1:], "colormap": "viridis", "range": {"mode": "channel"}}
    for maps, pixels in zip(
        (array[0], array[0, -1:]),
        draw_layout(gl, Layout((1, 5, 3, 4)), array, job, last, nchw=nchw),
        strict=True,
    ):
        row = maps.transpose(1, 0, 2).reshape(nchw[2], -1)
        for value, colour in ((maps.min(), VIRIDIS_STOPS[0]), (maps.max(), VIRIDIS_STOPS[-1])):
            assert_close(pixels[row == value][None], parse_colours(colour)[None])


def test_zero_is_exactly_the_colour_of_the_page(gl: GlPage) -> None:
    layout = Layout((1, 1, 2, 3))
    array = np.array([[[[0, -0.0, 5], [-5, 0, 1]]]], np.float32)
    for theme, zero in (("light", [255, 255, 255]), ("dark", [0x0F, 0x12, 0x16])):
        [pixels] = draw_layout(gl, layout, array, {"channels": [0], "theme": theme})
        assert pixels[0, 0, :3].tolist() == pixels[0, 1, :3].tolist() == zero
        assert_close(pixels, signed_colours(array[0, 0], 5, theme))
        assert pixels[0, 2, :3].tolist() == parse_colours(SIGNED_STOPS[theme])[-1].tolist()
        assert pixels[1, 0, :3].tolist() == parse_colours(SIGNED_STOPS[theme])[0].tolist()


def test_each_range_gives_its_own_colours(gl: GlPage) -> None:
    layout = LAYOUTS["2x2 pixels"]
    array = np.random.default_rng(2).standard_normal(layout.nchw).astype(np.float32)
    array *= np.arange(1, 6, dtype=np.float32)[:, None, None]
    one = {"channels": [1]}
    fixed = {"mode": "fixed", "low": -0.5, "high": 2.0}
    by_channel, by_layer, by_numbers = draw_layout(
        gl,
        layout,
        array,
        one | {"range": {"mode": "channel"}},
        one | {"range": {"mode": "layer"}},
        one | {"range": fixed},
    )
    assert_close(by_channel, signed_colours(array[0, 1], np.abs(array[0, 1]).max()))
    assert_close(by_layer, signed_colours(array[0, 1], np.abs(array[0]).max()))
    assert_close(by_numbers, signed_colours(array[0, 1], 2.0))


def test_two_images_of_one_value_in_one_batch_have_their_own_ranges(gl: GlPage) -> None:
    layout = LAYOUTS["4 images"]
    array = np.random.default_rng(2).standard_normal(layout.nchw).astype(np.float32)
    array *= np.arange(1, 7, dtype=np.float32)[:, None, None, None]
    jobs = [{"channels": [0], "image": image} for image in (0, 5, 0)]
    for job, pixels in zip(jobs, draw_layout(gl, layout, array, *jobs), strict=True):
        image = job["image"]
        assert_close(pixels, signed_colours(array[image, 0], np.abs(array[image]).max()))


def test_sequential_maps_run_from_minimum_to_maximum_or_around_zero(gl: GlPage) -> None:
    layout = Layout((1, 1, 1, 5))
    array = np.array([[[[-1, 0, 1, 2, 3]]]], np.float32)
    job = {"channels": [0], "colormap": "viridis"}
    spread, around, grey = draw_layout(
        gl,
        layout,
        array,
        job | {"range": {"mode": "layer"}},
        job | {"range": {"mode": "layer", "symmetric": True}},
        job | {"colormap": "grey"},
    )
    assert_close(spread[0][None], parse_colours(" ".join(VIRIDIS_STOPS))[None])
    assert_close(around[:, 1:2], parse_colours(VIRIDIS_STOPS[2])[None])
    assert_close(around[:, 4:5], parse_colours(VIRIDIS_STOPS[4])[None])
    assert_close(grey, np.linspace(0, 255, 5)[None, :, None].repeat(3, -1), 1)


def test_a_constant_map_has_a_colour(gl: GlPage) -> None:
    layout = Layout((1, 1, 2, 2))
    for value, map_ in ((0, "signed"), (0, "viridis"), (3, "viridis")):
        array = np.full(layout.nchw, value, np.float32)
        [pixels] = draw_layout(gl, layout, array, {"channels": [0], "colormap": map_})
        expected = [255, 255, 255] if map_ == "signed" else parse_colours(VIRIDIS_STOPS[0])[0]
        assert_close(pixels, np.broadcast_to(expected, (2, 2, 3)))


def test_the_largest_floats_keep_their_order(gl: GlPage) -> None:
    layout = Layout((1, 1, 1, 5))
    array = np.array([[[[-3.4e38, -1.7e38, 0, 1.7e38, 3.4e38]]]], np.float32)
    job = {"channels": [0]}
    one, other = draw_layout(gl, layout, array, job, job | {"colormap": "viridis"})
    assert_close(one, signed_colours(array[0, 0] / 1e38, 3.4))
    assert_close(other, parse_colours(" ".join(VIRIDIS_STOPS))[None])


def test_nan_is_hatched_and_infinity_is_solid_magenta(gl: GlPage) -> None:
    layout = Layout((1, 2, 12, 12), (1, 2, 2))
    array = np.zeros(layout.nchw, np.float32)
    array[0, 0, :, :6] = np.nan
    array[0, 0, :6, 6:] = np.inf
    array[0, 0, 6:, 6:] = -np.inf
    array[0, 1, 0, 0] = 2
    for job in ({"drawMode": "maps"}, {"drawMode": "grey"}, {"colormap": "magma"}):
        [pixels] = draw_layout(gl, layout, array, {"channels": [0, 1], "columns": 2} | job)
        assert (pixels[:, 6:12] == NON_FINITE_COLOR).all()
        hatched = {tuple(p) for p in pixels[:, :6].reshape(-1, 4).tolist()}
        assert hatched == {tuple(NON_FINITE_COLOR), (0, 0, 0, 255)}
        assert (pixels[:, :6, 0] == 255).mean() > 0.5
        assert tuple(pixels[0, 12].tolist()) not in hatched, "the largest finite value"


def test_pictures_are_grey_or_rgb_without_a_colour_map(gl: GlPage) -> None:
    layout = Layout((2, 4, 3, 5), (1, 2, 2))
    array = np.random.default_rng(5).random(layout.nchw).astype(np.float32) * 4 - 2
    fixed = {"range": {"mode": "fixed", "low": -2, "high": 2}, "image": 1}
    grey, colour = draw_layout(
        gl,
        layout,
        array,
        fixed | {"drawMode": "grey", "channels": [3]},
        fixed | {"drawMode": "rgb", "channels": [2, 0, 1]},
    )
    levels = (array[1] + 2) / 4 * 255
    assert_close(grey, np.repeat(levels[3][..., None], 3, -1), 1)
    assert_close(colour, levels[[2, 0, 1]].transpose(1, 2, 0), 1)


def test_a_colour_that_an_image_does_not_have_is_black_whatever_was_drawn_before(
    gl: GlPage,
) -> None:
    layout = Layout((1, 2, 3, 5))
    array = np.random.default_rng(5).random(layout.nchw).astype(np.float32)
    session = gl.open(layout_plan(layout))
    gl.write(session, "x", array)
    gl.run(session)
    job = {"key": "x", "range": {"mode": "fixed", "low": 0, "high": 1}, "channels": [0, 1]}
    gl.draw(session, job | {"channels": [0], "range": {"mode": "fixed", "low": -9, "high": -8}})
    [pixels] = gl.draw(session, job | {"drawMode": "rgb"})
    np.testing.assert_allclose(pixels[..., :2], 255 * array[0].transpose(1, 2, 0), atol=1)
    assert (pixels[..., 2] == 0).all() and (pixels[..., 3] == 255).all()


@ONE_RENDERER
def test_small_and_large_pictures_follow_each_other(gl: GlPage) -> None:
    layout = Layout((1, 1, 2, 3))
    array = np.random.default_rng(5).standard_normal(layout.nchw).astype(np.float32)
    session = gl.open(layout_plan(layout))
    gl.write(session, "x", array)
    gl.run(session)
    before = gl.count_live_objects()
    for scale in (1, 500, 1300, 2, 600):
        [pixels] = gl.draw(session, {"key": "x", "channels": [0], "scale": scale})
        expected = signed_colours(array[0, 0], np.abs(array).max())
        assert_close(pixels[scale // 2 :: scale, scale // 2 :: scale], expected)
        assert pixels.shape == (2 * scale, 3 * scale, 4)
    assert gl.count_live_objects() == before


def test_a_whole_scale_repeats_pixels_and_a_fraction_averages_them(gl: GlPage) -> None:
    layout = Layout((1, 2, 8, 12), (1, 2, 2))
    array = np.random.default_rng(6).standard_normal(layout.nchw).astype(np.float32)
    job = {"channels": [0, 1], "columns": 2, "gap": 2, "range": {"mode": "fixed", "high": 2}}
    large, small = draw_layout(gl, layout, array, job | {"scale": 3}, job | {"scale": 0.25})
    assert large.shape == (24, 74, 4)
    assert_close(large[:, 38:], signed_colours(array[0, 1], 2).repeat(3, 0).repeat(3, 1))
    assert small.shape == (2, 8, 4)
    mean = array[0, 1].reshape(2, 4, 3, 4).mean((1, 3))
    assert_close(small[:, 5:], signed_colours(mean, 2))


@pytest.mark.parametrize("side, line, scale", [(32, 1, 1 / 4), (128, 4, 1 / 16)])
def test_a_thin_line_does_not_vanish_in_a_thumbnail(
    gl: GlPage, side: int, line: int, scale: float
) -> None:
    layout = Layout((1, 1, side, side), (1, 2, 2))
    for left in (side // 2 - 1, side // 2, side // 2 + 1):
        array = np.zeros(layout.nchw, np.float32)
        array[..., left : left + line] = 1
        [pixels] = draw_layout(gl, layout, array, {"channels": [0], "scale": scale})
        assert (pixels[..., :3] != 255).any(-1).any(1).all()


def test_many_channels_and_many_pictures_fit_one_call(gl: GlPage) -> None:
    layout = LAYOUTS["vector"]
    array = np.random.default_rng(8).standard_normal(layout.nchw).astype(np.float32)
    channels = np.random.default_rng(9).permutation(513).tolist()
    jobs = [{"channels": channels, "columns": 20, "image": 1}]
    jobs += [{"channels": [k], "scale": 1 + k % 7} for k in range(60)]
    pixels = draw_layout(gl, layout, array, *jobs)
    most = np.abs(array[1]).max()
    flat = pixels[0].reshape(-1, 4)
    assert_close(flat[None, :513], signed_colours(array[1, channels, 0, 0], most)[None])
    assert (flat[513:] == 0).all()
    most = np.abs(array[0]).max()
    for k, one in enumerate(pixels[1:]):
        assert one.shape == (1 + k % 7, 1 + k % 7, 4)
        assert_close(one, np.broadcast_to(signed_colours(array[0, k], most), (*one.shape[:2], 3)))


@ONE_RENDERER
def test_each_layer_has_its_own_range_whatever_else_is_drawn_with_it(gl: GlPage) -> None:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Conv2d(3, 9, 3), nn.ReLU(), nn.Conv2d(9, 5, 3, stride=4)).eval()
    inputs = [torch.randn(1, 3, 43, 40) * size for size in (1, 4)]
    graph, _ = load(model, inputs[0])
    plan = lower(graph, observe="all")
    session = gl.open(plan)
    for x in inputs:
        gl.write(session, plan.header.inputs[0].key, x.numpy())
        gl.run(session)
        for keys in (["1"], ["0", "1", "2"], ["2", "0"]):
            for key, pixels in zip(
                keys, gl.draw(session, *({"key": k, "channels": [4]} for k in keys)), strict=True
            ):
                values = gl.read(session, key)[0]
                assert_close(pixels, signed_colours(values[4], np.abs(values).max()))


def test_a_job_that_is_drawn_again_shows_what_has_changed(gl: GlPage) -> None:
    layout = Layout((1, 6, 5, 7), (1, 2, 2))
    session = gl.open(layout_plan(layout))
    gl.page.evaluate(
        """job => { window.kept = { ...job, canvas: document.createElement("canvas") }; }""",
        {"key": "x", **DRAW_JOB, "channels": [5]},
    )
    for seed in (1, 2):
        array = np.random.default_rng(seed).standard_normal(layout.nchw).astype(np.float32)
        gl.write(session, "x", array)
        gl.run(session)
        for change, channel, rows in (("", 5, 5), ("kept = {...kept, channels: [0, 3]};", 0, 10)):
            found = gl.page.evaluate(
                f"""session => {{ {change} gl.the(session).draw([kept]);
                  const {{ width, height }} = kept.canvas;
                  return [...kept.canvas.getContext("2d").getImageData(0, 0, width, height).data];
                }}""",
                session,
            )
            pixels = np.array(found, np.uint8).reshape(rows, 7, 4)
            assert_close(pixels[:5], signed_colours(array[0, channel], np.abs(array).max()))
        gl.page.evaluate("() => { kept = { ...kept, channels: [5] }; }")


@ONE_RENDERER
def test_the_ranges_of_many_numbers_are_found_while_the_page_goes_on(gl: GlPage) -> None:
    small = np.random.default_rng(2).standard_normal((150, 140)).astype(np.float32)
    layout = Layout((1, 2, 1200, 1120), (1, 2, 2))
    array = np.stack([np.zeros((1200, 1120), np.float32), small.repeat(8, 0).repeat(8, 1)])[None]
    session = gl.open(layout_plan(layout))
    gl.write(session, "x", array)
    gl.run(session)
    job = {"key": "x", **DRAW_JOB, "channels": [1], "scale": 1 / 8}
    waited = gl.page.evaluate(
        """async ([session, job]) => {
          const settle = () => gl.the(session).prepareDraw([{ ...job, canvas: null }]);
          const fixed = { ...job, range: { mode: "fixed", low: -1, high: 1 }, canvas: null };
          const first = [gl.the(session).prepareDraw([fixed]), settle()];
          await first[1];
          return [...first, settle()].map((one) => one !== undefined);
        }""",
        [session, job],
    )
    assert waited == [False, True, False]  # computed once a run, only if colours need it
    [pixels] = gl.draw(session, job)
    assert_close(pixels, signed_colours(small, np.abs(small).max()))


def test_drawing_on_a_graphics_card_reads_nothing_back(gl: GlPage) -> None:
    layout = LAYOUTS["large map"]
    session = gl.open(layout_plan(layout))
    gl.write(session, "x", np.ones(layout.nchw))
    gl.run(session)
    calls = gl.page.evaluate(
        """async ([session, job]) => {
          const own = WebGL2RenderingContext.prototype;
          const calls = [];
          // As a renderer that isn't the processor has it.
          gl.the(session).canvasTransfer = "canvas";
          const draw = () => gl.the(session).draw([job]);
          job.canvas = document.createElement("canvas");
          draw();  // makes what it needs, and asks whether there is room for it
          await gl.the(session).run();
          const blocking = ["readPixels", "getError", "finish", "getParameter", "clientWaitSync"];
          const kept = blocking.map((name) => own[name]);
          for (const name of blocking) own[name] = () => calls.push(name);
          draw();
          blocking.forEach((name, k) => { own[name] = kept[k]; });
          return calls;
        }""",
        [session, {"key": "x", **DRAW_JOB, "channels": [0, 1]}],
    )
    assert calls == []


@ONE_RENDERER
@pytest.mark.parametrize(
    "job, message",
    [
        ({"key": "y", "channels": [0]}, 'no value "y" to draw'),
        ({"channels": [3]}, "channel 3 of x, which has 3"),
        ({"channels": [0], "image": 1}, "image 1 of x, which has 1"),
        ({"channels": [0], "scale": 1.5}, "scale is 1.5"),
        ({"channels": [0], "scale": 900}, "at most 4096 a side"),
    ],
)
def test_a_wrong_job_says_what_is_wrong(gl: GlPage, job: dict[str, Any], message: str) -> None:
    layout = LAYOUTS["odd"]
    with pytest.raises(Exception, match=message):
        draw_layout(gl, layout, np.ones(layout.nchw), job)
    [pixels] = draw_layout(gl, layout, np.ones(layout.nchw), {"channels": [0]})
    assert (pixels[..., 2] > pixels[..., 0]).all(), "the page does not draw any more"
