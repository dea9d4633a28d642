"""The parity check: samples of every value in a page, compared with the framework's values.

Drivers do compile correct shaders to wrong numbers, exporters change the meaning of a network, and
some devices compute a first run correctly and later ones wrong. Therefore each page is asked for
four spans of each value after its first run of a Plan, and sends them again when it finds that a
check is due (`js/src/engine/parity_check_schedule.ts`). The samples are of the user's own input, or
of a source's input, which is sent with them. The reference is computed in a thread. While values
are edited, the reference replays the edits that the page reports with its samples.
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

from nbglcnn.engine_disagreements import known_disagreement
from nbglcnn.errors import DeviceError, InputError
from nbglcnn.features.edits.records import (
    Edit,
    active_edits,
    edits_from_dicts,
    edits_to_dicts,
    validate_edits,
)
from nbglcnn.features.edits.replay import (
    EditReplay,
    check_replayable,
    edit_replay,
    is_discontinuous,
)
from nbglcnn.graph import Array, Graph
from nbglcnn.inputs.arrays import to_value_array
from nbglcnn.plan.schema import Float32, Plan, Value
from nbglcnn.protocol import Probe, ProbeReply, VerifyResult
from nbglcnn.reference import is_faithful, recompute_layers
from nbglcnn.report import Match, ReferenceNotes, Report, compare_values
from nbglcnn.widget.connection import Connection, Page
from nbglcnn.widget.network import Network
from nbglcnn.widget.reader import Reader

log = logging.getLogger("nbglcnn")

SPANS_PER_VALUE = 4  # per value: its start, its end, and two between
SPAN_TEXELS = 64  # per span, at most; four elements each
# Relative to a layer's largest value: rounding never reaches this, but a wrong shader does at once.
MISMATCH_THRESHOLDS = {"float32": 1e-3, "float16": 0.2}
MAX_VALUES = 1024  # values per check: one message of 4 MiB holds their samples
# Bytes of textures; the reference of a larger Plan needs too much memory in Python.
MAX_PLAN_BYTES = 2**30
EDIT_DEBOUNCE_S = 1.0  # debounce: seconds without a change before edits are checked

PLAIN_KERNELS_NOTE = "; in slow mode, since the faster shaders computed wrong values"

Span = tuple[int, int, int]
ComputeReference = Callable[
    [Graph, Sequence[Array], EditReplay, ReferenceNotes], tuple[dict[str, Array], str]
]
ComputeFloat64 = Callable[[Graph, Sequence[Array], Sequence[str], EditReplay], Mapping[str, Array]]
ArraysByKey = Mapping[str, Array]
ExampleMismatches = Sequence[tuple[str, int, int]]  # as in ProbeReply
CheckKey = tuple[str, str, str]  # page id, Plan hash, edits hash
NO_ARRAYS: ArraysByKey = MappingProxyType({})


@dataclass(frozen=True)
class ParityVerdict:
    """The result of a check: a report on every value, or the reason why there is none.

    `edits_json` are the page's edits in the page's own JSON; empty if nothing was edited.
    `timestamp` is the time of the check, in seconds since 1970.
    """

    report: Report[Match] | None
    framework: str = ""
    problem: str = ""
    is_wrong: bool = False  # beyond rounding
    edits_json: str = ""
    timestamp: float = 0.0

    @property
    def time_text(self) -> str:
        """The time of the check, as "14:03:07"."""
        return time.strftime("%H:%M:%S", time.localtime(self.timestamp))

    def describe(self, plan: Plan, *, named: bool) -> str:
        """Describe the verdict in a sentence; if `named`, with the first layer that differs."""
        kernels = "" if plan.header.target.fast_kernels else PLAIN_KERNELS_NOTE
        if self.report is None and self.edits_json:
            return f"bent: not compared ({self.problem}){kernels}"
        if self.report is None:
            return f"not made: {self.problem}{kernels}"
        text = self.report.summary if named else self.report.found
        return f"{text}, checked on samples of each{kernels}"


class ParityCheck:
    """The checks of every page that shows a Viewer; calls `on_change` after each verdict."""

    def __init__(
        self,
        connection: Connection,
        compute_reference: ComputeReference,
        compute_float64: ComputeFloat64,
        on_change: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._compute_reference = compute_reference
        self._compute_float64 = compute_float64
        self._on_change = on_change
        self._verdicts: dict[CheckKey, ParityVerdict] = {}
        self._running: set[CheckKey] = set()
        self._edits_hash = ""  # hash of the current edits, and the time of their change
        self._edits_changed_at = -EDIT_DEBOUNCE_S
        self._next_update = -EDIT_DEBOUNCE_S  # when `on_change` is called next, to continue
        try:
            self._event_loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._event_loop = None  # in a user's thread: called on the page's next message

    def find_verdict(
        self, page: Page | None, plan: Plan, edits: Iterable[Edit] = ()
    ) -> ParityVerdict | None:
        """The verdict on this page's device with these edits; None if unknown."""
        if page is None:
            return None
        return self._verdicts.get((page.id, plan.hash, hash_edits(edits)))

    def continue_checks(
        self,
        plan: Plan,
        graph: Graph,
        arrays: Sequence[Array],
        edits: Sequence[Edit] = (),
        injected_arrays: ArraysByKey = NO_ARRAYS,
    ) -> None:
        """Continue the checks of all pages: request samples, compare them, send verdicts.

        `edits` are the current edits, `injected_arrays` their arrays. No check begins while the
        edits change.
        """
        revision, edits_hash = self._connection.revision, hash_edits(edits)
        are_edits_stable = self._are_edits_stable(edits_hash)
        for page in self._connection.usable_pages:
            check_key = page.id, plan.hash, edits_hash
            verdict = self._verdicts.get(check_key)
            if page.problem or check_key in self._running:
                continue
            if page.parity_samples is not None:
                (message, samples), page.parity_samples = page.parity_samples, None
                found = None
                if message.revision == revision:
                    found = self._judge_samples(
                        page, plan, graph, arrays, message, samples, injected_arrays
                    )
                if found != edits_hash:  # other samples than these: request them again
                    page.probed_state, page.probed_plan_hash, self._edits_changed_at = (
                        (-1, ""),
                        "",
                        time.monotonic(),
                    )
            known = verdict is not None and page.probed_plan_hash == plan.hash
            if verdict is not None:
                self._send_verdict(page, verdict)
            asked = (
                known or check_key in self._running or page.probed_state == (revision, edits_hash)
            )
            if (
                are_edits_stable
                and not asked
                and _has_run(page, revision)
                and not _has_stale_python_values(page, plan)
            ):
                page.probed_state, page.probed_plan_hash = (revision, edits_hash), plan.hash
                self._request_samples(page, plan, edits, injected_arrays)

    def _are_edits_stable(self, edits_hash: str) -> bool:
        """Whether the edits have been unchanged for a while; otherwise schedule `on_change`."""
        now = time.monotonic()
        if edits_hash != self._edits_hash:
            self._edits_hash, self._edits_changed_at = edits_hash, now
            for check_key in [one for one in self._verdicts if one[2] not in ("", edits_hash)]:
                del self._verdicts[check_key]
            for page in self._connection.usable_pages:  # pages forget their verdicts, too
                page.probed_state, page.sent_verdict = (-1, ""), None
        return not edits_hash or self._has_deadline_passed(EDIT_DEBOUNCE_S + self._edits_changed_at)

    def _has_deadline_passed(self, deadline: float) -> bool:
        """Whether this time has passed; otherwise schedule `on_change` for it."""
        now, loop = time.monotonic(), self._event_loop
        left = deadline - now
        if left <= 0:
            return True
        if loop is not None and not loop.is_closed() and now >= self._next_update:
            self._next_update = now + left
            loop.call_soon_threadsafe(lambda: loop.call_later(left, self._on_change))
        return False

    def _request_samples(
        self, page: Page, plan: Plan, edits: Sequence[Edit], injected_arrays: ArraysByKey
    ) -> None:
        check_key = page.id, plan.hash, hash_edits(edits)
        words = (
            msgspec.json.encode(edits_to_dicts(active_edits(edits))).decode()
            if check_key[2]
            else ""
        )
        if plan.gpu_bytes > MAX_PLAN_BYTES:
            self._verdicts[check_key] = ParityVerdict(
                None, problem="the network is too large", edits_json=words
            )
            return
        try:
            check_replayable(edits, injected_arrays)
        except InputError as error:
            self._verdicts[check_key] = ParityVerdict(None, problem=str(error), edits_json=words)
            return
        spans = plan_spans(plan)
        revision = self._connection.revision
        self._connection.send(Probe(page.id, revision, tuple(spans), tuple(spans.values())))

    def _judge_samples(
        self,
        page: Page,
        plan: Plan,
        graph: Graph,
        arrays: Sequence[Array],
        message: ProbeReply,
        samples: Float32,
        injected_arrays: ArraysByKey,
    ) -> str | None:
        """Judge samples that a page computed with the edits that it reports, in JSON.

        Return the hash of these edits, or None if nothing can be judged.
        """
        words = message.edits
        try:
            edits = validate_edits(
                edits_from_dicts(msgspec.json.decode(words)) if words else (), plan
            )
            given = _split_source_input(plan, arrays, message.source_input, samples)
        except (msgspec.DecodeError, InputError, KeyError, TypeError, ValueError):
            return None  # of another Plan, or not from one of our pages
        check_key = page.id, plan.hash, hash_edits(edits)
        if given is None:
            return check_key[2]
        texels, inputs = given
        again = check_key in self._verdicts
        self._running.add(check_key)

        def judge() -> None:
            try:
                bends = edit_replay(plan, edits, injected_arrays)
                apart = message.example_mismatches
                verdict = self._compare(page, plan, graph, inputs, texels, bends, words, apart)
            except Exception as error:  # the model's own code may raise
                verdict = ParityVerdict(
                    None, problem=f"{type(error).__name__}: {error}", edits_json=words
                )
            self._store_verdict(check_key, plan, replace(verdict, timestamp=time.time()))

        start_thread = threading.Thread(target=judge, daemon=True).start
        loop = self._event_loop
        if again and loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(start_thread)  # after the running cell
        else:
            start_thread()
        return check_key[2]

    def _store_verdict(self, check_key: CheckKey, plan: Plan, verdict: ParityVerdict) -> None:
        before = self._verdicts.get(check_key)
        self._verdicts[check_key] = verdict
        self._running.discard(check_key)
        if verdict.report is not None and not verdict.report.ok:
            words = verdict.describe(plan, named=True)
            if before is None or before.describe(plan, named=True) != words:
                log.warning("nbglcnn: parity check: %s", words)
        if self._event_loop is not None and not self._event_loop.is_closed():
            self._event_loop.call_soon_threadsafe(self._on_change)

    def _compare(
        self,
        page: Page,
        plan: Plan,
        graph: Graph,
        arrays: Sequence[Array],
        samples: Float32,
        bends: EditReplay,
        edits_json: str,
        page_mismatches: ExampleMismatches,
    ) -> ParityVerdict:
        notes = ReferenceNotes()
        expected, framework = self._compute_reference(graph, arrays, bends, notes)
        found = split_samples(plan, samples)
        if found is None:
            return ParityVerdict(None, problem=f"the page sent {len(samples)} values")
        spans = plan_spans(plan)
        values = {value.key: value for value in plan.values}

        def sampled(whole: Mapping[str, Array], keys: Iterable[str]) -> dict[str, Array]:
            return {
                k: take_spans(values[k], whole[k].reshape(-1), spans[k]) for k in keys if k in whole
            }

        def exact(keys: Sequence[str]) -> dict[str, Array]:
            return sampled(self._compute_float64(graph, arrays, keys, bends), keys)

        subject = f"{framework} on {page.renderer}"
        known = sampled(expected, spans)
        report = compare_values(
            plan,
            found,
            known,
            subject,
            expected,
            exact,
            float16_keys=graph.float16_keys(),
            is_faithful=partial(is_faithful, graph, expected, bends),
            disagreement_of=partial(known_disagreement, graph),
            notes=notes,
            has_bends=bool(bends),
            is_float64_by_model=graph.framework == "torch",
        )
        report = mark_example_mismatches(report, page_mismatches, expected)
        if not report.ok and any(
            is_discontinuous(edit) for some in bends.edits.values() for edit in some
        ):
            problem = "a threshold may decide by an element's last digit; verify() says more"
            return ParityVerdict(None, problem=problem, edits_json=edits_json)
        bound = MISMATCH_THRESHOLDS[plan.precision]
        # No other kernel helps if values exceed 16 bits.
        wrong = (
            not bends
            and not report.float16_overflow
            and any(
                not row.ok and row.repeated is None and row.relative > bound for row in report.rows
            )
        )
        return ParityVerdict(report, framework, is_wrong=wrong, edits_json=edits_json)

    def _send_verdict(self, page: Page, verdict: ParityVerdict) -> None:
        report = verdict.report
        if page.sent_verdict is verdict:
            return
        page.sent_verdict = verdict
        if report is None:
            return
        revision = self._connection.revision
        self._connection.send(
            make_verify_result(revision, report, verdict.framework, page.id, verdict.edits_json)
        )


