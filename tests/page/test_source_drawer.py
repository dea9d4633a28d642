"""The source drawer: its options for each kind of input, by keyboard, in little room, as text."""

from collections.abc import Callable

import msgspec
import numpy as np
import pytest
import torch
from playwright.sync_api import Page, expect
from torch import nn

import nbglcnn
from fake_camera import compile_network, open_camera_page
from sources_page import SourcesPage
from views_page import CLIPPED_ELEMENTS_SCRIPT, ViewsPage

ShowViews = Callable[..., ViewsPage]
# Counts listeners on the window and document, and elements that show pictures.
COUNT_DRAWER_ELEMENTS_SCRIPT = (
    "() => [open, document.querySelectorAll('canvas, video, input[type=file]').length]"
)
READ_KINDS_SCRIPT = "all => all.map((one) => one.dataset.kind)"
# Touch targets that are less than 40 px high, or extend beyond the view.
SMALL_TOUCH_TARGETS_SCRIPT = """() => [...document.querySelectorAll(
  '.nbg-drawer :is(button, select, summary, label, input:not([type=checkbox], [hidden])), '
  + '.nbg-bar :is(button, select)')].filter((element) => {
    const { height, width, left, right } = element.getBoundingClientRect();
    const inside = element.closest('label') !== null && element.tagName !== 'LABEL';
    return width > 0 && ((height < 39.5 && !inside) || left < 0 || right > innerWidth);
  }).map((element) => element.outerHTML.slice(0, 120))"""


def source_kinds(page: Page) -> list[str]:
    return list(page.locator(".nbg-kinds [data-kind]").evaluate_all(READ_KINDS_SCRIPT))


def focused_html(page: Page) -> str:
    return str(page.evaluate("() => document.activeElement?.outerHTML ?? ''"))


def test_the_drawer_opens_and_closes_by_keys_and_the_focus_goes_with_it(show: ShowViews) -> None:
    page = open_camera_page(show).page
    button = page.locator(".nbg-chosen-source")
    assert button.get_attribute("aria-expanded") == "false"
    expect(button).to_contain_text("Array")
    button.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".nbg-drawer")).to_be_visible()
    assert 'data-kind="picture"' in focused_html(page)
    assert button.get_attribute("aria-expanded") == "true"
    # The next Tab stops are the other sources, then the controls of the first one.
    page.keyboard.press("Tab")
    assert 'data-kind="webcam"' in focused_html(page)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Start the camera")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".nbg-drawer")).to_have_count(0)
    assert "nbg-chosen-source" in focused_html(page)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Close").click()
    expect(page.locator(".nbg-drawer")).to_have_count(0)


def test_only_what_an_input_takes_is_offered_and_why_is_said(show: ShowViews) -> None:
    page = open_camera_page(show).page
    page.locator(".nbg-chosen-source").click()
    assert source_kinds(page) == ["picture", "webcam", "video", "drawing", "noise"]
    plan = nbglcnn.compile(nn.Conv1d(2, 4, 3), torch.zeros(1, 2, 30))
    sourced = SourcesPage(show(plan, np.zeros((1, 2, 30), np.float32)), plan)
    sourced.open_drawer()
    assert source_kinds(sourced.page) == ["noise"]
    expect(sourced.page.locator(".nbg-source-why")).to_contain_text("takes 1×2×30 values")
    sourced.page.locator("[data-kind=noise]").click()
    sourced.wait_input_count(1)
    assert np.ptp(sourced.last_input) > 0


