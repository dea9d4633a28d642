"""Presentation mode: the view fills the window, larger, with fewer controls; and leaving it."""

from collections.abc import Callable, Iterator

import pytest
import torch
from playwright.sync_api import Browser, Page, expect
from torch import nn

import nbglcnn
from accessibility import AXE_SCRIPT, accessibility_violations
from browsers import EMPTY_PAGE, serve_files
from fashion_autoencoder import load_autoencoder, load_images
from readability import assert_checks_detect, layout_faults_by_width
from viewer_models import autoencoder, pictures
from views_page import CLIPPED_ELEMENTS_SCRIPT, ViewsPage

X = pictures(3)
ZOOM_FACTOR = 720 / 626
# The viewer in a host as narrow as a cell's output, which clips it and applies a transform.
ADD_NOTEBOOK_CELL_SCRIPT = """() => {
  const cell = document.createElement("div");
  cell.style = "width: 620px; height: 500px; margin: 40px; overflow: hidden; contain: strict;"
    + "transform: translateX(30px); opacity: 0.99";
  const other = document.createElement("div");
  other.style = "position: fixed; inset: 0 0 auto; height: 60px; z-index: 5; background: red";
  document.body.append(cell, other);
  cell.append(document.querySelector(".nbglcnn").parentElement);
}"""
# The viewer's box in the window, and the elements hit at its corners.
READ_LAYOUT_SCRIPT = """() => {
  const root = document.querySelector(".nbglcnn");
  const { left, top, width, height } = root.getBoundingClientRect();
  const at = [[5, 5], [innerWidth - 5, 5], [5, innerHeight - 5], [innerWidth - 5, innerHeight - 5]];
  return {
    box: [left, top, width, height].map(Math.round),
    above: at.every(([x, y]) => root.contains(document.elementFromPoint(x, y))),
    whole: document.fullscreenElement === root,
    layout: root.clientWidth,
    text: parseFloat(getComputedStyle(root).fontSize) * root.currentCSSZoom,
    place: Math.round(root.parentElement.getBoundingClientRect().height),
  };
}"""


@pytest.fixture(scope="module")
def views(browser: Callable[[str], Browser]) -> Iterator[ViewsPage]:
    files = {"/": EMPTY_PAGE}
    with serve_files(files.get) as address:
        page = browser("llvmpipe").new_context().new_page()
        page.set_viewport_size({"width": 1280, "height": 720})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        page.goto(address + "/")
        views = ViewsPage(page, files, nbglcnn.compile(autoencoder(3), X), X)
        page.evaluate(ADD_NOTEBOOK_CELL_SCRIPT)
        views.wait_idle()
        yield views
        assert not errors, errors
        page.context.close()


@pytest.fixture(autouse=True)
def return_to_cell(views: ViewsPage) -> None:
    """Start each test with the view in its cell, not presenting."""
    views.set(isPresenting=False, tab="network", selected=None)
    views.page.wait_for_function("() => document.fullscreenElement === null")


def restrict_browser(page: Page, restriction: str) -> None:
    """Simulate a browser with missing permissions or features."""
    page.evaluate(
        {
            "fullscreen": "() => { Element.prototype.requestFullscreen = () => Promise.reject("
            "new TypeError('Permissions check failed')); }",
            "fullscreen at once": "() => { Element.prototype.requestFullscreen = () => {"
            " throw new TypeError('no'); }; }",
            "all": "() => { delete Element.prototype.requestFullscreen;"
            " delete HTMLElement.prototype.showPopover; }",
        }[restriction]
    )


def test_a_click_takes_the_whole_screen_and_esc_or_a_click_leads_back(views: ViewsPage) -> None:
    page = views.page
    before = page.evaluate(READ_LAYOUT_SCRIPT)
    assert before["layout"] < 620 and not before["above"]
    button = page.get_by_role("button", name="Present")
    button.click()
    page.wait_for_function("() => document.fullscreenElement !== null")
    views.wait_idle()
    now = page.evaluate(READ_LAYOUT_SCRIPT)
    assert now["whole"] and now["above"] and now["box"] == [0, 0, 1280, 720]
    # Scaled up to the window's 720 pixels.
    assert now["layout"] == pytest.approx(1280 / ZOOM_FACTOR, abs=1)
    assert now["text"] == pytest.approx(13 * ZOOM_FACTOR, abs=0.01)
    # The notebook below keeps its scroll position and stays open.
    assert now["place"] == pytest.approx(before["place"], abs=2)
    assert views.get("isPresenting") is True
    expect(page.locator(".nbg-status")).to_be_hidden()
    expect(page.locator(".nbg-find")).to_be_hidden()
    page.get_by_role("button", name="Back").click()
    page.wait_for_function("() => document.fullscreenElement === null")
    views.wait_idle()
    assert page.evaluate(READ_LAYOUT_SCRIPT) == before
    assert views.get("isPresenting") is False
    # Leaving by the browser's own control.
    button.click()
    page.wait_for_function("() => document.fullscreenElement !== null")
    page.evaluate("() => document.exitFullscreen()")
    page.wait_for_function("() => !views.state.isPresenting.value")
    views.wait_idle()
    assert page.evaluate(READ_LAYOUT_SCRIPT) == before