def _has_stale_python_values(page: Page, plan: Plan) -> bool:
    """Whether the values from Python always belong to an earlier input than the others."""
    return (
        bool(plan.in_python) and page.source_update is not None and not page.source_update.is_still
    )


def _split_source_input(
    plan: Plan, arrays: Sequence[Array], source_key: str, samples: Float32
) -> tuple[Float32, Sequence[Array]] | None:
    """Split the input that a source fed off the samples; return the samples and all inputs.

    None if the values from Python belong to an earlier input.
    """
    if source_key == "":
        return samples, arrays
    at = [record.key for record in plan.inputs].index(source_key)
    count = sum(4 * width for spans in plan_spans(plan).values() for _, _, width in spans)
    [value] = [value for value in plan.values if value.key == source_key]
    array = to_value_array(value, samples[count:])
    if plan.in_python and array.tobytes() != np.asarray(arrays[at], array.dtype).tobytes():
        return None
    return samples[:count], (*arrays[:at], array, *arrays[at + 1 :])


def example_mismatches(
    plan: Plan, arrays: Sequence[Array], found: ArraysByKey
) -> ExampleMismatches:
    """The values in which an example differs from an earlier one with the same input."""
    batch = plan.header.batch
    own = [array for array in arrays if array.ndim and len(array) == batch]
    if not own or batch < 2:
        return ()
    given = [b"".join(array[k].tobytes() for array in own) for k in range(batch)]
    equal_input_pairs = [
        (given.index(one), k) for k, one in enumerate(given) if given.index(one) < k
    ]
    return [
        (key, *pair)
        for key, value in found.items()
        for pair in equal_input_pairs
        if value.ndim and len(value) == batch and not _is_bit_equal(*(value[k] for k in pair))
    ]


