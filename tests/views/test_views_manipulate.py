"""The drawer's column of manipulations: its effect on the picture, and its controls."""

import re
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Locator, expect
from torch import nn

import nbglcnn
from accessibility import AXE_SCRIPT, accessibility_violations
from assertions import assert_equal
from nbglcnn.features.edits.records import Edit, edits_from_dicts
from nbglcnn.features.edits.reference import apply_edits
from nbglcnn.plan.schema import CLIP_TOLERANCE as SLACK
from readability import assert_checks_detect, layout_faults_by_width, wait_page_drawn
from trained_autoencoder import compile_autoencoder
from views_page import CLIPPED_ELEMENTS_SCRIPT, ViewsPage, canvas_pixels

MENU_LABELS = [
    "Blur", "Sharpen", "Edges", "Threshold", "Invert", "Brightness", "Contrast", "Saturation",
    "Rotate", "Flip left–right", "Flip up–down", "Zoom", "Pixelate", "Noise", "Salt and pepper",
    "Occlude",
]  # fmt: skip
READ_VALUE_SCRIPT = """async ([key, k]) => {
  const { session } = views.state;
  const stage = k === null ? key : `stage ${k}\\u0000derived\\u0000${key}`;
  return Array.from(await session.value.read(stage));
}"""


class ManipulationColumn:
    """A page with the manipulation column below the network."""

    def __init__(self, views: ViewsPage, key: str, picture: np.ndarray) -> None:
        self.views, self.page, self.key, self.picture = views, views.page, key, picture
        views.page.add_style_tag(content=".nbg-manipulate { padding: 12px 16px }")
        # Pictures outside the viewport aren't drawn.
        views.page.set_viewport_size({"width": 848, "height": 2000})
        views.page.evaluate("key => views.manipulations(key)", key)
        self.menu = self.page.get_by_label("Add a manipulation")
        expect(self.menu).to_be_visible()

    def menu_labels(self) -> list[str]:
        return self.menu.locator("option:not([hidden])").all_inner_texts()

    def add_manipulation(self, label: str) -> None:
        self.menu.select_option(label=label)

    def manipulation_row(self, name: str) -> Locator:
        return self.page.locator(f".nbg-manipulation[data-bend='{name}']")

    def row_labels(self) -> list[str]:
        return self.page.locator(".nbg-manipulate-word strong").all_inner_texts()

    def edits(self) -> tuple[Edit, ...]:
        return edits_from_dicts(self.views.get("currentEdits")["edits"])

    def read_stage(self, stage: int | None = None) -> np.ndarray:
        """The input as the network receives it, or after the first `stage` manipulations."""
        found = self.page.evaluate(READ_VALUE_SCRIPT, [self.key, stage])
        return np.array(found, np.float32).reshape(self.picture.shape)

    def numpy_stage(self, count: int) -> np.ndarray:
        """The expected input after the first `count` manipulations, by NumPy."""
        return apply_edits(self.picture, self.picture.shape, self.edits()[:count], {})

    def assert_stages(self, rows: Collection[int] | None = None) -> None:
        """Check the picture after each row, as numbers and as drawn, against NumPy.

        With `rows`, counted from 1, check only after these rows and the last.
        """
        self.views.wait_idle()
        count = len(self.edits())
        for k in range(1, count + 1) if rows is None else sorted({*rows, count}):
            assert_equal(self.read_stage(k), self.numpy_stage(k), rtol=2e-5, name=f"after row {k}")
        assert_equal(self.read_stage(), self.numpy_stage(count), rtol=2e-5, name="the input")
        thumbs = self.page.locator(".nbg-manipulation canvas")
        for k, canvas in enumerate(thumbs.all(), 1):
            if rows is not None and k not in rows:
                continue
            shown = self.numpy_stage(k)[0].transpose(1, 2, 0)
            drawn = canvas_pixels(canvas)[:, :, : shown.shape[2]] / 255
            assert np.abs(drawn - mark_clipped(shown)).max() < 0.01, f"thumbnail {k}"

    def thumbnail(self, name: str) -> np.ndarray:
        self.views.wait_idle()
        return canvas_pixels(self.manipulation_row(name).locator("canvas"))

    def count_passes(self) -> int:
        return int(self.page.evaluate("async () => (await views.state.session.value.run()).passes"))

    def count_live_objects(self) -> Any:
        return self.page.evaluate("() => views.alive()")


