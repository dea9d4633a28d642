"""The hosts that `make hosts` tests: Notebook 7 here too, and the specifics of marimo."""

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
from host_environments import ensure_environment
from host_flows import run_import_cell
from host_jupyter import JupyterHost
from host_marimo import serve_marimo_export
from hosts import FLOWS
from jupyter_lab import local_page, running_lab
from nbglcnn.notebook import blocking, marimo
from nbglcnn.notebook.message_receivers import receivers_by_comm_id


def test_every_flow_goes_well_in_notebook_7(
    tmp_path: Path, browser: Callable[[str], Browser]
) -> None:
    with (
        running_lab(tmp_path / "notebook", application="notebook") as lab,
        local_page(browser("llvmpipe")) as page,
        closing(JupyterHost(lab.open_notebook(page))) as host,
    ):
        run_import_cell(host)
        for flow in FLOWS:
            flow.run(host)


def test_a_flow_that_fails_is_told_in_the_table() -> None:
    row = hosts.HostRow("Host", "kernel", "on")
    row.flow_results = [hosts.PASSED_MARK] * len(FLOWS)
    assert row.is_passed
    row.flow_results[2] = hosts.format_error(AssertionError("first | line\nsecond"))
    assert not row.is_passed
    assert "AssertionError: first ¦ line second" in hosts.format_markdown_table([row])[-1]
    row.flow_results = row.flow_results[:2]  # the other cells were not run
    assert not row.is_passed


def test_hosts_that_were_not_tried_keep_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "hosts.md"
    page.write_text(f"before\n{hosts.BEGIN}{hosts.END}after\n")
    monkeypatch.setattr(hosts, "HOSTS_PAGE", page)
    one, other = (
        hosts.HostRow(name, "kernel", "on", [mark] * len(FLOWS)) for name, mark in ["aA", "bB"]
    )
    hosts.write_table(hosts.format_markdown_table([one, other]))
    other.flow_results = ["C"] * len(FLOWS)
    hosts.write_table(hosts.format_markdown_table([other]))
    lines = page.read_text().splitlines()
    assert lines[0] == "before" and lines[-1] == "after"
    table = [line for line in lines if line.startswith("|")]
    assert [line.split(" | ")[3] for line in table[2:]] == ["A", "C"]


class RecordingInbox:
    """An inbox that records its messages."""

    def __init__(self) -> None:
        self.messages: list[tuple[Any, list[bytes]]] = []

    def receive(self, content: Any, buffers: list[memoryview]) -> None:
        self.messages.append((content, [bytes(each) for each in buffers]))


def custom_message(model: str, content: Any, *buffers: bytes) -> SimpleNamespace:
    """A widget's custom message in the form that marimo queues."""
    message = SimpleNamespace(content=content)
    return SimpleNamespace(model_id=model, message=message, buffers=list(buffers))


@pytest.fixture(params=["a process", "a thread"])
def marimo_queue(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The queue of widgets' messages, as marimo stores it, while a cell runs."""
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


def test_in_marimo_a_waiting_cell_gets_its_viewers_messages(marimo_queue: Any) -> None:
    inbox = RecordingInbox()
    receivers_by_comm_id["mine"] = inbox
    marimo_queue.put(custom_message("other", {"type": "x"}))
    marimo_queue.put(SimpleNamespace(model_id="mine", message=SimpleNamespace(state={"a": 1})))
    marimo_queue.put(custom_message("mine", {"type": "a"}, b"12"))
    marimo_queue.put(custom_message("mine", {"type": "b"}))
    blocking.wait_until(lambda: len(inbox.messages) == 2)
    assert inbox.messages == [({"type": "a"}, [b"12"]), ({"type": "b"}, [])]


def test_in_marimo_duplicated_messages_are_ignored(marimo_queue: Any) -> None:
    inbox = RecordingInbox()
    receivers_by_comm_id["twins"] = inbox
    for letter in "abc":
        marimo_queue.put(custom_message("twins", {"type": letter}))
    blocking.wait_until(lambda: len(inbox.messages) == 3)
    assert not marimo.is_duplicate_message("another", {"type": "a"})
    assert not marimo.is_duplicate_message("twins", {"type": "d"})
    assert marimo.is_duplicate_message("twins", {"type": "a"})
    assert not marimo.is_duplicate_message("twins", {"type": "a"})
    assert marimo.is_duplicate_message("twins", {"type": "c"})  # b's duplicate never came
    assert not marimo.is_duplicate_message("twins", {"type": "b"})
    assert "twins" not in marimo._delivered_by_comm_id


def test_in_marimo_a_background_task_leaves_the_queue_alone(marimo_queue: Any) -> None:
    assert marimo.MarimoPump.for_thread(awaiting=True) is not None
    marimo_queue.runtime.execution_context = None
    assert marimo.MarimoPump.for_thread(awaiting=True) is None
    assert marimo.MarimoPump.for_thread(awaiting=False) is not None
    marimo_queue.runtime._kernel = None
    assert marimo.MarimoPump.for_thread(awaiting=False) is None


@pytest.mark.sweep
def test_a_page_that_marimo_exports_shows_the_snapshot(
    tmp_path: Path, browser: Callable[[str], Browser]
) -> None:
    python = ensure_environment("marimo", hosts.MARIMO_REQUIREMENT)
    with (
        serve_marimo_export(tmp_path, python) as address,
        local_page(browser("llvmpipe")) as page,
    ):
        page.goto(address)
        images = page.locator("marimo-anywidget figure img")
        images.first.wait_for()
        # One image of a plain Viewer, and one of a wrapped Viewer.
        assert images.count() == 2
        for k in range(2):
            size = images.nth(k).evaluate(
                "async image => (await image.decode(), image.naturalWidth)"
            )
            assert size > 200
        text = page.locator("marimo-anywidget figcaption").first.text_content()
        assert text == "Picture from the last run. Run the notebook to bring it to life."
