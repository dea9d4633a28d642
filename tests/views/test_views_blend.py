"""Translucent overlays on the input's picture: a channel's map, segmentation classes."""

import io
from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image
from playwright.sync_api import Locator, expect
from torch import Tensor, nn

import nbglcnn
from display_kind_models import Segmenter
from views_page import ViewsPage, canvas_pixels

ShowViews = Callable[..., ViewsPage]
COLOUR_TOLERANCE = 2  # of 255: rounding error of a blend


class Net(nn.Module):
    """A strided convolution: its maps and the picture have different aspect ratios."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=(2, 3), padding=1)
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(self.conv(x)).flatten(1)


@pytest.fixture
def blend_views(show: ShowViews) -> ViewsPage:
    torch.manual_seed(6)
    x = torch.rand(2, 3, 20, 30)
    return show(nbglcnn.compile(Net().eval(), x), x.numpy())


def screenshot_pixels(locator: Locator) -> np.ndarray:
    """The element's pixels on the screen, H×W×RGB."""
    return np.array(Image.open(io.BytesIO(locator.screenshot())).convert("RGB")).astype(int)


def set_opacity(views: ViewsPage, percent: int, selector: str) -> None:
    """Set the opacity with the slider."""
    slider = views.page.locator(selector).get_by_role("slider", name="Opacity")
    slider.fill(str(percent))
    expect(slider).to_have_attribute("aria-valuetext", f"{percent} %")
    views.wait_idle()


def read_blend(views: ViewsPage, selector: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The pixels of the lower picture, the upper one, and both blended at 35 %."""
    laid, found = views.page.locator(f"{selector} .nbg-blend"), []
    for percent in (0, 100, 35):
        set_opacity(views, percent, selector)
        found.append(screenshot_pixels(laid)[1:-1, 1:-1])
    return found[0], found[1], found[2]


def test_a_channels_map_lies_over_the_picture_of_its_example(blend_views: ViewsPage) -> None:
    page = blend_views.page
    blend_views.set(example=1)
    blend_views.open_layer("conv", 2)
    expect(page.locator(".nbg-inspector .nbg-blend")).to_have_count(0)
    page.get_by_role("checkbox", name="Over the picture").check()
    blend_views.wait_idle()
    laid = page.locator(".nbg-inspector .nbg-blend")
    box = laid.bounding_box()
    for canvas in laid.locator("canvas").all():
        assert canvas.bounding_box() == box, "not in the picture's rectangle"
    assert box is not None
    assert box["width"] / box["height"] == pytest.approx(1.5)
    below, above, both = read_blend(blend_views, ".nbg-inspector")
    assert np.abs(both - (0.65 * below + 0.35 * above)).max() <= COLOUR_TOLERANCE
    # The upper layer is the map's own picture, in colours with hard edges; the lower one is the
    # input's, smooth.
    drawn = canvas_pixels(laid.locator("canvas[data-maps=conv]")).astype(int)
    rows, columns = (np.arange(n) * size // n + size // n // 2 for n, size in
                     zip((10, 10), above.shape[:2], strict=True))  # fmt: skip
    assert drawn.shape[:2] == (10, 10)
    assert np.abs(above[np.ix_(rows, columns)] - drawn).max() <= COLOUR_TOLERANCE
    assert len(np.unique(below.reshape(-1, 3), axis=0)) > 3 * 600, "the input isn't smooth"
    assert "channel 2 · y 4, x 6" in blend_views.hover(laid.locator("canvas").nth(1), 0.65, 0.45)
    # The blend stays on for the next layer or channel, and a click opens Explain.
    page.keyboard.press("ArrowDown")
    expect(laid).to_be_visible()
    laid.locator("canvas").nth(1).click(
        position={"x": 0.65 * box["width"], "y": 0.45 * box["height"]}
    )
    expect(page.locator(".nbg-question")).to_contain_text("pixel y 4, x 6")


def test_what_is_no_map_lies_over_nothing(blend_views: ViewsPage) -> None:
    box = blend_views.page.get_by_role("checkbox", name="Over the picture")
    for layer in ("x", "pool"):
        blend_views.open_layer(layer, 0)
        expect(box).to_have_count(0)
    blend_views.open_layer("conv", 0)
    expect(box).to_be_visible()


def test_a_segmentation_lies_over_the_input_in_all_tabs(show: ShowViews) -> None:
    torch.manual_seed(1)
    x = torch.rand(1, 3, 24, 32)
    model = Segmenter().eval()
    views = show(nbglcnn.compile(model, x), x.numpy())
    page = views.page
    end = page.locator(".nbg-end", has=page.locator("canvas[data-maps=output]"))
    end.get_by_role("checkbox", name="Over the picture").check()
    views.wait_idle()
    set_opacity(views, 35, ".nbg-end")
    below, above, both = read_blend(views, ".nbg-end")
    assert np.abs(both - (0.65 * below + 0.35 * above)).max() <= COLOUR_TOLERANCE
    with torch.no_grad():
        which = model(x)[0].argmax(0).numpy()
    rows, columns = (np.arange(n) * size // n + size // n // 2 for n, size in
                     zip(which.shape, above.shape[:2], strict=True))  # fmt: skip
    colours = canvas_pixels(end.locator("canvas[data-maps=output]")).astype(int)
    step = colours.shape[0] // 24
    expected = colours[step // 2 :: step, step // 2 :: step]
    assert np.abs(above[np.ix_(rows, columns)] - expected).max() <= COLOUR_TOLERANCE
    views.set(selected={"layer": "output", "channel": None}, tab="network")
    views.wait_idle()
    panel = page.locator(".nbg-panel")
    below, above, both = read_blend(views, ".nbg-panel")
    assert np.abs(both - (0.65 * below + 0.35 * above)).max() <= COLOUR_TOLERANCE
    panel.get_by_role("button", name="Classes").click()
    expect(panel.get_by_role("slider")).to_have_count(0)
