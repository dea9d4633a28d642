"""The views in a real browser: displayed values against PyTorch's, and behaviour."""

import re
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import groupby, pairwise

import numpy as np
import pytest
import torch
from playwright.sync_api import Locator, TimeoutError, expect
from torch import nn

import nbglcnn
from fashion_autoencoder import load_autoencoder, load_images
from polling import retry_until_passes
from readability import assert_checks_detect, layout_faults_by_width
from trained_autoencoder import compile_autoencoder
from views_page import (
    CLIPPED_ELEMENTS_SCRIPT,
    MAP_CANVAS_SELECTOR,
    PARITY_STATE,
    ViewsPage,
    parse_number,
)

VIEW_WIDTHS = (400, 420, 900, 1200)


def test_the_strip_shows_every_channel_of_every_stage_from_input_to_output(
    show: Callable[..., ViewsPage],
) -> None:
    plan, images, _ = compile_autoencoder()
    page = show(plan, images).page
    titles = page.locator(".nbg-line .nbg-caption strong").all_inner_texts()
    stages = ["encoder.0–2", "encoder.3–5", "encoder.6", "decoder.0–2", "decoder.3–5"]
    assert titles == ["Input", *stages, "Output"]
    canvases = page.locator(f".nbg-line {MAP_CANVAS_SELECTOR[9:]}")
    shown = {
        one.get_attribute("data-maps"): int(one.get_attribute("data-channels") or 0)
        for one in canvases.all()
    }
    maps = {"encoder.2": 32, "encoder.5": 64, "decoder.2": 64, "decoder.5": 32}
    assert shown == {"x": 1, **maps, "output": 1}
    expect(page.locator(".nbg-line [data-bars='encoder.6'] rect")).to_have_count(16)
    tops = {box["y"] + box["height"] / 2 for one in canvases.all() if (box := one.bounding_box())}
    assert max(tops) - min(tops) <= 1, "pictures stand on one line"


# The strip's stages: the boxes of their pictures, and their captions.
CELL_BOXES_SCRIPT = """() => [...document.querySelectorAll(
  '.nbg-wrap > div, .nbg-line > .nbg-stage')].map((cell) => {
  const stage = cell.querySelector('.nbg-stage') ?? cell;
  const canvas = stage.querySelector('canvas');
  const { left, right, top } = stage.querySelector('.nbg-shown').getBoundingClientRect();
  const columns = Number(canvas?.dataset.columns ?? 1);
  const words = [...stage.querySelectorAll(
    '.nbg-name, .nbg-part, .nbg-caption > span:not(.nbg-named, .nbg-parts)')];
  return { left, right, top, columns, width: canvas?.getBoundingClientRect().width ?? 0,
    words: words.map((one) => one.textContent.trim()) };
})"""


def test_at_848_pixels_the_tours_network_is_one_line_that_fills_the_width(
    show: Callable[..., ViewsPage],
) -> None:
    plan, images, _ = compile_autoencoder()
    page = show(plan, images, width=848).page
    cells = page.evaluate(CELL_BOXES_SCRIPT)
    assert len(cells) == 7
    assert {one["top"] for one in cells} == {cells[0]["top"]}
    assert cells[0]["left"] == 25 and 848 - 25 - 8 < cells[-1]["right"] <= 848 - 25
    assert all(b["left"] - a["right"] >= 16 for a, b in pairwise(cells))
    for one in cells[1:-1]:
        if one["width"]:
            assert one["width"] / one["columns"] >= 20
    assert min(cells[0]["width"], cells[-1]["width"]) >= 110
    assert "Conv 4×4, 32→64, stride 2" in cells[2]["words"]
    assert any(re.fullmatch("[0-9]+ of 64", text) for text in cells[2]["words"])
    expect(page.locator(".nbg-own-scale")).to_contain_text("its own scale")


@pytest.mark.parametrize("width", [620, 848, 1420])
def test_a_chain_of_any_length_wraps_like_text(show: Callable[..., ViewsPage], width: int) -> None:
    parts: list[nn.Module] = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU()]
    for k in range(2, 41, 2):
        parts += [nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()]
        parts += [nn.MaxPool2d(2)] if k == 20 else []
    model = nn.Module()
    model.features = nn.Sequential(*parts)
    model.forward = model.features.forward  # type: ignore[method-assign]
    x = np.random.default_rng(0).random((1, 3, 32, 32)).astype(np.float32)
    page = show(nbglcnn.compile(model.eval(), x), x, width=width).page
    cells = page.evaluate(CELL_BOXES_SCRIPT)
    assert len(cells) == 23, "21 convolutions and a pool; the last is the output"
    assert cells[0]["words"][0] == "Input" and cells[-1]["words"][0] == "Output"
    assert cells[2]["words"][:2] == ["features.2–3", "16×32×32"]
    assert cells[2]["words"][2:4] == ["Conv 3×3, 16→16", "ReLU"]
    pool = next(one for one in cells if one["words"][0] == "features.22")
    assert pool["words"][1] == "16×16×16" and pool["width"] > 20
    assert "MaxPool 2×2, stride 2" in pool["words"]
    # Reading order: along a row, then from the left of the next row, which is as wide.
    rows = [list(row) for _, row in groupby(cells, key=lambda one: one["top"])]
    assert 2 <= len(rows) <= 7 and len({len(row) for row in rows[:-1]}) == 1
    assert [one["top"] for one in cells] == sorted(one["top"] for one in cells)
    for row in rows:
        lefts = [one["left"] for one in row]
        assert lefts == sorted(lefts) and lefts[0] == pytest.approx(rows[0][0]["left"], abs=1)
    assert rows[0][-1]["right"] > width - 25 - 20
    assert all(one["width"] / one["columns"] >= 20 for one in cells[1:-1])
    assert page.evaluate(CLIPPED_ELEMENTS_SCRIPT) == []


