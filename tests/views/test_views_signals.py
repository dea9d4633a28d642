"""Networks over signals: filters are curves, receptive fields are ranges on the signal's curve."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from torch import nn

import nbglcnn
from views_page import ViewsPage, canvas_pixels, parse_number

ShowViews = Callable[..., ViewsPage]


def curve_pixels(picture: np.ndarray) -> np.ndarray:
    """A mask of the curve's blue or orange line, without the shading below it."""
    colours = picture.astype(int)
    return np.abs(colours[..., 2] - colours[..., 0]) > 90


def open_views(show: ShowViews, model: nn.Module, x: torch.Tensor) -> ViewsPage:
    return show(nbglcnn.compile(model.eval(), x), x.numpy())


@pytest.mark.parametrize("taps", [(9,), (9, 1), (1, 9)])
def test_a_filter_over_a_signal_is_the_curve_of_its_weights(
    show: ShowViews, taps: tuple[int, ...]
) -> None:
    torch.manual_seed(2)
    make = {1: nn.Conv1d, 2: nn.Conv2d}[len(taps)]
    shape = (64,) if len(taps) == 1 else tuple(64 if one == 9 else 1 for one in taps)
    conv = make(1, 1, taps, bias=False)
    views = open_views(show, nn.Sequential(conv, nn.ReLU()), torch.randn(1, 1, *shape))
    views.open_layer("0", 0)
    views.set(layerSection="filters")
    canvas = views.page.locator("canvas[data-kernels='0.weight']")
    expect(canvas).to_be_visible()
    weights = conv.weight.detach().numpy().ravel()
    drawn = canvas_pixels(canvas)
    height, width, _ = drawn.shape
    assert width > 1.5 * height > 30, "a strip, not a curve"
    most, ink = np.abs(weights).max(), curve_pixels(drawn)
    for k, weight in enumerate(weights):
        if abs(weight) < 0.15 * most:
            continue
        expected = height / 2 - weight / most * (height / 2 - 1.5)
        rows = np.flatnonzero(ink[:, int((k + 0.5) * width / 9)])
        assert np.abs(rows + 0.5 - expected).min() <= 1.5, k
        blue = drawn[rows[0], int((k + 0.5) * width / 9)].astype(int)
        assert (blue[2] > blue[0]) == (weight > 0), k
    for k in (0, 4, 8):
        tip = views.hover(canvas, (k + 0.5) / 9, 0.5)
        assert parse_number(tip) == pytest.approx(float(weights[k]), rel=1e-5)
        assert f"channel 0, input channel 0 · {'y' if taps == (9, 1) else 'x'} {k}" in tip
    block = views.page.locator(".nbg-block").first
    expect(block).to_contain_text("from bottom to top")
    expect(views.page.get_by_label("Colour")).to_have_count(0)


def test_curves_of_filters_stand_in_rows_and_columns_with_a_common_range(show: ShowViews) -> None:
    torch.manual_seed(5)
    model = nn.Sequential(nn.Conv1d(2, 3, 5), nn.ReLU(), nn.Conv1d(3, 2, 4))
    with torch.no_grad():
        model[0].weight[1, 0, 2] = float("nan")
    views = open_views(show, model, torch.randn(1, 2, 40))
    views.open_layer("0", 0)
    views.set(layerSection="filters")
    canvas = views.page.locator("canvas[data-kernels='0.weight']")
    expect(canvas).to_have_attribute("data-channels", "6")
    weights = model[0].weight.detach().numpy()
    box = canvas.bounding_box()
    assert box is not None
    wide, high = 39, 20  # of a curve; the gap is 6 pixels
    assert (box["width"], box["height"]) == (2 * wide + 6, 3 * high + 12)
    for output, taken in np.ndindex(3, 2):
        for tap in (0, 3):
            x = (taken * (wide + 6) + (tap + 0.5) * wide / 5) / box["width"]
            y = (output * (high + 6) + 0.5 * high) / box["height"]
            tip = views.hover(canvas, x, y)
            assert parse_number(tip) == pytest.approx(float(weights[output, taken, tap]), rel=1e-5)
            assert f"channel {output}, input channel {taken} · x {tap}" in tip
    magenta = (canvas_pixels(canvas) == (255, 0, 255)).all(-1)
    rows, columns = np.nonzero(magenta)
    assert rows.min() >= high + 6 and rows.max() <= 2 * high + 6
    assert columns.min() == pytest.approx(2 * wide / 5, abs=1)
    assert columns.max() + 1 == pytest.approx(3 * wide / 5, abs=1)  # its right edge
    # Also below the maps.
    views.set(layerSection="maps", selected={"layer": "2", "channel": 0})
    small = views.page.locator("canvas[data-kernels='2.weight']")
    expect(small).to_be_visible()
    drawn = canvas_pixels(small)
    assert curve_pixels(drawn).any(axis=0).mean() > 0.5 and drawn.shape[1] > 60


def test_a_receptive_field_is_a_range_on_the_signals_curve(show: ShowViews) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv1d(2, 4, 5, stride=2), nn.Tanh(), nn.Conv1d(4, 3, 3, dilation=2, padding=2)
    ).eval()
    x = torch.randn(1, 2, 96, requires_grad=True)
    views = open_views(show, model, x.detach())
    views.set(pixel={"mapHeight": 1, "mapWidth": 46, "y": 0, "x": 20}, layerSection="explain")
    views.open_layer("2", 1)
    views.wait_idle()
    (grad,) = torch.autograd.grad(model(x)[0, 1, 20], x)
    places = np.flatnonzero(grad[0].abs().sum(0).numpy())
    field = views.page.locator("[data-field='from,input']")
    canvas, band = field.locator("canvas"), field.locator(".nbg-range")
    outer, inner = canvas.bounding_box(), band.bounding_box()
    assert outer is not None and inner is not None
    assert (outer["width"], outer["height"]) == (300, 96)
    ends = [(inner["x"] - outer["x"]) / 300, (inner["x"] + inner["width"] - outer["x"]) / 300]
    np.testing.assert_allclose(ends, [places[0] / 96, (places[-1] + 1) / 96], atol=1e-3)
    assert (inner["y"], inner["height"]) == pytest.approx((outer["y"], 96), abs=0.5)
    expect(field).to_contain_text(f"x {places[0]} to {places[-1]}")
    # The curve matches the signal's values.
    signal, ink = x.detach()[0, 0].numpy(), curve_pixels(canvas_pixels(canvas))
    whole = x.detach()[0].numpy()
    low, high = min(0, whole.min()), max(0, whole.max())
    for k in np.flatnonzero(np.abs(signal) > 0.5):
        rows = np.flatnonzero(ink[:, int((k + 0.5) * 300 / 96)])
        expected = 1.5 + (1 - (signal[k] - low) / (high - low)) * 93
        assert np.abs(rows - expected).min() <= 5, k
    tip = views.hover(canvas, 30.5 / 96, 0.5)
    assert parse_number(tip) == pytest.approx(float(signal[30]), rel=1e-4) and "x 30" in tip
