"""matplotlib figures in real JupyterLab, in cells that run while a page talks to its Viewer."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Locator

from jupyter_lab import LabServer, Notebook, Outputs, new_notebook
from viewer_models import IMPORTS_CELL

# By default JupyterLab sends comm messages over a subshell: a thread separate from that of the
# cells.
SETUP_CELL = """
import matplotlib.pyplot as plt
import nbglcnn
plt.figure(); plt.plot([0, 1]); plt.show()  # the inline backend and its hook are there from now on
model, x = autoencoder(20), pictures(20, 1)
images = np.random.default_rng(0).integers(0, 256, (30, 22, 18), dtype=np.uint8)
viewer = Viewer(model, x, height=600)
beside = []  # methods of messages handled beside the cells since the last one that was not

def follow(comm):
    handle = comm.handle_msg
    def note(message):
        handle(message)
        if threading.current_thread() is not threading.main_thread():
            beside.append(message["content"]["data"]["method"])
        else:
            beside.clear()
    comm.handle_msg = note

def open_until(enough):
    '''Make three figures, each open until enough messages were handled.'''
    for k in range(3):
        plt.figure()
        plt.plot([0, k])
        beside.clear()
        end = time.monotonic() + 60
        while not enough(beside):
            assert time.monotonic() < end, beside
            time.sleep(0.02)

follow(viewer.comm)
"""
IS_SEVERAL_CODE = "lambda beside: len(beside) > 3"


@pytest.fixture(scope="module")
def notebook(lab: LabServer, browser: Callable[[str], Browser]) -> Iterator[Notebook]:
    with new_notebook(lab, browser("llvmpipe")) as notebook:
        notebook.run(IMPORTS_CELL + SETUP_CELL)
        notebook.run("viewer")
        notebook.page.locator(".nbglcnn[data-phase=ready]").first.wait_for()
        # The cells' thread sends the parity check's verdict at an unpredictable time.
        notebook.wait_until("viewer.status['parity']")
        yield notebook


@pytest.fixture(autouse=True)
def clear_cells(notebook: Notebook) -> Iterator[None]:
    """Keep the first two cells."""
    yield
    notebook.delete_cells(2)


@pytest.fixture
def view(notebook: Notebook) -> Locator:
    return notebook.page.locator(".nbglcnn").first


def count_figures(outputs: Outputs) -> int:
    assert not outputs.error, outputs.error
    return sum("image/png" in item.get("data", {}) for item in outputs.items)


def count_cell_figures(notebook: Notebook, cell: str, action: Callable[[int], None]) -> int:
    """The number of figures of a cell at its end; `action` runs repeatedly in the page."""
    notebook.page.mouse.move(0, 0)
    index = notebook.start(cell)
    ended = """index => Promise.race([
      window.lab.runs.get(index).then(() => true),
      new Promise((yes) => setTimeout(yes, 50, false)),
    ])"""
    turn = 0
    while not notebook.page.evaluate(ended, index):
        action(turn)
        turn += 1
    return count_figures(notebook.wait(index))


def trigger_page_reply(notebook: Notebook, view: Locator) -> None:
    """Make Python's last message to the page one that is sent outside a cell.

    ipykernel 7.4 delivers a page's messages to the thread that last sent to the page.
    """
    view.scroll_into_view_if_needed()
    for turn in range(200):
        hover(view, turn)
        if notebook.evaluate_silently("print(len(beside) > 0)") == "True\n":
            return
    raise AssertionError("no message was handled beside the cells")


def hover(view: Locator, step: int) -> None:
    """Move the pointer over a map."""
    canvas = view.locator("canvas[data-maps]").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    x = box["x"] + 2 + (step * 7) % (box["width"] - 4)
    view.page.mouse.move(x, box["y"] + box["height"] / 2)


def test_figures_stay_in_their_cell_while_the_pointer_moves_over_maps(
    notebook: Notebook, view: Locator
) -> None:
    trigger_page_reply(notebook, view)
    found = count_cell_figures(
        notebook, f"open_until({IS_SEVERAL_CODE})", lambda turn: hover(view, turn)
    )
    assert found == 3


def test_figures_stay_in_their_cell_while_a_source_plays(notebook: Notebook, view: Locator) -> None:
    notebook.run("viewer.source = nbglcnn.Images(images, playing=True, rate=20)")
    trigger_page_reply(notebook, view)
    assert count_cell_figures(notebook, f"open_until({IS_SEVERAL_CODE})", lambda _: None) == 3
    notebook.run("viewer.source = None")


def test_figures_stay_in_their_cell_while_the_page_trains(
    notebook: Notebook, view: Locator
) -> None:
    notebook.run(
        "data = images[:, None] / np.float32(255)\n"
        "training = viewer.train((data, data), batch_size=4, held_out=0)"
    )
    trigger_page_reply(notebook, view)
    view.get_by_role("tab", name="Train").scroll_into_view_if_needed()
    assert count_cell_figures(notebook, f"open_until({IS_SEVERAL_CODE})", lambda _: None) == 3
    notebook.run("assert training.step_count > 0\ntraining.stop()")


def test_figures_stay_in_their_cell_when_a_reader_changes_traits(
    notebook: Notebook, view: Locator
) -> None:
    view.get_by_role("tab", name="Layer").click()
    trigger_page_reply(notebook, view)

    def change(turn: int) -> None:
        view.get_by_label("Colour").select_option(["viridis", "magma"][turn % 2])

    enough = "lambda beside: 'update' in beside"
    assert count_cell_figures(notebook, f"open_until({enough})", change) == 3


def test_figures_stay_in_a_cell_that_awaits(notebook: Notebook, view: Locator) -> None:
    # In this mode ipykernel handles messages in the cell's own thread.
    cell = (
        "handled, take = [], viewer.comm.handle_msg\n"
        "viewer.comm.handle_msg = lambda message: (take(message), handled.append(1))\n"
        "for k in range(3):\n"
        "    plt.figure()\n"
        "    plt.plot([0, k])\n"
        "    handled.clear()\n"
        "    viewer.example = 0\n"
        "    while len(handled) < 3: await asyncio.sleep(0.02)\n"
    )
    assert count_cell_figures(notebook, cell, lambda turn: hover(view, turn)) == 3
