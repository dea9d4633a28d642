"""The parity check: samples of every value of a page beside the framework's own.

Drivers do compile right shaders to wrong numbers, exporters change what a network means, and some
devices compute a first run right and later ones wrong. So each page is asked for four stretches of
each layer after its first run of a Plan, and sends them again when it finds that a check is due
(`js/src/engine/checks.ts`). They are of the user's own input, or of the source's, which comes with
them; the reference is computed in a thread of its own. While something is bent, that is the model
with the bends replayed which the page says its samples have.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import msgspec
import numpy as np

from nbglcnn.disagreements import disagreement
from nbglcnn.errors import DeviceError, InputError
from nbglcnn.features.edits.records import Edit, active, checked, from_dict, to_dict
from nbglcnn.features.edits.replay import Bending, bending, check_replayed, jumps
from nbglcnn.graph import Array, Graph
from nbglcnn.inputs.arrays import finished
from nbglcnn.plan.schema import Float32, Plan, Value
from nbglcnn.protocol import Probe, Probed, Verified
from nbglcnn.reference import is_faithful, layer_alone
from nbglcnn.report import Match, Notes, Report, compared
from nbglcnn.widget.connection import Connection, Page
from nbglcnn.widget.network import Network
from nbglcnn.widget.reading import Reader

log = logging.getLogger("nbglcnn")

STRETCHES = 4  # of a value: its beginning, its end, and two between
TEXELS = 64  # of a stretch, at most; four elements each
# Of a layer's largest value: no rounding does that, a wrong shader does at once.
WRONG = {"float32": 1e-3, "float16": 0.2}
MOST = 1024  # values: one message of 4 MiB holds their samples
# Bytes of textures; the reference of a larger Plan needs too much of Python's memory.
LARGEST = 2**30
REST = 1.0  # seconds without a change before what is bent is looked at

PLAIN = "; with plain kernels, since the fast ones computed wrong numbers"

Band = tuple[int, int, int]
Reference = Callable[[Graph, Sequence[Array], Bending, Notes], tuple[dict[str, Array], str]]
Exact = Callable[[Graph, Sequence[Array], Sequence[str], Bending], Mapping[str, Array]]
Arrays = Mapping[str, Array]
Apart = Sequence[tuple[str, int, int]]  # as in Probed
Device = tuple[str, str, str]  # page, Plan, edits
NOTHING: Arrays = MappingProxyType({})


@dataclass(frozen=True)
class Verdict:
    """What came of it: a report of every value, or why there is none.

    `edits` are those that the page had, in its own words; empty where nothing was bent. `at` is
    when it was made, in seconds since 1970.
    """

    report: Report[Match] | None
    framework: str = ""
    problem: str = ""
    wrong: bool = False  # not by rounding
    edits: str = ""
    at: float = 0.0

    @property
    def clock(self) -> str:
        """When it was made, as "14:03:07"."""
        return time.strftime("%H:%M:%S", time.localtime(self.at))

    def words(self, plan: Plan, *, named: bool) -> str:
        """One sentence; with the name of the first layer that differs only if `named`."""
        kernels = "" if plan.header.target.fast_kernels else PLAIN
        if self.report is None and self.edits:
            return f"bent: not compared ({self.problem}){kernels}"
        if self.report is None:
            return f"not made: {self.problem}{kernels}"
        text = self.report.summary if named else self.report.found
        return f"{text}, in samples of each{kernels}"


class ParityCheck:
    """Checks every page that shows a Viewer; calls `changed` after each verdict."""

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
        self._verdicts: dict[Device, Verdict] = {}
        self._busy: set[Device] = set()
        self._edits = ""  # those of now, and since when
        self._since = -REST
        self._called = -REST  # when `changed` is told next, to go on
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None  # in a thread of the user's: told with the page's next message

    def of(self, page: Page | None, plan: Plan, edits: Iterable[Edit] = ()) -> Verdict | None:
        """What is known of this page's device while this is edited."""
        if page is None:
            return None
        return self._verdicts.get((page.id, plan.hash, name_of(edits)))

    def follow(
        self,
        plan: Plan,
        graph: Graph,
        arrays: Sequence[Array],
        edits: Sequence[Edit] = (),
        injected: Arrays = NOTHING,
    ) -> None:
        """Go on with every page: ask for samples, compare them, tell what was found.

        `edits` are the current ones, `injected` their arrays. No check begins while they change.
        """
        revision, name = self._connection.revision, name_of(edits)
        rests = self._rests(name)
        for page in self._connection.usable:
            device = page.id, plan.hash, name
            verdict = self._verdicts.get(device)
            if page.problem or device in self._busy:
                continue
            if page.samples is not None:
                (message, samples), page.samples = page.samples, None
                found = None
                if message.revision == revision:
                    found = self._take(page, plan, graph, arrays, message, samples, injected)
                if found != name:  # not these: once more
                    page.sampled, page.probed, self._since = (-1, ""), "", time.monotonic()
            known = verdict is not None and page.probed == plan.hash
            if verdict is not None:
                self._tell(page, verdict)
            asked = known or device in self._busy or page.sampled == (revision, name)
            if rests and not asked and _has_run(page, revision) and not _lags(page, plan):
                page.sampled, page.probed = (revision, name), plan.hash
                self._ask(page, plan, edits, injected)

    def _rests(self, name: str) -> bool:
        """Whether the edits have stayed as they are for a while; else it goes on then."""
        now = time.monotonic()
        if name != self._edits:
            self._edits, self._since = name, now
            for device in [one for one in self._verdicts if one[2] not in ("", name)]:
                del self._verdicts[device]
            for page in self._connection.usable:  # it forgets them too
                page.sampled, page.told = (-1, ""), None
        return not name or self._waited(REST + self._since)

    def _waited(self, until: float) -> bool:
        """Whether this time has come; else `changed` is told when it has."""
        now, loop = time.monotonic(), self._loop
        left = until - now
        if left <= 0:
            return True
        if loop is not None and not loop.is_closed() and now >= self._called:
            self._called = now + left
            loop.call_soon_threadsafe(lambda: loop.call_later(left, self._changed))
        return False

    def _ask(self, page: Page, plan: Plan, edits: Sequence[Edit], injected: Arrays) -> None:
        device = page.id, plan.hash, name_of(edits)
        words = msgspec.json.encode(to_dict(active(edits))).decode() if device[2] else ""
        if plan.gpu_bytes > LARGEST:
            self._verdicts[device] = Verdict(None, problem="the network is too large", edits=words)
            return
        try:
            check_replayed(edits, injected)
        except InputError as error:
            self._verdicts[device] = Verdict(None, problem=str(error), edits=words)
            return
        bands = bands_of_all(plan)
        revision = self._connection.revision
        self._connection.send(Probe(page.id, revision, tuple(bands), tuple(bands.values())))

    def _take(
        self,
        page: Page,
        plan: Plan,
        graph: Graph,
        arrays: Sequence[Array],
        message: Probed,
        samples: Float32,
        injected: Arrays,
    ) -> str | None:
        """Judge samples that a page has computed with the edits that it says, in JSON.

        The name of these edits, None where nothing can be judged.
        """
        words = message.edits
        try:
            edits = checked(from_dict(msgspec.json.decode(words)) if words else (), plan)
            given = _with_fed(plan, arrays, message.fed, samples)
        except (msgspec.DecodeError, InputError, KeyError, TypeError, ValueError):
            return None  # of another Plan, or none that a page of ours says
        device = page.id, plan.hash, name_of(edits)
        if given is None:
            return device[2]
        texels, inputs = given
        again = device in self._verdicts
        self._busy.add(device)

        def judge() -> None:
            try:
                bends = bending(plan, edits, injected)
                apart = message.apart
                verdict = self._compared(page, plan, graph, inputs, texels, bends, words, apart)
            except Exception as error:  # the model's own code runs here
                verdict = Verdict(None, problem=f"{type(error).__name__}: {error}", edits=words)
            self._judged(device, plan, replace(verdict, at=time.time()))

        begin = threading.Thread(target=judge, daemon=True).start
        loop = self._loop
        if again and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(begin)  # behind the cell that runs
        else:
            begin()
        return device[2]

    def _judged(self, device: Device, plan: Plan, verdict: Verdict) -> None:
        before = self._verdicts.get(device)
        self._verdicts[device] = verdict
        self._busy.discard(device)
        if verdict.report is not None and not verdict.report.ok:
            words = verdict.words(plan, named=True)
            if before is None or before.words(plan, named=True) != words:
                log.warning("nbglcnn: parity check: %s", words)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._changed)

    def _compared(
        self,
        page: Page,
        plan: Plan,
        graph: Graph,
        arrays: Sequence[Array],
        samples: Float32,
        bends: Bending,
        words: str,
        apart: Apart,
    ) -> Verdict:
        notes = Notes()
        expected, framework = self._reference(graph, arrays, bends, notes)
        found = split(plan, samples)
        if found is None:
            return Verdict(None, problem=f"the page sent {len(samples)} numbers")
        bands = bands_of_all(plan)
        values = {value.key: value for value in plan.values}

        def sampled(whole: Mapping[str, Array], keys: Iterable[str]) -> dict[str, Array]:
            return {k: pick(values[k], whole[k].reshape(-1), bands[k]) for k in keys if k in whole}

        def exact(keys: Sequence[str]) -> dict[str, Array]:
            return sampled(self._exact(graph, arrays, keys, bends), keys)

        subject = f"{framework} on {page.renderer}"
        known = sampled(expected, bands)
        report = compared(
            plan,
            found,
            known,
            subject,
            expected,
            exact,
            rounded=graph.rounded(),
            faithful=partial(is_faithful, graph, expected, bends),
            disputed=partial(disagreement, graph),
            notes=notes,
            bent=bool(bends),
            by_model=graph.source == "torch",
        )
        report = with_apart(report, apart, expected)
        if not report.ok and any(jumps(edit) for some in bends.edits.values() for edit in some):
            problem = "a threshold may decide by an element's last digit; verify() says more"
            return Verdict(None, problem=problem, edits=words)
        bound = WRONG[plan.precision]
        # What 16 bits cannot hold no other kernel mends.
        wrong = (
            not bends
            and not report.beyond
            and any(
                not row.ok and row.repeated is None and row.relative > bound for row in report.rows
            )
        )
        return Verdict(report, framework, wrong=wrong, edits=words)

    def _tell(self, page: Page, verdict: Verdict) -> None:
        report = verdict.report
        if page.told is verdict:
            return
        page.told = verdict
        if report is None:
            return
        revision = self._connection.revision
        self._connection.send(verified(revision, report, verdict.framework, page.id, verdict.edits))


