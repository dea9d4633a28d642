"""Pictures in the views: ranges, clipping, bars of probabilities, and redraws."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from playwright.sync_api import Locator, Page, expect
from torch import Tensor, nn

import nbglcnn
from nbglcnn import Plan
from nbglcnn.pictures import feature_maps
from views_page import ViewsPage, canvas_pixels
from webgl_page import encode

ShowViews = Callable[..., ViewsPage]
COLOUR_TOLERANCE = 1  # of 255


class ContrastNet(nn.Module):
    """Increases a picture's contrast beyond 0 and 1."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Conv2d(3, 3, 1, bias=False)
        self.mix.weight.data[:] = torch.eye(3)[..., None, None] * 1.5

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x) - 0.25


@cache
def picture_case() -> tuple[Plan, np.ndarray, np.ndarray]:
    """A Plan, its input, and its output in PyTorch."""
    x = np.random.default_rng(2).random((2, 3, 18, 24)).astype(np.float32)
    model = ContrastNet().eval()
    with torch.inference_mode():
        output = model(torch.from_numpy(x)).numpy()
    return nbglcnn.compile(model, x), x, output


def output_caption(page: Page) -> Locator:
    return page.locator(".nbg-end:has([data-layer=output])")


def range_choice(page: Page) -> Locator:
    return output_caption(page).get_by_label("Values of output shown as black and white")


def read_end_picture(page: Page, key: str = "output") -> np.ndarray:
    """The picture of the network's input or output, read from its canvas."""
    return canvas_pixels(page.locator(f".nbg-end [data-maps='{key}']"))


def python_picture(plan: Plan, array: np.ndarray, scale: int, **look: object) -> np.ndarray:
    value = next(one for one in plan.values if one.key == "output")
    return np.asarray(feature_maps.draw_picture(value, array, scale=scale, **look))  # type: ignore[arg-type]


@pytest.mark.parametrize("example", [0, 1])
def test_an_output_is_drawn_from_0_to_1_and_what_that_clips_is_marked_and_counted(
    show: ShowViews, example: int
) -> None:
    plan, x, output = picture_case()
    views = show(plan, x)
    views.set(example=example)
    views.wait_idle()
    above = int((output[example] > 1 + 0.5 / 255).sum())
    below = int((output[example] < -0.5 / 255).sum())
    clipped = output_caption(views.page).locator(".nbg-clipped")
    expect(clipped).to_have_attribute("data-above", str(above))
    expect(clipped).to_have_attribute("data-below", str(below))
    expect(clipped).to_have_text(f" · {above} above, {below} below")
    expect(output_caption(views.page).locator(".nbg-image-range > span")).to_have_text("0 to 1")
    found = read_end_picture(views.page)
    scale = found.shape[0] // 18
    assert scale > 1, "it is enlarged, and yet its marks are a pixel large"
    mine = python_picture(plan, output, scale, example=example)
    assert np.abs(found.astype(int) - mine.astype(int)).max() <= COLOUR_TOLERANCE
    # The input is within its range, so there is no clipping note.
    expect(views.page.locator(".nbg-end:has([data-layer=x]) .nbg-clipped")).to_have_count(0)


