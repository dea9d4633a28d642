"""Graphs that are larger than their window: a small map to move by, repeated blocks folded."""

from collections.abc import Callable, Iterator

import pytest
import torch
from playwright.sync_api import Browser, expect
from torch import nn

from accessibility import AXE
from accessibility import faults as unfair
from eventually import eventually, frames
from graph_page import Shown, centre
from legible import faults

TIMES = 6


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.relu = nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(x + self.conv2(self.relu(self.conv1(x))))


class Tower(nn.Module):
    """Blocks of one structure between stages with long names."""

    def __init__(self) -> None:
        super().__init__()
        names = ("convolution1", "convolution2", "convolution3")
        for i, name in enumerate(names):
            self.add_module(name, nn.Conv2d(4 if i else 3, 4, 3, padding=1))
        self.blocks = nn.Sequential(*(Block() for _ in range(TIMES)))
        self.downwards = nn.Conv2d(4, 8, 3, 2, 1)
        self.classifier = nn.Linear(8 * 256, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in (self.convolution1, self.convolution2, self.convolution3):
            x = layer(x)
        return self.classifier(self.downwards(self.blocks(x)).flatten(1))


@pytest.fixture(scope="module")
def page_of_tower(
    browser: Callable[[str], Browser], site: tuple[str, dict[str, bytes]]
) -> Iterator[Shown]:
    shown = Shown(browser("llvmpipe"), site[1], site[0], Tower())
    yield shown
    shown.page.close()
    assert not shown.errors


@pytest.fixture
def tower(page_of_tower: Shown) -> Shown:
    """The tower at 620 pixels, which are too few for all of it."""
    shown = page_of_tower.fresh()
    shown.page.set_viewport_size({"width": 620, "height": 900})
    shown.settle()
    return shown


FOLD = f"blocks.0 × {TIMES}"
FRAME = """() => {
  const map = document.querySelector('.nbg-minimap').getBoundingClientRect();
  const frame = document.querySelector('.nbg-here').getBoundingClientRect();
  return [(frame.left - map.left) / map.width, frame.width / map.width];
}"""


def test_a_large_graph_begins_at_its_input_as_large_as_can_be_read(tower: Shown) -> None:
    page, nodes = tower.page, tower.nodes()
    assert tower.camera()["zoom"] == pytest.approx(0.75)
    assert min(one["width"] for one in nodes.values() if one["kind"] != "step") >= 44
    assert tower.is_seen("x") and not tower.is_seen(list(nodes)[-1])
    assert faults(page) == []
    # The small map's frame is where the window is.
    width = page.locator(".nbg-sheet").evaluate("one => one.offsetWidth")
    start, share = page.evaluate(FRAME)
    assert share == pytest.approx(620 / 0.75 / width, abs=0.02)
    assert start == pytest.approx(-20 / 0.75 / width, abs=0.02)
    # A press on it goes there.
    small = page.locator(".nbg-minimap")
    box = small.bounding_box()
    assert box is not None
    small.click(position={"x": box["width"] - 6, "y": box["height"] / 2})
    tower.settle()
    assert tower.is_seen(list(tower.nodes())[-1]) and not tower.is_seen("x")
    assert page.evaluate(FRAME)[0] > 0.3
    page.get_by_role("button", name="Fit").click()
    assert tower.camera()["zoom"] < 0.6
    # Where all of it fits, nothing else is needed.
    tower.views.set(camera=None)
    page.set_viewport_size({"width": 1420, "height": 900})
    expect(page.locator(".nbg-minimap")).to_have_count(0)
    assert all(tower.is_seen(name) for name in tower.nodes())


def test_the_wheel_moves_a_large_graph_sideways_and_leaves_up_and_down_to_the_notebook(
    tower: Shown,
) -> None:
    page = tower.page
    start = tower.camera()
    page.mouse.move(*centre(tower.nodes()["x"]))
    page.mouse.wheel(0, 200)
    page.mouse.wheel(-200, 0)
    page.wait_for_timeout(100)
    assert tower.camera() == start
    page.mouse.wheel(150, 0)
    page.wait_for_function("() => views.state.camera.value !== null")
    assert tower.camera() == start | {"x": start["x"] - 150}
    for _ in range(10):
        page.mouse.wheel(400, 0)

    def at_its_end() -> None:
        sheet = page.locator(".nbg-sheet").bounding_box()
        assert sheet is not None
        assert sheet["x"] + sheet["width"] == pytest.approx(620 - 1 - 20, abs=2)

    eventually(page, at_its_end)
    frames(page, 6)
    at_its_end()  # no further


def test_repeated_blocks_are_one_node_and_one_of_them_is_open_at_a_time(tower: Shown) -> None:
    page = tower.page
    tower.set_open("blocks")
    fold = tower.node(FOLD)
    expect(fold.locator(".nbg-caption > .nbg-name")).to_have_text(f"0–5 × {TIMES}")
    assert set(tower.nodes()[FOLD]["layers"]) == {
        layer.name
        for layer in tower.plan.layers
        if layer.name.startswith("blocks.") or layer.name.startswith("add")
    }
    tower.button(FOLD).dblclick()
    brackets = page.locator(".nbg-bracket > span")
    expect(brackets).to_have_text(["blocks", "0 · one of 6 alike"])
    assert {"blocks.1 × 5"} < set(tower.nodes()) and FOLD not in tower.nodes()
    assert tower.views.get("selected")["layer"].startswith("blocks.0.")
    assert tower.is_seen("blocks.0.conv2")
    # The next one takes its place.
    tower.button("blocks.1 × 5").focus()  # and comes into the window
    tower.button("blocks.1 × 5").dblclick()
    expect(brackets).to_have_text(["blocks", "1 · one of 6 alike"])
    assert {"blocks.0", "blocks.2 × 4"} < set(tower.nodes())
    # And by the keyboard: Enter opens the one before, Backspace closes it.
    tower.button("blocks.0").focus()
    page.keyboard.press("Enter")
    expect(brackets).to_have_text(["blocks", "0 · one of 6 alike"])
    expect(page.locator(".nbg-node .nbg-picture:focus")).to_have_count(1)
    page.keyboard.press("Backspace")
    expect(tower.button(FOLD)).to_be_focused()
    # A layer that is looked for opens its own.
    page.keyboard.press("/")
    field = page.get_by_label("Find a layer")
    field.press_sequentially("blocks.4.conv1")
    field.press("Enter")
    expect(brackets).to_have_text(["blocks", "4 · one of 6 alike"])
    expect(tower.node("blocks.4.relu")).to_have_attribute("data-layer", "blocks.4.conv1")
    page.get_by_role("button", name="Close all").click()
    page.get_by_role("button", name="Open all").click()
    expect(brackets).to_have_text(["blocks", "0 · one of 6 alike"])


def test_below_repeated_blocks_each_shows_what_it_gives_and_can_be_opened(tower: Shown) -> None:
    tower.set_open("blocks")
    tower.button(FOLD).click()
    look = tower.page.locator(".nbg-look")
    expect(look).to_contain_text("6 blocks of one structure")
    tiles = look.locator(".nbg-tile")
    expect(tiles).to_have_count(TIMES)
    keys = look.locator("canvas").evaluate_all("all => all.map((one) => one.dataset.maps)")
    assert keys == [f"blocks.{k}.relu:1" for k in range(TIMES)]
    tiles.nth(3).click()
    assert tower.views.get("selected") == {"layer": "blocks.3.relu:1", "channel": None}
    expect(tower.button(FOLD)).to_have_attribute("aria-pressed", "true")
    tiles.nth(3).dblclick()
    expect(tower.page.locator(".nbg-bracket > span")).to_have_text(["blocks", "3 · one of 6 alike"])
    names = {"blocks.0 × 3", "blocks.4 × 2", "blocks.3.relu:1"}
    assert names < {
        *tower.nodes(),
        *(layer for one in tower.nodes().values() for layer in one["layers"]),
    }


def test_a_large_graph_breaks_no_serious_rule_of_accessibility(tower: Shown) -> None:
    tower.page.add_script_tag(path=str(AXE))
    tower.set_open("blocks", "blocks.2")
    tower.button("blocks.3 × 3").focus()
    tower.page.keyboard.press("ArrowLeft")
    tower.button("blocks.3 × 3").click()
    for theme in ("light", "dark"):
        tower.page.evaluate("t => { document.body.dataset.jpThemeLight = t === 'light'; }", theme)
        tower.settle()
        for camera in (tower.views.get("camera"), {"zoom": 0.42, "x": 20, "y": 20}):
            tower.views.set(camera=camera)
            expect(tower.page.locator(".nbg-minimap")).to_be_visible()
            assert unfair(tower.page, theme) == []
    tower.page.evaluate("() => { document.body.dataset.jpThemeLight = true; }")