def _lags(page: Page, plan: Plan) -> bool:
    """Whether what Python computes is always of an earlier input than the rest."""
    return bool(plan.in_python) and page.fed is not None and not page.fed.still


def _with_fed(
    plan: Plan, arrays: Sequence[Array], fed: str, samples: Float32
) -> tuple[Float32, Sequence[Array]] | None:
    """The samples, and the inputs that they are of: behind them lies what a source has fed.

    None where what Python computes is of an earlier input.
    """
    if fed == "":
        return samples, arrays
    at = [record.key for record in plan.inputs].index(fed)
    count = sum(4 * width for bands in bands_of_all(plan).values() for _, _, width in bands)
    [value] = [value for value in plan.values if value.key == fed]
    array = finished(value, samples[count:])
    if plan.in_python and array.tobytes() != np.asarray(arrays[at], array.dtype).tobytes():
        return None
    return samples[:count], (*arrays[:at], array, *arrays[at + 1 :])


def apart_in(plan: Plan, arrays: Sequence[Array], found: Arrays) -> Apart:
    """The values in which an example differs from an earlier one of the same input."""
    batch = plan.header.batch
    own = [array for array in arrays if array.ndim and len(array) == batch]
    if not own or batch < 2:
        return ()
    given = [b"".join(array[k].tobytes() for array in own) for k in range(batch)]
    twins = [(given.index(one), k) for k, one in enumerate(given) if given.index(one) < k]
    return [
        (key, *pair)
        for key, value in found.items()
        for pair in twins
        if value.ndim and len(value) == batch and not _is_equal(*(value[k] for k in pair))
    ]


