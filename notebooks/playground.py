"""Two small autoencoders side by side: chosen with sliders, trained in the page, measured, kept."""

import asyncio
import base64
import html
import io
import time
from dataclasses import dataclass, fields
from typing import Any

import ipywidgets
import numpy as np
import torch
from PIL import Image
from torch import nn

import nbglcnn
from enlarging import (
    ACTIVATIONS,
    LEVELS,
    PERIOD,
    WAYS,
    Choice,
    autoencoder,
    checkerboard,
    layers,
)  # fmt: skip
from fashion_classifier import load_pictures

UNSEEN = 64  # of the pictures, which are drawn and measured, and never learned from
SHOWN = 6


# Runs


@dataclass(frozen=True)
class Run:
    """A training that has ended, and what became of the network."""

    number: int
    choice: Choice
    model: nn.Module
    losses: np.ndarray
    held_out: np.ndarray  # rows: steps done, the loss
    drawn: np.ndarray  # what it makes of the pictures that it never saw
    checkerboards: tuple[float, float]  # before the first step, after the last
    seconds: float

    @property
    def name(self) -> str:
        """Its number and its settings in a few words."""
        one = self.choice
        return f"{self.number}: {one.enlarge}, kernel {one.kernel}, stride {one.stride}"


TITLES = (
    *("run", "enlarged by", "filters", "kernel", "stride", "activation", "seed"),
    *("parameters", "steps", "loss", "held out", "checkerboard", "seconds"),
)


def row(run: Run) -> tuple[str, ...]:
    """The row of the table of runs."""
    one, loss = run.choice, run.losses[-10:].mean() if len(run.losses) else np.nan
    parameters = sum(p.numel() for p in run.model.parameters())
    held_out = f"{run.held_out[-1, 1]:.4f}" if len(run.held_out) else "–"
    before, after = (f"{share:.2%}" for share in run.checkerboards)
    settings = (one.enlarge, one.filters, one.kernel, one.stride, one.activation, one.seed)
    told = (f"{parameters:,}", len(run.losses), f"{loss:.4f}", held_out, f"{before} → {after}")
    return tuple(map(str, (run.number, *settings, *told, f"{run.seconds:.0f}")))


def table(titles: tuple[str, ...], rows: list[tuple[str, ...]], words: int) -> str:
    """A small table as HTML; so many columns hold words and stand to the left."""
    cell = "padding: 1px 9px; white-space: nowrap; text-align: "

    def line(cells: tuple[str, ...], tag: str) -> str:
        return "".join(
            f'<{tag} style="{cell}{"left" if k < words else "right"}">{html.escape(one)}</{tag}>'
            for k, one in enumerate(cells)
        )

    lines = "".join(f"<tr>{line(one, 'td')}</tr>" for one in rows)
    return (
        '<table style="border-collapse: collapse; font-size: 12px; line-height: 1.5">'
        f"<thead><tr>{line(titles, 'th')}</tr></thead><tbody>{lines}</tbody></table>"
    )


COLORS = ("#d9730d", "#2f7fd1")  # of A and B, legible on white and on black


def curves(runs: tuple[Run, ...]) -> str:
    """The losses of runs in one picture: thin each step's, dashed that of what is held out."""
    width, height, left = 520, 190, 46
    every = np.concatenate([np.append(run.losses, run.held_out[:, 1:]) for run in runs])
    low, high = np.log10(every.min()) - 0.03, np.log10(every.max()) + 0.03
    last = max(len(run.losses) for run in runs)

    def points(steps: np.ndarray, losses: np.ndarray) -> str:
        x = left + (width - left) * np.asarray(steps) / last
        y = (high - np.log10(losses)) / (high - low) * height
        return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))

    parts = []
    for loss in (0.01, 0.02, 0.05, 0.1, 0.2):
        if low < np.log10(loss) < high:
            y = (high - np.log10(loss)) / (high - low) * height
            parts.append(
                f'<line x1="{left}" x2="{width}" y1="{y:.1f}" y2="{y:.1f}" stroke="currentColor" '
                f'opacity="0.2"/><text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{loss}'
                f"</text>"
            )
    for run, color in zip(runs, COLORS, strict=False):
        line = f'fill="none" stroke="{color}"'
        parts.append(
            f'<polyline points="{points(1 + np.arange(len(run.losses)), run.losses)}" {line} '
            f'stroke-width="1.2"/><polyline points="{points(*run.held_out.T)}" {line} '
            f'stroke-width="2" stroke-dasharray="6 4"/>'
        )
    ends = f'<text x="{left}" y="{height + 15}">step 0</text>'
    ends += f'<text x="{width}" y="{height + 15}" text-anchor="end">{last}</text>'
    names = " and ".join(run.name for run in runs)
    return (
        f'<svg viewBox="0 0 {width} {height + 20}" width="{width}" role="img" fill="currentColor" '
        f'font-size="12" aria-label="losses of {html.escape(names)}">{"".join(parts)}{ends}</svg>'
    )


