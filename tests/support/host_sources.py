"""Each source in any host: it is turned on, and what goes in equals a Python reference."""

import base64
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from browsers import FILM
from host_flows import DRAWN, EVERYWHERE, PATIENCE_S, Host, cell, until

SEED = 22
LAYER = "encoder.4"
SETTLED_MS = 1000  # in which what stays is fed, told and read
VIEW = f"{EVERYWHERE} const view = all('.nbglcnn').at(-1);"
# Clicks the first element that fits; whether there is one that can be clicked.
CLICK = f"""selector => {{
  {VIEW}
  const found = view?.querySelector(selector);
  if (!found || found.disabled) return false;
  found.click();
  return true;
}}"""
TEXT = f"""selector => {{
  {VIEW}
  return view?.querySelector(selector)?.textContent ?? "";
}}"""
# What a film, a camera or a drawing shows, as a data: URL.
GRAB = f"""selector => {{
  {VIEW}
  const shown = view.querySelector(selector);
  const copy = document.createElement("canvas");
  copy.width = shown.videoWidth ?? shown.width;
  copy.height = shown.videoHeight ?? shown.height;
  copy.getContext("2d").drawImage(shown, 0, 0);
  return copy.toDataURL();
}}"""
PLACE = f"""selector => {{
  {VIEW}
  const shown = view?.querySelector(selector);
  shown?.scrollIntoView({{ block: "center" }});
  const {{ left, top, width, height }} = shown?.getBoundingClientRect() ?? {{ width: 0 }};
  return width > 0 ? [left, top, width, height] : null;
}}"""
# A file into the drawer's field for one.
CHOOSE = f"""([text, name, type]) => {{
  {VIEW}
  const field = view.querySelector(".nbg-drop input[type=file]");
  const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], name, {{ type }}));
  field.files = transfer.files;
  field.dispatchEvent(new Event("change", {{ bubbles: true }}));
}}"""
PRESS_KEY = f"""([selector, key]) => {{
  {VIEW}
  const found = view?.querySelector(selector);
  found?.dispatchEvent(new KeyboardEvent("keydown", {{ key, bubbles: true, cancelable: true }}));
  return found != null;
}}"""
# The camera's light: what the browser gives next, kept beyond the view's end.
KEEP_TRACKS = """() => {
  const media = navigator.mediaDevices, ask = media.getUserMedia.bind(media);
  media.getUserMedia = async (...given) => {
    const stream = await ask(...given);
    window.tracks = stream.getTracks();
    return stream;
  };
}"""
LIGHTS = "() => window.tracks.map((track) => track.readyState)"


def feeds(host: Host) -> None:
    """Each source in turn; the camera's light goes out when the Viewer is closed."""
    made = f"fed = Viewer(autoencoder({SEED}), pictures({SEED}, 1))\nfed"
    host.wait(host.start(made), PATIENCE_S)
    until(host, lambda: host.evaluate(DRAWN) >= 3, "pictures")
    click(host, ".nbg-chosen-source")
    for source in (data_set, noise, picture, film, drawing, latent, camera):
        try:
            source(host)
        except Exception as error:
            raise AssertionError(f"{source.__name__}: {error}") from error


def click(host: Host, selector: str) -> None:
    """Click an element, once it is there."""
    until(host, lambda: host.evaluate(CLICK, selector), selector)


def look(host: Host, selector: str) -> list[float]:
    """Bring an element into sight; where it is then. What nobody sees feeds nothing."""
    until(host, lambda: host.evaluate(PLACE, selector), selector)
    host.pause(SETTLED_MS)
    place: list[float] = host.evaluate(PLACE, selector)
    return place


def shown_in(part: str) -> str:
    """What shows a film or camera: the video, or on a software renderer what the network gets."""
    return f".nbg-{part} .nbg-source-picture > *"


def choose(host: Host, kind: str) -> None:
    """Look at a source in the drawer."""
    click(host, f".nbg-kinds [data-kind={kind}]")


def is_so(host: Host, expression: str) -> None:
    """Wait until an expression is true in the kernel."""
    until(host, lambda: cell(host, f"print(bool({expression}))") == "True\n", expression)


@contextmanager
def grabbed(host: Host, selector: str) -> Iterator[str]:
    """The path of a file of what is shown."""
    with tempfile.NamedTemporaryFile(suffix=".png") as file:
        url = host.evaluate(GRAB, selector)
        Path(file.name).write_bytes(base64.b64decode(url.partition(",")[2]))
        yield file.name


def pause(host: Host) -> None:
    """Pause the source; its last picture stays."""
    click(host, "[aria-label='Pause the source']")
    is_so(host, "not fed.source.playing")
    host.pause(SETTLED_MS)


