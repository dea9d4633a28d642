"""What every host must be able to do, once: a table of flows, driven through any notebook page."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from lab import Outputs

TESTS = Path(__file__).resolve().parent
SEED, OTHER = 20, 21
PATIENCE_S = 60
INTERRUPTED_S = 5
# Elements of the page, in shadow roots too: marimo keeps widgets in some.
EVERYWHERE = """const all = (selector, root = document) => [
  ...root.querySelectorAll(selector),
  ...[...root.querySelectorAll("*")].flatMap(({ shadowRoot }) =>
    (shadowRoot ? all(selector, shadowRoot) : [])),
];"""
# How many maps are drawn in the last Viewer: canvases with more than a few colours.
DRAWN = f"""() => {{
  {EVERYWHERE}
  const view = all(".nbglcnn").at(-1);
  view?.scrollIntoView({{ block: "center" }});
  if (view?.dataset.phase !== "ready") return 0;
  return [...view.querySelectorAll("canvas[data-drawn]")].filter((canvas) => {{
    const copy = document.createElement("canvas");
    [copy.width, copy.height] = [canvas.width, canvas.height];
    const context = copy.getContext("2d");
    context.drawImage(canvas, 0, 0);
    const pixels = context.getImageData(0, 0, copy.width, copy.height).data;
    return new Set(new Uint32Array(pixels.buffer)).size > 8;
  }}).length;
}}"""
PRESS = f"""label => {{
  {EVERYWHERE}
  const found = all("button.press").find((button) => button.textContent === label);
  found?.click();
  return found !== undefined;
}}"""
CLICK = f"""label => {{
  {EVERYWHERE}
  const found = all(".nbglcnn button").filter((button) => button.textContent === label).at(-1);
  found?.click();
  return found !== undefined;
}}"""
PREPARE = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
import asyncio, nbglcnn, numpy as np
from nbglcnn import Viewer, transforms
import patient
from host_cells import Press, agree, agree_bent, agree_whole, attempt, hush, of_page, unhush
from host_cells import agree_decoded, agree_drawn, agree_fed, agree_noise, agree_shown
from viewer_models import autoencoder, pictures
"""


class Host(Protocol):
    """A notebook in a page, whatever application shows it."""

    show: str  # how a cell shows a widget while it runs, {} being the widget; "" if it need not

    def start(self, source: str) -> Any:
        """Start a new last cell; `wait` has its outputs."""

    def wait(self, cell: Any, seconds: float = ...) -> Outputs:
        """The outputs of a cell that was started, when it has ended."""

    def interrupt(self) -> None:
        """Interrupt the cell that runs."""

    def evaluate(self, script: str, argument: Any = None) -> Any:
        """What a function gives in the page."""

    @property
    def mouse(self) -> Any:
        """What has `move(x, y)`, `down()` and `up()` of Playwright's mouse."""

    def pause(self, ms: int) -> None:
        """Let time pass."""


@dataclass(frozen=True)
class Flow:
    """A thing to do, in the words of the table's head; it fails by an exception."""

    name: str
    do: Callable[[Host], None]


def cell(host: Host, source: str) -> str:
    """Run a new cell and return what it printed; an exception in it is one here."""
    outputs = host.wait(host.start(source), PATIENCE_S)
    if outputs.error:
        raise AssertionError(outputs.error)
    return outputs.text


def until(host: Host, found: Callable[[], object], what: str) -> None:
    """Ask again until there is something."""
    end = time.monotonic() + PATIENCE_S
    while not found():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {PATIENCE_S} s")
        host.pause(200)


def prepare(host: Host) -> None:
    """The first cell, which takes long: PyTorch and its exporter are imported."""
    outputs = host.wait(host.start(PREPARE), 3 * PATIENCE_S)
    if outputs.error:
        raise AssertionError(outputs.error)


def shows(host: Host) -> None:
    """A Viewer at the end of a cell becomes a view with pictures."""
    make = f"viewer = Viewer(autoencoder({SEED}), pictures({SEED}))\nviewer"
    host.wait(host.start(make), 3 * PATIENCE_S)
    until(host, lambda: host.evaluate(DRAWN) >= 3, "pictures")


def reads_where_it_is_made(host: Host) -> None:
    """The very cell that makes a Viewer reads from the page."""
    shown = host.show.format("made")
    cell(
        host,
        f"made = Viewer(autoencoder({OTHER}), pictures({OTHER}))\n{shown}\n"
        f"of_page(made)\nagree_whole(made.activations.to_dict(), {OTHER})",
    )


def reads_later(host: Host) -> None:
    """A later cell reads; each output belongs to the input that was set before it."""
    cell(
        host,
        f"of_page(viewer)\nagree({{'encoder.1': viewer.activations['encoder.1']}}, {SEED})\n"
        f"for k in (2, 3): agree({{'output': viewer.run(pictures({SEED}) * k)}}, {SEED}, scale=k)\n"
        f"viewer.input = pictures({SEED})",
    )