def mark_clipped(shown: np.ndarray) -> np.ndarray:
    """A 0…1 picture as drawn: dots mark clipped pixels, white below 0, black above 1."""
    rows, columns = np.mgrid[: shown.shape[0], : shown.shape[1]] + 0.0
    dots = ((columns + rows / 2) / 4 % 1 < 1 / 8) & (rows / 4 % 1 < 1 / 8)
    drawn = shown.clip(0, 1)
    drawn[dots & (shown < -SLACK).any(-1)] = 1
    drawn[dots & (shown > 1 + SLACK).any(-1)] = 0
    return drawn


@pytest.fixture
def manipulations(show: Callable[..., ViewsPage]) -> ManipulationColumn:
    plan, images, _ = compile_autoencoder()
    return ManipulationColumn(show(plan, images), "x", images)


def colour_case(channels: int) -> tuple[nbglcnn.Plan, np.ndarray]:
    """A network for 24×20 pictures with these channels, and one picture."""
    torch.manual_seed(0)
    picture = torch.rand(1, channels, 24, 20)
    return nbglcnn.compile(nn.Conv2d(channels, 2, 3).eval(), picture), picture.numpy()


def test_each_manipulation_is_that_of_its_word_and_shows_the_picture_after_it(
    show: Callable[..., ViewsPage],
) -> None:
    plan, picture = colour_case(3)
    column = ManipulationColumn(show(plan, picture), plan.inputs[0].key, picture)
    assert column.menu_labels() == MENU_LABELS
    for word in MENU_LABELS:
        column.add_manipulation(word)
    assert column.row_labels() == MENU_LABELS
    transforms = [edit.transform for edit in column.edits()]
    assert transforms[5] == "multiply" and transforms[11] == "scale"
    assert len(set(transforms)) == len(MENU_LABELS)
    # One at a time, because the inverted edges of a thresholded picture would be zero.
    for k in range(len(MENU_LABELS)):
        edits = [{**one, "enabled": i in (k, 8)} for i, one in enumerate(
            column.views.get("currentEdits")["edits"]
        )]  # fmt: skip
        column.views.set(currentEdits={"edits": edits, "weights": 0})
        # Disabled rows change nothing; checked once for all.
        column.assert_stages({k + 1, 9} if k else None)
    assert np.abs(column.read_stage() - picture).max() > 0.1


@pytest.mark.parametrize(("channels", "offered"), [(1, False), (2, False), (3, True), (4, True)])
def test_saturation_is_offered_for_colour_pictures_only(
    show: Callable[..., ViewsPage], channels: int, offered: bool
) -> None:
    plan, picture = colour_case(channels)
    column = ManipulationColumn(show(plan, picture), plan.inputs[0].key, picture)
    assert column.menu_labels() == [word for word in MENU_LABELS if offered or word != "Saturation"]
    column.add_manipulation("Rotate")
    column.views.wait_idle()
    assert_equal(column.read_stage(), column.numpy_stage(1), rtol=2e-5)
    # The Bend section of its layer offers it too.
    column.views.set(layerSection="bend")
    column.views.open_layer(column.key)
    expect(column.page.locator("[data-transform='saturation']")).to_have_count(int(offered))