def test_pictures_differ_by_layer_and_have_many_colours(show: Callable[..., ViewsPage]) -> None:
    plan, images, _ = compile_autoencoder()
    page = show(plan, images).page
    pixels = page.locator(f".nbg-line {MAP_CANVAS_SELECTOR[9:]}").evaluate_all(
        """all => all.map((canvas) => {
          const {width, height} = canvas;
          const data = canvas.getContext('2d').getImageData(0, 0, width, height).data;
          const colours = new Set();
          for (let k = 0; k < data.length; k += 4) {
            if (data[k + 3]) colours.add(data[k] << 16 | data[k + 1] << 8 | data[k + 2]);
          }
          return [canvas.dataset.maps, colours.size, data.join()];
        })"""
    )
    strip = [
        one for one in pixels if one[0] in ("encoder.2", "encoder.5", "decoder.2", "decoder.5")
    ]
    assert len({text for _, _, text in strip}) == len(strip)
    assert all(colours > 16 for key, colours, _ in pixels if key in ("encoder.2", "decoder.5"))


def test_the_pointer_shows_the_value_under_it(show: Callable[..., ViewsPage]) -> None:
    plan, images, values = compile_autoencoder()
    views = show(plan, images)
    random = np.random.default_rng(0)
    for example in (0, 2):
        views.set(example=example)
        for layer in ("encoder.2", "decoder.5"):
            canvas = views.page.locator(f".nbg-line canvas[data-maps='{layer}']")
            columns = int(canvas.get_attribute("data-columns") or 1)
            _, channels, height, width = values[layer].shape
            rows = channels // columns
            for _ in range(4):
                channel, y, x = (int(random.integers(n)) for n in (channels, height, width))
                across = columns * (width * 2 + 1) - 1
                down = rows * (height * 2 + 1) - 1
                text = views.hover(
                    canvas,
                    (channel % columns * (width * 2 + 1) + 2 * x + 1) / across,
                    (channel // columns * (height * 2 + 1) + 2 * y + 1) / down,
                )
                assert f"channel {channel} · y {y}, x {x}" in text
                expected = float(values[layer][example, channel, y, x])
                assert parse_number(text) == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_a_code_of_single_values_is_shown_as_bars_with_their_numbers(
    show: Callable[..., ViewsPage],
) -> None:
    plan, images, values = compile_autoencoder()
    views = show(plan, images)
    bars = views.page.locator(".nbg-line [data-bars='encoder.6']")
    code = values["encoder.6"][0].ravel()
    expect(bars.locator(".nbg-negative")).to_have_count(int((code < 0).sum()))
    for channel in (0, 7, 15):
        text = views.hover(bars, 0.5, (channel + 0.5) / 16)
        assert f"channel {channel}" in text
        assert parse_number(text) == pytest.approx(float(code[channel]), rel=1e-5, abs=1e-5)


def test_the_table_and_captions_are_the_layers_statistics(show: Callable[..., ViewsPage]) -> None:
    plan, images, values = compile_autoencoder()
    views = show(plan, images)
    views.set(example=1)
    views.open_layer("encoder.4", 9)
    layer = values["encoder.4"][1]
    expected = {
        name: (float(getattr(layer[9], name)()), float(getattr(layer, name)()))
        for name in ("min", "max", "mean", "std")
    }
    expect(views.page.locator(".nbg-table thead")).to_contain_text("channel 9")
    rows = views.page.locator(".nbg-table tbody tr")
    names = ["min", "max", "mean", "std", "zero", "dead channels"]
    assert rows.locator("th").all_inner_texts() == names
    dead = int((layer == 0).all((1, 2)).sum())
    assert rows.last.locator("td").last.inner_text() == f"{dead} of {len(layer)}"
    for row in rows.all():
        name, channel, whole = row.locator("th, td").all_inner_texts()
        if name in expected:
            assert parse_number(channel) == pytest.approx(expected[name][0], rel=1e-3, abs=6e-4)
            assert parse_number(whole) == pytest.approx(expected[name][1], rel=1e-3, abs=6e-4)
    for label, shown in (("Values of channel 9", layer[9]), ("All values of encoder.4", layer)):
        bars = views.page.get_by_role("img", name=label).locator("rect:not(.nbg-zeros)")
        heights = np.array([float(bar.get_attribute("height") or 0) for bar in bars.all()])
        counted, limits = shown[shown != 0].astype(float), (float(shown.min()), float(shown.max()))
        counts, _ = np.histogram(counted, len(heights), limits)
        np.testing.assert_allclose(heights, heights.max() * np.sqrt(counts / counts.max()), 1e-3)
    captions = views.page.locator(".nbg-grid .nbg-cell-caption").all_inner_texts()
    assert len(captions) == 64
    for caption in captions:
        channel, mean = caption.split()
        exact = float(layer[int(channel)].mean())
        assert parse_number(mean) == pytest.approx(exact, rel=6e-2, abs=6e-4)


# After a click no run starts before its text and pictures are displayed. Returns the number of runs
# meanwhile.
CLICK_CANVAS_SCRIPT = """async ([css, shown]) => {
  const { state } = views;
  const session = state.session.value;
  const [input] = state.plan.value.inputs;
  const x = await session.read(input.key);
  const run = async () => {
    session.write(input.key, x);
    state.run.value = await session.run();
  };
  for (let k = 0; k < 4; k++) await run();
  const before = session.sequence;
  document.querySelector(css).click();
  const canvases = () => [...document.querySelectorAll(`${shown} canvas[data-maps]`)];
  const drawn = (canvas) => canvas.dataset.drawn || canvas.getBoundingClientRect().top > 900;
  const late = performance.now() + 20000;
  while (canvases().length === 0 || !canvases().every(drawn)) {
    if (performance.now() > late) return `nothing is shown in ${shown}`;
    await new Promise(requestAnimationFrame);
  }
  const after = session.sequence;
  await run();
  return after - before;
}"""


def test_a_click_is_shown_before_the_networks_next_run(show: Callable[..., ViewsPage]) -> None:
    plan, images, _ = compile_autoencoder()
    views = show(plan, images)

    def clicked(css: str, shown: str) -> int | str:
        return views.page.evaluate(CLICK_CANVAS_SCRIPT, [css, shown])

    stage = "[data-layer='decoder.2'] .nbg-picture"
    assert clicked(stage, ".nbg-panel[aria-label='About decoder.2']") == 0
    assert clicked("[role=tab]:nth-of-type(2)", ".nbg-layer[data-layer='decoder.2']") == 0
    assert clicked(".nbg-frame:nth-of-type(8)", ".nbg-inspector:not([aria-label='Channel 0'])") == 0


@pytest.mark.usefixtures("fresh_page")
def test_fingers_tap_hold_to_read_and_swipe_to_scroll(show: Callable[..., ViewsPage]) -> None:
    plan, images, values = compile_autoencoder()
    views = show(plan, images, width=700)
    page = views.page
    page.set_viewport_size({"width": 700, "height": 500})
    device = page.context.new_cdp_session(page)
    device.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})

    def touch(kind: str, *points: tuple[float, float]) -> None:
        fingers = [{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(points)]
        device.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})

    def inside(locator: Locator, x: float, y: float) -> tuple[float, float]:
        locator.scroll_into_view_if_needed()
        box = locator.bounding_box()
        assert box is not None
        return box["x"] + x * box["width"], box["y"] + y * box["height"]

    # On a stalled machine the gesture turns into a long press that reads, so retry.
    def quick(*events: tuple[str, tuple[float, float] | None]) -> bool:
        began = time.monotonic()
        for kind, at in events:
            touch(kind, *([] if at is None else [at]))
        return time.monotonic() - began < 0.3

    def swiped(locator: Locator) -> float:
        while True:
            x, y = inside(locator, 0.5, 0.5)
            before = page.evaluate("scrollY")
            step = -30 if before < 60 else 30
            path = [(x, y + k * step) for k in range(6)]
            moving = quick(("touchStart", path[0]), ("touchMove", path[1]))
            for at in path[2:]:
                touch("touchMove", at)
            touch("touchEnd")
            with suppress(TimeoutError):
                far = "before => Math.abs(scrollY - before) > 40"
                page.wait_for_function(far, arg=before, timeout=5000)
            distance = abs(float(page.evaluate("scrollY") - before))
            if moving or distance > 0:
                return distance

    def tap(at: tuple[float, float]) -> None:
        while not quick(("touchStart", at), ("touchEnd", None)):
            pass

    assert swiped(page.locator(MAP_CANVAS_SELECTOR).first) > 40
    views.open_layer("encoder.4", 0)
    tile = page.locator(".nbg-frame").nth(5)
    assert swiped(page.locator(".nbg-grid canvas").first) > 40
    tap(inside(tile, 0.5, 0.5))
    expect(page.locator(".nbg-inspector")).to_have_attribute("aria-label", "Channel 5")
    views.wait_drawn()
    large = page.locator(":is(.nbg-inspector, .nbg-blended) > .nbg-maps")
    _, _, height, width = values["encoder.4"].shape
    tip = page.locator(".nbg-tip")

    def reads() -> None:
        """A finger rests, then moves; Chromium cancels the touch if the page stalls."""
        scrolled = page.evaluate("scrollY")
        try:
            for y, x in ((1, 2), (height - 1, width - 2)):
                point = inside(large, (x + 0.5) / width, (y + 0.5) / height)
                if y == 1:
                    touch("touchStart", point)
                    page.wait_for_timeout(500)  # long press: starts reading values
                else:
                    touch("touchMove", point)
                expect(tip).to_contain_text(f"y {y}, x {x}", timeout=5000)
                expect(tip).not_to_contain_text("…")
                exact = float(values["encoder.4"][0, 5, y, x])
                assert parse_number(tip.inner_text()) == pytest.approx(exact, rel=1e-4, abs=1e-5)
            assert page.evaluate("scrollY") == scrolled, "it reads, and does not scroll"
        finally:
            touch("touchEnd")

    inside(large, 0.5, 0.5)
    retry_until_passes(page, reads)
    expect(tip).to_have_count(0)
    views.set(layerSection="explain")
    pick = page.locator(".nbg-pick")
    expect(pick).to_be_visible()
    tap(inside(pick, 1.5 / width, 2.5 / height))
    expect(page.locator(".nbg-question")).to_contain_text("pixel y 2, x 1 ")
    assert swiped(pick) > 40


