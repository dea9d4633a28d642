"""Faults between a page and its kernel, in real JupyterLab; the numbers stay correct."""

import re
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, TimeoutError, expect

from assertions import assert_equal
from fault_injection import (
    CONNECTION_SCRIPT,
    COUNT_LIVE_OBJECTS_SCRIPT,
    LOSE_CONTEXT_AT_SCRIPT,
    set_message_faults,
    take_injected_faults,
    wait_counts_settled,
)
from jupyter_lab import LabServer, Notebook, local_page, new_notebook
from polling import wait_frames
from viewer_models import IMPORTS_CELL, autoencoder, hook_values, pictures

MAKE_VIEWER_CELL = "viewer = Viewer(autoencoder(70), pictures(70))"
# Weights of 11 MB and values of 12 MB: several chunks each.
MAKE_HEAVY_CELL = """
def heavy(seed):
    torch.manual_seed(seed)  # a page keeps weights for a while: other ones are sent
    return nn.Conv2d(512, 600, 3).eval(), torch.randn(1, 512, 3, 3)
def wide():
    torch.manual_seed(2)
    return nn.Conv2d(1, 12, 3, padding=1).eval(), torch.randn(1, 1, 500, 500)
def right(value, model, x):
    with torch.no_grad(): true = model(x).numpy()
    return value.shape == true.shape and np.abs(value - true).max() < 1e-5 * np.abs(true).max()
"""
TIMEOUT_S = 30
SCROLL_TO_END_SCRIPT = """() => {
  const outer = window.lab.panel().node.querySelector(".jp-WindowedPanel-outer");
  outer.scrollTop = outer.scrollHeight;
}"""
LaunchBrowser = Callable[[str], Browser]


def last_drawn_view(notebook: Notebook) -> Locator:
    """The last view, once it is drawn; views out of sight are not drawn."""
    view = notebook.page.locator(".nbglcnn").last
    view.wait_for()
    drawn = notebook.page.locator(".nbglcnn[data-phase=ready] canvas[data-drawn]").last
    until = time.monotonic() + TIMEOUT_S
    while True:
        view.scroll_into_view_if_needed()  # content loading above moves it
        try:
            drawn.wait_for(timeout=1000)
            return view
        except TimeoutError:
            if time.monotonic() > until:
                raise


def expected_values(seed: int = 70, input_seed: int = 70) -> dict[str, np.ndarray]:
    return hook_values(autoencoder(seed), pictures(input_seed))


@pytest.fixture(scope="module")
def shared_notebook(lab: LabServer, browser: LaunchBrowser) -> Iterator[Notebook]:
    with new_notebook(lab, browser("llvmpipe"), script=CONNECTION_SCRIPT) as notebook:
        notebook.page.set_default_timeout(20_000)
        notebook.run(IMPORTS_CELL + MAKE_HEAVY_CELL + "from nbglcnn import transforms")
        yield notebook


@pytest.fixture
def notebook(shared_notebook: Notebook) -> Iterator[Notebook]:
    """The notebook of this file; after its viewers are closed nothing of them may be left."""
    yield shared_notebook
    set_message_faults(shared_notebook, {})
    shared_notebook.run(
        "waiting = [len(v._connection) for v in ipywidgets.Widget.widgets.values()\n"
        "           if isinstance(v, Viewer)]\n"
        "assert not any(waiting), waiting\nipywidgets.Widget.close_all()"
    )
    try:
        shared_notebook.page.wait_for_function(
            f"() => Object.values(({COUNT_LIVE_OBJECTS_SCRIPT})()).every((n) => n === 0)"
        )
    except TimeoutError:
        pytest.fail(
            f"left on the device: {shared_notebook.page.evaluate(COUNT_LIVE_OBJECTS_SCRIPT)}"
        )
    shared_notebook.delete_cells()
    # JupyterLab's own errors for requests to a restarted kernel.
    uncaught = [
        line
        for line in shared_notebook.console
        if line.startswith("uncaught") and "Canceled" not in line
    ]
    assert not uncaught


def test_a_socket_that_closes_between_two_parts_of_the_weights(notebook: Notebook) -> None:
    notebook.run("model, x = heavy(1)")
    set_message_faults(notebook, {"blobchunk": {2: "close"}})
    notebook.run("viewer = Viewer(nn.Sequential(model), x)\nvalue = viewer.output")
    assert take_injected_faults(notebook) == ["blobchunk close"]
    assert notebook.run("print(right(value, model, x), viewer.activations.source)").text.startswith(
        "True page"
    )
    notebook.run("viewer")
    last_drawn_view(notebook)


