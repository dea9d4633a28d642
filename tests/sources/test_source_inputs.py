"""Datasets, drawings, noise, videos, pictures as the input: it equals their content."""

import base64
import io
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from playwright.sync_api import expect
from torch import nn

import nbglcnn
from browsers import RECORD_CANVAS_SCRIPT
from fake_camera import last_frame
from nbglcnn import Plan
from nbglcnn.features.edits.transforms import TRANSFORM_KINDS
from polling import retry_until_passes
from source_references import average_drawing_cells, decode_data_url, fit_with_pillow
from sources_page import DROP_OR_PASTE_SCRIPT, SourcesPage
from views_page import ViewsPage

ShowViews = Callable[..., ViewsPage]
READ_CANVAS_SCRIPT = """() => {
  const canvas = views.state.sourceControls.value.canvas;
  return [canvas.width, canvas.height, canvas.toDataURL()];
}"""


@cache
def classifier() -> tuple[Plan, nn.Module]:
    """A classifier of 6×5 pictures with four classes."""
    torch.manual_seed(8)
    model = nn.Sequential(nn.Flatten(), nn.Linear(30, 4)).eval()
    return nbglcnn.compile(model, torch.zeros(1, 1, 6, 5)), model


def open_sources_page(show: ShowViews, **more: Any) -> SourcesPage:
    plan, _ = classifier()
    return SourcesPage(show(plan, np.zeros((1, 1, 6, 5), np.float32), **more), plan)


def random_items(count: int, dtype: type = np.uint8) -> np.ndarray:
    rng = np.random.default_rng(count)
    if dtype is np.uint8:
        return rng.integers(0, 256, (count, 1, 6, 5), np.uint8)
    return rng.standard_normal((count, 1, 6, 5)).astype(np.float32)


def item_tensor(item: np.ndarray) -> np.ndarray:
    return item[None] if item.dtype == np.float32 else item[None].astype(np.float32) / 255


def requested_blobs(source_views: SourcesPage) -> list[str]:
    return list(source_views.page.evaluate("() => views.fed.asked"))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_an_item_goes_in_to_the_bit_and_only_its_block_is_asked_for(
    show: ShowViews, dtype: type
) -> None:
    sourced = open_sources_page(show)
    images = random_items(1000, dtype)
    sourced.set_source("images", index=437, **sourced.add_dataset(images, 100))
    sourced.wait_input_count(1)
    np.testing.assert_array_equal(sourced.last_input, item_tensor(images[437]))
    assert requested_blobs(sourced) == ["set.4"]
    sourced.set_source("images", index=999, **sourced.add_dataset(images, 100))
    sourced.wait_input_count(2)
    np.testing.assert_array_equal(sourced.last_input, item_tensor(images[999]))
    # The block of the next item is prefetched: the dataset wraps around.
    sourced.page.wait_for_function("() => views.fed.asked.length === 3")
    assert requested_blobs(sourced) == ["set.4", "set.9", "set.0"]
    sourced.page.wait_for_function("() => views.fed.told.length === 2")  # at most ten a second
    assert sourced.page.evaluate("() => views.fed.told") == [True, True]


def test_thumbnails_ask_for_their_own_blocks_and_choose_items(show: ShowViews) -> None:
    sourced = open_sources_page(show)
    page = sourced.page
    images = random_items(1000)
    labels = [k % 4 for k in range(1000)]
    fields = sourced.add_dataset(images, 100, labels, ["ant", "bee", "cat", "dog"])
    sourced.set_source("images", index=437, title="Zoo", **fields)
    sourced.open_drawer()
    expect(page.locator(".nbg-chosen-source")).to_contain_text("Zoo 437")
    expect(page.locator(".nbg-thumb canvas[data-item=here]")).to_have_count(40)
    assert set(requested_blobs(sourced)) == {"set.4", "set.labels", "set.classes"}
    thumb = page.get_by_role("option", name="item 439, dog (3)")
    drawn = np.array(
        Image.open(
            io.BytesIO(
                base64.b64decode(
                    thumb.locator("canvas").evaluate("c => c.toDataURL()").partition(",")[2]
                )
            )
        )
    )
    np.testing.assert_array_equal(drawn[:, :, 0], images[439, 0])
    thumb.click()
    page.wait_for_function("() => views.state.source.value.index === 439")
    expect(page.locator(".nbg-data")).to_contain_text("label dog (3)")
    # The list is one Tab stop, and the arrow keys move in it.
    page.get_by_role("listbox", name="Items").focus()
    for key in ("ArrowRight", "ArrowDown", "Home", "End"):
        page.keyboard.press(key)
    page.wait_for_function("() => views.state.source.value.index === 999")
    page.wait_for_function("() => views.state.inputOverride.value.index === 999")
    np.testing.assert_array_equal(sourced.last_input, item_tensor(images[999]))
    # Only the items of one label.
    page.get_by_label("Items with this label").select_option(label="bee (1)")
    names = page.locator(".nbg-thumb").evaluate_all("all => all.map((one) => one.ariaLabel)")
    assert names and all("bee" in name for name in names)


