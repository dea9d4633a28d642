"""The tour runs as a newcomer runs it, with and without a browser, and its pictures are correct."""

import base64
import io
import json
import re
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, ConsoleMessage, Locator, expect

from jupyter_lab import LabServer, Notebook, local_page
from notebooks import assert_no_outputs, execute_notebook
from screenshots import (
    change_theme,
    copy_notebooks,
    run_all_cells,
    select_stage,
    viewer_cell,
)

WIDGET_VIEW_MIME = "application/vnd.jupyter.widget-view+json"
WIDGET_STATE_MIME = "application/vnd.jupyter.widget-state+json"

CHANNELS_BY_STAGE = {
    "encoder.2": 32,
    "encoder.5": 64,
    "decoder.2": 64,
    "decoder.5": 32,
}  # layer: channels
CODE_LAYER = "encoder.6"

# Elements with text wider than they are, and texts that extend beyond the Viewer.
CLIPPED_TEXT_SCRIPT = """root => {
  const { left, right } = root.getBoundingClientRect();
  const found = [];
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    const element = text.parentElement;
    if (!text.data.trim() || element.closest("style, option, title")) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const box = range.getBoundingClientRect();
    if (box.left < left - 1 || box.right > right + 1) found.push(`outside: ${text.data}`);
    for (let part = element; part !== root.parentElement; part = part.parentElement) {
      const inline = getComputedStyle(part).display === "inline";
      if (!inline && part.clientWidth > 0 && part.scrollWidth > part.clientWidth) {
        found.push(`${part.className} ${part.scrollWidth} > ${part.clientWidth}: ${text.data}`);
        break;
      }
    }
  }
  return found;
}"""


def test_the_committed_tour_carries_no_outputs() -> None:
    assert_no_outputs("tour.ipynb", 10)


def test_without_a_browser_the_tour_runs_and_keeps_snapshots(
    tmp_path: Path, lab: LabServer
) -> None:
    copy_notebooks(tmp_path)
    notebook = execute_notebook(tmp_path, "tour.ipynb", lab.environment)
    file = tmp_path / "ran.ipynb"
    outputs = [o for cell in notebook["cells"] for o in cell.get("outputs", [])]
    warned = [o["text"] for o in outputs if o.get("name") == "stderr"]
    assert len(warned) == 2  # one per Viewer that is read
    assert all("no page has shown this Viewer" in "".join(text) for text in warned)

    views = [o["data"] for o in outputs if WIDGET_VIEW_MIME in o.get("data", {})]
    assert len(views) == 5
    for data in views:
        with Image.open(io.BytesIO(base64.b64decode(data["image/png"]))) as picture:
            assert picture.width > 300
            assert len(picture.convert("RGB").getcolors(1 << 24) or []) > 16

    assert file.stat().st_size < len(views) * 200_000
    stored = notebook["metadata"]["widgets"][WIDGET_STATE_MIME]["state"].values()
    ours = [model["state"] for model in stored if "_code" in model["state"]]
    assert len(ours) == len(views)
    for state in ours:
        assert len(json.dumps(state)) < 8_000  # half of it is the loader


class TourNotebook:
    """The tour in JupyterLab after all cells have run, and its first Viewer."""

    def __init__(self, notebook: Notebook, errors: list[str]) -> None:
        self.notebook = notebook
        self.page = notebook.page
        self.errors = errors
        run_all_cells(notebook)

    def first_viewer(self) -> Locator:
        """The first Viewer in the Network tab, with the first example drawn."""
        viewer = viewer_cell(self.notebook).locator(".nbglcnn")
        viewer.get_by_role("tab", name="Network").click()
        viewer.get_by_label("Example", exact=True).select_option("0")
        self.notebook.wait_settled()
        return viewer

    def mosaics(self, viewer: Locator) -> dict[str, list[np.ndarray]]:
        """The tiles of each mosaic of the strip, cut out of a screenshot of the page."""
        shot = np.array(Image.open(io.BytesIO(self.page.screenshot())).convert("RGB"))
        found = {}
        for canvas in viewer.locator(".nbg-line canvas[data-maps]").all():
            box = canvas.bounding_box()
            assert box is not None
            x, y, w, h = (round(box[side]) for side in ("x", "y", "width", "height"))
            assert y >= 0
            assert y + h <= len(shot), "the strip is not in view"
            pixels = shot[y : y + h, x : x + w]
            channels = int(canvas.get_attribute("data-channels") or 0)
            columns = int(canvas.get_attribute("data-columns") or 0)
            found[canvas.get_attribute("data-maps") or ""] = cut_tiles(pixels, channels, columns)
        return found

    def read_kernel_array(self, expression: str) -> Any:
        """The value of an expression in the kernel, as an array."""
        return self.notebook.read_array(expression)