def test_a_socket_that_closes_between_two_parts_of_a_reply(notebook: Notebook) -> None:
    notebook.run("model, x = wide()\nviewer = Viewer(nn.Sequential(model), x)\nviewer")
    set_message_faults(notebook, {"reply": {2: "close"}})
    notebook.run("value = viewer.output")
    assert take_injected_faults(notebook) == ["reply close"]
    assert notebook.run("print(right(value, model, x))").text == "True\n"


@pytest.mark.parametrize("kind", ["blobchunk", "reply"])
def test_an_interrupt_between_two_parts(notebook: Notebook, kind: str) -> None:
    notebook.run(f"model, x = {'heavy(2)' if kind == 'blobchunk' else 'wide()'}")
    set_message_faults(notebook, {kind: {2: "interrupt"}})
    error = notebook.run(
        "viewer = Viewer(nn.Sequential(model), x)\nvalue = viewer.output", fails=True
    ).error
    assert error.startswith("KeyboardInterrupt")
    assert take_injected_faults(notebook) == [f"{kind} interrupt"]
    assert notebook.run("print(right(viewer.output, model, x))").text == "True\n"


def test_frames_that_arrive_twice(notebook: Notebook) -> None:
    kinds = (
        "manifest",
        "blobchunk",
        "read",
        "readdone",
        "hello",
        "runreport",
        "contexthealth",
        "reply",
    )
    set_message_faults(notebook, {kind: {"all": "twice"} for kind in kinds})
    notebook.run(MAKE_VIEWER_CELL + "\nvalues = viewer.activations.to_dict()\nviewer")
    notebook.run("viewer.input = pictures(71)\nlater = viewer.output")
    assert {fate.split()[0] for fate in take_injected_faults(notebook)} == set(kinds)
    values = notebook.read_array("values")
    for name, value in expected_values().items():
        assert_equal(values[name], value, name=name)
    assert_equal(notebook.read_array("later"), expected_values(input_seed=71)["output"])
    last_drawn_view(notebook)


def test_each_kind_of_frame_is_lost_once(notebook: Notebook) -> None:
    kinds = ("hello", "manifest", "blobchunk", "runreport", "contexthealth")
    set_message_faults(notebook, {kind: {1: "drop"} for kind in kinds})
    notebook.run("viewer = Viewer(autoencoder(74), pictures(74))\nviewer")
    last_drawn_view(notebook)
    assert {fate.split()[0] for fate in take_injected_faults(notebook)} == set(kinds)
    # A request is repeated once, so each of these messages can get lost once.
    for kinds in (("manifest", "read"), ("reply", "readdone")):
        set_message_faults(notebook, {kind: {1: "drop"} for kind in kinds})
        outputs = notebook.run("viewer.input = pictures(71)\nvalues = viewer.activations.to_dict()")
        assert not outputs.warnings
        assert {fate.split()[0] for fate in take_injected_faults(notebook)} == set(kinds)
    values = notebook.read_array("values")
    for name, value in expected_values(74, 71).items():
        assert_equal(values[name], value, name=name)


@pytest.mark.parametrize(("call", "during"), [("drawArrays", "run"), ("readPixels", "read")])
def test_a_context_lost_during(notebook: Notebook, call: str, during: str) -> None:
    notebook.run(MAKE_VIEWER_CELL + "\nviewer.output\nviewer")
    last_drawn_view(notebook)
    before = wait_counts_settled(notebook)
    notebook.page.evaluate(LOSE_CONTEXT_AT_SCRIPT, call)
    notebook.run("viewer.input = pictures(71)\nvalue = viewer.output")
    assert_equal(notebook.read_array("value"), expected_values(input_seed=71)["output"])
    values = notebook.read_array("viewer.activations.to_dict()")
    for name, value in expected_values(input_seed=71).items():
        assert_equal(values[name], value, name=name)
    assert "lost 1×, and came back" in notebook.run("print(viewer.report())").text
    last_drawn_view(notebook)
    assert wait_counts_settled(notebook) == before


