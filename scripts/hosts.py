"""Runs every flow in every host and writes the table in docs/hosts.md: `make hosts`.

Hosts are real JupyterLab with three versions of ipykernel and with comms over subshells on and off,
Notebook 7, marimo, and JupyterLab in Firefox. `make hosts ARGS="marimo 6.30"` runs the hosts whose
name contains one of the words.
"""

import argparse
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests" / "support"))

import host_flows
import setup
from browsers import chromium_arguments, find_chromium
from firefox import firefox_page, missing_packages
from host_environments import ensure_environment, package_version
from host_flows import Flow, Host, run_import_cell
from host_jupyter import JupyterHost
from host_marimo import MarimoHost, running_marimo
from host_sources import feed_all_sources
from jupyter_lab import DEFAULT_KERNEL, local_page, running_lab
from nbglcnn.tables import table

HOSTS_PAGE = Path(__file__).resolve().parents[1] / "docs" / "hosts.md"
BEGIN, END = "<!-- made by `make hosts`: begin -->\n", "<!-- made by `make hosts`: end -->\n"
KERNEL_REQUIREMENTS = {
    "6.30": "ipykernel==6.30.*",
    "7.3": "ipykernel==7.3.*",
    "7.4": "ipykernel==7.4.*",
}
MARIMO_REQUIREMENT = "marimo==0.25.*"
KERNEL_SETTINGS_PLUGIN = "@jupyterlab/apputils-extension/kernels-settings"
SUBSHELL_SETTINGS = {"on": "perCommTarget", "off": "disabled"}
PASSED_MARK = "✓"
FLOWS = (*host_flows.FLOWS, Flow("sources", feed_all_sources))


@dataclass
class HostRow:
    """A host with the result of each flow: ✓, or the error."""

    host: str
    kernel: str
    comms: str = "–"
    flow_results: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The host's name on the command line and in the table."""
        comms = f", comms over subshells {self.comms}" if self.comms != "–" else ""
        return f"{self.host}, {self.kernel}{comms}"

    @property
    def is_passed(self) -> bool:
        """Whether all flows passed."""
        return len(self.flow_results) == len(FLOWS) and set(self.flow_results) == {PASSED_MARK}


@dataclass(frozen=True)
class HostSetup:
    """A host to test; `open` starts a new instance in its own folder."""

    row: HostRow
    open: Callable[[Path], AbstractContextManager[Host]]


def main() -> int:
    """Test all set-ups selected on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="only hosts whose name has one of these")
    words = parser.parse_args().words
    if getattr(os, "geteuid", lambda: 1)() == 0:
        setup.install_system_packages(missing_packages())
    started = time.monotonic()
    rows = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=chromium_arguments("swiftshader")
        )
        for number, one in enumerate(host_setups(browser)):
            if words and not any(word in one.row.name for word in words):
                continue
            run_setup(one, Path(folder) / str(number))
            rows.append(one.row)
        browser.close()
    lines = format_markdown_table(rows)
    print("", *lines, f"{(time.monotonic() - started) / 60:.0f} minutes", sep="\n")
    write_table(lines)
    return 0 if rows and all(row.is_passed for row in rows) else 1


def host_setups(browser: Browser) -> Iterator[HostSetup]:
    """Every host, with its environment created."""
    kernels = [
        ensure_environment(f"ipykernel-{name}", what) for name, what in KERNEL_REQUIREMENTS.items()
    ]
    here = Path(sys.executable)
    lab, own = name_and_version(here, "JupyterLab"), name_and_version(here, "ipykernel")
    for python in kernels:
        for comms in SUBSHELL_SETTINGS:
            yield HostSetup(
                HostRow(lab, name_and_version(python, "ipykernel"), comms),
                lambda folder, python=python, comms=comms: open_in_chromium(
                    browser, folder, kernels={"tried": python}, kernel="tried", comms=comms
                ),
            )
    yield HostSetup(
        HostRow(name_and_version(here, "Notebook"), own, "on"),
        lambda folder: open_in_chromium(browser, folder, application="notebook"),
    )
    yield HostSetup(HostRow(f"{lab} in Firefox", own, "on"), open_in_firefox)
    python = ensure_environment("marimo", MARIMO_REQUIREMENT)
    yield HostSetup(
        HostRow(name_and_version(python, "marimo"), "its own"),
        lambda folder: open_in_marimo(browser, folder, python),
    )


def name_and_version(python: Path, application: str) -> str:
    """An application's name and its version in an environment."""
    return f"{application} {package_version(python, application.lower())}"


