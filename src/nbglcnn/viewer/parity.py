"""The parity check: after a page's first run, samples of every value beside the framework's own.

Drivers do compile right shaders to wrong numbers, and exporters change what a network means. So
each device's values are looked at once for every Plan, with the user's own input: four stretches of
each layer come from the page, the reference is computed in a thread of its own.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from nbglcnn.errors import DeviceError
from nbglcnn.graph import Array, Graph
from nbglcnn.plan import Float32, Plan, Value
from nbglcnn.reference import exact_alone
from nbglcnn.report import Match, Report, compared
from nbglcnn.viewer.connection import Connection, Page
from nbglcnn.viewer.network import Network
from nbglcnn.viewer.protocol import Probe, Verified
from nbglcnn.viewer.reading import Reader

log = logging.getLogger("nbglcnn")

STRETCHES = 4  # of a value: its beginning, its end, and two between
TEXELS = 64  # of a stretch, at most; four elements each
# Of a layer's largest value: no rounding does that, a wrong shader does at once.
WRONG = {"float32": 1e-3, "float16": 0.2}
MOST = 1024  # values: one message of 4 MiB holds their samples
# Bytes of textures; the reference of a larger Plan needs too much of Python's memory.
LARGEST = 2**30

PLAIN = "; with plain kernels, since the fast ones computed wrong numbers"

Band = tuple[int, int, int]
Reference = Callable[[Graph, Sequence[Array]], tuple[dict[str, Array], str]]
Exact = Callable[[Graph, Sequence[Array], Sequence[str]], Mapping[str, Array]]


@dataclass(frozen=True)
class Verdict:
    """What came of it: a report of every value, or why there is none."""

    report: Report[Match] | None
    framework: str = ""
    problem: str = ""
    wrong: bool = False  # not by rounding

    def words(self, plan: Plan, *, named: bool) -> str:
        """One sentence; with the name of the first layer that differs only if `named`."""
        kernels = "" if plan.header.target.fast_kernels else PLAIN
        if self.report is None:
            return f"not made: {self.problem}{kernels}"
        text = self.report.summary if named else self.report.found
        return f"{text}, in samples of each{kernels}"


class ParityCheck:
    """Looks once at every device that shows a Viewer; `changed` is told when a verdict is there."""

    def __init__(
        self,
        connection: Connection,
        reference: Reference,
        exact: Exact,
        changed: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._reference = reference
        self._exact = exact
        self._changed = changed
        self._verdicts: dict[tuple[str, str], Verdict] = {}  # of (renderer, Plan)
        self._busy: set[tuple[str, str]] = set()
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None  # in a thread of the user's: told with the page's next message

    def of(self, page: Page | None, plan: Plan) -> Verdict | None:
        """What is known of this page's device."""
        return self._verdicts.get((page.renderer, plan.hash)) if page else None

    def follow(self, plan: Plan, graph: Graph, arrays: Sequence[Array]) -> None:
        """Go on with every page: ask for samples, compare them, tell what was found."""
        revision = self._connection.revision
        for page in self._connection.usable:
            device = page.renderer, plan.hash
            verdict = self._verdicts.get(device)
            if page.problem or device in self._busy:
                continue
            if verdict is not None:
                self._tell(page, plan, verdict)
            elif page.samples is not None and page.samples[0] == revision:
                samples, page.samples = page.samples[1], None
                self._busy.add(device)
                thread = threading.Thread(
                    target=self._judge, args=(device, plan, graph, arrays, samples), daemon=True
                )
                thread.start()
            elif page.ran and page.ran.revision == revision and page.sampled != revision:
                page.sampled = revision
                self._ask(page, plan)

    def _ask(self, page: Page, plan: Plan) -> None:
        if plan.gpu_bytes > LARGEST:
            self._verdicts[page.renderer, plan.hash] = Verdict(
                None, problem="the network is too large"
            )
            return
        bands = bands_of_all(plan)
        revision = self._connection.revision
        self._connection.send(Probe(page.id, revision, tuple(bands), tuple(bands.values())))

    def _judge(
        self,
        device: tuple[str, str],
        plan: Plan,
        graph: Graph,
        arrays: Sequence[Array],
        samples: Float32,
    ) -> None:
        try:
            verdict = self._compared(device[0], plan, graph, arrays, samples)
        except Exception as error:  # the model's own code runs here
            verdict = Verdict(None, problem=f"{type(error).__name__}: {error}")
        self._verdicts[device] = verdict
        self._busy.discard(device)
        if verdict.report is not None and not verdict.report.ok:
            log.warning("nbglcnn: parity check: %s", verdict.words(plan, named=True))
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._changed)

    def _compared(
        self,
        renderer: str,
        plan: Plan,
        graph: Graph,
        arrays: Sequence[Array],
        samples: Float32,
    ) -> Verdict:
        expected, framework = self._reference(graph, arrays)
        found = split(plan, samples)
        if found is None:
            return Verdict(None, problem=f"the page sent {len(samples)} numbers")
        bands = bands_of_all(plan)
        values = {value.key: value for value in plan.values}

        def sampled(whole: Mapping[str, Array], keys: Iterable[str]) -> dict[str, Array]:
            return {k: pick(values[k], whole[k].reshape(-1), bands[k]) for k in keys if k in whole}

        def exact(keys: Sequence[str]) -> dict[str, Array]:
            return sampled(self._exact(graph, arrays, keys), keys)

        subject = f"{framework} on {renderer}"
        known = sampled(expected, bands)
        report = compared(plan, found, known, subject, expected, exact, rounded=graph.rounded())
        bound = WRONG[plan.precision]
        wrong = any(not row.ok and row.relative > bound for row in report.rows)
        return Verdict(report, framework, wrong=wrong)

    def _tell(self, page: Page, plan: Plan, verdict: Verdict) -> None:
        report = verdict.report
        if page.told == plan.hash or report is None:
            return
        page.told = plan.hash
        self._connection.send(
            verified(self._connection.revision, report, verdict.framework, page.id)
        )


