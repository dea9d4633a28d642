"""The lesson on teaching runs as a class runs it: a head behind EfficientNet learns shoes."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from playwright.sync_api import Browser, Locator, expect

from efficientnet import efficientnet_lite0
from eventually import eventually, frames
from lab import Lab
from notebooks import Ran, assert_no_outputs, executed, opened, printed
from screenshots import copy_notebooks, viewer_cell
from shoes import KINDS, LARGEST, PICTURES, SIZE, SMALLEST, scenes, shoes

TEACH = "teach.ipynb"
PATIENCE_S = 500  # for all of its cells, on a busy machine


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
    for one in free:  # all of it is in the picture, and nothing else is
        rows, columns = np.nonzero(one)
        assert SMALLEST // 4 < np.ptp(columns) < LARGEST and np.ptp(rows) < LARGEST
    walls = scenes(pictures, 3, wall=120)
    assert (walls == 120).mean() > 0.3 and (walls[free == 0] == 120).mean() > 0.95


def test_the_committed_notebook_carries_no_outputs() -> None:
    assert_no_outputs(TEACH, 11)


def told(pattern: str, text: str) -> tuple[float, ...]:
    match = re.search(pattern, text, re.MULTILINE)
    assert match is not None, (pattern, text)
    return tuple(float(one) for one in match.groups())


def check_words(text: str) -> None:
    """What is printed with a page and without one: numbers that the text speaks of."""
    assert told(r"^(\d+)% right of what it learned from", text) == (100,)
    assert told(r"behind the page's features: (\S+) apart", text) <= (1e-5,)
    assert told(r"from the picture on: (\S+) apart", text) <= (1e-3,)
    assert told(r"two heads are (\S+) of the largest", text) <= (1e-3,)
    (tested,) = told(r"^(\d+)% of 180 other shoes", text)
    assert tested > 65
    for count, least in ((1, 10), (3, 15), (12, 25), (40, 25)):
        pixels, features = told(rf"^ *{count} of each: pixels (\d+)%, features (\d+)%", text)
        assert features > pixels + least
    cuts = dict(re.findall(r"^(features\.\d+) +\d+ of +\d+× *\d+ +(\d+)%", text, re.MULTILINE))
    assert len(cuts) == 6
    assert float(cuts["features.3"]) + 10 < min(float(cuts[f"features.{k}"]) for k in (10, 18, 22))
    averages, places = told(r"^features\.10 .* (\d+)% +(\d+)%$", text)
    assert averages > places + 5
    early, late = told(r"^features\.3: (\d+)% of the other .* pool: (\d+)%$", text)
    assert early + 10 < late == tested
    sides, walls = (re.findall(rf"^{name} +alike +(\d+)%, swapped +(\d+)%$", text, re.MULTILINE)
                    for name in ("pool, averages", "features.10, places"))  # fmt: skip
    assert min(map(float, sides[0])) > 80 and float(sides[1][0]) > 90 > 40 > float(sides[1][1])
    assert all(float(alike) > 90 and float(swapped) < 15 for alike, swapped in walls)
    assert told(r"^held out, in the same scenes: (\d+)% right", text) >= (85,)
    assert "Teaching(ready, sandal: 6, sneaker: 6, ankle boot: 6, cut='pool') 0 stale" in text


@pytest.mark.sweep  # test_nobrowser.py and the tour prove the way
def test_without_a_browser_it_learns_the_same(tmp_path: Path, lab: Lab) -> None:
    copy_notebooks(tmp_path)
    notebook = executed(tmp_path, TEACH, lab.environment)
    check_words(printed([one for cell in notebook["cells"] for one in cell.get("outputs", [])]))
    saved = safetensors.torch.load_file(tmp_path / "shoes.safetensors")
    assert saved["pictures"].shape == (18, SIZE, SIZE, 3) and saved["weight"].shape == (3, 1280)
    assert "nbg-taught-thumb" in (tmp_path / "teach.html").read_text()


class Class(Ran):
    def tab(self) -> Locator:
        """The Teach tab, seen."""
        viewer = viewer_cell(self.notebook).locator(".nbglcnn")
        expect(viewer.get_by_role("tab", name="Teach")).to_have_attribute("aria-selected", "true")
        return viewer.locator(".nbg-teach")

    def enters(self, number: int) -> None:
        """One of the other shoes goes in, and the bars follow."""
        self.notebook.run(f"viewer.source = viewer.source.at({number})")
        self.tab()
        same = f"np.array_equal(np.rint(255 * viewer.input[0, 0]), tests[{number}])"
        self.notebook.until(same)
        frames(self.notebook.page, 60)

    def shown(self) -> list[float]:
        """The bars' probabilities."""
        bars = self.tab().locator("[data-probability]")
        expect(bars).to_have_count(len(KINDS))
        return [float(bar.get_attribute("data-probability") or "nan") for bar in bars.all()]