def test_a_number_that_is_typed_stays_while_the_set_plays(show: ShowViews) -> None:
    sourced = open_sources_page(show)
    page = sourced.page
    sourced.set_source("images", rate=5.0, **sourced.add_dataset(random_items(100), 100))
    sourced.open_drawer()
    rate = page.get_by_role("spinbutton", name="Items/s")
    expect(rate).to_have_value("5")

    def play(index: int) -> None:
        step = (
            "i => { const { source } = views.state; source.value = { ...source.value, index: i }; }"
        )
        page.evaluate(step, index)
        expect(page.get_by_role("spinbutton", name="Item", exact=True)).to_have_value(str(index))

    rate.press("ControlOrMeta+a")
    rate.press("Backspace")
    play(1)
    expect(rate).to_have_value("")
    expect(rate).to_have_attribute("aria-invalid", "true")
    rate.press("1")
    play(2)
    rate.press("2")
    play(3)
    expect(rate).to_have_value("12")
    assert sourced.source["rate"] == 12
    rate.press("0")
    rate.press("Tab")
    play(4)
    expect(rate).to_have_value("120")
    assert sourced.source["rate"] == 12, "60 at most"
    rate.press("ArrowUp")
    expect(rate).to_have_value("12.5")
    expect(rate).to_have_attribute("aria-invalid", "false")


def test_a_large_set_keeps_a_window_of_its_blocks(show: ShowViews) -> None:
    """A dataset of 200 MB: the page keeps less than 60 of them."""
    plan = nbglcnn.compile(nn.Identity(), torch.zeros(1, 3, 256, 256))
    sourced = SourcesPage(show(plan, np.zeros((1, 3, 256, 256), np.float32)), plan)
    page = sourced.page
    page.evaluate(
        """() => {
          const feeder = views.state.feeder.value;
          globalThis.made = new Set();
          globalThis.alive = [];
          feeder.blob = async (name) => {
            made.add(name);
            const bytes = new Uint8Array(5 * 3 * 256 * 256).fill(Number(name.split('.')[1]));
            alive.push(new WeakRef(bytes.buffer));
            return bytes;
          };
        }"""
    )
    fields = {"data": "set", "count": 1000, "block_size": 5, "dtype": "uint8"}
    for k in range(0, 1000, 15):
        sourced.set_source("images", index=k, **fields)
        page.wait_for_function("k => views.state.inputOverride.value?.index === k", arg=k)
    assert sourced.last_input[0, 0, 0, 0] == np.float32(198 / 255)
    assert page.evaluate("() => made.size") >= 66
    page.request_gc()
    kept = page.evaluate(
        "() => alive.reduce((sum, one) => sum + (one.deref()?.byteLength ?? 0), 0)"
    )
    assert kept <= 60e6


def test_a_set_plays_at_its_rate_in_its_order_or_shuffled(show: ShowViews) -> None:
    sourced = open_sources_page(show)
    page = sourced.page
    images = random_items(30)
    fields = sourced.add_dataset(images, 10)
    page.evaluate(
        """() => {
          globalThis.seen = [];
          const { inputOverride } = views.state;
          inputOverride.subscribe((one) => one && seen.push([one.index, performance.now()]));
        }"""
    )
    sourced.set_source("images", playing=True, rate=20, **fields)
    sourced.wait_input_count(21)
    seen = page.evaluate("() => seen")
    order = [index for index, _ in seen]
    start = order[0]
    assert order == [(start + k) % 30 for k in range(len(order))]
    # The median, since the machine may stall in between.
    rests = np.diff([at for _, at in seen])
    assert 45 <= np.median(rests) <= 80, "20 items a second"
    sourced.set_source("images", shuffled=True, seed=5, rate=100, playing=True, **fields)
    page.evaluate("() => { seen.length = 0; }")
    page.wait_for_function("() => seen.length >= 62")
    order = [index for index, _ in page.evaluate("() => seen")][1:61]
    assert sorted(order[:30]) == list(range(30)) and order[:30] == order[30:]
    assert order[:30] != list(range(30))
    # Backwards in the same order.
    sourced.set_source("images", shuffled=True, seed=5, index=order[9], **fields)
    page.wait_for_function("k => views.state.inputOverride.value.index === k", arg=order[9])
    page.locator(".nbglcnn").focus()
    page.keyboard.press("[")
    assert sourced.source["index"] == order[8]
    page.keyboard.press(".")
    assert sourced.source["index"] == order[9]