def test_which_of_several_inputs_is_fed_can_be_chosen(show: ShowViews) -> None:
    class Two(nn.Module):
        def forward(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
            return first.mean() + second

    arrays = [np.zeros((1, 1, 6, 5), np.float32), np.zeros((1, 3, 4, 4), np.float32)]
    plan = nbglcnn.compile(Two(), tuple(map(torch.from_numpy, arrays)))
    sourced = SourcesPage(show(plan, *arrays), plan)
    page = sourced.page
    sourced.open_drawer()
    page.get_by_label("Which input").select_option("second")
    expect(page.locator(".nbg-network-input")).to_contain_text("3×4×4 float32")
    page.locator("[data-kind=noise]").click()
    assert sourced.source["input"] == "second"
    expect(page.locator(".nbg-drawer pre")).to_have_text(
        'viewer.source = nbglcnn.Noise(0, mean=0.5, std=0.25, input="second")'
    )


def test_the_line_of_python_makes_the_same_source(show: ShowViews) -> None:
    sourced = open_camera_page(show)
    sourced.open_drawer()
    for source in (
        nbglcnn.Webcam(faces="environment", mirrored=False),
        nbglcnn.Webcam(),
        nbglcnn.Noise(5, mean=0.25, std=2.0),
        nbglcnn.Drawing(),
    ):
        sourced.set_source(**msgspec.to_builtins(source.to_record("x")))
        line = sourced.page.locator(".nbg-drawer pre").inner_text()
        assert line.startswith("viewer.source = ")
        made = eval(line.removeprefix("viewer.source = "), {"nbglcnn": nbglcnn})
        assert made == source, line


def test_the_lines_of_python_have_the_manipulations(show: ShowViews) -> None:
    sourced = open_camera_page(show)
    sourced.set_source("noise", seed=3, mean=0.5, std=0.1)
    sourced.wait_input_count(1)
    sourced.open_drawer()
    page = sourced.page
    for word in ("Invert", "Rotate"):
        page.get_by_label("Add a manipulation").select_option(label=word)
    page.locator(".nbg-manipulation[data-bend=invert] input[type=checkbox]").first.uncheck()
    lines = page.locator(".nbg-drawer pre").inner_text().split("\n")
    key = sourced.input_key.key
    assert lines == [
        "viewer.source = nbglcnn.Noise(3, mean=0.5, std=0.1)",
        "from nbglcnn import transforms",
        f'viewer.bend("{key}", transforms.invert(), enabled=False)',
        f'viewer.bend("{key}", transforms.rotate(15))',
    ]


def test_what_enters_the_network_is_shown_after_its_manipulations(show: ShowViews) -> None:
    sourced = open_camera_page(show)
    sourced.set_source("noise", seed=3, mean=0.5, std=0.1)
    sourced.wait_input_count(1)
    sourced.open_drawer()
    enters = sourced.page.locator(".nbg-network-input")
    x = sourced.last_input
    expect(enters).to_contain_text("1×20×26 float32")
    expect(enters).to_contain_text(f"mean {x.mean():.2f} · std {x.std():.2f}")
    bend = {
        "layer": sourced.input_key.key, "name": "invert", "transform": "invert", "parameters": [],
        "channels": None, "mix": 1, "enabled": True, "source": "",
        "parameter_names": [], "array_hash": "",
        "is_frozen": False,
    }  # fmt: skip
    sourced.views.set(currentEdits={"edits": [{**bend, "transform": "multiply", "parameters": [0.5],
                                         "name": "multiply"}], "weights": 0})  # fmt: skip
    expect(enters).to_contain_text(f"mean {x.mean() / 2:.2f} · std {x.std() / 2:.3f}"[:11])
    np.testing.assert_array_equal(sourced.last_input, x)  # a source's value is before edits


@pytest.mark.parametrize("width", [420, 600, 848, 1200])
def test_nothing_is_cut_off_and_fingers_hit_what_is_there(show: ShowViews, width: int) -> None:
    sourced = open_camera_page(show, width=width)
    page = sourced.page
    images = np.zeros((300, 1, 20, 26), np.uint8)
    fields = sourced.add_dataset(images, 100, [k % 3 for k in range(300)], ["one", "two", "three"])
    sourced.set_source("images", index=7, title="A data set with a long name of its own", **fields)
    sourced.wait_input_count(1)
    sourced.open_drawer()
    for kind in ("images", "webcam", "picture", "video", "drawing", "noise"):
        page.locator(f"[data-kind={kind}]").click()
        sourced.views.wait_idle()
        clipped = [
            one for one in page.evaluate(CLIPPED_ELEMENTS_SCRIPT) if "nbg-source-title" not in one
        ]
        assert not clipped, kind
        if width == 420:
            assert not page.evaluate(SMALL_TOUCH_TARGETS_SCRIPT), kind
        widest = page.evaluate("() => document.documentElement.scrollWidth")
        assert widest <= width, kind


def test_a_source_leaves_nothing_behind(show: ShowViews) -> None:
    """Twenty times on and off: no more listeners, videos or canvases than after two."""
    sourced = open_camera_page(show)
    page = sourced.page
    page.evaluate(
        """() => {
          globalThis.open = 0;
          const { addEventListener: add, removeEventListener: remove } = EventTarget.prototype;
          for (const target of [window, document]) {
            target.addEventListener = (...all) => { open++; add.apply(target, all); };
            target.removeEventListener = (...all) => { open--; remove.apply(target, all); };
          }
        }"""
    )
    counts = []
    for k in range(20):
        page.evaluate("() => { views.state.isDrawerOpen.value = true; }")
        for kind in ("drawing", "noise", "webcam"):
            sourced.set_source(kind, **({"seed": k} if kind == "noise" else {}))
        page.evaluate("() => { views.state.source.value = null; }")
        page.evaluate("() => { views.state.isDrawerOpen.value = false; }")
        counts.append(page.evaluate(COUNT_DRAWER_ELEMENTS_SCRIPT))
    assert counts[-1] == counts[2]
    plan, _ = compile_network()
    assert plan.header.inputs[0].fit == "crop"