def test_the_range_of_a_picture_is_chosen_and_its_pixels_follow(show: ShowViews) -> None:
    plan, x, output = picture_case()
    views = show(plan, x)
    page = views.page
    own = (float(output[0].min()), float(output[0].max()))
    for word, ranges, look in (
        ("−1 to 1", {"output": [-1, 1]}, (-1.0, 1.0)),
        ("Its minimum and maximum", {"output": "layer"}, "layer"),
        ("0 to 255", {"output": [0, 255]}, (0.0, 255.0)),
    ):
        range_choice(page).select_option(label=word)
        views.wait_idle()
        assert views.get("imageRanges") == ranges
        found = read_end_picture(page)
        mine = python_picture(plan, output, max(1, found.shape[0] // 18), color_range=look)
        if found.shape != mine.shape:  # without marks the browser enlarges the picture
            mine = python_picture(plan, output, 1, color_range=look)
        assert np.abs(found.astype(int) - mine.astype(int)).max() <= COLOUR_TOLERANCE
    # A held range stays fixed for any new values.
    label = range_choice(page).locator("option", has_text="Fixed at").inner_text()
    range_choice(page).select_option(label=label)
    views.page.evaluate("a => views.feed(...a)", ["x", encode(x * 0.5)])
    views.wait_idle()
    held = views.get("imageRanges")["output"]
    np.testing.assert_allclose(held, own, rtol=1e-6)
    range_choice(page).select_option(value="")
    assert views.get("imageRanges") == {}


def test_a_picture_of_noise_does_not_turn_black_to_grey(show: ShowViews) -> None:
    plan, x, _ = picture_case()
    views = show(plan, x)
    noise = np.random.default_rng(4).normal(0, 1, x.shape)
    for strength in (0.05, 0.3):
        noisy = (x * 0.6 + strength * noise).astype(np.float32)
        views.page.evaluate("a => views.feed(...a)", ["x", encode(noisy)])
        views.wait_idle()
        expect(
            views.page.locator(".nbg-end:has([data-layer=x]) .nbg-image-range > span")
        ).to_have_text("0 to 1")
        found = read_end_picture(views.page, "x")
        scale = found.shape[0] // 18
        value = next(one for one in plan.values if one.key == "x")
        mine = np.asarray(feature_maps.draw_picture(value, noisy, scale=scale))
        assert np.abs(found.astype(int) - mine.astype(int)).max() <= COLOUR_TOLERANCE


@cache
def classifier_case() -> tuple[Plan, np.ndarray, np.ndarray]:
    """A network with a softmax over close scores, its input and its probabilities."""
    torch.manual_seed(1)
    layers = (nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(32, 5), nn.Softmax(1))
    model = nn.Sequential(*layers).eval()
    x = np.random.default_rng(2).random((1, 1, 6, 6)).astype(np.float32)
    with torch.inference_mode():
        shares = model(torch.from_numpy(x)).numpy()[0]
    assert shares.max() < 0.5
    return nbglcnn.compile(model, x), x, shares


# The length of each bar as a fraction of the available space.
BAR_LENGTHS_SCRIPT = """(svg) => {
  const zero = svg.querySelector('.nbg-zero');
  const at = (name) => Number(zero.getAttribute(name));
  const upright = at('y1') === at('y2');
  const room = (upright ? at('y1') : svg.width.baseVal.value - at('x1')) - 1;
  return [...svg.querySelectorAll('rect')].map(
    (bar) => Number(bar.getAttribute(upright ? 'height' : 'width')) / room);
}"""
ROW_WIDTHS_SCRIPT = """(list) => [...list.querySelectorAll('.nbg-top-bar')].map(
  (bar) => parseFloat(bar.style.width) / 100)"""


def bar_lengths(bars: Locator) -> list[float]:
    expect(bars.first).to_be_visible()
    assert bars.count() == 1
    isList = bars.evaluate("(one) => one.nodeName !== 'svg'")
    return list(map(float, bars.evaluate(ROW_WIDTHS_SCRIPT if isList else BAR_LENGTHS_SCRIPT)))


@pytest.mark.parametrize("width", [420, 848, 1280])
def test_bars_behind_a_softmax_go_from_0_to_1_in_each_view(show: ShowViews, width: int) -> None:
    plan, x, shares = classifier_case()
    views = show(plan, x, width=width)
    page = views.page
    views.wait_idle()
    expected = pytest.approx(sorted(shares), abs=0.01)
    ends = page.locator(".nbg-end [data-bars=output]")
    assert sorted(bar_lengths(ends)) == expected
    others = page.locator(".nbglcnn [data-bars='3']")
    for k in range(others.count()):
        assert sorted(bar_lengths(others.nth(k))) == expected
    if width >= 760:
        page.get_by_role("button", name="Graph").click()
        views.wait_idle()
        assert sorted(bar_lengths(page.locator(".nbg-node [data-bars=output]"))) == expected
    views.set(selected={"layer": "3", "channel": None}, tab="layer", layerSection="maps")
    views.wait_idle()
    assert bar_lengths(page.locator(".nbg-main svg[data-bars='3']")) == pytest.approx(
        list(shares), abs=0.01
    )
    thumb = page.locator("[data-thumb='output'] rect")
    side = float(page.locator("[data-thumb='output']").get_attribute("width") or 0)
    found = [float(one.get_attribute("width") or 0) / side for one in thumb.all()]
    assert found == pytest.approx(list(shares), abs=0.01)
    rows = page.locator(".nbg-element rect:not([class*=zero])")
    found = [float(one.get_attribute("width") or 0) / 72 for one in rows.all()]
    assert found == pytest.approx(list(shares), abs=0.01)
    views.set(layerSection="bend")
    views.wait_idle()
    bars = page.locator(".nbg-bend-element .nbg-bend-bar")
    widths = [float(one.evaluate("(bar) => parseFloat(bar.style.width)")) for one in bars.all()]
    assert widths == pytest.approx(list(100 * shares), abs=1)


def test_scores_without_a_softmax_fill_the_room(show: ShowViews) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 5)).eval()
    x = np.random.default_rng(2).random((1, 1, 6, 6)).astype(np.float32)
    views = show(nbglcnn.compile(model, x), x)
    views.wait_idle()
    with torch.inference_mode():
        scores = model(torch.from_numpy(x)).numpy()[0]
    found = bar_lengths(views.page.locator(".nbg-end [data-bars=output]"))
    spread = max(0, scores.max()) - min(0, scores.min())
    assert sorted(found) == pytest.approx(sorted(np.abs(scores) / spread), abs=0.01)


