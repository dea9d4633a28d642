"""The plot of docs/performance.md as SVG: milliseconds per multiply-add, both axes logarithmic."""

import math
from pathlib import Path
from typing import Any

PLOT_FILE = Path(__file__).parents[1] / "docs" / "pictures" / "linear.svg"
WIDTH, HEIGHT = 380, 300  # of one renderer's panel
LEFT, TOP, RIGHT, BOTTOM = 56, 34, 24, 44
COLOURS = {"nbglcnn": "#0d8a72", "tfjs webgl": "#c2571a"}
PEER_TITLES = {"nbglcnn": "nbglcnn", "tfjs webgl": "TensorFlow.js"}
DASHES = {"3×3": "", "1×1": ' stroke-dasharray="5 4"'}
INK = "#777"  # readable on white and black: the picture has no background
FONT = 'font-family="system-ui, sans-serif" font-size="12"'

Points = list[tuple[float, float]]


class Axis:
    """A logarithmic axis over whole powers of ten, from pixel `start` to pixel `end`."""

    def __init__(self, values: list[float], start: int, end: int) -> None:
        self.low = math.floor(math.log10(min(values)) + 1e-3)
        self.high = max(self.low + 1, math.ceil(math.log10(max(values)) - 0.02))
        self._start, self._end = start, end

    def position(self, value: float) -> float:
        """The pixel position of a value."""
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self._start + share * (self._end - self._start)

    @property
    def ticks(self) -> list[float]:
        """The powers of ten on the axis."""
        return [10.0**k for k in range(self.low, self.high + 1)]


def write_plot(found: dict[str, Any]) -> None:
    """Write the plot of the figures from `mac_scaling.measure_scaling`."""
    curves = [
        points for kinds in found.values() for peers in kinds.values() for points in peers.values()
    ]
    macs = [m for points in curves for m, _ in points]
    each = [ms / m for points in curves for m, ms in points]
    x = Axis(macs, LEFT, WIDTH - RIGHT)
    y = Axis(each, HEIGHT - BOTTOM, TOP)
    parts = [
        f'<g transform="translate({k * WIDTH} 0)">{_panel(renderer, kinds, x, y)}</g>'
        for k, (renderer, kinds) in enumerate(found.items())
    ]
    width, height = WIDTH * len(found), HEIGHT + 24
    PLOT_FILE.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" {FONT} fill="{INK}">\n'
        "<title>Milliseconds per million MACs, by the size of the layer</title>\n"
        + "\n".join([*parts, _legend()])
        + "\n</svg>\n",
        encoding="utf-8",
    )


def _panel(renderer: str, kinds: dict[str, dict[str, Points]], x: Axis, y: Axis) -> str:
    parts = [_text(WIDTH / 2 + LEFT / 2, 18, renderer, "middle", 'font-weight="600"')]
    for value in x.ticks:
        at = x.position(value)
        parts += [_line(at, TOP, at, HEIGHT - BOTTOM)]
        parts += [_text(at, HEIGHT - BOTTOM + 18, f"{value:g}", "middle")]
    for value in y.ticks:
        at = y.position(value)
        parts += [_line(LEFT, at, WIDTH - RIGHT, at), _text(LEFT - 6, at + 4, f"{value:g}", "end")]
    label = "million MACs in the layer"
    parts += [_text(WIDTH / 2 + LEFT / 2, HEIGHT - 8, label, "middle")]
    if x.position(x.ticks[0]) == LEFT:
        middle = (TOP + HEIGHT - BOTTOM) / 2
        turn = f'transform="rotate(-90 14 {middle:g})"'
        parts += [_text(14, middle, "ms per million MACs", "middle", turn)]
    for kind, peers in kinds.items():
        for peer, points in peers.items():
            places = [(x.position(m), y.position(ms / m)) for m, ms in points]
            line = " ".join(f"{px:.1f},{py:.1f}" for px, py in places)
            colour = COLOURS[peer]
            parts.append(
                f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"'
                f"{DASHES[kind]}/>"
            )
            parts += [
                f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{colour}"/>' for px, py in places
            ]
    return "".join(parts)


def _legend() -> str:
    parts = []
    at = LEFT
    for peer, colour in COLOURS.items():
        for kind, dashes in DASHES.items():
            y = HEIGHT + 10
            parts.append(
                f'<line x1="{at}" y1="{y}" x2="{at + 26}" y2="{y}" stroke="{colour}" '
                f'stroke-width="2"{dashes}/>'
                + _text(at + 32, y + 4, f"{PEER_TITLES[peer]} {kind}", "start")
            )
            at += 60 + 8 * len(f"{PEER_TITLES[peer]} {kind}")
    return "".join(parts)


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{INK}" stroke-opacity="0.35"/>'
    )


def _text(x: float, y: float, text: str, anchor: str, attributes: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {attributes}>{text}</text>'
