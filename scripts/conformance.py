"""Runs ONNX's test suite on local OpenGL and two renderers in Chromium: `make conformance`."""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.runner import Runner
from playwright.sync_api import sync_playwright

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from browsers import RENDERERS
from nbglcnn.backend import compile_call, declared_outputs, named_inputs, shape_inputs
from nbglcnn.errors import UnsupportedModel
from nbglcnn.plan.schema import Plan
from nbglcnn.runtime.session import Session
from nbglcnn.tables import table
from onnx_suite import SUBSETS, SuiteCase, suite_cases
from plan_page import open_plan_pages
from shader_proof import explain_missing_passes

ROOT = Path(__file__).resolve().parents[1]
RECORD_FILE = ROOT / "tests" / "conformance.json"
FULL_RECORD_FILE = ROOT / "build" / "conformance.json"
OPENGL = "opengl"
BACKENDS = (OPENGL, *RENDERERS)

Arrays = tuple[np.ndarray, ...]
RunPlan = Callable[[Plan, Arrays], dict[str, np.ndarray]]


@dataclass(slots=True)
class Outcome:
    """The result of a case on each back end: passed, refused, wrong or error, with the reason."""

    name: str
    subset: str
    operator: str
    is_expanded: bool
    pass_count: int = 0
    status_by_backend: dict[str, str] = field(default_factory=dict)
    reason_by_backend: dict[str, str] = field(default_factory=dict)

    @property
    def has_passed(self) -> bool:
        """Whether it passed on all back ends."""
        return set(self.status_by_backend.values()) == {"passed"}


def run_on_opengl(plan: Plan, arrays: Arrays) -> dict[str, np.ndarray]:
    """Run the Plan on local OpenGL."""
    with Session(plan) as session:
        return session.run(*arrays)


def run_case(case: SuiteCase, runs: dict[str, RunPlan]) -> Outcome:
    """Compile a case once and run it on each back end."""
    result = Outcome(case.name, case.subset, case.operator, case.is_expanded)
    try:
        model, sets = case.read()
        for inputs, expected in sets:
            given = named_inputs(model, inputs)
            plan, arrays = compile_call(model, given)
            result.pass_count += len(plan.header.passes)
            running = {n: a for n, a in given.items() if n not in shape_inputs(model)}
            problem = explain_missing_passes(model, plan, running, expected)
            for backend, run in runs.items():
                if result.status_by_backend.get(backend, "passed") == "passed":
                    how = _check_outputs(case, model, plan, arrays, expected, run, problem)
                    result.status_by_backend[backend], result.reason_by_backend[backend] = how
    except UnsupportedModel as error:
        result.status_by_backend = dict.fromkeys(runs, "refused")
        result.reason_by_backend = dict.fromkeys(runs, f"{type(error).__name__}: {error}")
    except Exception:
        result.status_by_backend = dict.fromkeys(runs, "error")
        result.reason_by_backend = dict.fromkeys(runs, traceback.format_exc(limit=-3))
    return result


def _check_outputs(
    case: SuiteCase,
    model: onnx.ModelProto,
    plan: Plan,
    arrays: Arrays,
    expected: Sequence[np.ndarray],
    run: RunPlan,
    problem: str | None,
) -> tuple[str, str]:
    if problem is not None:
        return "wrong", f"not computed by shaders: {problem}"
    try:
        outputs = declared_outputs(model, plan, run(plan, arrays))
        Runner.assert_similar_outputs(expected, outputs, **case.tolerance)
    except AssertionError as error:
        return "wrong", " ".join(str(error).split())
    except Exception:
        return "error", traceback.format_exc(limit=-3)
    return "passed", ""


def report_lines(outcomes: Sequence[Outcome], backends: Sequence[str]) -> Iterable[str]:
    """A readable report: by subset and operator, then cases that didn't pass, then totals."""
    lines = []
    for ring in SUBSETS:
        for operator in sorted({o.operator for o in outcomes if o.subset == ring}):
            for expanded in (False, True):
                rows = [
                    o
                    for o in outcomes
                    if (o.subset, o.operator, o.is_expanded) == (ring, operator, expanded)
                ]
                if rows:
                    name = operator + (" (expanded)" if expanded else "")
                    drawn = " ".join(str(o.pass_count) if o.has_passed else "-" for o in rows)
                    good = sum(o.has_passed for o in rows)
                    lines.append((ring, name, str(len(rows)), str(good), drawn))
    titles = ("ring", "operator", "cases", "passed", "passes drawn per case")
    yield table(titles, lines, number_columns=(2, 3))
    for o in outcomes:
        for backend in backends:
            if o.status_by_backend[backend] != "passed":
                status, reason = o.status_by_backend[backend], o.reason_by_backend[backend]
                yield f"{o.name} on {backend}: {status}: {reason}"
    yield from summary_lines(outcomes, backends)


