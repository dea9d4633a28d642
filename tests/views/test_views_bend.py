"""The Bend section of the Layer tab: its effect on values, and its controls."""

import re
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from playwright.sync_api import Locator, Page, expect
from torch import nn

import nbglcnn
from assertions import assert_equal
from fashion_autoencoder import load_autoencoder
from nbglcnn.features.edits.records import Edit, edits_from_dicts
from nbglcnn.features.edits.reference import apply_edits
from nbglcnn.features.edits.transforms import TRANSFORM_KINDS
from polling import retry_until_passes
from readability import assert_checks_detect, layout_faults_by_width
from trained_autoencoder import compile_autoencoder
from views_page import CLIPPED_ELEMENTS_SCRIPT, ViewsPage, canvas_pixels, parse_number

BENT_LAYER = "decoder.5"
PAUSE_MS = 1200  # longer than the maximum gap between keys of one undo step
READ_VALUE_SCRIPT = """async (key) => {
  const { session } = views.state;
  const values = await session.value.read(key);
  return [session.value.value(key).shape, Array.from(values)];
}"""
UNEDITED_KEY, DIFFERENCE_KEY = (f"{what}\0derived\0" for what in ("without", "difference"))
# Counts frames from now on, and logs the frames at which runs end and the output is drawn.
RECORD_RUNS_SCRIPT = """() => {
  const { state } = views;
  const log = (globalThis.log = { frame: 0, runs: [], draws: [] });
  const tick = () => { log.frame++; if (!log.ended) requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
  state.run.subscribe((run) => log.runs.push([run.sequence, log.frame]));
  const session = state.session.value;
  const { draw } = session;
  session.draw = (jobs) => {
    draw(jobs);
    if (jobs.some(({ key }) => key === 'output')) log.draws.push([session.sequence, log.frame]);
  };
}"""


class BendSection:
    """A page with a layer's bends open."""

    def __init__(self, views: ViewsPage, layer: str = BENT_LAYER) -> None:
        self.views, self.page = views, views.page
        views.set(layerSection="bend")
        views.open_layer(layer)

    def channel_tile(self, channel: int) -> Locator:
        return self.page.locator(f"[data-pick='{channel}']")

    def selected_channels(self) -> list[int]:
        shown = self.page.locator("[data-pick][aria-selected='true']")
        return [int(one.get_attribute("data-pick") or -1) for one in shown.all()]

    def bend_row(self, name: str) -> Locator:
        return self.page.locator(f"[data-bend='{name}']")

    def bend_names(self) -> list[str | None]:
        return [one.get_attribute("data-bend") for one in self.page.locator("[data-bend]").all()]

    def add_transform(self, transform: str) -> None:
        self.page.locator(f"[data-transform='{transform}']").click()

    def type_parameter(self, name: str, parameter: str, text: str) -> Locator:
        field = self.bend_row(name).get_by_role("textbox", name=re.compile(f": {parameter}"))
        field.fill(text)
        field.press("Enter")
        return field

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def edits(self) -> tuple[Edit, ...]:
        return edits_from_dicts(self.views.get("currentEdits")["edits"])

    def read_value(self, key: str) -> np.ndarray:
        shape, values = self.page.evaluate(READ_VALUE_SCRIPT, key)
        return np.array(values, np.float32).reshape(shape)


def decode_remaining_layers(values: np.ndarray) -> np.ndarray:
    """The autoencoder's output for these values of decoder.5."""
    with torch.inference_mode():
        found: np.ndarray = load_autoencoder().decoder[6:](torch.from_numpy(values)).numpy()
    return found


def assert_bent_values(bending: BendSection, values: dict[str, np.ndarray]) -> np.ndarray:
    """Check the layer and the output against NumPy and PyTorch; return the output."""
    bending.views.wait_idle()
    own = [one for one in bending.edits() if one.layer == BENT_LAYER]
    clean = values[BENT_LAYER]
    bent = apply_edits(clean, clean.shape, own, {})
    output = decode_remaining_layers(bent)
    assert_equal(bending.read_value(BENT_LAYER), bent, rtol=2e-5, name=BENT_LAYER)
    assert_equal(bending.read_value("output"), output, rtol=2e-5, name="output")
    assert_equal(bending.read_value(UNEDITED_KEY + "output"), values["decoder.7"], name="A")
    assert_equal(
        bending.read_value(DIFFERENCE_KEY + "output"),
        output - values["decoder.7"],
        rtol=4e-5,
        name="B − A",
    )
    return output