SCROLL_AWAY_SCRIPT = "() => { document.body.style.paddingTop = '5000px'; scrollTo(0, 0); }"
SCROLL_BACK_SCRIPT = "() => { document.body.style.paddingTop = '0'; }"
OUT_OF_SIGHT_SCRIPT = "() => [...views.state.viewVisibility.value.values()][0] === false"
# Everything that a view draws or writes about values.
VISIBLE_CONTENT_SCRIPT = """() => {
  const root = document.querySelector('.nbglcnn main');
  const numbers = root.cloneNode(true);
  for (const one of numbers.querySelectorAll('.nbg-image-range, style')) one.remove();
  return [[...root.querySelectorAll('canvas')].map((one) => one.toDataURL()),
    numbers.textContent, [...root.querySelectorAll('rect')].map((one) => one.outerHTML)];
}"""
TAB_STATES = [
    {"tab": "network"},
    {"tab": "layer", "layerSection": "maps"},
    {"tab": "layer", "layerSection": "filters"},
    {"tab": "layer", "layerSection": "explain"},
    {"tab": "layer", "layerSection": "bend"},
]


@pytest.mark.parametrize("view", TAB_STATES, ids=lambda view: view.get("layerSection", view["tab"]))
def test_what_comes_back_in_sight_shows_the_run_of_now(
    show: ShowViews, view: dict[str, str]
) -> None:
    torch.manual_seed(3)
    layers = (nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 3, 3, padding=1))
    model = nn.Sequential(*layers, nn.Sigmoid()).eval()
    x = np.random.default_rng(2).random((1, 3, 18, 24)).astype(np.float32)
    plan = nbglcnn.compile(model, x)
    views = show(plan, x)
    page = views.page
    page.evaluate("() => { globalThis.stop = views.feeds(); }")  # it tracks visibility
    pixel = {"mapHeight": 18, "mapWidth": 24, "y": 5, "x": 7}
    opened = {"selected": {"layer": "0", "channel": 1}, "pixel": pixel, **view}
    views.set(**opened)
    views.wait_drawn()
    views.wait_idle()
    before = page.evaluate(VISIBLE_CONTENT_SCRIPT)
    page.evaluate(SCROLL_AWAY_SCRIPT)
    page.wait_for_function(OUT_OF_SIGHT_SCRIPT)
    for k in (3, 2):
        page.evaluate("a => views.feed(...a)", ["input", encode(x[..., ::-1] / k)])
        views.wait_idle()
    page.evaluate(SCROLL_BACK_SCRIPT)
    page.wait_for_function(f"() => !({OUT_OF_SIGHT_SCRIPT})()")
    views.wait_drawn()
    views.wait_idle()
    after = page.evaluate(VISIBLE_CONTENT_SCRIPT)
    other = show(plan, x[..., ::-1] / 2)
    other.page.evaluate("() => { globalThis.stop = views.feeds(); }")
    other.set(**opened)
    other.wait_drawn()
    other.wait_idle()
    fresh = other.page.evaluate(VISIBLE_CONTENT_SCRIPT)
    assert after == fresh
    if view.get("layerSection") != "filters":
        assert after != before


def range_text(locator: Locator) -> str:
    return locator.locator(".nbg-image-range > span").inner_text()


def clipped_counts(locator: Locator) -> tuple[int, int]:
    """The counts of values above and below the range, from a caption."""
    clipped = locator.locator(".nbg-clipped")
    above, below = (clipped.get_attribute(f"data-{word}") for word in ("above", "below"))
    return int(above or 0), int(below or 0)