def test_the_next_wrong_prediction_is_found_or_said_not_to_be(show: ShowViews) -> None:
    sourced = open_sources_page(show)
    page = sourced.page
    _, model = classifier()
    images = random_items(60)
    with torch.inference_mode():
        said = model(torch.from_numpy(images.astype(np.float32) / 255)).argmax(1).tolist()
    labels = list(said)
    wrong = 41
    labels[wrong] = (said[wrong] + 1) % 4
    labels[17] = -1  # without a label
    sourced.set_source("images", index=5, **sourced.add_dataset(images, 25, labels, list("abcd")))
    sourced.open_drawer()
    page.get_by_role("button", name="Next wrong prediction").click()
    page.wait_for_function("k => views.state.source.value.index === k", arg=wrong)
    name, label = "abcd"[said[wrong]], "abcd"[labels[wrong]]
    words = f"Item 41: predicted {name} ({said[wrong]}), labelled {label}"
    expect(page.locator(".nbg-data")).to_contain_text(words)
    np.testing.assert_array_equal(sourced.last_input, item_tensor(images[wrong]))
    right = labels.copy()
    right[wrong] = said[wrong]
    sourced.page.evaluate("() => { views.state.source.value = null; }")
    sourced.set_source("images", index=5, **sourced.add_dataset(images, 25, right, list("abcd")))
    page.get_by_role("button", name="Next wrong prediction").click()
    expect(page.locator(".nbg-data")).to_contain_text(
        "All 59 labelled items are predicted correctly."
    )


def test_a_part_that_does_not_come_is_said_and_other_items_go_in(show: ShowViews) -> None:
    sourced = open_sources_page(show)
    images = random_items(40)
    fields = sourced.add_dataset(images, 10)
    sourced.page.evaluate("() => views.fed.blobs.delete('set.2')")
    sourced.set_source("images", index=25, **fields)
    sourced.wait_phase("failed")
    sourced.open_drawer()
    alert = sourced.page.locator(".nbg-drawer [role=alert]")
    expect(alert).to_contain_text("Part of the data set has not loaded")
    sourced.set_source("images", index=3, **fields)
    sourced.wait_phase("still")
    np.testing.assert_array_equal(sourced.last_input, item_tensor(images[3]))


def test_noise_is_pythons_to_the_bit(show: ShowViews) -> None:
    sourced = open_sources_page(show)
    formula = TRANSFORM_KINDS["noise"].formula
    for count, (seed, mean, std) in enumerate([(0, 0.5, 0.25), (2**31, -3.3, 1.7)]):
        sourced.set_source("noise", seed=seed, mean=mean, std=std)
        sourced.wait_input_count(count + 1)
        expected = (mean + std * formula(np.zeros((1, 1, 6, 5)), 1.0, seed)).astype(np.float32)
        np.testing.assert_array_equal(sourced.last_input, expected)
    sourced.open_drawer()
    sourced.page.get_by_role("button", name="Another seed").click()
    assert sourced.source["seed"] == 1


