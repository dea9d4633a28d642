"""The parity check of exported pages: stored samples against the values of the reader's device."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from playwright.sync_api import Locator, Page, expect
from torch import nn

import nbglcnn
from exported_html import read_export
from fault_injection import (
    CORRUPT_UPLOADS_SCRIPT,
    LAST_EXAMPLE_VALUE,
    MISCOMPILE_ALL_REPLACEMENT,
    MISCOMPILE_SCRIPT,
    SKIP_DRAWS_SCRIPT,
)
from nbglcnn import transforms
from viewer_models import LargeProducts, autoencoder, pictures

RUN_INPUT_SCRIPT = """async (numbers) => {
  await (await window.nbglcnn).run(new Float32Array(numbers));
}"""
ALL_MATCH_TEXT = "10 of 10 layers match PyTorch"


@pytest.fixture
def open_offline(exported_page: Callable[..., Page]) -> Callable[..., Page]:
    return partial(exported_page, viewport={"width": 1400, "height": 900})


def status_line(page: Page) -> Locator:
    return page.locator(".nbg-status")


@pytest.fixture(scope="module")
def page_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("samples") / "page.html"
    return nbglcnn.export_html(autoencoder(3), pictures(3), file)


def test_a_page_says_on_its_readers_device_how_many_layers_match(
    open_offline: Callable[..., Page], page_path: Path, backend: str
) -> None:
    line = status_line(open_offline(page_path, backend))
    expect(line).to_contain_text(ALL_MATCH_TEXT)
    expect(line).to_contain_text("in samples of each, at ")
    expect(line).not_to_contain_text("not compared")


def test_samples_are_few_numbers_at_places_that_do_not_change(
    page_path: Path, tmp_path: Path
) -> None:
    exported, blobs = read_export(page_path)
    samples, numbers = exported["parity_samples"], np.frombuffer(blobs[-1], np.float32)
    assert exported["blobs"] == ["samples"] and exported["unchecked_reason"] == ""
    assert numbers.size <= 64 * len(samples["keys"])
    again = nbglcnn.export_html(autoencoder(3), pictures(3), tmp_path / "again.html")
    other, others = read_export(again)
    assert other["parity_samples"] == samples and others[-1] == blobs[-1]


def test_a_device_that_computes_wrong_is_told_where_it_first_differs(
    open_offline: Callable[..., Page], page_path: Path
) -> None:
    wrong = f"{MISCOMPILE_SCRIPT}; window.miscompiled = [{MISCOMPILE_ALL_REPLACEMENT}];"
    line = status_line(open_offline(page_path, script=wrong))
    expect(line).to_contain_text("first difference at encoder.0")
    expect(line).not_to_contain_text(ALL_MATCH_TEXT)


def test_a_device_that_goes_wrong_later_is_noticed_without_python(
    open_offline: Callable[..., Page], page_path: Path
) -> None:
    page = open_offline(page_path, script=SKIP_DRAWS_SCRIPT)
    line = status_line(page)
    expect(line).to_contain_text(ALL_MATCH_TEXT)
    page.evaluate("() => { window.skips = true; }")
    page.evaluate(RUN_INPUT_SCRIPT, pictures(3).ravel().tolist())  # run its own example again
    expect(line).to_contain_text("first difference at")
    expect(line).not_to_contain_text(ALL_MATCH_TEXT)


def test_what_is_shown_of_another_input_is_said_not_to_be_compared(
    open_offline: Callable[..., Page], page_path: Path
) -> None:
    page = open_offline(page_path)
    line = status_line(page)
    expect(line).to_contain_text(ALL_MATCH_TEXT)
    page.evaluate(RUN_INPUT_SCRIPT, pictures(4).ravel().tolist())
    expect(line).to_contain_text("the current values are not compared: another input")
    page.evaluate(RUN_INPUT_SCRIPT, pictures(3).ravel().tolist())
    expect(line).not_to_contain_text("not compared")


def test_bends_of_a_page_are_in_its_samples_and_others_are_not_compared(
    open_offline: Callable[..., Page], tmp_path: Path
) -> None:
    viewer = nbglcnn.Viewer(autoencoder(3), pictures(3))
    viewer.bend("encoder.1", transforms.rotate(20), channels=[0, 2])
    page = open_offline(viewer.to_html(tmp_path / "bent.html"))
    viewer.close()
    line = status_line(page)
    expect(line).to_contain_text(f"{ALL_MATCH_TEXT}")
    expect(line).to_contain_text("with bends applied")
    page.evaluate("async () => (await window.nbglcnn).edit([])")
    expect(line).to_contain_text("the current values are not compared: other bends")


@pytest.mark.parametrize("count", [2, 3, 5])
def test_equal_examples_are_equal_to_the_bit_in_a_page(
    open_offline: Callable[..., Page], tmp_path: Path, count: int
) -> None:
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 16 * 20, 7))
    x = np.concatenate([pictures(5)[:1]] * count)
    path = nbglcnn.export_html(model.eval(), x, tmp_path / "twins.html")
    assert len(read_export(path)[0]["parity_samples"]["equal_examples"]) >= 4
    expect(status_line(open_offline(path))).to_contain_text("4 of 4 layers match PyTorch")


def test_equal_examples_that_differ_by_a_bit_are_told_though_each_matches(
    open_offline: Callable[..., Page], tmp_path: Path
) -> None:
    model = nn.Sequential(nn.Conv2d(1, 3, 1), nn.ReLU()).eval()
    nn.init.ones_(model[0].weight)
    example = pictures(5)[:1].copy()
    example.ravel()[-1] = LAST_EXAMPLE_VALUE
    path = nbglcnn.export_html(model, np.concatenate([example] * 3), tmp_path / "twins.html")
    expect(status_line(open_offline(path))).to_contain_text("2 of 2 layers match PyTorch")
    line = status_line(open_offline(path, script=CORRUPT_UPLOADS_SCRIPT))
    expect(line).to_contain_text("example 2 of 0 differs from example 0, which has the same input")
    expect(line).to_contain_text("first difference at 0")


@pytest.mark.parametrize(
    ("why", "given"),
    [
        ("this page trains the network", {"train": {"data": pictures(6), "steps": 3}}),
    ],
)
def test_a_page_without_samples_says_why(
    open_offline: Callable[..., Page], tmp_path: Path, why: str, given: dict[str, object]
) -> None:
    path = nbglcnn.export_html(autoencoder(3), pictures(3), tmp_path / "page.html", **given)
    assert read_export(path)[0]["parity_samples"] is None
    expect(status_line(open_offline(path))).to_contain_text(f"not compared: {why}")


@pytest.mark.parametrize(
    ("bend", "why"),
    [
        (transforms.threshold(0.1), "a threshold may decide by an element's last digit"),
        (transforms.glsl("y = x * x"), "is written in GLSL"),
    ],
)
def test_bends_that_no_framework_has_to_the_digit_leave_the_samples_out(
    tmp_path: Path, bend: transforms.Transform, why: str
) -> None:
    viewer = nbglcnn.Viewer(autoencoder(3), pictures(3))
    viewer.bend("encoder.1", bend)
    exported, _ = read_export(viewer.to_html(tmp_path / "bent.html"))
    viewer.close()
    assert exported["parity_samples"] is None and why in exported["unchecked_reason"]


def test_a_page_in_float16_names_the_layer_whose_numbers_leave_it(
    open_offline: Callable[..., Page], tmp_path: Path
) -> None:
    x = torch.rand(1, 1, 5, 6) + 1
    torch.manual_seed(0)
    path = nbglcnn.export_html(
        LargeProducts().eval(), x, tmp_path / "narrow.html", precision="float16"
    )
    line = status_line(open_offline(path))
    expect(line).to_contain_text("Values exceed the float16 range, first in wide.")
    expect(line).to_contain_text('Export the page with precision="float32"')
    expect(line.get_by_role("button", name="Use float32")).to_have_count(0)
