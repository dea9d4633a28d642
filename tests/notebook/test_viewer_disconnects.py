"""The kernel-page connection is cut after every message of a Viewer's life, in JupyterLab.

A life: a network of two layers is loaded (hello, state, parts), run (ran), shown, read (read,
reply, done), given another input, read again and closed. After each of its messages, in either
direction, the page or the kernel closes the comm. For each message, one Viewer stops there (nothing
more is delivered), and then the kernel is killed once for all these Viewers. `make test` also kills
a kernel at a few steps of a separate life, `make sweep` at all of them.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, Locator, TimeoutError, expect

from fault_injection import (
    CONNECTION_SCRIPT,
    COUNT_LIVE_OBJECTS_SCRIPT,
    set_connection_ends,
    viewer_histories,
    wait_counts_settled,
)
from jupyter_lab import LabServer, Notebook, new_notebook
from leaks import COUNT_LISTENERS_SCRIPT, COUNT_TIMERS_SCRIPT
from viewer_lifecycle import IMPORTS_CELL

StepOutcomes = Sequence[Sequence[Any]]
CLOSED_ERROR = "PageError: this Viewer was closed; create another one"
# Measured from the request, also if a busy machine closes late; the time-out is 30 s.
CLOSE_DETECTION_LIMIT_S = 6.0
# Logged if a page sends to a kernel before it learns that the kernel is dead.
UNREACHABLE_TEXT = "nbglcnn: could not reach Python"
# Counts the objects that the bundle holds in the page.
COUNT_HELD_SCRIPT = f"""() => ({{
  ...({COUNT_LIVE_OBJECTS_SCRIPT})(), timers: window.pending(), listeners: window.heard()
}})"""
IS_RELEASED_SCRIPT = f"""(before) => Object.entries(({COUNT_HELD_SCRIPT})())
  .every(([name, count]) => count <= before[name])"""
IS_COMPLETE_EXPRESSION = (
    "said.filter((kind) => kind === 'done').length === 2"  # both reads are answered
)
IS_ENDED_SCRIPT = f"""() => [...window.wire.lives.values()]
  .some(({{ said, over }}) => over || {IS_COMPLETE_EXPRESSION})"""
# Whether a life was cut; if none was, later lives run uncut.
IS_OVER_SCRIPT = """() => {
  const over = [...window.wire.lives.values()].some((life) => life.over);
  if (!over) window.wire.lives.clear();
  return over;
}"""
# The number of Viewers that a cell has displayed.
DISPLAYED_OUTPUTS_SCRIPT = """(index) => window.lab.panel().content.model.cells.get(index).outputs
  .toJSON().filter((output) => output.output_type === "display_data").length"""
# Whether each of `count` lives was cut, or completed its two reads in fewer messages.
ARE_ALL_ENDED_SCRIPT = f"""(count) => window.wire.lives.size === count
  && [...window.wire.lives.values()].every(({{ said, end }}) =>
    end === null || said.length >= end || {IS_COMPLETE_EXPRESSION})"""
# The texts of a cell's outputs that take up space in the page.
VISIBLE_VIEWS_SCRIPT = """(index) => [...window.lab.panel().content.widgets[index].node
    .querySelectorAll(".jp-OutputArea-child")]
  .filter((child) => child.getBoundingClientRect().height > 0)
  .map((child) => child.querySelector(".jp-OutputArea-output").innerText.trim())"""


@pytest.fixture(scope="module")
def shared_notebook(lab: LabServer, browser: Callable[[str], Browser]) -> Iterator[Notebook]:
    with new_notebook(
        lab,
        browser("llvmpipe"),
        script=CONNECTION_SCRIPT + COUNT_LISTENERS_SCRIPT + COUNT_TIMERS_SCRIPT,
    ) as notebook:
        notebook.page.set_default_timeout(20_000)
        yield notebook


@pytest.fixture
def notebook(shared_notebook: Notebook) -> Iterator[Notebook]:
    """This file's notebook, with a persistent Viewer; no error may remain in its console."""
    messages = len(shared_notebook.console)
    stacks: list[str] = []

    def note(error: Error) -> None:
        stacks.append(str(error.stack))

    shared_notebook.page.on("pageerror", note)
    set_connection_ends(shared_notebook, [], "dead")
    shared_notebook.delete_cells()
    shared_notebook.run(IMPORTS_CELL)
    yield shared_notebook
    shared_notebook.page.remove_listener("pageerror", note)
    # The bundle comes from a blob; JupyterLab and anywidget log errors of their own here.
    lines = [
        line
        for line in (*shared_notebook.console[messages:], *stacks)
        if not line.startswith(UNREACHABLE_TEXT)
    ]
    assert not [line for line in lines if "blob:" in line or line.startswith("nbglcnn: ")]


