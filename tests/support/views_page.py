"""A page that shows one network in the views without JupyterLab, and helpers to read it."""

import base64
import io
import re
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from browsers import VISIBLE_MAPS_SCRIPT
from bundle import bundle_script
from nbglcnn import Plan
from webgl_page import encode

# The link stops Chromium from requesting a favicon at arbitrary times.
EMPTY_PAGE = (
    '<!doctype html><link rel="icon" href="data:,">'
    '<body data-jp-theme-light="true" style="margin: 0">'
)
MAP_CANVAS_SELECTOR = ".nbglcnn canvas[data-maps]"
IS_DRAWN_SCRIPT = f"""() => {{
  const seen = ({VISIBLE_MAPS_SCRIPT})();
  return seen.length > 0 && seen.every(({{ dataset }}) => dataset.drawn || 'skipped' in dataset);
}}"""
# The page's script for `bundle_script`, and a script that sets signals of the state.
VIEWS_BUNDLE_ARGUMENTS = ("test/views_page.ts", "--format=iife", "--loader:.css=text")
SET_STATE_SCRIPT = "a => { for (const [k, v] of Object.entries(a)) views.state[k].value = v; }"
RESET_STATE_SCRIPT = "async () => ({ left: await (globalThis.views?.reset() ?? ['no views']) })"
# A finished parity check against the framework's own values, without its layers.
PARITY_STATE = {
    "layers": [], "reference": "PyTorch", "isSampled": False, "non_finite": [], "note": "",
    "float16_overflow": "", "checkedAtMs": 0,
}  # fmt: skip
CLIPPED_ELEMENTS_SCRIPT = """\
() => [...document.querySelectorAll('.nbglcnn, .nbglcnn *')].filter((element) =>
  !element.closest('svg') && element.tagName !== 'STYLE' && element.clientWidth > 0
  && element.textContent.trim() !== '' && element.scrollWidth > element.clientWidth
  && !['auto', 'scroll'].includes(getComputedStyle(element).overflowX)
).map((element) => `${element.className}: ${element.textContent.slice(0, 60)}`)"""


class ViewsPage:
    """A page that shows one network: a new document, or one restored by `reset_page`."""

    def __init__(self, page: Page, files: dict[str, bytes], plan: Plan, *inputs: np.ndarray):
        self.page, self.files = page, files
        if not page.evaluate("() => 'views' in globalThis"):
            page.set_content(EMPTY_PAGE)
            files["/views.js"] = bundle_script(*VIEWS_BUNDLE_ARGUMENTS)
            page.add_script_tag(url="/views.js")  # as `content` it would pass through Playwright
        page.evaluate("() => { globalThis.dispose = views.show(); }")
        files["/views.plan"] = plan.to_bytes()
        page.evaluate("a => views.open(...a)", ["/views.plan", [encode(x) for x in inputs]])
        self.wait_drawn()

    def wait_drawn(self) -> None:
        """Wait until all that is visible has been drawn."""
        self.page.wait_for_function(IS_DRAWN_SCRIPT)

    def wait_idle(self) -> None:
        """Wait until all requests are answered and no drawing is pending."""
        self.page.evaluate("() => views.quiet()")

    def set(self, **values: Any) -> None:
        """Set signals of the state."""
        self.page.evaluate(SET_STATE_SCRIPT, values)

    def get(self, name: str) -> Any:
        return self.page.evaluate("k => views.state[k].value", name)

    def open_layer(self, layer: str, channel: int | None = None) -> None:
        self.set(selected={"layer": layer, "channel": channel}, tab="layer")
        expect(self.page.locator(".nbg-layer")).to_have_attribute("data-layer", layer)
        self.wait_drawn()

    def hover(self, canvas: Locator, x: float, y: float) -> str:
        """The tooltip at a position of a canvas, in fractions of its width and height."""
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        assert box is not None
        self.page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        tip = self.page.locator(".nbg-tip")
        expect(tip).not_to_contain_text("…")
        return tip.inner_text()


def reset_page(page: Page) -> list[str]:
    """Restore the page of a ViewsPage for the next one; return the differences from a new page."""
    left = page.wait_for_function(
        RESET_STATE_SCRIPT
    )  # unlike `evaluate`, it times out if the page hangs
    page.mouse.move(-1, -1)  # the element under the pointer would keep its hover style
    return list(left.json_value()["left"])


def canvas_pixels(canvas: Locator) -> np.ndarray:
    """A canvas's colours, H×W×RGB. Read as PNG: Playwright takes seconds for 100,000 numbers."""
    text = canvas.evaluate("(canvas) => canvas.toDataURL()").partition(",")[2]
    return np.array(Image.open(io.BytesIO(base64.b64decode(text))).convert("RGB"))


def parse_number(text: str) -> float:
    """Parse the first number in a text of the views."""
    found = re.search(r"[−-]?\d+(\.\d+)?(e[−-]?\d+)?", text.replace(",", ""))
    assert found is not None, text
    return float(found[0].replace("−", "-"))
