"""What every host must support: a table of flows that run in any notebook page."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from jupyter_lab import Outputs

TEST_SUPPORT_FOLDER = Path(__file__).resolve().parent
SEED, OTHER_SEED = 20, 21
TIMEOUT_S = 60
INTERRUPT_LIMIT_S = 5
# Finds elements in shadow roots too: marimo puts some widgets into one.
QUERY_SHADOW_DOM_SCRIPT = """const all = (selector, root = document) => [
  ...root.querySelectorAll(selector),
  ...[...root.querySelectorAll("*")].flatMap(({ shadowRoot }) =>
    (shadowRoot ? all(selector, shadowRoot) : [])),
];"""
# The number of maps drawn in the last Viewer: canvases with more than a few colours.
COUNT_DRAWN_MAPS_SCRIPT = f"""() => {{
  {QUERY_SHADOW_DOM_SCRIPT}
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
PRESS_BUTTON_SCRIPT = f"""label => {{
  {QUERY_SHADOW_DOM_SCRIPT}
  const found = all("button.press").find((button) => button.textContent === label);
  found?.click();
  return found !== undefined;
}}"""
CLICK_VIEWER_BUTTON_SCRIPT = f"""label => {{
  {QUERY_SHADOW_DOM_SCRIPT}
  const found = all(".nbglcnn button").filter((button) => button.textContent === label).at(-1);
  found?.click();
  return found !== undefined;
}}"""
IMPORT_CELL = f"""
import sys
sys.path.insert(0, {str(TEST_SUPPORT_FOLDER)!r})
import asyncio, nbglcnn, numpy as np
from nbglcnn import Viewer, transforms
import timeouts
from host_cells import PressButton, assert_all_values, assert_bent_output, assert_drawing_input
from host_cells import assert_input, assert_latent_output, assert_noise_input, assert_page_computes
from host_cells import assert_picture_input, assert_values, drop_replies, restore_replies
from host_cells import result_or_error
from viewer_models import autoencoder, pictures
"""


class Host(Protocol):
    """A notebook in a page, in any application."""

    display_template: (
        str  # how a running cell displays a widget ({} is the widget); "" if it needn't
    )

    def start(self, source: str) -> Any:
        """Start a new last cell; pass the result to `wait` for its outputs."""

    def wait(self, cell: Any, seconds: float = ...) -> Outputs:
        """Wait until a started cell ends, and return its outputs."""

    def interrupt(self) -> None:
        """Interrupt the running cell."""

    def evaluate(self, script: str, argument: Any = None) -> Any:
        """Evaluate a JavaScript function in the page."""

    @property
    def mouse(self) -> Any:
        """A mouse with Playwright's `move(x, y)`, `down()` and `up()`."""

    def pause(self, ms: int) -> None:
        """Wait for some milliseconds."""


@dataclass(frozen=True)
class Flow:
    """One user action, named as in the table's header; it fails by raising an exception."""

    name: str
    run: Callable[[Host], None]


def run_cell(host: Host, source: str) -> str:
    """Run a new cell and return its printed text; re-raise the cell's exception as a failure."""
    outputs = host.wait(host.start(source), TIMEOUT_S)
    if outputs.error:
        raise AssertionError(outputs.error)
    return outputs.text


def wait_until(host: Host, condition: Callable[[], object], description: str) -> None:
    """Poll until `condition` returns a truthy value."""
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{description}: not within {TIMEOUT_S} s")
        host.pause(200)


def run_import_cell(host: Host) -> None:
    """Run the first cell, which is slow: it imports PyTorch and its exporter."""
    outputs = host.wait(host.start(IMPORT_CELL), 3 * TIMEOUT_S)
    if outputs.error:
        raise AssertionError(outputs.error)


def show_viewer(host: Host) -> None:
    """A Viewer at the end of a cell renders a view with pictures."""
    make = f"viewer = Viewer(autoencoder({SEED}), pictures({SEED}))\nviewer"
    host.wait(host.start(make), 3 * TIMEOUT_S)
    wait_until(host, lambda: host.evaluate(COUNT_DRAWN_MAPS_SCRIPT) >= 3, "pictures")


def read_in_creating_cell(host: Host) -> None:
    """The cell that creates a Viewer can read from the page."""
    shown = host.display_template.format("made")
    run_cell(
        host,
        f"made = Viewer(autoencoder({OTHER_SEED}), pictures({OTHER_SEED}))\n{shown}\n"
        f"assert_page_computes(made)\nassert_all_values(made.activations.to_dict(), {OTHER_SEED})",
    )


def read_in_later_cell(host: Host) -> None:
    """A later cell reads; each output belongs to the input set before it."""
    run_cell(
        host,
        "assert_page_computes(viewer)\n"
        f"assert_values({{'encoder.1': viewer.activations['encoder.1']}}, {SEED})\n"
        "for k in (2, 3):\n"
        f"    output = viewer.run(pictures({SEED}) * k)\n"
        f"    assert_values({{'output': output}}, {SEED}, scale=k)\n"
        f"viewer.input = pictures({SEED})",
    )


def read_in_callback(host: Host) -> None:
    """A widget callback reads while the kernel handles its message."""
    run_cell(
        host,
        "asked = []\nasking = PressButton(label='ask')\nasking.on_msg(lambda *_: asked.append(\n"
        "    result_or_error(lambda: viewer.activations['encoder.4'])))\nasking",
    )
    press(host, "ask", "asked")
    run_cell(host, f"assert_values({{'encoder.4': asked[0]}}, {SEED})")


def read_in_observer(host: Host) -> None:
    """A trait observer sets another input and reads its output."""
    run_cell(
        host,
        "changed = []\nchanging = PressButton(label='change')\n"
        "def follow(change):\n"
        f"    changed.append(result_or_error(lambda: viewer.run(pictures({SEED}) * 4)))\n"
        "changing.observe(follow, 'presses')\nchanging",
    )
    press(host, "change", "changed")
    run_cell(
        host,
        f"assert_values({{'output': changed[0]}}, {SEED}, scale=4)\n"
        f"viewer.input = pictures({SEED})",
    )


def press(host: Host, label: str, result_list: str) -> None:
    """Press a button and wait until the kernel has appended to a list."""
    wait_until(host, lambda: host.evaluate(PRESS_BUTTON_SCRIPT, label), f"the button {label!r}")
    wait_until(
        host,
        lambda: run_cell(host, f"print(len({result_list}))") != "0\n",
        f"the answer to {label!r}",
    )


def await_reads(host: Host) -> None:
    """`await viewer.read` reads one value, several values, and several calls concurrently."""
    run_cell(
        host,
        "several = await viewer.read('encoder', 'decoder.1')\n"
        "both = await asyncio.gather(viewer.read('encoder.2'), viewer.read('decoder'))\n"
        f"assert_values(several | {{'encoder.2': both[0], 'decoder': both[1]}}, {SEED})",
    )


def interrupt_read(host: Host) -> None:
    """A read without a reply can be interrupted within seconds; the Viewer keeps working."""
    blocked = host.start(
        "drop_replies(viewer, 1e9)\nviewer.activations.read('encoder.1', timeout=60)"
    )
    host.pause(2000)
    since = time.monotonic()
    host.interrupt()
    outputs = host.wait(blocked, TIMEOUT_S)
    took = time.monotonic() - since
    if "interrupt" not in outputs.error.lower() or took > INTERRUPT_LIMIT_S:
        raise AssertionError(f"{outputs.error or 'no error'!r} after {took:.1f} s")
    run_cell(
        host,
        "restore_replies(viewer)\n"
        f"assert_values({{'encoder.1': viewer.activations['encoder.1']}}, {SEED})",
    )


def keep_cell_order(host: Host) -> None:
    """Cells queued during a slow read run after it, in order."""
    for way, read in (("blocked", "viewer.output"), ("awaited", "await viewer.read('output')")):
        run_cell(host, f"{way} = []")
        first = host.start(f"drop_replies(viewer, 1)\n{way}.append({read})")
        queued = [host.start(f"{way}.append({k})") for k in range(3)]
        for each in (first, *queued):
            error = host.wait(each, TIMEOUT_S).error
            if error:
                raise AssertionError(error)
        said = run_cell(
            host,
            "restore_replies(viewer)\n"
            f"assert_values({{'output': {way}[0]}}, {SEED})\nprint({way}[1:])",
        )
        if said != "[0, 1, 2]\n":
            raise AssertionError(f"after a read that was {way}, the order was {said.strip()}")


def compare_with_torch(host: Host) -> None:
    """Every layer equals the values from PyTorch's hooks, and the view reports so."""
    run_cell(
        host,
        f"assert_all_values(viewer.activations.to_dict(), {SEED})\n"
        "report = viewer.verify()\nassert report.ok, report.summary\n"
        "assert 'on page (WebGL2: ' in report.summary, report.summary",
    )


def bend_both_ways(host: Host) -> None:
    """The next read includes a bend set in Python; Python learns of a bend removed in the page."""
    run_cell(
        host,
        "assert_page_computes(viewer)\n"
        "bend = viewer.bend('encoder.1', transforms.rotate(30), channels=[0, 2], mix=0.5)\n"
        f"assert_bent_output(viewer, {SEED})\n"
        "viewer.bend('decoder', transforms.multiply(0.5))\n"
        f"for bend.degrees in (60, 90): assert_bent_output(viewer, {SEED})",
    )
    wait_until(
        host,
        lambda: host.evaluate(CLICK_VIEWER_BUTTON_SCRIPT, "Remove all"),
        "the button that takes bends away",
    )
    gone = "print(len(viewer.bends))"
    wait_until(host, lambda: run_cell(host, gone) == "0\n", "no bends in Python")
    run_cell(host, f"assert_all_values(viewer.activations.to_dict(), {SEED})")


FLOWS = (
    Flow("pictures", show_viewer),
    Flow("read in the creating cell", read_in_creating_cell),
    Flow("in a later cell", read_in_later_cell),
    Flow("in a callback", read_in_callback),
    Flow("in `observe`", read_in_observer),
    Flow("`await`", await_reads),
    Flow("interrupt", interrupt_read),
    Flow("queued cells", keep_cell_order),
    Flow("numbers", compare_with_torch),
    Flow("bends", bend_both_ways),
)
