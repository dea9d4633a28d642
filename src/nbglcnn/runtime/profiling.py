"""Profiles: the time of each layer of a Plan on a device, measured by repeating its passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal, Protocol

from nbglcnn.plan.schema import Header, Pass
from nbglcnn.tables import Style, table

# A layer is repeated for this long, so that the clock's overhead is small, but at most this many
# times.
MIN_SAMPLE_MS = 3.0
MAX_REPEATS = 64
# The shortest counts, because other load on the machine only makes times longer.
MEASUREMENT_ATTEMPTS = 3
# Layers that add up to more than a run were disturbed: they are measured again.
MAX_MEASUREMENT_ROUNDS = 3
OTHER_PASSES_LABEL = "(the rest)"  # passes that belong to no layer

ClockName = Literal["GPU timer", "wall clock"]


class Clock(Protocol):
    """A clock that measures the device's time for work."""

    name: ClockName

    def measure_ms(self, work: Callable[[], None]) -> float:
        """Return the milliseconds until the device has done `work`."""


@dataclass(frozen=True, slots=True)
class LayerTime:
    """The time of a layer: a row of a Profile.

    Attributes:
        layer: The name of the layer.
        type: Its type, as in `plan.layers`.
        ms: The time in milliseconds for the whole batch.
        share: The share of the sum of all layers, from 0 to 1.
        passes: The number of passes. A layer with 0 passes is computed inside another layer, or is
            another name for its input.
    """

    layer: str
    type: str
    ms: float
    share: float
    passes: int

    def table_row(self) -> tuple[str, ...]:
        """Return the cells of this row for the printed table.

        Returns:
            Four strings: layer, type, milliseconds and share; the last two are empty without
            passes.
        """
        if not self.passes:
            return self.layer, self.type, "", ""
        return self.layer, self.type, f"{self.ms:.3f}", f"{100 * self.share:.1f} %"


@dataclass(frozen=True)
class Profile:
    """The times of all layers. It prints as a table.

    The times of layers need not add up to the time of a run, because a device starts a pass before
    the previous one has finished.

    Attributes:
        rows: One `LayerTime` per layer, in order.
        ms: The time of a whole run in milliseconds.
        clock: `"GPU timer"`, or `"wall clock"` without a reliable timer.
        renderer: The name of the device.
    """

    rows: tuple[LayerTime, ...]
    ms: float
    clock: ClockName
    renderer: str

    @property
    def slowest(self) -> LayerTime | None:
        """The row of the layer with the longest time, or None."""
        return max(self.rows, key=lambda row: row.ms, default=None)

    @property
    def summary(self) -> str:
        """The result as one sentence."""
        first = self.slowest
        most = f"; {first.layer} takes most, {100 * first.share:.0f} %" if first else ""
        return f"{self.ms:.3f} ms per run on {self.renderer}, by {_CLOCK_NAMES[self.clock]}{most}"

    def _table(self, style: Style) -> str:
        cells = [row.table_row() for row in self.rows]
        return table(("layer", "type", "ms", "share"), cells, style, number_columns=(2, 3))

    def __str__(self) -> str:
        return "\n".join(filter(None, (self._table("text") if self.rows else "", self.summary)))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"{self._table('html')}<p>{escape(self.summary)}</p>"


_CLOCK_NAMES: dict[ClockName, str] = {
    "GPU timer": "the GPU's own timer",
    "wall clock": "the wall clock (no reliable GPU timer)",
}


def profile_layers(
    header: Header, draw: Callable[[Pass], None], clock: Clock, renderer: str
) -> Profile:
    """Time all passes together, and the passes of each layer separately.

    Afterwards, textures that several layers share contain stale values.
    """
    of: dict[int, list[Pass]] = {}
    for step in header.passes:
        of.setdefault(step.layer, []).append(step)
    names = [*((k, layer.name, layer.type) for k, layer in enumerate(header.layers))]
    names += [(-1, OTHER_PASSES_LABEL, "")] * (-1 in of)
    found = [(name, kind, of.get(k, [])) for k, name, kind in names]
    parts = [list(header.passes), *(passes for _, _, passes in found)]
    best = [_measure_passes(passes, draw, clock) for passes in parts]
    for _ in range(MAX_MEASUREMENT_ROUNDS - 1):
        if sum(best[1:]) <= best[0]:
            break
        best = [min(ms, _measure_passes(p, draw, clock)) for p, ms in zip(parts, best, strict=True)]
    total, *times = best
    whole = sum(times) or 1.0
    rows = tuple(
        LayerTime(name, kind, ms, ms / whole, len(passes))
        for (name, kind, passes), ms in zip(found, times, strict=True)
    )
    return Profile(rows, total, clock.name, renderer)


def _measure_passes(passes: Sequence[Pass], draw: Callable[[Pass], None], clock: Clock) -> float:
    """The milliseconds of passes, the shortest of ATTEMPTS, after a first run that builds them."""
    if not passes:
        return 0.0

    def measure_repeats(repeats: int) -> float:
        def work() -> None:
            for _ in range(repeats):
                for step in passes:
                    draw(step)

        return clock.measure_ms(work) / repeats

    measure_repeats(1)
    once = measure_repeats(1)
    repeats = (
        1 if once >= MIN_SAMPLE_MS else min(MAX_REPEATS, int(MIN_SAMPLE_MS / max(once, 1e-3)) + 1)
    )
    return min(measure_repeats(repeats) for _ in range(MEASUREMENT_ATTEMPTS))
