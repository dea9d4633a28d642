"""The project's notebooks: as they are committed, and run by nbconvert without a browser."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat

from screenshots import NOTEBOOKS


def assert_no_outputs(name: str, least: int) -> None:
    """The committed notebook has `least` cells of code, and nothing of a run."""
    notebook = json.loads((NOTEBOOKS / name).read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(code) >= least
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)
    assert "widgets" not in notebook["metadata"]


def executed(folder: Path, name: str, environment: Mapping[str, str]) -> Any:
    """Run a folder's notebook from top to bottom; what became of it lies there as ran.ipynb."""
    convert = ["nbconvert", "--to", "notebook", "--execute", "--output", "ran.ipynb", name]
    run = subprocess.run(
        [sys.executable, "-m", *convert],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return nbformat.read(folder / "ran.ipynb", as_version=4)
