"""The page's WebGL session: values, statistics, weights, and what it frees."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import nbglcnn
from carrier import LAYOUTS, carrier, odd_values
from equal import assert_equal
from page import GlPage
from summaries import check_histogram, check_summary

RANDOM = np.random.default_rng(3)
IMAGES = RANDOM.standard_normal((2, 3, 13, 19)).astype(np.float32)


@pytest.fixture(scope="module")
def model() -> nn.Sequential:
    """Maps in blocks and in quadrants, odd sizes and channels."""
    torch.manual_seed(7)
    return nn.Sequential(
        nn.Conv2d(3, 5, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(5, 5, 3, stride=2, padding=1),
        nn.ConvTranspose2d(5, 6, 4, stride=2, padding=1),
        nn.Sigmoid(),
        nn.Flatten(),
    ).eval()


@pytest.fixture(scope="module")
def plan(model: nn.Sequential) -> nbglcnn.Plan:
    return nbglcnn.compile(model, IMAGES)


def test_statistics_equal_numpy(gl: GlPage) -> None:
    for name, layout in LAYOUTS.items():
        session = gl.open(carrier(layout))
        array = odd_values(layout.nchw)
        gl.write(session, "x", array)
        image = layout.nchw[0] - 1
        found = gl.statistics(session, "x", image)
        assert len(found["channels"]) == layout.nchw[1]
        check_summary(found["layer"], array[image], name)
        for c, channel in enumerate(found["channels"]):
            check_summary(channel, array[image, c], f"{name}, channel {c}")


def test_numbers_of_channels_come_without_holding_the_page(gl: GlPage, plan: nbglcnn.Plan) -> None:
    session = gl.open(plan)
    gl.write(session, "input", IMAGES)
    gl.run(session)
    gl.page.evaluate(
        """() => {
          globalThis.waits = 0;
          const { readPixels } = WebGL2RenderingContext.prototype;
          WebGL2RenderingContext.prototype.readPixels = function (...given) {
            if (typeof given[6] === "object") globalThis.waits += 1;
            readPixels.apply(this, given);
          };
        }"""
    )
    for key in ("input", "0"):
        assert gl.statistics(session, key)["channels"]
        assert gl.histogram(session, key, 20)
    assert gl.page.evaluate("waits") == 0
    gl.read(session, "0")
    assert gl.page.evaluate("waits") == 1


def test_histograms_equal_numpy(gl: GlPage) -> None:
    for name, layout in LAYOUTS.items():
        session = gl.open(carrier(layout))
        array = odd_values(layout.nchw)
        gl.write(session, "x", array)
        n, c = layout.nchw[:2]
        for image, bins in ((n - 1, 44), (0, 17), (n - 1, 2)):
            check_histogram(gl.histogram(session, "x", bins, image), array[image], bins, name)
        for channel in {0, c // 2, c - 1}:
            found = gl.histogram(session, "x", 60, n - 1, channel)
            check_histogram(found, array[n - 1, channel], 60, f"{name}, channel {channel}")


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(lambda shape: np.full(shape, -2.5), id="constant"),
        pytest.param(lambda shape: np.zeros(shape), id="zeros"),
        pytest.param(lambda shape: np.full(shape, 1e30), id="large constant"),
        pytest.param(lambda shape: RANDOM.integers(0, 11, shape), id="on edges"),
        pytest.param(lambda shape: RANDOM.standard_normal(shape) * 3e37, id="large"),
        pytest.param(lambda shape: 1 + RANDOM.random(shape) * 2e-7, id="neighbours"),
    ],
)
def test_histograms_of_hard_values_equal_numpy(
    gl: GlPage, values: Callable[[tuple[int, ...]], np.ndarray]
) -> None:
    """Of a run that the question itself starts, and of the next one."""
    layout = LAYOUTS["2x2 pixels"]
    session = gl.open(carrier(layout))
    for sign in (1, -1):
        array = (sign * values(layout.nchw)).astype(np.float32)
        gl.write(session, "x", array)
        check_histogram(gl.histogram(session, "x", 10, 1), array[1], 10, f"times {sign}")


@pytest.mark.parametrize("offset, scale", [(1e4, 1), (0, 1e38), (0, 1e-30), (-5, 0)])
def test_statistics_neither_cancel_nor_overflow(gl: GlPage, offset: float, scale: float) -> None:
    layout = LAYOUTS["large map"]
    array = (RANDOM.standard_normal(layout.nchw) * scale / 2 + offset).astype(np.float32)
    session = gl.open(carrier(layout))
    gl.write(session, "x", array)
    found = gl.statistics(session, "x")["layer"]
    exact = array.astype(np.float64)
    assert found["mean"] == pytest.approx(exact.mean(), rel=1e-5, abs=1e-6 * np.abs(exact).max())
    assert found["std"] == pytest.approx(exact.std(), rel=1e-3, abs=1e-6 * np.abs(exact).max())


def test_an_unknown_device_is_measured(gl: GlPage, plan: nbglcnn.Plan) -> None:
    """And what that needs is freed."""
    session = gl.open(plan)
    before = gl.alive()
    found = gl.page.evaluate("() => gl.probe()")
    assert isinstance(found["readTexture"], bool)
    assert 1e3 < found["perMs"] < 1e9
    assert gl.alive() == before
    gl.write(session, "input", IMAGES)
    assert_equal(gl.read(session, "input"), IMAGES)
