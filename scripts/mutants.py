"""Inserts small faults into a copy of the checkout, one at a time; reports undetected ones.

The faults are listed in tests/mutants/<area>.toml. An entry looks like

    [[fault]]
    description = "what a user would see"
    file = "src/nbglcnn/lowering/lower.py"
    old = 'the text, which stands exactly once in the file'
    new = 'what it becomes'
    tests = ["tests/plan/test_plan.py::test_that_ought_to_notice",
    "js/test/message_buffers.test.ts"]

`tests` are node ids of pytest (or "FILE -k WORDS") and files for `node --test`, quick ones first:
the first failure ends the run. The tests first run without any fault; faults whose tests fail there
are not judged. A fault also counts as detected if its tests take more than ten times as long.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Literal, TypeVar

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from mutant_checkout import CheckoutCopy, Outcome, OutcomeKind, parse_test_durations
from nbglcnn.tables import table

ROOT = Path(__file__).resolve().parents[1]
FAULTS_FOLDER = Path("tests") / "mutants"  # relative to a checkout
MIN_KILLED_FRACTION = 0.95  # of all faults: required share of detected ones
FILE_TIMEOUT_S = 600  # for the tests of one file, without a fault
TIME_FACTOR, MIN_SECONDS = 10, 30.0  # time limit with a fault: a multiple of the usual, or at least
Result = TypeVar("Result")
VerdictKind = Literal["killed", "SURVIVED", "late", "BROKEN"]
VERDICT_BY_OUTCOME: dict[OutcomeKind, VerdictKind] = {
    "failed": "killed",
    "passed": "SURVIVED",
    "late": "late",
    "broken": "BROKEN",
}
LANGUAGES = {
    ".py": "Python",
    ".glsl": "GLSL",
    ".ts": "TypeScript",
    ".tsx": "TypeScript",
    ".css": "CSS",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One change of one file, and the tests that should detect it."""

    area: str
    description: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def language(self) -> str:
        """The language of the file."""
        return LANGUAGES[Path(self.file).suffix]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a fault: `detail` is the test that detected it, or why nothing could run."""

    fault: Fault
    outcome: VerdictKind
    detail: str
    seconds: float


def load_faults(root: Path = ROOT) -> list[Fault]:
    """Load the faults that a checkout lists."""
    return [
        Fault(area=file.stem, **{**entry, "tests": tuple(entry["tests"])})
        for file in sorted((root / FAULTS_FOLDER).glob("*.toml"))
        for entry in tomllib.loads(file.read_text("utf-8"))["fault"]
    ]


def fault_problem(fault: Fault, root: Path = ROOT) -> str | None:
    """Why a fault doesn't apply to the current checkout; None if it applies."""
    path = root / fault.file
    if not path.is_file():
        return f"there is no {fault.file}"
    if (found := path.read_text("utf-8").count(fault.old)) != 1:
        return f"{fault.file} has its old text {found} times: {fault.old!r}"
    if fault.old == fault.new:
        return "it changes nothing"
    if not fault.tests:
        return "it names no tests"
    for test in fault.tests:
        name, _, function = test.partition(" -k ")[0].partition("::")
        if not (root / name).is_file():
            return f"there is no {name}"
        function = function.partition("[")[0].rpartition("::")[2]
        if function and f"def {function}(" not in (root / name).read_text("utf-8"):
            return f"{name} has no {function}"
    return None


def judge(copy: CheckoutCopy, fault: Fault, limit_s: float) -> Verdict:
    """Check whether the tests detect a fault within `limit_s` seconds."""
    start = time.perf_counter()
    if reason := fault_problem(fault, copy.folder):
        return Verdict(fault, "BROKEN", reason, 0)
    try:
        with copy.replace_text(fault.file, fault.old, fault.new):
            outcome = copy.run(fault.tests, limit_s)
            kind, detail = outcome.kind, outcome.detail
    except SystemExit as error:  # the front-end could not be bundled
        kind, detail = "broken", str(error)
    return Verdict(fault, VERDICT_BY_OUTCOME[kind], detail, time.perf_counter() - start)


def run_unchanged(copy: CheckoutCopy, tests: Sequence[str]) -> Outcome:
    """Run tests in a copy without a fault; retry once, since a busy machine may fail a test."""
    outcome = copy.run(tests, FILE_TIMEOUT_S, "--durations=0")
    return outcome if outcome.kind == "passed" else copy.run(tests, FILE_TIMEOUT_S, "--durations=0")


def tests_by_file(faults: Iterable[Fault]) -> list[list[str]]:
    """All tests of these faults without duplicates, grouped by file."""
    files: dict[str, dict[str, None]] = {}
    for fault in faults:
        for test in fault.tests:
            files.setdefault(re.split(r"::| ", test)[0], {})[test] = None
    return [list(tests) for tests in files.values()]


