"""Colour ranges: they follow live values slowly, are fixed, or follow the values at once."""

from typing import Any

import numpy as np
import pytest

from colours import signed_colours
from layout_plans import LAYOUTS, layout_plan
from webgl_page import ONE_RENDERER, GlPage

LAYOUT = LAYOUTS["2x2 pixels"]
DRAW_JOB = {"key": "x", "image": 0, "channels": [0, 1, 2, 3, 4], "columns": 5}

# The test drives the clock: time advances only in explicit calls.
FAKE_CLOCK_SCRIPT = """() => {
  globalThis.clock = { now: performance.now() };
  performance.now = () => clock.now;
}"""


class LiveSession:
    """A session whose pictures are drawn at times that the test sets."""

    def __init__(self, gl: GlPage) -> None:
        self.gl = gl
        self.array = np.zeros(LAYOUT.nchw, np.float32)
        self.session = gl.open(layout_plan(LAYOUT))
        gl.page.evaluate(FAKE_CLOCK_SCRIPT)

    def draw_values(
        self, low: float, high: float, smoothing: str, elapsed_ms: float = 0, mode: str = "layer"
    ) -> Any:
        """The colour limits of all channels and of channel 1, `elapsed_ms` after the last."""
        array = np.zeros(LAYOUT.nchw, np.float32)
        array[0, 1, 0, :2] = low, high
        array[0, 4, 0, :2] = low / 2, high * 2
        self.gl.write(self.session, "x", array)
        self.gl.run(self.session)
        self.redraw(smoothing, elapsed_ms, mode)
        return self.color_limits()

    def redraw(self, smoothing: str, elapsed_ms: float = 0, mode: str = "layer") -> None:
        self.gl.page.evaluate(
            "([k, pace, ms]) => { clock.now += ms; gl.the(k).rangeSmoothing = pace; }",
            [self.session, smoothing, elapsed_ms],
        )
        self.gl.draw(self.session, DRAW_JOB | {"range": {"mode": mode}})

    def color_limits(self) -> Any:
        return self.gl.page.evaluate(
            "async (k) => [await gl.the(k).colorLimits('x'), await gl.the(k).colorLimits('x', 1)]",
            self.session,
        )


def approx_limits(layer: tuple[float, float], channel: tuple[float, float]) -> Any:
    return [pytest.approx(layer, rel=1e-5), pytest.approx(channel, rel=1e-5)]


def test_a_step_of_live_values_moves_the_colours_by_their_time_constant(gl: GlPage) -> None:
    live = LiveSession(gl)
    assert live.draw_values(-1, 2, "slow") == approx_limits((-1, 4), (-1, 2))  # no earlier picture
    left = 1.0
    for ms in (80, 83, 250, 500):
        left *= np.exp(-ms / 500)
        high = 10 - 8 * left
        layer = (-3 + 2 * left, 2 * high)
        assert live.draw_values(-3, 10, "slow", ms) == approx_limits(layer, (layer[0], high))
    # Redrawing the same run doesn't move the range.
    live.redraw("slow", 400)
    assert live.color_limits() == approx_limits(layer, (layer[0], high))


def test_held_colours_stay_and_follow_from_there(gl: GlPage) -> None:
    live = LiveSession(gl)
    live.draw_values(-1, 2, "slow")
    for ms in (100, 9_000):
        assert live.draw_values(-50, 80, "held", ms) == approx_limits((-1, 4), (-1, 2))
    share = 1 - np.exp(-100 / 500)
    layer = (-1 - 49 * share, 4 + 156 * share)
    assert live.draw_values(-50, 80, "slow", 100) == approx_limits(
        layer, (layer[0], 2 + 78 * share)
    )


@ONE_RENDERER
def test_a_still_input_shows_its_own_range_at_once(gl: GlPage) -> None:
    live = LiveSession(gl)
    live.draw_values(-1, 2, "exact")
    assert live.draw_values(-5, 6, "exact", 10) == approx_limits((-5, 12), (-5, 6))
    live.draw_values(-50, 60, "slow", 10)
    live.redraw("exact")  # the last live picture
    assert live.color_limits() == approx_limits((-50, 120), (-50, 60))
    live.draw_values(-1, 2, "held")
    live.redraw("exact")
    assert live.color_limits() == approx_limits((-1, 4), (-1, 2))


@ONE_RENDERER
def test_each_channel_has_colours_of_its_own_values(gl: GlPage) -> None:
    live = LiveSession(gl)
    image = np.linspace(-1, 2, num=np.prod(LAYOUT.nchw[2:])).reshape(LAYOUT.nchw[2:])
    array = np.zeros(LAYOUT.nchw, np.float32)
    array[0] = np.arange(LAYOUT.nchw[1]).reshape(-1, 1, 1) + image
    gl.write(live.session, "x", array)
    gl.run(live.session)
    live.redraw("exact", mode="channel")
    for channel in DRAW_JOB["channels"]:
        read = "([k, channel]) => gl.the(k).colorLimits('x', channel)"
        found = gl.page.evaluate(read, [live.session, channel])
        assert found == pytest.approx([channel - 1, channel + 2], abs=1e-5)


@ONE_RENDERER
def test_where_nothing_was_finite_colours_do_not_come_from_there(gl: GlPage) -> None:
    live = LiveSession(gl)
    live.draw_values(-1, 2, "slow")
    live.gl.write(live.session, "x", np.full(LAYOUT.nchw, np.nan, np.float32))
    live.gl.run(live.session)
    live.redraw("slow", 100)
    assert live.draw_values(-3, 5, "slow", 100) == approx_limits((-3, 10), (-3, 5))


@ONE_RENDERER
def test_the_drawn_colours_are_those_of_the_limits(gl: GlPage) -> None:
    live = LiveSession(gl)
    live.draw_values(-1, 2, "slow")
    for pace, ms, most in (("slow", 200, 4 + 4 * (1 - np.exp(-0.4))), ("exact", 0, 8)):
        live.draw_values(-1, 4, pace, ms)
        assert live.color_limits()[0] == pytest.approx((-1, most), rel=1e-5)
        [pixels] = live.gl.draw(live.session, DRAW_JOB | {"channels": [1], "columns": 1})
        assert np.abs(pixels[0, 1, :3] - signed_colours(np.float32([4]), most)).max() <= 6