def cut_tiles(pixels: np.ndarray, count: int, columns: int) -> list[np.ndarray]:
    """The maps of a mosaic without the hairlines between them."""
    rows = -(-count // columns)
    height, width = (pixels.shape[0] + 1) // rows, (pixels.shape[1] + 1) // columns
    return [
        pixels[y * height :, x * width :][: height - 1, : width - 1]
        for y, x in (divmod(k, columns) for k in range(count))
    ]


def count_colours(pixels: np.ndarray) -> int:
    return len(np.unique(pixels.reshape(-1, 3), axis=0))


@pytest.fixture(scope="module")
def tour(
    sweep_backend: str, lab: LabServer, browser: Callable[[str], Browser]
) -> Iterator[TourNotebook]:
    errors: list[str] = []

    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error" or re.search("INVALID_|GL_OUT_OF|nbglcnn", message.text):
            errors.append(message.text)

    copy_notebooks(lab.root)
    with local_page(browser(sweep_backend), viewport={"width": 1400, "height": 1500}) as page:
        page.on("console", on_console)
        page.on("pageerror", lambda error: errors.append(str(error)))
        yield TourNotebook(lab.open_notebook(page, "tour.ipynb"), errors)


def test_in_jupyterlab_every_cell_runs_on_the_pages_webgl(tour: TourNotebook) -> None:
    cells = tour.page.evaluate(
        "() => [...window.lab.panel().content.model.cells].map(c => c.outputs?.toJSON() ?? [])"
    )
    outputs = [output for cell in cells for output in cell]
    assert not [o["evalue"] for o in outputs if o["output_type"] == "error"]
    assert not [o["text"] for o in outputs if o.get("name") == "stderr"]
    assert "page (WebGL2: " in "".join(o.get("text", "") for o in outputs)
    assert str(tour.read_kernel_array("np.array(viewer.activations.source)")).startswith(
        "page (WebGL2"
    )
    assert tour.notebook.save() < 5 * 200_000


def test_the_strip_has_a_distinct_picture_of_every_channel(tour: TourNotebook) -> None:
    viewer = tour.first_viewer()
    mosaics = tour.mosaics(viewer)
    for key, channels in CHANNELS_BY_STAGE.items():  # the caption reports maps that don't fit
        count = len(mosaics[key])
        assert channels / 2 < count <= channels
        caption = viewer.locator(f".nbg-stage[data-layer='{key}']").inner_text()
        assert (f"{count} of {channels}" in caption) == (count < channels)
    assert {"x", "output"} <= set(mosaics)
    bars = viewer.locator(f".nbg-stage[data-layer='{CODE_LAYER}'] .nbg-bars rect")
    assert bars.count() == 16
    for key in CHANNELS_BY_STAGE:
        assert count_colours(np.concatenate([t.reshape(-1, 3) for t in mosaics[key]])) > 16, key
        # A ReLU leaves some maps empty; equal everywhere, they prove nothing.
        lively = [tile for tile in mosaics[key] if count_colours(tile) > 1]
        assert len(lively) > len(mosaics[key]) / 2, key
        mosaics[key] = lively
    for a, b in combinations(CHANNELS_BY_STAGE, 2):
        same = {tile.tobytes() for tile in mosaics[a]} & {tile.tobytes() for tile in mosaics[b]}
        assert not same, f"{a} and {b} share {len(same)} pictures"


def test_no_text_is_clipped_in_either_tab(tour: TourNotebook) -> None:
    viewer = tour.first_viewer()
    assert viewer.evaluate(CLIPPED_TEXT_SCRIPT) == []
    viewer.get_by_role("tab", name="Layer").click()
    tour.notebook.wait_settled()
    assert viewer.evaluate(CLIPPED_TEXT_SCRIPT) == []


def test_another_example_changes_the_pictures_and_the_index_in_python(tour: TourNotebook) -> None:
    viewer = tour.first_viewer()
    before = tour.mosaics(viewer)
    viewer.get_by_label("Next example").click()
    tour.notebook.wait_settled()
    after = tour.mosaics(viewer)
    assert before.keys() == after.keys()
    for key in before:
        assert any(not np.array_equal(a, b) for a, b in zip(before[key], after[key], strict=True))
    assert tour.read_kernel_array("viewer.example") == 1


def test_the_layer_tab_shows_the_maps_and_the_pointer_their_values(tour: TourNotebook) -> None:
    viewer = tour.first_viewer()
    select_stage(viewer, "encoder.2")
    viewer.get_by_role("tab", name="Layer").click()
    tour.notebook.wait_settled()
    layer = viewer.locator(".nbg-layer[data-layer='encoder.2']")
    rows = layer.locator(".nbg-grid canvas[data-maps='encoder.2']").all()
    assert sum(int(row.get_attribute("data-channels") or 0) for row in rows) == 32

    values = tour.read_kernel_array("viewer.activations['encoder.2'][viewer.example]")
    viewer = viewer_cell(tour.notebook).locator(".nbglcnn")
    tip = viewer.locator(".nbg-tip")
    for channel in (3, 23, 28):
        # The lower part, with the boot: most of the rest is zero.
        frame = viewer.get_by_role("button", name=f"channel {channel},")
        box = frame.bounding_box()
        assert box is not None
        frame.hover(position={"x": box["width"] * 0.6, "y": box["height"] * 0.75})
        expect(tip).to_contain_text(f"channel {channel} ·")
        expect(tip.locator("strong")).to_have_text(re.compile(r"\d"))
        place = re.search(r"channel (\d+) · y (\d+), x (\d+)", tip.inner_text())
        assert place is not None, tip.inner_text()
        c, y, x = map(int, place.groups())
        assert (c, y, x) == (channel, 10, 8)
        shown = float(tip.locator("strong").inner_text().replace("\u2212", "-"))
        assert shown == pytest.approx(float(values[c, y, x]), rel=1e-6)


def test_the_dark_theme_is_dark(tour: TourNotebook) -> None:
    viewer = tour.first_viewer()
    light = tour.mosaics(viewer)
    change_theme(tour.notebook, "Dark")
    dark = tour.mosaics(viewer_cell(tour.notebook).locator(".nbglcnn"))
    background = viewer.evaluate("element => getComputedStyle(element).backgroundColor")
    change_theme(tour.notebook, "Light")
    assert max(map(int, re.findall(r"\d+", background)[:3])) < 80
    for key in CHANNELS_BY_STAGE:
        assert np.mean(light[key]) > 180, key
        assert np.mean(dark[key]) < 75, key


def test_the_console_stays_clean(tour: TourNotebook) -> None:
    """Runs last in this module: it checks the console of all earlier tests."""
    tour.first_viewer()
    assert tour.errors == []