def data_set(host: Host) -> None:
    """Python gives it; the page's choice comes back."""
    items = f"np.random.default_rng({SEED}).integers(0, 256, (3000, 22, 18), np.uint8)"
    item = f"{items}[{{}}].astype('f4') / np.float32(255)"
    cell(
        host,
        f"fed.input = nbglcnn.Images({items}, index=7)\n"
        f"agree_fed(fed, {SEED}, {item.format(7)})\n"
        "fed.source = fed.source.at(2900)\n"
        f"agree_fed(fed, {SEED}, {item.format(2900)})",
    )
    click(host, ".nbg-thumb[data-index='2902']")
    is_so(host, "fed.source.index == 2902")
    cell(host, f"agree_fed(fed, {SEED}, {item.format(2902)})")


def noise(host: Host) -> None:
    """The page begins it; Python sets another."""
    choose(host, "noise")
    is_so(host, "type(fed.source).__name__ == 'Noise'")
    cell(
        host,
        f"agree_noise(fed, {SEED})\n"
        f"fed.source = nbglcnn.Noise(5, mean=0, std=1)\nagree_noise(fed, {SEED})",
    )


def picture(host: Host) -> None:
    """A file that is chosen in the page."""
    shown = Image.fromarray(np.random.default_rng(SEED).integers(0, 256, (60, 90, 3), np.uint8))
    file = BytesIO()
    shown.save(file, "PNG")
    choose(host, "picture")
    until(host, lambda: host.evaluate(TEXT, ".nbg-drop"), "the field for a file")
    host.evaluate(CHOOSE, [base64.b64encode(file.getvalue()).decode(), "random.png", "image/png"])
    is_so(host, "getattr(fed.source, 'title', '') == 'random.png'")
    with tempfile.NamedTemporaryFile(suffix=".png") as given:
        shown.save(given.name)
        cell(host, f"agree_shown(fed, {SEED}, {given.name!r})")


def film(host: Host) -> None:
    """Python gives it, the page plays it; paused, what is seen is the input."""
    with tempfile.NamedTemporaryFile(suffix=".webm") as file:
        Path(file.name).write_bytes(base64.b64decode(host.evaluate(FILM)))
        cell(host, f"fed.input = nbglcnn.Video({file.name!r})")
    look(host, shown_in("film"))
    is_so(host, "fed.source.owner")
    pause(host)
    with grabbed(host, shown_in("film")) as path:
        cell(host, f"agree_shown(fed, {SEED}, {path!r})")


def drawing(host: Host) -> None:
    """A stroke of the mouse."""
    choose(host, "drawing")
    paper = ".nbg-paper canvas"
    left, top, width, height = look(host, paper)
    host.mouse.move(left + width / 5, top + height / 5)
    host.mouse.down()
    for part in (0.3, 0.5, 0.8):
        host.mouse.move(left + part * width, top + part * height)
    host.mouse.up()
    is_so(host, "fed.source.owner")
    host.pause(SETTLED_MS)
    with grabbed(host, paper) as path:
        cell(host, f"agree_drawn(fed, {SEED}, {path!r})")


def latent(host: Host) -> None:
    """Python cuts the network; the page's ring moves the code."""
    data = f"pictures({SEED + 1}, 12)"
    cell(
        host,
        f"fed.input = nbglcnn.Latent({LAYER!r}, data={data})\nagree_decoded(fed, {SEED}, {data})\n"
        "fed.source = fed.source.with_code(fed.source.codes[3])\n"
        f"agree_decoded(fed, {SEED}, {data})",
    )
    ring = [".nbg-latent-ring", "ArrowRight"]
    until(host, lambda: host.evaluate(PRESS_KEY, ring), "the ring on the plane")
    is_so(host, "not np.array_equal(fed.source.code, fed.source.codes[3])")
    cell(host, f"agree_decoded(fed, {SEED}, {data})\nfed.source = None")


def camera(host: Host) -> None:
    """It starts by a click; its light goes out with the Viewer."""
    cell(host, "fed.input = nbglcnn.Webcam()")
    host.evaluate(KEEP_TRACKS)
    click(host, ".nbg-camera .nbg-main-button")
    look(host, ".nbg-camera")
    until(host, lambda: "pictures/s" in host.evaluate(TEXT, ".nbg-camera"), "live pictures")
    is_so(host, "fed.source.owner")
    pause(host)
    with grabbed(host, shown_in("camera")) as path:
        cell(host, f"agree_shown(fed, {SEED}, {path!r}, mirrored=True)")
    click(host, "[aria-label='Let the source go on']")
    is_so(host, "fed.source.playing")
    if (lights := host.evaluate(LIGHTS)) != ["live"]:
        raise AssertionError(f"the camera's tracks are {lights}")
    cell(host, "fed.close()")
    until(host, lambda: host.evaluate(LIGHTS) == ["ended"], "the camera's light goes out")
