"""A real JupyterLab in a real Chromium: server, notebooks, cells and outputs."""

import base64
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, Page, TimeoutError

from browsers import VISIBLE_MAPS_SCRIPT, watch_external_requests
from servers import TIMEOUT_S, free_port, running_server

TOKEN = "nbglcnn"
RESTART_TIMEOUT_S = 10  # for a kernel to start, if the page notices it at all
DEFAULT_KERNEL = "python3"  # the kernel of this Python
FORK_SERVER_FILE = str(Path(__file__).with_name("kernel_fork_server.py"))
FORK_COMMAND = ("-I", "-S", FORK_SERVER_FILE)

# Settings that stop JupyterLab from fetching news.
LAB_SETTINGS = {"@jupyterlab/apputils-extension/notification": {"fetchNews": "false"}}

# Probe that tests read and set: WebGL contexts, float reads, created objects, a mute switch.
PROBE_SCRIPT = """
window.probe = {
  contexts: [], pixels: [], keep: false, mute: false, drop: 0, compiles: 0, textures: 0, sent: 0,
};
for (const type of [HTMLCanvasElement, window.OffscreenCanvas]) {
  const getContext = type.prototype.getContext;
  type.prototype.getContext = function (kind, ...rest) {
    const context = getContext.call(this, kind, ...rest);
    const { contexts } = window.probe;
    if (kind === "webgl2" && context && !contexts.includes(context)) contexts.push(context);
    return context;
  };
}
const readPixels = WebGL2RenderingContext.prototype.readPixels;
WebGL2RenderingContext.prototype.readPixels = function (...given) {
  readPixels.apply(this, given);
  const data = given[6];
  if (window.probe.keep && data instanceof Float32Array) window.probe.pixels.push(data.slice());
};
const { compileShader } = WebGL2RenderingContext.prototype;
WebGL2RenderingContext.prototype.compileShader = function (shader) {
  window.probe.compiles += 1;
  compileShader.call(this, shader);
};
const { createTexture, deleteTexture } = WebGL2RenderingContext.prototype;
WebGL2RenderingContext.prototype.createTexture = function () {
  window.probe.textures += 1;
  return createTexture.call(this);
};
WebGL2RenderingContext.prototype.deleteTexture = function (texture) {
  if (texture !== null) window.probe.textures -= 1;
  deleteTexture.call(this, texture);
};
const send = WebSocket.prototype.send;
WebSocket.prototype.send = function (data) {
  const text = typeof data === "string" ? data : new TextDecoder("latin1").decode(data);
  if (text.includes('"comm_msg"')) {
    if (window.probe.mute) return;
    if (text.includes('"reply"') && ++window.probe.sent === window.probe.drop) return;
  }
  send.call(this, data);
};
"""

