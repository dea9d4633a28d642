"""Reports: tables with a verdict, for terminals and notebooks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from html import escape
from typing import Generic, TypeVar

import numpy as np

from nbglcnn.graph import Array
from nbglcnn.plan.layout import NCHW
from nbglcnn.plan.schema import Plan, format_layer_count
from nbglcnn.tables import Style, table

# Relative to the layer's largest reference value. In float16, each layer rounds its values by up to
# 5e-4 of themselves, and works on the rounded values of the layer before: among the small networks
# of tests/support/zoo.py the worst error is 5e-3, but 1.8e-2 where pictures are sampled at computed
# positions.
RTOL = {"float32": 1e-5, "float16": 2e-2}
ATOL = 1e-6
# A layer may be this many times as far from float64 as the reference is: both distances are the
# largest of many rounding errors, in different orders. Above a hundredth of the largest value, they
# may also be faults.
MAX_ERROR_RATIO = 2.0
MAX_RELATIVE_ROUNDING = 1e-2
FLOAT16_MAX = 65504.0  # the largest finite float16
# The advice for layers that a second, equal call of the model computes differently.
CALLS_DIFFER_MESSAGE = (
    "two equal calls of the model differ, first in {layer}, by {change:.2g}: forward samples "
    "random numbers or keeps state between calls, so there is no single correct result. Make it "
    "a function of its inputs"
)
# The advice for a row whose layer in the Graph differs from the model's own.
UNFAITHFUL_MESSAGE = (
    "on the reference's own inputs, {layer} as loaded computes different values than in the "
    "model: this is not rounding"
)
# The advice for a row that could not be judged by its own inputs.
NOT_OBSERVED_MESSAGE = (
    "its inputs are not kept, so amplified rounding can't be distinguished from a fault: verify "
    'with observe="all"'
)

Row = TypeVar("Row", "Support", "Match", "Change")


@dataclass(frozen=True, slots=True)
class Support:
    """Whether a layer can run: a row of the Report that `check` returns.

    Attributes:
        layer: The name of the layer.
        operator: Its operators in PyTorch's spelling, joined by " + ".
        ok: Whether the layer can run on the GPU.
        reason: Why it cannot run, and what to do; `""` if it can.
        in_python: Whether a Viewer computes this layer in Python instead.
    """

    layer: str
    operator: str
    ok: bool
    reason: str = ""
    in_python: bool = False

    def table_row(self) -> tuple[str, ...]:
        """Return the cells of this row for the printed table.

        Returns:
            Four strings: layer, operator, "yes", "in Python" or "no", and the reason.
        """
        said = "yes" if self.ok else "in Python" if self.in_python else "no"
        return self.layer, self.operator, said, self.reason


@dataclass(frozen=True, slots=True)
class Match:
    """The difference of a layer from the reference: a row of the Report that `verify` returns.

    Errors are those of the finite values. NaN and infinities must be at the same positions.

    Attributes:
        layer: The name of the layer.
        max_abs: The largest absolute error.
        mean_abs: The mean absolute error.
        relative: The largest absolute error divided by the layer's largest absolute value; infinite
            if NaN and infinities are at other positions.
        ok: Whether the layer matches.
        double: `(layer, reference)`: the largest distance of the layer, and of the reference, from
            the float64 result of the model. None if float32 was sufficient for the verdict.
        alone: The distance of the layer from the float64 result for its own inputs. None if it was
            not needed for the verdict.
        repeated: The difference between two equal calls of the model. None if they are equal.
        nan: The number of NaN.
        inf: The number of infinities.
        channel: The channel of the first NaN, or else of the first infinity. None if all values are
            finite, or the layer has a single channel.
        in_python: Whether the framework itself computed the value, so that there is nothing to
            compare.
    """

    layer: str
    max_abs: float
    mean_abs: float
    relative: float
    ok: bool
    double: tuple[float, float] | None = None
    alone: float | None = None
    repeated: float | None = None
    nan: int = 0
    inf: int = 0
    channel: int | None = None
    in_python: bool = False

    @property
    def non_finite_text(self) -> str:
        """NaN and infinities as text: "12 NaN, 1 infinity, first in channel 2"; "" for none."""
        infinities = "1 infinity" if self.inf == 1 else f"{self.inf:,} infinities"
        words = [f"{self.nan:,} NaN"] * bool(self.nan) + [infinities] * bool(self.inf)
        if self.channel is not None:
            words.append(f"first in channel {self.channel}")
        return ", ".join(words)

    def table_row(self) -> tuple[str, ...]:
        """Return the cells of this row for the printed table.

        Returns:
            Five strings: layer, largest error, mean error, relative error, and the verdict.
        """
        *cells, ok = _error_cells(self)
        if self.in_python and self.ok:
            ok = "in Python"
        told = [self.non_finite_text] if self.non_finite_text else []
        if self.double is not None:
            own, reference = self.double
            told.insert(0, f"{own:.2g} from float64, the reference {reference:.2g}")
        if self.alone is not None:
            told.insert(
                len(told) - bool(self.non_finite_text), f"{self.alone:.2g} on its own inputs"
            )
        if self.repeated is not None:
            told.append(f"two equal calls of the model differ by {self.repeated:.2g}")
        return *cells, f"{ok}: {'; '.join(told)}" if told else ok


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a layer from A to B: a row of the Report that `Comparison.changes` returns.

    Attributes:
        layer: The name of the layer in A.
        max_abs: The largest |B − A|.
        mean_abs: The mean |B − A|.
        relative: The mean |B − A| divided by the mean |A|; infinite if A is zero everywhere and B
            is not.
        ok: Whether A and B are equal.
    """

    layer: str
    max_abs: float
    mean_abs: float
    relative: float
    ok: bool

    def table_row(self) -> tuple[str, ...]:
        """Return the cells of this row for the printed table.

        Returns:
            Five strings: layer, largest change, mean change, relative change, and "yes" or "no".
        """
        return _error_cells(self)


