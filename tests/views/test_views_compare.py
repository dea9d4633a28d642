"""The Compare tab: the comparison of two networks, against PyTorch, in a real browser."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from torch import nn

import nbglcnn
from accessibility import AXE_SCRIPT, accessibility_violations
from browsers import EMPTY_PAGE, serve_files
from readability import layout_faults_by_width
from viewer_models import autoencoder, hook_values, pictures
from views_page import CLIPPED_ELEMENTS_SCRIPT, ViewsPage, canvas_pixels, parse_number

X = pictures(3)
SEEDS = (3, 7)


@pytest.fixture(scope="module")
def torch_values() -> tuple[dict[str, np.ndarray], ...]:
    """PyTorch's values of A, of B, and of B − A in double precision."""
    a, b = (hook_values(autoencoder(seed), X) for seed in SEEDS)
    return a, b, {name: b[name].astype(np.float64) - a[name] for name in a}


@pytest.fixture(scope="module")
def comparison_views(browser: Callable[[str], Browser]) -> Iterator[ViewsPage]:
    """The views of two checkpoints on two pictures, shared by all tests."""
    joined = nbglcnn.compare(*map(autoencoder, SEEDS), X, titles=("before", "after"))
    files = {"/": EMPTY_PAGE}
    with serve_files(files.get) as address:
        page = browser("llvmpipe").new_context().new_page()
        page.set_viewport_size({"width": 1200, "height": 1000})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        page.goto(address + "/")
        views = ViewsPage(page, files, joined.network.plan, X)
        views.set(tab="compare")
        yield views
        assert not errors, errors
        page.context.close()
    joined.close()


def pair_row(page: Page, name: str) -> Locator:
    return page.locator(f"tr:has([data-pair='{name}'])")


def select_pair(views: ViewsPage, name: str, channel: int | None = None) -> None:
    """Show a pair by a click on its row, and optionally a channel, of the first example."""
    views.set(example=0)
    pair_row(views.page, name).locator("td").first.click()
    expect(views.page.locator(".nbg-compare")).to_have_attribute("data-pair", name)
    if channel is not None:
        views.page.get_by_role("button", name=f"channel {channel},").click()
    views.wait_drawn()


def test_the_table_has_the_numbers_of_every_layer(
    comparison_views: ViewsPage, torch_values: Any
) -> None:
    page = comparison_views.page
    expect(page.get_by_role("tab", name="Compare")).to_have_attribute("aria-selected", "true")
    a, _, differences = torch_values
    for example in (1, 0):
        comparison_views.set(example=example)
        comparison_views.wait_idle()
        names = page.locator("button[data-pair]").evaluate_all(
            "all => all.map(e => e.dataset.pair)"
        )
        layers = [name for name in a if name.count(".") == 1]
        assert names[: len(layers)] == layers == names
        for name in names:
            shown = [float(one) for one in pair_row(page, name).locator("data").evaluate_all(
                "all => all.map((one) => one.value)")]  # fmt: skip
            change = abs(differences[name][example])
            mean, most = change.mean(), change.max()
            wanted = [mean, most, mean / abs(a[name][example]).mean()]
            assert shown == pytest.approx(wanted, rel=1e-3, abs=1e-6), name


def test_rows_are_sorted_by_any_measure_and_back(
    comparison_views: ViewsPage, torch_values: Any
) -> None:
    page = comparison_views.page
    names = lambda: page.locator("button[data-pair]").evaluate_all(  # noqa: E731
        "all => all.map(e => e.dataset.pair)"
    )
    before = names()
    page.get_by_role("button", name="max |B − A|").click()
    largest = {name: abs(torch_values[2][name][0]).max() for name in before}
    assert names() == sorted(before, key=lambda name: -largest[name])
    head = page.locator("th", has_text="max |B − A|")
    expect(head).to_have_attribute("aria-sort", "descending")
    widths = page.locator(".nbg-change-track > span").evaluate_all(
        "all => all.map((one) => parseFloat(one.style.width))"
    )
    shares = [100 * largest[name] / max(largest.values()) for name in names()]
    assert widths == pytest.approx(shares, rel=1e-3)
    page.get_by_role("button", name="layer", exact=True).click()
    assert names() == before