def test_keys_lead_there_and_back(views: ViewsPage) -> None:
    page = views.page
    page.locator(".nbglcnn").focus()
    for key, on in (("p", True), ("p", False), ("p", True), ("Escape", False)):
        page.keyboard.press(key)
        page.wait_for_function("on => views.state.isPresenting.value === on", arg=on)
        page.wait_for_function("on => (document.fullscreenElement !== null) === on", arg=on)
        assert page.evaluate("() => document.activeElement.className") == "nbglcnn"
    expect(page.locator(".nbg-find")).to_be_visible()


def test_pictures_keep_whole_pixels_and_the_pointer_its_place(views: ViewsPage) -> None:
    page = views.page
    views.set(tab="layer", layerSection="maps", selected={"layer": "encoder.0", "channel": 2})
    views.set(isPresenting=True)
    views.wait_idle()
    # The canvas's pixels equal the screen's device pixels.
    sizes = page.locator(".nbg-grid canvas[data-drawn]").evaluate_all(
        "all => all.map((one) => [one.width, one.getBoundingClientRect().width])"
    )
    assert sizes and all(own == pytest.approx(shown, abs=0.1) for own, shown in sizes)
    canvas = page.locator(".nbg-inspector canvas").first
    assert "y 4, x 3" in views.hover(canvas, 3.5 / 9, 4.5 / 11)
    mouse, tip = canvas.bounding_box(), page.locator(".nbg-tip").bounding_box()
    assert mouse and tip
    x = mouse["x"] + mouse["width"] * 3.5 / 9
    beside = min(abs(tip["x"] - x), abs(tip["x"] + tip["width"] - x))
    assert beside == pytest.approx(14 * ZOOM_FACTOR, abs=2)
    # Elements located by CSS pixels: a bar, a weight.
    views.set(layerSection="explain", selected={"layer": "encoder.3", "channel": 1}, pixel=None)
    views.wait_idle()
    terms = page.locator("[data-term]")
    bars = page.locator("svg:has([data-term])").first
    bars.scroll_into_view_if_needed()
    box = bars.bounding_box()
    assert box
    last = terms.count() - 1
    page.mouse.move(box["x"] + box["width"] * (last + 0.5) / terms.count(), box["y"] + 5)
    wanted = f"from channel {terms.nth(last).get_attribute('data-term')}"
    expect(page.locator(".nbg-tip")).to_contain_text(wanted)
    assert not page.evaluate(CLIPPED_ELEMENTS_SCRIPT)


@pytest.mark.parametrize("how", ["fullscreen", "fullscreen at once", "all"])
def test_where_the_browser_refuses_it_fills_the_window(
    show: Callable[..., ViewsPage], how: str
) -> None:
    views = show(nbglcnn.compile(autoencoder(3), X), X)
    page = views.page
    restrict_browser(page, how)
    page.get_by_role("button", name="Present").click()
    page.wait_for_function(
        "() => Math.abs(document.querySelector('.nbglcnn').currentCSSZoom - 1.15) < 1e-3"
    )
    views.wait_idle()
    now = page.evaluate(READ_LAYOUT_SCRIPT)
    assert not now["whole"] and now["above"] and now["box"] == [0, 0, 1200, 1000]
    # Esc also works when the focus is elsewhere, since nothing else is visible.
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.press("Escape")
    page.wait_for_function("() => !views.state.isPresenting.value")
    assert page.evaluate(READ_LAYOUT_SCRIPT)["layout"] > 1190


def test_without_a_click_it_fills_the_window_out_of_a_clipped_and_moved_cell(
    show: Callable[..., ViewsPage],
) -> None:
    views = show(nbglcnn.compile(autoencoder(3), X), X)
    page = views.page
    page.evaluate(ADD_NOTEBOOK_CELL_SCRIPT)
    # A page treats a call from a test as a user gesture, so disable user activation.
    page.evaluate(
        "() => Object.defineProperty(navigator, 'userActivation', {value: {isActive: false}})"
    )
    views.set(isPresenting=True)
    views.wait_idle()
    now = page.evaluate(READ_LAYOUT_SCRIPT)
    assert not now["whole"] and now["above"] and now["box"] == [0, 0, 1200, 1000]
    views.set(isPresenting=False)
    views.wait_idle()
    assert page.evaluate(READ_LAYOUT_SCRIPT)["layout"] < 620


def test_of_two_views_one_presents_and_its_end_is_the_end_of_it(
    show: Callable[..., ViewsPage],
) -> None:
    views = show(nbglcnn.compile(autoencoder(3), X), X)
    page = views.page
    page.evaluate("() => { globalThis.second = views.show(); }")
    views.wait_idle()
    page.get_by_role("button", name="Present").nth(1).click()
    on = (
        "() => [...document.querySelectorAll('.nbglcnn')].map((one) => 'presenting' in one.dataset)"
    )
    assert page.evaluate(on) == [False, True]
    page.evaluate("() => second()")
    assert views.get("isPresenting") is False
    views.set(isPresenting=True)
    assert page.evaluate(on) == [True]