def mark_example_mismatches(
    report: Report[Match], page_mismatches: ExampleMismatches, expected: ArraysByKey
) -> Report[Match]:
    """Mark the layers in which examples with the same input differ in the page only.

    Such examples must be equal to the bit in the page if they are in the reference.
    """
    found = {
        key: (first, other)
        for key, first, other in page_mismatches
        if key in expected
        and max(first, other) < len(expected[key])
        and _is_bit_equal(expected[key][first], expected[key][other])
    }
    if not found:
        return report
    rows = tuple(replace(row, ok=row.ok and row.layer not in found) for row in report.rows)
    key = next((row.layer for row in rows if row.layer in found), "")
    first, other = found[key] if key else (0, 0)
    note = f"example {other} of {key} differs from example {first}, which has the same input"
    return replace(report, rows=rows, note=note)


def _is_bit_equal(one: Array, other: Array) -> bool:
    return np.asarray(one).tobytes() == np.asarray(other).tobytes()


def _has_run(page: Page, revision: int) -> bool:
    return page.last_run is not None and page.last_run.revision == revision


def hash_edits(edits: Iterable[Edit]) -> str:
    """A hash of the active edits; "" for none."""
    found = active_edits(edits)
    return hashlib.sha256(msgspec.json.encode(found)).hexdigest()[:16] if found else ""


