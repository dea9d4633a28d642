"""Saving a view: pictures with the canvas's own pixels, and videos that browsers can play."""

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from playwright.sync_api import Download, Page, expect
from torch import nn

import nbglcnn
from accessibility import AXE_SCRIPT, accessibility_violations
from readability import assert_checks_detect, layout_faults_by_width
from viewer_models import autoencoder, pictures
from views_page import ViewsPage, canvas_pixels
from webgl_page import encode

ShowViews = Callable[..., ViewsPage]
SEED = 26
# Runs the network on another input.
RUN_INPUT_SCRIPT = """async (text) => {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const session = views.state.session.value;
  session.write('input', new Float32Array(bytes.buffer));
  views.state.run.value = await session.run();
}"""
# The size of a video, and the colour at the centre of each frame as played.
PLAY_VIDEO_SCRIPT = """async (text) => {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const video = document.createElement('video');
  video.muted = true;
  video.src = URL.createObjectURL(new Blob([bytes], { type: 'video/webm' }));
  const canvas = document.createElement('canvas');
  const context = canvas.getContext('2d', { willReadFrequently: true });
  const seen = [];
  const look = () => {
    const { videoWidth, videoHeight } = video;
    [canvas.width, canvas.height] = [videoWidth, videoHeight];
    context.drawImage(video, 0, 0);
    seen.push(context.getImageData(videoWidth / 2, videoHeight / 2, 1, 1).data[0]);
    video.requestVideoFrameCallback(look);
  };
  video.requestVideoFrameCallback(look);
  await new Promise((done, fail) => {
    video.onended = done;
    video.onerror = () => fail(new Error(video.error.message));
    video.play().catch(fail);
  });
  return { size: [video.videoWidth, video.videoHeight], seen };
}"""


def open_save_menu(page: Page) -> None:
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("group", name="Save")).to_be_visible()


def save_file(page: Page, button: str) -> Download:
    """Click a button and return the file it saves."""
    with page.expect_download() as found:
        page.get_by_role("button", name=button).click()
    return found.value


def read_image(download: Download) -> np.ndarray:
    return np.array(Image.open(io.BytesIO(Path(download.path()).read_bytes())).convert("RGB"))