def test_the_pointer_tells_both_values_and_their_difference(
    comparison_views: ViewsPage, torch_values: Any
) -> None:
    select_pair(comparison_views, "encoder.2", 4)
    page = comparison_views.page
    height, width = torch_values[0]["encoder.2"].shape[2:]
    canvases = page.locator(".nbg-compared canvas")
    assert canvases.count() == 3
    for canvas, (y, x) in zip(canvases.all(), ((1, 2), (6, 3), (9, 8)), strict=True):
        tip = comparison_views.hover(canvas, (x + 0.5) / width, (y + 0.5) / height)
        assert f"channel 4 · y {y}, x {x}" in tip
        texts = tip.splitlines()[0].removeprefix("A ").replace(" B − A ", " B ").split(" · B ")
        wanted = [of["encoder.2"][0, 4, y, x] for of in torch_values]
        assert [parse_number(text) for text in texts] == pytest.approx(wanted, rel=1e-4, abs=1e-6)
        expect(page.locator(".nbg-compared .nbg-mark")).to_have_count(3)
    page.mouse.move(0, 0)


def test_a_and_b_have_one_range_and_the_difference_is_signed_around_zero(
    comparison_views: ViewsPage, torch_values: Any
) -> None:
    for mode in ("channel", "layer"):
        comparison_views.set(rangeMode=mode)
        select_pair(comparison_views, "encoder.2", 4)
        comparison_views.wait_idle()
        part = np.s_[0, 4] if mode == "channel" else np.s_[0]
        a, b, difference = (of["encoder.2"][part] for of in torch_values)
        legends = comparison_views.page.locator(".nbg-compared .nbg-legend").all_inner_texts()
        ends = [[parse_number(text) for text in legend.split("\n")] for legend in legends]
        most = max(abs(a).max(), abs(b).max())
        assert ends[0] == ends[1] == pytest.approx([-most, most], rel=0.05)
        change = abs(difference).max()
        assert ends[2] == pytest.approx([-change, change], rel=0.05)
    a, b, difference = (of["encoder.2"][0, 4] for of in torch_values)
    shown = [
        canvas_pixels(one).astype(int)
        for one in comparison_views.page.locator(".nbg-compared canvas").all()
    ]
    assert shown[0].shape[:2] == difference.shape
    # Zero is white, positive blue, negative orange.
    blue = shown[2][..., 2].astype(int) - shown[2][..., 0]
    clear = abs(difference) > 0.1 * change
    assert clear.sum() > 10
    np.testing.assert_array_equal(np.sign(blue)[clear], np.sign(difference)[clear])
    # Equal values have equal colours in A and B.
    darkness = [(255 - one).sum(axis=2) for one in shown[:2]]
    values = np.concatenate([a.ravel(), b.ravel()])
    dark = np.concatenate([one.ravel() for one in darkness])
    order = np.argsort(values[values > 0.02 * most])
    assert (np.diff(dark[values > 0.02 * most][order]) >= -3).all()


def test_a_fixed_range_stays_when_another_example_is_shown(
    comparison_views: ViewsPage, torch_values: Any
) -> None:
    select_pair(comparison_views, "encoder.2", 4)
    comparison_views.page.get_by_role("button", name="Fixed").click()
    legends = comparison_views.page.locator(".nbg-compared .nbg-legend")
    comparison_views.wait_idle()
    before = legends.all_inner_texts()
    comparison_views.set(example=1)
    comparison_views.wait_idle()
    assert legends.all_inner_texts() == before
    a, b, _ = (of["encoder.2"][0] for of in torch_values)
    most = max(abs(a).max(), abs(b).max())
    shown = [parse_number(text) for text in before[0].split("\n")]
    assert shown == pytest.approx([-most, most], rel=0.05)
    comparison_views.set(rangeMode="layer")
    comparison_views.wait_idle()
    assert legends.all_inner_texts() != before


@pytest.mark.parametrize("form", ["graph", "strip"])
def test_the_network_tab_says_at_each_stage_how_much_it_differs(
    comparison_views: ViewsPage, torch_values: Any, form: str
) -> None:
    page = comparison_views.page
    comparison_views.set(tab="network", networkLayout=form, example=1)
    marks = page.locator(".nbg-difference-bar")
    expect(marks.first).to_be_visible()
    comparison_views.wait_idle()
    of_a, _, changes = torch_values
    found = {
        mark.get_attribute("aria-label"): mark.get_attribute("data-relative")
        for mark in marks.all()
    }
    assert len(found) == 4
    for label, relative in found.items():
        assert label is not None and relative is not None
        name = label.partition(":")[0]
        expected = np.abs(changes[name][1]).mean() / np.abs(of_a[name][1]).mean()
        assert float(relative) == pytest.approx(expected, rel=1e-4), label
    mark = page.locator("[aria-label^='encoder.2: A and B differ by']").first
    share = parse_number(mark.text_content() or "")
    expected = np.abs(changes["encoder.2"][1]).mean() / np.abs(of_a["encoder.2"][1]).mean()
    assert share == pytest.approx(100 * expected if expected < 10 else expected, rel=0.1)
    mark.click()
    expect(page.locator(".nbg-compare")).to_have_attribute("data-pair", "encoder.2")
    comparison_views.set(networkLayout=None, example=0)