@pytest.mark.parametrize("order", ["mean", "max", "variance"])
def test_channels_are_sorted(show: Callable[..., ViewsPage], order: str) -> None:
    plan, images, values = compile_autoencoder()
    views = show(plan, images)
    views.open_layer("encoder.2")
    views.page.get_by_label("Sort").select_option(order)
    layer = values["encoder.2"][0]
    by = {"mean": layer.mean((1, 2)), "max": layer.max((1, 2)), "variance": layer.var((1, 2))}
    wanted = [str(k) for k in np.argsort(-by[order], kind="stable")]
    numbers = views.page.locator(".nbg-grid .nbg-cell-caption > :first-child")
    expect(numbers).to_have_text(wanted)


def test_the_filter_of_a_channel_has_its_weights(show: Callable[..., ViewsPage]) -> None:
    plan, images, _ = compile_autoencoder()
    views = show(plan, images)
    weights = load_autoencoder().state_dict()
    views.open_layer("encoder.2", 21)
    cells = views.page.locator(".nbg-weights > span")
    expect(cells).to_have_count(16)
    shown = [parse_number(text) for text in cells.all_inner_texts()]
    np.testing.assert_allclose(shown, weights["encoder.0.weight"][21, 0].ravel(), atol=5.1e-3)
    # A transposed convolution's weight is stored input channel first.
    views.open_layer("decoder.3", 5)
    caption = views.page.locator(".nbg-filter figcaption").first
    expect(caption).to_contain_text("for input channel")
    kernels = weights["decoder.3.weight"][:, 5].numpy()
    strongest = int((kernels**2).sum((1, 2)).argmax())
    expect(caption).to_contain_text(f"for input channel {strongest}, the strongest of 64")
    shown = [parse_number(text) for text in cells.all_inner_texts()]
    np.testing.assert_allclose(shown, kernels[strongest].ravel(), atol=5.1e-3)