def test_a_picture_has_the_pixels_of_its_canvas_and_of_the_view(show: ShowViews) -> None:
    x = pictures(SEED)
    views = show(nbglcnn.compile(autoencoder(SEED), torch.from_numpy(x)), x)
    page = views.page
    views.open_layer("encoder.0", 2)
    views.wait_idle()
    open_save_menu(page)
    download = save_file(page, "Picture: channel 2 of encoder.0")
    assert download.suggested_filename == "Sequential-channel-2-of-encoder.0.png"
    found = read_image(download)
    canvas = page.locator(".nbg-inspector canvas[data-maps]")
    drawn = canvas_pixels(canvas)
    assert drawn.shape[:2] == (11, 9), "a pixel a value"
    times = round(canvas.evaluate("one => one.getBoundingClientRect().width / one.width"))
    assert times > 10
    np.testing.assert_array_equal(found, drawn.repeat(times, 0).repeat(times, 1))
    # The menu is closed and doesn't appear in the view's picture.
    expect(page.get_by_role("group", name="Save")).to_have_count(0)
    open_save_menu(page)
    download = save_file(page, "Picture of this view")
    assert download.suggested_filename == "Sequential-encoder.0.png"
    view = read_image(download)
    box = page.locator(".nbglcnn").bounding_box()
    assert box is not None
    assert view.shape[:2] == (round(box["height"]), round(box["width"]))
    place = canvas.bounding_box()
    assert place is not None
    top, left = round(place["y"] - box["y"]), round(place["x"] - box["x"])
    inside = view[top : top + found.shape[0], left : left + found.shape[1]]
    # Without edges: boxes in a view start at fractional pixels.
    middle = slice(times // 2, None, times)
    np.testing.assert_array_equal(inside[middle, middle], drawn)
    # Esc or a click elsewhere closes the menu and has no other effect.
    for leave in (
        lambda: page.keyboard.press("Escape"),
        lambda: page.locator(".nbg-title").click(),
    ):
        open_save_menu(page)
        leave()
        expect(page.get_by_role("group", name="Save")).to_have_count(0)
        assert views.get("tab") == "layer"


def test_a_video_of_the_output_shows_each_run(show: ShowViews) -> None:
    model = nn.Sequential(nn.Conv2d(1, 1, 1, bias=False))
    with torch.no_grad():
        model[0].weight.fill_(1)
    x = np.full((1, 1, 12, 15), 0.25, np.float32)
    views = show(nbglcnn.compile(model.eval(), torch.from_numpy(x)), x)
    page = views.page
    open_save_menu(page)
    page.get_by_role("button", name="Record the output").click()
    stop = page.get_by_role("button", name="Stop recording and save the video")
    expect(stop).to_contain_text("0:01")
    page.evaluate(RUN_INPUT_SCRIPT, encode(np.full_like(x, 0.75)))
    expect(stop).to_contain_text("0:02")
    download = save_file(page, "Stop recording and save the video")
    assert download.suggested_filename == "Sequential-output.webm"
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_visible()
    data = Path(download.path()).read_bytes()
    assert data[:4] == bytes.fromhex("1a45dfa3"), "no EBML header"
    played = page.evaluate(PLAY_VIDEO_SCRIPT, base64.b64encode(data).decode())
    # A whole number of pixels per value, 256 at least.
    assert played["size"] == [15 * 18, 12 * 18]
    seen = np.array(played["seen"])
    assert seen.size > 8
    # 0.25, then 0.75 on the grey scale from 0 to 1, up to codec errors.
    assert abs(int(seen[1]) - 64) < 8
    assert abs(int(seen[-1]) - 191) < 8
    changes = np.flatnonzero(np.diff(seen > 128))
    assert changes.size == 1, seen


def test_a_browser_without_webm_says_so(show: ShowViews) -> None:
    x = pictures(SEED)
    views = show(nbglcnn.compile(autoencoder(SEED), torch.from_numpy(x)), x)
    page = views.page
    page.evaluate("() => { delete globalThis.MediaRecorder; }")
    open_save_menu(page)
    expect(page.get_by_role("group", name="Save")).to_contain_text("can’t record WebM video")
    expect(page.get_by_role("button", name="Record")).to_have_count(0)
    expect(page.get_by_role("button", name="Picture of this view")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_list_breaks_no_serious_rule_of_accessibility_and_can_be_read(
    show: ShowViews, sweep_widths: Callable[..., tuple[int, ...]], theme: str
) -> None:
    x = pictures(SEED)
    views = show(nbglcnn.compile(autoencoder(SEED), torch.from_numpy(x)), x)
    page = views.page
    page.add_script_tag(path=str(AXE_SCRIPT))
    page.evaluate("light => { document.body.dataset.jpThemeLight = light; }", theme == "light")
    for width in (1200, 420):
        page.set_viewport_size({"width": width, "height": 1000})
        open_save_menu(page)
        assert accessibility_violations(page, theme) == [], width
        page.keyboard.press("Escape")
    open_save_menu(page)
    assert layout_faults_by_width(page, sweep_widths(620 if theme == "light" else 848)) == {}
    assert_checks_detect(
        page,
        {
            ".nbg-save-menu { width: 90px; overflow: hidden }": "cut off",
            ".nbg-save-menu { right: -300px !important }": "outside of the Viewer",
            ".nbg-save-menu > button + button { margin-top: -26px }": "over each other",
        },
    )
    page.get_by_role("button", name="Record the output").click()
    expect(page.locator(".nbg-recording")).to_be_visible()
    assert accessibility_violations(page, theme) == []
    assert layout_faults_by_width(page, sweep_widths(620 if theme == "light" else 848)) == {}


def test_an_exported_page_keeps_pictures_and_videos(
    new_page: Callable[..., Page], tmp_path: Path
) -> None:
    path = nbglcnn.export_html(autoencoder(SEED), pictures(SEED), tmp_path / "page.html")
    page = new_page("llvmpipe")
    wrong: list[Any] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda one: wrong.append(one.text) if one.type == "error" else None)
    page.context.set_offline(True)
    page.goto(Path(path or tmp_path / "page.html").as_uri())
    page.evaluate("async () => { await window.nbglcnn; }")
    open_save_menu(page)
    view = read_image(save_file(page, "Picture of this view"))
    assert view.shape[1] > 300
    assert view.std() > 10
    open_save_menu(page)
    page.get_by_role("button", name="Record the output").click()
    expect(page.get_by_role("button", name="Stop recording")).to_contain_text("0:01")
    data = Path(save_file(page, "Stop recording").path()).read_bytes()
    assert data[:4] == bytes.fromhex("1a45dfa3")
    assert len(data) > 1000
    # Weights are read-only there.
    page.evaluate(
        "async () => (await window.nbglcnn).show({ name: 'filters', layer: 'encoder.3' })"
    )
    page.get_by_role("button", name="Edit encoder.3.weight").click()
    expect(page.locator(".nbg-weight-editor")).to_contain_text("Editing weights requires Python.")
    expect(page.get_by_role("gridcell")).to_have_count(9)
    assert wrong == []
