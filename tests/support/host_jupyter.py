"""Adapter: a notebook of JupyterLab or Notebook 7, in any browser, as a host of the flows."""

from typing import Any

from jupyter_lab import Notebook, Outputs


class JupyterHost:
    """Implements `host_flows.Host` for a notebook in Jupyter."""

    display_template = ""  # the page connects to a Viewer before it is displayed

    def __init__(self, notebook: Notebook) -> None:
        self.notebook = notebook

    def start(self, source: str) -> int:
        """Start a new last cell."""
        return self.notebook.start(source)

    def wait(self, cell: int, seconds: float = 60) -> Outputs:
        """Wait until a cell ends, and return its outputs."""
        return self.notebook.wait(cell, seconds)

    def interrupt(self) -> None:
        """Interrupt the kernel."""
        self.notebook.interrupt()

    def evaluate(self, script: str, argument: Any = None) -> Any:
        """Evaluate a JavaScript function in the page."""
        return self.notebook.page.evaluate(script, argument)

    @property
    def mouse(self) -> Any:
        """The page's mouse."""
        return self.notebook.page.mouse

    def pause(self, ms: int) -> None:
        """Wait for some milliseconds."""
        self.notebook.page.wait_for_timeout(ms)

    def close(self) -> None:
        """Shut down the kernel."""
        self.evaluate("() => window.lab.panel().sessionContext.shutdown()")
