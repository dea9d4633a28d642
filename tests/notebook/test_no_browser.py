"""Notebooks that papermill and nbconvert run and convert without a browser."""

import base64
import io
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import nbformat
import numpy as np
import pytest
from PIL import Image

from assertions import assert_equal
from jupyter_lab import LabServer
from viewer_models import autoencoder, hook_values, pictures

CELL_SOURCES = (
    f"""import sys; sys.path.insert(0, {str(Path(__file__).parents[1] / "support")!r})
import numpy as np
from nbglcnn import Viewer
from viewer_models import autoencoder, pictures""",
    "seed = 1",
    "viewer = Viewer(autoencoder(seed), pictures(seed))\nviewer",
    """several = await viewer.read("encoder.0", "decoder.1")
np.savez("values.npz", output=viewer.output, **several)""",
)
SEED = 5


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    """A notebook whose second cell is tagged as papermill's parameters."""
    book = nbformat.v4.new_notebook()
    book.cells = [nbformat.v4.new_code_cell(source) for source in CELL_SOURCES]
    book.cells[1].metadata["tags"] = ["parameters"]
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "", "language": "python"}
    file = tmp_path / "notebook.ipynb"
    nbformat.write(book, file)
    return file


def run_module(folder: Path, *command: str, environment: Mapping[str, str] | None = None) -> None:
    """Run a Python module in a folder; a hang fails too."""
    ended = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ended.returncode == 0, ended.stderr


def assert_values(folder: Path, seed: int) -> None:
    """Check that the notebook's values are those that PyTorch's hooks see."""
    expected = hook_values(autoencoder(seed), pictures(seed))
    with np.load(folder / "values.npz") as values:
        assert set(values) == {"output", "encoder.0", "decoder.1"}
        for name in values:
            assert_equal(values[name], expected[name], name=name)


def picture_color_counts(page: str) -> list[int]:
    """The number of colours of each picture in an HTML page."""
    found = []
    for text in re.findall(r'<img[^>]*src="data:image/png;base64,([^"]+)"', page):
        with Image.open(io.BytesIO(base64.b64decode(text))) as picture:
            found.append(len(picture.convert("RGB").getcolors(1 << 24) or []))
    return found


def test_papermill_runs_a_viewer_with_its_parameters(notebook: Path) -> None:
    run_module(notebook.parent, "papermill", notebook.name, "ran.ipynb", "-p", "seed", str(SEED))
    assert_values(notebook.parent, SEED)
    outputs = [o for cell in nbformat.read(notebook.parent / "ran.ipynb", 4).cells
               for o in cell.get("outputs", [])]  # fmt: skip
    assert not [o for o in outputs if o.output_type == "error"]
    warned = "".join(o.text for o in outputs if o.get("name") == "stderr")
    assert warned.count("UserWarning: no page has shown this Viewer") == 1
    assert [o for o in outputs if "image/png" in o.get("data", {})]


# papermill's kernel above imports PyTorch itself; these kernels are forks, which start at once.
def test_nbconvert_runs_a_viewer_into_a_page_that_shows_the_snapshot(
    notebook: Path, lab: LabServer
) -> None:
    run_module(
        notebook.parent,
        *("nbconvert", "--to", "html", "--execute", notebook.name),
        "--ExecutePreprocessor.store_widget_state=False",
        environment=lab.environment,
    )
    assert_values(notebook.parent, 1)
    [colours] = picture_color_counts(notebook.with_suffix(".html").read_text("utf-8"))
    assert colours > 16


def test_a_notebook_with_saved_widgets_is_converted_with_the_snapshot(
    notebook: Path, lab: LabServer
) -> None:
    execute = ("nbconvert", "--to", "notebook", "--execute", "--inplace", notebook.name)
    run_module(notebook.parent, *execute, environment=lab.environment)
    assert nbformat.read(notebook, 4).metadata["widgets"]
    clear = "--ClearMetadataPreprocessor.enabled=True"
    run_module(notebook.parent, "nbconvert", "--to", "html", clear, notebook.name)
    [colours] = picture_color_counts(notebook.with_suffix(".html").read_text("utf-8"))
    assert colours > 16