# Waits until everything in view is drawn and reported, and no drawing happens for a while. Returns
# "", or the unfinished work after `ms`.
WAIT_IDLE_SCRIPT = """async (ms) => {
  const inView = (view) => {
    const { top, bottom, width } = view.getBoundingClientRect();
    return width > 0 && bottom > 0 && top < innerHeight;
  };
  const drawn = () => SEEN_MAPS().map((canvas) => canvas.dataset.drawn ?? "undrawn");
  const missing = () => {
    const views = [...document.querySelectorAll(".nbglcnn")].filter(inView);
    if (views.length === 0) return "no Viewer is in view";
    const begins = ["receiving", "compiling", "running"].map((phase) => `[data-phase=${phase}]`);
    if (document.querySelector(begins.join()) !== null) return "a Viewer that begins";
    const texts = views.map((view) => view.innerText);
    // A number that is on its way; before a letter it stands for what was left out of a name.
    const busy = /…(?!\\w)|building|Stop measuring/.exec(texts.join());
    if (busy !== null) return busy[0];
    const compared = (text) => / match |Remove all/.test(text);  // with a text in GLSL none is made
    if (!texts.every(compared)) return "no comparison with PyTorch";
    return drawn().includes("undrawn") ? "an undrawn canvas" : "";
  };
  const until = performance.now() + ms;
  for (let before = "", left = "?"; ; ) {
    const now = drawn().join();
    if (left === "" && now === before) return "";
    if (performance.now() > until) return left || "pictures, again and again";
    before = now;
    await new Promise((done) => setTimeout(done, 500));
    left = missing();
  }
}""".replace("SEEN_MAPS", f"({VISIBLE_MAPS_SCRIPT})")
LAB_SCRIPT = """
window.lab = {
  panel: () => window.jupyterapp.shell.currentWidget,
  kernel: () => window.lab.panel().sessionContext.session.kernel,
  ready: () => {
    const panel = window.jupyterapp?.shell?.currentWidget;
    return Boolean(panel?.context?.isReady && panel.sessionContext?.isReady &&
      panel.sessionContext.session?.kernel?.status === "idle" && panel.content?.model?.cells);
  },
  // Puts source into a new last cell and starts it; the promise is kept for `wait`.
  start: async (source) => {
    const { content, context } = window.lab.panel();
    const { commands } = window.jupyterapp;
    content.activeCellIndex = content.model.cells.length - 1;
    if (content.activeCell.model.sharedModel.getSource() !== "") {
      await commands.execute("notebook:insert-cell-below");
    }
    const index = content.activeCellIndex;
    content.activeCell.model.sharedModel.setSource(source);
    window.lab.runs ??= new Map();
    window.lab.runs.set(index, commands.execute("notebook:run-cell"));
    return index;
  },
  clear: async (first) => {
    const { content } = window.lab.panel();
    const last = content.model.cells.length - 1;
    if (last < first) return;
    content.deselectAll();
    content.activeCellIndex = first;
    content.extendContiguousSelectionTo(last);
    await window.jupyterapp.commands.execute("notebook:delete-cell");
  },
  again: (index) => {
    window.lab.panel().content.activeCellIndex = index;
    window.lab.runs.set(index, window.jupyterapp.commands.execute("notebook:run-cell"));
  },
  wait: async (index) => {
    await window.lab.runs.get(index);
    return window.lab.panel().content.model.cells.get(index).outputs.toJSON();
  },
  ask: async (code) => {
    const asked = window.lab.kernel().requestExecute({ code, store_history: false });
    let said = "";
    asked.onIOPub = ({ content: { name, text, evalue } }) => {
      if (name !== "stderr") said += text ?? evalue ?? ""; // others' warnings come in between
    };
    await asked.done;
    return said;
  },
};
"""


@dataclass
class Outputs:
    """The outputs of a cell."""

    items: list[dict[str, Any]]

    @property
    def text(self) -> str:
        """Everything on stdout."""
        return "".join(o["text"] for o in self.items if o.get("name") == "stdout")

    @property
    def warnings(self) -> str:
        """Everything on stderr."""
        return "".join(o["text"] for o in self.items if o.get("name") == "stderr")

    @property
    def error(self) -> str:
        """The exception that ended the cell, as "Name: text", or ""."""
        errors = [o for o in self.items if o["output_type"] == "error"]
        return f"{errors[0]['ename']}: {errors[0]['evalue']}" if errors else ""


@dataclass
class LabServer:
    """A running JupyterLab server and the folder it serves."""

    url: str
    root: Path
    process: subprocess.Popen[bytes]
    notebook_count: int = 0
    log: Path = field(default_factory=Path)
    url_path: str = "lab/tree"  # path of its pages
    environment: Mapping[str, str] = field(default_factory=dict)  # environment of Jupyter's kernels

    def open_notebook(
        self, page: Page, name: str | None = None, kernel: str = DEFAULT_KERNEL
    ) -> "Notebook":
        """Open the notebook with this name, or a new one."""
        self.notebook_count += 1
        file = self.root / (name or f"notebook{self.notebook_count}.ipynb")
        if not file.exists():
            spec = {"name": kernel, "display_name": kernel, "language": "python"}
            file.write_text(json.dumps(EMPTY_NOTEBOOK | {"metadata": {"kernelspec": spec}}))
        return Notebook(self, page, file)


EMPTY_NOTEBOOK = {
    "cells": [
        {
            "cell_type": "code",
            "id": "first",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": "",
        }
    ],
    "nbformat": 4,
    "nbformat_minor": 5,
}


