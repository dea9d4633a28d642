"""Puts small faults into a copy of the checkout, one at a time, and says which no test notices.

The faults stand in tests/mutants/<area>.toml. One is an entry like

    [[fault]]
    says = "what a user would see"
    file = "src/nbglcnn/lower.py"
    old = 'the text, which stands exactly once in the file'
    new = 'what it becomes'
    tests = ["tests/test_plan.py::test_that_ought_to_notice", "js/test/wire.test.ts"]

`tests` are node ids of pytest (or "FILE -k WORDS") and files for `node --test`, quick ones first:
the first failure ends the run. They are run without any fault too, where they have to pass.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Literal, TypeVar

from bundle import bundle, node_path

ROOT = Path(__file__).resolve().parents[1]
FAULTS = Path("tests") / "mutants"  # in a checkout
STATIC = Path("src") / "nbglcnn" / "static"
SHARE = 0.95  # of all faults that are to be noticed
TEST_SECONDS = 120  # of one test: a fault may make it wait for ever
RUN_SECONDS = 600  # of all tests that ought to notice a fault
Given = TypeVar("Given")
Found = TypeVar("Found")
LANGUAGES = {
    ".py": "Python",
    ".glsl": "GLSL",
    ".ts": "TypeScript",
    ".tsx": "TypeScript",
    ".css": "CSS",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One change of one file, and the tests that ought to notice it."""

    area: str
    says: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def language(self) -> str:
        """What the file is written in."""
        return LANGUAGES[Path(self.file).suffix]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a fault; `detail` is the test that noticed, or why nothing could be run."""

    fault: Fault
    outcome: Literal["killed", "SURVIVED", "BROKEN"]
    detail: str
    seconds: float


def faults(root: Path = ROOT) -> list[Fault]:
    """The faults that a checkout lists."""
    return [
        Fault(area=file.stem, **{**entry, "tests": tuple(entry["tests"])})
        for file in sorted((root / FAULTS).glob("*.toml"))
        for entry in tomllib.loads(file.read_text("utf-8"))["fault"]
    ]


def problem(fault: Fault, root: Path = ROOT) -> str | None:
    """Why a fault cannot be put into a checkout as it is today; None where it can."""
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


class Copy:
    """A copy of a checkout, in which faults come and go."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        self._stale = False  # the bundled front-end
        listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        names = subprocess.run(listed, cwd=root, capture_output=True, check=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if (root / name).is_file():  # not one that was deleted and not yet committed
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(root / name, folder / name)
        if (root / STATIC).is_dir():
            shutil.copytree(root / STATIC, folder / STATIC)
        # Of the packages only the stamp of what was bundled is this copy's own.
        modules = root / "js" / "node_modules"
        (folder / "js" / "node_modules").mkdir(parents=True)
        for installed in modules.iterdir() if modules.is_dir() else ():
            if installed.name != ".nbglcnn-bundle":
                (folder / "js" / "node_modules" / installed.name).symlink_to(installed)
        if (root / ".cache").is_dir():  # weights that were trained or fetched
            (folder / ".cache").symlink_to(root / ".cache")

    @contextmanager
    def with_fault(self, fault: Fault) -> Iterator[None]:
        """The copy with a fault in it."""
        path = self.folder / fault.file
        right = path.read_text("utf-8")
        kept = self.folder / "static-as-it-was"
        try:
            self._write(path, right.replace(fault.old, fault.new))
            self._stale = self._is_bundled(fault.file)
            yield
        finally:
            self._stale = False
            self._write(path, right)
            if kept.is_dir():
                shutil.rmtree(self.folder / STATIC)
                kept.rename(self.folder / STATIC)

    def _is_bundled(self, file: str) -> bool:
        """Whether the front-end is made of this file too; it takes in some of Python's shaders."""
        if file.startswith("js/"):
            return True
        entries = (self.folder / "js" / "src").rglob("*.ts")
        return file.endswith(".glsl") and any(file in entry.read_text("utf-8") for entry in entries)

    def _bundle(self) -> None:
        """Bundle the front-end, whose fault makes it another one."""
        shutil.copytree(self.folder / STATIC, self.folder / "static-as-it-was")
        bundle(self.folder, node_path())
        self._stale = False

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, "utf-8")
        # Python takes a compiled file for current where time in seconds and size are the same.
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def run(self, tests: Sequence[str]) -> tuple[Literal["passed", "failed", "broken"], str]:
        """Run tests until one fails, which is named; or why they could not be run."""
        for command in commands(tests):
            if self._stale and command[0] == sys.executable:  # node takes the sources themselves
                self._bundle()
            environment = {
                **os.environ,
                "PATH": node_path(),
                "PYTHONPATH": str(self.folder / "src"),
            }
            with subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            ) as process:
                try:
                    said, _ = process.communicate(timeout=RUN_SECONDS)
                except subprocess.TimeoutExpired:
                    return "broken", f"its tests took over {RUN_SECONDS} s"
                finally:
                    _end(process)
            if process.returncode == 1:
                return "failed", failure(said)
            if process.returncode != 0:
                return "broken", f"exit status {process.returncode}\n{said[-2000:]}"
        return "passed", ""


