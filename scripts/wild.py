"""Compares every layer of other packages' networks with PyTorch: `make wild`.

The networks get random statistics. Their packages are installed into a separate environment, which
shares PyTorch and nbglcnn with .venv. Each network runs in its own process, with limits on time and
memory. docs/wild.md has the table, with the commit of each row; existing rows are kept.
build/wild.json stores the results before the table is written, so that an interrupted run resumes
where it stopped.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
import venv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from statistics import median
from typing import Any

from nbglcnn.tables import table

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from wild_networks import WildNetwork, prepare_imports, wild_networks

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT_FOLDER = ROOT / ".cache" / "wild"
PYTHON = ENVIRONMENT_FOLDER / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
RESULTS_FILE = ROOT / "build" / "wild.json"
TABLE_FILE = ROOT / "docs" / "wild.md"
# torchvision is tied to one version of torch and requires its CUDA build, so it is installed
# without dependencies, which .venv has. 0.28 matches torch 2.13. Other packages require older
# versions, or many packages that their networks don't use.
PACKAGES_WITHOUT_DEPS = [
    "torchvision==0.28.*",
    "antialiased-cnns==0.3",
    "dynamic-network-architectures==0.4.*",
    "facenet-pytorch==2.6.*",
    "lpips==0.1.*",
    "piq==0.8.*",
    "pytorch-tcn==1.2.*",
    "pytorchcv==0.0.74",
    "torchsr==1.0.*",
    "vit-pytorch==1.26.*",
]
PACKAGES = [
    "timm==1.0.*",
    "segmentation-models-pytorch==0.6.*",
    "diffusers==0.42.*",
    "kornia==0.9.*",
    "monai==1.6.*",
    "spandrel==0.4.*",
    "scipy",
]
NETWORK_LIMIT_S = 300  # for a network, on an otherwise idle machine
MEMORY_LIMIT_BYTES = 12 * 2**30  # of address space: llvmpipe and PyTorch reserve more than they use
BEGIN, END = "<!-- made by `make wild`: begin -->", "<!-- made by `make wild`: end -->"


# One network, in its own process


def verify_network(network: WildNetwork) -> dict[str, Any]:
    """Compare a network: equal, wrong or refused, and the seconds of each step."""
    import numpy as np
    import torch

    import nbglcnn
    from nbglcnn.load import load
    from nbglcnn.lowering.lower import lower

    torch.manual_seed(0)
    seconds: dict[str, float] = {}
    found: dict[str, Any] = {"seconds": seconds}
    with _record_seconds(seconds, "build"):
        model = network.build().eval()
        randomize_statistics(model)
        arrays = [_random_picture(shape, seed) for seed, shape in enumerate(network.shapes)]
        x = arrays[0] if len(arrays) == 1 else tuple(arrays)
    found["parameters"] = sum(p.numel() for p in model.parameters())
    try:
        with _record_seconds(seconds, "load"):
            loaded = load(model, x)
        with _record_seconds(seconds, "lower"):
            plan = lower(loaded[0])
        with nbglcnn.Session(plan) as session:
            with _record_seconds(seconds, "first run"):
                session.run(*loaded[1])
            with _record_seconds(seconds, "run"):
                session.run(read=plan.computed[-1])
            with _record_seconds(seconds, "verify"):
                report = nbglcnn.verify(session, model, x)
    except nbglcnn.NbglcnnError as error:
        return {**found, "status": "refused", "why": f"{type(error).__name__}: {error}"}
    found["layers"] = len(report.rows)
    found["worst"] = max(float(np.nan_to_num(r.relative, posinf=1e9)) for r in report.rows)
    if report.ok:
        return {**found, "status": "equal"}
    [first] = [row for row in report.rows if row.layer == report.first_diverging]
    wrong = sum(not row.ok for row in report.rows)
    why = f"{wrong} of {len(report.rows)} layers, first {first.layer}: {first.max_abs:.2g} off"
    return {**found, "status": "wrong", "why": f"{why} ({first.relative:.2g} of the largest)"}


@contextmanager
def _record_seconds(seconds: dict[str, float], step: str) -> Iterator[None]:
    begun = time.perf_counter()
    try:
        yield
    finally:
        seconds[step] = round(time.perf_counter() - begun, 2)


def randomize_statistics(model: Any) -> None:
    """Randomize statistics, so that initial scales of 1e-6 or variances of 1 hide no layer."""
    import torch

    random = torch.Generator().manual_seed(1)

    def uniform(tensor: Any, low: float, high: float) -> Any:
        return low + (high - low) * torch.rand(tensor.shape, generator=random)

    with torch.no_grad():
        for name, tensor in model.named_buffers():
            last = name.rpartition(".")[2]
            if last == "running_mean":
                tensor.copy_(uniform(tensor, -0.2, 0.2))
            elif last == "running_var":
                tensor.copy_(uniform(tensor, 0.5, 1.5))
        for tensor in model.parameters():
            if not tensor.numel() or not tensor.is_floating_point():
                continue
            first = tensor.reshape(-1)[0]
            if bool((tensor == first).all()):  # ones, zeros, and layer scales of 1e-6
                middle = 1.0 if float(first) == 1 else 0.0
                tensor.copy_(middle + uniform(tensor, -0.2, 0.2))


def _random_picture(shape: Sequence[int], seed: int) -> Any:
    import numpy as np

    return np.random.default_rng(seed).random(shape, np.float32)


def warm_up() -> None:
    """Import modules and run once what every network needs."""
    import warnings

    warnings.simplefilter("ignore")
    import torch

    torch.set_num_threads(1)  # threads don't survive a fork
    prepare_imports()
    nbglcnn = importlib.import_module("nbglcnn")
    layer = torch.nn.Sequential(torch.nn.Conv2d(3, 3, 3), torch.nn.BatchNorm2d(3)).eval()
    nbglcnn.compile(layer, _random_picture((1, 3, 4, 4), 0))


def run_network(name: str) -> dict[str, Any]:
    """Compare a network under a memory limit."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
    try:
        return verify_network(wild_networks()[name])
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        at = f"{Path(where.filename).name}:{where.lineno}"
        return {"status": "error", "why": f"{type(error).__name__}: {error} ({at})"}


