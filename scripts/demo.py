"""Opens the tour in JupyterLab, after executing it once to check that it works here."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
import webbrowser
from pathlib import Path

import nbformat
from jupyter_server.serverapp import list_running_servers
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError

NOTEBOOKS_FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
TOUR = "tour.ipynb"
START_TIMEOUT_S = 60


def main() -> int:
    """Start the server and execute the tour; exit then if DEMO=once, else on a signal."""
    interrupt_on_termination()
    server = start_jupyterlab()
    try:
        error = execute_tour()
        interrupt_on_termination()  # nbclient has restored the defaults
        if error:
            print(error, file=sys.stderr)
            return 1
        url = wait_for_url(server)
        print(f"Tour ready: {url}", flush=True)
        if os.environ.get("DEMO") == "once":
            return 0
        if sys.platform != "linux" or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
            webbrowser.open(url)
        print("Press Ctrl-C to stop.", flush=True)
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        server.terminate()
        server.wait()


def interrupt_on_termination() -> None:
    """Turn termination signals into KeyboardInterrupt, so that the server is stopped."""
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.default_int_handler)


def start_jupyterlab() -> subprocess.Popen[bytes]:
    """Start JupyterLab on the first free port from 8888, without opening a browser or news."""
    options = [
        "--no-browser",
        "--ip=127.0.0.1",
        f"--ServerApp.root_dir={NOTEBOOKS_FOLDER}",
        "--ServerApp.log_level=WARN",
        "--LabApp.news_url=",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--allow-root")
    # In its own session, so that Ctrl-C ends it via `finally`, without Jupyter's prompt.
    return subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *options],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def execute_tour() -> str | None:
    """Execute a copy of the tour in memory; return the error with its cell, or None."""
    print(f"Executing {TOUR} once, without a browser", flush=True)
    notebook = nbformat.read(NOTEBOOKS_FOLDER / TOUR, as_version=4)
    client = NotebookClient(
        notebook, resources={"metadata": {"path": str(NOTEBOOKS_FOLDER)}}, timeout=600
    )
    try:
        client.execute()
    except (CellControlSignal, DeadKernelError) as error:
        return f"The tour does not run here. The cell that failed, and how:\n{error}"
    return None


def wait_for_url(server: subprocess.Popen[bytes]) -> str:
    """Wait until the server answers requests; return the tour's URL."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            sys.exit(f"JupyterLab ended with exit status {server.returncode}; see above.")
        for found in list_running_servers():
            token = f"?token={found['token']}"
            if found["pid"] == server.pid and is_answering(f"{found['url']}api{token}"):
                return f"{found['url']}lab/tree/{TOUR}{token}"
        time.sleep(0.2)
    sys.exit(f"JupyterLab did not answer within {START_TIMEOUT_S} s.")


def is_answering(url: str) -> bool:
    """Whether a GET request succeeds now."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return bool(response.status == 200)
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
