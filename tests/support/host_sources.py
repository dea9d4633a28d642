"""Each source in any host: the test turns it on and compares the input with a reference."""

import base64
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from browsers import RECORD_CANVAS_SCRIPT
from host_flows import (
    COUNT_DRAWN_MAPS_SCRIPT,
    QUERY_SHADOW_DOM_SCRIPT,
    TIMEOUT_S,
    Host,
    run_cell,
    wait_until,
)

SEED = 22
LAYER = "encoder.4"
SYNC_WAIT_MS = 1000  # enough time to feed, sync and read an input that no longer changes
LAST_VIEW_SCRIPT = f"{QUERY_SHADOW_DOM_SCRIPT} const view = all('.nbglcnn').at(-1);"
# Clicks the first matching element; returns whether it exists and is enabled.
CLICK_ELEMENT_SCRIPT = f"""selector => {{
  {LAST_VIEW_SCRIPT}
  const found = view?.querySelector(selector);
  if (!found || found.disabled) return false;
  found.click();
  return true;
}}"""
READ_TEXT_SCRIPT = f"""selector => {{
  {LAST_VIEW_SCRIPT}
  return view?.querySelector(selector)?.textContent ?? "";
}}"""
# The picture of a video, camera or drawing, as a data: URL.
GRAB_PICTURE_SCRIPT = f"""selector => {{
  {LAST_VIEW_SCRIPT}
  const shown = view.querySelector(selector);
  const copy = document.createElement("canvas");
  copy.width = shown.videoWidth ?? shown.width;
  copy.height = shown.videoHeight ?? shown.height;
  copy.getContext("2d").drawImage(shown, 0, 0);
  return copy.toDataURL();
}}"""
SCROLL_INTO_VIEW_SCRIPT = f"""selector => {{
  {LAST_VIEW_SCRIPT}
  const shown = view?.querySelector(selector);
  shown?.scrollIntoView({{ block: "center" }});
  const {{ left, top, width, height }} = shown?.getBoundingClientRect() ?? {{ width: 0 }};
  return width > 0 ? [left, top, width, height] : null;
}}"""
# Puts a file into the drawer's file input.
CHOOSE_FILE_SCRIPT = f"""([text, name, type]) => {{
  {LAST_VIEW_SCRIPT}
  const field = view.querySelector(".nbg-drop input[type=file]");
  const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], name, {{ type }}));
  field.files = transfer.files;
  field.dispatchEvent(new Event("change", {{ bubbles: true }}));
}}"""
PRESS_KEY_SCRIPT = f"""([selector, key]) => {{
  {LAST_VIEW_SCRIPT}
  const found = view?.querySelector(selector);
  found?.dispatchEvent(new KeyboardEvent("keydown", {{ key, bubbles: true, cancelable: true }}));
  return found != null;
}}"""
# Keeps the tracks of the next camera stream, to check that they stop after the view is closed.
RECORD_CAMERA_TRACKS_SCRIPT = """() => {
  const media = navigator.mediaDevices, ask = media.getUserMedia.bind(media);
  media.getUserMedia = async (...given) => {
    const stream = await ask(...given);
    window.tracks = stream.getTracks();
    return stream;
  };
}"""
TRACK_STATES_SCRIPT = "() => window.tracks.map((track) => track.readyState)"


def feed_all_sources(host: Host) -> None:
    """Test each source in turn; closing the Viewer stops the camera."""
    made = f"fed = Viewer(autoencoder({SEED}), pictures({SEED}, 1))\nfed"
    host.wait(host.start(made), TIMEOUT_S)
    wait_until(host, lambda: host.evaluate(COUNT_DRAWN_MAPS_SCRIPT) >= 3, "pictures")
    click(host, ".nbg-chosen-source")
    for source in (
        feed_dataset,
        feed_noise,
        feed_picture,
        feed_video,
        feed_drawing,
        feed_latent,
        feed_camera,
    ):
        try:
            source(host)
        except Exception as error:
            raise AssertionError(f"{source.__name__}: {error}") from error


def click(host: Host, selector: str) -> None:
    """Click an element as soon as it exists and is enabled."""
    wait_until(host, lambda: host.evaluate(CLICK_ELEMENT_SCRIPT, selector), selector)


def scroll_into_view(host: Host, selector: str) -> list[float]:
    """Scroll an element into view and return its box. Sources feed only while visible."""
    wait_until(host, lambda: host.evaluate(SCROLL_INTO_VIEW_SCRIPT, selector), selector)
    host.pause(SYNC_WAIT_MS)
    place: list[float] = host.evaluate(SCROLL_INTO_VIEW_SCRIPT, selector)
    return place


def preview_selector(css_suffix: str) -> str:
    """The selector of a video or camera preview.

    The preview is the `video` element, or on a software renderer the network's input.
    """
    return f".nbg-{css_suffix} .nbg-source-picture > *"


def select_source(host: Host, kind: str) -> None:
    """Select a source in the drawer."""
    click(host, f".nbg-kinds [data-kind={kind}]")


def wait_for_kernel(host: Host, expression: str) -> None:
    """Wait until an expression is true in the kernel."""
    wait_until(host, lambda: run_cell(host, f"print(bool({expression}))") == "True\n", expression)


@contextmanager
def save_shown_picture(host: Host, selector: str) -> Iterator[str]:
    """Save the displayed picture to a temporary file; yield its path."""
    with tempfile.NamedTemporaryFile(suffix=".png") as file:
        url = host.evaluate(GRAB_PICTURE_SCRIPT, selector)
        Path(file.name).write_bytes(base64.b64decode(url.partition(",")[2]))
        yield file.name