def test_filters_show_every_weight_of_the_stage(show: Callable[..., ViewsPage]) -> None:
    plan, images, _ = compile_autoencoder()
    views = show(plan, images)
    views.open_layer("encoder.2")
    views.page.get_by_role("button", name="Filters").click()
    kernels = views.page.locator("canvas[data-kernels='encoder.0.weight']")
    expect(kernels).to_have_attribute("data-channels", "32")
    text = views.hover(kernels, 0.004, 0.02)
    weight = float(load_autoencoder().state_dict()["encoder.0.weight"][0, 0, 0, 0])
    assert parse_number(text) == pytest.approx(weight, rel=1e-5)
    titles = views.page.locator(".nbg-filters h3").all_inner_texts()
    words = ["Conv2d", "Bias", "Scale", "Shift", "Running mean", "Running variance"]
    assert [title.split("  ")[0].split(" encoder")[0].strip() for title in titles] == words


@pytest.mark.parametrize("width", VIEW_WIDTHS)
def test_no_text_is_clipped(show: Callable[..., ViewsPage], width: int) -> None:
    plan, images, _ = compile_autoencoder()
    views = show(plan, images, width=width)
    assert views.page.evaluate(CLIPPED_ELEMENTS_SCRIPT) == []
    for layer in ("encoder.2", "encoder.6", "decoder.3"):
        views.open_layer(layer)
        assert views.page.evaluate(CLIPPED_ELEMENTS_SCRIPT) == []
        views.page.get_by_role("button", name="Filters").click()
        assert views.page.evaluate(CLIPPED_ELEMENTS_SCRIPT) == []
        views.page.get_by_role("button", name="Maps", exact=True).click()
    assert views.page.evaluate("document.documentElement.scrollWidth") <= width


def test_nothing_is_drawn_unless_something_changed(show: Callable[..., ViewsPage]) -> None:
    plan, images, _ = compile_autoencoder()
    views = show(plan, images)
    page = views.page
    views.wait_idle()
    clear = "() => { views.calls.drawn.length = 0; views.calls.runs = 0; }"
    page.evaluate(clear)
    page.wait_for_timeout(400)
    assert page.evaluate("views.calls.drawn") == []
    chosen = page.locator("select[aria-label=Example] option:checked")
    assert chosen.inner_text() == f"1 of {len(images)}", "people count from 1, Python from 0"
    page.get_by_label("Next example").click()
    views.wait_idle()
    assert (views.get("example"), chosen.inner_text()) == (1, f"2 of {len(images)}")
    drawn = page.evaluate("views.calls.drawn")
    assert {"x", "encoder.2", "encoder.5", "decoder.2", "decoder.5", "output"} <= set(drawn)
    assert page.evaluate("views.calls.runs") == 0, "another example is drawn, not computed"
    page.evaluate(clear)
    # Far below the viewport the Viewer is invisible, so nothing is drawn.
    page.evaluate("document.body.style.paddingTop = '5000px'")
    page.wait_for_function("() => [...views.state.viewVisibility.value.values()][0] === false")
    views.set(example=2)
    views.wait_idle()
    assert page.evaluate("views.calls.drawn") == []
    page.evaluate("document.body.style.paddingTop = '0'")
    views.wait_drawn()
    assert "encoder.2" in page.evaluate("views.calls.drawn")