def test_what_is_built_with_pointer_and_keys_is_what_numpy_computes(
    show: Callable[..., ViewsPage],
) -> None:
    plan, images, values = compile_autoencoder()
    bending = BendSection(show(plan, images))
    page = bending.page
    bending.views.wait_idle()
    # Each transform that applies to these channels has a preview on one of them.
    tiles = page.locator("[data-transform]")
    names = [one.get_attribute("data-transform") for one in tiles.all()]
    assert names == [kind.name for kind in TRANSFORM_KINDS.values() if not kind.counts]
    as_it_is = canvas_pixels(page.locator(".nbg-bend-tiles figure canvas"))
    drawn = {
        name: canvas_pixels(page.locator(f"[data-transform='{name}'] canvas")) for name in names
    }
    assert len({one.tobytes() for one in (as_it_is, *drawn.values())}) == len(names) + 1
    assert (drawn["flip_h"] == as_it_is[:, ::-1]).all()
    assert (drawn["flip_v"] == as_it_is[::-1]).all()
    for channel in (5, 10, 12):
        bending.channel_tile(channel).click()
    bending.add_transform("rotate")
    bending.type_parameter("rotate", "degrees", "40")
    bending.button("None").click()
    bending.add_transform("multiply")
    bending.type_parameter("multiply", "factor", "1,6")
    bending.type_parameter("multiply", "mix", "0.5")
    assert bending.edits() == (
        Edit(layer=BENT_LAYER, name="rotate", transform="rotate", parameters=(40,),
             channels=(5, 10, 12)),
        Edit(layer=BENT_LAYER, name="multiply", transform="multiply", parameters=(1.6,), mix=0.5),
    )  # fmt: skip
    output = assert_bent_values(bending, values)
    expect(page.locator(".nbg-bend-comparison figure").last).to_contain_text("±")
    most = parse_number(
        page.locator(".nbg-bend-comparison figcaption").last.inner_text().partition("±")[2]
    )
    changed = np.abs(output - values["decoder.7"])[0].max()  # of the shown example
    assert most == pytest.approx(changed, abs=0.006)
    frame = page.locator(".nbg-bend-mine > .nbg-maps")
    assert frame.evaluate("(one) => getComputedStyle(one).outlineColor") == "rgb(162, 28, 175)"
    # The picture of B is the output in grey, with range 0 to 1.
    shown = canvas_pixels(page.locator(".nbg-bend-mine canvas"))[:, :, 0] / 255
    step = shown.shape[0] // 28
    grey = shown[step // 2 :: step, step // 2 :: step][:28, :28]
    assert np.abs(grey - output[0, 0].clip(0, 1)).max() < 0.01
    # Reorder, toggle, mix, remove, and undo everything.
    bending.add_transform("threshold")
    bending.type_parameter("threshold", "level", "0.3")
    bending.bend_row("threshold").locator(".nbg-grip").press("Alt+ArrowUp")
    assert bending.bend_names() == ["rotate", "threshold", "multiply"]
    expect(bending.bend_row("threshold").locator(".nbg-grip")).to_be_focused()
    assert_bent_values(bending, values)
    bending.bend_row("multiply").get_by_role("checkbox").uncheck()
    assert_bent_values(bending, values)
    bending.button("Remove Rotate").click()
    assert bending.bend_names() == ["threshold", "multiply"]
    assert_bent_values(bending, values)
    for rows in (3, 3, 3):
        page.keyboard.press("Control+z")
        expect(page.locator("[data-bend]")).to_have_count(rows)
    assert bending.bend_names() == ["rotate", "multiply", "threshold"]
    bending.button("Redo").click()
    assert bending.bend_names() == ["rotate", "threshold", "multiply"]
    page.keyboard.press("Control+Shift+z")
    expect(bending.bend_row("multiply").get_by_role("checkbox")).not_to_be_checked()
    assert_bent_values(bending, values)


def test_a_slider_that_is_dragged_shows_each_step_with_no_new_program_or_texture(
    show: Callable[..., ViewsPage],
) -> None:
    plan, images, values = compile_autoencoder()
    bending = BendSection(show(plan, images, width=900))
    page = bending.page
    bending.add_transform("rotate")
    bending.views.wait_idle()
    slider = bending.bend_row("rotate").get_by_role("slider", name="Rotate: degrees")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.62, middle)
    page.mouse.down()
    bending.views.wait_idle()
    before, runs = page.evaluate("() => [views.alive(), views.calls.runs]")
    page.evaluate(RECORD_RUNS_SCRIPT)
    picture = page.locator(".nbg-bend-mine canvas")
    pictures = {canvas_pixels(picture).tobytes()}
    for k in range(1, 9):
        page.mouse.move(box["x"] + box["width"] * (0.62 - 0.04 * k), middle)

        def follows() -> bytes:
            now = canvas_pixels(picture).tobytes()
            assert now not in pictures, "each step is another picture"
            return now

        pictures.add(retry_until_passes(page, follows))
        if k == 4:
            page.wait_for_timeout(PAUSE_MS)
    page.mouse.up()
    page.wait_for_timeout(500)
    page.evaluate("() => { log.ended = true; }")
    bending.views.wait_idle()
    assert page.evaluate("() => views.alive()") == before
    assert page.evaluate("() => views.calls.runs") - runs >= 8
    log = page.evaluate("() => log")
    waits = [
        next((frame for drawn, frame in log["draws"] if drawn >= run), 1000) - ended
        for run, ended in log["runs"]
    ]
    # One frame to request a run and one to draw it, unless the machine is busy.
    assert sorted(waits)[len(waits) // 2] <= 2, waits
    assert max(waits) < 1000, "the last run is drawn too"
    [edit] = bending.edits()
    assert len(bending.views.get("undoStack")) == 2, "a drag is one step"
    turned = apply_edits(values[BENT_LAYER], values[BENT_LAYER].shape, [edit], {})
    assert_equal(bending.read_value("output"), decode_remaining_layers(turned), rtol=2e-5)
    bending.button("Undo").click()
    assert bending.edits()[0].parameters == (45,)
    # Key presses with a pause between them are two undo steps.
    slider.press("ArrowRight")
    page.wait_for_timeout(PAUSE_MS)
    slider.press("ArrowRight")
    assert len(bending.views.get("undoStack")) == 3 and bending.edits()[0].parameters == (47,)


def test_channels_are_picked_by_click_range_rectangle_keys_and_sets(
    show: Callable[..., ViewsPage],
) -> None:
    plan, images, values = compile_autoencoder()
    bending = BendSection(show(plan, images))
    page, tile = bending.page, bending.channel_tile
    grid = page.get_by_role("grid", name="Channels of decoder.5 to bend")
    expect(grid).to_have_attribute("aria-multiselectable", "true")
    tile(3).click()
    tile(7).click(modifiers=["Shift"])
    assert bending.selected_channels() == [3, 4, 5, 6, 7]
    tile(5).click()
    assert bending.selected_channels() == [3, 4, 6, 7]
    expect(page.locator("[data-picked]")).to_have_text("4 selected")
    # Drag a rectangle from one tile to another: starting on a selected tile, it deselects.
    columns = int(page.locator(".nbg-picking").get_attribute("data-columns") or 0)
    drag_to(page, tile(8), tile(8 + columns + 1))
    square = {8, 9, 8 + columns, 9 + columns}
    assert set(bending.selected_channels()) == {3, 4, 6, 7} | square
    drag_to(page, tile(9), tile(9 + columns))
    assert set(bending.selected_channels()) == {3, 4, 6, 7, 8, 8 + columns}
    # Keyboard: a single tab stop, arrows, Space, Shift.
    bending.button("None").click()
    tile(0).click()
    assert page.locator("[data-pick][tabindex='0']").count() == 1
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(tile(1 + columns)).to_be_focused()
    page.keyboard.press(" ")
    page.keyboard.press("Shift+ArrowRight")
    assert bending.selected_channels() == [0, 1 + columns, 2 + columns]
    assert bending.views.get("selected")["layer"] == BENT_LAYER, "arrows stay in the grid"
    # Selection presets.
    bending.button("Invert").click()
    assert len(bending.selected_channels()) == 29
    bending.button("Every 2nd").click()
    assert bending.selected_channels() == list(range(0, 32, 2))
    bending.button("Random").click()
    first = bending.selected_channels()
    bending.button("Random").click()
    assert (
        len(first) == len(bending.selected_channels()) == 16
        and first != bending.selected_channels()
    )
    maps = values[BENT_LAYER][0].reshape(32, -1)
    for option, numbers in (
        ("mean", maps.mean(1)), ("max", maps.max(1)), ("std", maps.std(1)),
    ):  # fmt: skip
        page.get_by_label("By a statistic").select_option(option)
        assert bending.selected_channels() == sorted(
            np.argsort(-numbers, kind="stable")[:8].tolist()
        )
    bending.button("By cluster").click()
    chips = page.get_by_role("group", name="Clusters of similar channels").get_by_role("button")
    expect(chips.first).to_be_visible()
    found = []
    for chip in chips.all():
        chip.click()
        found += bending.selected_channels()
        expect(chip).to_have_attribute("aria-pressed", "true")
    assert sorted(found) == list(range(32)), "each channel is in one cluster"
    # The channel set of a bend.
    bending.button("All").click()
    bending.add_transform("invert")
    assert bending.edits()[0].channels is None
    pill = bending.bend_row("invert").get_by_role("button", name="Channels of Invert: all 32")
    bending.button("None").click()
    pill.click()
    assert len(bending.selected_channels()) == 32
    tile(2).click()
    assert bending.edits()[0].channels == tuple(k for k in range(32) if k != 2)
    bending.button("Done").click()
    assert bending.selected_channels() == [], "those for the next bend are kept apart"


def drag_to(page: Page, start: Locator, end: Locator) -> None:
    """Drag from the centre of one element to the centre of another."""
    places = []
    for one in (start, end):
        box = one.bounding_box()
        assert box is not None
        places.append((box["x"] + box["width"] / 2, box["y"] + box["height"] / 2))
    page.mouse.move(*places[0])
    page.mouse.down()
    page.mouse.move(*places[1], steps=4)
    page.mouse.up()


def drag_row(bending: BendSection, name: str, target_name: str, height_fraction: float) -> None:
    """Drag a row by its handle to `height_fraction` of a row's height below another's centre."""
    page = bending.page
    grip = bending.bend_row(name).locator(".nbg-grip").bounding_box()
    row = bending.bend_row(target_name).bounding_box()
    assert grip is not None and row is not None
    page.mouse.move(grip["x"] + 8, grip["y"] + 8)
    page.mouse.down()
    page.mouse.move(grip["x"] + 8, row["y"] + row["height"] * (0.5 + height_fraction), steps=5)
    expect(page.locator(".nbg-bend-line")).to_be_visible()
    page.mouse.up()


def test_a_number_that_cannot_be_says_why_and_a_row_can_be_dragged(
    show: Callable[..., ViewsPage],
) -> None:
    plan, images, _ = compile_autoencoder()
    bending = BendSection(show(plan, images))
    page = bending.page
    for transform in ("blur", "noise", "flip_h"):
        bending.add_transform(transform)
    blur = bending.bend_row("blur")
    for text, said in (
        ("0", "Enter more than 0."),
        ("40", "Enter at most 16."),
        ("wide", "Enter a number."),
    ):
        field = bending.type_parameter("blur", "sigma", text)
        expect(blur.get_by_role("alert")).to_have_text(f"sigma: {said}")
        expect(field).to_have_attribute("aria-invalid", "true")
    assert bending.edits()[0].parameters == (1,)
    field.press("Escape")
    expect(blur.get_by_role("alert")).to_have_count(0)
    expect(field).to_have_value("1")
    bending.type_parameter("blur", "sigma", "9.5")  # beyond the slider's maximum
    assert bending.edits()[0].parameters == (9.5,)
    expect(blur.get_by_role("slider", name="Blur: sigma")).to_have_value("5")
    field.press("ArrowUp")
    assert bending.edits()[0].parameters == (9.6,)
    field.hover()
    top = page.evaluate("() => scrollY")
    page.mouse.wheel(0, -100)
    page.wait_for_function("() => views.state.currentEdits.value.edits[0].parameters[0] === 9.7")
    assert page.evaluate("() => scrollY") == top, "the page stays where it is"
    bending.type_parameter("noise", "seed", "1.5")
    said = bending.bend_row("noise").get_by_role("alert")
    expect(said).to_have_text("seed: Enter an integer.")
    expect(blur.get_by_role("slider", name="Blur: sigma")).to_have_attribute(
        "aria-valuetext", "9.7 px"
    )
    # Drag by the handle above the first row, and below the last.
    page.evaluate("() => scrollTo(0, 0)")
    drag_row(bending, "noise", "blur", -0.5)
    assert bending.bend_names() == ["noise", "blur", "flip_h"]
    drag_row(bending, "noise", "flip_h", 0.5)
    assert bending.bend_names() == ["blur", "flip_h", "noise"]
    # Three bends, one undo step for the number, and two moves.
    assert len(bending.views.get("undoStack")) == 6


def test_the_lines_of_python_make_the_same_edits(show: Callable[..., ViewsPage]) -> None:
    plan, images, _ = compile_autoencoder()
    bending = BendSection(show(plan, images))
    page = bending.page
    page.evaluate(
        "() => { globalThis.copied = '';"
        " navigator.clipboard.writeText = async (text) => { copied = text; }; }"
    )
    bending.button("Every 2nd").click()
    bending.add_transform("rotate")
    bending.add_transform("rotate")
    bending.type_parameter("rotate-2", "degrees", "−12.5")
    bending.type_parameter("rotate-2", "mix", "0.25")
    page.get_by_label("Presets").select_option("Mirror")  # replaces the existing bends
    bending.add_transform("noise")
    bending.bend_row("noise").get_by_role("checkbox").uncheck()
    bending.views.open_layer("encoder.2")
    bending.channel_tile(9).click()
    bending.add_transform("translate")
    bending.add_transform("clamp")
    bending.type_parameter("clamp", "low", "-1e-7")
    section = page.get_by_role("region", name="As Python")
    section.get_by_role("button", name="Copy").click()
    expect(section.get_by_role("button")).to_have_text("Copied")
    text = page.evaluate("() => copied")
    assert text == section.locator("pre").inner_text()
    with nbglcnn.Session(plan) as viewer:
        exec(text, {"viewer": viewer})
        assert edits_from_dicts(viewer.bends.to_dict()["bends"]) == bending.edits()
    assert len(bending.edits()) == 5
    others = page.locator(".nbg-bend-others")
    expect(others).to_contain_text("decoder.5 flip h")
    others.get_by_role("button").first.click()
    expect(page.locator(".nbg-layer")).to_have_attribute("data-layer", BENT_LAYER)


def test_wherever_one_is_channels_are_muted_and_what_is_bent_is_said(
    show: Callable[..., ViewsPage],
) -> None:
    plan, images, values = compile_autoencoder()
    views = show(plan, images)
    page = views.page
    clean = values["decoder.7"]
    views.open_layer("decoder.5")
    page.get_by_role("button", name="channel 4,").click(modifiers=["Alt"])
    views.set(tab="network")
    views.wait_drawn()
    mosaic = page.locator("[data-layer='decoder.5'] canvas").first
    box = mosaic.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 4, box["y"] + 4)
    page.keyboard.down("Alt")
    page.mouse.click(box["x"] + 4, box["y"] + 4)
    page.keyboard.up("Alt")
    bending = BendSection(views)
    [mute] = bending.edits()
    assert (mute.name, mute.transform) == ("mute", "ablate")
    assert 4 in (mute.channels or ()) and len(mute.channels or ()) == 2
    bent = apply_edits(values[BENT_LAYER], values[BENT_LAYER].shape, [mute], {})
    assert_equal(bending.read_value("output"), decode_remaining_layers(bent), rtol=2e-5)
    bending.channel_tile(4).click(modifiers=["Alt"])
    assert 4 not in (bending.edits()[0].channels or ()), "and once more: no longer"
    # Badges, the pill and the status line.
    views.set(tab="network")
    stage = page.locator(".nbg-stage[data-layer='decoder.5']")
    expect(stage.get_by_role("img", name="bent: ablate")).to_be_visible()
    outline = "(one) => getComputedStyle(one).outlineColor"
    assert stage.locator(".nbg-picture > *").first.evaluate(outline) == "rgb(162, 28, 175)"
    expect(page.locator(".nbg-stage [data-bent]")).to_have_count(1)
    # The same in a graph, with the module closed or open, and in the rows of a narrow view.
    views.set(networkLayout="graph")
    page.get_by_role("button", name="Close all modules").click()
    module = page.locator("[data-node='decoder']")
    expect(module.get_by_role("img", name="bent: decoder.5 ablate")).to_be_visible()
    assert module.locator(".nbg-picture > *").evaluate(outline) == "rgb(162, 28, 175)"
    expect(page.locator("[data-node] [data-bent]")).to_have_count(1)
    page.get_by_role("button", name="Open all modules").click()
    node = page.locator("[data-node][data-layer='decoder.5']")
    expect(node.locator(".nbg-picture > *")).to_be_visible()  # zoomed out, it has no caption
    assert node.locator(".nbg-picture > *").evaluate(outline) == "rgb(162, 28, 175)"
    expect(page.locator("[data-node] [data-bent]")).to_have_count(1)
    views.set(networkLayout="strip")
    page.set_viewport_size({"width": 480, "height": 1000})
    row = page.locator(".nbg-row[data-layer='decoder.5']")
    expect(row.get_by_role("img", name="bent: ablate")).to_be_visible()
    assert row.locator(".nbg-six > *").evaluate(outline) == "rgb(162, 28, 175)"
    expect(page.locator(".nbg-row [data-bent]")).to_have_count(1)
    page.set_viewport_size({"width": 1200, "height": 1000})
    pill = page.get_by_role("button", name="1 bend on decoder.5")
    pill.click()
    expect(page.locator(".nbg-bend")).to_be_visible()
    expect(page.locator(".nbg-rail-item:has([data-bent])")).to_have_count(1)
    # While `a` is held, bends are off everywhere.
    bending.channel_tile(0).focus()
    page.keyboard.down("a")
    page.wait_for_function("() => views.state.areEditsBypassed.value")
    views.wait_idle()
    assert_equal(bending.read_value("output"), clean, rtol=2e-5)
    expect(page.locator(".nbg-bent-word")).to_contain_text("shown without bends")
    page.keyboard.up("a")
    views.wait_idle()
    assert np.abs(bending.read_value("output") - clean).max() > 1e-3
    # `b` opens the bends; one click removes all of them, which can be undone.
    views.set(tab="network", layerSection="maps")
    page.locator(".nbg-picture").first.focus()
    page.keyboard.press("b")
    expect(page.locator(".nbg-bend")).to_be_visible()
    page.get_by_role("button", name="Remove all").click()
    views.wait_idle()
    assert_equal(bending.read_value("output"), clean, rtol=2e-5)
    expect(pill).to_have_count(0)
    page.locator(".nbg-grip, [data-pick='0']").first.focus()
    page.keyboard.press("Control+z")
    expect(pill).to_be_visible()
    page.keyboard.press("?")
    expect(page.locator(".nbg-keys")).to_contain_text("mute or unmute a channel")


