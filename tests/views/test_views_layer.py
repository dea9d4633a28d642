"""The Layer tab's grid: orders, marks, ranges and channels side by side, against NumPy."""

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from torch import nn

import nbglcnn
from nbglcnn import Plan
from views_page import CLIPPED_ELEMENTS_SCRIPT, ViewsPage, canvas_pixels, parse_number


class ChannelStates(nn.Module):
    """Channels that are dead, saturated at either end, or neither; and a layer with three."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 6, 3, padding=1)
        self.sigmoid = nn.Sigmoid()
        self.second = nn.Conv2d(6, 3, 1)
        self.relu = nn.ReLU()
        self.last = nn.Conv2d(3, 1, 1)
        with torch.no_grad():
            self.first.weight[:2] = 0
            self.first.bias[:2] = torch.tensor([9.0, -9.0])
            self.second.weight[1] = -self.second.weight[1].abs()
            self.second.bias[1] = -1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.relu(self.second(self.sigmoid(self.first(x)))))


@pytest.fixture(scope="module")
def channel_states() -> tuple[Plan, np.ndarray, dict[str, np.ndarray]]:
    """The Plan, its input, and the first image of every layer."""
    torch.manual_seed(3)
    model, x = ChannelStates().eval(), torch.randn(2, 1, 12, 14)
    plan = nbglcnn.compile(model, x)
    session = nbglcnn.Session(plan)
    session.run(x.numpy())
    values = {one.name: session.read(one.name)[0] for one in plan.layers}
    session.close()
    return plan, x.numpy(), values


def shown_channels(views: ViewsPage) -> list[int]:
    """The channels of the grid, in display order."""
    captions = views.page.locator(".nbg-grid .nbg-cell-caption > :first-child")
    return [int(text) for text in captions.all_inner_texts()]


def test_channels_stand_by_their_likeness_to_the_selected_one(
    show: Callable[..., ViewsPage], channel_states: tuple[Plan, np.ndarray, dict[str, np.ndarray]]
) -> None:
    plan, x, values = channel_states
    views = show(plan, x)
    maps = values["first"].reshape(6, -1)
    for channel in (3, 5):
        views.open_layer("first", channel)
        views.page.get_by_label("Sort").select_option("similarity")
        views.wait_idle()
        cosine = maps @ maps[channel] / np.linalg.norm(maps, axis=1) / np.linalg.norm(maps[channel])
        assert shown_channels(views) == list(np.argsort(-cosine, kind="stable"))
        assert shown_channels(views)[0] == channel
    expect(views.page.locator(".nbg-inspector h3")).to_contain_text("first by similarity")


def test_dead_and_saturated_channels_are_marked_and_picked_out(
    show: Callable[..., ViewsPage], channel_states: tuple[Plan, np.ndarray, dict[str, np.ndarray]]
) -> None:
    plan, x, _ = channel_states
    views = show(plan, x)
    views.open_layer("sigmoid", 3)
    caption = views.page.locator(".nbg-grid .nbg-cell-caption")
    expect(caption.nth(0)).to_have_text("0sat")
    expect(caption.nth(1)).to_have_text("1sat")
    assert all("sat" not in caption.nth(k).inner_text() for k in range(2, 6))
    which = views.page.get_by_label(re.compile("^Show"))
    which.select_option("sat")
    assert shown_channels(views) == [0, 1]
    which.select_option("live")
    assert shown_channels(views) == [2, 3, 4, 5]
    which.select_option("dead")
    assert shown_channels(views) == []
    expect(views.page.locator(".nbg-main")).to_contain_text("No channel matches this filter")
    views.open_layer("relu")
    expect(caption.nth(1)).to_have_text("1dead")
    expect(which).to_have_value("all")  # the filter resets for each layer
    views.open_layer("last")
    expect(which).to_have_count(0)


def test_a_sequential_map_goes_from_minus_to_plus_when_asked(
    show: Callable[..., ViewsPage], channel_states: tuple[Plan, np.ndarray, dict[str, np.ndarray]]
) -> None:
    plan, x, values = channel_states
    views = show(plan, x)
    views.open_layer("second", 0)
    around = views.page.get_by_role("checkbox", name="± around zero")
    expect(around).to_be_checked()  # always so for the signed colour map
    expect(around).to_be_disabled()
    views.set(colormap="grey")
    expect(around).not_to_be_checked()
    legend = views.page.locator(".nbg-controls .nbg-legend span:not(.nbg-gradient)")
    low, high = float(values["second"].min()), float(values["second"].max())
    grid = views.page.locator(".nbg-grid canvas").first
    for symmetric in (False, True):
        around.set_checked(symmetric)
        views.wait_idle()
        most = max(abs(low), abs(high))
        ends = (-most, most) if symmetric else (low, high)
        assert [parse_number(text) for text in legend.all_inner_texts()] == pytest.approx(
            ends, rel=0.02
        )
        _, height, width = values["second"].shape
        colours = canvas_pixels(grid)
        scale = colours.shape[0] // height
        corner = colours[scale // 2 : height * scale : scale, scale // 2 : width * scale : scale, 0]
        grey = 255 * (values["second"][0] - ends[0]) / (ends[1] - ends[0])
        assert np.abs(corner - grey).max() < 2


def test_three_channels_are_also_one_picture_of_colours(
    show: Callable[..., ViewsPage], channel_states: tuple[Plan, np.ndarray, dict[str, np.ndarray]]
) -> None:
    plan, x, values = channel_states
    views = show(plan, x)
    views.open_layer("second")
    views.wait_idle()
    picture = views.page.get_by_role("img", name="as red, green and blue")
    maps = values["second"]
    colours = canvas_pixels(picture)
    scale = colours.shape[0] // maps.shape[1]
    low, high = maps.min(), maps.max()
    expected = 255 * (maps - low) / (high - low)
    middle = colours[scale // 2 :: scale, scale // 2 :: scale].transpose(2, 0, 1)
    assert np.abs(middle - expected).max() < 2
    views.open_layer("first")
    expect(picture).to_have_count(0)


def test_up_to_four_channels_stand_beside_each_other(
    show: Callable[..., ViewsPage], channel_states: tuple[Plan, np.ndarray, dict[str, np.ndarray]]
) -> None:
    plan, x, _ = channel_states
    views = show(plan, x)
    views.open_layer("first", 2)
    frames = views.page.locator(".nbg-grid .nbg-frame")
    large = views.page.locator(".nbg-fours canvas")
    frames.nth(4).click(modifiers=["Shift"])
    expect(large).to_have_count(2)
    for k in (5, 3, 0):
        frames.nth(k).click(modifiers=["Shift"])
    assert views.get("comparedChannels") == {"layer": "first", "channels": [4, 5, 3, 0]}
    views.wait_drawn()
    labels = [one.get_attribute("aria-label") for one in large.all()]
    assert labels == [f"channel {k} of first" for k in (4, 5, 3, 0)]
    pressed = [one.get_attribute("aria-pressed") for one in frames.all()]
    assert pressed == ["true", "false", "false", "true", "true", "true"]
    frames.nth(5).click(modifiers=["Shift"])
    assert views.get("comparedChannels")["channels"] == [4, 3, 0]
    assert views.page.evaluate(CLIPPED_ELEMENTS_SCRIPT) == []
    frames.nth(1).click()
    expect(large).to_have_count(0)
    assert views.get("selected") == {"layer": "first", "channel": 1}


@pytest.mark.parametrize("by", ["key", "click"])
def test_the_tooltip_of_the_large_map_goes_with_it(
    show: Callable[..., ViewsPage],
    channel_states: tuple[Plan, np.ndarray, dict[str, np.ndarray]],
    by: str,
) -> None:
    plan, x, values = channel_states
    views = show(plan, x)
    page, tip = views.page, views.page.locator(".nbg-tip")
    views.open_layer("first", 4)
    views.wait_idle()
    page.locator(".nbg-tabs [aria-selected=true]").focus()
    large = page.locator(".nbg-inspector .nbg-maps")
    said = views.hover(large.locator("canvas"), 2.5 / 14, 3.5 / 12)
    assert parse_number(said) == pytest.approx(float(values["first"][4, 3, 2]), rel=1e-4)
    expect(large.locator(".nbg-mark")).to_have_count(1)
    if by == "key":
        page.keyboard.press("Escape")
    else:  # a click by script: the pointer stays where it is
        page.locator("[data-tab=profile]").evaluate("(tab) => tab.click()")
    expect(page.locator(".nbg-layer")).to_have_count(0)
    expect(tip).to_have_count(0)
    page.mouse.move(5, 990)
    expect(tip).to_have_count(0)


def test_each_nan_of_the_large_map_is_hatched(show: Callable[..., ViewsPage]) -> None:
    x = torch.randn(1, 1, 10, 12)
    places = [(0, 0), (4, 7), (9, 11), (4, 8)]
    for y, column in places:
        x[0, 0, y, column] = torch.nan
    views = show(nbglcnn.compile(nn.Sequential(nn.Conv2d(1, 4, 1)).eval(), x), x.numpy())
    views.open_layer("0", 2)
    views.wait_idle()
    picture = canvas_pixels(views.page.locator(".nbg-inspector .nbg-maps canvas"))
    scale = picture.shape[0] // 10
    cells = picture.reshape(10, scale, 12, -1, 3).swapaxes(1, 2)
    for y, column in places:
        colours = {tuple(colour) for colour in cells[y, column].reshape(-1, 3).tolist()}
        assert len(colours) == 2 and (255, 0, 255) in colours, (y, column, colours)
    assert len(np.unique(cells[5, 5].reshape(-1, 3), axis=0)) == 1


def test_the_keys_are_listed(
    show: Callable[..., ViewsPage], channel_states: tuple[Plan, np.ndarray, dict[str, np.ndarray]]
) -> None:
    views = show(*channel_states[:2])
    tab = views.get("tab")
    views.page.locator(".nbg-picture").first.focus()
    views.page.keyboard.press("?")
    keys = views.page.get_by_role("region", name="Keys")
    expect(keys).to_contain_text("next colour map")
    expect(keys).to_be_in_viewport()
    views.page.get_by_role("button", name="Keys").click()
    expect(keys).to_have_count(0)
    views.page.locator(".nbg-picture").first.focus()
    views.page.keyboard.press("?")
    views.page.keyboard.press("Escape")
    expect(keys).to_have_count(0)
    assert views.get("tab") == tab