def test_the_output_is_an_image_in_a_and_b(comparison_views: ViewsPage, torch_values: Any) -> None:
    select_pair(comparison_views, "decoder.4")
    comparison_views.wait_idle()
    ranges = comparison_views.page.locator(
        ".nbg-compared .nbg-image-range > span"
    ).all_inner_texts()
    assert ranges == ["0 to 1"] * 2
    for side, canvas in enumerate(comparison_views.page.locator(".nbg-compared canvas").all()[:2]):
        grey = np.rint(255 * torch_values[side]["decoder.4"][0, 0])
        assert abs(canvas_pixels(canvas)[..., 0] - grey).max() <= 1
    figures = comparison_views.page.locator(".nbg-compared figcaption").all_inner_texts()
    assert figures[0].startswith("A\nbefore") and figures[1].startswith("B\nafter")


def test_a_is_wiped_over_b_and_shown_while_a_key_is_held(comparison_views: ViewsPage) -> None:
    page = comparison_views.page
    select_pair(comparison_views, "encoder.4", 1)
    page.get_by_role("button", name="Wipe").click()
    slider = page.get_by_role("slider", name="Share of A")
    slider.fill("25")
    over = page.locator(".nbg-overlay-figure")
    assert "inset(0px 75% 0px 0px)" in over.evaluate("one => getComputedStyle(one).clipPath")
    assert [over.locator("canvas").get_attribute("data-maps"),
            page.locator(".nbg-layered > .nbg-maps canvas").get_attribute("data-maps")
            ] == ["A.encoder.4", "B.encoder.4"]  # fmt: skip
    page.get_by_role("button", name="Hold A", exact=True).click()
    expect(over).to_be_hidden()
    page.keyboard.down("a")
    expect(over).to_be_visible()
    expect(page.locator(".nbg-compared-figure[data-held=true] figcaption strong")).to_have_text(
        "A before"
    )
    page.keyboard.up("a")
    expect(over).to_be_hidden()
    button = page.get_by_role("button", name="Hold to see A")
    button.focus()
    page.keyboard.down("Space")
    expect(over).to_be_visible()
    page.keyboard.up("Space")
    expect(over).to_be_hidden()
    page.get_by_role("button", name="Side by side").click()


def test_the_header_counts_the_networks_apart(comparison_views: ViewsPage) -> None:
    count = sum(parameter.numel() for parameter in autoencoder(SEEDS[0]).parameters())
    words = comparison_views.page.locator(".nbg-model .nbg-second")
    expect(words).to_contain_text(f"layers · {count:,} + {count:,} parameters")


def test_arrows_move_through_layers_and_channels(comparison_views: ViewsPage) -> None:
    page = comparison_views.page
    select_pair(comparison_views, "encoder.3")
    page.locator("button[data-pair='encoder.3']").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("button[data-pair='encoder.4']")).to_be_focused()
    assert comparison_views.get("selected") == {"layer": "difference.encoder.4", "channel": None}
    page.keyboard.press("ArrowLeft")
    expect(page.locator("button[data-pair='encoder.3']")).to_be_focused()
    a, b = (hook_values(autoencoder(seed), X)["encoder.3"][0] for seed in SEEDS)
    order = list(np.argsort(-((b - a) ** 2).mean(axis=(1, 2))))
    shown = page.locator(".nbg-frame").evaluate_all("all => all.map((e) => e.ariaLabel)")
    assert [int(parse_number(label)) for label in shown] == order
    pressed = page.locator(".nbg-frame[aria-pressed=true]")
    expect(pressed).to_have_attribute("aria-label", re.compile(f"^channel {order[0]},"))
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    selected = {"layer": "difference.encoder.3", "channel": order[1]}
    assert comparison_views.get("selected") == selected
    expect(page.get_by_role("button", name=f"channel {order[1]},")).to_be_focused()
    page.get_by_label("Sort").select_option("number")
    shown = page.locator(".nbg-frame").evaluate_all("all => all.map((e) => e.ariaLabel)")
    assert [int(parse_number(label)) for label in shown] == sorted(order)


