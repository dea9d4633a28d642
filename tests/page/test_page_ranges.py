"""Ranges of colours: they follow live values slowly, are held, or are the values' own at once."""

from typing import Any

import numpy as np
import pytest

from carrier import LAYOUTS, carrier
from colours import signed
from page import ONE_RENDERER, GlPage

LAYOUT = LAYOUTS["2x2 pixels"]
JOB = {"key": "x", "image": 0, "channels": [0, 1, 2, 3, 4], "columns": 5}

# The clock is the test's: it goes on where that says so.
CLOCK = """() => {
  globalThis.clock = { now: performance.now() };
  performance.now = () => clock.now;
}"""


class Live:
    """A session whose pictures are drawn at times of the test's choice."""

    def __init__(self, gl: GlPage) -> None:
        self.gl = gl
        self.array = np.zeros(LAYOUT.nchw, np.float32)
        self.session = gl.open(carrier(LAYOUT))
        gl.page.evaluate(CLOCK)

    def show(self, low: float, high: float, pace: str, ms: float = 0, mode: str = "layer") -> Any:
        """The ends of all channels' colours and of channel 1's, `ms` after the picture before."""
        array = np.zeros(LAYOUT.nchw, np.float32)
        array[0, 1, 0, :2] = low, high
        array[0, 4, 0, :2] = low / 2, high * 2
        self.gl.write(self.session, "x", array)
        self.gl.run(self.session)
        self.again(pace, ms, mode)
        return self.limits()

    def again(self, pace: str, ms: float = 0, mode: str = "layer") -> None:
        self.gl.page.evaluate(
            "([k, pace, ms]) => { clock.now += ms; gl.the(k).rangePace = pace; }",
            [self.session, pace, ms],
        )
        self.gl.draw(self.session, JOB | {"range": {"mode": mode}})

    def limits(self) -> Any:
        return self.gl.page.evaluate(
            "async (k) => [await gl.the(k).limits('x'), await gl.the(k).limits('x', 1)]",
            self.session,
        )


def near(layer: tuple[float, float], channel: tuple[float, float]) -> Any:
    return [pytest.approx(layer, rel=1e-5), pytest.approx(channel, rel=1e-5)]


def test_a_step_of_live_values_moves_the_colours_by_their_time_constant(gl: GlPage) -> None:
    live = Live(gl)
    assert live.show(-1, 2, "slow") == near((-1, 4), (-1, 2))  # nothing was shown before
    left = 1.0
    for ms in (80, 83, 250, 500):
        left *= np.exp(-ms / 500)
        high = 10 - 8 * left
        layer = (-3 + 2 * left, 2 * high)
        assert live.show(-3, 10, "slow", ms) == near(layer, (layer[0], high))
    # A picture drawn again of the same run moves nothing.
    live.again("slow", 400)
    assert live.limits() == near(layer, (layer[0], high))


def test_held_colours_stay_and_follow_from_there(gl: GlPage) -> None:
    live = Live(gl)
    live.show(-1, 2, "slow")
    for ms in (100, 9_000):
        assert live.show(-50, 80, "held", ms) == near((-1, 4), (-1, 2))
    share = 1 - np.exp(-100 / 500)
    layer = (-1 - 49 * share, 4 + 156 * share)
    assert live.show(-50, 80, "slow", 100) == near(layer, (layer[0], 2 + 78 * share))


@ONE_RENDERER
def test_a_still_input_shows_its_own_range_at_once(gl: GlPage) -> None:
    live = Live(gl)
    live.show(-1, 2, "exact")
    assert live.show(-5, 6, "exact", 10) == near((-5, 12), (-5, 6))
    live.show(-50, 60, "slow", 10)
    live.again("exact")  # the last picture of what was live
    assert live.limits() == near((-50, 120), (-50, 60))
    live.show(-1, 2, "held")
    live.again("exact")
    assert live.limits() == near((-1, 4), (-1, 2))


@ONE_RENDERER
def test_each_channel_has_colours_of_its_own_values(gl: GlPage) -> None:
    live = Live(gl)
    image = np.linspace(-1, 2, num=np.prod(LAYOUT.nchw[2:])).reshape(LAYOUT.nchw[2:])
    array = np.zeros(LAYOUT.nchw, np.float32)
    array[0] = np.arange(LAYOUT.nchw[1]).reshape(-1, 1, 1) + image
    gl.write(live.session, "x", array)
    gl.run(live.session)
    live.again("exact", mode="channel")
    for channel in JOB["channels"]:
        read = "([k, channel]) => gl.the(k).limits('x', channel)"
        found = gl.page.evaluate(read, [live.session, channel])
        assert found == pytest.approx([channel - 1, channel + 2], abs=1e-5)


@ONE_RENDERER
def test_where_nothing_was_finite_colours_do_not_come_from_there(gl: GlPage) -> None:
    live = Live(gl)
    live.show(-1, 2, "slow")
    live.gl.write(live.session, "x", np.full(LAYOUT.nchw, np.nan, np.float32))
    live.gl.run(live.session)
    live.again("slow", 100)
    assert live.show(-3, 5, "slow", 100) == near((-3, 10), (-3, 5))


@ONE_RENDERER
def test_the_drawn_colours_are_those_of_the_limits(gl: GlPage) -> None:
    live = Live(gl)
    live.show(-1, 2, "slow")
    for pace, ms, most in (("slow", 200, 4 + 4 * (1 - np.exp(-0.4))), ("exact", 0, 8)):
        live.show(-1, 4, pace, ms)
        assert live.limits()[0] == pytest.approx((-1, most), rel=1e-5)
        [pixels] = live.gl.draw(live.session, JOB | {"channels": [1], "columns": 1})
        assert np.abs(pixels[0, 1, :3] - signed(np.float32([4]), most)).max() <= 6