def test_rows_are_set_switched_moved_and_removed(manipulations: ManipulationColumn) -> None:
    page = manipulations.page
    for word in ("Rotate", "Blur", "Noise", "Occlude"):
        manipulations.add_manipulation(word)
    manipulations.assert_stages()
    assert [edit.parameters for edit in manipulations.edits()] == [
        (15,), (1,), (0.1, 0), (0.5, 0.5, 7, 0),
    ]  # fmt: skip
    field = manipulations.manipulation_row("rotate").get_by_role(
        "textbox", name="Rotate: degrees, °"
    )
    field.fill("12")
    field.press("Enter")
    slider = manipulations.manipulation_row("blur").get_by_role("slider", name="Blur: sigma")
    slider.fill("0.6")
    expect(slider).to_have_attribute("aria-valuetext", "0.6 px")
    assert [edit.parameters[0] for edit in manipulations.edits()] == [12, 0.6, 0.1, 0.5]
    manipulations.assert_stages()
    # Parameters that aren't shown in the row.
    more = manipulations.manipulation_row("noise").get_by_role("button", name="More of Noise")
    expect(more).to_have_attribute("aria-expanded", "false")
    more.click()
    seed = manipulations.manipulation_row("noise").get_by_role("textbox", name="Noise: seed")
    seed.fill("1.5")
    seed.press("Enter")
    expect(manipulations.manipulation_row("noise").get_by_role("alert")).to_have_text(
        "seed: Enter an integer."
    )
    seed.fill("3")
    seed.press("Enter")
    assert manipulations.edits()[2].parameters == (0.1, 3)
    # Reorder by dragging and by keyboard.
    grip = manipulations.manipulation_row("occlude").locator(".nbg-grip")
    first, box = manipulations.manipulation_row("rotate").bounding_box(), grip.bounding_box()
    assert first is not None and box is not None
    page.mouse.move(box["x"] + 8, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + 8, first["y"] + 4, steps=5)
    expect(page.locator(".nbg-manipulate-line")).to_be_visible()
    page.mouse.up()
    assert manipulations.row_labels() == ["Occlude", "Rotate", "Blur", "Noise"]
    manipulations.assert_stages()
    manipulations.manipulation_row("rotate").locator(".nbg-grip").press("Alt+ArrowDown")
    assert manipulations.row_labels() == ["Occlude", "Blur", "Rotate", "Noise"]
    expect(manipulations.manipulation_row("rotate").locator(".nbg-grip")).to_be_focused()
    manipulations.manipulation_row("occlude").get_by_role("checkbox", name="Occlude").uncheck()
    manipulations.assert_stages()
    assert_equal(manipulations.read_stage(1), manipulations.picture, name="after one that is off")
    manipulations.manipulation_row("rotate").get_by_role("button", name="Remove Rotate").click()
    assert manipulations.row_labels() == ["Occlude", "Blur", "Noise"]
    expect(
        manipulations.manipulation_row("noise").get_by_role("button", name="Remove Noise")
    ).to_be_focused()
    page.keyboard.press("Control+z")
    assert manipulations.row_labels() == ["Occlude", "Blur", "Rotate", "Noise"]
    manipulations.assert_stages()


def test_an_occlusion_patch_follows_the_pointer_over_pictures_of_the_input(
    manipulations: ManipulationColumn,
) -> None:
    page = manipulations.page
    manipulations.add_manipulation("Blur")
    manipulations.add_manipulation("Occlude")
    steps = len(manipulations.views.get("undoStack"))
    follow = manipulations.manipulation_row("occlude").get_by_role("button", name="Follow")
    follow.click()
    expect(follow).to_have_attribute("aria-pressed", "true")
    picture = page.locator(".nbg-end canvas[data-maps='x']")
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    assert box is not None

    def point(row: int, column: int, within: dict[str, float]) -> None:
        page.mouse.move(
            within["x"] + (column + 0.5) / 28 * within["width"],
            within["y"] + (row + 0.5) / 28 * within["height"],
        )

    for at in ((3, 5), (20, 8), (13, 24)):
        point(*at, box)
    manipulations.views.wait_idle()
    blurred, found = manipulations.numpy_stage(1), manipulations.read_stage()
    patch = np.zeros((28, 28), bool)
    patch[13 - 3 : 13 + 4, 24 - 3 : 24 + 4] = True
    assert (found[:, :, patch] == 0).all()
    assert_equal(found[:, :, ~patch], blurred[:, :, ~patch], rtol=2e-5)
    manipulations.assert_stages()
    assert len(manipulations.views.get("undoStack")) == steps + 1, (
        "a way of the pointer is one step"
    )
    # Over another picture, or with Follow off, the patch stays in place.
    output = page.locator(".nbg-end canvas").last.bounding_box()
    assert output is not None
    point(2, 2, output)
    assert manipulations.edits()[1].parameters[:2] == (round(24.5 / 28, 6), round(13.5 / 28, 6))
    follow.click()
    point(3, 3, box)
    manipulations.views.wait_idle()
    assert manipulations.edits()[1].parameters[:2] == (round(24.5 / 28, 6), round(13.5 / 28, 6))
    follow.focus()
    page.keyboard.press("Control+z")
    assert manipulations.edits()[1].parameters == (0.5, 0.5, 7, 0)


def test_nothing_on_is_nothing_spent(manipulations: ManipulationColumn) -> None:
    """No manipulation costs nothing; an enabled one costs its own passes, visible or not."""
    page, views = manipulations.page, manipulations.views
    views.wait_idle()
    plain, alive = manipulations.count_passes(), manipulations.count_live_objects()
    page.evaluate("() => views.manipulations('')")
    assert manipulations.count_passes() == plain
    assert manipulations.count_live_objects() == alive
    page.evaluate("() => views.manipulations('x')")
    for word in ("Blur", "Rotate", "Pixelate", "Invert"):
        manipulations.add_manipulation(word)
    views.wait_idle()
    assert manipulations.count_passes() == plain + 2 + 1 + 2 + 1
    shown = manipulations.count_live_objects()
    page.evaluate("() => views.manipulations('')")
    views.wait_idle()
    assert manipulations.count_passes() == plain + 6
    page.wait_for_function("most => views.alive().textures < most", arg=shown["textures"])
    page.evaluate("() => views.manipulations('x')")
    for box in page.locator(".nbg-manipulation").get_by_role("checkbox").all():
        box.uncheck()
    views.wait_idle()
    assert manipulations.count_passes() == plain
    manipulations.assert_stages()


