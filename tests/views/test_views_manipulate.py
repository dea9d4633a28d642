"""The drawer's column of manipulations: what it does to the picture, and how it is worked with."""

import re
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Locator, expect
from torch import nn

import nbglcnn
from accessibility import AXE, faults
from equal import assert_equal
from legible import assert_found, still, unreadable
from nbglcnn.features.edits.records import Edit, from_dict
from nbglcnn.features.edits.reference import edited
from nbglcnn.plan.schema import CLIPPED as SLACK
from trained_autoencoder import autoencoder
from views_page import CLIPPED, Views, pixels

WORDS = [
    "Blur", "Sharpen", "Edges", "Threshold", "Invert", "Brightness", "Contrast", "Saturation",
    "Rotate", "Flip left–right", "Flip up–down", "Zoom", "Pixelate", "Noise", "Salt and pepper",
    "Occlude",
]  # fmt: skip
READ = """async ([key, k]) => {
  const { session } = views.state;
  const stage = k === null ? key : `stage ${k}\\u0000derived\\u0000${key}`;
  return Array.from(await session.value.read(stage));
}"""


class Column:
    """A page with the column below the network."""

    def __init__(self, views: Views, key: str, picture: np.ndarray) -> None:
        self.views, self.page, self.key, self.picture = views, views.page, key, picture
        views.page.add_style_tag(content=".nbg-manipulate { padding: 12px 16px }")
        # Pictures out of sight aren't drawn.
        views.page.set_viewport_size({"width": 848, "height": 2000})
        views.page.evaluate("key => views.manipulations(key)", key)
        self.menu = self.page.get_by_label("Add a manipulation")
        expect(self.menu).to_be_visible()

    def words(self) -> list[str]:
        return self.menu.locator("option:not([hidden])").all_inner_texts()

    def add(self, word: str) -> None:
        self.menu.select_option(label=word)

    def row(self, name: str) -> Locator:
        return self.page.locator(f".nbg-manipulation[data-bend='{name}']")

    def rows(self) -> list[str]:
        return self.page.locator(".nbg-manipulate-word strong").all_inner_texts()

    def edits(self) -> tuple[Edit, ...]:
        return from_dict(self.views.get("edited")["edits"])

    def read(self, stage: int | None = None) -> np.ndarray:
        """The input as the network has it, or after so many manipulations."""
        found = self.page.evaluate(READ, [self.key, stage])
        return np.array(found, np.float32).reshape(self.picture.shape)

    def after(self, count: int) -> np.ndarray:
        """The same in numpy."""
        return edited(self.picture, self.picture.shape, self.edits()[:count], {})

    def check(self, rows: Collection[int] | None = None) -> None:
        """The picture after each row, as numbers and as it is drawn, is what numpy makes of it.

        With `rows`, counted from 1, after these and the last.
        """
        self.views.quiet()
        count = len(self.edits())
        for k in range(1, count + 1) if rows is None else sorted({*rows, count}):
            assert_equal(self.read(k), self.after(k), rtol=2e-5, name=f"after row {k}")
        assert_equal(self.read(), self.after(count), rtol=2e-5, name="the input")
        thumbs = self.page.locator(".nbg-manipulation canvas")
        for k, canvas in enumerate(thumbs.all(), 1):
            if rows is not None and k not in rows:
                continue
            shown = self.after(k)[0].transpose(1, 2, 0)
            drawn = pixels(canvas)[:, :, : shown.shape[2]] / 255
            assert np.abs(drawn - dotted(shown)).max() < 0.01, f"thumbnail {k}"

    def thumbnail(self, name: str) -> np.ndarray:
        self.views.quiet()
        return pixels(self.row(name).locator("canvas"))

    def passes(self) -> int:
        return int(self.page.evaluate("async () => (await views.state.session.value.run()).passes"))

    def alive(self) -> Any:
        return self.page.evaluate("() => views.alive()")


def dotted(shown: np.ndarray) -> np.ndarray:
    """A picture of 0…1 as it is drawn: dots on what is clipped, white below 0, black above 1."""
    rows, columns = np.mgrid[: shown.shape[0], : shown.shape[1]] + 0.0
    dots = ((columns + rows / 2) / 4 % 1 < 1 / 8) & (rows / 4 % 1 < 1 / 8)
    drawn = shown.clip(0, 1)
    drawn[dots & (shown < -SLACK).any(-1)] = 1
    drawn[dots & (shown > 1 + SLACK).any(-1)] = 0
    return drawn


@pytest.fixture
def column(show: Callable[..., Views]) -> Column:
    plan, images, _ = autoencoder()
    return Column(show(plan, images), "x", images)


def colours(channels: int) -> tuple[nbglcnn.Plan, np.ndarray]:
    """A network of colour pictures of 24×20 pixels, and one."""
    torch.manual_seed(0)
    picture = torch.rand(1, channels, 24, 20)
    return nbglcnn.compile(nn.Conv2d(channels, 2, 3).eval(), picture), picture.numpy()