def judge_faults(
    root: Path, faults: Sequence[Fault], jobs: int, print_line: Callable[[str], object] = print
) -> bool:
    """Judge faults in copies of a checkout; return whether enough of them are detected."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(jobs) as pool:
        copies: SimpleQueue[CheckoutCopy] = SimpleQueue()
        made = [CheckoutCopy(root, Path(folder) / str(job)) for job in range(jobs)]
        for copy in made:
            copies.put(copy)

        def in_a_copy(work: Callable[[CheckoutCopy], Result]) -> Result:
            copy = copies.get()
            try:
                return work(copy)
            finally:
                copies.put(copy)

        try:
            groups = tests_by_file(faults)
            print_line(f"{sum(map(len, groups))} tests without any fault")
            tried = [pool.submit(in_a_copy, partial(run_unchanged, tests=g)) for g in groups]
            seconds: dict[str, float] = {}
            failures: dict[str, str] = {}  # the failing test of each test's file
            for group, one in zip(groups, tried, strict=True):
                outcome = one.result()
                seconds |= parse_test_durations(group, outcome)
                if outcome.kind != "passed":
                    failures |= dict.fromkeys(group, outcome.detail)
                    print_line(f"fails without any fault: {outcome.detail}")
            asked: list[Future[Verdict]] = []
            verdicts: list[Verdict] = []
            # Sorted by tests: faults with the same tests run one after the other, so survivors
            # appear together.
            for fault in sorted(faults, key=lambda fault: fault.tests):
                if failing := [failures[test] for test in fault.tests if test in failures]:
                    detail = f"{failing[0]} fails without the fault"
                    verdicts.append(Verdict(fault, "BROKEN", detail, 0))
                    continue
                limit = max(MIN_SECONDS, TIME_FACTOR * sum(seconds[test] for test in fault.tests))
                asked.append(pool.submit(in_a_copy, partial(judge, fault=fault, limit_s=limit)))
            for future in as_completed(asked):
                verdict = future.result()
                verdicts.append(verdict)
                fault = verdict.fault
                counted = f"{len(verdicts)}/{len(faults)} {verdict.outcome:8}"
                noticed = f" ({verdict.detail})" if verdict.outcome == "killed" else ""
                print_line(
                    f"{counted} {verdict.seconds:5.1f} s  {fault.area}: "
                    f"{fault.description}{noticed}"
                )
        finally:
            for copy in made:
                copy.close()
    return print_summary(verdicts, time.perf_counter() - start, print_line)


def print_summary(
    verdicts: Sequence[Verdict], seconds: float, print_line: Callable[[str], object]
) -> bool:
    """Print undetected faults and a table by area; return whether enough were detected."""
    for verdict in verdicts:
        fault = verdict.fault
        if verdict.outcome == "SURVIVED":
            change = f"{fault.file}\n  - {fault.old}\n  + {fault.new}"
            tests = "\n  ".join(fault.tests)
            print_line(f"\nSURVIVED {fault.area}: {fault.description}\n  {change}\n  {tests}")
        elif verdict.outcome in ("BROKEN", "late"):
            print_line(f"\n{verdict.outcome} {fault.area}: {fault.description}\n  {verdict.detail}")
    print_line("\n" + format_areas(verdicts))
    outcomes = Counter(verdict.outcome for verdict in verdicts)
    languages = Counter(verdict.fault.language for verdict in verdicts)
    # A test that times out also detects the fault.
    noticed, total = outcomes["killed"] + outcomes["late"], len(verdicts)
    kinds = ", ".join(f"{count} {name}" for name, count in languages.most_common())
    print_line(
        f"\n{noticed} of {total} faults were noticed ({kinds}), in {seconds / 60:.1f} minutes"
    )
    if outcomes["BROKEN"]:
        print_line(f"{outcomes['BROKEN']} could not be put in or run: mend their entries")
    return not outcomes["BROKEN"] and noticed >= MIN_KILLED_FRACTION * total


def format_areas(verdicts: Sequence[Verdict]) -> str:
    """Count the faults of each area that were killed, survived, or timed out."""
    areas = sorted({verdict.fault.area for verdict in verdicts})
    lines = []
    for area in [*areas, "all"]:
        own = [v for v in verdicts if area in (v.fault.area, "all")]
        n = Counter(verdict.outcome for verdict in own)
        minutes = sum(verdict.seconds for verdict in own) / 60
        counts = (len(own), n["killed"], n["SURVIVED"], n["late"], n["BROKEN"])
        lines.append((area, *map(str, counts), f"{minutes:.1f}"))
    titles = ("area", "faults", "killed", "survived", "timeouts", "broken", "minutes")
    return table(titles, lines, number_columns=range(1, 7))


def main() -> None:
    """Judge all faults, or those that match the areas or words on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="only these areas, or faults with these words")
    parser.add_argument("--jobs", type=int, default=2, help="copies at work (2)")
    parser.add_argument("--sample", type=int, help="judge this many, drawn at random from them")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (0)")
    parser.add_argument("--list", action="store_true", help="list the faults and run nothing")
    options = parser.parse_args()
    every = load_faults()
    areas = {fault.area for fault in every}

    def asked(fault: Fault, word: str) -> bool:
        return fault.area == word if word in areas else word in f"{fault.description} {fault.file}"

    chosen = [
        fault
        for fault in every
        if not options.words or any(asked(fault, word) for word in options.words)
    ]
    if options.sample is not None and options.sample < len(chosen):
        chosen = random.Random(options.seed).sample(chosen, options.sample)
    if options.list:
        for fault in chosen:
            print(f"{fault.area}: {fault.description} ({fault.file})")
    elif not chosen:
        sys.exit("No fault has these words.")
    elif not judge_faults(ROOT, chosen, options.jobs):
        sys.exit(1)


if __name__ == "__main__":
    main()
