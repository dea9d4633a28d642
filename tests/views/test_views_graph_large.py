"""Graphs larger than their window: a minimap for navigation, repeated blocks folded."""

from collections.abc import Callable, Iterator

import pytest
import torch
from playwright.sync_api import Browser, expect
from torch import nn

from accessibility import AXE_SCRIPT
from accessibility import accessibility_violations as unfair
from graph_page import GraphPage, centre
from polling import retry_until_passes, wait_frames
from readability import layout_faults

BLOCK_COUNT = 6


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.relu = nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(x + self.conv2(self.relu(self.conv1(x))))


class Tower(nn.Module):
    """Identical blocks between stages with long names."""

    def __init__(self) -> None:
        super().__init__()
        names = ("convolution1", "convolution2", "convolution3")
        for i, name in enumerate(names):
            self.add_module(name, nn.Conv2d(4 if i else 3, 4, 3, padding=1))
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCK_COUNT)))
        self.downwards = nn.Conv2d(4, 8, 3, 2, 1)
        self.classifier = nn.Linear(8 * 256, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in (self.convolution1, self.convolution2, self.convolution3):
            x = layer(x)
        return self.classifier(self.downwards(self.blocks(x)).flatten(1))


@pytest.fixture(scope="module")
def tower_page(
    browser: Callable[[str], Browser], static_site: tuple[str, dict[str, bytes]]
) -> Iterator[GraphPage]:
    shown = GraphPage(browser("llvmpipe"), static_site[1], static_site[0], Tower())
    yield shown
    shown.page.close()
    assert not shown.errors


@pytest.fixture
def tower(tower_page: GraphPage) -> GraphPage:
    """The tower at 620 pixels, too narrow to show all of it."""
    shown = tower_page.reset()
    shown.page.set_viewport_size({"width": 620, "height": 900})
    shown.wait_idle()
    return shown


FOLDED_BLOCKS_LABEL = f"blocks.0 × {BLOCK_COUNT}"
MINIMAP_FRAME_SCRIPT = """() => {
  const map = document.querySelector('.nbg-minimap').getBoundingClientRect();
  const frame = document.querySelector('.nbg-here').getBoundingClientRect();
  return [(frame.left - map.left) / map.width, frame.width / map.width];
}"""


def test_a_large_graph_begins_at_its_input_as_large_as_can_be_read(tower: GraphPage) -> None:
    page, nodes = tower.page, tower.node_boxes()
    assert tower.view_transform()["zoom"] == pytest.approx(0.75)
    assert min(one["width"] for one in nodes.values() if one["kind"] != "step") >= 44
    assert tower.is_in_window("x") and not tower.is_in_window(list(nodes)[-1])
    assert layout_faults(page) == []
    # The minimap's frame matches the window.
    width = page.locator(".nbg-sheet").evaluate("one => one.offsetWidth")
    start, share = page.evaluate(MINIMAP_FRAME_SCRIPT)
    assert share == pytest.approx(620 / 0.75 / width, abs=0.02)
    assert start == pytest.approx(-20 / 0.75 / width, abs=0.02)
    # A click on the minimap moves there.
    small = page.locator(".nbg-minimap")
    box = small.bounding_box()
    assert box is not None
    small.click(position={"x": box["width"] - 6, "y": box["height"] / 2})
    tower.wait_idle()
    assert tower.is_in_window(list(tower.node_boxes())[-1]) and not tower.is_in_window("x")
    assert page.evaluate(MINIMAP_FRAME_SCRIPT)[0] > 0.3
    page.get_by_role("button", name="Fit").click()
    assert tower.view_transform()["zoom"] < 0.6
    # If everything fits, there is no minimap.
    tower.views.set(graphCamera=None)
    page.set_viewport_size({"width": 1420, "height": 900})
    expect(page.locator(".nbg-minimap")).to_have_count(0)
    assert all(tower.is_in_window(name) for name in tower.node_boxes())


def test_the_wheel_moves_a_large_graph_sideways_and_leaves_up_and_down_to_the_notebook(
    tower: GraphPage,
) -> None:
    page = tower.page
    start = tower.view_transform()
    page.mouse.move(*centre(tower.node_boxes()["x"]))
    page.mouse.wheel(0, 200)
    page.mouse.wheel(-200, 0)
    page.wait_for_timeout(100)
    assert tower.view_transform() == start
    page.mouse.wheel(150, 0)
    page.wait_for_function("() => views.state.graphCamera.value !== null")
    assert tower.view_transform() == start | {"x": start["x"] - 150}
    for _ in range(10):
        page.mouse.wheel(400, 0)

    def at_its_end() -> None:
        sheet = page.locator(".nbg-sheet").bounding_box()
        assert sheet is not None
        assert sheet["x"] + sheet["width"] == pytest.approx(620 - 1 - 20, abs=2)

    retry_until_passes(page, at_its_end)
    wait_frames(page, 6)
    at_its_end()  # doesn't move any further


def test_repeated_blocks_are_one_node_and_one_of_them_is_open_at_a_time(tower: GraphPage) -> None:
    page = tower.page
    tower.open_groups("blocks")
    fold = tower.node(FOLDED_BLOCKS_LABEL)
    expect(fold.locator(".nbg-caption > .nbg-name")).to_have_text(f"0–5 × {BLOCK_COUNT}")
    assert set(tower.node_boxes()[FOLDED_BLOCKS_LABEL]["layers"]) == {
        layer.name
        for layer in tower.plan.layers
        if layer.name.startswith("blocks.") or layer.name.startswith("add")
    }
    tower.picture_button(FOLDED_BLOCKS_LABEL).dblclick()
    brackets = page.locator(".nbg-bracket > span")
    expect(brackets).to_have_text(["blocks", "0 · one of 6 identical blocks"])
    assert {"blocks.1 × 5"} < set(
        tower.node_boxes()
    ) and FOLDED_BLOCKS_LABEL not in tower.node_boxes()
    assert tower.views.get("selected")["layer"].startswith("blocks.0.")
    assert tower.is_in_window("blocks.0.conv2")
    # The next block replaces it.
    tower.picture_button("blocks.1 × 5").focus()  # and scrolls into the window
    tower.picture_button("blocks.1 × 5").dblclick()
    expect(brackets).to_have_text(["blocks", "1 · one of 6 identical blocks"])
    assert {"blocks.0", "blocks.2 × 4"} < set(tower.node_boxes())
    # By keyboard: Enter opens the previous block, Backspace closes it.
    tower.picture_button("blocks.0").focus()
    page.keyboard.press("Enter")
    expect(brackets).to_have_text(["blocks", "0 · one of 6 identical blocks"])
    expect(page.locator(".nbg-node .nbg-picture:focus")).to_have_count(1)
    page.keyboard.press("Backspace")
    expect(tower.picture_button(FOLDED_BLOCKS_LABEL)).to_be_focused()
    # The layer search opens the layer's own block.
    page.keyboard.press("/")
    field = page.get_by_label("Find a layer")
    field.press_sequentially("blocks.4.conv1")
    field.press("Enter")
    expect(brackets).to_have_text(["blocks", "4 · one of 6 identical blocks"])
    expect(tower.node("blocks.4.relu")).to_have_attribute("data-layer", "blocks.4.conv1")
    page.get_by_role("button", name="Close all").click()
    page.get_by_role("button", name="Open all").click()
    expect(brackets).to_have_text(["blocks", "0 · one of 6 identical blocks"])


def test_below_repeated_blocks_each_shows_what_it_gives_and_can_be_opened(tower: GraphPage) -> None:
    tower.open_groups("blocks")
    tower.picture_button(FOLDED_BLOCKS_LABEL).click()
    look = tower.page.locator(".nbg-module-layers")
    expect(look).to_contain_text("6 blocks of the same structure")
    tiles = look.locator(".nbg-tile")
    expect(tiles).to_have_count(BLOCK_COUNT)
    keys = look.locator("canvas").evaluate_all("all => all.map((one) => one.dataset.maps)")
    assert keys == [f"blocks.{k}.relu:1" for k in range(BLOCK_COUNT)]
    tiles.nth(3).click()
    assert tower.views.get("selected") == {"layer": "blocks.3.relu:1", "channel": None}
    expect(tower.picture_button(FOLDED_BLOCKS_LABEL)).to_have_attribute("aria-pressed", "true")
    tiles.nth(3).dblclick()
    expect(tower.page.locator(".nbg-bracket > span")).to_have_text(
        ["blocks", "3 · one of 6 identical blocks"]
    )
    names = {"blocks.0 × 3", "blocks.4 × 2", "blocks.3.relu:1"}
    assert names < {
        *tower.node_boxes(),
        *(layer for one in tower.node_boxes().values() for layer in one["layers"]),
    }


def test_a_large_graph_breaks_no_serious_rule_of_accessibility(tower: GraphPage) -> None:
    tower.page.add_script_tag(path=str(AXE_SCRIPT))
    tower.open_groups("blocks", "blocks.2")
    tower.picture_button("blocks.3 × 3").focus()
    tower.page.keyboard.press("ArrowLeft")
    tower.picture_button("blocks.3 × 3").click()
    for theme in ("light", "dark"):
        tower.page.evaluate("t => { document.body.dataset.jpThemeLight = t === 'light'; }", theme)
        tower.wait_idle()
        for camera in (tower.views.get("graphCamera"), {"zoom": 0.42, "x": 20, "y": 20}):
            tower.views.set(graphCamera=camera)
            expect(tower.page.locator(".nbg-minimap")).to_be_visible()
            assert unfair(tower.page, theme) == []
    tower.page.evaluate("() => { document.body.dataset.jpThemeLight = true; }")