def test_fast_runs_are_drawn_a_dozen_times_a_second(show: Callable[..., ViewsPage]) -> None:
    plan, images, _ = compile_autoencoder()
    page = show(plan, images).page
    drawn, ms = page.evaluate(
        """async () => {
          const {state, calls} = views;
          const [before, start] = [calls.batches, performance.now()];
          for (let k = 0; k < 120; k++) {
            state.run.value = {...state.run.value};
            await new Promise((done) => setTimeout(done, 8));
          }
          return [calls.batches - before, performance.now() - start];
        }"""
    )
    # Drawings are at least 80 ms apart; one may have been pending at the start.
    assert 1 <= drawn <= ms / 80 + 2


def test_another_theme_is_followed_at_once(show: Callable[..., ViewsPage]) -> None:
    plan, images, _ = compile_autoencoder()
    views = show(plan, images)
    page = views.page
    corner = """() => [...document.querySelector(".nbg-line canvas[data-maps='encoder.2']")
      .getContext('2d').getImageData(0, 0, 60, 60).data]"""
    light = page.evaluate(corner)
    page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    expect(page.locator(".nbglcnn")).to_have_attribute("data-theme", "dark")

    def darker() -> None:
        assert np.mean(page.evaluate(corner)) < np.mean(light)

    retry_until_passes(page, darker)
    background = page.locator(".nbglcnn").evaluate("e => getComputedStyle(e).backgroundColor")
    assert background == "rgb(28, 29, 31)"


def test_the_keyboard_goes_through_layers_channels_and_back(show: Callable[..., ViewsPage]) -> None:
    plan, images, _ = compile_autoencoder()
    views = show(plan, images)
    page = views.page
    keys = page.evaluate_handle(
        "() => { const keys = []; document.addEventListener('keydown', (e) => keys.push(e.key));"
        " return keys; }"
    )
    page.get_by_role("tab", name="Network").focus()
    page.locator(".nbg-picture").first.focus()
    page.keyboard.press("ArrowRight")
    assert views.get("selected") == {"layer": "encoder.2", "channel": None}
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert (views.get("tab"), views.get("selected")["layer"]) == ("layer", "encoder.5")
    expect(page.locator(".nbg-layer")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    assert views.get("selected")["layer"] == "encoder.4"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert views.get("selected") == {"layer": "encoder.4", "channel": 1}
    page.keyboard.press("c")
    assert views.get("colormap") == "viridis"
    page.keyboard.press("]")
    assert views.get("example") == 1
    page.keyboard.press("Escape")
    assert views.get("tab") == "network"
    assert page.evaluate("document.activeElement.className") == "nbglcnn"
    assert keys.json_value() == [], "the host sees none of these keys"
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement === document.body")


def test_the_layer_tab_opens_with_what_the_network_tab_comments(
    show: Callable[..., ViewsPage],
) -> None:
    plan, images, _ = compile_autoencoder()
    views = show(plan, images)
    page = views.page
    expect(page.locator(".nbg-panel")).to_contain_text("encoder.2")
    page.get_by_role("tab", name="Layer").click()
    expect(page.locator(".nbg-layer")).to_have_attribute("data-layer", "encoder.2")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".nbg-layer")).to_have_attribute("data-layer", "encoder.3")


def test_clicks_select_a_layer_a_part_of_a_stage_and_a_channel(
    show: Callable[..., ViewsPage],
) -> None:
    plan, images, _ = compile_autoencoder()
    views = show(plan, images)
    page = views.page
    stage = page.locator(".nbg-stage[data-layer='encoder.5']")
    stage.locator(".nbg-picture").click()
    assert views.get("selected") == {"layer": "encoder.5", "channel": None}
    stage.get_by_role("button", name="BN").click()
    expect(page.locator(".nbg-line canvas[data-maps='encoder.4']")).to_have_count(1)
    expect(page.locator(".nbg-panel")).to_contain_text("BatchNorm2d · 64 channels of 7×7")
    page.mouse.move(0, 0)
    page.locator(".nbg-panel").get_by_role("button", name="Open layer").click()
    page.get_by_role("button", name=re.compile("^channel 12, mean")).click()
    assert views.get("selected") == {"layer": "encoder.4", "channel": 12}
    expect(page.locator(".nbg-inspector h3")).to_contain_text("Channel 12")


def test_states_say_what_happened_and_what_still_works(
    show: Callable[..., ViewsPage], sweep_widths: Callable[..., tuple[int, ...]]
) -> None:
    plan, images, _ = compile_autoencoder()
    views = show(plan, images)
    page = views.page
    said = {
        "receiving(3.1e6, 8.4e6)": "Receiving weights 3.1 of 8.4 MB.",
        "compiling(9, 14, 2.1)": "Preparing the GPU: 9 of 14 shaders 2.1 s so far.",
        "lost(15)": "The graphics context was lost The browser reset the GPU",
        "restarted()": "Python restarted or stopped. The page still works without it.",
        "unsupported('no-webgl2', 'null')": "This browser offers no WebGL 2",
        "unsupported('no-float-textures', 'null')": "WebGL 2 supports neither float32 nor float16",
        "failed('decoder.0 GridSample is not supported', 'Cause.')": "decoder.0 GridSample is not",
    }
    for call, words in said.items():
        page.evaluate(f"() => {{ views.state.status.value = views.says.{call}; }}")
        message = page.locator(".nbg-message")
        assert words in " ".join(message.inner_text().split())
        assert page.evaluate(CLIPPED_ELEMENTS_SCRIPT) == []
        assert layout_faults_by_width(page, sweep_widths(620)) == {}
    page.evaluate("() => { views.state.status.value = views.says.ready(); }")
    expect(page.locator(".nbg-message")).to_have_count(0)