def verify(
    network: Network,
    reader: Reader,
    timeout: float | None,
    source_input_keys: Sequence[str] = (),
) -> tuple[Report[Match], str]:
    """Compare every readable value with the framework's; also return the framework's name.

    The reference replays edits and a latent's code; InputError for an edit that it cannot replay.
    `source_input_keys` are the inputs that a page's source feeds, which are read with the values.
    """
    edits, injected = network.active_edits, network.edit_arrays
    check_replayable(edits, injected)
    where = reader.backend_name()
    if where.startswith("reference"):
        raise DeviceError(
            "nothing to verify: no page shows this Viewer and local OpenGL is not available, so "
            f"the values come from the reference itself ({where})"
        )
    keys = [key for key in network.plan.computed if key not in network.skipped_keys]
    answer = reader.read(keys, timeout, source_input_keys=source_input_keys)
    found = dict(zip(keys, answer.arrays, strict=True))
    plan, graph = network.plan, network.graph
    own = {**network.inputs, **dict(zip(source_input_keys, answer.source_inputs, strict=True))}
    arrays = [own[record.key] for record in plan.inputs]
    bends = edit_replay(plan, edits, injected, found)
    notes = ReferenceNotes()
    expected, framework = network.local.compute_reference(graph, arrays, bends, notes)
    report = compare_values(
        plan,
        found,
        expected,
        f"{framework} on {where}",
        compute_float64=partial(network.local.compute_float64, graph, arrays, bends=bends),
        recompute_layers=partial(recompute_layers, graph, found, bends=bends),
        float16_keys=graph.float16_keys(),
        is_faithful=partial(is_faithful, graph, expected, bends),
        disagreement_of=partial(known_disagreement, graph),
        notes=notes,
        has_bends=bool(active_edits(network.edits)),  # a latent's code is not a bend
        is_float64_by_model=graph.framework == "torch",
    )
    return mark_example_mismatches(
        report, example_mismatches(plan, arrays, found), expected
    ), framework