def test_each_manipulation_is_that_of_its_word_and_shows_the_picture_after_it(
    show: Callable[..., Views],
) -> None:
    plan, picture = colours(3)
    column = Column(show(plan, picture), plan.inputs[0].key, picture)
    assert column.words() == WORDS
    for word in WORDS:
        column.add(word)
    assert column.rows() == WORDS
    transforms = [edit.transform for edit in column.edits()]
    assert transforms[5] == "multiply" and transforms[11] == "scale"
    assert len(set(transforms)) == len(WORDS)
    # One at a time, since an inverted edge of what is thresholded is nothing.
    for k in range(len(WORDS)):
        edits = [{**one, "enabled": i in (k, 8)} for i, one in enumerate(
            column.views.get("edited")["edits"]
        )]  # fmt: skip
        column.views.set(edited={"edits": edits, "weights": 0})
        column.check(
            {k + 1, 9} if k else None
        )  # rows that are off change nothing, told once of all
    assert np.abs(column.read() - picture).max() > 0.1


@pytest.mark.parametrize(("channels", "offered"), [(1, False), (2, False), (3, True), (4, True)])
def test_saturation_is_offered_for_colour_pictures_only(
    show: Callable[..., Views], channels: int, offered: bool
) -> None:
    plan, picture = colours(channels)
    column = Column(show(plan, picture), plan.inputs[0].key, picture)
    assert column.words() == [word for word in WORDS if offered or word != "Saturation"]
    column.add("Rotate")
    column.views.quiet()
    assert_equal(column.read(), column.after(1), rtol=2e-5)
    # In the Bend part of its layer too.
    column.views.set(section="bend")
    column.views.open_layer(column.key)
    expect(column.page.locator("[data-transform='saturation']")).to_have_count(int(offered))