def test_a_is_wiped_over_b_and_held_and_the_layer_itself_is_compared(
    show: Callable[..., ViewsPage],
) -> None:
    plan, images, values = compile_autoencoder()
    bending = BendSection(show(plan, images))
    page = bending.page
    bending.channel_tile(13).click()
    bending.add_transform("flip_v")
    bending.button("This layer").click()
    bending.views.wait_idle()
    own = values[BENT_LAYER][0, 13]
    most = parse_number(
        page.locator(".nbg-bend-comparison figcaption").last.inner_text().partition("±")[2]
    )
    assert most == pytest.approx(np.abs(own[::-1] - own).max(), rel=0.01)
    keys = page.locator(".nbg-bend-comparison canvas").evaluate_all(
        "(all) => all.map((c) => c.dataset.maps)"
    )
    assert keys == [UNEDITED_KEY + BENT_LAYER, BENT_LAYER, DIFFERENCE_KEY + BENT_LAYER]
    bending.button("Wipe").click()
    page.get_by_role("slider", name="Share of A").fill("25")
    top = page.locator(".nbg-bend-comparison .nbg-overlay-figure")
    expect(top).to_have_css("clip-path", "inset(0px 75% 0px 0px)")
    bending.button("Hold A").click()
    held = page.locator("[data-held]")
    expect(held).to_have_attribute("data-held", "false")
    bending.channel_tile(13).focus()
    page.keyboard.down("a")
    expect(held).to_have_attribute("data-held", "true")
    page.keyboard.up("a")
    expect(held).to_have_attribute("data-held", "false")


