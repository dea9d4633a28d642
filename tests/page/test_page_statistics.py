"""Displayed values of every rank: the page's channels and numbers are NumPy's of `activations`.

`--sweep` runs many more random networks, and whole architectures.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch import nn

import nbglcnn
from nbglcnn import Plan
from rank_networks import StepNetwork
from summaries import assert_histogram, assert_summary
from webgl_page import ONE_RENDERER, GlPage
from zoo import ZOO, build

HISTOGRAM_BINS = 7
# The page's statistics of every value and image; histograms of some.
READ_DISPLAYED_SCRIPT = """async ([number, asked, bins]) => {
  const session = gl.the(number);
  const found = [];
  for (const [key, image, spread] of asked) {
    const statistics = await session.statistics(key, image);
    found.push([statistics, spread ? await session.histogram(key, bins, image) : undefined]);
  }
  return found;
}"""


def displayed_images(array: np.ndarray, batch: int) -> list[np.ndarray]:
    """A value as displayed per example: its channels, and all elements of each.

    This is the NumPy equivalent of `display_nchw`: the first axis holds the examples, or the whole
    value belongs to each of them.
    """
    if array.ndim == 1 and len(array) == batch:
        return [one.reshape(1, 1) for one in array]
    if array.ndim < 2:
        return [array.reshape(-1, 1)]
    if array.shape[0] in (1, batch):
        return [one.reshape(one.shape[0], -1) for one in array]
    if array.ndim < 4:
        return [array.reshape(array.shape[0], -1)]
    return [array.reshape(array.shape[0] * array.shape[1], -1)]


def assert_displayed(gl: GlPage, plan: Plan, arrays: Sequence[np.ndarray]) -> int:
    """Check all displayed values; return how many have a display nchw other than the stored."""
    session = gl.open(plan)
    values = gl.values(session, arrays)
    batch = arrays[0].shape[0] if arrays[0].ndim > 1 else 1
    shown = {key: displayed_images(array, batch) for key, array in values.items()}
    for value in plan.values:
        if len(value.shape) == 3 and value.nchw[1] == 1:  # one map per example
            shown[value.key] = [one.reshape(1, -1) for one in values[value.key]]
        images = shown[value.key]
        assert value.nchw[:2] == (len(images), len(images[0])), f"{value.key} {value.shape}"
    asked = [
        (key, image, number % 3 == 0)
        for number, (key, images) in enumerate(shown.items())
        for image in {0, len(images) - 1}
    ]
    answers = gl.page.evaluate(READ_DISPLAYED_SCRIPT, [session, asked, HISTOGRAM_BINS])
    for (key, image, spread), (found, histogram) in zip(asked, answers, strict=True):
        name, array = f"{key} {values[key].shape}, image {image}", shown[key][image]
        assert len(found["channels"]) == len(array), name
        assert_summary(found["layer"], array, name)
        for channel, summary in enumerate(found["channels"]):
            assert_summary(summary, array[channel], f"{name}, channel {channel}")
        if spread:
            assert_histogram(histogram, array, HISTOGRAM_BINS, name)
    gl.close(session)
    return sum(value.nchw != value.layout.nchw for value in plan.values)


seeds = st.integers(0, 999)
shapes = st.tuples(
    st.sampled_from([1, 2, 3]), st.lists(st.sampled_from([1, 2, 3, 4, 6, 8]), max_size=5)
)


@pytest.fixture
def example_settings(pytestconfig: pytest.Config, backend: str) -> settings:
    """The number of networks: few, or, on the renderer that is swept, many."""
    chosen = pytestconfig.getoption("--sweep")
    if chosen not in (None, backend):
        pytest.skip(f"the sweep is on {chosen}")
    return settings(
        max_examples=60 if chosen else 3,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],  # shrinking would cost minutes of shader compilation
        suppress_health_check=list(HealthCheck),
    )


@ONE_RENDERER
def test_numbers_of_random_networks_are_numpys(gl: GlPage, example_settings: settings) -> None:
    reshaped = 0

    @example_settings
    @given(shapes, st.lists(st.tuples(seeds, seeds), min_size=10, max_size=14))
    def run(shape: tuple[int, list[int]], choices: list[tuple[int, int]]) -> None:
        nonlocal reshaped
        torch.manual_seed(len(choices))
        x = torch.randn(shape[0], *shape[1])
        model = StepNetwork(x, choices).eval()
        reshaped += assert_displayed(gl, nbglcnn.compile(model, x), [x.numpy()])

    run()
    assert reshaped > 5, "no views, no attention: the test has lost its point"


@ONE_RENDERER
def test_numbers_of_further_images_of_reshaped_values_are_numpys(gl: GlPage) -> None:
    x = torch.randn(2, 3, 2, 4, 5)
    plan = nbglcnn.compile(nn.Sequential(nn.ReLU(), nn.Flatten(1, 2)), x)
    assert any(v.nchw != v.layout.nchw and v.nchw[0] == 2 for v in plan.values)
    assert_displayed(gl, plan, [x.numpy()])


@pytest.mark.parametrize("name", ZOO)
def test_numbers_of_architectures_are_numpys(
    gl_page: Callable[..., Any],
    static_site: tuple[str, dict[str, bytes]],
    pytestconfig: pytest.Config,
    name: str,
) -> None:
    renderer = pytestconfig.getoption("--sweep")
    if renderer is None:
        pytest.skip("make sweep takes it")
    model, inputs = build(name)
    assert_displayed(
        GlPage(gl_page(renderer), static_site[1]),
        nbglcnn.compile(model, inputs),
        [one.numpy() for one in inputs],
    )
