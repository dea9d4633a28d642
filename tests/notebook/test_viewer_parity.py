"""The parity check in real JupyterLab: all values are checked, and wrong ones are repaired."""

import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, Locator, expect
from torch import nn

import nbglcnn
from assertions import assert_equal
from fault_injection import (
    CORRUPT_UPLOADS_SCRIPT,
    LAST_EXAMPLE_VALUE,
    LOSE_CONTEXT_AT_SCRIPT,
    MISCOMPILE_ALL_REPLACEMENT,
    MISCOMPILE_SCRIPT,
    SKIP_DRAWS_SCRIPT,
)
from jupyter_lab import LabServer, Notebook, new_notebook
from nbglcnn.widget.parity import (
    SPAN_TEXELS,
    SPANS_PER_VALUE,
    plan_spans,
    split_samples,
    take_spans,
    value_spans,
)
from polling import retry_until_passes
from viewer_models import IMPORTS_CELL, autoencoder, hook_values, pictures

FAST_KERNEL_REPLACEMENT = [
    "MORE_ROWS",
    "finish(found, a0",
    "finish(found, 1.01 * a0",
]  # conv_patch.glsl


@pytest.fixture(scope="module")
def notebook(lab: LabServer, browser: Callable[[str], Browser]) -> Iterator[Notebook]:
    with new_notebook(
        lab, browser("llvmpipe"), script=MISCOMPILE_SCRIPT + SKIP_DRAWS_SCRIPT
    ) as notebook:
        notebook.run(IMPORTS_CELL)
        yield notebook


