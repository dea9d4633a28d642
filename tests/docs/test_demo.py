"""`make demo` reports that the tour is ready once it is served and has run without error."""

import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run_demo(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """demo(cell, …): the demo's script with a tour of these cells and separate Jupyter folders."""
    started: list[subprocess.Popen[str]] = []

    def start(*cells: str, **environment: str) -> subprocess.Popen[str]:
        (tmp_path / "scripts").mkdir()
        (tmp_path / "notebooks").mkdir()
        shutil.copy(ROOT / "scripts" / "demo.py", tmp_path / "scripts")
        tour = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        nbformat.write(tour, tmp_path / "notebooks" / "tour.ipynb")
        jupyter_environment = {"HOME": str(tmp_path), "IPYTHONDIR": str(tmp_path / "ipython")}
        for name in ("CONFIG", "DATA", "RUNTIME"):
            jupyter_environment[f"JUPYTER_{name}_DIR"] = str(tmp_path / name.lower())
        hidden = ("DISPLAY", "WAYLAND_DISPLAY", "DEMO")
        inherited = {name: value for name, value in os.environ.items() if name not in hidden}
        started.append(
            subprocess.Popen(
                [sys.executable, str(tmp_path / "scripts" / "demo.py")],
                env={**inherited, **jupyter_environment, **environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_once_the_tour_ran_and_is_served_the_demo_can_stop(
    run_demo: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    tour = tmp_path / "notebooks" / "tour.ipynb"
    process = run_demo("import pathlib", "pathlib.Path('ran-here').touch()", DEMO="once")
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert re.search(r"^Tour ready: http://\S+/lab/tree/tour\.ipynb\?token=\w+$", said, re.M), said
    assert (tmp_path / "notebooks" / "ran-here").exists()
    assert 'execution_count": 1' not in tour.read_text()


def test_a_tour_that_fails_ends_the_demo_and_shows_the_cell(
    run_demo: Callable[..., subprocess.Popen[str]],
) -> None:
    process = run_demo("fine = 1", "# the third\nfine / 0", DEMO="once")
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 1, said
    assert "Tour ready" not in said
    assert "# the third" in said
    assert "ZeroDivisionError" in said


@pytest.mark.parametrize("interrupt", ["SIGINT", "SIGTERM"])
def test_the_demo_runs_until_interrupted(
    run_demo: Callable[..., subprocess.Popen[str]], interrupt: str
) -> None:
    process = run_demo("1 + 1")
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if line.startswith("Tour ready: "):
            break
    url = said[-1].removeprefix("Tour ready: ").strip()
    with urllib.request.urlopen(url, timeout=20) as page:
        assert b"JupyterLab" in page.read()
    assert process.poll() is None
    process.send_signal(getattr(signal, interrupt))
    assert process.wait(timeout=30) == 0
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url, timeout=20)