def test_a_layer_selected_anywhere_is_the_one_that_is_compared(comparison_views: ViewsPage) -> None:
    page = comparison_views.page
    comparison_views.set(selected={"layer": "B.decoder.0", "channel": 2})
    expect(page.locator(".nbg-compare")).to_have_attribute("data-pair", "decoder.0")
    page.get_by_role("tab", name="Layer").click()
    expect(page.locator(".nbg-layer")).to_have_attribute("data-layer", "B.decoder.0")
    comparison_views.set(selected={"layer": "difference.decoder.0", "channel": 2})
    expect(page.locator(".nbg-title").first).to_contain_text("difference.decoder.0")
    page.get_by_role("button", name="Explain", exact=True).first.click()
    expect(page.locator(".nbg-layer")).to_contain_text("difference.decoder.0")
    page.keyboard.press("Escape")
    expect(page.locator(".nbg-compare")).to_have_attribute("data-pair", "decoder.0")


@pytest.mark.parametrize("width", [420, 900])
def test_nothing_is_cut_off_in_a_narrow_cell(comparison_views: ViewsPage, width: int) -> None:
    page = comparison_views.page
    select_pair(comparison_views, "encoder.2", 4)
    page.set_viewport_size({"width": width, "height": 1000})
    comparison_views.wait_idle()
    assert page.evaluate(CLIPPED_ELEMENTS_SCRIPT) == []
    lefts = {round(one.bounding_box()["x"]) for one in page.locator(".nbg-compared-figure").all()}
    assert len(lefts) == (1 if width < 520 else 3)
    page.set_viewport_size({"width": 1200, "height": 1000})


def test_vectors_are_bars_with_the_same_elements_and_scale(show: Callable[..., ViewsPage]) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(1, 1, 2, 3)).astype("float32")
    a, b = (
        nn.Sequential(nn.Flatten(), nn.Linear(6, 300), last).eval()
        for last in (nn.ReLU(), nn.Tanh())
    )
    comparison = nbglcnn.compare(a, b, x)
    views = show(comparison.network.plan, x)
    views.set(tab="compare")
    views.wait_idle()
    page = views.page
    charts = page.locator(".nbg-compared svg")
    assert charts.count() == 3
    shown = [
        parse_number(page.locator(".nbg-compared svg").nth(k).get_attribute("data-channels") or "")
        for k in range(3)
    ]
    assert len(set(shown)) == 1 and 50 < shown[0] < 300
    values = comparison["output"]
    top = max(abs(values.a).max(), abs(values.b).max())
    kept = np.sort(np.argsort(-abs(values.difference[0]), kind="stable")[: int(shown[0])])
    for k, of in enumerate((values.a[0], values.b[0], values.difference[0])):
        bars = charts.nth(k).locator("rect")
        tall = bars.evaluate_all("all => all.map((one) => one.height.baseVal.value)")
        longest = abs(values.difference).max() if k == 2 else top
        assert tall == pytest.approx(list(abs(of[kept]) / longest * 67), abs=0.02)
    comparison.close()


def test_what_has_no_partner_is_said(show: Callable[..., ViewsPage]) -> None:
    a = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()).eval()
    b = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 5, 1)).eval()
    comparison = nbglcnn.compare(a, b, X)
    views = show(comparison.network.plan, X)
    views.set(tab="compare")
    expect(views.page.locator(".nbg-aside")).to_contain_text("Only in B: 2, output")
    expect(views.page.locator(".nbg-aside")).to_contain_text("Only in A: output")
    comparison.close()


def test_no_serious_rule_of_accessibility_is_broken_and_all_can_be_read(
    comparison_views: ViewsPage, sweep_widths: Callable[..., tuple[int, ...]]
) -> None:
    comparison_views.page.add_script_tag(path=str(AXE_SCRIPT))
    for light in (True, False):
        comparison_views.page.evaluate("on => { document.body.dataset.jpThemeLight = on; }", light)
        comparison_views.wait_idle()
        wrong = accessibility_violations(comparison_views.page, "light" if light else "dark")
        assert not wrong, wrong
        assert (
            layout_faults_by_width(comparison_views.page, sweep_widths(768 if light else 848)) == {}
        )