@pytest.fixture(scope="module")
def lesson(lab: Lab, browser: Callable[[str], Browser]) -> Iterator[Class]:
    with opened(lab, browser("llvmpipe"), TEACH, 1120, 1500) as (notebook, errors):
        yield Class(notebook, errors, PATIENCE_S)


def test_in_jupyterlab_all_cells_run(lesson: Class) -> None:
    check_words(printed(lesson.outputs))
    source = lesson.notebook.array("np.array(viewer.activations.source)")
    assert str(source).startswith("page (WebGL2")


def test_bars_are_what_the_head_says_behind_pytorchs_network(lesson: Class) -> None:
    expect(lesson.tab().locator("canvas[data-example=here]")).to_have_count(18, timeout=60_000)
    model = efficientnet_lite0()
    state = lesson.notebook.array(
        "{n: t.numpy() for n, t in teaching.head()[-1].state_dict().items()}"
    )
    for number in (4, 5):
        lesson.enters(number)
        x = torch.from_numpy(lesson.notebook.array("viewer.input"))
        with torch.no_grad():
            features = model.pool(model.features((255 * x - 127) / 128))
            logits = features @ torch.from_numpy(state["weight"]).T
            right = torch.softmax(logits + torch.from_numpy(state["bias"]), 1)[0].numpy()
        eventually(
            lesson.notebook.page,
            lambda right=right: np.testing.assert_allclose(lesson.shown(), right, atol=1e-3),
        )
        own = lesson.notebook.array(
            "torch.softmax(teaching.head()(torch.from_numpy(viewer.activations['pool'])), 1)"
            ".detach().numpy()[0]"
        )
        np.testing.assert_allclose(lesson.shown(), own, atol=1e-5)


def test_the_page_trains_the_head_that_python_found(lesson: Class) -> None:
    before = lesson.notebook.array("teaching.head()[-1].weight.detach().numpy()")
    lesson.notebook.run("mine = teaching._lesson.head.id")
    lesson.tab().get_by_role("button", name="Train").click()
    lesson.notebook.until("teaching._lesson.head.id != mine and teaching.state == 'ready'")
    after = lesson.notebook.array("teaching.head()[-1].weight.detach().numpy()")
    np.testing.assert_allclose(after, before, atol=1e-4 * np.abs(before).max())


def test_a_held_button_gives_the_shoe_that_enters_to_its_class(lesson: Class) -> None:
    lesson.enters(7)
    hold = lesson.tab().locator("[data-class='sneaker']").get_by_role("button", name="Hold")
    hold.focus()
    lesson.notebook.page.keyboard.down(" ")
    frames(lesson.notebook.page, 60)
    lesson.notebook.page.keyboard.up(" ")
    lesson.notebook.until("teaching.counts['sneaker'] == 7 and teaching.state == 'ready'")
    kept = lesson.notebook.array("teaching.examples['sneaker'][-1]")
    shoe = scenes(shoes("sneaker"), 1)[-60:][2]  # the third of the sneakers that are shown
    np.testing.assert_array_equal(kept, np.repeat(shoe[..., None], 3, 2))


def test_the_file_is_taken_by_another_viewer(lesson: Class) -> None:
    lesson.notebook.run(
        "again = nbglcnn.Viewer(efficientnet_lite0(), preprocess=preprocess)"
        ".teach().load('shoes.safetensors')"
    )
    told = lesson.notebook.ask("print(again.state, again.stale, again.counts['sneaker'])")
    assert told.split() == ["ready", "0", "6"]
    same = "bool((again.features['sandal'] == teaching.features['sandal']).all())"
    assert lesson.notebook.ask(f"print({same})").strip() == "True"


def test_the_console_stays_clean(lesson: Class) -> None:
    """Last of this module: what it says is of all the tests before."""
    assert lesson.errors == []
