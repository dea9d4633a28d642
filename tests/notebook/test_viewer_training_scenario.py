"""One training through all events in sequence, in a real JupyterLab."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from assertions import assert_equal
from fault_injection import LOSE_CONTEXT_AT_SCRIPT
from jupyter_lab import LabServer, Notebook, new_notebook
from lab_training import (
    SETUP_CELL,
    WAIT_WHILE_CELL,
    assert_trained_equally,
    read_json,
    run_steps,
    start_paused_training,
    train_bent_in_torch,
    train_in_torch,
)


@pytest.fixture
def notebook(lab: LabServer, browser: Callable[[str], Browser]) -> Iterator[Notebook]:
    with new_notebook(lab, browser("llvmpipe")) as notebook:
        notebook.run(SETUP_CELL)
        yield notebook


def test_it_bends_reloads_is_interrupted_loses_its_context_and_gives_its_weights_back(
    notebook: Notebook,
) -> None:
    start_paused_training(notebook)
    notebook.run("bend = viewer.bend('2', nbglcnn.transforms.multiply(0.25), channels=[1, 6])")
    notebook.run(WAIT_WHILE_CELL.format("viewer._training['training']['swap_count'] == 0"))
    notebook.run("training.lr = 0.02")
    run_steps(notebook, "4", 8)

    notebook.run("await asyncio.sleep(1)")  # the page sends the weights of the pause
    notebook.save()
    notebook.page.reload()
    notebook.wait_restarted()
    notebook.run(WAIT_WHILE_CELL.format("viewer._training['training']['swap_count'] < 2"))
    run_steps(notebook, "2", 10)

    # Interrupting a cell that waits for the end does not stop the training.
    cell = notebook.start("training.step(6)\nprint('waits')\nawait training.done")
    expect(notebook.page.get_by_text("waits", exact=True).last).to_be_visible()
    notebook.interrupt()
    assert "Interrupt" in notebook.wait(cell).error
    notebook.run(WAIT_WHILE_CELL.format("training.step_count < 16 or training.state != 'paused'"))
    # Nor does interrupting a cell that blocks all messages to the kernel.
    cell = notebook.start("training.step(2)\nimport time\nprint('sleeps')\ntime.sleep(600)")
    expect(notebook.page.get_by_text("sleeps", exact=True).last).to_be_visible()
    notebook.interrupt()
    assert "Interrupt" in notebook.wait(cell).error
    notebook.run(WAIT_WHILE_CELL.format("training.step_count < 18 or training.state != 'paused'"))

    notebook.run("bend.remove()")
    notebook.page.evaluate(LOSE_CONTEXT_AT_SCRIPT, "drawArrays")
    notebook.run("training.step(4)")
    notebook.run(WAIT_WHILE_CELL.format("'continues from step' not in training.message"))
    notebook.run(WAIT_WHILE_CELL.format("training.step_count < 22 or training.state != 'paused'"))

    notebook.run("training.lr = 0.05\ntraining.resume()")
    notebook.run(WAIT_WHILE_CELL.format("training.step_count < 26") + "\ntraining.stop()")
    count = read_json(notebook, "training.step_count")
    assert isinstance(count, int)
    rates = [0.05] * 4 + [0.02] * 18 + [0.05] * (count - 22)
    assert_trained_equally(
        notebook, *train_bent_in_torch(rates, [1.0] * 4 + [0.25] * 14 + [1.0] * (count - 18))
    )
    marks = read_json(
        notebook, "[[m['step'], m['text']] for m in viewer._training['training']['marks']]"
    )
    assert marks == [[4, "2: multiply"], [18, "2: multiply removed"]]

    # The learned weights are a PyTorch state_dict, and give the page's outputs in PyTorch.
    page = notebook.read_array("viewer.run(x[:1].astype('f') / 255)")
    there = notebook.read_array(
        "(model.load_state_dict(viewer.state_dict()), "
        "model(torch.from_numpy(x[:1].astype('f') / 255)).detach().numpy())[1]"
    )
    assert_equal(page, there, rtol=1e-5)


def test_the_cell_runs_again_in_mid_training_and_another_viewer_trains_beside(
    notebook: Notebook,
) -> None:
    cell = (
        "viewer = Viewer(model, torch.rand(1, 1, 14, 14), timeout=60)\n"
        "training = viewer.train((x, y), 'cross_entropy', nbglcnn.SGD(0.05, momentum=0.9), 16,\n"
        "                        shuffle=False, held_out=0.2, steps=30)\n"
    )
    notebook.run("made = []")
    again = notebook.start(cell + "made.append((viewer, training))\nviewer")
    notebook.wait(again)
    notebook.run(WAIT_WHILE_CELL.format("len(made) < 1 or training.step_count < 2"))
    notebook.rerun(again)  # the same cell: its first Viewer is no longer shown
    notebook.run(cell.replace("viewer", "other").replace("training =", "beside =") + "other")
    notebook.run("await training.done\nawait beside.done")
    model, losses = train_in_torch([(30, 16, ())])
    assert_trained_equally(notebook, model, losses)
    np.testing.assert_allclose(
        np.array(read_json(notebook, "beside.losses.tolist()")), losses, rtol=2e-4
    )
    # The first one trains on unseen: a variable still refers to it.
    notebook.run("await made[0][1].done")
    np.testing.assert_allclose(
        np.array(read_json(notebook, "made[0][1].losses.tolist()")), losses, rtol=2e-4
    )
    first = notebook.read_array("made[0][0].state_dict()['5.weight'].numpy()")
    assert_equal(first, notebook.read_array("viewer.state_dict()['5.weight'].numpy()"), rtol=0)
    # Then its textures are freed.
    notebook.wait_until(
        "made[0][0]._connection.active_page.context_health.bytes == 0",
        "made[0][0]._connection.active_page",
    )