@pytest.mark.parametrize("channels", [1, 3])
def test_a_drawing_is_the_mean_of_each_square_of_its_canvas(show: ShowViews, channels: int) -> None:
    plan = nbglcnn.compile(nn.Identity(), torch.zeros(1, channels, 28, 28))
    sourced = SourcesPage(show(plan, np.zeros((1, channels, 28, 28), np.float32)), plan)
    page = sourced.page
    sourced.open_drawer()
    page.locator("[data-kind=drawing]").click()
    canvas = page.locator(".nbg-paper canvas")
    box = canvas.bounding_box()
    assert box is not None
    assert sourced.input_count == 0, "until the first stroke the input stays"
    x, y = box["x"], box["y"]
    for to in ((60, 180), (180, 60)):
        page.mouse.move(x + 60, y + 60)
        page.mouse.down()
        page.mouse.move(x + to[0], y + to[1], steps=4)
        page.mouse.up()
    sourced.wait_phase("still")
    page.wait_for_function("() => views.fed.told.at(-1) === true")
    assert sourced.source["owner"] == "here"

    def expected() -> np.ndarray:
        width, height, url = page.evaluate(READ_CANVAS_SCRIPT)
        assert (width, height) == (280, 280)
        return average_drawing_cells(decode_data_url(url), sourced.input_key.shape)

    def check() -> np.ndarray:
        found = sourced.last_input[0]
        np.testing.assert_allclose(found, expected(), atol=1e-6)
        return found

    drawn = retry_until_passes(page, check)  # the first stroke rests too, before the second goes in
    inside, outside = drawn[0, 10, 6], drawn[0, 25, 25]
    assert (inside > 0.9 and outside == 0) if channels == 1 else (inside < 0.2 and outside == 1)
    count = sourced.input_count
    page.get_by_role("button", name="Undo").click()
    sourced.wait_input_count(count + 1)
    undone = sourced.last_input[0]
    np.testing.assert_allclose(undone, expected(), atol=1e-6)
    assert np.abs(undone - drawn).max() > 0.5 and np.ptp(undone) > 0.5
    page.get_by_role("button", name="Clear").click()
    sourced.wait_input_count(count + 2)
    assert np.ptp(sourced.last_input) == 0
    page.get_by_role("button", name="Undo").click()  # undoes clearing, too
    sourced.wait_input_count(count + 3)
    np.testing.assert_array_equal(sourced.last_input[0], undone)


def test_a_pens_pressure_makes_its_stroke_wider_and_the_eraser_takes_it_away(
    show: ShowViews,
) -> None:
    plan = nbglcnn.compile(nn.Identity(), torch.zeros(1, 1, 28, 28))
    sourced = SourcesPage(show(plan, np.zeros((1, 1, 28, 28), np.float32)), plan)
    page = sourced.page
    sourced.open_drawer()
    page.locator("[data-kind=drawing]").click()
    stroke = """([y, pressure]) => {
      const canvas = views.state.sourceControls.value.canvas;
      const box = canvas.getBoundingClientRect();
      canvas.setPointerCapture = () => undefined;
      const send = (type, x) => canvas.dispatchEvent(new PointerEvent(type, {
        pointerId: 7, pointerType: 'pen', pressure, button: 0, bubbles: true,
        clientX: box.left + x * box.width, clientY: box.top + y * box.height,
      }));
      send('pointerdown', 0.2); send('pointermove', 0.8); send('pointerup', 0.8);
    }"""
    page.evaluate(stroke, [0.25, 0.3])
    page.evaluate(stroke, [0.75, 1.0])
    sourced.wait_phase("still")

    def more_pressure() -> None:
        light, heavy = sourced.last_input[0, 0, :14].sum(), sourced.last_input[0, 0, 14:].sum()
        assert 1.3 * light < heavy

    retry_until_passes(page, more_pressure)
    page.get_by_role("button", name="Erase").click()
    page.get_by_label("Brush, px").fill("64")
    page.evaluate(stroke, [0.5, 0.5])
    page.wait_for_function("() => !views.fed.told.slice(-1)[0] === false")

    def erased() -> None:
        assert sourced.last_input.max() == 0

    retry_until_passes(page, erased)


def encode_picture(height: int, width: int, has_exif_rotation: bool = False) -> bytes:
    """A smooth picture as a file; if `has_exif_rotation`, a JPEG with an EXIF quarter turn."""
    y, x = np.mgrid[:height, :width]
    picture = Image.fromarray(
        np.stack([255 * x / width, 255 * y / height, 128 + 0 * x], 2).astype(np.uint8)
    )
    out = io.BytesIO()
    if has_exif_rotation:
        exif = Image.Exif()
        exif[274] = 6
        picture.save(out, "JPEG", exif=exif, quality=100, subsampling=0)
    else:
        picture.save(out, "PNG")
    return out.getvalue()


def drop_or_paste_file(
    source_views: SourcesPage, gesture: str, content: bytes, name: str, mime: str
) -> None:
    source_views.page.evaluate(
        DROP_OR_PASTE_SCRIPT, [gesture, base64.b64encode(content).decode(), name, mime]
    )