def verify(network: Network, reader: Reader, timeout: float | None) -> tuple[Report[Match], str]:
    """Every layer that can be read beside the framework's own, and that framework's name."""
    where = reader.source()
    if where.startswith("reference"):
        raise DeviceError(
            "there is nothing to verify: no page shows this Viewer and there is no local "
            f"OpenGL, so that values come from the framework itself ({where})"
        )
    keys = network.plan.computed
    found = dict(zip(keys, reader.read(keys, timeout).arrays, strict=True))
    plan, graph, arrays = network.plan, network.graph, network.arrays
    expected, framework = network.local.reference(graph, arrays)
    report = compared(
        plan,
        found,
        expected,
        f"{framework} on {where}",
        exact=partial(network.local.exact, graph, arrays),
        alone=partial(exact_alone, graph, found),
        rounded=graph.rounded(),
    )
    return report, framework


def verified(revision: int, report: Report[Match], framework: str, page: str = "") -> Verified:
    """A report in the words that pages take; of the parity check, what `page` gave.

    What Python computes is left out: nothing was compared, unless something else arrived there.
    """
    layers = tuple(
        (row.layer, float(np.nan_to_num(row.max_abs)), row.ok)
        for row in report.rows
        if not (row.in_python and row.ok)
    )
    flawed = tuple(
        (row.layer, row.nan, row.inf, -1 if row.channel is None else row.channel)
        for row in report.rows
        if row.nan + row.inf
    )
    return Verified(revision, framework, layers, flawed, page)


def bands_of_all(plan: Plan) -> dict[str, tuple[Band, ...]]:
    """Where to look at each computed value, the layers first."""
    values = {value.key: value for value in plan.values}
    return {key: bands_of(values[key]) for key in plan.computed[:MOST]}


def bands_of(value: Value) -> tuple[Band, ...]:
    """(x, y, width) of stretches of the texels that reading a value draws."""
    width, _ = value.read.step.viewport
    texels = -(-value.read.count // 4)
    last = max(0, texels - TEXELS)
    found = []
    for k in range(STRETCHES):
        y, x = divmod(last * k // (STRETCHES - 1), width)
        found.append((x, y, min(TEXELS, width - x, texels - y * width - x)))
    return tuple(band for band in dict.fromkeys(found) if band[2] > 0)


def pick(value: Value, flat: Array, bands: Sequence[Band]) -> Array:
    """The elements of a whole value that lie in `bands`."""
    return np.concatenate([flat[:0], *(flat[_elements(value, band)] for band in bands)])


def split(plan: Plan, samples: Float32) -> dict[str, Array] | None:
    """A page's texels as elements of each value; None when they are not as many as asked for."""
    values = {value.key: value for value in plan.values}
    found: dict[str, Array] = {}
    at = 0
    for key, bands in bands_of_all(plan).items():
        parts = [samples[:0]]
        for band in bands:
            where = _elements(values[key], band)
            parts.append(samples[at : at + where.stop - where.start])  # the last texel may be less
            at += 4 * band[2]
        found[key] = np.concatenate(parts).astype(values[key].dtype)
    return found if at == len(samples) else None


def _elements(value: Value, band: Band) -> slice:
    x, y, width = band
    start = 4 * (y * value.read.step.viewport[0] + x)
    return slice(start, min(start + 4 * width, value.read.count))