def test_rows_are_set_switched_moved_and_removed(column: Column) -> None:
    page = column.page
    for word in ("Rotate", "Blur", "Noise", "Occlude"):
        column.add(word)
    column.check()
    assert [edit.parameters for edit in column.edits()] == [
        (15,), (1,), (0.1, 0), (0.5, 0.5, 7, 0),
    ]  # fmt: skip
    field = column.row("rotate").get_by_role("textbox", name="Rotate: degrees, °")
    field.fill("12")
    field.press("Enter")
    slider = column.row("blur").get_by_role("slider", name="Blur: sigma")
    slider.fill("0.6")
    expect(slider).to_have_attribute("aria-valuetext", "0.6 px")
    assert [edit.parameters[0] for edit in column.edits()] == [12, 0.6, 0.1, 0.5]
    column.check()
    # What doesn't stand in the row.
    more = column.row("noise").get_by_role("button", name="More of Noise")
    expect(more).to_have_attribute("aria-expanded", "false")
    more.click()
    seed = column.row("noise").get_by_role("textbox", name="Noise: seed")
    seed.fill("1.5")
    seed.press("Enter")
    expect(column.row("noise").get_by_role("alert")).to_have_text("seed: A whole number is needed.")
    seed.fill("3")
    seed.press("Enter")
    assert column.edits()[2].parameters == (0.1, 3)
    # Order: by dragging, and by keys.
    grip = column.row("occlude").locator(".nbg-grip")
    first, box = column.row("rotate").bounding_box(), grip.bounding_box()
    assert first is not None and box is not None
    page.mouse.move(box["x"] + 8, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(box["x"] + 8, first["y"] + 4, steps=5)
    expect(page.locator(".nbg-manipulate-line")).to_be_visible()
    page.mouse.up()
    assert column.rows() == ["Occlude", "Rotate", "Blur", "Noise"]
    column.check()
    column.row("rotate").locator(".nbg-grip").press("Alt+ArrowDown")
    assert column.rows() == ["Occlude", "Blur", "Rotate", "Noise"]
    expect(column.row("rotate").locator(".nbg-grip")).to_be_focused()
    column.row("occlude").get_by_role("checkbox", name="Occlude").uncheck()
    column.check()
    assert_equal(column.read(1), column.picture, name="after one that is off")
    column.row("rotate").get_by_role("button", name="Remove Rotate").click()
    assert column.rows() == ["Occlude", "Blur", "Noise"]
    expect(column.row("noise").get_by_role("button", name="Remove Noise")).to_be_focused()
    page.keyboard.press("Control+z")
    assert column.rows() == ["Occlude", "Blur", "Rotate", "Noise"]
    column.check()


def test_an_occlusion_patch_follows_the_pointer_over_pictures_of_the_input(column: Column) -> None:
    page = column.page
    column.add("Blur")
    column.add("Occlude")
    steps = len(column.views.get("past"))
    follow = column.row("occlude").get_by_role("button", name="Follow")
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
    column.views.quiet()
    blurred, found = column.after(1), column.read()
    patch = np.zeros((28, 28), bool)
    patch[13 - 3 : 13 + 4, 24 - 3 : 24 + 4] = True
    assert (found[:, :, patch] == 0).all()
    assert_equal(found[:, :, ~patch], blurred[:, :, ~patch], rtol=2e-5)
    column.check()
    assert len(column.views.get("past")) == steps + 1, "a way of the pointer is one step"
    # Over a picture of something else, and when it is off, it stays where it is.
    output = page.locator(".nbg-end canvas").last.bounding_box()
    assert output is not None
    point(2, 2, output)
    assert column.edits()[1].parameters[:2] == (round(24.5 / 28, 6), round(13.5 / 28, 6))
    follow.click()
    point(3, 3, box)
    column.views.quiet()
    assert column.edits()[1].parameters[:2] == (round(24.5 / 28, 6), round(13.5 / 28, 6))
    follow.focus()
    page.keyboard.press("Control+z")
    assert column.edits()[1].parameters == (0.5, 0.5, 7, 0)


def test_nothing_on_is_nothing_spent(column: Column) -> None:
    """And with something on, nothing but its own passes, whether the column is looked at or not."""
    page, views = column.page, column.views
    views.quiet()
    plain, alive = column.passes(), column.alive()
    page.evaluate("() => views.manipulations('')")
    assert column.passes() == plain
    assert column.alive() == alive
    page.evaluate("() => views.manipulations('x')")
    for word in ("Blur", "Rotate", "Pixelate", "Invert"):
        column.add(word)
    views.quiet()
    assert column.passes() == plain + 2 + 1 + 2 + 1
    shown = column.alive()
    page.evaluate("() => views.manipulations('')")
    views.quiet()
    assert column.passes() == plain + 6
    page.wait_for_function("most => views.alive().textures < most", arg=shown["textures"])
    page.evaluate("() => views.manipulations('x')")
    for box in page.locator(".nbg-manipulation").get_by_role("checkbox").all():
        box.uncheck()
    views.quiet()
    assert column.passes() == plain
    column.check()


def test_what_others_did_to_the_input_is_a_row_too(column: Column) -> None:
    views = column.views
    more: dict[str, Any] = {
        "layer": "x", "parameters": [], "channels": None, "mix": 1, "enabled": True, "source": "",
        "names": [], "array": "", "frozen": False,
    }  # fmt: skip
    edits = [
        {**more, "name": "bold", "transform": "dilate", "parameters": [1], "mix": 0.5},
        {**more, "name": "none", "transform": "flip_h", "channels": []},
        {**more, "name": "else", "transform": "invert", "layer": "encoder.0"},
    ]
    views.set(edited={"edits": edits, "weights": 0})
    assert column.rows() == ["Dilate", "Flip left–right"]
    expect(column.row("none")).to_contain_text("none of 1 channels")
    column.row("bold").get_by_role("button", name="More of Dilate").click()
    mix = column.row("bold").get_by_role("textbox", name=re.compile("mix"))
    expect(mix).to_have_value("0.5")
    views.quiet()
    assert_equal(
        column.read(1), edited(column.picture, column.picture.shape, column.edits()[:1], {})
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_column_breaks_no_serious_rule_and_nothing_is_cut_off(
    column: Column, swept_widths: Callable[..., tuple[int, ...]], theme: str
) -> None:
    page, views = column.page, column.views
    page.add_script_tag(path=str(AXE))
    page.evaluate("light => { document.body.dataset.jpThemeLight = light; }", theme == "light")
    for word in ("Sharpen", "Salt and pepper", "Flip left–right", "Occlude", "Invert"):
        column.add(word)
    column.row("invert").get_by_role("checkbox").uncheck()
    column.row("occlude").get_by_role("button", name="Follow").click()
    column.row("sharpen").get_by_role("button", name="More of Sharpen").click()
    for width in (848, 420):
        page.set_viewport_size({"width": width, "height": 1000})
        still(views)
        assert faults(page, theme) == [], width
        cut = [one for one in page.evaluate(CLIPPED) if "manipul" in one]
        assert not cut, (width, cut)
        for place in page.locator(".nbg-manipulate :is(button, input, select)").all():
            box = place.bounding_box()
            assert box is None or box["x"] + box["width"] <= width, "within the page"
    assert unreadable(page, swept_widths(620 if theme == "light" else 1120)) == {}
    if theme == "light":
        assert_found(
            page,
            {
                ".nbg-manipulate .nbg-number-control > label { font-size: 10px }": "letters of 10",
                ".nbg-manipulate .nbg-field { width: 12px !important }": "cut off",
                ".nbg-manipulation + .nbg-manipulation { margin-top: -44px }": "over each other",
            },
        )


def test_the_picture_of_an_input_with_an_alpha_stands_in_front_of_black(
    show: Callable[..., Views],
) -> None:
    x = np.random.default_rng(7).random((1, 4, 12, 16)).astype(np.float32)
    model = nn.Conv2d(4, 3, 3, padding=1).eval()
    column = Column(show(nbglcnn.compile(model, x), x), "input", x)
    column.add("Flip left–right")
    found = column.thumbnail("flip_h") / 255
    flipped = x[0, :, :, ::-1]
    expected = (flipped[:3] * flipped[3]).transpose(1, 2, 0)
    times = found.shape[0] // 12
    expected = expected.repeat(times, 0).repeat(times, 1)
    assert np.abs(found - expected).max() < 0.01