@pytest.mark.parametrize("how", ["drop", "paste", "choose"])
def test_a_file_that_is_given_goes_in_as_it_is_shown(show: ShowViews, how: str) -> None:
    sourced = open_sources_page(show)
    sourced.open_drawer()
    content, name = encode_picture(40, 60, has_exif_rotation=True), "turned.jpg"
    if how == "choose":
        files = {"name": name, "mimeType": "image/jpeg", "buffer": content}
        sourced.page.locator(".nbg-drop input[type=file]").set_input_files(files)
    else:
        drop_or_paste_file(sourced, how, content, name, "image/jpeg")
    sourced.wait_input_count(1)
    source = sourced.source
    assert (source["kind"], source["owner"], source["title"]) == ("picture", "here", name)
    upright = Image.open(io.BytesIO(content)).convert("RGB").rotate(-90, expand=True)
    expected = fit_with_pillow(upright, sourced.input_key.shape, mirrored=False)
    assert np.abs(sourced.last_input[0, 0] - expected).max() <= 2.01 / 255  # JPEG's rounding
    figure = sourced.page.locator(".nbg-source-figure")
    expect(figure).to_contain_text("turned.jpg, 40×60")


def test_damaged_files_addresses_and_what_the_browser_cannot_show_are_said(show: ShowViews) -> None:
    sourced = open_sources_page(show)
    page = sourced.page
    sourced.open_drawer()
    alert = page.locator(".nbg-drawer [role=alert]")
    drop_or_paste_file(sourced, "drop", encode_picture(9, 9)[:60], "cut.png", "image/png")
    expect(alert).to_contain_text("This browser can’t show the picture")
    drop_or_paste_file(sourced, "drop", b"", "", "")
    expect(alert.first).to_contain_text("URLs are not loaded")
    drop_or_paste_file(sourced, "drop", b"GIF89a no more of it", "cut.gif", "image/gif")
    expect(alert).to_contain_text("This browser can’t show the picture")
    drop_or_paste_file(sourced, "drop", b"no film at all", "cut.webm", "video/webm")
    expect(alert).to_contain_text("This browser can’t play the video")
    assert sourced.input_count == 0
    drop_or_paste_file(sourced, "drop", encode_picture(9, 9), "good.png", "image/png")
    sourced.wait_input_count(1)
    expect(alert).to_have_count(0)
    figure = page.locator(".nbg-source-figure")
    expect(figure).to_contain_text("good.png, 9×9")
    drop_or_paste_file(sourced, "drop", encode_picture(9, 9)[:60], "cut.png", "image/png")
    expect(alert).to_contain_text("This browser can’t show the picture")
    expect(figure).to_have_count(0)  # a copy of good.png


def test_a_film_that_is_chosen_plays_is_paused_and_sought_and_its_address_is_let_go(
    show: ShowViews,
) -> None:
    sourced = open_sources_page(show)
    page = sourced.page
    page.evaluate(
        """() => {
          globalThis.addresses = new Set();
          const { createObjectURL, revokeObjectURL } = URL;
          URL.createObjectURL = (blob) => {
            const made = createObjectURL.call(URL, blob);
            addresses.add(made);
            return made;
          };
          URL.revokeObjectURL = (one) => {
            addresses.delete(one);
            revokeObjectURL.call(URL, one);
          };
        }"""
    )
    film = base64.b64decode(page.evaluate(RECORD_CANVAS_SCRIPT))
    sourced.open_drawer()
    drop_or_paste_file(sourced, "drop", film, "bar.webm", "video/webm")
    sourced.wait_input_count(6)
    expect(page.locator(".nbg-chosen-source")).to_contain_text("bar.webm")
    page.get_by_role("button", name="Pause the video").click()
    sourced.wait_phase("still")

    def shown() -> None:
        expected = fit_with_pillow(last_frame(page), sourced.input_key.shape, mirrored=False)
        assert np.abs(sourced.last_input[0, 0] - expected).max() <= 1.01 / 255

    retry_until_passes(page, shown)
    paused = sourced.last_input
    count = sourced.input_count
    # A seek while paused. The video reports its duration, which the file does not contain.
    length = page.get_by_label("Position in the video").get_attribute("max")
    assert length is not None and float(length) > 0.8
    duration = page.evaluate("() => views.state.sourceControls.value.video.duration")
    assert float(length) == pytest.approx(duration, abs=0.05)
    for seconds in (0.1, 0.6):
        page.evaluate("t => { views.state.sourceControls.value.video.currentTime = t; }", seconds)
        sourced.wait_input_count(count + 1)
        count = sourced.input_count
    retry_until_passes(page, shown)
    assert np.abs(sourced.last_input - paused).max() > 0.05
    page.get_by_role("button", name="Play the video").click()
    sourced.wait_input_count(count + 3)
    assert page.evaluate("() => addresses.size") == 1
    sourced.set_source("noise")
    assert page.evaluate("() => addresses.size") == 0
