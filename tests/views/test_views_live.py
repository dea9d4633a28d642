"""The views during live input: colours don't flicker, and their range can be held."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from torch import nn

import nbglcnn
from views_page import ViewsPage, parse_number
from webgl_page import encode

X = np.random.default_rng(5).standard_normal((1, 3, 16, 20)).astype(np.float32)
LIVE_STATUS = {"phase": "live", "failure": None, "detail": "", "picturesPerSecond": 10}
STILL_STATUS = LIVE_STATUS | {"phase": "still", "picturesPerSecond": 0}


@pytest.fixture
def views(show: Callable[..., ViewsPage]) -> ViewsPage:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1, bias=False)).eval()
    views = show(nbglcnn.compile(model, X), X)
    views.open_layer("0")
    views.wait_idle()  # wait for the legend's numbers
    return views


def feed_scaled(views: ViewsPage, factor: float) -> None:
    views.page.evaluate("a => views.feed(...a)", ["input", encode(X * factor)])
    views.wait_idle()


def color_limits(views: ViewsPage) -> list[float]:
    found = views.page.locator(".nbg-controls .nbg-legend span:not(.nbg-gradient)")
    return [parse_number(text) for text in found.all_inner_texts()]


def test_a_click_on_the_legend_holds_the_colours_of_live_input(views: ViewsPage) -> None:
    page = views.page
    first = color_limits(views)
    legend = page.locator(".nbg-controls .nbg-hold")
    expect(legend).to_have_count(0)  # the input is still
    views.set(sourceStatus=LIVE_STATUS)
    expect(legend).to_contain_text("follows")
    expect(legend).to_have_attribute("title", "Hold the range")
    page.wait_for_timeout(700)
    feed_scaled(views, 1)
    feed_scaled(views, 10)
    follows = color_limits(views)
    assert first[1] <= follows[1] < first[1] * 10 * 0.9
    legend.focus()
    page.keyboard.press("Enter")
    expect(legend).to_contain_text("held")
    expect(legend).to_have_attribute("title", "Let the range follow the values")
    expect(legend).to_have_attribute("aria-pressed", "true")
    feed_scaled(views, 10)
    held = color_limits(views)
    page.wait_for_timeout(300)
    feed_scaled(views, 20)
    assert color_limits(views) == held
    legend.click()
    expect(legend).to_contain_text("follows")
    page.wait_for_timeout(300)
    feed_scaled(views, 20)
    assert color_limits(views)[1] > held[1]
    legend.click()
    # A still input shows its own range at once, and a held range is released.
    views.set(sourceStatus=STILL_STATUS)
    expect(legend).to_have_count(0)
    views.wait_idle()
    assert color_limits(views)[1] == pytest.approx(first[1] * 20, rel=0.01)
    assert page.evaluate("() => views.state.session.value.rangeSmoothing") == "exact"
    views.set(sourceStatus=LIVE_STATUS)
    expect(legend).to_contain_text("follows")


def test_fixed_colours_have_nothing_to_hold(views: ViewsPage) -> None:
    views.set(sourceStatus=LIVE_STATUS, rangeMode="fixed")
    expect(views.page.locator(".nbg-controls .nbg-legend")).to_be_visible()
    expect(views.page.locator(".nbg-hold")).to_have_count(0)
