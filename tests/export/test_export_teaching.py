"""Exported pages with teaching: opened from disk, network off, in Chromium and Firefox."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from playwright.sync_api import Page, expect
from torch import nn

import nbglcnn
from accessibility import AXE_SCRIPT, RULES, RUN_AXE_SCRIPT
from firefox import FirefoxPage, firefox_page, missing_packages
from nbglcnn import InputError, Viewer
from readability import assert_checks_detect, layout_faults_by_width
from teaching_data import FAKE_CAMERA_SCRIPT, bar_pictures

sys.path.insert(0, str(Path(__file__).parents[2] / "notebooks"))
from fashion_autoencoder import load_autoencoder
from polling import wait_frames

CLICK_SCRIPT = """(selector) => {
  const found = [...document.querySelectorAll(selector)];
  found[0].scrollIntoView({ block: 'center' });
  found[0].click();
}"""
COLLECT_BUTTON_SELECTOR = "[data-class='{}'] .nbg-collect"
SCROLL_INTO_VIEW_SCRIPT = """(selector) => {
  const found = document.querySelector(selector);
  found.scrollIntoView({ block: 'center' });
  const { left, top, width, height } = found.getBoundingClientRect();
  return [left + width / 2, top + height / 2];
}"""
EXAMPLE_COUNT_SCRIPT = (
    "Number(document.querySelector(\"[data-class='{}'] [data-count]\").dataset.count)"
)
IS_VERDICT_SCRIPT = "document.querySelector('[data-verdict]')?.dataset.verdict === '{}'"
READ_PROBABILITIES_SCRIPT = """async () => {
  const page = await window.nbglcnn;
  const value = [...await page.read('encoder.6')];
  await new Promise((done) => setTimeout(done, 500));
  const shown = [...document.querySelectorAll('[data-probability]')];
  return { value, chances: shown.map((one) => Number(one.dataset.probability)) };
}"""


@pytest.fixture
def open_offline(exported_page: Callable[..., Page]) -> Callable[..., Page]:
    """`exported_page` with a viewport of 1300×1000."""
    return partial(exported_page, viewport={"width": 1300, "height": 1000})


def wait_for_condition(page: Page | FirefoxPage, expression: str) -> None:
    page.wait_for_function(f"() => {expression}", timeout=60_000)


def teach_by_camera(page: Page | FirefoxPage) -> None:
    """Teach two classes by the camera, and check that they are distinguished."""
    page.evaluate(FAKE_CAMERA_SCRIPT)
    page.evaluate("async () => { await window.nbglcnn; }")
    page.evaluate(CLICK_SCRIPT, ".nbg-chosen-source")
    wait_for_condition(page, "document.querySelector('[data-kind=webcam]')")
    page.evaluate(CLICK_SCRIPT, "[data-kind=webcam]")
    words = "one.innerText === 'Start the camera'"
    start = f"[...document.querySelectorAll('button')].find((one) => {words})"
    wait_for_condition(page, start)
    page.evaluate(f"() => {start}.click()")
    wait_for_condition(
        page, "/[1-9][0-9]* pictures.s/.test(document.querySelector('.nbglcnn').innerText)"
    )
    page.evaluate(CLICK_SCRIPT, ".nbg-drawer-close")
    for kind in ("cup", "hand"):
        page.evaluate("(kind) => { camera.shows = kind; }", kind)
        wait_frames(page, 90)
        x, y = page.evaluate(SCROLL_INTO_VIEW_SCRIPT, COLLECT_BUTTON_SELECTOR.format(kind))
        page.mouse.move(x, y)
        page.mouse.down()
        try:
            wait_for_condition(page, f"{EXAMPLE_COUNT_SCRIPT.format(kind)} >= 8")
        finally:
            page.mouse.up()
    wait_for_condition(page, IS_VERDICT_SCRIPT.format("hand"))
    for kind in ("cup", "hand"):
        page.evaluate("(kind) => { camera.shows = kind; }", kind)
        wait_for_condition(page, IS_VERDICT_SCRIPT.format(kind))


def test_the_camera_teaches_two_classes_in_a_page(
    open_offline: Callable[[Path], Page], tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    nbglcnn.export_html(load_autoencoder(), torch.zeros(1, 1, 28, 28), path, teach=["cup", "hand"])
    page = open_offline(path)
    teach_by_camera(page)
    expect(page.locator(".nbg-teach")).to_contain_text("Pictures never leave this page.")
    page.get_by_role("button", name="Pause the source").click()
    wait_frames(page, 60)
    now = page.evaluate(READ_PROBABILITIES_SCRIPT)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save to a file").click()
    file = tmp_path / "taught.safetensors"
    download.value.save_as(file)
    saved = safetensors.torch.load_file(file)
    logits = saved["weight"] @ torch.tensor(now["value"]) + saved["bias"]
    np.testing.assert_allclose(now["chances"], torch.softmax(logits, 0), atol=1e-5)
    # The fitted head is PyTorch's optimum, and its features match its pictures.
    viewer = Viewer(load_autoencoder(), torch.zeros(1, 1, 28, 28))
    teaching = viewer.teach().load(file)
    assert (teaching.state, teaching.stale, teaching.accuracy) == ("ready", 0, 1.0)
    head = teaching.train()
    scale = saved["weight"].abs().max()
    torch.testing.assert_close(head[-1].weight, saved["weight"], atol=1e-5 * scale, rtol=0)
    before = np.concatenate(list(teaching.features.values()))
    teaching.compute_again()
    after = np.concatenate(list(teaching.features.values()))
    np.testing.assert_allclose(after, before, atol=0.02 * np.abs(before).max())


def test_what_a_viewer_has_taught_goes_along(
    open_offline: Callable[[Path], Page], tmp_path: Path
) -> None:
    viewer = Viewer(load_autoencoder(), torch.zeros(1, 1, 28, 28))
    with pytest.raises(InputError, match="this Viewer has no lesson"):
        viewer.to_html(tmp_path / "page.html", teach=True)
    teaching = viewer.teach(examples={n: bar_pictures(n, 5) for n in ("cup", "hand")})
    teaching.train()
    viewer.input = bar_pictures("hand", 1, seed=4)[:, None].astype(np.float32) / 255
    plain = viewer.to_html(tmp_path / "plain.html")
    path = viewer.to_html(tmp_path / "page.html", teach=True)
    page = open_offline(path)
    expect(page.get_by_role("tab", name="Teach")).to_have_attribute("aria-selected", "true")
    expect(page.locator("canvas[data-example=here]")).to_have_count(10)
    expect(page.locator("[data-verdict]")).to_have_attribute("data-verdict", "hand")
    now = page.evaluate(READ_PROBABILITIES_SCRIPT)
    np.testing.assert_allclose(now["chances"], list(teaching.probabilities.values()), atol=1e-5)
    page.get_by_role("button", name="Train").click()
    expect(page.locator("[data-busy='']")).to_contain_text("Trained on 10 examples")
    again = page.evaluate(READ_PROBABILITIES_SCRIPT)
    np.testing.assert_allclose(again["chances"], now["chances"], atol=1e-5)
    file = teaching.save(tmp_path / "saved.safetensors")
    page.get_by_role("button", name="Remove class cup").click()
    expect(page.locator("canvas[data-example=here]")).to_have_count(5)
    page.locator("input[accept='.safetensors']").set_input_files(file)
    expect(page.locator("canvas[data-example=here]")).to_have_count(10)
    page.locator("input[accept='.safetensors']").set_input_files(path)
    expect(page.get_by_role("alert")).to_contain_text("not an nbglcnn lesson file")
    # A page without teaching has no tab for it.
    other = open_offline(plain)
    other.evaluate("async () => { await window.nbglcnn; }")
    expect(other.get_by_role("tab", name="Teach")).to_have_count(0)


def test_a_large_value_is_averaged_in_the_page_too(
    open_offline: Callable[[Path], Page], tmp_path: Path
) -> None:
    torch.manual_seed(5)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 1)).eval()
    viewer = Viewer(model, torch.zeros(1, 1, 28, 28))
    teaching = viewer.teach(examples={n: bar_pictures(n, 5) for n in ("cup", "hand")}, cut="1")
    assert teaching.averaged
    teaching.train()
    viewer.input = bar_pictures("hand", 1, seed=4)[:, None].astype(np.float32) / 255
    page = open_offline(viewer.to_html(tmp_path / "page.html", teach=True))
    expect(page.locator("[data-probability]")).to_have_count(2)
    shown = page.locator("[data-probability]").evaluate_all(
        "(bars) => bars.map((bar) => Number(bar.dataset.probability))"
    )
    np.testing.assert_allclose(shown, list(teaching.probabilities.values()), atol=1e-5)


def test_what_a_page_cannot_teach_is_said(tmp_path: Path) -> None:
    model, x = load_autoencoder(), torch.zeros(2, 1, 28, 28)
    path = tmp_path / "page.html"
    with pytest.raises(InputError, match="a page supports only one of them"):
        nbglcnn.export_html(model, x, path, teach=["a", "b"], train={"data": x})
    with pytest.raises(InputError, match="unknown class 'class'"):
        nbglcnn.export_html(model, x, path, teach={"class": ["a", "b"]})
    with pytest.raises(InputError, match="a network that takes pictures"):
        nbglcnn.export_html(nn.Linear(4, 2), torch.zeros(1, 4), path, teach=["a", "b"])
    step: dict[str, Any] = {"text": "", "view": {"name": "teach"}}
    with pytest.raises(InputError, match="step 1: the view 'teach' needs"):
        nbglcnn.export_html(model, x, path, steps=[step])
    # From a batch it takes the first example.
    nbglcnn.export_html(model, x, path, teach={"classes": ["a", "b"]}, steps=[step])
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.sweep
def test_the_camera_teaches_two_classes_in_firefox(tmp_path: Path) -> None:
    if missing := missing_packages():
        pytest.skip(f"apt-get install {' '.join(missing)}")
    path = tmp_path / "page.html"
    nbglcnn.export_html(load_autoencoder(), torch.zeros(1, 1, 28, 28), path, teach=["cup", "hand"])
    with firefox_page(tmp_path / "profile") as page:
        page.goto(path.as_uri())
        teach_by_camera(page)
        page.evaluate("() => document.querySelector('.nbg-teach').scrollIntoView()")


LONG_CLASS_NAME = "a hand that waves from right to left"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_tab_breaks_no_serious_rule_of_accessibility_and_can_be_read(
    open_offline: Callable[[Path], Page],
    tmp_path: Path,
    sweep_widths: Callable[..., tuple[int, ...]],
    theme: str,
) -> None:
    viewer = Viewer(load_autoencoder(), torch.zeros(1, 1, 28, 28))
    teaching = viewer.teach(examples={n: bar_pictures(n[:3], 5) for n in ("cup", LONG_CLASS_NAME)})
    teaching.train()
    page = open_offline(viewer.to_html(tmp_path / "page.html", teach=True))
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    expect(page.locator("[data-verdict]")).to_be_visible()
    page.get_by_role("button", name="Add class").click()  # a class without examples
    page.get_by_label("Name of the class cup").fill("")
    page.evaluate(AXE_SCRIPT.read_text("utf-8"))
    for width in (1200, 420):
        page.set_viewport_size({"width": width, "height": 1000})
        page.wait_for_timeout(300)
        assert page.evaluate(RUN_AXE_SCRIPT, RULES[theme]) == []
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    widths = sweep_widths(*((620, 1120) if theme == "light" else (848,)))
    assert layout_faults_by_width(page, widths) == {}
    page.locator(".nbg-chosen-source").click()
    page.locator("[data-kind=drawing]").click()
    assert layout_faults_by_width(page, widths) == {}, "with the drawer above"
    if theme == "light":
        assert_checks_detect(
            page,
            {
                ".nbg-taught-name > input { width: 150px }": "cut off",
                ".nbg-taught-tools { margin-top: -30px }": "over each other",
                ".nbg-taught-thumbs { margin-top: -30px }": "over a picture",
                ".nbg-collect { width: 50px; overflow: hidden; white-space: nowrap }": "cut off",
                ".nbg-teach-bars { font-size: 10px !important }": "letters of 10",
            },
        )