def test_what_others_did_to_the_input_is_a_row_too(manipulations: ManipulationColumn) -> None:
    views = manipulations.views
    more: dict[str, Any] = {
        "layer": "x", "parameters": [], "channels": None, "mix": 1, "enabled": True, "source": "",
        "parameter_names": [], "array_hash": "", "is_frozen": False,
    }  # fmt: skip
    edits = [
        {**more, "name": "bold", "transform": "dilate", "parameters": [1], "mix": 0.5},
        {**more, "name": "none", "transform": "flip_h", "channels": []},
        {**more, "name": "else", "transform": "invert", "layer": "encoder.0"},
    ]
    views.set(currentEdits={"edits": edits, "weights": 0})
    assert manipulations.row_labels() == ["Dilate", "Flip left–right"]
    expect(manipulations.manipulation_row("none")).to_contain_text("none of 1 channels")
    manipulations.manipulation_row("bold").get_by_role("button", name="More of Dilate").click()
    mix = manipulations.manipulation_row("bold").get_by_role("textbox", name=re.compile("mix"))
    expect(mix).to_have_value("0.5")
    views.wait_idle()
    assert_equal(
        manipulations.read_stage(1),
        apply_edits(
            manipulations.picture, manipulations.picture.shape, manipulations.edits()[:1], {}
        ),
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_column_breaks_no_serious_rule_and_nothing_is_cut_off(
    manipulations: ManipulationColumn, sweep_widths: Callable[..., tuple[int, ...]], theme: str
) -> None:
    page, views = manipulations.page, manipulations.views
    page.add_script_tag(path=str(AXE_SCRIPT))
    page.evaluate("light => { document.body.dataset.jpThemeLight = light; }", theme == "light")
    for word in ("Sharpen", "Salt and pepper", "Flip left–right", "Occlude", "Invert"):
        manipulations.add_manipulation(word)
    manipulations.manipulation_row("invert").get_by_role("checkbox").uncheck()
    manipulations.manipulation_row("occlude").get_by_role("button", name="Follow").click()
    manipulations.manipulation_row("sharpen").get_by_role("button", name="More of Sharpen").click()
    for width in (848, 420):
        page.set_viewport_size({"width": width, "height": 1000})
        wait_page_drawn(views)
        assert accessibility_violations(page, theme) == [], width
        cut = [one for one in page.evaluate(CLIPPED_ELEMENTS_SCRIPT) if "manipul" in one]
        assert not cut, (width, cut)
        for place in page.locator(".nbg-manipulate :is(button, input, select)").all():
            box = place.bounding_box()
            assert box is None or box["x"] + box["width"] <= width, "within the page"
    assert layout_faults_by_width(page, sweep_widths(620 if theme == "light" else 1120)) == {}
    if theme == "light":
        assert_checks_detect(
            page,
            {
                ".nbg-manipulate .nbg-number-control > label { font-size: 10px }": "letters of 10",
                ".nbg-manipulate .nbg-field { width: 12px !important }": "cut off",
                ".nbg-manipulation + .nbg-manipulation { margin-top: -44px }": "over each other",
            },
        )


def test_the_picture_of_an_input_with_an_alpha_stands_in_front_of_black(
    show: Callable[..., ViewsPage],
) -> None:
    x = np.random.default_rng(7).random((1, 4, 12, 16)).astype(np.float32)
    model = nn.Conv2d(4, 3, 3, padding=1).eval()
    column = ManipulationColumn(show(nbglcnn.compile(model, x), x), "input", x)
    column.add_manipulation("Flip left–right")
    found = column.thumbnail("flip_h") / 255
    flipped = x[0, :, :, ::-1]
    expected = (flipped[:3] * flipped[3]).transpose(1, 2, 0)
    times = found.shape[0] // 12
    expected = expected.repeat(times, 0).repeat(times, 1)
    assert np.abs(found - expected).max() < 0.01