def summary_lines(outcomes: Sequence[Outcome], backends: Sequence[str]) -> Iterable[str]:
    """One line for each subset and back end."""
    for expanded in (False, True):
        for ring in (*SUBSETS, "all"):
            rows = [o for o in outcomes if o.is_expanded is expanded and ring in (o.subset, "all")]
            if not rows:
                continue
            kind = "expanded" if expanded else "plain"
            for backend in backends:
                counts = Counter(o.status_by_backend[backend] for o in rows)
                said = ", ".join(f"{n} {status}" for status, n in counts.most_common())
                yield f"{ring} {kind}, {backend}: {said} of {len(rows)}"


def build_record(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The record of a full run kept in the repository: passed cases, and reasons of the others."""
    operators: dict[str, list[int]] = {}
    for o in outcomes:
        if not o.is_expanded and o.subset != "models":
            row = operators.setdefault(o.operator, [0, 0])
            row[0] += o.has_passed
            row[1] += 1
    return {
        "onnx": onnx.__version__,
        "backends": list(BACKENDS),
        "rings": {
            f"{ring}{' expanded' if expanded else ''}": [sum(o.has_passed for o in rows), len(rows)]
            for expanded in (False, True)
            for ring in SUBSETS
            if (rows := [o for o in outcomes if (o.subset, o.is_expanded) == (ring, expanded)])
        },
        "operators": dict(sorted(operators.items())),
        "not passed": {
            o.name: sorted(
                {
                    f"{o.status_by_backend[b]}: {o.reason_by_backend[b].splitlines()[-1]}"
                    for b in o.status_by_backend
                }
                - {"passed: "}
            )
            for o in sorted(outcomes, key=lambda o: o.name)
            if not o.has_passed
        },
    }


def select_cases(arguments: argparse.Namespace) -> list[SuiteCase]:
    """The cases selected on the command line."""
    return [
        case
        for case in suite_cases(arguments.rings, expanded=not arguments.plain)
        if not arguments.only
        or any(part in case.name or part == case.operator for part in arguments.only)
    ]


def main() -> int:
    """Run, print and write; return 1 if a case is wrong or ends with an error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="operators, or parts of cases' names")
    parser.add_argument("--rings", nargs="+", choices=SUBSETS, default=SUBSETS)
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=BACKENDS)
    parser.add_argument("--plain", action="store_true", help="without the expanded cases")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    cases, outcomes, begun = select_cases(arguments), [], time.perf_counter()
    with ExitStack() as stack:
        renderers = tuple(name for name in RENDERERS if name in arguments.backends)
        runs: dict[str, RunPlan] = {OPENGL: run_on_opengl} if OPENGL in arguments.backends else {}
        if renderers:
            playwright = stack.enter_context(sync_playwright())
            pages = stack.enter_context(open_plan_pages(playwright, renderers))
            runs.update({name: page.run for name, page in pages.items()})
        for number, case in enumerate(cases, 1):
            outcomes.append(run_case(case, runs))
            if number % 25 == 0 or number == len(cases):
                seconds = time.perf_counter() - begun
                print(f"{number} of {len(cases)} cases, {seconds:.0f} s", file=sys.stderr)
    print("\n".join(report_lines(outcomes, list(runs))))
    FULL_RECORD_FILE.parent.mkdir(exist_ok=True)
    FULL_RECORD_FILE.write_text(json.dumps([asdict(o) for o in outcomes], indent=1), "utf-8")
    whole = not arguments.only and arguments.rings == SUBSETS and arguments.backends == BACKENDS
    if whole and not arguments.plain:
        RECORD_FILE.write_text(json.dumps(build_record(outcomes), indent=1) + "\n", "utf-8")
    return int(
        any(
            status not in ("passed", "refused")
            for o in outcomes
            for status in o.status_by_backend.values()
        )
    )


if __name__ == "__main__":
    sys.exit(main())
