"""Measures the cost of a click on the page's main thread until the page is idle.

    python bench/clicks.py [--renderers swiftshader llvmpipe] [--rounds 12]

The page is the views of the Fashion autoencoder, without JupyterLab. The browser's own task counter
(CDP Performance.getMetrics: script with its promises, style, layout, painting), in processor time
of the main thread, is read before a click, at the first frame that shows the selection, and when no
request or drawing is pending. So the time waiting for the renderer, another process, is excluded;
the calls to it are included. No run is in progress.
"""

from __future__ import annotations

import argparse
import base64
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

BENCH_FOLDER = Path(__file__).parent
ROOT = BENCH_FOLDER.parent
sys.path += [
    str(BENCH_FOLDER),
    *(str(ROOT / name) for name in ("scripts", "notebooks", "tests/support")),
]

from playwright.sync_api import CDPSession, Page, sync_playwright  # noqa: E402

import nbglcnn  # noqa: E402
from browsers import EMPTY_PAGE, chromium_arguments, find_chromium, serve_files  # noqa: E402
from bundle import bundle_script  # noqa: E402
from fashion_autoencoder import load_autoencoder, load_images  # noqa: E402
from views_page import SET_STATE_SCRIPT, VIEWS_BUNDLE_ARGUMENTS  # noqa: E402

ROUNDS = 12
QUIET_MS = 250
# Polls without animation frames, which would count: until `ms` pass without a request or drawing.
WAIT_UNTIL_QUIET_SCRIPT = """async (ms) => {
  const { calls } = views;
  const events = () => calls.batches + calls.asked + calls.answered;
  for (let before = -1; calls.answered < calls.asked || before !== events(); ) {
    before = events();
    await new Promise((done) => setTimeout(done, ms));
  }
}"""
CLICK_SCRIPT = """async ([css, k]) => {
  const all = [...document.querySelectorAll(css)];
  const one = all[k % all.length];
  const { left, top, width, height } = one.getBoundingClientRect();
  const [x, y] = [left + (width * (1 + (k % 7))) / 9, top + (height * (1 + (k % 5))) / 7];
  one.dispatchEvent(new MouseEvent("click", { clientX: x, clientY: y, detail: 1, bubbles: true }));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""


def layer_tab_state(name: str, section: str = "maps", channel: int = 0) -> dict[str, Any]:
    """The state of the Layer tab with a channel selected."""
    chosen = {"layer": name, "channel": channel}
    return {"selected": chosen, "tab": "layer", "layerSection": section}


# Each kind of click: the initial state, and the elements clicked in turn.
CLICK_SCENARIOS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "chooses a stage": ({"tab": "network", "networkLayout": "strip"}, (".nbg-stage .nbg-picture",)),
    "chooses a channel": (layer_tab_state("encoder.3"), (".nbg-grid .nbg-frame",)),
    "pins a pixel in Explain": (
        layer_tab_state("encoder.3", "explain"),
        (".nbg-pick",),
    ),
    "opens or closes a module": (
        {"tab": "network", "networkLayout": "graph"},
        (".nbg-bracket[aria-expanded]", ".nbg-open"),
    ),
    "changes the tab": (layer_tab_state("encoder.3"), ("[role=tab]",)),
}


def measure_clicks(renderers: Sequence[str], rounds: int = ROUNDS) -> dict[str, Any]:
    """The milliseconds of each click, by renderer and kind of click."""
    return {renderer: measure_renderer(renderer, rounds) for renderer in renderers}


def measure_renderer(renderer: str, rounds: int) -> dict[str, Any]:
    """Measure all kinds of clicks on one renderer."""
    found: dict[str, Any] = {}
    with open_views(renderer) as page:
        counters = page.context.new_cdp_session(page)
        counters.send("Performance.enable", {"timeDomain": "threadTicks"})
        for name, (state, targets) in CLICK_SCENARIOS.items():
            rows = [measure_click(page, counters, state, targets, k) for k in range(rounds + 2)]
            kept = rows[2:]
            found[name] = {kind: [row[kind] for row in kept] for kind in kept[0]}
            middle = {kind: statistics.median(row) for kind, row in found[name].items()}
            print(
                f"{name} on {renderer}: {middle['all']:.1f} ms, {max(found[name]['all']):.1f} "
                f"at most; {middle['shown']:.1f} until it is shown",
                flush=True,
            )
    return found


def measure_click(
    page: Page, devtools: CDPSession, state: dict[str, Any], selectors: tuple[str, ...], k: int
) -> dict[str, float]:
    """The cost of the k-th click, up to the frame that shows it and until the page is idle."""
    if k == 0:
        page.evaluate(SET_STATE_SCRIPT, state)
    css = selectors[k % len(selectors)]
    page.wait_for_selector(css, state="attached")
    page.evaluate(WAIT_UNTIL_QUIET_SCRIPT, QUIET_MS)
    before = main_thread_ms(devtools)
    page.evaluate(CLICK_SCRIPT, [css, k // len(selectors)])
    shown = main_thread_ms(devtools)
    page.evaluate(WAIT_UNTIL_QUIET_SCRIPT, QUIET_MS)
    return {"all": main_thread_ms(devtools) - before, "shown": shown - before}


def main_thread_ms(devtools: CDPSession) -> float:
    """Total milliseconds of the main thread's tasks so far."""
    metrics = devtools.send("Performance.getMetrics")["metrics"]
    return 1000 * sum(one["value"] for one in metrics if one["name"] == "TaskDuration")


@contextmanager
def open_views(renderer: str) -> Iterator[Page]:
    """The autoencoder's views in a fresh Chromium, drawn and idle."""
    images = load_images()[0][:3]
    plan = nbglcnn.compile(load_autoencoder(), images)
    files = {
        "/": EMPTY_PAGE,
        "/views.js": bundle_script(*VIEWS_BUNDLE_ARGUMENTS, "--minify"),
        "/a.plan": plan.to_bytes(),
    }
    with serve_files(files.get) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=chromium_arguments(renderer)
        )
        page = browser.new_page(viewport={"width": 1200, "height": 1000})
        page.set_default_timeout(120_000)
        page.goto(address)
        page.add_script_tag(url="/views.js")
        page.evaluate("() => { views.show(); }")
        array = np.ascontiguousarray(images, "<f4")
        page.evaluate("a => views.open(...a)", ["/a.plan", [base64.b64encode(array).decode()]])
        page.evaluate(WAIT_UNTIL_QUIET_SCRIPT, QUIET_MS)
        yield page
        browser.close()


def main() -> None:
    """Run the measurements selected on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--renderers", nargs="*", default=["swiftshader", "llvmpipe"])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    measure_clicks(given.renderers, given.rounds)


if __name__ == "__main__":
    main()