def make_verify_result(
    revision: int, report: Report[Match], framework: str, page_id: str = "", edits: str = ""
) -> VerifyResult:
    """Convert a report to a message for pages; with `page_id`, it is a parity check of that page.

    `edits` are the replayed edits; for a parity check in the page's own JSON.

    Values that Python computes are left out, because nothing was compared, unless the page has
    another value.
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
    return VerifyResult(
        revision, framework, layers, flawed, page_id, edits, report.note, report.float16_overflow
    )


def plan_spans(plan: Plan) -> dict[str, tuple[Span, ...]]:
    """The spans to sample of each computed value, layers first."""
    values = {value.key: value for value in plan.values}
    return {key: value_spans(values[key]) for key in plan.computed[:MAX_VALUES]}


def value_spans(value: Value, max_texels: int = SPAN_TEXELS) -> tuple[Span, ...]:
    """(x, y, width) of spans in the texels of a value's readback, of at most `max_texels` each."""
    width, _ = value.readback.draw_pass.viewport
    texels = -(-value.readback.count // 4)
    last = max(0, texels - max_texels)
    found = []
    for k in range(SPANS_PER_VALUE):
        y, x = divmod(last * k // (SPANS_PER_VALUE - 1), width)
        found.append((x, y, min(max_texels, width - x, texels - y * width - x)))
    return tuple(band for band in dict.fromkeys(found) if band[2] > 0)


def take_spans(value: Value, flat_values: Array, spans: Sequence[Span]) -> Array:
    """The elements of a whole value that lie in the spans `spans`."""
    return np.concatenate(
        [flat_values[:0], *(flat_values[_span_elements(value, band)] for band in spans)]
    )


def split_samples(plan: Plan, samples: Float32) -> dict[str, Array] | None:
    """Split a page's samples by value; None if their number differs from the request."""
    values = {value.key: value for value in plan.values}
    found: dict[str, Array] = {}
    at = 0
    for key, spans in plan_spans(plan).items():
        parts = [samples[:0]]
        for band in spans:
            where = _span_elements(values[key], band)
            parts.append(samples[at : at + where.stop - where.start])  # maybe a partial texel
            at += 4 * band[2]
        found[key] = np.concatenate(parts).astype(values[key].dtype)
    return found if at == len(samples) else None


def _span_elements(value: Value, span: Span) -> slice:
    x, y, width = span
    start = 4 * (y * value.readback.draw_pass.viewport[0] + x)
    return slice(start, min(start + 4 * width, value.readback.count))
