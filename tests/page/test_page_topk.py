"""Top-k in the page on the device: the largest scores of a vector, and of each position."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from playwright.sync_api import Page
from torch import nn

import nbglcnn
from layout_plans import LAYOUTS, layout_plan, special_values
from nbglcnn.features.edits.records import Edit
from nbglcnn.plan.layout import NCHW, Layout
from webgl_page import DISABLE_FLOAT32_SCRIPT, ONE_RENDERER, GlPage

NAN, INF = np.float32(np.nan), np.float32(np.inf)
RANDOM = np.random.default_rng(8)


def numpy_topk(scores: np.ndarray, count: int) -> tuple[list[int], np.ndarray]:
    """NumPy's sort with NaN first, as in PyTorch, and ties in index order."""
    order = np.lexsort((np.arange(scores.size), -scores, ~np.isnan(scores)))[:count]
    top = torch.topk(torch.from_numpy(scores.copy()), count).values.numpy()
    np.testing.assert_array_equal(top, scores[order])
    return order.tolist(), top


def assert_topk(
    gl: GlPage, layout: Layout, *arrays: np.ndarray, count: int, nchw: NCHW | None = None
) -> None:
    session = gl.open(layout_plan(layout, nchw))
    for array in arrays:
        gl.write(session, "x", array)
        images = (nchw or layout.nchw)[0]
        for image, scores in enumerate(array.reshape(images, -1)):
            found = gl.topk(session, "x", count, image)
            assert found is not None
            places, top = numpy_topk(scores, count)
            assert found[0] == places
            np.testing.assert_array_equal(found[1], top)
    gl.close(session)


def random_scores(n: int, images: int = 1) -> np.ndarray:
    return RANDOM.standard_normal((images, n, 1, 1)).astype(np.float32)


@pytest.mark.parametrize("n", [6, 1000, 21_843])
def test_the_largest_are_those_of_numpy_for_each_example_of_a_batch(gl: GlPage, n: int) -> None:
    assert_topk(gl, Layout((3, n, 1, 1)), random_scores(n, 3), count=5)


def test_ten_are_found_wherever_they_stand(gl: GlPage) -> None:
    """Adjacent, at both ends, and in a vector stored in images, lines or strips."""
    sorted_up = np.sort(random_scores(300).ravel()).reshape(1, 300, 1, 1)
    down, middle = sorted_up[:, ::-1], np.roll(sorted_up, 150, axis=1)
    assert_topk(gl, Layout((1, 300, 1, 1)), sorted_up, down, middle, count=10)
    assert_topk(gl, LAYOUTS["2 images"], random_scores(9, 3), count=5)
    line = LAYOUTS["line in strips"]
    assert_topk(gl, line, random_scores(5005, 2).reshape(line.nchw), count=10, nchw=(2, 5005, 1, 1))


def test_of_equal_scores_the_first_come_first_and_nan_and_infinities_are_said(gl: GlPage) -> None:
    n = 120
    equal = np.round(random_scores(n))
    equal[0, [7, 111]] = equal.max() + 1
    hard = random_scores(n)
    hard[0, [3, 50, 119], 0, 0] = NAN
    hard[0, [4, 90], 0, 0] = INF
    zeros = np.where(RANDOM.random((1, n, 1, 1)) < 0.5, np.float32(-0.0), np.float32(0))
    low = np.full((1, n, 1, 1), -INF, np.float32)
    low[0, 33] = -3e38
    nothing = np.full((1, n, 1, 1), NAN, np.float32)
    assert_topk(gl, Layout((1, n, 1, 1)), equal, hard, zeros, low, nothing, count=10)


@ONE_RENDERER
def test_few_scores_and_maps_are_brought_as_they_are(gl: GlPage) -> None:
    session = gl.open(layout_plan(Layout((1, 10, 1, 1))))
    gl.write(session, "x", random_scores(10))
    assert gl.topk(session, "x", 10) is None
    assert gl.topk(session, "x", 9) is not None
    maps = gl.open(layout_plan(Layout((1, 10, 2, 1))))
    gl.write(maps, "x", random_scores(20))
    assert gl.topk(maps, "x", 5) is None


