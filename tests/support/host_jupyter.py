"""A notebook of JupyterLab or Notebook 7, in any browser, as a host of the flows."""

from typing import Any

from jupyter_lab import Notebook, Outputs


class JupyterHost:
    """What `host_flows.Host` asks of a notebook in Jupyter."""

    display_template = ""  # a page talks to a Viewer before it is displayed

    def __init__(self, notebook: Notebook) -> None:
        self.notebook = notebook

    def start(self, source: str) -> int:
        """Start a new last cell."""
        return self.notebook.start(source)

    def wait(self, cell: int, seconds: float = 60) -> Outputs:
        """The outputs of a cell, when it has ended."""
        return self.notebook.wait(cell, seconds)

    def interrupt(self) -> None:
        """Interrupt the kernel."""
        self.notebook.interrupt()

    def evaluate(self, script: str, argument: Any = None) -> Any:
        """What a function gives in the page."""
        return self.notebook.page.evaluate(script, argument)

    @property
    def mouse(self) -> Any:
        """The page's."""
        return self.notebook.page.mouse

    def pause(self, ms: int) -> None:
        """Let time pass."""
        self.notebook.page.wait_for_timeout(ms)

    def close(self) -> None:
        """End the kernel."""
        self.evaluate("() => window.lab.panel().sessionContext.shutdown()")
