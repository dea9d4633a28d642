"""The display of every kind of value: curves, bars, numbers, classes, attention."""

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from playwright.sync_api import Locator, expect
from torch import Tensor, nn

import nbglcnn
from colours import parse_colours
from display_kind_models import Segmenter, SignalClassifier, ViT
from nbglcnn.pictures.colors import CLASS_COLORS
from views_page import ViewsPage, canvas_pixels, parse_number

ShowViews = Callable[..., ViewsPage]


def open_views(
    show: ShowViews, model: nn.Module, x: Tensor, width: int = 1200
) -> tuple[ViewsPage, dict]:
    """Open the views; return them with every value computed in Python."""
    plan = nbglcnn.compile(model.eval(), x)
    with nbglcnn.Session(plan) as session:
        values = session.run(x.numpy())
    return show(plan, x.numpy(), width=width), dict(values)


@pytest.fixture
def signal() -> Tensor:
    torch.manual_seed(3)
    return torch.randn(1, 2, 64)


def test_a_signal_is_a_curve_in_all_tabs(show: ShowViews, signal: Tensor) -> None:
    torch.manual_seed(0)
    views, values = open_views(show, SignalClassifier(), signal)
    page = views.page
    for place in (".nbg-end", ".nbg-stage", ".nbg-panel"):
        canvas = page.locator(f"{place} canvas").first
        box, drawn = canvas.bounding_box(), canvas_pixels(canvas)
        assert box is not None and box["height"] > 20, "a strip of pixels, not a curve"
        assert len(np.unique(drawn.reshape(-1, 3), axis=0)) > 3
    views.open_layer("features.1", 4)
    views.wait_idle()
    large = page.locator(".nbg-inspector canvas").first
    for k in (0, 17, 63):
        tip = views.hover(large, (k + 0.5) / 64, 0.5)
        assert parse_number(tip) == pytest.approx(float(values["features.1"][0, 4, k]), rel=1e-4)
        assert f"channel 4 · x {k} · rank" in tip
        mark = page.locator(".nbg-inspector .nbg-mark").bounding_box()
        box = large.bounding_box()
        assert mark is not None and box is not None
        middle = (mark["x"] + mark["width"] / 2 - box["x"]) / box["width"]
        assert middle == pytest.approx((k + 0.5) / 64, abs=0.01)
    # The curve is in the upper half of its cell where the value is above the range's middle.
    row = values["features.1"][0, 4]
    whole = values["features.1"][0]
    low, high = min(0, whole.min()), max(0, whole.max())
    cell = canvas_pixels(large).astype(int)
    strong = np.abs(cell[..., 2] - cell[..., 0]) > 90
    across = cell.shape[1] / 64
    for k in np.flatnonzero(np.abs(row) > 0.3)[1:-1]:
        rows = np.flatnonzero(strong[:, int((k + 0.5) * across)])
        expected = 1.5 + (1 - (row[k] - low) / (high - low)) * (cell.shape[0] - 3)
        assert np.abs(rows - expected).min() <= 4, k
    legend = page.locator(".nbg-controls .nbg-legend")
    expect(legend).to_contain_text("from bottom to top")
    expect(page.locator(".nbg-controls").get_by_text("Colour")).to_have_count(0)


def test_a_signal_along_a_column_says_its_row(show: ShowViews) -> None:
    torch.manual_seed(0)
    views, values = open_views(
        show, nn.Conv2d(1, 3, (3, 1), padding=(1, 0)), torch.randn(1, 1, 20, 1)
    )
    views.open_layer("output", 1)
    tip = views.hover(views.page.locator(".nbg-inspector canvas").first, 7.5 / 20, 0.5)
    assert parse_number(tip) == pytest.approx(float(values["output"][0, 1, 7, 0]), rel=1e-4)
    assert "y 7, x 0" in tip


class Vectors(nn.Module):
    """A vector of 784 elements, one of 12, and a scalar."""

    def __init__(self) -> None:
        super().__init__()
        self.long, self.fc, self.act = nn.Linear(64, 784), nn.Linear(784, 12), nn.Tanh()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.act(self.fc(self.long(x.flatten(1))))
        return y, y.mean()