def _end(process: subprocess.Popen[str]) -> None:
    """End a run and all that it started: browsers, kernels."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def is_typescript(test: str) -> bool:
    """Whether node runs these tests."""
    return test.endswith(".ts")


def commands(tests: Sequence[str]) -> list[list[str]]:
    """The fewest commands that run these tests, in their order."""
    pytest = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "--tb=short"]
    pytest += ["-p", "no:cacheprovider", f"--timeout={TEST_SECONDS}"]
    found: list[list[str]] = []
    joined = False
    for test in tests:
        name, separator, words = test.partition(" -k ")
        if joined and name == test and not is_typescript(test):
            found[-1].append(test)
            continue
        joined = name == test and not is_typescript(test)
        if is_typescript(test):
            found.append(["node", "--test", test])
        else:
            found.append([*pytest, name, *(["-k", words] if separator else [])])
    return found


def failure(said: str) -> str:
    """The name of the first test that failed, in what pytest or node said."""
    by_pytest = re.search(r"^(?:FAILED|ERROR) \S*?([\w.]+::.*?)(?: - |$)", said, re.MULTILINE)
    by_node = re.search(r"^\s*(?:✖|not ok \d+ -) (.*?)(?: \([\d.]+ms\))?$", said, re.MULTILINE)
    found = by_pytest or by_node
    return found[1] if found else said[-500:]


def judge(copy: Copy, fault: Fault) -> Verdict:
    """Whether the tests notice a fault."""
    start = time.perf_counter()
    if reason := problem(fault, copy.folder):
        return Verdict(fault, "BROKEN", reason, 0)
    try:
        with copy.with_fault(fault):
            outcome, detail = copy.run(fault.tests)
    except SystemExit as error:  # the front-end could not be bundled
        outcome, detail = "broken", str(error)
    seconds = time.perf_counter() - start
    if outcome == "broken":
        return Verdict(fault, "BROKEN", detail, seconds)
    return Verdict(fault, "killed" if outcome == "failed" else "SURVIVED", detail, seconds)


def without_faults(copy: Copy, tests: Sequence[str]) -> str:
    """What fails in a copy that has no fault; a busy machine may fail a test once, not twice."""
    outcome, detail = copy.run(tests)
    if outcome != "passed":
        outcome, detail = copy.run(tests)
    return "" if outcome == "passed" else detail


def by_file(chosen: Iterable[Fault]) -> list[list[str]]:
    """All tests of these faults, each once, those of one file together."""
    files: dict[str, dict[str, None]] = {}
    for fault in chosen:
        for test in fault.tests:
            files.setdefault(re.split(r"::| ", test)[0], {})[test] = None
    return [list(tests) for tests in files.values()]


def run(
    root: Path, chosen: Sequence[Fault], jobs: int, say: Callable[[str], object] = print
) -> bool:
    """Judge faults in copies of a checkout; whether enough of them are noticed."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(jobs) as pool:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for job in range(jobs):
            copies.put(Copy(root, Path(folder) / str(job)))

        def in_a_copy(work: Callable[[Copy, Given], Found], given: Given) -> Found:
            copy = copies.get()
            try:
                return work(copy, given)
            finally:
                copies.put(copy)

        groups = by_file(chosen)
        say(f"{sum(map(len, groups))} tests without any fault")
        failed = list(pool.map(lambda group: in_a_copy(without_faults, group), groups))
        if any(failed):
            say("These fail without any fault:\n" + "\n".join(filter(None, failed)))
            return False
        asked = [pool.submit(in_a_copy, judge, fault) for fault in chosen]
        verdicts = []
        for one in as_completed(asked):
            verdict = one.result()
            verdicts.append(verdict)
            fault = verdict.fault
            counted = f"{len(verdicts)}/{len(chosen)} {verdict.outcome:8} {verdict.seconds:5.1f} s"
            noticed = f" ({verdict.detail})" if verdict.outcome == "killed" else ""
            say(f"{counted}  {fault.area}: {fault.says}{noticed}")
    return summary(verdicts, time.perf_counter() - start, say)


def summary(verdicts: Sequence[Verdict], seconds: float, say: Callable[[str], object]) -> bool:
    """Print what was not noticed and how many were; whether that is enough."""
    for verdict in verdicts:
        fault = verdict.fault
        if verdict.outcome == "SURVIVED":
            change = f"{fault.file}\n  - {fault.old}\n  + {fault.new}"
            tests = "\n  ".join(fault.tests)
            say(f"\nSURVIVED {fault.area}: {fault.says}\n  {change}\n  {tests}")
        elif verdict.outcome == "BROKEN":
            say(f"\nBROKEN {fault.area}: {fault.says}\n  {verdict.detail}")
    outcomes = Counter(verdict.outcome for verdict in verdicts)
    languages = Counter(verdict.fault.language for verdict in verdicts)
    killed, total = outcomes["killed"], len(verdicts)
    kinds = ", ".join(f"{count} {name}" for name, count in languages.most_common())
    say(f"\n{killed} of {total} faults were noticed ({kinds}), in {seconds / 60:.1f} minutes")
    if outcomes["BROKEN"]:
        say(f"{outcomes['BROKEN']} could not be put in or run: mend their entries")
    return not outcomes["BROKEN"] and killed >= SHARE * total


def main() -> None:
    """Judge all faults, or those of the areas or with the words that are given."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="only these areas, or faults with these words")
    parser.add_argument("--jobs", type=int, default=2, help="copies at work (2)")
    parser.add_argument("--list", action="store_true", help="list the faults and run nothing")
    options = parser.parse_args()
    every = faults()
    areas = {fault.area for fault in every}

    def asked(fault: Fault, word: str) -> bool:
        return fault.area == word if word in areas else word in f"{fault.says} {fault.file}"

    chosen = [
        fault
        for fault in every
        if not options.words or any(asked(fault, word) for word in options.words)
    ]
    if options.list:
        for fault in chosen:
            print(f"{fault.area}: {fault.says} ({fault.file})")
    elif not chosen:
        sys.exit("No fault has these words.")
    elif not run(ROOT, chosen, options.jobs):
        sys.exit(1)


if __name__ == "__main__":
    main()
