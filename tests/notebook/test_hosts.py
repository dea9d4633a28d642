"""The hosts that `make hosts` tries: Notebook 7 here too, and what is special to marimo."""

import multiprocessing
import queue
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from playwright.sync_api import Browser

import hosts
from host_environments import environment
from host_flows import prepare
from host_jupyter import JupyterHost
from host_marimo import exported_by_marimo
from hosts import FLOWS
from lab import local_page, running_lab
from nbglcnn.notebook import blocking, marimo
from nbglcnn.notebook.inbox import inboxes


def test_every_flow_goes_well_in_notebook_7(
    tmp_path: Path, browser: Callable[[str], Browser]
) -> None:
    with (
        running_lab(tmp_path / "notebook", application="notebook") as lab,
        local_page(browser("llvmpipe")) as page,
        closing(JupyterHost(lab.notebook(page))) as host,
    ):
        prepare(host)
        for flow in FLOWS:
            flow.do(host)


def test_a_flow_that_fails_is_told_in_the_table() -> None:
    row = hosts.Row("Host", "kernel", "on")
    row.cells = [hosts.GREEN] * len(FLOWS)
    assert row.green
    row.cells[2] = hosts.said(AssertionError("first | line\nsecond"))
    assert not row.green
    assert "AssertionError: first ¦ line second" in hosts.markdown([row])[-1]
    row.cells = row.cells[:2]  # the others were not even tried
    assert not row.green


def test_hosts_that_were_not_tried_keep_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "hosts.md"
    page.write_text(f"before\n{hosts.BEGIN}{hosts.END}after\n")
    monkeypatch.setattr(hosts, "PAGE", page)
    one, other = (
        hosts.Row(name, "kernel", "on", [mark] * len(FLOWS)) for name, mark in ["aA", "bB"]
    )
    hosts.write(hosts.markdown([one, other]))
    other.cells = ["C"] * len(FLOWS)
    hosts.write(hosts.markdown([other]))
    lines = page.read_text().splitlines()
    assert lines[0] == "before" and lines[-1] == "after"
    table = [line for line in lines if line.startswith("|")]
    assert [line.split(" | ")[3] for line in table[2:]] == ["A", "C"]


class Recorder:
    """An inbox that keeps what it gets."""

    def __init__(self) -> None:
        self.got: list[tuple[Any, list[bytes]]] = []

    def receive(self, content: Any, buffers: list[memoryview]) -> None:
        self.got.append((content, [bytes(each) for each in buffers]))


def custom(model: str, content: Any, *buffers: bytes) -> SimpleNamespace:
    """A widget's custom message as marimo queues it."""
    message = SimpleNamespace(content=content)
    return SimpleNamespace(model_id=model, message=message, buffers=list(buffers))


@pytest.fixture(params=["a process", "a thread"])
def requests(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The queue of widgets' messages, where marimo keeps it, while a cell runs."""
    own = (
        multiprocessing.get_context("spawn").Queue()
        if request.param == "a process"
        else queue.Queue()
    )
    control: queue.Queue[Any] = queue.Queue()

    def maker(control_queue: Any, set_ui_element_queue: Any) -> Callable[[Any], None]:
        def enqueue(command: Any) -> None:
            control_queue.put_nowait(command)
            set_ui_element_queue.put_nowait(command)

        return enqueue

    runtime = SimpleNamespace(
        _kernel=SimpleNamespace(enqueue_control_request=maker(control, own)),
        execution_context=SimpleNamespace(cell_id="a"),
    )
    module = types.ModuleType("marimo._runtime.context")
    module.get_context = lambda: runtime  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "marimo._runtime.context", module)
    own.runtime = runtime
    yield own
    if hasattr(own, "close"):
        own.close()
        own.join_thread()


def test_in_marimo_a_waiting_cell_gets_its_viewers_messages(requests: Any) -> None:
    inbox = Recorder()
    inboxes["mine"] = inbox
    requests.put(custom("other", {"type": "x"}))
    requests.put(SimpleNamespace(model_id="mine", message=SimpleNamespace(state={"a": 1})))
    requests.put(custom("mine", {"type": "a"}, b"12"))
    requests.put(custom("mine", {"type": "b"}))
    blocking.wait(lambda: len(inbox.got) == 2)
    assert inbox.got == [({"type": "a"}, [b"12"]), ({"type": "b"}, [])]


def test_in_marimo_the_twins_of_messages_are_told_from_new_ones(requests: Any) -> None:
    inbox = Recorder()
    inboxes["twins"] = inbox
    for letter in "abc":
        requests.put(custom("twins", {"type": letter}))
    blocking.wait(lambda: len(inbox.got) == 3)
    assert not marimo.is_twin("another", {"type": "a"})
    assert not marimo.is_twin("twins", {"type": "d"})
    assert marimo.is_twin("twins", {"type": "a"})
    assert not marimo.is_twin("twins", {"type": "a"})
    assert marimo.is_twin("twins", {"type": "c"})  # the twin of b never came
    assert not marimo.is_twin("twins", {"type": "b"})
    assert "twins" not in marimo._taken


def test_in_marimo_a_background_task_leaves_the_queue_alone(requests: Any) -> None:
    assert marimo.Pump.here(awaiting=True) is not None
    requests.runtime.execution_context = None
    assert marimo.Pump.here(awaiting=True) is None
    assert marimo.Pump.here(awaiting=False) is not None
    requests.runtime._kernel = None
    assert marimo.Pump.here(awaiting=False) is None


@pytest.mark.sweep
def test_a_page_that_marimo_exports_shows_the_snapshot(
    tmp_path: Path, browser: Callable[[str], Browser]
) -> None:
    python = environment("marimo", hosts.MARIMO)
    with (
        exported_by_marimo(tmp_path, python) as address,
        local_page(browser("llvmpipe")) as page,
    ):
        page.goto(address)
        images = page.locator("marimo-anywidget figure img")
        images.first.wait_for()
        # One of a Viewer by itself, and one of a wrapped Viewer.
        assert images.count() == 2
        for k in range(2):
            size = images.nth(k).evaluate(
                "async image => (await image.decode(), image.naturalWidth)"
            )
            assert size > 200
        text = page.locator("marimo-anywidget figcaption").first.text_content()
        assert text == "Picture from the last run. Run the notebook to bring it to life."