def read_bars(svg: Locator) -> list[tuple[int, float]]:
    """The number and length of each bar; lengths left of the zero line are negative."""
    zero = float(svg.locator(".nbg-zero").get_attribute("x1") or "nan")
    found = []
    for label, rect in zip(svg.locator("text").all(), svg.locator("rect").all(), strict=False):
        x, width = (float(rect.get_attribute(name) or "nan") for name in ("x", "width"))
        sign = 1 if x >= zero - 1e-6 else -1
        assert (rect.get_attribute("class") == "nbg-positive") == (sign > 0)
        assert x == pytest.approx(zero if sign > 0 else zero - width, abs=1e-3)
        found.append((int(label.text_content() or "-1"), sign * width))
    return found


def test_vectors_are_bars_with_their_numbers_and_negative_ones_to_the_left(show: ShowViews) -> None:
    torch.manual_seed(1)
    views, values = open_views(show, Vectors(), torch.randn(1, 1, 8, 8))
    views.wait_idle()
    page = views.page
    long = page.locator(".nbg-bars[data-bars='long']").first
    shown = int(long.get_attribute("data-channels") or "0")
    expect(long).to_contain_text(re.compile(rf"{shown} of 784$"))
    long_ = values["long"][0]
    largest = sorted(np.argsort(-np.abs(long_), kind="stable")[:shown].tolist())
    bars = read_bars(long)
    assert [element for element, _ in bars] == largest
    most = max(abs(length) for _, length in bars)
    for element, length in bars:
        assert length / most == pytest.approx(long_[element] / np.abs(long_).max(), abs=0.01)
    views.open_layer("fc", 0)
    rows = page.locator(".nbg-element")
    expect(rows).to_have_count(12)
    expect(rows.nth(5).locator("strong")).not_to_have_text("…")
    for k in range(12):
        assert parse_number(rows.nth(k).locator("strong").inner_text()) == pytest.approx(
            float(values["fc"][0, k]), rel=0.06, abs=1e-3
        )
        zero = 36.0
        bar = rows.nth(k).locator("rect")
        left = float(bar.get_attribute("x") or "nan")
        assert (left < zero - 1e-6) == bool(values["fc"][0, k] < 0)
    rows.nth(7).click()
    assert views.get("selected") == {"layer": "fc", "channel": 7}
    expect(rows.nth(7)).to_have_attribute("aria-pressed", "true")


def test_the_rail_has_bars_for_vectors_and_numbers_for_scalars(show: ShowViews) -> None:
    torch.manual_seed(1)
    views, values = open_views(show, Vectors(), torch.randn(1, 1, 8, 8), width=848)
    views.open_layer("act", 0)
    views.wait_idle()
    for name, count in (("act", 12), ("long", 28)):
        item = views.page.locator(f".nbg-rail-item[title^='{name},']")
        thumb = item.locator("[data-thumb]")
        box = thumb.bounding_box()
        assert box is not None and (box["width"], box["height"]) == (28, 28)
        rows = thumb.locator("g")
        expect(rows).to_have_count(count)
        # A bar of many elements shows their extremes on either side of zero.
        edges = np.arange(count + 1) * values[name].size // count
        most = np.abs(values[name]).max()
        for row, first, last in zip(rows.all(), edges[:-1], edges[1:], strict=True):
            own = values[name][0, first:last]
            for kind, size in (("negative", -own.min()), ("positive", own.max())):
                bar = row.locator(f".nbg-{kind}")
                if size <= 0:
                    expect(bar).to_have_count(0)
                    continue
                x, width = (float(bar.get_attribute(one) or "nan") for one in ("x", "width"))
                assert width == pytest.approx(14 * size / most, abs=1e-3)
                assert x == pytest.approx(14 if kind == "positive" else 14 - width, abs=1e-3)
    last = views.page.locator(".nbg-rail-item").last
    told = last.locator(".nbg-number")
    assert parse_number(told.inner_text()) == pytest.approx(float(values["act"].mean()), rel=0.06)
    size = told.evaluate("one => parseFloat(getComputedStyle(one).fontSize)")
    assert 11 - 1e-2 <= size <= 13
    inner, outer = told.bounding_box(), last.bounding_box()
    assert inner is not None and outer is not None and inner["width"] <= outer["width"] + 8


