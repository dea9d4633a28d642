"""Compiles damaged models: none may crash, hang, or raise an exception that isn't ours.

Each batch runs in its own process, with limits on memory and time. A case depends only on the seed
and its number, so that a finding can be reproduced; findings are also saved as files.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import secrets
import select
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from random import Random
from typing import IO, Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from cpu_time import cpu_time_factor
from fuzz_models import seed_models
from fuzz_mutations import mutate_bytes, mutate_structure
from nbglcnn.tables import table

ROOT = Path(__file__).resolve().parents[1]
FINDINGS_FOLDER = ROOT / "build" / "fuzz"
MUTATORS = {"bytes": mutate_bytes, "structure": mutate_structure}
BATCH_SIZES = {"bytes": 2500, "structure": 500}
CASE_LIMIT_S = 1.0  # CPU time per case, on a machine whose `cpu_time_factor` is 1
ANSWER_TIMEOUT_S = 60.0  # a child without output for this many seconds is killed, on any machine
MEMORY_LIMIT_BYTES = 2**30  # bytes of address space for a case, beyond the imports
MAX_MESSAGE_LENGTH = 2000  # in characters


# A line of a child's output: number, model, outcome, problem, seconds, bytes of memory.
CaseResult = tuple[int, str, str, str, float, int]


@dataclass(frozen=True, slots=True)
class CaseRange:
    """A range of case numbers of one kind."""

    kind: str
    start: int
    end: int


@dataclass(slots=True)
class Tally:
    """The results of the cases."""

    outcomes: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    slowest_case_s: float = 0.0
    peak_memory_bytes: int = 0
    findings: list[str] = field(default_factory=list)

    def add(self, kind: str, name: str, outcome: str) -> None:
        """Count a case of a kind and model."""
        self.outcomes.setdefault((kind, name), Counter())[outcome] += 1


def make_case(kind: str, seed: int, number: int) -> tuple[str, bytes]:
    """Return a case's original model and its damaged bytes."""
    random = Random(f"{seed} {kind} {number}")
    models = seed_models()
    name, data = models[number % len(models)]
    return name, MUTATORS[kind](data, random)


def compile_and_check(data: bytes) -> str:
    """Compile, save and check; return "accepted" or the name of our exception."""
    import nbglcnn
    from nbglcnn.errors import NbglcnnError

    try:
        for observe in ("all", "outputs"):
            nbglcnn.compile(data, observe=observe).to_bytes()
    except NbglcnnError as error:
        if len(str(error)) > MAX_MESSAGE_LENGTH:
            raise AssertionError(f"a message of {len(str(error))} characters") from error
        outcome = type(error).__name__
    else:
        outcome = "accepted"
    try:
        report = nbglcnn.check(data)
    except NbglcnnError:
        if outcome == "accepted":
            raise AssertionError("check refuses what compile accepts") from None
    else:
        if outcome == "accepted" and not report.ok:
            raise AssertionError(f"check has a reason against what compile accepts: {report}")
        report._repr_html_()
    return outcome


# Child process


def run_child(target: str, seed: int, job: CaseRange, limit_s: float) -> None:
    """Run a job's cases and print a line of JSON after each."""
    attempt = load_target(target)
    for _, data in seed_models():
        attempt(data)  # warm-up: imports and caches don't count as a case's time
    limit = _address_space_bytes() + MEMORY_LIMIT_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    before = _peak_memory_bytes()
    for number in range(job.start, job.end):
        name, data = make_case(job.kind, seed, number)
        outcome, problem, seconds = measure_case(attempt, data, limit_s)
        if not problem and seconds > limit_s:
            problem = f"took {seconds:.1f} s"
        line = [number, name, outcome, problem, seconds, _peak_memory_bytes() - before]
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def measure_case(
    target: Callable[[bytes], str], data: bytes, limit_s: float
) -> tuple[str, str, float]:
    """Like `run_case`; rerun slow cases and scale their time by this machine's speed."""
    outcome, problem, seconds = run_case(target, data)
    for _ in range(2):
        if not problem and seconds > limit_s:
            seconds = min(seconds, run_case(target, data)[2] / cpu_time_factor())
    return outcome, problem, seconds


