"""Adapter: a marimo notebook in a real browser, typed and run cell by cell as a user would."""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from browsers import serve_files
from host_flows import SEED, TEST_SUPPORT_FOLDER
from jupyter_lab import Outputs
from servers import TIMEOUT_S, free_port, running_server

START_MARKER = "begun"  # first line that each cell prints; until it appears the cell is queued
READ_CELL_SCRIPT = """id => {
  const cell = document.getElementById(`cell-${id}`);
  const text = (selector) =>
    [...cell.querySelectorAll(selector)].map((found) => found.textContent).join("");
  return {
    status: cell.closest("[data-status]").dataset.status,
    stdout: text(".stdout"),
    stderr: text(".stderr"),
    error: cell.querySelector(".output-area > [role=alert]")?.innerText ?? "",
  };
}"""


class MarimoHost:
    """Implements `host_flows.Host` for a notebook opened by `marimo edit`."""

    display_template = (
        "import marimo; marimo.output.append({})"  # its page knows displayed widgets only
    )

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        page.goto(address)
        page.wait_for_selector(".cm-content", timeout=TIMEOUT_S * 1000)

    def start(self, source: str) -> str:
        """Type a cell at the end, run it, and return its id."""
        self.page.locator(".cm-content").last.click()
        name = self.page.locator("[data-cell-id]").last.get_attribute("data-cell-id")
        self.page.keyboard.insert_text(f"print({START_MARKER!r})\n{source}")
        self.page.keyboard.press("Shift+Enter")
        assert name is not None
        self.page.wait_for_function(
            "id => [...document.querySelectorAll('[data-cell-id]')].at(-1).dataset.cellId !== id",
            arg=name,
        )
        return name

    def wait(self, cell: str, seconds: float = 60) -> Outputs:
        """Wait until a cell ends, and return its outputs."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = self.page.evaluate(READ_CELL_SCRIPT, cell)
            if found["status"] == "idle" and (START_MARKER in found["stdout"] or found["error"]):
                self.page.wait_for_timeout(200)  # marimo sends printed text slightly later
                return self._outputs(self.page.evaluate(READ_CELL_SCRIPT, cell))
            self.page.wait_for_timeout(50)
        raise AssertionError(f"the cell hangs: {found}")

    def _outputs(self, found: dict[str, str]) -> Outputs:
        text = found["stdout"].removeprefix(f"{START_MARKER}\n")
        items: list[dict[str, Any]] = [
            {"output_type": "stream", "name": "stdout", "text": text},
            {"output_type": "stream", "name": "stderr", "text": found["stderr"]},
        ]
        if found["error"]:
            name, _, words = found["error"].partition("\n")
            items.append({"output_type": "error", "ename": name, "evalue": words.strip()})
        return Outputs(items)

    def interrupt(self) -> None:
        """Press the button that stops the running cell."""
        self.page.locator("[data-testid=interrupt-button]").first.click()

    def evaluate(self, script: str, argument: Any = None) -> Any:
        """Evaluate a JavaScript function in the page."""
        return self.page.evaluate(script, argument)

    @property
    def mouse(self) -> Any:
        """The page's mouse."""
        return self.page.mouse

    def pause(self, ms: int) -> None:
        """Wait for some milliseconds."""
        self.page.wait_for_timeout(ms)

    def close(self) -> None:
        """No-op: the server ends the kernel."""


@contextmanager
def running_marimo(folder: Path, python: Path) -> Iterator[str]:
    """Run a marimo server that edits one new notebook; yield its address."""
    folder.mkdir(parents=True)
    environment = {**os.environ, "HOME": str(folder), "OMP_NUM_THREADS": "1"}
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        environment[f"XDG_{name}_HOME"] = str(folder / name.lower())
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [
        *(str(python), "-m", "marimo", "edit", "--headless", "--no-token"),
        *("--host=127.0.0.1", f"--port={port}", "--skip-update-check", "--no-sandbox"),
        str(folder / "notebook.py"),
    ]
    log = folder / "server.log"
    with running_server(command, f"{address}/health", log, environment, folder=folder):
        yield address


EXPORTED_APP = f"""
import marimo

app = marimo.App()


@app.cell
def _():
    import sys

    import marimo as mo

    sys.path.insert(0, {str(TEST_SUPPORT_FOLDER)!r})
    from nbglcnn import Viewer
    from viewer_models import autoencoder, pictures

    one, other = (Viewer(autoencoder({SEED}), pictures({SEED})) for _ in range(2))
    mo.vstack([one, mo.ui.anywidget(other)])
    return


if __name__ == "__main__":
    app.run()
"""
# The URL from which an exported page loads marimo's front-end files.
CDN_URL_PATTERN = re.compile(r"https://cdn\.jsdelivr\.net/npm/@marimo-team/frontend@[^/]+/dist")


@contextmanager
def serve_marimo_export(folder: Path, python: Path) -> Iterator[str]:
    """Serve `marimo export html` of a notebook with two Viewers; yield the page's address."""
    notebook, page = folder / "notebook.py", folder / "notebook.html"
    notebook.write_text(EXPORTED_APP)
    command = [str(python), "-m", "marimo", "export", "html", str(notebook), "-o", str(page)]
    environment = {**os.environ, "HOME": str(folder), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if run.returncode:
        raise AssertionError(run.stderr)
    code = "import marimo; print(marimo.__path__[0])"
    found = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    static = Path(found.stdout.strip()) / "_static"
    files: dict[str, bytes] = {}

    def find(path: str) -> bytes | None:
        file = static / path.lstrip("/")
        return files.get(path) or (file.read_bytes() if file.is_file() else None)

    with serve_files(find) as address:
        files["/"] = CDN_URL_PATTERN.sub(address, page.read_text("utf-8")).encode()
        yield f"{address}/"