def test_a_scalar_is_its_number(show: ShowViews) -> None:
    torch.manual_seed(1)
    views, values = open_views(show, Vectors(), torch.randn(1, 1, 8, 8))
    expected = pytest.approx(float(values["output[1]"]), rel=0.06)
    views.set(selected={"layer": "mean", "channel": None})
    panel = views.page.locator(".nbg-panel .nbg-number")
    expect(panel).not_to_have_text("…")
    assert parse_number(panel.inner_text()) == expected
    views.set(tab="layer")
    shown = views.page.locator(".nbg-main > .nbg-number")
    expect(shown).not_to_have_text("…")
    assert parse_number(shown.inner_text()) == expected
    expect(views.page.locator(".nbg-main canvas")).to_have_count(0)


def test_a_segmentation_shows_its_classes_over_the_input_with_a_legend(show: ShowViews) -> None:
    torch.manual_seed(2)
    views, values = open_views(show, Segmenter(), torch.rand(2, 3, 24, 32))
    views.set(example=1, selected={"layer": "output", "channel": None})
    views.wait_idle()
    page = views.page
    which = values["output"][1].argmax(0)
    colours = parse_colours(CLASS_COLORS.replace("#", ""))
    drawn = canvas_pixels(page.locator(".nbg-end canvas[data-maps=output]"))
    step = drawn.shape[0] // 24
    np.testing.assert_array_equal(drawn[step // 2 :: step, step // 2 :: step], colours[which])
    panel = page.locator(".nbg-panel .nbg-classes")
    counts = np.bincount(which.ravel(), minlength=5)
    order = [int(k) for k in np.argsort(-counts, kind="stable") if counts[k]]
    entries = panel.locator("li")
    expect(panel).to_contain_text(f"{len(order)} of 5 classes in this picture")
    assert [int(one.get_attribute("data-class") or "-1") for one in entries.all()] == order
    for entry, k in zip(entries.all(), order, strict=True):
        share = parse_number(entry.locator("strong").inner_text())
        assert share == pytest.approx(100 * counts[k] / which.size, abs=0.06)
        painted = entry.locator(".nbg-swatch").evaluate("e => getComputedStyle(e).backgroundColor")
        assert painted == f"rgb({', '.join(str(int(c)) for c in colours[k])})"
    stack = panel.locator(".nbg-blend canvas")
    assert [one.get_attribute("data-maps") for one in stack.all()] == ["x", "output"]
    below, above = (one.bounding_box() for one in stack.all())
    assert below == above, "the classes don't cover the input"
    tip = views.hover(stack.nth(1), 10.5 / 32, 5.5 / 24)
    assert f"class {which[5, 10]} · y 5, x 10" in tip
    assert parse_number(tip) == pytest.approx(float(values["output"][1, :, 5, 10].max()), rel=1e-4)
    panel.get_by_role("button", name="Classes").click()
    expect(stack).to_have_count(1)
    expect(stack).to_have_attribute("data-maps", "output")
    panel.get_by_role("button", name="Input", exact=True).click()
    expect(stack).to_have_attribute("data-maps", "x")


@pytest.fixture
def token_views(show: ShowViews) -> tuple[ViewsPage, np.ndarray]:
    """A ViT of 2×3 patches after a class token, and the attention weights of its first block."""
    torch.manual_seed(4)
    model = ViT()
    with torch.no_grad():
        model.blocks[0].qkv.weight *= 4
    views, values = open_views(show, model, torch.rand(1, 3, 16, 24))
    return views, values["blocks.0.weights"][0]


def patch_visibility(overlay: Locator) -> np.ndarray:
    """The visible share of each patch: its weight relative to the largest."""
    found = np.full(6, np.nan)
    for rect in overlay.locator(".nbg-veil rect").all():
        place, share = (rect.get_attribute(f"data-{name}") or "" for name in ("place", "share"))
        found[int(place)] = float(share)
    return found


def test_pointing_at_a_row_of_attention_marks_its_patch_and_what_it_looks_at(
    token_views: tuple[ViewsPage, np.ndarray],
) -> None:
    views, weights = token_views
    page = views.page
    views.set(selected={"layer": "blocks.0.weights", "channel": None})
    views.wait_idle()
    tile = page.locator(".nbg-panel .nbg-tile").first
    head = int(re.sub(r"\D", "", tile.inner_text()))
    tip = views.hover(tile.locator("canvas"), 2.5 / 7, 5.5 / 7)  # token of patch 4: row 1, column 1
    assert f"head {head} · token 5 attends to token 2" in tip
    assert parse_number(tip) == pytest.approx(float(weights[head, 5, 2]), rel=1e-4)
    over = page.locator(".nbg-node[data-layer=x] .nbg-maps")
    expect(over.locator(".nbg-mark")).to_have_attribute("data-patch", "1,1")
    row = weights[head, 5, 1:]
    np.testing.assert_allclose(patch_visibility(over), row / row.max(), rtol=1e-5)
    mark = tile.locator(".nbg-row-mark")
    expect(mark).to_have_attribute("data-row", "5")
    outer, inner = tile.locator("canvas").bounding_box(), mark.bounding_box()
    assert outer is not None and inner is not None
    middle = (inner["y"] + inner["height"] / 2 - outer["y"]) / outer["height"]
    assert middle == pytest.approx(5.5 / 7, abs=0.02)
    views.hover(tile.locator("canvas"), 0.5, 0.5 / 7)  # the class token
    expect(over.locator(".nbg-mark")).to_have_count(0)
    row = weights[head, 0, 1:]
    np.testing.assert_allclose(patch_visibility(over), row / row.max(), rtol=1e-5)


def test_pointing_at_a_patch_marks_the_row_of_its_token(
    token_views: tuple[ViewsPage, np.ndarray],
) -> None:
    views, _ = token_views
    page = views.page
    views.set(selected={"layer": "blocks.0.weights", "channel": None})
    views.wait_idle()
    views.hover(page.locator(".nbg-node[data-layer=x] canvas"), 2.5 / 3, 0.25)  # row 0, column 2
    marks = page.locator(
        ".nbg-module-layers .nbg-maps", has=page.locator("[data-maps$='0.weights']")
    )
    marks = marks.locator(".nbg-row-mark")
    expect(marks).to_have_count(2)  # one per head
    expect(marks.first).to_have_attribute("data-row", "3")


def test_the_layer_tab_says_what_a_token_looks_at(
    token_views: tuple[ViewsPage, np.ndarray],
) -> None:
    views, weights = token_views
    page = views.page
    views.open_layer("blocks.0.weights", 1)
    views.wait_idle()
    views.hover(page.locator(".nbg-inspector > .nbg-maps canvas"), 0.5 / 7, 3.5 / 7)
    attended = page.locator(".nbg-attended")
    expect(attended).to_have_attribute("data-token", "3")
    expect(attended.locator("h3")).to_contain_text("Token 3 attends to patch 0, 2")
    order = np.argsort(-weights[1, 3], kind="stable")[:6]
    listed = attended.locator("li[data-token]")
    assert [int(one.get_attribute("data-token") or "-1") for one in listed.all()] == order.tolist()
    for one, token in zip(listed.all(), order, strict=True):
        assert parse_number(one.locator("strong").inner_text()) == pytest.approx(
            float(weights[1, 3, token]), rel=0.06, abs=1e-3
        )
        words = "no patch" if token == 0 else f"patch {(token - 1) // 3}, {(token - 1) % 3}"
        expect(one).to_contain_text(words)
    # A patch of the picture selects its token, which stays selected when the pointer leaves.
    views.hover(attended.locator("canvas"), 0.5 / 3, 0.75)
    expect(attended).to_have_attribute("data-token", "4")
    expect(page.locator(".nbg-inspector > .nbg-maps .nbg-row-mark")).to_have_attribute(
        "data-row", "4"
    )
    page.mouse.move(0, 0)
    expect(attended).to_have_attribute("data-token", "4")
    expect(page.locator(".nbg-inspector > .nbg-maps .nbg-row-mark")).to_have_count(1)
    np.testing.assert_allclose(
        patch_visibility(attended), weights[1, 4, 1:] / weights[1, 4, 1:].max(), rtol=1e-5
    )
    # The keyboard works too.
    slider = attended.get_by_role("slider", name="Token")
    expect(slider).to_have_attribute("aria-valuetext", "token 4, patch 1, 0")
    slider.press("ArrowRight")
    expect(attended).to_have_attribute("data-token", "5")
    expect(slider).to_have_attribute("aria-valuetext", "token 5, patch 1, 1")