# All networks


def create_environment() -> None:
    """Create an environment with the packages, on top of .venv."""
    stamp, want = ENVIRONMENT_FOLDER / "installed", "\n".join([*PACKAGES_WITHOUT_DEPS, *PACKAGES])
    if Path(sys.prefix).resolve() == ENVIRONMENT_FOLDER.resolve():
        return
    if stamp.exists() and stamp.read_text() == want:
        return
    print("Installing other people's networks into .cache/wild (the first time takes minutes)")
    sys.stdout.flush()
    venv.create(ENVIRONMENT_FOLDER, with_pip=True, clear=True)
    inside = [sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    [ours] = subprocess.run(inside, capture_output=True, text=True, check=True).stdout.split()
    theirs = subprocess.run([PYTHON, *inside[1:]], capture_output=True, text=True, check=True)
    # The packages of .venv count as installed, so PyTorch isn't installed twice.
    (Path(theirs.stdout.strip()) / "nbglcnn-wild.pth").write_text(ours + "\n")
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    pip += ["-c", ROOT / "constraints.txt"]
    for arguments in (["--no-deps", *PACKAGES_WITHOUT_DEPS], PACKAGES):
        if status := subprocess.run([*pip, *arguments], cwd=ROOT).returncode:
            sys.exit(f"pip failed with exit status {status}")
    stamp.write_text(want)


@dataclass(frozen=True, slots=True)
class NetworkProcess:
    """A network in its own process, forked from this process, which has everything imported."""

    name: str
    process_id: int
    pipe: int
    log: Path
    start_time: float

    @classmethod
    def start(cls, name: str) -> NetworkProcess:
        """Fork; the child writes its result to the pipe."""
        reading, writing = os.pipe()
        process = os.fork()
        if not process:
            with open(_log_path(os.getpid()), "w") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            found = json.dumps(run_network(name)).encode()
            os.write(writing, found)
            os._exit(0)  # everything it has opened is closed too
        os.close(writing)
        return cls(name, process, reading, _log_path(process), time.perf_counter())

    def collect(self, timeout_s: float, *, done: bool) -> dict[str, Any]:
        """The child's result, or why there is none."""
        if not done:
            os.kill(self.process_id, signal.SIGKILL)
        _, status = os.waitpid(self.process_id, 0)
        with os.fdopen(self.pipe, "rb") as pipe:
            said = pipe.read()
        words = self.log.read_text(errors="replace").strip() if self.log.exists() else ""
        self.log.unlink(missing_ok=True)
        total = round(time.perf_counter() - self.start_time, 1)
        if not done:
            return {"status": "slow", "why": f"not done after {timeout_s:.0f} s"}
        if not said:
            last = (words.splitlines() or ["nothing said"])[-1]
            why = f"ended with status {os.waitstatus_to_exitcode(status)}: {last[:300]}"
            return {"status": "error", "why": why, "total": total}
        return {**json.loads(said), "total": total}


def _log_path(process_id: int) -> Path:
    return RESULTS_FILE.with_name(f"wild.{process_id}.log")


def run_networks(
    names: Sequence[str], timeout_s: float, jobs: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Compare networks, `jobs` at a time, each in its own process; yield results as they finish."""
    waiting, children = list(names), list[NetworkProcess]()
    while waiting or children:
        while waiting and len(children) < jobs:
            children.append(NetworkProcess.start(waiting.pop(0)))
        left = min(child.start_time for child in children) + timeout_s - time.perf_counter()
        said = select.select([child.pipe for child in children], [], [], max(left, 0))[0]
        for child in list(children):
            late = time.perf_counter() - child.start_time >= timeout_s
            if child.pipe in said or late:
                children.remove(child)
                yield child.name, child.collect(timeout_s, done=child.pipe in said)


def describe_commit() -> str:
    """The commit under test, with a mark for uncommitted changes."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=7", "--exclude=*", "--dirty=+"]
    return subprocess.run(git, capture_output=True, text=True).stdout.strip()


def format_results(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Format the counts, a row per package, and the networks that aren't equal with the reason."""
    counts = Counter(result["status"] for result in results.values())
    said = ", ".join(f"{counts[status]} {status}" for status, _ in counts.most_common())
    layers = sum(result.get("layers", 0) for result in results.values())
    lines = [f"{len(results)} networks: {said}; {layers:,} layers compared."]
    lines.append(f"Made {format_dates(results)}.")
    packages: dict[str, list[Mapping[str, Any]]] = {}
    for name in sorted(results, key=str.lower):
        packages.setdefault(name.partition("/")[0], []).append(results[name])
    rows = [_row(package, found) for package, found in packages.items()]
    titles = ("package", "networks", "equal", "layers", "error")
    lines += ["", table(titles, rows, "markdown", number_columns=(1, 2, 3, 4))]
    others = [
        [name, result["status"], " ".join(result.get("why", "").split())]
        for name, result in sorted(results.items(), key=lambda item: item[0].lower())
        if result["status"] != "equal"
    ]
    if others:
        lines += ["", table(("network", "result", "why"), others, "markdown")]
    return "\n".join(lines)


def format_dates(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The dates and commits of the rows, and how many networks ran concurrently."""
    dates = sorted({result["date"] for result in results.values()})
    of = Counter(result.get("commit", "unknown") for result in results.values())
    commits = ", ".join(f"{name} ({count})" if len(of) > 1 else name for name, count in of.items())
    jobs = max((result.get("jobs", 1) for result in results.values()), default=1)
    beside = f", {jobs} networks at a time" if jobs > 1 else ""
    span = " to ".join(dict.fromkeys([dates[0], dates[-1]])) if dates else "never"
    return f"{span}, commit {commits}{beside}"


def _row(package: str, found: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        package,
        str(len(found)),
        str(sum(result["status"] == "equal" for result in found)),
        f"{sum(result.get('layers', 0) for result in found):,}",
        f"{median([result['worst'] for result in found if 'worst' in result] or [0.0]):.1e}",
    ]


def main() -> int:
    """Run selected networks that have no result yet; return 1 if one is wrong or fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="parts of networks' names; they run anew")
    parser.add_argument("--anew", action="store_true", help="forget what was found before")
    parser.add_argument("--seconds", type=float, default=NETWORK_LIMIT_S, help="for a network")
    parser.add_argument("--jobs", type=int, default=1, help="networks at a time")
    arguments = parser.parse_args()
    create_environment()
    if Path(sys.prefix).resolve() != ENVIRONMENT_FOLDER.resolve():
        path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
        settings = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
        os.execve(PYTHON, [str(PYTHON), *sys.argv], settings)
    RESULTS_FILE.parent.mkdir(exist_ok=True)
    warm_up()
    known: dict[str, Any] = {}
    if not arguments.anew and RESULTS_FILE.exists():
        known = json.loads(RESULTS_FILE.read_text("utf-8"))
    every = wild_networks()
    names = list(every)
    results = {name: known[name] for name in names if name in known}
    wanted = [
        name
        for name in names
        if (any(part in name for part in arguments.only) if arguments.only else name not in known)
    ]
    wanted.sort(key=lambda name: sum(map(prod, every[name].shapes)))  # quick ones first
    of = {"date": time.strftime("%Y-%m-%d"), "commit": describe_commit(), "jobs": arguments.jobs}
    tries = run_networks(wanted, arguments.seconds, arguments.jobs)
    for number, (name, found) in enumerate(tries, 1):
        results[name] = result = {**found, **of}
        why = f": {result['why']}" if "why" in result else ""
        print(f"{number}/{len(wanted)} {name} {result.get('total', '')} s {result['status']}{why}")
        sys.stdout.flush()
        RESULTS_FILE.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    print(format_results(results))
    if len(results) == len(names):  # the page covers all networks
        before, _, rest = TABLE_FILE.read_text("utf-8").partition(BEGIN)
        after = rest.partition(END)[2]
        TABLE_FILE.write_text(f"{before}{BEGIN}\n{format_results(results)}\n{END}{after}", "utf-8")
    return int(any(r["status"] in ("wrong", "error") for r in results.values()))


if __name__ == "__main__":
    sys.exit(main())