@dataclass
class LifecycleBaseline:
    """Notebook with a persistent Viewer, the messages of one life, and the page's object counts."""

    notebook: Notebook
    messages: list[str]
    held_objects: dict[str, int]

    def wait_released(self, dead: int = 0) -> None:
        """Wait until the page holds no more objects than before.

        JupyterLab keeps the models of a `dead` kernel, and each has one listener for its end.
        """
        held = self.held_objects | {"listeners": self.held_objects["listeners"] + dead}
        try:
            self.notebook.page.wait_for_function(IS_RELEASED_SCRIPT, arg=held)
        except TimeoutError:
            now = self.notebook.page.evaluate(COUNT_HELD_SCRIPT)
            pytest.fail(f"the page held {held} before, and holds {now}")


@pytest.fixture
def baseline(notebook: Notebook) -> LifecycleBaseline:
    notebook.run("keeper = show_persistent_viewer()")
    assert_complete(parse_outcomes(notebook.run("print_outcomes(run_lifecycle())").text)[0])
    session_trace = viewer_histories(notebook)[-1]
    wait_counts_settled(notebook)
    return LifecycleBaseline(
        notebook, session_trace["said"], notebook.page.evaluate(COUNT_HELD_SCRIPT)
    )


def parse_outcomes(text: str) -> list[StepOutcomes]:
    return list(json.loads(text.splitlines()[-1]))


def assert_complete(step_outcomes: StepOutcomes) -> None:
    assert [outcome for _, outcome, _ in step_outcomes] == ["right"] * len(step_outcomes), (
        step_outcomes
    )


def assert_ended(step_outcomes: StepOutcomes) -> None:
    """Check that values are right up to the end, and that later reads and changes fail at once."""
    asking = ("read", "change")
    outcomes = [outcome for name, outcome, _ in step_outcomes if name.startswith(asking)]
    assert outcomes == sorted(outcomes, reverse=True), step_outcomes  # "right" before "PageError"
    assert set(outcomes) <= {"right", CLOSED_ERROR}, step_outcomes
    assert all(o == "right" for name, o, _ in step_outcomes if not name.startswith(asking)), (
        step_outcomes
    )
    assert all(seconds < CLOSE_DETECTION_LIMIT_S for *_, seconds in step_outcomes), step_outcomes


def test_a_comm_closed_after_any_message(
    baseline: LifecycleBaseline, pytestconfig: pytest.Config
) -> None:
    notebook, count = baseline.notebook, len(baseline.messages)
    assert count >= 15
    notebook.run("END = 0")  # never reached: whole lives
    # The same cell runs each time: an earlier life leaves nothing behind.
    cell = notebook.start(
        "print_outcomes(run_lifecycle(end=END, by='page'), run_lifecycle(end=END, by='kernel'))\n"
        "END += 1"
    )
    for told in parse_outcomes(notebook.wait(cell).text):
        assert_complete(told)
    broken = 0
    ends = range(1, count + 1, 1 if pytestconfig.getoption("--sweep") else 3)
    for end in ends:
        set_connection_ends(notebook, [end, None], "close")
        for told in parse_outcomes(notebook.rerun(cell).text):
            assert_ended(told)
            broken += any(outcome == CLOSED_ERROR for _, outcome, _ in told)
        baseline.wait_released()
        # The views were removed with their Viewers; a view that was not loaded yet shows
        # JupyterLab's "Loading widget..." or "Error displaying widget". No box is blank.
        seen = notebook.page.evaluate(VISIBLE_VIEWS_SCRIPT, cell)
        assert all(text.startswith(("[[", "Loading", "Error")) for text in seen), (end, seen)
    assert broken > len(ends)
    notebook.run("END = 0")
    for told in parse_outcomes(notebook.rerun(cell).text):
        assert_complete(told)


