"""A copy of a checkout in which one file at a time is changed and tests run."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from bundle import bundle, search_path_with_node

STATIC_FOLDER = Path("src") / "nbglcnn" / "static"
OutcomeKind = Literal["passed", "failed", "late", "broken"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a test run: `detail` is the failed test, or why nothing could run."""

    kind: OutcomeKind
    detail: str
    output: str
    seconds: float


class CheckoutCopy:
    """A copy of a checkout into which faults are inserted and removed."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder
        self._needs_bundle = False  # whether the front-end bundle is stale
        self._pytest = PytestForks(folder)
        listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        names = subprocess.run(listed, cwd=root, capture_output=True, check=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if (root / name).is_file():  # skip deleted but uncommitted files
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(root / name, folder / name)
        if (root / STATIC_FOLDER).is_dir():
            shutil.copytree(root / STATIC_FOLDER, folder / STATIC_FOLDER)
        # Link all packages; only the bundle's stamp belongs to this copy.
        modules = root / "js" / "node_modules"
        (folder / "js" / "node_modules").mkdir(parents=True)
        for installed in modules.iterdir() if modules.is_dir() else ():
            if installed.name != ".nbglcnn-bundle":
                (folder / "js" / "node_modules" / installed.name).symlink_to(installed)
        if (root / ".cache").is_dir():  # trained or fetched weights
            (folder / ".cache").symlink_to(root / ".cache")

    @contextmanager
    def replace_text(self, file: str, old: str, new: str) -> Iterator[None]:
        """Replace text in one file of the copy for the duration of the block."""
        path = self.folder / file
        original_text = path.read_text("utf-8")
        kept = self.folder / "static-as-it-was"
        try:
            self._write(path, original_text.replace(old, new))
            self._needs_bundle = self._is_bundled(file)
            yield
        finally:
            self._needs_bundle = False
            self._write(path, original_text)
            if kept.is_dir():
                shutil.rmtree(self.folder / STATIC_FOLDER)
                kept.rename(self.folder / STATIC_FOLDER)

    def _is_bundled(self, file: str) -> bool:
        """Whether the front-end bundle includes this file; it includes some of Python's shaders."""
        if file.startswith("js/"):
            return True
        entries = (self.folder / "js" / "src").rglob("*.ts")
        return file.endswith(".glsl") and any(file in entry.read_text("utf-8") for entry in entries)

    def _bundle(self) -> None:
        """Bundle the front-end again, because the fault changes it."""
        shutil.copytree(self.folder / STATIC_FOLDER, self.folder / "static-as-it-was")
        bundle(self.folder, search_path_with_node())
        self._needs_bundle = False

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, "utf-8")
        # Python treats a compiled file as current if the time in seconds and the size match.
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def run(self, tests: Sequence[str], limit_s: float, *options: str) -> Outcome:
        """Run tests until one fails, for at most `limit_s` seconds; `options` go to pytest."""
        start, said = time.perf_counter(), ""
        for test in pytest_commands(tests):
            if self._needs_bundle and test[0] == "pytest":  # node runs the sources directly
                self._bundle()
                start = time.perf_counter()
            left = limit_s - (time.perf_counter() - start)
            if test[0] == "pytest":
                status, text = self._pytest.run([*test[1:], *options], left)
            else:
                status, text = _run(test, self.folder, left)
            said += text
            seconds = time.perf_counter() - start
            if status is None:
                return Outcome("late", f"not ended within {limit_s:.0f} s", said, seconds)
            if status == 1:
                return Outcome("failed", first_failure(text), said, seconds)
            if status:
                return Outcome("broken", f"exit status {status}\n{text[-2000:]}", said, seconds)
        return Outcome("passed", "", said, time.perf_counter() - start)

    def close(self) -> None:
        """End the processes that run the copy's tests."""
        self._pytest.close()


class PytestForks:
    """Runs pytest in forks of a process that has imported the large packages except the copy's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, arguments: Sequence[str], limit_s: float) -> tuple[int | None, str]:
        """Run pytest; return its exit status (None on timeout) and its output."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("pytest_fork_server.py"))],
                cwd=self._folder,
                env=_environment(self._folder),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
            )
        answers = self._process.stdout
        assert self._process.stdin is not None and answers is not None
        output = self._folder / "what-pytest-said.txt"
        asked = {"arguments": list(arguments), "output": str(output)}
        self._process.stdin.write(f"{json.dumps(asked)}\n".encode())
        child = _read_status(answers)
        if child is None:
            self.close()
            return 3, "the process that runs pytest has ended"
        late = not select.select([answers], [], [], max(limit_s, 0))[0]
        _kill_group(child)  # and its children: browsers, kernels
        status = _read_status(answers)
        said = output.read_text("utf-8", "replace") if output.exists() else ""
        return (None if late else 3 if status is None else status), said

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()
            self._process = None


def _read_status(answers: IO[bytes]) -> int | None:
    line = answers.readline()
    return int(line) if line else None


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PATH": search_path_with_node(), "PYTHONPATH": str(folder / "src")}


def _run(command: Sequence[str], folder: Path, limit_s: float) -> tuple[int | None, str]:
    """Run a command; return its exit status (None on timeout) and its output."""
    with subprocess.Popen(
        command,
        cwd=folder,
        env=_environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=max(limit_s, 0))
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            _kill_group(process.pid)
    return process.returncode, said


def _kill_group(group_id: int) -> None:
    """Kill the processes of a group."""
    with suppress(ProcessLookupError):
        os.killpg(group_id, signal.SIGKILL)


def is_typescript(test: str) -> bool:
    """Whether these tests run in node."""
    return test.endswith(".ts")


def pytest_commands(tests: Sequence[str]) -> list[list[str]]:
    """The fewest commands that run these tests in order."""
    pytest = ["pytest", "-x", "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider"]
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


def first_failure(output: str) -> str:
    """The name of the first failed test in the output of pytest or node."""
    by_pytest = re.search(r"^(?:FAILED|ERROR) \S*?([\w.]+::.*?)(?: - |$)", output, re.MULTILINE)
    by_node = re.search(r"^\s*(?:✖|not ok \d+ -) (.*?)(?: \([\d.]+ms\))?$", output, re.MULTILINE)
    found = by_pytest or by_node
    return found[1] if found else output[-500:]


def parse_test_durations(tests: Sequence[str], outcome: Outcome) -> dict[str, float]:
    """The seconds that each test takes by itself, from a run with `--durations=0`.

    The set-up of the first test, such as a browser, counts for each: any test alone needs it.
    """
    lines = re.findall(r"^([\d.]+)s (setup|call|teardown) +(\S.*)$", outcome.output, re.MULTILINE)
    taken = [(float(seconds), stage, name.strip()) for seconds, stage, name in lines]
    begin = max((seconds for seconds, stage, _ in taken if stage == "setup"), default=0)
    begin += outcome.seconds - sum(seconds for seconds, _, _ in taken)

    def own(test: str) -> float:
        if " -k " in test or "::" not in test:
            return outcome.seconds
        return begin + sum(
            seconds
            for seconds, stage, name in taken
            if stage != "setup" and (name == test or name.startswith(f"{test}["))
        )

    return {test: own(test) for test in tests}