def test_the_status_line_says_only_what_was_measured(
    show: Callable[..., ViewsPage], sweep_widths: Callable[..., tuple[int, ...]]
) -> None:
    plan, images, _ = compile_autoencoder()
    views = show(plan, images)
    status = views.page.locator(".nbg-status")
    expect(status).to_contain_text("Live")
    expect(status).not_to_contain_text("passes")
    expect(status).to_contain_text("float32 · llvmpipe (no GPU: correct but slow)")
    expect(status).not_to_contain_text("match")
    differs = {"decoder.3": 0.02, "decoder.4": 0.01}
    layers = [
        [one.name, differs.get(one.name, 1e-7), one.name not in differs] for one in plan.layers
    ]
    views.set(parity={**PARITY_STATE, "layers": layers})
    count = len(plan.layers)
    expect(status).to_contain_text(f"{count - 2} of {count} layers match PyTorch")
    expect(status).to_contain_text("first difference at decoder.3, max error 0.02")
    memory = views.page.evaluate("views.state.session.value.bytes") / 1e6
    expect(status).to_contain_text(re.compile(rf"{memory:.2g}\d* MB on the GPU"))
    assert layout_faults_by_width(views.page, sweep_widths(620, 848)) == {}
    broken = ".nbg-status { flex-wrap: nowrap; white-space: nowrap }"
    assert_checks_detect(views.page, {broken: "outside of the Viewer"}, width=620)
    views.set(run=None)
    expect(status).not_to_contain_text(" ms")


def test_numbers_that_leave_16_bits_are_named_beside_a_button_for_float32(
    show: Callable[..., ViewsPage], sweep_widths: Callable[..., tuple[int, ...]]
) -> None:
    _, images, _ = compile_autoencoder()
    plan = nbglcnn.compile(load_autoencoder(), images, precision="float16")
    views = show(plan, images)
    status, page = views.page.locator(".nbg-status"), views.page
    views.set(
        parity={**PARITY_STATE, "layers": [["y", 1e9, False]], "float16_overflow": "decoder.0"}
    )
    expect(status).to_contain_text("Values exceed the float16 range, first in decoder.0.")
    expect(status).to_contain_text('Export the page with precision="float32"')  # without Python
    page.evaluate("""() => {
      window.asked = [];
      views.state.setPrecision.value = (precision) => window.asked.push(precision);
    }""")
    expect(status).not_to_contain_text("write it")
    status.get_by_role("button", name="Use float32").click()
    assert page.evaluate("window.asked") == ["float32"]
    assert layout_faults_by_width(page, sweep_widths(620, 848)) == {}
    page.evaluate("""() => {
      const { capabilities } = views.state;
      capabilities.value = { ...capabilities.value, precision: "float16" };
    }""")
    expect(status.get_by_role("button", name="Use float32")).to_have_count(0)
    expect(status).to_contain_text("first in decoder.0")


def test_the_status_line_says_when_the_comparison_was_made_and_what_differs(
    show: Callable[..., ViewsPage],
) -> None:
    plan, images, _ = compile_autoencoder()
    views = show(plan, images)
    status = views.page.locator(".nbg-status")
    note = "example 2 of encoder.0 differs from example 0, which has the same input"
    made = 1_700_000_000_000
    views.set(
        parity={**PARITY_STATE, "layers": [["y", 0, False]], "note": note, "checkedAtMs": made}
    )
    expect(status).to_contain_text(note)
    time = status.locator("time")
    expect(time).to_have_attribute("datetime", "2023-11-14T22:13:20.000Z")
    expect(time).to_have_text(re.compile(r"^at \d\d:\d\d( [AP]M)?$"))
    views.set(uncheckedReason="another input")
    expect(status).to_contain_text("the current values are not compared: another input")
    views.set(parity=None)
    expect(status).to_contain_text("not compared: another input")


def test_the_status_line_says_float16_its_error_and_why(show: Callable[..., ViewsPage]) -> None:
    _, images, _ = compile_autoencoder()
    plan = nbglcnn.compile(load_autoencoder(), images, precision="float16")
    views = show(plan, images)
    status = views.page.locator(".nbg-status")
    expect(status).to_contain_text("float16 · llvmpipe")
    views.set(parity={**PARITY_STATE, "layers": [["y", 0.0012, True]]})
    expect(status).to_contain_text("float16 (largest error 0.0012) · llvmpipe")
    expect(status.get_by_role("button", name="Use float32")).to_have_count(0)
    expect(status).not_to_contain_text("cannot draw")
    views.page.evaluate("""() => {
      const { plan } = views.state;
      plan.value = { ...plan.value, target: { ...plan.value.target, float32_render: false } };
    }""")
    expect(status).to_contain_text("(another page’s device doesn’t support float32)")
    views.page.evaluate("""() => {
      const { capabilities } = views.state;
      capabilities.value = { ...capabilities.value, precision: "float16" };
    }""")
    expect(status).to_contain_text("(this device doesn’t support float32)")