def test_the_view_for_a_projector_is_accessible(views: ViewsPage) -> None:
    views.set(isPresenting=True, tab="layer", layerSection="explain")
    views.wait_idle()
    views.page.add_script_tag(path=str(AXE_SCRIPT))
    assert not accessibility_violations(views.page, "light")


VIEW_STATES = (
    {"tab": "network", "networkLayout": "strip"},
    {"tab": "network", "networkLayout": "graph"},
    {"tab": "layer", "layerSection": "maps"},
    {"tab": "layer", "layerSection": "explain"},
    {"tab": "layer", "layerSection": "bend"},
)


def test_all_can_be_read_on_a_projector(
    show: Callable[..., ViewsPage], sweep_widths: Callable[..., tuple[int, ...]]
) -> None:
    views = show(nbglcnn.compile(autoencoder(3), X), X, width=1280)
    views.set(selected={"layer": "encoder.2", "channel": 1}, isPresenting=True)
    for place in VIEW_STATES:
        views.set(**place)
        assert layout_faults_by_width(views.page, sweep_widths(768, 1280)) == {}, place
    views.set(**VIEW_STATES[0])
    assert_checks_detect(
        views.page,
        {
            ".nbg-caption { margin-top: -60px }": "over a picture",
            ".nbglcnn { font-size: 8px !important }": "letters of",
        },
    )


READ_OVERFLOW_SCRIPT = """() => {
  const { clientHeight, scrollHeight, clientWidth, scrollWidth } =
    document.querySelector(".nbg-content");
  return [scrollHeight - clientHeight, scrollWidth - clientWidth];
}"""


@pytest.mark.parametrize(
    ("size", "zoom"),
    [
        ((1280, 720), 720 / 626),
        ((1366, 768), 1366 / 1113),
        ((1920, 1080), 1080 / 626),
        ((1024, 768), 1.15),
        ((900, 600), 1.15),
    ],
)
def test_the_zoom_is_the_windows(
    show: Callable[..., ViewsPage], size: tuple[int, int], zoom: float
) -> None:
    views = show(nbglcnn.compile(autoencoder(3), X), X)
    page = views.page
    restrict_browser(page, "fullscreen")
    page.get_by_role("button", name="Present").click()
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.wait_for_function(
        "zoom => Math.abs(document.querySelector('.nbglcnn').currentCSSZoom - zoom) < 1e-3",
        arg=zoom,
    )
    views.wait_idle()
    now = page.evaluate(READ_LAYOUT_SCRIPT)
    assert now["box"] == [0, 0, *size] and now["layout"] == pytest.approx(size[0] / zoom, abs=1)
    # Pictures are drawn at this size.
    sizes = page.locator(".nbg-line canvas[data-drawn]").evaluate_all(
        "all => all.map((one) => [one.width, one.getBoundingClientRect().width])"
    )
    own = [(pixels, shown) for pixels, shown in sizes if pixels > 100]
    assert all(a == pytest.approx(b, abs=0.6) for a, b in own)


def test_on_a_projector_the_tours_network_and_sixteen_maps_need_no_scrolling(
    show: Callable[..., ViewsPage],
) -> None:
    images = load_images()[0][:3]
    views = show(nbglcnn.compile(load_autoencoder(), images), images)
    page = views.page
    page.set_viewport_size({"width": 1280, "height": 720})
    views.set(isPresenting=True)
    views.wait_idle()
    assert page.evaluate(READ_OVERFLOW_SCRIPT) == [0, 0]
    expect(page.locator(".nbg-line .nbg-stage")).to_have_count(7)
    note = page.locator(".nbg-own-scale").bounding_box()
    line = page.locator(".nbg-line").bounding_box()
    assert note is not None and line is not None
    assert note["y"] + note["height"] <= line["y"] + 20, "the note stands beside the forms"
    assert not page.evaluate(CLIPPED_ELEMENTS_SCRIPT)


@pytest.mark.parametrize("kernel", [3, 4, 5])
@pytest.mark.parametrize("side", [14, 28, 64])
def test_sixteen_maps_and_the_large_one_need_no_scrolling(
    show: Callable[..., ViewsPage], kernel: int, side: int
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 16, kernel, padding="same"), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)
    )
    x = torch.rand(1, 3, side, side)
    views = show(nbglcnn.compile(model.eval(), x), x.numpy())
    page = views.page
    page.set_viewport_size({"width": 1280, "height": 720})
    views.set(isPresenting=True, tab="layer", layerSection="maps")
    for layer in ("0", "2", "3"):
        views.set(selected={"layer": layer, "channel": 3})
        views.wait_idle()
        assert page.evaluate(READ_OVERFLOW_SCRIPT) == [0, 0], layer
        expect(page.locator(".nbg-frame")).to_have_count(16)
        expect(page.locator(".nbg-inspector canvas").first).to_be_visible()
    assert not page.evaluate(CLIPPED_ELEMENTS_SCRIPT)