def picture(pictures: np.ndarray, scale: int, label: str) -> str:
    """N×1×H×W pictures in a row, each pixel a square."""
    row = np.concatenate(list(pictures[:, 0]), axis=1).clip(0, 1)
    pixels = Image.fromarray((255 * row).round().astype(np.uint8))
    file = io.BytesIO()
    pixels.resize((pixels.width * scale, pixels.height * scale), Image.Resampling.NEAREST).save(
        file, "PNG"
    )
    data = base64.b64encode(file.getvalue()).decode()
    return f'<img alt="{html.escape(label)}" src="data:image/png;base64,{data}" style="margin: 0">'


def tile(pictures: np.ndarray) -> np.ndarray:
    """All pictures cut into squares of 4×4 pixels, and the mean of these squares (1×1×4×4).

    A picture's own contrast cancels, what repeats stays; black and white are 15 % from the mean.
    """
    n, _, height, width = pictures.shape
    cut = pictures.reshape(n, height // PERIOD, PERIOD, width // PERIOD, PERIOD)
    mean = cut.mean((0, 1, 3))
    return (0.5 + (mean / mean.mean() - 1) / 0.3)[None, None]


# What a class turns


LABEL, WIDE = {"description_width": "80px"}, {"width": "330px"}


class Side:
    """One of the two networks: its sliders, what they lead to, and its Viewer."""

    def __init__(self, playground: "Playground", title: str, choice: Choice) -> None:
        slider, menu = ipywidgets.IntSlider, ipywidgets.Dropdown
        self.controls = {
            "enlarge": menu(options=list(WAYS), value=choice.enlarge),
            "filters": slider(choice.filters, min=4, max=32, step=4),
            "kernel": slider(choice.kernel, min=2, max=5),
            "stride": ipywidgets.SelectionSlider(options=list(LEVELS), value=choice.stride),
            "activation": menu(options=list(ACTIVATIONS), value=choice.activation),
            "seed": slider(choice.seed, min=0, max=9),
        }
        for name, control in self.controls.items():
            control.description, control.style, control.layout = name, LABEL, WIDE
            control.observe(self._chosen, "value")
        self.title, self._playground = title, playground
        self.button = ipywidgets.Button(description=f"Train {title}", icon="play")
        self.button.on_click(lambda _: playground.begin(self))
        self.summary, self.said = ipywidgets.HTML(), ipywidgets.HTML()
        self._place = ipywidgets.VBox()
        self.box = ipywidgets.VBox(
            [
                *self.controls.values(),
                self.summary,
                ipywidgets.HBox([self.button, self.said]),
                self._place,
            ],
            layout={"flex": "1 1 0", "min_width": "0", "padding": "0 8px 0 0"},
        )
        self._chosen()
        self.build()

    @property
    def choice(self) -> Choice:
        """What its sliders say."""
        return Choice(**{one.name: self.controls[one.name].value for one in fields(Choice)})

    def build(self) -> None:
        """A new network as chosen, in a new Viewer."""
        self.built = self.choice
        self.model = autoencoder(self.built)
        old = self._place.children
        self.viewer = nbglcnn.Viewer(self.model, self._playground.unseen[:1], timeout=60)
        self._place.children = (self.viewer,)
        for one in old:
            one.close()

    def _chosen(self, _: Any = None) -> None:
        found = layers(autoencoder(self.choice))
        rows = [
            (one.name, one.kind, "×".join(map(str, one.shape)),
             *(f"{count:,}" if count else "" for count in (one.parameters, one.macs)))
            for one in found
        ]  # fmt: skip
        total = (f"{sum(one.parameters for one in found):,}", f"{sum(one.macs for one in found):,}")
        titles = ("layer", "", "output", "parameters", "multiply-adds")
        self.summary.value = table(titles, [*rows, ("all", "", "", *total)], 2)


async def waited(training: Any) -> float:
    """The seconds until a training has ended."""
    began = time.monotonic()
    await training.done
    return time.monotonic() - began


class Playground:
    """Two networks to choose, to train on the same pictures and to compare; `runs` are kept."""

    def __init__(self, left: Choice, right: Choice) -> None:
        pictures = load_pictures()[0][:, None]
        self.pictures = pictures[:-UNSEEN]  # uint8; a tenth of them is held out
        self.unseen = pictures[-UNSEEN:] / np.float32(255)
        self.runs: list[Run] = []
        self._training: set[asyncio.Task[None]] = set()
        self.steps = ipywidgets.IntSlider(
            60, min=20, max=600, step=20, description="steps", style=LABEL, layout=WIDE
        )
        self.left, self.right = Side(self, "left", left), Side(self, "right", right)
        self._table, self._compared = ipywidgets.HTML(), ipywidgets.HTML()
        self.a, self.b = (
            ipywidgets.Dropdown(description=one, style=LABEL, layout={"width": "420px"})
            for one in "AB"
        )
        for menu in (self.a, self.b):
            menu.observe(lambda _: self._compare(), "value")
        sides = ipywidgets.HBox([self.left.box, self.right.box])
        menus = ipywidgets.HBox([self.a, self.b])
        kept = ipywidgets.VBox([self._table, menus, self._compared])
        kept.add_class("playground-runs")
        self.box = ipywidgets.VBox([self.steps, sides, kept])
        self._tell()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self.box._repr_mimebundle_(**options)

    def begin(self, side: Side) -> None:
        """Train one side while the page stays free: what its button does."""
        task = asyncio.ensure_future(self.train(side))
        self._training.add(task)  # the event loop itself would forget it
        task.add_done_callback(self._training.discard)

    async def train(self, *sides: Side) -> None:
        """Train these sides, or both, at the same time, from new random weights."""
        sides = sides or (self.left, self.right)
        for side in sides:
            side.button.disabled = True
            side.said.value = "building…"
        try:
            for side in sides:
                side.build()
            trainings = [self._begin(side) for side in sides]
            seconds = await asyncio.gather(*map(waited, trainings))
            # In the order of the sides: which one ends first is chance.
            for one in zip(sides, trainings, seconds, strict=True):
                self._keep(*one)
        except BaseException as error:
            for side in sides:
                side.said.value = html.escape(f"stopped: {error or type(error).__name__}")
            raise
        finally:
            for side in sides:
                side.button.disabled = False

    def _begin(self, side: Side) -> Any:
        training = side.viewer.train(
            self.pictures, "mse", nbglcnn.Adam(3e-3), batch_size=16, steps=self.steps.value
        )
        side.viewer.show(view="train")
        steps = self.steps.value

        def tell(_: Any = None) -> None:
            side.said.value = f"step {training.step_count} of {steps}"

        training.observe(tell, "step_count")
        tell()
        return training

    def _keep(self, side: Side, training: Any, seconds: float) -> None:
        untrained = self.drawn(side.model)
        side.model.load_state_dict(side.viewer.state_dict())
        drawn = self.drawn(side.model)
        held_out = training.held_out_losses[:, :2]
        boards = checkerboard(untrained), checkerboard(drawn)
        number = 1 + len(self.runs)
        self.runs.append(
            Run(number, side.built, side.model, training.losses, held_out, drawn, boards, seconds)
        )
        side.said.value = training.message or f"run {number}: {training.step_count} steps"
        self._tell()

    def drawn(self, model: nn.Module) -> np.ndarray:
        """What a network makes of the pictures that none has seen."""
        with torch.no_grad():
            return model(torch.from_numpy(self.unseen)).numpy()

    def compare(self, a: int, b: int) -> ipywidgets.HTML:
        """Two runs by their numbers: their curves, what they draw, and their mean squares."""
        for number in (a, b):
            if not 1 <= number <= len(self.runs):
                raise ValueError(f"there is no run {number!r}; there are 1 to {len(self.runs)}")
        chosen = self.runs[a - 1], self.runs[b - 1]
        rows = [("what goes in", "currentColor", self.unseen)]
        rows += [(run.name, color, run.drawn) for run, color in zip(chosen, COLORS, strict=True)]
        lines = "".join(
            f'<tr><td style="color: {color}; padding-right: 10px">{html.escape(name)}</td>'
            f"<td>{picture(drawn[:SHOWN], 3, name)}</td>"
            f'<td style="padding-left: 14px">{picture(tile(drawn), 21, "mean of squares")}</td>'
            f'<td style="padding-left: 10px">{checkerboard(drawn):.2%}</td></tr>'
            for name, color, drawn in rows
        )
        return ipywidgets.HTML(f"{curves(chosen)}<table>{lines}</table>")

    def _compare(self) -> None:
        if self.a.value is not None and self.b.value is not None:
            self._compared.value = self.compare(self.a.value, self.b.value).value

    def _tell(self) -> None:
        own = checkerboard(self.unseen)
        note = f"Of the pictures themselves {own:.2%} repeat every 4 pixels."
        rows = [row(run) for run in self.runs]
        self._table.value = f"{table(TITLES, rows, 2)}<small>{note}</small>" if rows else ""
        numbers = [(run.name, run.number) for run in self.runs]
        values = (len(numbers) - 1, len(numbers)) if len(numbers) > 1 else (None, None)
        for menu, value in zip((self.a, self.b), values, strict=True):
            menu.options = numbers
            menu.value = value
