"""The line between kernel and page is cut after every message of a Viewer's life, in JupyterLab.

A life: a network of two layers is loaded (hello, state, parts), run (ran), shown, read (read,
reply, done), given another input, read again and closed. After each of its messages, of either
side, the page or the kernel closes the comm. After each of them nothing more comes through, and
then the kernel is killed: one death for Viewers that stand at every step. `make test` also kills
a kernel at a few steps of a life of its own, `make sweep` at all of them.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, Error, Locator, TimeoutError, expect

from faults import ALIVE, WIRE, lives, set_ends, settled
from lab import Lab, Notebook, alone
from leaks import LISTENERS, TIMERS
from steps import IMPORTS

Told = Sequence[Sequence[Any]]
CLOSED = "PageError: this Viewer was closed; make another one"
# From the question on, also where a busy machine is late to close; the time-out is 30 s.
SOON_S = 6.0
# Said where a page speaks to a kernel before it is told that there is none any more.
UNREACHED = "nbglcnn: could not reach Python"
# What the bundle holds in the page.
HELD = f"() => ({{ ...({ALIVE})(), timers: window.pending(), listeners: window.heard() }})"
GONE = f"(before) => Object.entries(({HELD})()).every(([name, count]) => count <= before[name])"
WHOLE = "said.filter((kind) => kind === 'done').length === 2"  # both reads are answered
ENDED = f"() => [...window.wire.lives.values()].some(({{ said, over }}) => over || {WHOLE})"
# Whether a life has met its end; one that has not goes on without.
OVER = """() => {
  const over = [...window.wire.lives.values()].some((life) => life.over);
  if (!over) window.wire.lives.clear();
  return over;
}"""
# How many Viewers a cell has displayed.
DISPLAYED = """(index) => window.lab.panel().content.model.cells.get(index).outputs.toJSON()
  .filter((output) => output.output_type === "display_data").length"""
# Each of so many lives is where it ends, or its two reads took fewer messages than that.
AT_ENDS = f"""(count) => window.wire.lives.size === count && [...window.wire.lives.values()]
  .every(({{ said, end }}) => end === null || said.length >= end || {WHOLE})"""
# Texts of a cell's outputs that take place in the page.
SEEN = """(index) => [...window.lab.panel().content.widgets[index].node
    .querySelectorAll(".jp-OutputArea-child")]
  .filter((child) => child.getBoundingClientRect().height > 0)
  .map((child) => child.querySelector(".jp-OutputArea-output").innerText.trim())"""


@pytest.fixture(scope="module")
def shared(lab: Lab, browser: Callable[[str], Browser]) -> Iterator[Notebook]:
    with alone(lab, browser("llvmpipe"), script=WIRE + LISTENERS + TIMERS) as notebook:
        notebook.page.set_default_timeout(20_000)
        yield notebook


@pytest.fixture
def notebook(shared: Notebook) -> Iterator[Notebook]:
    """The notebook of this file, with a Viewer that stays; no mistake is left in its console."""
    said = len(shared.console)
    stacks: list[str] = []

    def note(error: Error) -> None:
        stacks.append(str(error.stack))

    shared.page.on("pageerror", note)
    set_ends(shared, [], "dead")
    shared.clear()
    shared.run(IMPORTS)
    yield shared
    shared.page.remove_listener("pageerror", note)
    # The bundle comes from a blob; JupyterLab and anywidget have mistakes of their own here.
    lines = [line for line in (*shared.console[said:], *stacks) if not line.startswith(UNREACHED)]
    assert not [line for line in lines if "blob:" in line or line.startswith("nbglcnn: ")]


@dataclass
class Base:
    """A notebook with a Viewer that stays, what one life says, and what the page holds then."""

    notebook: Notebook
    said: list[str]
    held: dict[str, int]

    def regained(self, dead: int = 0) -> None:
        """Wait until the page holds no more than before.

        JupyterLab keeps models whose kernel is `dead`, and each waits for its end: one listener.
        """
        held = self.held | {"listeners": self.held["listeners"] + dead}
        try:
            self.notebook.page.wait_for_function(GONE, arg=held)
        except TimeoutError:
            now = self.notebook.page.evaluate(HELD)
            pytest.fail(f"the page held {held} before, and holds {now}")


@pytest.fixture
def base(notebook: Notebook) -> Base:
    notebook.run("keeper = keep()")
    check_whole(told_by(notebook.run("tell(live())").text)[0])
    life = lives(notebook)[-1]
    settled(notebook)
    return Base(notebook, life["said"], notebook.page.evaluate(HELD))


def told_by(text: str) -> list[Told]:
    return list(json.loads(text.splitlines()[-1]))


def check_whole(told: Told) -> None:
    assert [outcome for _, outcome, _ in told] == ["right"] * len(told), told


def check_ended(told: Told) -> None:
    """Right numbers up to the end, then all that asks a Viewer says that there is none, at once."""
    asking = ("read", "change")
    outcomes = [outcome for name, outcome, _ in told if name.startswith(asking)]
    assert outcomes == sorted(outcomes, reverse=True), told  # "right" before "PageError"
    assert set(outcomes) <= {"right", CLOSED}, told
    assert all(o == "right" for name, o, _ in told if not name.startswith(asking)), told
    assert all(seconds < SOON_S for *_, seconds in told), told


def test_a_comm_closed_after_any_message(base: Base, pytestconfig: pytest.Config) -> None:
    notebook, count = base.notebook, len(base.said)
    assert count >= 15
    notebook.run("END = 0")  # the message that never comes: whole lives
    # Run again each time: what ended before has left nothing behind.
    cell = notebook.start("tell(live(end=END, by='page'), live(end=END, by='kernel'))\nEND += 1")
    for told in told_by(notebook.wait(cell).text):
        check_whole(told)
    broken = 0
    ends = range(1, count + 1, 1 if pytestconfig.getoption("--sweep") else 3)
    for end in ends:
        set_ends(notebook, [end, None], "close")
        for told in told_by(notebook.again(cell).text):
            check_ended(told)
            broken += any(outcome == CLOSED for _, outcome, _ in told)
        base.regained()
        # The views went with their Viewers; one that was not there yet is "Loading widget..." or
        # "Error displaying widget", JupyterLab's words. No box is blank.
        seen = notebook.page.evaluate(SEEN, cell)
        assert all(text.startswith(("[[", "Loading", "Error")) for text in seen), (end, seen)
    assert broken > len(ends)
    notebook.run("END = 0")
    for told in told_by(notebook.again(cell).text):
        check_whole(told)


def parted(notebook: Notebook, count: int) -> Locator:
    """So many views, each of which says that Python is gone."""
    views = notebook.page.locator(".nbglcnn[data-phase=restarted]")
    expect(views).to_have_count(count)
    for k in range(count):
        expect(views.nth(k)).to_contain_text("Python restarted or stopped; the page goes on")
        expect(views.nth(k).locator(".nbg-status")).to_contain_text("Not connected")
    return views


def test_a_kernel_that_dies_with_viewers_at_every_step(base: Base) -> None:
    notebook = base.notebook
    ends = [*range(len(base.said)), None]
    set_ends(notebook, ends, "dead")
    notebook.run(f"COUNT = {len(ends)}")
    # No other cell: the next one would run when all reads have ended.
    cell = notebook.start("tasks = live_side_by_side(COUNT)\nprint(os.getpid())")
    pid = int(notebook.wait(cell).text)
    notebook.page.wait_for_function(AT_ENDS, arg=len(ends))
    os.kill(pid, signal.SIGKILL)
    parted(notebook, len(ends) + 1)
    notebook.page.locator(".jp-Dialog button").last.click()  # what JupyterLab says of it
    notebook.wait_revived()
    notebook.run(IMPORTS + "COUNT = 2")
    notebook.again(cell)
    notebook.run("await asyncio.gather(*tasks)\nimport ipywidgets; ipywidgets.Widget.close_all()")
    base.regained(len(ends) + 1)


@pytest.mark.parametrize("how", ["dies", "restarts"])
def test_a_kernel_that_goes_after_a_message(
    base: Base, pytestconfig: pytest.Config, how: str
) -> None:
    notebook, count = base.notebook, len(base.said)
    chosen = [1, count // 2] if how == "dies" else [base.said.index("ran") - 1]
    ends = range(1, count + 1) if pytestconfig.getoption("--sweep") else chosen
    deaths = 0
    for end in ends:
        # JupyterLab tells its widgets of a restart at once, of a death when the server has seen it.
        set_ends(notebook, [end] if how == "restarts" else [], "restart")
        notebook.run(f"END = {end if how == 'dies' else None}")
        cell = notebook.start("tell(live(end=END, by='death'))")
        if how == "dies":
            notebook.page.locator(".jp-Dialog button").last.click()  # what JupyterLab says of it
        else:
            notebook.page.wait_for_function(ENDED)
            if not notebook.page.evaluate(OVER):
                notebook.wait(cell)  # there were fewer messages
                continue
        deaths += 1
        # JupyterLab drops what it has not handled by then, so that the Viewer may have no view.
        displayed = notebook.page.evaluate(DISPLAYED, cell)
        assert displayed == 1 or "reply" not in lives(notebook)[0]["said"]
        parted(notebook, 1 + displayed)
        notebook.wait_revived()
        notebook.run(IMPORTS + "END = None")
        check_whole(told_by(notebook.again(cell).text)[0])
        base.regained(deaths + 1)
    assert deaths > len(ends) / 2


def test_a_kernel_that_is_shut_down_is_said(notebook: Notebook) -> None:
    notebook.run("keeper = keep()")
    notebook.page.evaluate("() => window.lab.panel().sessionContext.shutdown()")
    parted(notebook, 1)
    start = "() => window.lab.panel().sessionContext.changeKernel({ name: 'python3' })"
    notebook.page.evaluate(start)
    notebook.wait_ready()