def reads_in_a_callback(host: Host) -> None:
    """A widget's callback reads while the kernel handles its message."""
    cell(
        host,
        "asked = []\nasking = Press(label='ask')\nasking.on_msg(lambda *_: asked.append(\n"
        "    attempt(lambda: viewer.activations['encoder.4'])))\nasking",
    )
    press(host, "ask", "asked")
    cell(host, f"agree({{'encoder.4': asked[0]}}, {SEED})")


def reads_in_an_observer(host: Host) -> None:
    """A trait's observer sets another input and reads its output."""
    cell(
        host,
        "changed = []\nchanging = Press(label='change')\n"
        "def follow(change):\n"
        f"    changed.append(attempt(lambda: viewer.run(pictures({SEED}) * 4)))\n"
        "changing.observe(follow, 'presses')\nchanging",
    )
    press(host, "change", "changed")
    cell(
        host,
        f"agree({{'output': changed[0]}}, {SEED}, scale=4)\nviewer.input = pictures({SEED})",
    )


def press(host: Host, label: str, filled: str) -> None:
    """Press a button and wait until its kernel has put something into a list."""
    until(host, lambda: host.evaluate(PRESS, label), f"the button {label!r}")
    until(host, lambda: cell(host, f"print(len({filled}))") != "0\n", f"the answer to {label!r}")


def awaits(host: Host) -> None:
    """`await viewer.read` gives one value, several, and several at once."""
    cell(
        host,
        "several = await viewer.read('encoder', 'decoder.1')\n"
        "both = await asyncio.gather(viewer.read('encoder.2'), viewer.read('decoder'))\n"
        f"agree(several | {{'encoder.2': both[0], 'decoder': both[1]}}, {SEED})",
    )


def interrupts(host: Host) -> None:
    """A read that no page answers is interrupted within seconds; the Viewer goes on."""
    blocked = host.start("hush(viewer, 1e9)\nviewer.activations.read('encoder.1', timeout=60)")
    host.pause(2000)
    since = time.monotonic()
    host.interrupt()
    outputs = host.wait(blocked, PATIENCE_S)
    took = time.monotonic() - since
    if "interrupt" not in outputs.error.lower() or took > INTERRUPTED_S:
        raise AssertionError(f"{outputs.error or 'no error'!r} after {took:.1f} s")
    cell(host, f"unhush(viewer)\nagree({{'encoder.1': viewer.activations['encoder.1']}}, {SEED})")


def keeps_order(host: Host) -> None:
    """Cells that were started during a slow read run after it, in their order."""
    for way, read in (("blocked", "viewer.output"), ("awaited", "await viewer.read('output')")):
        cell(host, f"{way} = []")
        first = host.start(f"hush(viewer, 1)\n{way}.append({read})")
        queued = [host.start(f"{way}.append({k})") for k in range(3)]
        for each in (first, *queued):
            error = host.wait(each, PATIENCE_S).error
            if error:
                raise AssertionError(error)
        said = cell(
            host,
            f"unhush(viewer)\nagree({{'output': {way}[0]}}, {SEED})\nprint({way}[1:])",
        )
        if said != "[0, 1, 2]\n":
            raise AssertionError(f"after a read that was {way}, the order was {said.strip()}")


def has_pytorchs_numbers(host: Host) -> None:
    """Every layer is what PyTorch's hooks see, and the view says so."""
    cell(
        host,
        f"agree_whole(viewer.activations.to_dict(), {SEED})\n"
        "report = viewer.verify()\nassert report.ok, report.summary\n"
        "assert 'on page (WebGL2: ' in report.summary, report.summary",
    )


def bends(host: Host) -> None:
    """What Python bends is in the very next read; what the page takes away Python hears of."""
    cell(
        host,
        "of_page(viewer)\n"
        "bend = viewer.bend('encoder.1', transforms.rotate(30), channels=[0, 2], mix=0.5)\n"
        f"agree_bent(viewer, {SEED})\n"
        "viewer.bend('decoder', transforms.multiply(0.5))\n"
        f"for bend.degrees in (60, 90): agree_bent(viewer, {SEED})",
    )
    until(host, lambda: host.evaluate(CLICK, "Remove all"), "the button that takes bends away")
    gone = "print(len(viewer.bends))"
    until(host, lambda: cell(host, gone) == "0\n", "no bends in Python")
    cell(host, f"agree_whole(viewer.activations.to_dict(), {SEED})")


FLOWS = (
    Flow("pictures", shows),
    Flow("read in the creating cell", reads_where_it_is_made),
    Flow("in a later cell", reads_later),
    Flow("in a callback", reads_in_a_callback),
    Flow("in `observe`", reads_in_an_observer),
    Flow("`await`", awaits),
    Flow("interrupt", interrupts),
    Flow("queued cells", keeps_order),
    Flow("numbers", has_pytorchs_numbers),
    Flow("bends", bends),
)