def _error_cells(row: Match | Change) -> tuple[str, ...]:
    numbers = (f"{v:.2g}" for v in (row.max_abs, row.mean_abs, row.relative))
    return row.layer, *numbers, "yes" if row.ok else "no"


TITLES = {
    Support: ("layer", "operator", "supported", "reason"),
    Match: ("layer", "max abs error", "mean abs error", "relative", "ok"),
    Change: ("layer", "max |B − A|", "mean |B − A|", "relative", "equal"),
}


@dataclass(frozen=True)
class Report(Generic[Row]):
    """A table of layers with a verdict. It prints as text and displays as HTML in a notebook.

    Attributes:
        rows: The rows, in order: `Support`, `Match` or `Change` records.
        subject: The end of the summary's first clause: "match PyTorch 2.13 on …".
        layers: The names of the rows that are counted, as in `viewer.layers`. A row that repeats a
            layer's value (a module, an output) is not counted. None counts all rows.
        two: Whether the rows belong to two networks, which are counted separately: "17 + 17".
        advice: What to do if a row is not ok; `""` for nothing.
        note: Further information about the first row that is not ok; `""` for none.
        float16_overflow: The first layer with values that float16 cannot store, for a Plan of that
            precision; `""` for none.
        unable: Pairs `(key, reason)` of values that the reference cannot compute. They have no row,
            and make the report not ok.
    """

    rows: tuple[Row, ...]
    subject: str
    layers: frozenset[str] | None = None
    two: bool = False
    advice: str = ""
    note: str = ""
    float16_overflow: str = ""
    unable: tuple[tuple[str, str], ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every row is ok, and the reference could compute every value."""
        return all(row.ok for row in self.rows) and not self.unable

    @property
    def first_diverging(self) -> str | None:
        """The name of the first layer that is not ok, or None."""
        return next((row.layer for row in self.rows if not row.ok), None)

    @property
    def counted_rows(self) -> tuple[Row, ...]:
        """The rows of layers, without those that Python computes; all rows if none is a layer."""
        return tuple(r for r in self._shown_rows if not (isinstance(r, Match) and r.in_python))

    @property
    def _shown_rows(self) -> tuple[Row, ...]:
        if self.layers is None:
            return self.rows
        return tuple(row for row in self.rows if row.layer in self.layers) or self.rows

    @property
    def in_python(self) -> tuple[str, ...]:
        """The names of the layers that are computed in Python."""
        rows: Sequence[Support | Match | Change] = self._shown_rows
        return tuple(row.layer for row in rows if not isinstance(row, Change) and row.in_python)

    @property
    def matching(self) -> int:
        """The number of counted rows that are ok."""
        return sum(row.ok for row in self.counted_rows)

    @property
    def found(self) -> str:
        """The count as text: "17 of 17 layers match PyTorch", "17 + 16 of 17 + 17 layers …"."""
        rows = self.counted_rows
        if not rows and self.unable:
            return "no layer could be compared"
        named = self.layers is None or any(row.layer in self.layers for row in self.rows)
        ok = format_layer_count([row.layer for row in rows if row.ok], is_comparison=self.two)
        return (
            f"{ok} of {format_layer_count([row.layer for row in rows], is_comparison=self.two)} "
            f"{'layers' if named else 'values'} {self.subject}"
        )

    @property
    def non_finite_text(self) -> str:
        """The number of layers with NaN or infinities, and the first of them, as text."""
        all_rows: Sequence[object] = self._shown_rows
        rows = [row for row in all_rows if isinstance(row, Match) and row.nan + row.inf]
        if not rows:
            return ""
        first, nan = rows[0], next((row for row in rows if row.nan), None)
        shown = [("infinity", first)] if not first.nan else []
        shown += [("NaN", nan)] if nan else []
        places = (
            f"first {kind}: {row.layer}"
            + (f", channel {row.channel}" if row.channel is not None else "")
            for kind, row in shown
        )
        count = "1 layer has" if len(rows) == 1 else f"{len(rows)} layers have"
        return f"{count} NaN or infinity, {'; '.join(places)}"

    @property
    def summary(self) -> str:
        """The verdict as one sentence."""
        diverging = self.first_diverging
        first = f"the first that is not: {diverging}" if diverging is not None else ""
        every: Sequence[object] = self.counted_rows
        judged = sum(isinstance(row, Match) and row.ok and row.double is not None for row in every)
        by = f", {judged} of them by float64" if judged else ""
        names = ", ".join(self.in_python)
        own = f"{len(self.in_python)} run in Python ({names})" if names else ""
        advice = "" if self.ok else self.advice
        note = "" if self.ok else self.note
        unable = ""
        if self.unable:
            names = ", ".join(key for key, _ in self.unable[:3])
            more = f" and {len(self.unable) - 3} more" if len(self.unable) > 3 else ""
            unable = f"the reference cannot run {names}{more} ({self.unable[0][1]})"
        parts = self.found + by, first, note, unable, advice, own, self.non_finite_text
        return "; ".join(filter(None, parts))

    def _table(self, style: Style) -> str:
        titles = TITLES[type(self.rows[0])] if self.rows else ()
        return table(titles, [row.table_row() for row in self.rows], style)

    def __str__(self) -> str:
        return "\n".join(filter(None, (self._table("text"), self.summary)))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"{self._table('html')}<p>{escape(self.summary)}</p>"


def match_layer(
    layer: str,
    actual: Array,
    expected: Array,
    *,
    rtol: float = RTOL["float32"],
    max_expected: float | None = None,
) -> Match:
    """Compare one layer: ok if max|a − b| ≤ rtol · max|b| + 1e-6 over finite values.

    `max_expected` is max|b| if `expected` has only samples of b.
    """
    if actual.shape != expected.shape:
        return Match(layer, np.inf, np.inf, np.inf, False)
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(b)
    same = np.array_equal(np.isnan(a), np.isnan(b)) and np.array_equal(
        a[np.isinf(b) | np.isinf(a)], b[np.isinf(b) | np.isinf(a)]
    )
    if not finite.any():
        return Match(layer, 0.0, 0.0, 0.0 if same else np.inf, same)
    error = np.abs(a[finite] - b[finite])
    max_expected = float(np.abs(b[finite]).max()) if max_expected is None else max_expected
    worst = float(error.max())
    ok = same and worst <= rtol * max_expected + ATOL
    relative = np.inf if not same else worst / max_expected if max_expected else worst
    return Match(layer, worst, float(error.mean()), relative, bool(ok))


def judge_by_float64(
    row: Match, actual: Array, expected: Array, exact: Array, max_expected: float | None = None
) -> Match:
    """Judge a row that failed in float32: ok if float64 is about as near to it as to the reference.

    `max_expected` is max|b| if the arrays are only samples.
    """
    if not np.isfinite(row.relative) or exact.shape != expected.shape:
        return row
    finite = np.isfinite(expected) & np.isfinite(exact)
    if not finite.any():
        return row
    a, b, true = (x[finite].astype(np.float64) for x in (actual, expected, exact))
    own, reference = (float(np.abs(x - true).max()) for x in (a, b))
    max_expected = float(np.abs(b).max()) if max_expected is None else max_expected
    allowed = min(MAX_ERROR_RATIO * reference, MAX_RELATIVE_ROUNDING * max_expected)
    ok = own <= max(RTOL["float32"] * max_expected + ATOL, allowed)
    return replace(row, ok=bool(ok), double=(own, reference))


def max_error_from_float64(expected: Array, exact: Array) -> float:
    """The largest distance from the reference at which `judge_by_float64` may accept a layer."""
    finite = np.isfinite(expected) & np.isfinite(exact)
    if exact.shape != expected.shape or not finite.any():
        return 0.0
    b, true = (x[finite].astype(np.float64) for x in (expected, exact))
    reference = float(np.abs(b - true).max())
    return reference + min(
        MAX_ERROR_RATIO * reference, MAX_RELATIVE_ROUNDING * float(np.abs(b).max())
    )


def judge_by_own_inputs(row: Match, actual: Array, *recomputed: Array) -> Match:
    """Judge a row that failed in float64, too: ok if its own inputs give the same values.

    `recomputed` has these values, in float64 or float32. Rounding errors of earlier layers that
    this layer amplifies are no fault; nor is a tie that only occurs in float32, in a layer that
    rounds to integers, as QuantizeLinear does. Each element is compared with the nearest one in
    `recomputed`.
    """
    if not np.isfinite(row.relative) or any(one.shape != actual.shape for one in recomputed):
        return row
    found = match_layer(row.layer, actual, nearest_elements(actual, recomputed))
    return replace(row, ok=found.ok, alone=found.max_abs)


@dataclass
class ReferenceNotes:
    """Observations about a reference, collected while it is computed.

    `repeat_errors`: the difference between two equal calls of the model, by key. `uncomputable`:
    the keys that the reference cannot compute, with the reasons. `engine`: the engine that was used
    in place of the usual one; empty for none.
    """

    repeat_errors: dict[str, float] = field(default_factory=dict)
    uncomputable: dict[str, str] = field(default_factory=dict)
    engine: str = ""


ComputeFloat64 = Callable[[Sequence[str]], Mapping[str, Array]]
RecomputeLayers = Callable[[Sequence[str], bool], Mapping[str, Array]]
IsFaithful = Callable[[str], bool]


def nearest_elements(actual: Array, candidates: Sequence[Array]) -> Array:
    """For each element, the one among several arrays that is nearest to the actual element."""
    nearest, *others = candidates
    for one in others:
        with np.errstate(invalid="ignore"):  # infinities, which `match_layer` judges
            nearer = np.abs(actual - one) < np.abs(actual - nearest)
        nearest = np.where(nearer, one, nearest)
    return nearest


def compare_values(
    plan: Plan,
    actual: Mapping[str, Array],
    expected: Mapping[str, Array],
    reference: str,
    complete_references: Mapping[str, Array] | None = None,
    compute_float64: ComputeFloat64 | None = None,
    recompute_layers: RecomputeLayers | None = None,
    float16_keys: Collection[str] = (),
    is_faithful: IsFaithful = lambda _: True,
    notes: ReferenceNotes | None = None,
    *,
    disagreement_of: Callable[[str], str] = lambda _: "",
    has_bends: bool = False,
    is_float64_by_model: bool = False,
) -> Report[Match]:
    """Report on the computed values in `actual`, with the tolerance of the Plan's precision.

    `complete_references` are the whole references if `expected` has only samples of them.
    `compute_float64` returns keys in float64, as many as it can; it is called only for rows that
    fail in float32. It runs the model itself if `is_float64_by_model`, otherwise the loaded Graph.
    `recompute_layers` returns keys computed from the values in `actual` before them, in float64, or
    in float32 if its second argument is False; it is called for rows that still fail, and for
    float32 only if float64 fails, too. Results of the Graph never clear a layer that isn't
    `is_faithful` to the model. `notes` are the reference's: rows that differ in a second, equal
    call are not ok, and keys that the reference cannot compute are left out. `disagreement_of`
    returns how a layer's references are known to disagree, "" if they aren't. `float16_keys` follow
    from numbers that the model itself rounds to float16, and have its tolerance. `has_bends` is
    whether `expected` are values with bends replayed.
    """
    notes = notes or ReferenceNotes()
    changes = notes.repeat_errors
    rtol = RTOL[plan.precision]
    float16_keys = {key for key in plan.computed if key in float16_keys and RTOL["float16"] > rtol}
    keys = [key for key in plan.computed if key in actual and key not in notes.uncomputable]
    most = (
        {key: _max_finite(complete_references[key]) for key in keys} if complete_references else {}
    )
    rows = [
        match_layer(
            key,
            actual[key],
            expected[key],
            rtol=RTOL["float16"] if key in float16_keys else rtol,
            max_expected=most.get(key),
        )
        for key in keys
    ]
    failed = [
        r.layer
        for r in rows
        if not r.ok and r.layer not in changes and expected[r.layer].dtype.kind == "f"
    ]
    advice = ""
    is_faithful = cache(is_faithful)
    if failed and compute_float64 is not None and plan.precision == "float32":
        true = compute_float64(failed)
        for number, row in enumerate(rows):
            if row.ok or row.layer not in true or row.layer in changes:
                continue
            three = actual[row.layer], expected[row.layer], true[row.layer]
            largest = most.get(row.layer) or _max_finite(expected[row.layer])
            rows[number] = judge_by_float64(row, *three, largest)
            double = rows[number].double
            # A model's own float64 is a separate call: a large distance may not be rounding.
            is_far = double is not None and double[1] > MAX_RELATIVE_ROUNDING * largest
            if (
                rows[number].ok
                and (is_far or not is_float64_by_model)
                and not is_faithful(row.layer)
            ):
                rows[number] = replace(rows[number], ok=False)
                advice = advice or UNFAITHFUL_MESSAGE.format(layer=row.layer)
    if failed and recompute_layers is not None and plan.precision == "float32":
        for number, row in enumerate(rows):
            if row.ok:
                continue
            # One at a time: onnx.reference is slow, and the loop ends at the first wrong layer.
            own: list[Array] = []
            for wide in (True, False):
                if row.layer in changes or rows[number].ok:
                    continue
                if row.layer in (given := recompute_layers([row.layer], wide)):
                    own.append(given[row.layer])
                    rows[number] = judge_by_own_inputs(rows[number], actual[row.layer], *own)
            if own and rows[number].ok and not is_faithful(row.layer):
                rows[number] = replace(rows[number], ok=False)
                advice = advice or UNFAITHFUL_MESSAGE.format(layer=row.layer)
            if not own and not {*plan.computed} >= {layer.name for layer in plan.layers}:
                advice = NOT_OBSERVED_MESSAGE
            if not rows[number].ok:
                break  # later layers inherit the faults of a wrong one, and keep their verdicts
    values = {value.key: value for value in plan.values}
    for number, row in enumerate(rows):
        whole = (complete_references or actual)[row.layer]
        nan, inf, channel = _count_non_finite(whole, values[row.layer].nchw)
        rows[number] = replace(
            row, nan=nan, inf=inf, channel=channel, in_python=row.layer in plan.from_python
        )
    first = next((row.layer for row in rows if not row.ok), None)
    if first is not None:
        advice = disagreement_of(first) or advice
    within = (
        ""
        if plan.precision == "float32"
        else f" within {plan.precision}'s {rtol:g} of a layer's largest"
    )
    if float16_keys:
        within = (
            f" (layers computed from float16 values within {RTOL['float16']:g} of a layer's "
            "largest)"
        )
    if changes:
        for number, row in enumerate(rows):
            if row.layer in changes:
                rows[number] = replace(row, ok=False, repeated=changes[row.layer])
        if wrong := [row for row in rows if row.repeated is not None]:
            advice = CALLS_DIFFER_MESSAGE.format(layer=wrong[0].layer, change=wrong[0].repeated)
    layers = frozenset(layer.name for layer in plan.layers)
    two = bool(plan.header.comparison.pairs)
    replayed = ", with bends applied" if has_bends else ""
    subject = f"match {reference}{within}{replayed}"
    true = complete_references or expected
    beyond = "" if plan.precision == "float32" else _float16_overflow(rows, true)
    if beyond:
        holds = (
            'use precision="float32"'
            if plan.header.target.float32_render
            else "use a browser or GPU that supports float32"
        )
        advice = (
            f"values of {beyond} exceed the float16 range (up to "
            f"{_max_finite(true[beyond]):.3g}; float16's maximum is 65504): {holds}"
        )
    unable = tuple(
        (key, notes.uncomputable[key]) for key in plan.computed if key in notes.uncomputable
    )
    return Report(tuple(rows), subject, layers, two, advice, float16_overflow=beyond, unable=unable)


def _float16_overflow(rows: Sequence[Match], references: Mapping[str, Array]) -> str:
    """The first layer with values that 16 bits cannot hold; "" for none."""
    large = (
        r.layer for r in rows if not r.in_python and _max_finite(references[r.layer]) > FLOAT16_MAX
    )
    return next(large, "")


def _max_finite(array: Array) -> float:
    finite = np.abs(array[np.isfinite(array)].astype(np.float64))
    return float(finite.max(initial=0.0))


def _count_non_finite(array: Array, nchw: NCHW) -> tuple[int, int, int | None]:
    """The numbers of NaN and infinities, and the channel of the first NaN, or else infinity."""
    wrong = ~np.isfinite(array.reshape(-1))
    if not wrong.any():
        return 0, 0, None
    nan = np.isnan(array.reshape(-1))
    count = int(nan.sum())
    _, channels, height, width = nchw
    first = int(np.argmax(nan if count else wrong))
    channel = first // (height * width) % channels if channels > 1 else None
    return count, int(wrong.sum()) - count, channel