def parity_status(notebook: Notebook) -> str:
    """The parity text of `viewer.status`, once there is one."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = notebook.evaluate_silently("print(viewer.status['parity'])").strip()
        if found:
            return found
        notebook.page.wait_for_timeout(100)
    raise AssertionError("no parity check was made")


def show_viewer(notebook: Notebook, seed: int) -> None:
    notebook.run("ipywidgets.Widget.close_all()")  # their shared shaders are freed too
    notebook.delete_cells()
    notebook.run(f"viewer = Viewer(autoencoder({seed}), pictures({seed}))\nviewer")


def test_each_layer_is_looked_at_without_being_asked(notebook: Notebook) -> None:
    show_viewer(notebook, 90)
    found = parity_status(notebook)
    assert found.startswith("10 of 10 layers match PyTorch")
    assert "llvmpipe" in found and found.endswith("on samples of each")
    line = notebook.page.locator(".nbglcnn").last.locator(".nbg-status")
    expect(line).to_contain_text("10 of 10 layers match PyTorch")
    expect(line).to_contain_text("in samples of each")
    report = notebook.run("print(viewer.report())").text
    assert "parity check" in report and "10 of 10 layers match PyTorch" in report
    # For another input only verify() checks every value.
    notebook.run("viewer.input = pictures(91); viewer.verify()")
    expect(line).to_contain_text("10 of 10 layers match PyTorch")
    expect(line).not_to_contain_text("in samples")
    notebook.run("viewer.input = pictures(92)")
    expect(line).to_contain_text("in samples of each")


def test_a_driver_that_miscompiles_the_fast_kernels_gets_plain_ones(notebook: Notebook) -> None:
    notebook.page.evaluate("all => { window.miscompiled = all; }", [FAST_KERNEL_REPLACEMENT])
    try:
        show_viewer(notebook, 93)
        found = parity_status(notebook)
        assert found.startswith("10 of 10 layers match PyTorch")
        assert found.endswith("in slow mode, since the faster shaders computed wrong values")
        line = notebook.page.locator(".nbglcnn").last.locator(".nbg-status")
        expect(line).to_contain_text("Slow mode: the fast mode gives wrong values on this device")
        expect(line).to_contain_text("10 of 10 layers match PyTorch")
        notebook.run("values = viewer.activations.to_dict()")
        for key, true in hook_values(autoencoder(93), pictures(93)).items():
            assert_equal(notebook.read_array(f"values[{key!r}]"), true)
        assert "slow mode" in notebook.run("print(viewer.report())").text
    finally:
        notebook.page.evaluate("() => { window.miscompiled = []; }")


def test_what_no_kernel_mends_is_said_and_the_fast_ones_stay(notebook: Notebook) -> None:
    notebook.page.evaluate("all => { window.miscompiled = all; }", [MISCOMPILE_ALL_REPLACEMENT])
    try:
        show_viewer(notebook, 94)
        found = parity_status(notebook)
        assert "the first that is not: encoder.0" in found
        assert "slow mode" not in found
        line = notebook.page.locator(".nbglcnn").last.locator(".nbg-status")
        expect(line).to_contain_text("first difference at encoder.0")
        report = notebook.run("print(viewer.report())").text
        assert "layers match PyTorch" in report and "encoder" not in report
    finally:
        notebook.page.evaluate("() => { window.miscompiled = []; }")


def status_line(notebook: Notebook) -> Locator:
    return notebook.page.locator(".nbglcnn").last.locator(".nbg-status")


def test_a_device_that_goes_wrong_after_the_first_check_is_noticed(notebook: Notebook) -> None:
    show_viewer(notebook, 95)
    assert parity_status(notebook).startswith("10 of 10 layers match PyTorch")
    line = status_line(notebook)
    expect(line).to_contain_text("10 of 10 layers match PyTorch")
    notebook.page.evaluate("() => { window.skips = true; }")
    try:
        notebook.run("viewer.input = pictures(96)")
        expect(line).to_contain_text("first difference at")
        expect(line).not_to_contain_text("10 of 10 layers")
    finally:
        notebook.page.evaluate("() => { window.skips = false; }")
    # After the tenth run, it is checked again.
    notebook.run("for seed in range(100, 112): viewer.run(pictures(seed))")
    expect(line).to_contain_text("10 of 10 layers match PyTorch")


def test_a_device_that_goes_wrong_is_noticed_beside_a_live_source(notebook: Notebook) -> None:
    notebook.run("ipywidgets.Widget.close_all()")
    notebook.delete_cells()
    notebook.run(
        "import nbglcnn\n"
        "images = np.random.default_rng(3).integers(0, 256, (3000, 22, 18), np.uint8)\n"
        "viewer = Viewer(autoencoder(97), pictures(97, 1))\n"
        "viewer.source = nbglcnn.Images(images, playing=True, rate=20)\nviewer"
    )
    line = status_line(notebook)
    expect(line).to_contain_text("10 of 10 layers match PyTorch")
    notebook.page.evaluate("() => { window.skips = true; }")
    try:
        expect(line).to_contain_text("first difference at")
        assert notebook.evaluate_silently("print(viewer.source.playing)").strip() == "True"
    finally:
        notebook.page.evaluate("() => { window.skips = false; }")


def test_equal_examples_that_differ_by_a_bit_after_the_first_check_are_noticed(
    notebook: Notebook,
) -> None:
    notebook.run("ipywidgets.Widget.close_all()")
    notebook.delete_cells()
    notebook.run(
        "one, two = pictures(97, 1), pictures(98, 1)\n"
        f"one.ravel()[-1] = two.ravel()[-1] = {LAST_EXAMPLE_VALUE}\n"
        "model = nn.Sequential(nn.Conv2d(1, 3, 1), nn.ReLU()).eval()\n"
        "nn.init.ones_(model[0].weight)\n"
        "viewer = Viewer(model, np.concatenate([one, one, one]))\nviewer"
    )
    line = status_line(notebook)
    expect(line).to_contain_text("2 of 2 layers match PyTorch")
    notebook.page.evaluate(f"() => {{ {CORRUPT_UPLOADS_SCRIPT} }}")
    at = (
        "print(viewer._parity.find_verdict(viewer._connection.active_page, viewer.network.plan)"
        ".timestamp)"
    )
    first = notebook.evaluate_silently(at)
    notebook.run("viewer.input = np.concatenate([two, one, one])")
    expect(line).to_contain_text("example 2 of 0 differs from example 1, which has the same input")
    assert notebook.evaluate_silently(at) != first


def test_a_lost_context_is_followed_by_another_check(notebook: Notebook) -> None:
    show_viewer(notebook, 98)
    line = status_line(notebook)
    expect(line).to_contain_text("10 of 10 layers match PyTorch")
    now = (
        "print(viewer._parity.find_verdict(viewer._connection.active_page, viewer.network.plan)"
        ".timestamp)"
    )
    first = notebook.evaluate_silently(now)
    notebook.page.evaluate(LOSE_CONTEXT_AT_SCRIPT, "drawArrays")
    notebook.run("viewer.input = pictures(99)")

    def is_later() -> None:
        assert notebook.evaluate_silently(now) != first

    retry_until_passes(notebook.page, is_later)
    expect(line).to_contain_text("10 of 10 layers match PyTorch")


@pytest.mark.parametrize("shape", [(1, 3, 50, 40), (2, 5, 3, 3), (1, 1, 1, 1), (3, 130, 65, 1)])
def test_samples_are_the_elements_that_lie_there(shape: tuple[int, ...]) -> None:
    model = nn.Sequential(nn.Conv2d(shape[1], 6, 1), nn.ReLU()).eval()
    plan = nbglcnn.compile(model, torch.zeros(shape))
    for value in plan.values:
        width, height = value.readback.draw_pass.viewport
        bands = value_spans(value)
        assert 1 <= len(bands) <= SPANS_PER_VALUE
        assert all(0 < w <= SPAN_TEXELS and x + w <= width and y < height for x, y, w in bands)
        texels = np.zeros(width * height * 4, np.float32)
        texels[: value.readback.count] = np.arange(value.readback.count)
        found = take_spans(value, texels[: value.readback.count], bands)
        sent = [texels[4 * (y * width + x) :][: 4 * w] for x, y, w in bands]
        expected = np.concatenate(sent)
        assert_equal(found, expected[: len(found)])
        assert found[0] == 0 and found[-1] == value.readback.count - 1  # both ends are sampled
    asked = plan_spans(plan)
    assert list(asked) == plan.computed
    count = sum(4 * w for bands in asked.values() for _, _, w in bands)
    assert split_samples(plan, np.zeros(count, np.float32)) is not None
    assert split_samples(plan, np.zeros(count + 4, np.float32)) is None