def pause_source(host: Host) -> None:
    """Pause the source; its last picture stays displayed."""
    click(host, "[aria-label='Pause the source']")
    wait_for_kernel(host, "not fed.source.playing")
    host.pause(SYNC_WAIT_MS)


def feed_dataset(host: Host) -> None:
    """Python sets the data set; an item chosen in the page is synced back."""
    items = f"np.random.default_rng({SEED}).integers(0, 256, (3000, 22, 18), np.uint8)"
    item = f"{items}[{{}}].astype('f4') / np.float32(255)"
    run_cell(
        host,
        f"fed.input = nbglcnn.Images({items}, index=7)\n"
        f"assert_input(fed, {SEED}, {item.format(7)})\n"
        "fed.source = fed.source.at(2900)\n"
        f"assert_input(fed, {SEED}, {item.format(2900)})",
    )
    click(host, ".nbg-thumb[data-index='2902']")
    wait_for_kernel(host, "fed.source.index == 2902")
    run_cell(host, f"assert_input(fed, {SEED}, {item.format(2902)})")


def feed_noise(host: Host) -> None:
    """The page starts noise; Python replaces it with other settings."""
    select_source(host, "noise")
    wait_for_kernel(host, "type(fed.source).__name__ == 'Noise'")
    run_cell(
        host,
        f"assert_noise_input(fed, {SEED})\n"
        f"fed.source = nbglcnn.Noise(5, mean=0, std=1)\nassert_noise_input(fed, {SEED})",
    )


def feed_picture(host: Host) -> None:
    """Choose a picture file in the page."""
    shown = Image.fromarray(np.random.default_rng(SEED).integers(0, 256, (60, 90, 3), np.uint8))
    file = BytesIO()
    shown.save(file, "PNG")
    select_source(host, "picture")
    wait_until(host, lambda: host.evaluate(READ_TEXT_SCRIPT, ".nbg-drop"), "the field for a file")
    host.evaluate(
        CHOOSE_FILE_SCRIPT, [base64.b64encode(file.getvalue()).decode(), "random.png", "image/png"]
    )
    wait_for_kernel(host, "getattr(fed.source, 'title', '') == 'random.png'")
    with tempfile.NamedTemporaryFile(suffix=".png") as given:
        shown.save(given.name)
        run_cell(host, f"assert_picture_input(fed, {SEED}, {given.name!r})")


def feed_video(host: Host) -> None:
    """Python sets a video and the page plays it; when paused, the visible frame is the input."""
    with tempfile.NamedTemporaryFile(suffix=".webm") as file:
        Path(file.name).write_bytes(base64.b64decode(host.evaluate(RECORD_CANVAS_SCRIPT)))
        run_cell(host, f"fed.input = nbglcnn.Video({file.name!r})")
    scroll_into_view(host, preview_selector("film"))
    wait_for_kernel(host, "fed.source.owner")
    pause_source(host)
    with save_shown_picture(host, preview_selector("film")) as path:
        run_cell(host, f"assert_picture_input(fed, {SEED}, {path!r})")


def feed_drawing(host: Host) -> None:
    """Draw a stroke with the mouse."""
    select_source(host, "drawing")
    paper = ".nbg-paper canvas"
    left, top, width, height = scroll_into_view(host, paper)
    host.mouse.move(left + width / 5, top + height / 5)
    host.mouse.down()
    for part in (0.3, 0.5, 0.8):
        host.mouse.move(left + part * width, top + part * height)
    host.mouse.up()
    wait_for_kernel(host, "fed.source.owner")
    host.pause(SYNC_WAIT_MS)
    with save_shown_picture(host, paper) as path:
        run_cell(host, f"assert_drawing_input(fed, {SEED}, {path!r})")


def feed_latent(host: Host) -> None:
    """Python splits the network at the latent; the page's ring control changes the code."""
    data = f"pictures({SEED + 1}, 12)"
    run_cell(
        host,
        f"fed.input = nbglcnn.Latent({LAYER!r}, data={data})\n"
        f"assert_latent_output(fed, {SEED}, {data})\n"
        "fed.source = fed.source.with_code(fed.source.codes[3])\n"
        f"assert_latent_output(fed, {SEED}, {data})",
    )
    ring = [".nbg-latent-ring", "ArrowRight"]
    wait_until(host, lambda: host.evaluate(PRESS_KEY_SCRIPT, ring), "the ring on the plane")
    wait_for_kernel(host, "not np.array_equal(fed.source.code, fed.source.codes[3])")
    run_cell(host, f"assert_latent_output(fed, {SEED}, {data})\nfed.source = None")


def feed_camera(host: Host) -> None:
    """A click starts the camera; closing the Viewer stops it."""
    run_cell(host, "fed.input = nbglcnn.Webcam()")
    host.evaluate(RECORD_CAMERA_TRACKS_SCRIPT)
    click(host, ".nbg-camera .nbg-main-button")
    scroll_into_view(host, ".nbg-camera")
    wait_until(
        host,
        lambda: "pictures/s" in host.evaluate(READ_TEXT_SCRIPT, ".nbg-camera"),
        "live pictures",
    )
    wait_for_kernel(host, "fed.source.owner")
    pause_source(host)
    with save_shown_picture(host, preview_selector("camera")) as path:
        run_cell(host, f"assert_picture_input(fed, {SEED}, {path!r}, mirrored=True)")
    click(host, "[aria-label='Play the source']")
    wait_for_kernel(host, "fed.source.playing")
    if (lights := host.evaluate(TRACK_STATES_SCRIPT)) != ["live"]:
        raise AssertionError(f"the camera's tracks are {lights}")
    run_cell(host, "fed.close()")
    wait_until(
        host, lambda: host.evaluate(TRACK_STATES_SCRIPT) == ["ended"], "the camera's light goes out"
    )