class ClassScores(nn.Module):
    """Scores of ten classes, computed via a vector, and an index that can't be bent."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 300, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1))
        self.head = nn.Linear(300, 10)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.head(self.body(x).flatten(1))
        return scores, scores.argmax(1)


def test_vectors_wide_layers_and_what_cannot_be_bent(
    show: Callable[..., ViewsPage], sweep_widths: Callable[..., tuple[int, ...]]
) -> None:
    torch.manual_seed(0)
    model = ClassScores().eval()
    x = np.random.default_rng(0).standard_normal((1, 3, 9, 9)).astype(np.float32)
    plan = nbglcnn.compile(model, x)
    views = show(plan, x)
    page = views.page
    bending = BendSection(views, "body.1")
    # 300 channels, 256 per page.
    expect(page.locator("[data-pick]")).to_have_count(256)
    page.get_by_role("button", name="Next").click()
    expect(page.locator("[data-pick]")).to_have_count(44)
    bending.channel_tile(299).click()
    bending.add_transform("add")
    views.wait_idle()
    expect(page.locator(".nbg-bend-comparison .nbg-bars")).to_have_count(3)
    assert layout_faults_by_width(page, sweep_widths(620)) == {}
    with torch.inference_mode():
        maps = model.body[:2](torch.from_numpy(x)).numpy()
        bent = apply_edits(maps, maps.shape, bending.edits(), {})
        scores = model.head(model.body[2](torch.from_numpy(bent)).flatten(1)).numpy()
    outputs = [value.key for value in plan.values if value.kind == "output"]
    assert_equal(bending.read_value(outputs[0]), scores, rtol=2e-5)
    views.open_layer("head")
    expect(page.locator("[data-pick]")).to_have_count(10)
    assert layout_faults_by_width(page, sweep_widths(848)) == {}
    bending.channel_tile(3).click()
    bending.add_transform("ablate")
    views.wait_idle()
    assert bending.read_value(outputs[0])[0, 3] == 0
    # Elements and rows of scores are muted like maps, without being selected, opened or explained.
    bending.channel_tile(5).click(modifiers=["Alt"])
    assert bending.edits()[-1].name == "mute" and bending.edits()[-1].channels == (5,)
    assert bending.selected_channels() == [3]
    views.set(layerSection="maps")
    page.get_by_role("button", name="value 6:").click(modifiers=["Alt"])
    assert bending.edits()[-1].channels == (5, 6)
    views.set(tab="network")
    row = page.locator(".nbg-top-row").first
    first = int(row.locator(".nbg-top-name").inner_text())
    row.click(modifiers=["Alt"])
    mute = bending.edits()[-1]
    assert (mute.layer, mute.channels) == (outputs[0], (first,))
    assert views.get("tab") == "network", "the row was asked why"
    views.wait_idle()
    assert (bending.read_value(outputs[0])[0, [3, 5, 6, first]] == 0).all()
    assert page.locator("[data-transform='rotate'] canvas").count() == 0
    index = next(value.key for value in plan.values if value.dtype != "float32")
    views.set(selected={"layer": index, "channel": None}, layerSection="bend", tab="layer")
    refused = page.locator(".nbg-bend-refused")
    expect(refused).to_contain_text("only float32 values can be bent. Choose one of these layers:")
    assert layout_faults_by_width(page, sweep_widths(768)) == {}
    refused.get_by_role("button").first.click()
    expect(page.locator(".nbg-picking")).to_be_visible()


# All transforms for these channels, disabled because each takes time; one with a custom name, one
# of another layer.
MANY_EDITS = [
    Edit(layer=BENT_LAYER, name=kind.name, transform=kind.name, enabled=False,
         parameters=tuple(one.default for one in kind.parameters))
    for kind in TRANSFORM_KINDS.values()
    if not kind.counts
]  # fmt: skip
MANY_EDITS += [
    Edit(layer=BENT_LAYER, name="what_the_reader_calls_it", transform="scale", parameters=(1.25,)),
    Edit(layer="encoder.2", name="dream", transform="blur", parameters=(1.2,), channels=(1, 2, 5)),
]


def test_all_can_be_read_and_reached_at_any_width(
    show: Callable[..., ViewsPage], sweep_widths: Callable[..., tuple[int, ...]]
) -> None:
    plan, images, _ = compile_autoencoder()
    bending = BendSection(show(plan, images))
    views, page = bending.views, bending.page
    views.wait_idle()
    found = {"nothing is bent": layout_faults_by_width(page, sweep_widths(620))}
    bending.button("By cluster").click()
    views.set(currentEdits={"edits": msgspec.to_builtins(MANY_EDITS), "weights": 0})
    views.set(editError="“what_the_reader_calls_it” cannot be: scale has a factor above 0")
    bending.type_parameter("blur", "sigma", "0")
    bending.channel_tile(13).click()
    page.evaluate("() => { document.body.dataset.jpThemeLight = false; }")
    found["all transforms"] = layout_faults_by_width(page, sweep_widths(848, 1120))
    bending.button("This layer").click()
    bending.button("Wipe").click()
    found["this layer, wiped"] = layout_faults_by_width(page, sweep_widths(768))
    assert not any(found.values()), found
    # Check that the measurement covers each part.
    assert_checks_detect(
        page,
        {
            ".nbg-bend-name strong { font-size: 9px }": "letters of 9.0 px",
            ".nbg-bend-name { flex: none !important; width: 40px; overflow: hidden }": "cut off",
            ".nbg-field > input { width: 4px !important; flex: none !important }": "cut off",
            ".nbg-bend-tools .nbg-select { width: 60px !important }": 'cut off: "Presets"',
            ".nbg-bend-numbers { margin-left: -60px }": "over each other",
            ".nbg-bend-sets { margin-top: -40px }": "over each other",
            ".nbg-bend-comparison figcaption { margin-top: -30px }": "over a picture",
            ".nbg-bend-tile + .nbg-bend-tile { margin-left: -50px }": "over each other",
        },
        width=1200,
    )
    for width in (400, 520, 760, 1200):
        page.set_viewport_size({"width": width, "height": 1000})
        views.wait_idle()
        # A long name chosen by the user is truncated; its title shows all of it.
        assert [
            one for one in page.evaluate(CLIPPED_ELEMENTS_SCRIPT) if "what_the_reader" not in one
        ] == []
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        if width >= 520:
            continue
        targets: list[Any] = page.locator(
            ".nbg-bend :is(button, select, input[type=range]), .nbg-bend-tools :is(button, select)"
        ).evaluate_all(
            "(all) => all.filter((one) => !one.closest('.nbg-choice'))"
            ".map((one) => [one.className, one.getBoundingClientRect().height])"
        )
        assert [one for one in targets if one[1] < 40] == []


def test_previews_and_pictures_follow_the_example_and_the_channel(
    show: Callable[..., ViewsPage],
) -> None:
    plan, images, _ = compile_autoencoder()
    bending = BendSection(show(plan, images))
    page = bending.page

    def drawn() -> tuple[np.ndarray, ...]:
        """The unchanged map, the map in a preview, and the output without bends."""
        bending.views.wait_idle()
        flipped = canvas_pixels(page.locator("[data-transform='flip_h'] canvas"))
        plain = canvas_pixels(page.locator(".nbg-bend-tiles figure canvas"))
        np.testing.assert_array_equal(flipped, plain[:, ::-1])
        return plain, canvas_pixels(page.locator(".nbg-bend-mine canvas"))

    first = drawn()
    bending.views.set(example=1)
    second = drawn()
    assert all((one != other).any() for one, other in zip(first, second, strict=True))
    bending.channel_tile(9).click()
    other, output = drawn()
    assert (other != second[0]).any()
    np.testing.assert_array_equal(output, second[1])
    bending.views.set(example=0)
    again, output = drawn()
    assert (again != other).any() and (again != first[0]).any()
    np.testing.assert_array_equal(output, first[1])
