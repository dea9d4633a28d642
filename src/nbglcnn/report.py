"""Reports: tables with a verdict, printed readably in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Generic, TypeVar

import numpy as np

from nbglcnn.graph import Array

# Of the largest reference value of the layer. In float16 every layer's values are rounded by up to
# 5e-4 of themselves, and each layer works on what the one before has rounded: among the small
# networks of tests/zoo.py the worst is 5e-3, but 1.8e-2 where pictures are sampled at computed
# places.
RTOL = {"float32": 1e-5, "float16": 2e-2}
ATOL = 1e-6
# A layer may be so many times as far from float64 as the reference is: both are the largest of many
# roundings, in another order. Above a hundredth of the largest value they may be faults as well.
AS_FAR = 2.0
ROUNDING = 1e-2

Row = TypeVar("Row", "Support", "Match", "Change")


@dataclass(frozen=True, slots=True)
class Support:
    """Whether a layer can run; `reason` says why not, and what could."""

    layer: str
    operator: str
    ok: bool
    reason: str = ""

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        return self.layer, self.operator, "yes" if self.ok else "no", self.reason


@dataclass(frozen=True, slots=True)
class _Distance:
    """How far a layer is from another one."""

    layer: str
    max_abs: float
    mean_abs: float
    relative: float
    ok: bool

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        numbers = (f"{v:.2g}" for v in (self.max_abs, self.mean_abs, self.relative))
        return self.layer, *numbers, "yes" if self.ok else "no"


@dataclass(frozen=True, slots=True)
class Match(_Distance):
    """How far a layer is from the reference, over finite values; NaN and Inf must coincide.

    Where they don't, `relative` is infinite. `double` is there where float64 was the judge: how far
    the layer is from what the model computes in float64, and how far the reference is.
    """

    double: tuple[float, float] | None = None

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        cells = _Distance.cells(self)
        if self.double is None:
            return cells
        own, reference = self.double
        told = f"{cells[-1]}: {own:.2g} from float64, the reference {reference:.2g}"
        return (*cells[:-1], told)


@dataclass(frozen=True, slots=True)
class Change(_Distance):
    """How much a layer of B differs from that of A; `ok` says that they are equal.

    `max_abs` and `mean_abs` are of |B − A|, `relative` is the mean divided by the mean of |A|:
    infinite where A is zero everywhere and B is not.
    """


TITLES = {
    Support: ("layer", "operator", "supported", "reason"),
    Match: ("layer", "max abs error", "mean abs error", "relative", "ok"),
    Change: ("layer", "max |B − A|", "mean |B − A|", "relative", "equal"),
}


@dataclass(frozen=True)
class Report(Generic[Row]):
    """Rows and a verdict. `print(report)` and a notebook show it as a table."""

    rows: tuple[Row, ...]
    subject: str

    @property
    def ok(self) -> bool:
        """Whether every row is."""
        return all(row.ok for row in self.rows)

    @property
    def first_diverging(self) -> str | None:
        """The name of the first layer that is not ok, else None."""
        return next((row.layer for row in self.rows if not row.ok), None)

    @property
    def matching(self) -> int:
        """How many rows are ok."""
        return sum(row.ok for row in self.rows)

    @property
    def summary(self) -> str:
        """One sentence."""
        first = f"; the first that is not: {self.first_diverging}" if not self.ok else ""
        judged = sum(
            row.ok and isinstance(row, Match) and row.double is not None for row in self.rows
        )
        by = f", {judged} of them by float64" if judged else ""
        return f"{self.matching} of {len(self.rows)} {self.subject}{by}{first}"

    def _table(self) -> list[tuple[str, ...]]:
        if not self.rows:
            return []
        return [TITLES[type(self.rows[0])], *(row.cells() for row in self.rows)]

    def __str__(self) -> str:
        table = self._table()
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines: list[str] = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in table
        ]
        return "\n".join([*lines, self.summary])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        titles, *rows = self._table() or [()]
        head = "".join(f"<th>{escape(cell)}</th>" for cell in titles)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        return (
            f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
            f"<p>{escape(self.summary)}</p>"
        )


def match(
    layer: str,
    actual: Array,
    expected: Array,
    *,
    rtol: float = RTOL["float32"],
    largest: float | None = None,
) -> Match:
    """One layer compared: ok when max|a − b| ≤ rtol · max|b| + 1e-6 over finite values.

    `largest` is max|b| where `expected` has but samples of b.
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
    largest = float(np.abs(b[finite]).max()) if largest is None else largest
    worst = float(error.max())
    ok = same and worst <= rtol * largest + ATOL
    relative = np.inf if not same else worst / largest if largest else worst
    return Match(layer, worst, float(error.mean()), relative, bool(ok))


def judged(
    row: Match, actual: Array, expected: Array, exact: Array, largest: float | None = None
) -> Match:
    """A row that failed in float32: ok where float64 is as near to the layer as to the reference.

    `largest` is max|b| where the arrays are but samples.
    """
    if not np.isfinite(row.relative) or exact.shape != expected.shape:
        return row
    finite = np.isfinite(expected) & np.isfinite(exact)
    if not finite.any():
        return row
    a, b, true = (x[finite].astype(np.float64) for x in (actual, expected, exact))
    own, reference = (float(np.abs(x - true).max()) for x in (a, b))
    largest = float(np.abs(b).max()) if largest is None else largest
    allowed = min(AS_FAR * reference, ROUNDING * largest)
    ok = own <= max(RTOL["float32"] * largest + ATOL, allowed)
    return replace(row, ok=bool(ok), double=(own, reference))


Exact = Callable[[Sequence[str]], Mapping[str, Array]]


def compared(
    actual: Mapping[str, Array],
    expected: Mapping[str, Array],
    keys: Sequence[str],
    reference: str,
    precision: str = "float32",
    largest: Mapping[str, float] | None = None,
    exact: Exact | None = None,
) -> Report[Match]:
    """A report over `keys`, in order, with the tolerance of the precision they were stored in.

    `largest` has each key's largest value where `expected` has but samples. `exact` gives keys in
    float64, as many as it can; it is asked only for what fails in float32.
    """
    rtol = RTOL[precision]
    most = largest or {}
    rows = [match(k, actual[k], expected[k], rtol=rtol, largest=most.get(k)) for k in keys]
    failed = [r.layer for r in rows if not r.ok and expected[r.layer].dtype.kind == "f"]
    if failed and exact is not None and precision == "float32":
        true = exact(failed)
        rows = [
            judged(r, actual[r.layer], expected[r.layer], true[r.layer], most.get(r.layer))
            if not r.ok and r.layer in true
            else r
            for r in rows
        ]
    within = (
        "" if precision == "float32" else f" within {precision}'s {rtol:g} of a layer's largest"
    )
    return Report(tuple(rows), f"layers match {reference}{within}")
