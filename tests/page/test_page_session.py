"""The page's WebGL session: values, statistics, weights, and freed resources."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import nn

import nbglcnn
from assertions import assert_equal
from layout_plans import LAYOUTS, layout_plan, special_values
from summaries import assert_histogram, assert_summary
from webgl_page import ONE_RENDERER, GlPage

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
        session = gl.open(layout_plan(layout))
        array = special_values(layout.nchw)
        gl.write(session, "x", array)
        image = layout.nchw[0] - 1
        found = gl.statistics(session, "x", image)
        assert len(found["channels"]) == layout.nchw[1]
        assert_summary(found["layer"], array[image], name)
        for c, channel in enumerate(found["channels"]):
            assert_summary(channel, array[image, c], f"{name}, channel {c}")


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
        session = gl.open(layout_plan(layout))
        array = special_values(layout.nchw)
        gl.write(session, "x", array)
        n, c = layout.nchw[:2]
        for image, bins in ((n - 1, 44), (0, 17), (n - 1, 2)):
            assert_histogram(gl.histogram(session, "x", bins, image), array[image], bins, name)
        for channel in {0, c // 2, c - 1}:
            found = gl.histogram(session, "x", 60, n - 1, channel)
            assert_histogram(found, array[n - 1, channel], 60, f"{name}, channel {channel}")


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
    """For a run that the request itself starts, and for the next one."""
    layout = LAYOUTS["2x2 pixels"]
    session = gl.open(layout_plan(layout))
    for sign in (1, -1):
        array = (sign * values(layout.nchw)).astype(np.float32)
        gl.write(session, "x", array)
        assert_histogram(gl.histogram(session, "x", 10, 1), array[1], 10, f"times {sign}")


@pytest.mark.parametrize("offset, scale", [(1e4, 1), (0, 1e38), (0, 1e-30), (-5, 0)])
def test_statistics_neither_cancel_nor_overflow(gl: GlPage, offset: float, scale: float) -> None:
    layout = LAYOUTS["large map"]
    array = (RANDOM.standard_normal(layout.nchw) * scale / 2 + offset).astype(np.float32)
    session = gl.open(layout_plan(layout))
    gl.write(session, "x", array)
    found = gl.statistics(session, "x")["layer"]
    exact = array.astype(np.float64)
    assert found["mean"] == pytest.approx(exact.mean(), rel=1e-5, abs=1e-6 * np.abs(exact).max())
    assert found["std"] == pytest.approx(exact.std(), rel=1e-3, abs=1e-6 * np.abs(exact).max())


def test_an_unknown_device_is_measured(gl: GlPage, plan: nbglcnn.Plan) -> None:
    """The resources of the measurement are freed."""
    session = gl.open(plan)
    before = gl.count_live_objects()
    found = gl.page.evaluate("() => gl.probe()")
    assert isinstance(found["usesTextureCall"], bool)
    assert 1e3 < found["readsPerMs"] < 1e9
    assert gl.count_live_objects() == before
    gl.write(session, "input", IMAGES)
    assert_equal(gl.read(session, "input"), IMAGES)


@ONE_RENDERER
def test_numbers_of_each_image_are_its_own_in_one_run_and_new_in_the_next(
    gl: GlPage, plan: nbglcnn.Plan
) -> None:
    session = gl.open(plan)
    keys = [value.key for value in plan.values if len(value.shape) == 4][:3]
    for x in (IMAGES, IMAGES[::-1] * 3):
        gl.write(session, "input", x)
        gl.run(session)
        for key in keys:
            array = gl.read(session, key)
            for image in (0, 1, 0):
                found = gl.statistics(session, key, image)
                assert_summary(found["layer"], array[image], f"{key} {image}")
                assert_summary(found["channels"][1], array[image, 1], f"{key} {image}, channel 1")
                whole = gl.histogram(session, key, 10, image)
                assert_histogram(whole, array[image], 10, f"{key} {image}")
                one = gl.histogram(session, key, 10, image, 1)
                assert_histogram(one, array[image, 1], 10, f"{key} {image}, channel 1")


@ONE_RENDERER
def test_sessions_share_weights_of_one_precision_and_size_alone(gl: GlPage) -> None:
    torch.manual_seed(2)
    model = nn.Sequential(nn.Conv2d(3, 5, 3, padding=1), nn.ReLU()).eval()
    sessions = []
    for precision in ("float32", "float16", "float32"):
        own = nbglcnn.compile(model, IMAGES, precision=precision)
        sessions.append((gl.open(own), own))
    textures = gl.count_live_objects()["textures"]
    with torch.no_grad():
        expected = model(torch.from_numpy(IMAGES)).numpy()
    for session, own in sessions:
        found = gl.values(session, [IMAGES])[own.header.outputs[0]]
        assert_equal(found, expected, rtol=1e-5 if own.precision == "float32" else 5e-3)
    # After the first session is disposed, the last one keeps the shared textures. Then a new
    # session shares them, and only one of the two gets new weights.
    gl.page.evaluate("k => gl.the(k).dispose()", sessions[0][0])
    last, own = sessions[2]
    assert_equal(gl.values(last, [IMAGES])[own.header.outputs[0]], expected)
    again = gl.open(own)
    assert gl.count_live_objects()["textures"] == textures
    for weight in own.header.weights:
        gl.set_weight(last, weight.texture, own.blobs[weight.hash] * 0)
    assert not gl.values(last, [IMAGES])[own.header.outputs[0]].any()
    assert_equal(gl.values(again, [IMAGES])[own.header.outputs[0]], expected)
