"""A JupyterLab for the benchmarks that need one, with a browser for each renderer."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from playwright.sync_api import sync_playwright

from browsers import chromium_arguments, find_chromium
from jupyter_lab import Notebook, new_notebook, running_lab


def open_notebooks(
    renderers: Sequence[str], extra_arguments: Sequence[str] = ()
) -> Iterator[tuple[str, Notebook]]:
    """Yield each renderer with a new notebook; Chromium gets `extra_arguments`."""
    with tempfile.TemporaryDirectory() as folder, running_lab(Path(folder) / "lab") as lab:
        for renderer in renderers:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=find_chromium(),
                    args=[*chromium_arguments(renderer), *extra_arguments],
                )
                with new_notebook(lab, browser) as notebook:
                    yield renderer, notebook
                browser.close()