@ONE_RENDERER
def test_a_device_that_draws_halves_alone_picks_nothing_out(gl: GlPage) -> None:
    """Half floats cannot represent the index of the 20,000th score."""
    gl.page.evaluate(DISABLE_FLOAT32_SCRIPT)
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 5000)).eval()
    x = random_scores(4)
    target = nbglcnn.Target(float32_render=False)
    session = gl.open(nbglcnn.compile(model, x, target=target))
    gl.write(session, "input", x)
    assert gl.topk(session, "output", 5) is None
    assert gl.argmax(session, "output") is None


@ONE_RENDERER
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_classifiers_largest_follow_its_input_its_edits_and_a_lost_context(
    gl_page: Callable[..., Page],
    static_site: tuple[str, dict[str, bytes]],
    backend: str,
    precision: nbglcnn.plan.schema.Precision,
) -> None:
    gl = GlPage(gl_page(backend, allow="CONTEXT_LOST_WEBGL|context lost"), static_site[1])
    torch.manual_seed(2)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(48, 1000)).eval()
    x = RANDOM.standard_normal((2, 3, 5, 6)).astype(np.float32)
    session = gl.open(nbglcnn.compile(model, x, precision=precision))

    def right() -> None:
        for image, own in enumerate(gl.read(session, "output")):
            found = gl.topk(session, "output", 5, image)
            assert found is not None
            places, top = numpy_topk(own, 5)
            assert found[0] == places
            np.testing.assert_array_equal(found[1], top)

    for array in (x, -x):
        gl.write(session, "input", array)
        right()
    before = gl.topk(session, "output", 5)
    edit = Edit(layer="2", name="turned", transform="multiply", parameters=(-1.0,))
    gl.set_edits(session, [edit])
    right()
    assert before is not None and gl.topk(session, "output", 5)[0] != before[0]  # type: ignore[index]
    gl.lose_and_restore()
    gl.page.wait_for_function("() => gl.events.length === 2")
    right()


@ONE_RENDERER
def test_picking_out_is_no_run_and_leaves_nothing_behind(gl: GlPage) -> None:
    session = gl.open(layout_plan(Layout((1, 1000, 1, 1))))
    gl.write(session, "x", random_scores(1000))
    gl.run(session)
    gl.topk(session, "x", 5)
    sequence, alive = gl.page.evaluate("k => gl.the(k).sequence", session), gl.count_live_objects()
    gl.page.evaluate("gl.count()")
    for _ in range(4):
        gl.topk(session, "x", 5)
    assert gl.page.evaluate("gl.counted().drawArrays") == 2 * 4
    assert gl.page.evaluate("k => gl.the(k).sequence", session) == sequence
    assert gl.count_live_objects() == alive
    gl.run(session)
    assert gl.page.evaluate("gl.counted().drawArrays") == 0, "nothing to run, nothing picked out"
    gl.write(session, "x", random_scores(1000))
    run = gl.run(session)
    assert gl.page.evaluate("gl.counted().drawArrays") == run["passes"]


@ONE_RENDERER
def test_a_session_that_picked_scores_frees_its_programs_when_it_is_closed(gl: GlPage) -> None:
    plan = layout_plan(Layout((1, 1000, 1, 1)))
    gl.open(plan)  # stays open, like another Viewer in the page
    before = gl.count_live_objects()
    session = gl.open(plan)
    gl.write(session, "x", random_scores(1000))
    assert gl.topk(session, "x", 5) is not None
    gl.close(session)
    gl.wait_alive(before)


def test_the_likeliest_channel_of_each_place_is_numpys_argmax(gl: GlPage) -> None:
    for name in ("odd", "2x2 pixels", "4 images", "quadrants", "map in strips below each other"):
        layout = LAYOUTS[name]
        n, c, h, w = layout.nchw
        session = gl.open(layout_plan(layout))
        array = special_values(layout.nchw)
        array[:, 1:] = np.where(RANDOM.random((n, c - 1, h, w)) < 0.2, array[:, :-1], array[:, 1:])
        gl.write(session, "x", array)
        found = gl.argmax(session, "x", n - 1)
        own = array[n - 1].reshape(c, -1)
        expected = np.where(np.isnan(own).any(0), -1, own.argmax(0))
        np.testing.assert_array_equal(found, expected, err_msg=name)
        gl.close(session)