COUNT_LISTENERS_SCRIPT = """() => {
  globalThis.alive = 0;
  for (const [owner, on, off] of [
    [EventTarget, 'addEventListener', 'removeEventListener'],
    [ResizeObserver, 'observe', 'disconnect'],
    [IntersectionObserver, 'observe', 'disconnect'],
    [MutationObserver, 'observe', 'disconnect'],
  ]) {
    const added = new WeakMap();
    const [add, remove] = [owner.prototype[on], owner.prototype[off]];
    owner.prototype[on] = function (...all) {
      // What hangs on the viewer's own elements goes with them.
      const own = this instanceof Node && this !== document && this !== document.body;
      if (this !== undefined && !own) {
        const set = added.get(this) ?? added.set(this, new Set()).get(this);
        const name = on === 'observe' ? on : all[0];
        if (!set.has(name)) { set.add(name); globalThis.alive++; }
      }
      return add.apply(this ?? globalThis, all);
    };
    owner.prototype[off] = function (...all) {
      const set = this === undefined ? undefined : added.get(this);
      const name = on === 'observe' ? on : all[0];
      if (set?.delete(name)) globalThis.alive--;
      return remove.apply(this ?? globalThis, all);
    };
  }
}"""


def test_opening_and_closing_twenty_times_leaves_nothing(show: Callable[..., ViewsPage]) -> None:
    plan, images, _ = compile_autoencoder()
    views = show(plan, images)
    page = views.page
    page.evaluate("() => dispose()")
    page.evaluate(COUNT_LISTENERS_SCRIPT)
    expect(page.locator(".nbglcnn, style, canvas")).to_have_count(0)
    for k in range(20):
        page.evaluate("() => { globalThis.dispose = views.show(); }")
        views.wait_drawn()
        if k % 5 == 0:
            views.open_layer("encoder.2", 3)
            views.set(tab="network")
        assert page.evaluate("alive") > 0, "the count sees nothing"
        page.evaluate("() => dispose()")
        assert page.evaluate("alive") == 0
    expect(page.locator(".nbglcnn, style, canvas")).to_have_count(0)
    page.evaluate("() => { views.calls.drawn.length = 0; }")
    views.set(example=1)
    page.wait_for_timeout(200)
    assert page.evaluate("views.calls.drawn") == []


def test_names_from_a_model_are_only_ever_text(show: Callable[..., ViewsPage]) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.ModuleDict({"<img src=x onerror=alert(1)>": nn.Conv2d(1, 3, 3)})

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return next(iter(self.body.values()))(x).relu()

    x = np.random.default_rng(0).standard_normal((1, 1, 9, 11)).astype(np.float32)
    views = show(nbglcnn.compile(Net().eval(), x), x)
    name = "body.<img src=x onerror=alert(1)>"
    views.open_layer(name)
    expect(views.page.locator(".nbg-big")).to_have_text(name)
    expect(views.page.locator(".nbglcnn img")).to_have_count(0)


def test_nan_and_infinity_are_counted_and_named(show: Callable[..., ViewsPage]) -> None:
    x = np.ones((1, 2, 5, 7), np.float32)
    x[0, 1, 2, 3], x[0, 1, 4, 6], x[0, 0, 0, 0] = np.nan, np.inf, 0
    views = show(nbglcnn.compile(nn.Sequential(nn.LeakyReLU(0.5)).eval(), x), x)
    views.open_layer("0", 1)
    expect(views.page.locator(".nbg-table")).to_contain_text("NaN, Inf")
    row = views.page.locator(".nbg-table .nbg-bad td").all_inner_texts()
    assert row == ["1, 1", "1, 1"]
    large = views.page.locator(".nbg-inspector canvas")
    assert views.hover(large, 3.5 / 7, 2.5 / 5).startswith("NaN")
    assert views.hover(large, 6.5 / 7, 4.5 / 5).startswith("∞")


def test_weights_that_are_not_numbers_are_shown_as_such(show: Callable[..., ViewsPage]) -> None:
    model, images = load_autoencoder(), load_images()[0][:1]
    with torch.no_grad():
        model.state_dict()["encoder.0.weight"][3, 0, 1, 1] = np.nan
        model.state_dict()["encoder.0.weight"][5, 0, 0, 0] = np.inf
        model.state_dict()["encoder.0.bias"][7] = np.nan
    views = show(nbglcnn.compile(model, images), images)
    page = views.page
    expect(page.locator(".nbg-line [data-bars='encoder.6'] .nbg-nan")).to_have_count(16)
    assert "NaN" in views.hover(page.locator(".nbg-line canvas[data-maps='output']"), 0.5, 0.5)
    expect(page.locator(".nbg-line")).not_to_contain_text("NaN to NaN")
    assert page.evaluate(CLIPPED_ELEMENTS_SCRIPT) == []
    views.open_layer("encoder.2", 3)
    assert "NaN" in page.get_by_role("button", name=re.compile("^channel 3, mean")).get_attribute(
        "aria-label"
    )
    cells = page.locator(".nbg-weights > span")
    expect(cells.nth(5)).to_have_text("NaN")
    expect(page.locator(".nbg-weights > .nbg-nan")).to_have_count(1)
    magenta = page.locator("canvas[data-kernels='encoder.0.weight']").evaluate(
        """(canvas) => {
          const {width, height} = canvas;
          const data = canvas.getContext('2d').getImageData(0, 0, width, height).data;
          let count = 0;
          for (let k = 0; k < data.length; k += 4) {
            if (data[k] === 255 && data[k + 1] === 0 && data[k + 2] === 255) count++;
          }
          return count / (width * height);
        }"""
    )
    assert 1 / 32 / 16 / 2 < magenta < 2 / 32 / 16
    page.get_by_role("button", name="Filters").click()
    expect(page.locator(".nbg-filters .nbg-bars .nbg-nan")).to_have_count(1)