def with_apart(report: Report[Match], apart: Apart, expected: Arrays) -> Report[Match]:
    """The report with layers marked in which examples of one input differ on the page alone.

    They must be equal to the bit there where they are so in the reference.
    """
    found = {
        key: (first, other)
        for key, first, other in apart
        if key in expected
        and max(first, other) < len(expected[key])
        and _is_equal(expected[key][first], expected[key][other])
    }
    if not found:
        return report
    rows = tuple(replace(row, ok=row.ok and row.layer not in found) for row in report.rows)
    key = next((row.layer for row in rows if row.layer in found), "")
    first, other = found[key] if key else (0, 0)
    note = f"example {other} of {key} differs from example {first}, which has the same input"
    return replace(report, rows=rows, note=note)


def _is_equal(one: Array, other: Array) -> bool:
    return np.asarray(one).tobytes() == np.asarray(other).tobytes()


def _has_run(page: Page, revision: int) -> bool:
    return page.ran is not None and page.ran.revision == revision


def name_of(edits: Iterable[Edit]) -> str:
    """A name for what is edited: "" where nothing is."""
    found = active(edits)
    return hashlib.sha256(msgspec.json.encode(found)).hexdigest()[:16] if found else ""


def verify(
    network: Network,
    reader: Reader,
    timeout: float | None,
    fed: Sequence[str] = (),
) -> tuple[Report[Match], str]:
    """Every layer that can be read beside the framework's own, and that framework's name.

    What is edited, and a latent's code, is replayed there; InputError for an edit that cannot be.
    `fed` are inputs that a page's source gives, which the values are of.
    """
    edits, injected = network.acting, network.arrays_given
    check_replayed(edits, injected)
    where = reader.source()
    if where.startswith("reference"):
        raise DeviceError(
            "there is nothing to verify: no page shows this Viewer and there is no local "
            f"OpenGL, so that values come from the framework itself ({where})"
        )
    keys = [key for key in network.plan.computed if key not in network.skipped]
    answer = reader.read(keys, timeout, fed=fed)
    found = dict(zip(keys, answer.arrays, strict=True))
    plan, graph = network.plan, network.graph
    own = {**network.inputs, **dict(zip(fed, answer.fed, strict=True))}
    arrays = [own[record.key] for record in plan.inputs]
    bends = bending(plan, edits, injected, found)
    notes = Notes()
    expected, framework = network.local.reference(graph, arrays, bends, notes)
    report = compared(
        plan,
        found,
        expected,
        f"{framework} on {where}",
        exact=partial(network.local.exact, graph, arrays, bends=bends),
        alone=partial(layer_alone, graph, found, bends=bends),
        rounded=graph.rounded(),
        faithful=partial(is_faithful, graph, expected, bends),
        disputed=partial(disagreement, graph),
        notes=notes,
        bent=bool(active(network.edits)),  # a latent's code is no bend
        by_model=graph.source == "torch",
    )
    return with_apart(report, apart_in(plan, arrays, found), expected), framework


def verified(
    revision: int, report: Report[Match], framework: str, page: str = "", edits: str = ""
) -> Verified:
    """A report in the words that pages take; of the parity check, what `page` gave.

    `edits` are those that were replayed; of the parity check in the page's own words.

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
    return Verified(revision, framework, layers, flawed, page, edits, report.note, report.beyond)


def bands_of_all(plan: Plan) -> dict[str, tuple[Band, ...]]:
    """Where to look at each computed value, the layers first."""
    values = {value.key: value for value in plan.values}
    return {key: bands_of(values[key]) for key in plan.computed[:MOST]}


def bands_of(value: Value, most: int = TEXELS) -> tuple[Band, ...]:
    """(x, y, width) of stretches of the texels that reading a value draws, of `most` each."""
    width, _ = value.read.step.viewport
    texels = -(-value.read.count // 4)
    last = max(0, texels - most)
    found = []
    for k in range(STRETCHES):
        y, x = divmod(last * k // (STRETCHES - 1), width)
        found.append((x, y, min(most, width - x, texels - y * width - x)))
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