def run_case(target: Callable[[bytes], str], data: bytes) -> tuple[str, str, float]:
    """Return a case's outcome, the problem found, and its CPU seconds."""
    start = time.process_time()
    try:
        outcome, problem = target(data), ""
    except BaseException:
        outcome, problem = "finding", traceback.format_exc()
    return outcome, problem, time.process_time() - start


def load_target(target: str) -> Callable[[bytes], str]:
    """Load the function named "module:function"."""
    module, _, name = target.partition(":")
    function: Callable[[bytes], str] = getattr(importlib.import_module(module), name)
    return function


def _address_space_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _peak_memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


# Parent process


class Fuzzer:
    """Distributes jobs to child processes and collects their results."""

    def __init__(
        self, target: str, seed: int, folder: Path, answer_timeout_s: float, limit_s: float
    ) -> None:
        self.target, self.seed, self.folder = target, seed, folder
        self.answer_timeout, self.limit_s = answer_timeout_s, limit_s
        self.tally = Tally()
        self._lock = threading.Lock()

    def run(self, jobs: Sequence[CaseRange], processes: int) -> Tally:
        """Run all jobs, several at a time."""
        queue: SimpleQueue[CaseRange] = SimpleQueue()
        for job in jobs:
            queue.put(job)
        with ThreadPoolExecutor(processes) as pool:
            for done in [pool.submit(self._run_jobs, queue) for _ in range(processes)]:
                done.result()
        return self.tally

    def _run_jobs(self, queue: SimpleQueue[CaseRange]) -> None:
        while True:
            try:
                job = queue.get_nowait()
            except Empty:
                return
            start = job.start
            while start < job.end:
                start = self._run_batch(CaseRange(job.kind, start, job.end))

    def _run_batch(self, job: CaseRange) -> int:
        """Run a job in a child; return the number of the next case."""
        arguments = ["--child", self.target, str(self.seed), job.kind, str(job.start), str(job.end)]
        arguments += ["--seconds", str(self.limit_s)]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        number = job.start
        with subprocess.Popen(
            [sys.executable, __file__, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
        ) as process:
            assert process.stdout is not None and process.stderr is not None
            noise: list[bytes] = []
            reader = threading.Thread(target=_drain, args=(process.stderr, noise))
            reader.start()
            problem = ""
            for line in _read_lines(process.stdout, self.answer_timeout):
                if line is None:
                    problem = f"no answer in {self.answer_timeout:.0f} s"
                    process.kill()
                    break
                self._record_result(job.kind, json.loads(line))
                number += 1
            code = process.wait()
            reader.join()
        if not problem and number < job.end:
            said = b"".join(noise).decode(errors="replace")[-2000:]
            problem = f"the process ended with {code}\n{said}"
        if problem:
            name = make_case(job.kind, self.seed, number)[0]
            self._record_result(job.kind, (number, name, "finding", problem, 0.0, 0))
            number += 1
        return number

    def _record_result(self, kind: str, result: CaseResult) -> None:
        number, name, outcome, problem, seconds, peak = result
        with self._lock:
            self.tally.add(kind, name, "finding" if problem else outcome)
            self.tally.slowest_case_s = max(self.tally.slowest_case_s, seconds)
            self.tally.peak_memory_bytes = max(self.tally.peak_memory_bytes, peak)
            if problem:
                self.folder.mkdir(parents=True, exist_ok=True)
                path = self.folder / f"{kind}-{self.seed}-{number}.onnx"
                path.write_bytes(make_case(kind, self.seed, number)[1])
                path.with_suffix(".txt").write_text(problem)
                self.tally.findings.append(str(path))
                last = problem.strip().splitlines()[-1]
                print(f"FOUND {kind} {number} ({name}): {last[:300]}\n  {path}", flush=True)


def _drain(stream: IO[bytes], into: list[bytes]) -> None:
    into.extend(iter(lambda: stream.read(65536), b""))


def _read_lines(stream: IO[bytes], answer_timeout_s: float) -> Iterator[bytes | None]:
    """The lines of a pipe, then None after `silence` seconds without data."""
    rest = b""
    while True:
        if not select.select([stream], [], [], answer_timeout_s)[0]:
            yield None
            return
        data = os.read(stream.fileno(), 65536)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        yield from lines


def make_jobs(counts: dict[str, int]) -> list[CaseRange]:
    """Split these numbers of cases of each kind into batches."""
    return [
        CaseRange(kind, start, min(start + BATCH_SIZES[kind], count))
        for kind, count in counts.items()
        for start in range(0, count, BATCH_SIZES[kind])
    ]


def format_tally(tally: Tally) -> str:
    """Format the results by kind and model."""
    columns = ("cases", "accepted", "refused", "findings")
    rows: list[tuple[str, ...]] = []
    sums: Counter[str] = Counter()
    for (kind, name), outcomes in sorted(tally.outcomes.items()):
        cases, accepted, found = outcomes.total(), outcomes["accepted"], outcomes["finding"]
        counts = dict(zip(columns, (cases, accepted, cases - accepted - found, found), strict=True))
        sums.update(counts)
        rows.append((kind, name, *(f"{n:,}" for n in counts.values())))
    rows.append(("all", "", *(f"{sums[c]:,}" for c in columns)))
    return table(("mutated", "model", *columns), rows, number_columns=range(2, 6))


def replay(path: Path, target: str, limit_s: float) -> int:
    """Run one saved case in this process, without limits."""
    attempt = load_target(target)
    attempt(seed_models()[0][1])
    outcome, problem, seconds = measure_case(attempt, path.read_bytes(), limit_s)
    print(f"{path.name}: {outcome} in {seconds:.2f} s\n{problem}".rstrip())
    return int(bool(problem) or seconds > limit_s)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=100_000, help="cases with damaged bytes")
    parser.add_argument("--structure", type=int, default=10_000, help="with damaged structure")
    parser.add_argument("--seed", type=int, help="repeat a run; without it, a new one is drawn")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--folder", type=Path, default=FINDINGS_FOLDER, help="where findings are saved"
    )
    parser.add_argument(
        "--silence", type=float, default=ANSWER_TIMEOUT_S, help="seconds for one answer"
    )
    parser.add_argument(
        "--seconds", type=float, default=CASE_LIMIT_S, help="of CPU time for a case"
    )
    parser.add_argument("--target", default="fuzz:compile_and_check", help="module:function")
    parser.add_argument("--replay", type=Path, help="a saved finding, to be run alone")
    parser.add_argument("--child", nargs=5, metavar="…", help=argparse.SUPPRESS)
    given: Any = parser.parse_args(arguments)
    if given.child:
        target, seed, kind, start, end = given.child
        run_child(target, int(seed), CaseRange(kind, int(start), int(end)), given.seconds)
        return 0
    if given.replay:
        return replay(given.replay, given.target, given.seconds)
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    print(f"seed {seed}, {given.processes} processes", flush=True)
    start_time = time.perf_counter()
    jobs = make_jobs({"structure": given.structure, "bytes": given.bytes})
    fuzzer = Fuzzer(given.target, seed, given.folder, given.silence, given.seconds)
    tally = fuzzer.run(jobs, given.processes)
    seconds = time.perf_counter() - start_time
    total = sum(outcomes.total() for outcomes in tally.outcomes.values())
    print(format_tally(tally))
    print(
        f"{total:,} cases in {seconds:.0f} s: {total / seconds:.0f} a second; the slowest took "
        f"{tally.slowest_case_s:.2f} s of {given.seconds:g}, memory grew by "
        f"{tally.peak_memory_bytes / 2**20:.0f} MiB of {MEMORY_LIMIT_BYTES / 2**20:.0f}"
    )
    for path in tally.findings:
        print(f"again: python scripts/fuzz.py --replay {path}")
    return int(bool(tally.findings))


if __name__ == "__main__":
    sys.exit(main())