@contextmanager
def open_in_chromium(
    browser: Browser,
    folder: Path,
    *,
    kernels: dict[str, Path] | None = None,
    kernel: str = DEFAULT_KERNEL,
    comms: str = "on",
    application: str = "jupyterlab",
) -> Iterator[Host]:
    """Open a new notebook in Chromium."""
    settings = {KERNEL_SETTINGS_PLUGIN: {"commsOverSubshells": SUBSHELL_SETTINGS[comms]}}
    with (
        running_lab(folder, settings=settings, kernels=kernels, application=application) as lab,
        local_page(browser) as page,
        closing(JupyterHost(lab.open_notebook(page, kernel=kernel))) as host,
    ):
        yield host


@contextmanager
def open_in_firefox(folder: Path) -> Iterator[Host]:
    """Open a new notebook of JupyterLab in Firefox."""
    if missing := missing_packages():
        raise AssertionError(f"not installed: apt-get install {' '.join(missing)}")
    with (
        running_lab(folder / "lab") as lab,
        firefox_page(folder / "firefox") as page,
        closing(JupyterHost(lab.open_notebook(page))) as host,
    ):
        yield host


@contextmanager
def open_in_marimo(browser: Browser, folder: Path, python: Path) -> Iterator[Host]:
    """Open a new notebook of marimo in Chromium."""
    with running_marimo(folder, python) as address, local_page(browser) as page:
        yield MarimoHost(page, address)


def run_setup(host_setup: HostSetup, folder: Path) -> None:
    """Fill a set-up's row: each flow's mark or error."""
    print(f"\n{host_setup.row.name}", flush=True)
    since = time.monotonic()
    try:
        with host_setup.open(folder) as host:
            run_import_cell(host)
            for flow in FLOWS:
                host_setup.row.flow_results.append(run_flow(flow, host))
    except Exception as error:
        traceback.print_exc()
        host_setup.row.flow_results += [format_error(error)] * (
            len(FLOWS) - len(host_setup.row.flow_results)
        )
    print(f"  {time.monotonic() - since:.0f} s", flush=True)


def run_flow(flow: Flow, host: Host) -> str:
    """Run a flow; return ✓, or the reason why it failed."""
    since = time.monotonic()
    try:
        flow.run(host)
        mark = PASSED_MARK
    except Exception as error:  # only this flow failed; the next may pass
        mark = format_error(error)
    print(f"  {flow.name:26} {mark} ({time.monotonic() - since:.1f} s)", flush=True)
    return mark


def format_error(error: Exception) -> str:
    """Format an exception as one line for a table cell."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200].replace("|", "¦")


def format_markdown_table(rows: list[HostRow]) -> list[str]:
    """Format the rows as a Markdown table with a header."""
    heads = ["host", "kernel", "comms over subshells", *(flow.name for flow in FLOWS), "tried"]
    today = date.today().isoformat()
    cells = [[row.host, row.kernel, row.comms, *row.flow_results, today] for row in rows]
    return table(heads, cells, "markdown").splitlines()


def write_table(lines: list[str]) -> None:
    """Write the table into the documentation; rows of hosts not tested now stay."""
    page = HOSTS_PAGE.read_text("utf-8")
    before, rest = page.split(BEGIN)
    old, after = rest.split(END)
    rows = {row_key(line): line for line in [*old.splitlines(), *lines] if line.startswith("|")}
    HOSTS_PAGE.write_text(f"{before}{BEGIN}{chr(10).join(rows.values())}\n{END}{after}", "utf-8")


def row_key(line: str) -> tuple[str, ...]:
    """The key of a table row: host, kernel and comms."""
    return tuple(cell.strip() for cell in line.split("|")[1:4])


if __name__ == "__main__":
    sys.exit(main())