def disconnected_views(notebook: Notebook, count: int) -> Locator:
    """Check that this many views say that Python is disconnected."""
    views = notebook.page.locator(".nbglcnn[data-phase=restarted]")
    expect(views).to_have_count(count)
    for k in range(count):
        expect(views.nth(k)).to_contain_text("Python restarted or stopped. The page still works")
        expect(views.nth(k).locator(".nbg-status")).to_contain_text("Not connected")
    return views


def test_a_kernel_that_dies_with_viewers_at_every_step(baseline: LifecycleBaseline) -> None:
    notebook = baseline.notebook
    ends = [*range(len(baseline.messages)), None]
    set_connection_ends(notebook, ends, "dead")
    notebook.run(f"COUNT = {len(ends)}")
    # Run no other cell: it would run only after all reads have ended.
    cell = notebook.start("tasks = run_side_by_side(COUNT)\nprint(os.getpid())")
    pid = int(notebook.wait(cell).text)
    notebook.page.wait_for_function(ARE_ALL_ENDED_SCRIPT, arg=len(ends))
    os.kill(pid, signal.SIGKILL)
    disconnected_views(notebook, len(ends) + 1)
    notebook.page.locator(".jp-Dialog button").last.click()  # JupyterLab's own message
    notebook.wait_restarted()
    notebook.run(IMPORTS_CELL + "COUNT = 2")
    notebook.rerun(cell)
    notebook.run("await asyncio.gather(*tasks)\nimport ipywidgets; ipywidgets.Widget.close_all()")
    baseline.wait_released(len(ends) + 1)


@pytest.mark.parametrize("how", ["dies", "restarts"])
def test_a_kernel_that_goes_after_a_message(
    baseline: LifecycleBaseline, pytestconfig: pytest.Config, how: str
) -> None:
    notebook, count = baseline.notebook, len(baseline.messages)
    chosen = [1, count // 2] if how == "dies" else [baseline.messages.index("runreport") - 1]
    ends = range(1, count + 1) if pytestconfig.getoption("--sweep") else chosen
    deaths = 0
    for end in ends:
        # JupyterLab reports a restart to its widgets at once, and a death when the server notices
        # it.
        set_connection_ends(notebook, [end] if how == "restarts" else [], "restart")
        notebook.run(f"END = {end if how == 'dies' else None}")
        cell = notebook.start("print_outcomes(run_lifecycle(end=END, by='death'))")
        if how == "dies":
            notebook.page.locator(".jp-Dialog button").last.click()  # JupyterLab's own message
        else:
            notebook.page.wait_for_function(IS_ENDED_SCRIPT)
            if not notebook.page.evaluate(IS_OVER_SCRIPT):
                notebook.wait(cell)  # the life had fewer messages
                continue
        deaths += 1
        # JupyterLab drops messages that it has not handled by then, so the Viewer may have no view.
        displayed = notebook.page.evaluate(DISPLAYED_OUTPUTS_SCRIPT, cell)
        assert displayed == 1 or "reply" not in viewer_histories(notebook)[0]["said"]
        disconnected_views(notebook, 1 + displayed)
        notebook.wait_restarted()
        notebook.run(IMPORTS_CELL + "END = None")
        assert_complete(parse_outcomes(notebook.rerun(cell).text)[0])
        baseline.wait_released(deaths + 1)
    assert deaths > len(ends) / 2


def test_a_kernel_that_is_shut_down_is_said(notebook: Notebook) -> None:
    notebook.run("keeper = show_persistent_viewer()")
    notebook.page.evaluate("() => window.lab.panel().sessionContext.shutdown()")
    disconnected_views(notebook, 1)
    start = "() => window.lab.panel().sessionContext.changeKernel({ name: 'python3' })"
    notebook.page.evaluate(start)
    notebook.wait_ready()
