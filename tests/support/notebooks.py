"""The project's notebooks: as committed, run by nbconvert, and run in JupyterLab."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from playwright.sync_api import Browser

from browsers import collect_console_errors
from jupyter_lab import LabServer, Notebook, local_page
from screenshots import NOTEBOOKS_FOLDER, copy_notebooks, run_all_cells


def assert_no_outputs(name: str, min_cell_count: int) -> None:
    """Assert that the notebook has at least `min_cell_count` code cells and no outputs."""
    notebook = json.loads((NOTEBOOKS_FOLDER / name).read_text(encoding="utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(code) >= min_cell_count
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)
    assert "widgets" not in notebook["metadata"]


def execute_notebook(folder: Path, name: str, environment: Mapping[str, str]) -> Any:
    """Run a folder's notebook from top to bottom and save the result there as ran.ipynb."""
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


def printed_text(outputs: list[dict[str, Any]]) -> str:
    """The text printed by all cells; fail if a cell raised an error."""
    errors = [f"{one['ename']}: {one['evalue']}" for one in outputs if "ename" in one]
    assert not errors, errors
    return "".join("".join(one["text"]) for one in outputs if one.get("name") == "stdout")


class ExecutedNotebook:
    """A notebook in JupyterLab with all its cells run; `errors` are its page's console errors."""

    def __init__(self, notebook: Notebook, errors: list[str], patience: float) -> None:
        self.notebook, self.errors = notebook, errors
        run_all_cells(notebook)
        notebook.wait(notebook.start("done = True"), patience)
        cells = notebook.page.evaluate(
            "() => [...window.lab.panel().content.model.cells].map(c => c.outputs?.toJSON() ?? [])"
        )
        self.outputs = [output for cell in cells for output in cell]


@contextmanager
def open_notebook(
    lab: LabServer, browser: Browser, name: str, width: int, height: int
) -> Iterator[tuple[Notebook, list[str]]]:
    """Open one of the project's notebooks in JupyterLab; yield it and the page's errors."""
    copy_notebooks(lab.root)
    with local_page(browser, viewport={"width": width, "height": height}) as page:
        errors = collect_console_errors(page)
        page.on("pageerror", lambda error: errors.append(str(error)))
        notebook = lab.open_notebook(page, name)
        yield notebook, errors
        notebook.page.evaluate("() => window.lab.panel().sessionContext.shutdown()")