def test_an_output_that_is_cleared(notebook: Notebook) -> None:
    cell = notebook.start(MAKE_VIEWER_CELL + "\nviewer.output\nviewer")
    notebook.wait(cell)
    shown = notebook.page.locator(".nbglcnn").count()
    last_drawn_view(notebook)
    before = wait_counts_settled(notebook)
    notebook.page.evaluate(
        """(index) => {
          window.lab.panel().content.activeCellIndex = index;
          return window.jupyterapp.commands.execute("notebook:clear-cell-output");
        }""",
        cell,
    )
    expect(notebook.page.locator(".nbglcnn")).to_have_count(shown - 1)
    notebook.run("viewer.input = pictures(71)\nvalue = viewer.output")
    assert_equal(notebook.read_array("value"), expected_values(input_seed=71)["output"])
    notebook.run("viewer")
    last_drawn_view(notebook)
    assert wait_counts_settled(notebook) == before


def test_a_view_that_is_scrolled_away_and_back(notebook: Notebook) -> None:
    notebook.run(MAKE_VIEWER_CELL + "\nviewer.output\nviewer")
    view = last_drawn_view(notebook)
    canvas = view.locator("canvas[data-drawn]").first
    first = wait_counts_settled(notebook)
    notebook.run("for k in range(90): print(k)")
    notebook.page.evaluate(SCROLL_TO_END_SCRIPT)
    wait_frames(notebook.page, 20)
    assert view.evaluate("view => view.getBoundingClientRect().bottom") < 0
    before = canvas.get_attribute("data-drawn")
    old = canvas.evaluate("canvas => canvas.toDataURL()")
    notebook.run("viewer.input = pictures(71)\nvalue = viewer.output")
    assert_equal(notebook.read_array("value"), expected_values(input_seed=71)["output"])
    assert canvas.get_attribute("data-drawn") == before  # out of sight
    view.scroll_into_view_if_needed()
    expect(canvas).not_to_have_attribute("data-drawn", before or "")
    assert canvas.evaluate("canvas => canvas.toDataURL()") != old
    assert wait_counts_settled(notebook) == first


def test_a_tab_that_is_closed_and_opened_again(notebook: Notebook, lab: LabServer) -> None:
    notebook.run(MAKE_VIEWER_CELL + "\nviewer.output\nviewer")
    file = lab.root / "said.txt"
    notebook.run(
        "from pathlib import Path\nanswers = []\n"
        "def ask():\n"
        "    try:\n"
        "        while True: viewer.activations.read('output', timeout=0.5)\n"
        "    except Exception as error:\n"
        f"        Path({str(file)!r}).write_text(f'{{type(error).__name__}}: {{error}}')\n"
        "    answers.append(viewer.activations.read('encoder.0', timeout=60))\n"
        "thread = threading.Thread(target=ask)"
    )
    notebook.save()
    notebook.run("thread.start()")
    notebook.page.goto("about:blank")
    until = time.monotonic() + 30
    while not file.exists() and time.monotonic() < until:
        time.sleep(0.1)
    said = file.read_text()
    notebook.open()
    last_drawn_view(notebook)
    notebook.wait_until("answers")
    assert said.startswith("PageTimeout: no answer from the page that shows this Viewer for 0.5 s")
    assert "Bring the notebook's tab to the front or reload it" in said
    assert_equal(notebook.read_array("answers[0]"), expected_values()["encoder.0"])
    assert_equal(notebook.read_array("viewer.output"), expected_values()["output"])