def test_the_layer_tab_and_the_graph_draw_an_output_in_its_range_and_count_what_that_clips(
    show: ShowViews,
) -> None:
    plan, x, output = picture_case()
    views = show(plan, x)
    page = views.page
    wanted = int((output[0] > 1 + 0.5 / 255).sum()), int((output[0] < -0.5 / 255).sum())
    views.set(networkLayout="graph")
    views.wait_idle()
    node = page.locator(".nbg-node[data-kind='output']")
    assert (range_text(node), clipped_counts(node)) == ("0 to 1", wanted)
    views.open_layer(plan.layers[-1].name)
    views.wait_idle()
    block = page.locator(".nbg-as-picture")
    assert (range_text(block), clipped_counts(block)) == ("0 to 1", wanted)
    for look in (None, (-1.0, 1.0)):
        if look is not None:
            block.get_by_label("Values of output shown as black and white").select_option(
                label="−1 to 1"
            )
            views.wait_idle()
            assert views.get("imageRanges") == {"output": [-1, 1]}
        found = canvas_pixels(block.locator("canvas"))
        mine = python_picture(plan, output, max(1, found.shape[0] // 18), color_range=look)
        assert np.abs(found.astype(int) - mine.astype(int)).max() <= COLOUR_TOLERANCE
    # The chosen range applies in the Network tab too.
    views.set(tab="network")
    views.wait_idle()
    assert range_text(page.locator(".nbg-node[data-kind='output']")) == "−1 to 1"


def test_the_colours_of_an_input_are_grey_in_its_range_as_python_draws_them(
    show: ShowViews,
) -> None:
    plan, x, _ = picture_case()
    views = show(plan, x)
    views.open_layer("x")
    views.wait_idle()
    page = views.page
    expect(page.locator(".nbg-controls").get_by_text("Range", exact=True)).to_have_count(0)
    expect(page.locator(".nbg-controls .nbg-legend")).to_have_count(0)
    found = canvas_pixels(page.locator(".nbg-grid canvas").first)
    value = next(one for one in plan.values if one.key == "x")
    scale = found.shape[0] // 18
    for channel in range(3):
        mine = np.asarray(feature_maps.draw_picture(value, x, channels=[channel], scale=scale))
        width = mine.shape[1]
        gap = (found.shape[1] - 3 * width) // 2
        start = channel * (width + gap)
        part = found[:, start : start + width]
        assert np.abs(part.astype(int) - mine.astype(int)).max() <= COLOUR_TOLERANCE


@pytest.mark.parametrize("showing", ["Side by side", "Wipe", "Hold A"])
def test_a_comparison_counts_what_the_range_of_both_clips(show: ShowViews, showing: str) -> None:
    _, x, output = picture_case()
    other = ContrastNet().eval()
    other.mix.weight.data *= 1.2
    with torch.inference_mode():
        outputs = output, other(torch.from_numpy(x)).numpy()
    joined = nbglcnn.compare(ContrastNet().eval(), other, x)
    views = show(joined.network.plan, x)
    joined.close()
    views.set(tab="compare", selected={"layer": "A.output", "channel": None})
    page = views.page
    page.get_by_role("button", name=showing, exact=True).click()
    views.wait_idle()
    captions = page.locator(".nbg-compared .nbg-clipped")
    expect(captions).to_have_count(2)
    for caption_of, array in zip(captions.all(), outputs, strict=True):
        above, below = (array[0] > 1 + 0.5 / 255).sum(), (array[0] < -0.5 / 255).sum()
        expect(caption_of).to_have_attribute("data-above", str(above))
        expect(caption_of).to_have_attribute("data-below", str(below))
    assert set(page.locator(".nbg-compared .nbg-image-range > span").all_inner_texts()) == {
        "0 to 1"
    }


@pytest.mark.parametrize(
    ("number", "text", "light"),
    [(300.0, "0 to 300", 255), (-5.0, "−5 to 0", 0), (0.0, "0 to 1", 0)],
)
def test_a_picture_of_equal_numbers_has_a_range_with_zero_in_page_and_python(
    show: ShowViews, number: float, text: str, light: int
) -> None:
    plan, x, _ = picture_case()
    views = show(plan, np.full_like(x, number))
    views.set(imageRanges={"x": "layer"})
    views.wait_idle()
    where = views.page.locator(".nbg-end:has([data-layer=x])")
    assert range_text(where) == text
    expect(where.locator(".nbg-clipped")).to_have_count(0)
    value = next(one for one in plan.values if one.key == "x")
    mine = feature_maps.draw_picture(value, np.full_like(x, number), color_range="layer")
    assert np.unique(np.asarray(mine)).tolist() == [light]
    assert np.unique(read_end_picture(views.page, "x")).tolist() == [light]
    assert mine.info == {"below": 0, "above": 0}


@pytest.mark.parametrize("form", ["strip", "graph"])
@pytest.mark.parametrize(("times", "share"), [(2, 0.5), (4, 0.5), (1, 1.0)])
def test_the_output_of_an_upscaler_is_drawn_larger_than_its_input(
    show: ShowViews, form: str, times: int, share: float
) -> None:
    model = nn.Sequential(nn.Conv2d(1, times * times, 3, padding=1), nn.PixelShuffle(times)).eval()
    x = np.random.default_rng(3).random((1, 1, 16, 16)).astype(np.float32)
    views = show(nbglcnn.compile(model, x), x)
    views.set(networkLayout=form)
    views.wait_idle()
    end = ".nbg-end" if form == "strip" else ".nbg-node"
    sides = []
    for key in ("input", "output"):
        box = views.page.locator(f"{end}[data-layer={key}] canvas, {end} [data-layer={key}] canvas")
        found = box.first.bounding_box()
        assert found is not None
        sides.append(found["width"])
    assert sides[0] == pytest.approx(share * sides[1], rel=0.05)