def test_the_channels_most_alike_are_ordered_by_cosine(show: Callable[..., ViewsPage]) -> None:
    plan, images, values = compile_autoencoder()
    views = show(plan, images)
    views.set(example=2)
    views.open_layer("encoder.4", 20)
    maps = values["encoder.4"][2].reshape(64, -1).astype(np.float64)
    alike = maps @ maps[20] / np.sqrt((maps**2).sum(1) * (maps[20] ** 2).sum())
    shown = views.page.locator(".nbg-block", has_text="Most similar to channel 20")
    expect(shown.locator(".nbg-tile").first).to_be_visible()
    found = [one.split() for one in shown.locator(".nbg-cell-caption").all_inner_texts()]
    assert len(found) > 3
    others = [k for k in np.argsort(-alike) if k != 20][: len(found)]
    assert [int(channel) for channel, _ in found] == others
    np.testing.assert_allclose(
        [parse_number(text) for _, text in found], alike[others], atol=0.0051
    )
    shown.locator(".nbg-tile").nth(1).click()
    assert views.get("selected") == {"layer": "encoder.4", "channel": int(others[1])}


def test_several_inputs_and_outputs_of_any_shape_are_shown(show: Callable[..., ViewsPage]) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.Conv2d(5, 7, 3), nn.Conv1d(4, 6, 3)

        def forward(self, picture: torch.Tensor, sound: torch.Tensor) -> dict[str, torch.Tensor]:
            maps = self.left(picture).relu()
            return {"maps": maps, "sound": self.right(sound), "size": maps.mean((1, 2, 3))}

    random = np.random.default_rng(0)
    picture = random.standard_normal((1, 5, 12, 9)).astype(np.float32)
    sound = random.standard_normal((1, 4, 40)).astype(np.float32)
    model = Net().eval()
    views = show(nbglcnn.compile(model, (picture, sound)), picture, sound)
    views.set(networkLayout="strip")
    views.wait_drawn()
    page = views.page
    ends = page.locator(".nbg-end")
    expect(ends.first).to_contain_text("picture 5×12×9")
    expect(ends.first).to_contain_text("sound 4×40")
    expect(ends.last).to_contain_text("output['sound'] 6×38")
    with torch.inference_mode():
        size = float(model(torch.from_numpy(picture), torch.from_numpy(sound))["size"])
    shown = page.locator(".nbg-end .nbg-number")
    expect(shown).to_contain_text(re.compile(r"\d"))
    assert parse_number(shown.inner_text()) == pytest.approx(size, abs=5e-3)
    assert page.evaluate(CLIPPED_ELEMENTS_SCRIPT) == []


def test_a_network_of_many_branches_stands_in_rows_by_module(
    show: Callable[..., ViewsPage],
) -> None:
    class Block(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
            self.bn1, self.relu = nn.BatchNorm2d(channels), nn.ReLU()
            self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.relu(x + self.conv2(self.relu(self.bn1(self.conv1(x)))))

    model = nn.Sequential(nn.Conv2d(3, 50, 3, padding=1), *(Block(50) for _ in range(9))).eval()
    x = np.random.default_rng(0).random((1, 3, 20, 20)).astype(np.float32)
    views = show(nbglcnn.compile(model, x), x)
    views.set(networkLayout="strip")
    views.wait_drawn()
    page = views.page
    assert page.locator(".nbg-group h3").all_inner_texts() == [
        "Sequential",
        *(str(k) for k in range(1, 10)),
    ]
    expect(page.locator(".nbg-rows [data-layer='1.conv2']")).to_contain_text("of 50")
    # A layer of the same module is named by its caption there.
    expect(page.locator(".nbg-rows [data-layer='2.relu:1']")).to_contain_text(
        "reads 1.relu:1, conv2"
    )
    assert page.evaluate(CLIPPED_ELEMENTS_SCRIPT) == []
    # Only visible layers are drawn.
    drawn = set(page.evaluate("views.calls.drawn"))
    assert "1.conv2" in drawn and "9.conv2" not in drawn
    page.locator("[data-layer='9.conv2'] canvas").scroll_into_view_if_needed()
    views.wait_drawn()
    assert "9.conv2" in set(page.evaluate("views.calls.drawn"))
    page.set_viewport_size({"width": 420, "height": 900})
    expect(page.locator(".nbg-list")).to_be_visible()
    views.wait_drawn()
    assert page.evaluate(CLIPPED_ELEMENTS_SCRIPT) == []