def test_two_tabs_on_one_notebook(
    notebook: Notebook, lab: LabServer, browser: LaunchBrowser
) -> None:
    notebook.run("short = Viewer(autoencoder(73), pictures(73))\nshort")
    notebook.run(MAKE_VIEWER_CELL + "\nviewer.output\nviewer")
    first = last_drawn_view(notebook).locator("canvas[data-drawn]").first
    notebook.save()
    with local_page(browser("llvmpipe")) as page:
        other = lab.open_notebook(page, notebook.file.name)
        second = last_drawn_view(other).locator("canvas[data-drawn]").first
        assert canvas_data_url(second) == canvas_data_url(first)
        before = canvas_data_url(first)
        # The first reply counts, and no other.
        other.run("viewer.input = pictures(71)\nvalues = viewer.activations.to_dict()")
        values = other.read_array("values")
        for name, value in expected_values(input_seed=71).items():
            assert_equal(values[name], value, name=name)
        assert other.run("print(len(viewer._connection.usable_pages))").text == "2\n"
        last_drawn_view(notebook)
        last_drawn_view(other)
        for canvas in (first, second):
            canvas.scroll_into_view_if_needed()
        wait_canvas_change(notebook, first, before)
        assert canvas_data_url(second) == canvas_data_url(first)
        # Both pages show a bend, and either can remove it.
        before = canvas_data_url(first)
        other.run(
            "viewer.bend('input', transforms.multiply(-1))\nbent = viewer.activations['input']"
        )
        assert_equal(other.read_array("bent"), -pictures(71))
        for tab in (notebook, other):
            expect(
                last_drawn_view(tab).get_by_role("button", name="1 bend on input")
            ).to_be_visible()
        wait_canvas_change(notebook, first, before)
        assert canvas_data_url(second) == canvas_data_url(first)
        last_drawn_view(other).get_by_role("button", name="Remove all").click()
        expect(
            last_drawn_view(notebook).get_by_role("button", name="1 bend on input")
        ).to_have_count(0)
        notebook.wait_until("len(viewer.bends) == 0")
        assert_equal(notebook.read_array("viewer.activations['input']"), pictures(71))
        # A Viewer that one page closes is closed for the other page and for Python.
        comm = notebook.run("print(short.comm.comm_id)").text.strip()
        notebook.page.evaluate("comm => window.lab.kernel()._comms.get(comm).close()", comm)
        error = other.run("short.output", fails=True).error
        assert error == "PageError: this Viewer was closed; create another one"
        said = other.page.locator(".nbg-message", has_text="This Viewer was closed")
        expect(said).to_have_count(1)
    # The remaining page continues.
    notebook.run("start = time.monotonic()\nvalue = viewer.run(pictures(72))")
    assert notebook.run("print(time.monotonic() - start < 5)").text == "True\n"
    assert_equal(notebook.read_array("value"), expected_values(input_seed=72)["output"])


def canvas_data_url(canvas: Locator) -> str:
    return str(canvas.evaluate("canvas => canvas.toDataURL()"))


def wait_canvas_change(notebook: Notebook, canvas: Locator, before: str) -> None:
    """Wait until the canvas shows another picture; a canvas out of sight is not drawn."""
    canvas.scroll_into_view_if_needed()
    notebook.page.wait_for_function(
        "([canvas, old]) => canvas.toDataURL() !== old", arg=[canvas.element_handle(), before]
    )


def test_a_kernel_that_dies_is_said(notebook: Notebook) -> None:
    cell = notebook.start(MAKE_VIEWER_CELL + "\nvalue = viewer.output\nviewer")
    notebook.wait(cell)
    view = last_drawn_view(notebook)
    canvas = view.locator("canvas[data-drawn]").first
    unbent = canvas_data_url(canvas)
    notebook.run("viewer.bend('input', transforms.multiply(-1))")
    wait_canvas_change(notebook, canvas, unbent)
    notebook.start("import os; os._exit(1)")
    expect(view).to_contain_text("Python restarted or stopped. The page still works without it.")
    expect(view.locator(".nbg-status")).to_contain_text("Not connected")
    notebook.page.locator(".jp-Dialog button").last.click()  # JupyterLab's own message
    # Bends stay in place, and can be removed without Python.
    before = canvas_data_url(canvas)
    view.get_by_role("button", name="Remove all").click()
    wait_canvas_change(notebook, canvas, before)
    assert canvas_data_url(canvas) == unbent
    # The pictures stay, and the pointer still shows their values.
    canvas.scroll_into_view_if_needed()
    canvas.hover()
    tip = notebook.page.locator(".nbg-tip")
    expect(tip.locator("strong")).to_have_text(re.compile(r"\d"))  # values are read on demand
    y, x = map(int, re.findall(r"[yx] (\d+)", tip.inner_text()))
    shown = float(tip.locator("strong").inner_text().replace("\u2212", "-"))
    assert shown == pytest.approx(pictures(70)[0, 0, y, x], 1e-5)
    notebook.wait_restarted()
    notebook.run(IMPORTS_CELL + MAKE_HEAVY_CELL)
    notebook.rerun(cell)  # its textures are freed with the old view
    assert_equal(notebook.read_array("value"), expected_values()["output"])