class Notebook:
    """A notebook in a page."""

    def __init__(self, lab: LabServer, page: Page, file: Path) -> None:
        self.lab = lab
        self.page = page
        self.file = file
        self.console: list[str] = []
        page.on("console", lambda message: self.console.append(message.text))
        page.on("pageerror", lambda error: self.console.append(f"uncaught: {error}"))
        page.add_init_script(PROBE_SCRIPT)
        page.add_init_script(LAB_SCRIPT)
        self.open()

    def open(self) -> None:
        """Load the page (again) and wait until the kernel is idle."""
        self.page.goto(f"{self.lab.url}/{self.lab.url_path}/{self.file.name}?token={TOKEN}&reset")
        self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until the notebook is loaded and its kernel is idle."""
        self.page.wait_for_function("() => window.lab?.ready()", timeout=TIMEOUT_S * 1000)

    def wait_restarted(self) -> None:
        """Wait for the kernel that replaces a dead one.

        JupyterLab 4.6 misses it one time in four: the page connects while the server changes ports,
        and the kernel's status stays "unknown". In that case restart it once more, as a user would.
        """
        try:
            self.page.wait_for_function(
                "() => window.lab.ready()", timeout=RESTART_TIMEOUT_S * 1000
            )
        except TimeoutError:
            self.page.evaluate("() => window.lab.panel().sessionContext.restartKernel()")
            self.wait_ready()

    def start(self, source: str) -> int:
        """Start a new last cell; pass the result to `wait` for its outputs."""
        return int(self.page.evaluate("source => window.lab.start(source)", source))

    def wait(self, index: int, seconds: float = TIMEOUT_S) -> Outputs:
        """Wait until a started cell ends, and return its outputs."""
        items = self.page.evaluate(
            """([index, ms]) => {
              let timer;
              const hangs = new Promise((_, no) => {
                timer = setTimeout(() => no(Error(`cell ${index} hangs`)), ms);
              });
              return Promise.race([window.lab.wait(index), hangs])
                .finally(() => clearTimeout(timer));
            }""",
            [index, seconds * 1000],
        )
        return Outputs(items)

    def run(self, source: str, *, fails: bool = False) -> Outputs:
        """Run a new last cell to its end; an exception in it fails the test unless `fails`."""
        outputs = self.wait(self.start(source))
        if not fails:
            assert not outputs.error, outputs.error
        return outputs

    def wait_until(self, expression: str, report: str = "''") -> None:
        """Poll until an expression is true in the kernel; on timeout, fail with `report`."""
        until = time.monotonic() + TIMEOUT_S / 4
        while self.evaluate_silently(f"print(bool({expression}))") != "True\n":
            if time.monotonic() > until:
                report_text = self.run(f"print({report})").text
                raise AssertionError(f"never true: {expression}\n{report_text}")
            self.page.wait_for_timeout(200)

    def wait_settled(self) -> None:
        """Wait until everything in view is drawn, measured and compared, and stays so a while."""
        self.page.mouse.move(0, 0)  # nothing is under the pointer
        left = self.page.evaluate(WAIT_IDLE_SCRIPT, TIMEOUT_S * 1000)
        assert left == "", f"the page does not come to rest: {left}"

    def delete_cells(self, first_index: int = 0) -> None:
        """Delete cells from `first_index` on: fifty make each cell twice as slow."""
        self.page.evaluate("first => window.lab.clear(first)", first_index)

    def rerun(self, index: int) -> Outputs:
        """Run a cell again."""
        self.page.evaluate("index => window.lab.again(index)", index)
        outputs = self.wait(index)
        assert not outputs.error, outputs.error
        return outputs

    def evaluate_silently(self, source: str) -> str:
        """Return the output of code run outside any cell; the active cell stays the same."""
        return str(self.page.evaluate("source => window.lab.ask(source)", source))

    def interrupt(self) -> None:
        """Interrupt the kernel, as the toolbar's stop button does."""
        self.page.evaluate("() => window.lab.kernel().interrupt()")

    def read_array(self, name: str) -> Any:
        """The value of an expression in the kernel: an array, or a dict of arrays."""
        path = self.lab.root / "value.npz"
        self.run(
            f"import numpy as _np\n_v = {name}\n"
            f"_np.savez({str(path)!r}, **(_v if isinstance(_v, dict) else {{'_': _v}}))"
        )
        with np.load(path) as data:
            found = {key: data[key] for key in data}
        return found["_"] if list(found) == ["_"] else found

    def recorded_pixels(self) -> list[np.ndarray]:
        """The results of every readPixels since `probe.keep` was set."""
        texts = self.page.evaluate(
            """() => Promise.all(window.probe.pixels.map((data) => new Promise((yes) => {
              const reader = new FileReader();
              reader.onload = () => yes(reader.result.split(",")[1] ?? "");
              reader.readAsDataURL(new Blob([data]));
            })))"""
        )
        return [np.frombuffer(base64.b64decode(text), np.float32) for text in texts]

    def save(self) -> int:
        """Save the notebook and return its size in bytes."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        return self.file.stat().st_size

    def change_theme(self, theme: str) -> None:
        """Switch JupyterLab to "Light" or "Dark", and wait until a Viewer has followed."""
        self.page.evaluate(
            "theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })",
            f"JupyterLab {theme}",
        )
        self.page.locator(f".nbglcnn[data-theme={theme.lower()}]").first.wait_for()

    def view_texts(self) -> list[str]:
        """The text of every Viewer on the page."""
        return [view.inner_text() for view in self.page.query_selector_all(".nbglcnn")]


@contextmanager
def running_lab(
    folder: Path,
    *,
    packages: Path | None = None,
    settings: dict[str, dict[str, Any]] | None = None,
    kernels: Mapping[str, Path] | None = None,
    application: str = "jupyterlab",
    warm: bool = False,
) -> Iterator[LabServer]:
    """Run a JupyterLab server with `settings` by plugin; yield a `LabServer`.

    `packages` come first on the kernel's path.

    `kernels` maps kernel names to Pythons besides this one; `application` may be "notebook" for
    Notebook 7. With `warm`, this Python's kernels are forks of one process that has already
    imported PyTorch and this package.
    """
    root = folder / "root"
    root.mkdir(parents=True)
    environment = {**os.environ, "HOME": str(folder), "JUPYTER_PLATFORM_DIRS": "0"}
    # Reuse this machine's download cache.
    environment.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    for name in ("CONFIG", "DATA", "RUNTIME"):
        environment[f"JUPYTER_{name}_DIR"] = str(folder / name.lower())
    for name in ("SETTINGS", "WORKSPACES"):
        environment[f"JUPYTERLAB_{name}_DIR"] = str(folder / name.lower())
    environment["IPYTHONDIR"] = str(folder / "ipython")
    environment["JUPYTER_PREFER_ENV_PATH"] = "0"  # otherwise a .venv's own kernel takes precedence
    # One thread: two busy processes share this machine's cores.
    environment |= {"OMP_NUM_THREADS": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    for plugin, values in (settings or {}).items():
        file = folder / "settings" / f"{plugin}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    for name, python in {DEFAULT_KERNEL: sys.executable, **(kernels or {})}.items():
        spec = folder / "data" / "kernels" / name / "kernel.json"
        spec.parent.mkdir(parents=True)
        spec.write_text(
            json.dumps(
                {
                    "argv": (
                        [str(python), *FORK_COMMAND, str(folder / "warm"), "{connection_file}"]
                        if warm and name == DEFAULT_KERNEL
                        else [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
                    ),
                    "display_name": name,
                    "language": "python",
                    "env": {"PYTHONPATH": str(packages)} if packages else {},
                }
            )
        )
    port = free_port()
    url, log = f"http://127.0.0.1:{port}", folder / "server.log"
    command = [
        *(sys.executable, "-m", application, "--no-browser", "--allow-root"),
        *("--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"),
        *(f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={root}"),
        *("--expose-app-in-browser", "--LabApp.news_url="),
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        # Notice a dead kernel soon, however many die: the defaults are 3 s and 5 in a row.
        *("--KernelRestarter.time_to_dead=0.5", "--KernelRestarter.restart_limit=1000"),
    ]
    health = f"{url}/api?token={TOKEN}"
    signals = (signal.SIGINT, signal.SIGTERM)
    with ExitStack() as stack:
        if warm:
            stack.enter_context(kernel_fork_server(folder, environment))
        process = stack.enter_context(
            running_server(command, health, log, environment, signals=signals)
        )
        path = "lab/tree" if application == "jupyterlab" else "notebooks"
        yield LabServer(url, root, process, log=log, url_path=path, environment=environment)


@contextmanager
def kernel_fork_server(folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """Run the process from which warm kernels are forked, until its stdin closes."""
    command = [sys.executable, FORK_SERVER_FILE, str(folder / "warm")]
    with (folder / "warm.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment
        )
    try:
        yield
    finally:
        process.communicate()


@contextmanager
def local_page(browser: Browser, **options: Any) -> Iterator[Page]:
    """A page restricted to this machine's network; `options` are the browser context's."""
    outside: list[str] = []
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    watch_external_requests(context, outside)
    try:
        yield context.new_page()
    finally:
        context.close()
    assert not outside, f"the page asked other machines: {outside}"


@contextmanager
def new_notebook(lab: LabServer, browser: Browser, *, script: str = "") -> Iterator[Notebook]:
    """A new notebook in its own page; `script` runs there before any other script."""
    with local_page(browser) as page:
        if script:
            page.add_init_script(script)
        notebook = lab.open_notebook(page)
        yield notebook
        notebook.page.evaluate("() => window.lab.panel().sessionContext.shutdown()")
