"""The lesson on teaching runs as in class: a head after EfficientNet learns shoes."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from playwright.sync_api import Browser, Locator, expect

from efficientnet import efficientnet_lite0
from jupyter_lab import LabServer
from notebooks import (
    ExecutedNotebook,
    assert_no_outputs,
    execute_notebook,
    open_notebook,
    printed_text,
)
from polling import retry_until_passes, wait_frames
from screenshots import copy_notebooks, viewer_cell
from shoes import KINDS, LARGEST, PICTURES, SIZE, SMALLEST, scenes, shoes

NOTEBOOK_NAME = "teach.ipynb"
TIMEOUT_S = 500  # for all cells, on a busy machine


def test_a_scene_has_its_shoe_where_and_before_what_it_says() -> None:
    pictures = shoes("ankle boot")[:20]
    assert all(len(shoes(kind)) == PICTURES for kind in KINDS)
    free = scenes(pictures, 3)
    assert free.shape == (20, SIZE, SIZE) and free.dtype == np.uint8
    np.testing.assert_array_equal(free, scenes(pictures, 3))
    assert not np.array_equal(free, scenes(pictures, 4))
    for side, bright in (("left", slice(None, SIZE // 4)), ("right", slice(-SIZE // 4, None))):
        made = scenes(pictures, 3, side=side)
        assert (made[:, :, bright].max((1, 2)) > 40).all()
    for one in free:  # the whole shoe is in the picture, alone
        rows, columns = np.nonzero(one)
        assert SMALLEST // 4 < np.ptp(columns) < LARGEST and np.ptp(rows) < LARGEST
    walls = scenes(pictures, 3, wall=120)
    assert (walls == 120).mean() > 0.3 and (walls[free == 0] == 120).mean() > 0.95


def test_the_committed_notebook_carries_no_outputs() -> None:
    assert_no_outputs(NOTEBOOK_NAME, 11)


def parse_numbers(pattern: str, text: str) -> tuple[float, ...]:
    match = re.search(pattern, text, re.MULTILINE)
    assert match is not None, (pattern, text)
    return tuple(float(one) for one in match.groups())


def check_printed_text(text: str) -> None:
    """Check the text printed with and without a page: the numbers that the lesson mentions."""
    assert parse_numbers(r"^(\d+)% right of what it learned from", text) == (100,)
    assert parse_numbers(r"behind the page's features: (\S+) apart", text) <= (1e-5,)
    assert parse_numbers(r"from the picture on: (\S+) apart", text) <= (1e-3,)
    assert parse_numbers(r"two heads are (\S+) of the largest", text) <= (1e-3,)
    (tested,) = parse_numbers(r"^(\d+)% of 180 other shoes", text)
    assert tested > 65
    for count, least in ((1, 10), (3, 15), (12, 25), (40, 25)):
        pixels, features = parse_numbers(
            rf"^ *{count} of each: pixels (\d+)%, features (\d+)%", text
        )
        assert features > pixels + least
    cuts = dict(re.findall(r"^(features\.\d+) +\d+ of +\d+× *\d+ +(\d+)%", text, re.MULTILINE))
    assert len(cuts) == 6
    assert float(cuts["features.3"]) + 10 < min(float(cuts[f"features.{k}"]) for k in (10, 18, 22))
    averages, places = parse_numbers(r"^features\.10 .* (\d+)% +(\d+)%$", text)
    assert averages > places + 5
    early, late = parse_numbers(r"^features\.3: (\d+)% of the other .* pool: (\d+)%$", text)
    assert early + 10 < late == tested
    sides, walls = (re.findall(rf"^{name} +alike +(\d+)%, swapped +(\d+)%$", text, re.MULTILINE)
                    for name in ("pool, averages", "features.10, places"))  # fmt: skip
    assert min(map(float, sides[0])) > 80 and float(sides[1][0]) > 90 > 40 > float(sides[1][1])
    assert all(float(alike) > 90 and float(swapped) < 15 for alike, swapped in walls)
    assert parse_numbers(r"^held out, in the same scenes: (\d+)% right", text) >= (85,)
    assert "Teaching(ready, sandal: 6, sneaker: 6, ankle boot: 6, cut='pool') 0 stale" in text


@pytest.mark.sweep  # test_no_browser.py and the tour cover this
def test_without_a_browser_it_learns_the_same(tmp_path: Path, lab: LabServer) -> None:
    copy_notebooks(tmp_path)
    notebook = execute_notebook(tmp_path, NOTEBOOK_NAME, lab.environment)
    check_printed_text(
        printed_text([one for cell in notebook["cells"] for one in cell.get("outputs", [])])
    )
    saved = safetensors.torch.load_file(tmp_path / "shoes.safetensors")
    assert saved["pictures"].shape == (18, SIZE, SIZE, 3) and saved["weight"].shape == (3, 1280)
    assert "nbg-taught-thumb" in (tmp_path / "teach.html").read_text()


class TeachNotebook(ExecutedNotebook):
    def teach_tab(self) -> Locator:
        """The Teach tab, scrolled into view."""
        viewer = viewer_cell(self.notebook).locator(".nbglcnn")
        expect(viewer.get_by_role("tab", name="Teach")).to_have_attribute("aria-selected", "true")
        return viewer.locator(".nbg-teach")

    def feed_shoe(self, number: int) -> None:
        """Feed one of the other shoes, and wait until the bars follow."""
        self.notebook.run(f"viewer.source = viewer.source.at({number})")
        self.teach_tab()
        same = f"np.array_equal(np.rint(255 * viewer.input[0, 0]), tests[{number}])"
        self.notebook.wait_until(same)
        wait_frames(self.notebook.page, 60)

    def bar_probabilities(self) -> list[float]:
        """The probabilities of the bars."""
        bars = self.teach_tab().locator("[data-probability]")
        expect(bars).to_have_count(len(KINDS))
        return [float(bar.get_attribute("data-probability") or "nan") for bar in bars.all()]


@pytest.fixture(scope="module")
def teach_notebook(lab: LabServer, browser: Callable[[str], Browser]) -> Iterator[TeachNotebook]:
    with open_notebook(lab, browser("llvmpipe"), NOTEBOOK_NAME, 1120, 1500) as (notebook, errors):
        yield TeachNotebook(notebook, errors, TIMEOUT_S)


def test_in_jupyterlab_all_cells_run(teach_notebook: TeachNotebook) -> None:
    check_printed_text(printed_text(teach_notebook.outputs))
    source = teach_notebook.notebook.read_array("np.array(viewer.activations.source)")
    assert str(source).startswith("page (WebGL2")


def test_bars_are_what_the_head_says_behind_pytorchs_network(teach_notebook: TeachNotebook) -> None:
    expect(teach_notebook.teach_tab().locator("canvas[data-example=here]")).to_have_count(
        18, timeout=60_000
    )
    model = efficientnet_lite0()
    state = teach_notebook.notebook.read_array(
        "{n: t.numpy() for n, t in teaching.head()[-1].state_dict().items()}"
    )
    for number in (4, 5):
        teach_notebook.feed_shoe(number)
        x = torch.from_numpy(teach_notebook.notebook.read_array("viewer.input"))
        with torch.no_grad():
            features = model.pool(model.features((255 * x - 127) / 128))
            logits = features @ torch.from_numpy(state["weight"]).T
            right = torch.softmax(logits + torch.from_numpy(state["bias"]), 1)[0].numpy()
        retry_until_passes(
            teach_notebook.notebook.page,
            lambda right=right: np.testing.assert_allclose(
                teach_notebook.bar_probabilities(), right, atol=1e-3
            ),
        )
        own = teach_notebook.notebook.read_array(
            "torch.softmax(teaching.head()(torch.from_numpy(viewer.activations['pool'])), 1)"
            ".detach().numpy()[0]"
        )
        np.testing.assert_allclose(teach_notebook.bar_probabilities(), own, atol=1e-5)


def test_the_page_trains_the_head_that_python_found(teach_notebook: TeachNotebook) -> None:
    before = teach_notebook.notebook.read_array("teaching.head()[-1].weight.detach().numpy()")
    teach_notebook.notebook.run("mine = teaching._lesson.head.id")
    teach_notebook.teach_tab().get_by_role("button", name="Train").click()
    teach_notebook.notebook.wait_until(
        "teaching._lesson.head.id != mine and teaching.state == 'ready'"
    )
    after = teach_notebook.notebook.read_array("teaching.head()[-1].weight.detach().numpy()")
    np.testing.assert_allclose(after, before, atol=1e-4 * np.abs(before).max())


def test_a_held_button_gives_the_shoe_that_enters_to_its_class(
    teach_notebook: TeachNotebook,
) -> None:
    teach_notebook.feed_shoe(7)
    hold = (
        teach_notebook.teach_tab()
        .locator("[data-class='sneaker']")
        .get_by_role("button", name="Hold")
    )
    hold.focus()
    teach_notebook.notebook.page.keyboard.down(" ")
    wait_frames(teach_notebook.notebook.page, 60)
    teach_notebook.notebook.page.keyboard.up(" ")
    teach_notebook.notebook.wait_until(
        "teaching.counts['sneaker'] == 7 and teaching.state == 'ready'"
    )
    kept = teach_notebook.notebook.read_array("teaching.examples['sneaker'][-1]")
    shoe = scenes(shoes("sneaker"), 1)[-60:][2]  # the third of the displayed sneakers
    np.testing.assert_array_equal(kept, np.repeat(shoe[..., None], 3, 2))


def test_the_file_is_taken_by_another_viewer(teach_notebook: TeachNotebook) -> None:
    teach_notebook.notebook.run(
        "again = nbglcnn.Viewer(efficientnet_lite0(), preprocess=preprocess)"
        ".teach().load('shoes.safetensors')"
    )
    told = teach_notebook.notebook.evaluate_silently(
        "print(again.state, again.stale, again.counts['sneaker'])"
    )
    assert told.split() == ["ready", "0", "6"]
    same = "bool((again.features['sandal'] == teaching.features['sandal']).all())"
    assert teach_notebook.notebook.evaluate_silently(f"print({same})").strip() == "True"


def test_the_console_stays_clean(teach_notebook: TeachNotebook) -> None:
    """Runs last in this module: it checks the console of all earlier tests."""
    assert teach_notebook.errors == []
