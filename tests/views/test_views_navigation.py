"""State that persists or is carried over: a layer's section switch, the rail, a pixel, a name."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from playwright.sync_api import Page, expect
from torch import nn

import nbglcnn
from viewer_models import autoencoder, pictures
from views_page import ViewsPage, parse_number
from zoo import ResNet18

ShowViews = Callable[..., ViewsPage]
LAYER_SECTIONS = ("Maps", "Filters", "Explain")


def button_positions(page: Page) -> dict[str, tuple[float, float]]:
    """The position of each button of the section switch."""
    found = {}
    for name in LAYER_SECTIONS:
        box = page.locator(".nbg-head").get_by_role("button", name=name, exact=True).bounding_box()
        assert box is not None
        found[name] = (round(box["x"]), round(box["y"]))
    return found


@pytest.mark.parametrize("width", [420, 620, 848, 1200])
def test_the_switch_of_sections_stays_where_it_is(show: ShowViews, width: int) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(4, 4, 3, padding=1, groups=2, dilation=1, padding_mode="reflect"), nn.Flatten(),
        nn.Linear(64, 2),
    )  # fmt: skip
    x = torch.randn(1, 3, 8, 8)
    plan = nbglcnn.compile(model.eval(), x)
    views = show(plan, x.numpy(), width=width)
    seen = {}
    for layer in ("input", "0", "2", "3", "4", "6"):
        views.open_layer(layer)
        for section in ("maps", "filters", "explain"):
            views.set(layerSection=section)
            seen[layer, section] = button_positions(views.page)
    assert len({tuple(one.items()) for one in seen.values()}) == 1, seen
    left = [x for x, _ in next(iter(seen.values())).values()]
    assert left == sorted(left)
    # A layer without weights has no filters and shows its maps instead.
    views.open_layer("3")
    views.set(layerSection="filters")
    button = views.page.get_by_role("button", name="Filters", exact=True)
    expect(button).to_be_disabled()
    expect(views.page.locator(".nbg-grid")).to_be_visible()


def test_the_pixel_of_a_tile_is_the_one_that_is_explained(show: ShowViews) -> None:
    x = pictures(3)
    plan = nbglcnn.compile(autoencoder(3), x)
    views = show(plan, x)
    page = views.page
    views.open_layer("encoder.0", 0)
    views.wait_idle()
    height, width = next(one for one in plan.layers if one.name == "encoder.0").output_shape[2:]
    frames = page.locator(".nbg-frame")
    for channel, y, x_ in ((1, 2, 3), (2, height - 1, 0)):
        frame = frames.nth(channel)
        box = frame.bounding_box()
        assert box is not None
        at = {"x": (x_ + 0.5) * box["width"] / width, "y": (y + 0.5) * box["height"] / height}
        frame.click(position=at)
        assert views.get("selected") == {"layer": "encoder.0", "channel": channel}
        # The pixel is marked in the large map.
        page.mouse.move(0, 0)
        mark = page.locator(".nbg-inspector .nbg-mark")
        large, inner = (
            page.locator(".nbg-inspector canvas").first.bounding_box(),
            mark.bounding_box(),
        )
        assert large is not None and inner is not None
        middle = [
            (inner[start] + inner[length] / 2 - large[start]) / large[length]
            for start, length in (("x", "width"), ("y", "height"))
        ]
        np.testing.assert_allclose(middle, [(x_ + 0.5) / width, (y + 0.5) / height], atol=0.01)
        if channel == 1:
            page.keyboard.press("e")
        else:
            page.locator(".nbg-inspector").get_by_role("button", name="Explain").click()
        question = page.locator(".nbg-question")
        expect(question).to_contain_text(f"encoder.0, channel {channel}, pixel y {y}, x {x_} =")
        views.set(layerSection="maps")
    # A key press on a tile selects its channel, without a pixel.
    frames.nth(2).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    pixel = views.get("pixel")
    assert (pixel["y"], pixel["x"]) == (height - 1, 0)


def test_an_input_has_the_name_that_forward_gives_it(show: ShowViews) -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(1, 2, 3, padding=1)

        def forward(self, photo: torch.Tensor) -> torch.Tensor:
            return self.conv(photo)

    torch.manual_seed(0)
    x = torch.rand(1, 1, 6, 7)
    views = show(nbglcnn.compile(Named().eval(), x), x.numpy())
    page = views.page
    for width, form in ((1200, "strip"), (620, "strip"), (420, "strip"), (1200, "graph")):
        page.set_viewport_size({"width": width, "height": 900})
        views.set(networkLayout=form, tab="network")
        views.wait_idle()
        place = ".nbg-node[data-kind=input]" if form == "graph" else ".nbg-end"
        caption = page.locator(f"{place} .nbg-caption").first
        words = caption.inner_text().split()
        assert words[:3] == ["Input", "photo", "1×6×7"], (width, form, words)
    page.set_viewport_size({"width": 1200, "height": 900})
    views.open_layer("conv", 0)
    rail = page.locator(".nbg-rail-item")
    assert [one.inner_text() for one in rail.all()] == ["photo", "conv"]
    views.set(layerSection="explain")
    expect(page.locator(".nbg-explain .nbg-figure").first).to_contain_text("photo")
    expect(page.locator(".nbg-explain")).not_to_contain_text("Input")
    assert parse_number(page.locator(".nbg-question").inner_text().split("=")[1]) is not None


RAIL_POSITIONS_SCRIPT = """() => {
  const rail = document.querySelector('.nbg-rail-list').getBoundingClientRect();
  const item = document.querySelector('.nbg-rail-item[aria-current=true]').getBoundingClientRect();
  return [item.left - rail.left, rail.right - item.right, scrollY];
}"""


def test_the_rail_follows_the_selected_layer_and_moves_nothing_else(show: ShowViews) -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 3, 32, 32)
    plan = nbglcnn.compile(ResNet18(4, 10).eval(), x)
    views = show(plan, x.numpy(), width=850)
    page = views.page
    page.evaluate("() => { document.body.style.padding = '900px 0'; scrollTo(0, 800); }")
    names = [one.name for one in plan.layers]

    def seen(what: str) -> None:
        views.wait_idle()
        left, right, scrolled = page.evaluate(RAIL_POSITIONS_SCRIPT)
        assert left >= 0 and right >= 0, (what, left, right)
        assert scrolled == 800, what

    # Selected in the graph, from Python, by keyboard, and by a step of Explain.
    views.set(tab="network", networkLayout="graph", selected={"layer": names[-1], "channel": None})
    page.get_by_role("tab", name="Layer").dispatch_event("click")
    seen("the last one, chosen in the graph")
    for name in (names[0], names[len(names) // 2], names[-3]):
        views.set(selected={"layer": name, "channel": None})
        seen(name)
    page.locator(".nbglcnn").evaluate("one => one.focus({ preventScroll: true })")
    for _ in range(12):
        page.keyboard.press("ArrowLeft")
    seen("twelve to the left")
    views.set(layerSection="explain", selected={"layer": "layer4.1.conv2", "channel": 0})
    views.wait_idle()
    page.locator(".nbg-trail-link").first.dispatch_event("click")
    seen("what it is made of")
    # Also when the width shrinks.
    views.set(selected={"layer": names[20], "channel": None}, layerSection="maps")
    for width in (1200, 620, 850, 520):
        page.set_viewport_size({"width": width, "height": 900})
        seen(f"{width} px")
    # A module's name stays visible if only its last layers are in view.
    group = page.locator(".nbg-rail-group", has=page.locator("[aria-current=true]"))
    word, rail = group.locator("> .nbg-second"), page.locator(".nbg-rail-list")
    page.evaluate("() => { document.querySelector('.nbg-rail-list').scrollLeft += 60; }")
    inner, outer = word.bounding_box(), rail.bounding_box()
    assert inner is not None and outer is not None and inner["x"] >= outer["x"] - 1


@pytest.mark.parametrize("width", [520, 600, 760, 850, 1100, 1420])
def test_a_projectors_view_is_one_click_away_at_every_width(show: ShowViews, width: int) -> None:
    class WithTheLongestNameThatAnybodyWouldGiveToANetwork(nn.Sequential):
        pass

    x = pictures(3)
    model = WithTheLongestNameThatAnybodyWouldGiveToANetwork(*autoencoder(3).children())
    views = show(nbglcnn.compile(model.eval(), x), x, width=width)
    button = views.page.get_by_role("button", name="Present")
    box = button.bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width
    views.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    views.page.wait_for_function("() => views.state.isPresenting.value")
    expect(views.page.get_by_role("button", name="Back")).to_be_visible()


class NestedModules(nn.Module):
    """Nested modules whose names differ only at their ends."""

    def __init__(self) -> None:
        super().__init__()
        parts = ("query", "key", "projection")
        inner = nn.ModuleDict({one: nn.Conv2d(2, 2, 1) for one in parts})
        block = nn.ModuleDict({"attention": nn.ModuleDict({"heads": inner})})
        self.blocks = nn.ModuleList([block])
        self.averylongnamewithoutanyparts = nn.Conv2d(2, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for part in self.blocks[0]["attention"]["heads"].values():
            x = part(x)
        return self.averylongnamewithoutanyparts(x)


def test_a_long_name_in_the_rail_ends_as_it_does(show: ShowViews) -> None:
    torch.manual_seed(4)
    x = torch.rand(1, 2, 6, 7)
    views = show(nbglcnn.compile(NestedModules().eval(), x), x.numpy(), width=848)
    views.open_layer("blocks.0.attention.heads.key")
    found = {}
    for item in views.page.locator(".nbg-rail-item").all():
        found[(item.get_attribute("title") or "").partition(", ")[0]] = item.inner_text()
        box = item.bounding_box()
        assert box is not None and box["width"] <= 110
    assert found == {
        "x": "x",
        "blocks.0.attention.heads.query": "…heads.query",
        "blocks.0.attention.heads.key": "…heads.key",
        "blocks.0.attention.heads.projection": "…projection",
        "averylongnamewithoutanyparts": "averylo…yparts",
    }
