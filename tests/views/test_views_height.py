"""The height of a Viewer: never more than the requested height, whatever its content."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from torch import nn

import nbglcnn
from nbglcnn import Plan
from views_page import ViewsPage

ShowViews = Callable[..., ViewsPage]
# The whole Viewer, its scrolling content, and the parts above and below the content.
READ_BOXES_SCRIPT = """() => {
  const box = (name) => {
    const found = document.querySelector(name).getBoundingClientRect();
    return { top: found.top, bottom: found.bottom, height: found.height };
  };
  const content = document.querySelector('.nbg-content');
  return { all: box('.nbglcnn'), content: box('.nbg-content'), status: box('.nbg-status'),
    bar: box('.nbg-bar'), scrolls: content.scrollHeight > content.clientHeight };
}"""
LONG_STATUS = "the context was lost, and 15 layers with their weights are rebuilt. " * 6


@cache
def compile_network() -> tuple[Plan, np.ndarray]:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for k in range(8):
        layers += [nn.Conv2d(8 if k else 3, 8, 3, padding=1), nn.ReLU()]
    x = np.random.default_rng(0).random((1, 3, 48, 48)).astype(np.float32)
    return nbglcnn.compile(nn.Sequential(*layers).eval(), x), x


@pytest.mark.parametrize("width", [420, 620, 848, 1280])
@pytest.mark.parametrize("height", [640, 360])
def test_the_whole_viewer_is_as_high_as_asked_for(show: ShowViews, width: int, height: int) -> None:
    plan, x = compile_network()
    views = show(plan, x, width=width)
    views.set(maxHeight=height, selected={"layer": "0", "channel": 0})
    page = views.page
    lost = {"phase": "lost", "title": "The graphics context was lost", "text": LONG_STATUS}
    ready = views.get("status")
    for changes in ({"tab": "network"}, {"tab": "layer"}, {"status": lost}, {"status": ready}):
        views.set(**changes)
        views.wait_idle()
        found = page.evaluate(READ_BOXES_SCRIPT)
        assert found["all"]["height"] == height
        assert found["scrolls"] and found["content"]["height"] > 40
        assert found["bar"]["top"] >= found["all"]["top"]
        assert found["content"]["bottom"] <= found["status"]["top"] + 0.5
        assert found["status"]["bottom"] <= found["all"]["bottom"]
    # The lower part can be reached by scrolling.
    last = page.locator(".nbg-content").evaluate(
        """(one) => {
          one.scrollTop = 1e6;
          return one.lastElementChild.getBoundingClientRect().bottom;
        }"""
    )
    assert last <= page.evaluate(READ_BOXES_SCRIPT)["status"]["top"] + 1


@pytest.mark.parametrize("width", [420, 848])
def test_where_bar_and_status_line_alone_take_more_all_of_it_scrolls(
    show: ShowViews, width: int
) -> None:
    plan, x = compile_network()
    views = show(plan, x, width=width)
    views.set(maxHeight=100)
    views.wait_idle()
    found = views.page.evaluate(READ_BOXES_SCRIPT)
    assert found["all"]["height"] == 100
    views.page.locator(".nbg-status").scroll_into_view_if_needed()
    assert views.page.evaluate(READ_BOXES_SCRIPT)["status"]["bottom"] <= found["all"]["bottom"] + 1


@pytest.mark.parametrize("width", [620, 848, 1280])
def test_the_drawer_of_sources_stands_within_the_height(show: ShowViews, width: int) -> None:
    plan, x = compile_network()
    views = show(plan, x, width=width)
    page = views.page
    page.evaluate("() => { globalThis.stop = views.feeds(); }")
    views.set(maxHeight=500)
    page.locator(".nbg-chosen-source").click()
    expect(page.locator(".nbg-drawer")).to_be_visible()
    views.wait_idle()
    found = page.evaluate(READ_BOXES_SCRIPT)
    assert found["all"]["height"] == 500
    assert found["status"]["bottom"] <= found["all"]["bottom"]
    # The drawer scrolls completely, and part of the network stays visible.
    assert page.locator(".nbg-drawer").evaluate("(one) => one.scrollHeight > one.clientHeight")
    assert found["content"]["height"] > 40


def test_what_needs_less_is_lower_and_presented_it_fills_the_window(show: ShowViews) -> None:
    torch.manual_seed(0)
    x = np.ones((1, 1, 6, 6), np.float32)
    views = show(nbglcnn.compile(nn.Sequential(nn.Conv2d(1, 2, 3)).eval(), x), x, width=848)
    page = views.page
    views.set(maxHeight=900)
    views.wait_idle()
    low = page.evaluate(READ_BOXES_SCRIPT)
    assert low["all"]["height"] < 800 and not low["scrolls"]
    views.set(maxHeight=300, isPresenting=True)
    page.wait_for_function(
        "() => document.querySelector('.nbglcnn').dataset.presenting !== undefined"
    )
    views.wait_idle()
    assert page.evaluate(READ_BOXES_SCRIPT)["all"]["height"] == 1000
    views.set(isPresenting=False)
    page.wait_for_function(
        "() => document.querySelector('.nbglcnn').dataset.presenting === undefined"
    )
    views.wait_idle()
    assert page.evaluate(READ_BOXES_SCRIPT)["all"]["height"] == 300


# Simulates a scrollbar that takes up space, and measures charts that overflow the content or their
# own column.
SCROLLBAR_CSS = ".nbg-content { scrollbar-gutter: stable; overflow-y: scroll }"
OVERFLOWING_SCRIPT = """\
() => [...document.querySelectorAll('.nbg-content .nbg-histogram, .nbg-content svg')]
  .filter((one) => one.getBoundingClientRect().width > 0 && !one.closest('.nbg-sheet'))
  .map((one) => {
    const { right } = one.getBoundingClientRect();
    const content = document.querySelector('.nbg-content');
    const room = content.getBoundingClientRect().left + content.clientWidth;
    const around = one.closest('.nbg-block, .nbg-inspector, .nbg-summing');
    const column = around ? around.getBoundingClientRect().right : room;
    return Math.max(right - room, right - column);
  }).filter((over) => over > 0.5)"""


@pytest.mark.parametrize("width", [620, 848, 1100, 1500])
def test_charts_are_as_wide_as_what_a_scrollbar_leaves(show: ShowViews, width: int) -> None:
    plan, x = compile_network()
    views = show(plan, x, width=width)
    page = views.page
    page.add_style_tag(content=SCROLLBAR_CSS)
    views.set(maxHeight=640)
    lost = page.locator(".nbg-content").evaluate("(one) => one.offsetWidth - one.clientWidth")
    assert lost > 10
    for tab in ("network", "layer"):
        views.set(tab=tab, selected={"layer": "2", "channel": 0})
        views.wait_idle()
        assert page.locator(".nbg-content svg").count() > 0
        assert page.evaluate(OVERFLOWING_SCRIPT) == [], tab


@pytest.mark.parametrize("height", [360, 480, 640])
@pytest.mark.parametrize("width", [620, 848, 1500])
def test_fit_shows_the_whole_graph_within_the_height(
    show: ShowViews, width: int, height: int
) -> None:
    plan, x = compile_network()
    views = show(plan, x, width=width)
    page = views.page
    page.add_style_tag(content=SCROLLBAR_CSS)
    views.set(maxHeight=height, networkLayout="graph")
    views.wait_idle()
    page.get_by_role("button", name="Fit the whole graph").click()
    views.wait_idle()
    page.locator(".nbg-window").evaluate(
        """(one) => {
          const content = one.closest('.nbg-content');
          const top = (of) => of.getBoundingClientRect().top;
          content.scrollTop += top(one) - top(content);
        }"""
    )
    seen = page.evaluate(READ_BOXES_SCRIPT)["content"]
    for node in page.locator(".nbg-node").all():
        box = node.bounding_box()
        assert box is not None
        assert box["y"] >= seen["top"] - 1 and box["x"] >= 0
        assert box["y"] + box["height"] <= seen["bottom"] + 1
        assert box["x"] + box["width"] <= width


@pytest.mark.parametrize("width", [420, 848])
def test_in_a_low_viewer_the_drawer_is_whole_and_all_of_it_scrolls(
    show: ShowViews, width: int
) -> None:
    plan, x = compile_network()
    views = show(plan, x, width=width)
    page = views.page
    page.evaluate("() => { globalThis.stop = views.feeds(); }")
    views.set(maxHeight=320)
    page.locator(".nbg-chosen-source").click()
    drawer = page.locator(".nbg-drawer")
    drawer.locator("[data-kind=drawing]").click()
    views.wait_idle()
    assert page.evaluate(READ_BOXES_SCRIPT)["all"]["height"] == 320
    assert drawer.evaluate("(one) => one.scrollHeight <= one.clientHeight + 1"), "it is not cut"
    paper = drawer.locator(".nbg-paper canvas")
    paper.scroll_into_view_if_needed()
    box = paper.bounding_box()
    assert box is not None and box["y"] >= 0 and box["y"] + box["height"] <= 320
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 120, box["y"] + 120, steps=4)
    page.mouse.up()
    expect(drawer.get_by_role("button", name="Clear")).to_be_enabled()
    page.locator(".nbg-status").scroll_into_view_if_needed()
    found = page.evaluate(READ_BOXES_SCRIPT)
    assert found["status"]["bottom"] <= found["all"]["bottom"] + 1
