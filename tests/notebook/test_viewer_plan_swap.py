"""Requests that need another Plan, during a training in the page of a real JupyterLab."""

import json
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from jupyter_lab import LabServer, Notebook, local_page, new_notebook
from lab_training import (
    SETUP_CELL,
    WAIT_WHILE_CELL,
    assert_trained_equally,
    make_model_and_data,
    read_json,
    run_steps,
    start_paused_training,
    train_bent_in_torch,
    train_in_torch,
)
from polling import retry_until_passes


@pytest.fixture(scope="module")
def notebook(lab: LabServer, browser: Callable[[str], Browser]) -> Iterator[Notebook]:
    with new_notebook(lab, browser("llvmpipe")) as notebook:
        notebook.run(SETUP_CELL)
        yield notebook


def test_another_batch_size_keeps_the_state(notebook: Notebook) -> None:
    start_paused_training(notebook)
    notebook.run("training.batch_size = 8")
    assert read_json(notebook, "training.batch_size") == 8
    run_steps(notebook, "5", 9)
    assert_trained_equally(notebook, *train_in_torch([(4, 16, ()), (5, 8, ())]))
    assert read_json(notebook, "training.state") == "paused"
    assert read_json(notebook, "[m['text'] for m in viewer._training['training']['marks']]") == [
        "batch size 8"
    ]
    notebook.run("training.stop()")


def test_a_frozen_layer_stays_and_learns_again(notebook: Notebook) -> None:
    start_paused_training(notebook)
    frozen = ("0.weight", "0.bias")
    notebook.run(f"training.frozen = {frozen}")
    before = notebook.read_array("viewer.state_dict()['0.weight'].numpy()")
    run_steps(notebook, "4", 8)
    after = notebook.read_array("viewer.state_dict()['0.weight'].numpy()")
    assert np.array_equal(before, after)
    model, losses = train_in_torch([(4, 16, ()), (4, 16, frozen)])
    # Batches are counted from the start: with 3 steps per epoch, 4 steps reach the second epoch.
    assert read_json(notebook, "training.step_count") == 8
    assert isinstance(losses[7], float) and model is not None
    notebook.run("training.frozen = ()")
    run_steps(notebook, "2", 10)
    again = notebook.read_array("viewer.state_dict()['0.weight'].numpy()")
    assert np.abs(again - after).max() > 1e-5
    error = notebook.run("training.frozen = ('nothing',)", fails=True).error
    assert "frozen: nothing isn't trained; trained are 0.weight" in error
    assert read_json(notebook, "list(training.frozen)") == []
    notebook.run("training.reset()")
    notebook.run(WAIT_WHILE_CELL.format("training.step_count"))
    first = notebook.read_array("viewer.state_dict()['0.weight'].numpy()")
    np.testing.assert_array_equal(first, make_model_and_data()[0].state_dict()["0.weight"].numpy())
    notebook.run("training.stop()")


def test_a_weight_set_by_hand_is_trained_on(notebook: Notebook) -> None:
    start_paused_training(notebook)
    notebook.run("viewer.set_weight('5.bias', 3, 2.5)")
    notebook.run("training.lr = 0.0")
    run_steps(notebook, "1", 5)
    bias = notebook.read_array("viewer.state_dict()['5.bias'].numpy()")
    assert bias[3] == 2.5
    marks = read_json(notebook, "[m['text'] for m in viewer._training['training']['marks']]")
    assert marks == ["5.bias changed by hand"]
    notebook.run("training.stop()")
    assert read_json(notebook, "viewer.state_dict()['5.bias'][3].item()") == 2.5


def test_a_reload_goes_on_from_what_the_page_has_sent(notebook: Notebook) -> None:
    start_paused_training(notebook)
    notebook.run("await asyncio.sleep(1.5)")
    losses = read_json(notebook, "training.losses.tolist()")
    before = notebook.read_array("viewer.state_dict()['5.weight'].numpy()")
    notebook.save()
    notebook.page.reload()
    notebook.wait_restarted()
    notebook.run(WAIT_WHILE_CELL.format("viewer._training['training']['swap_count'] == 0"))
    # The page may have reported once more that it sees a training run by another page.
    notebook.run(
        "from nbglcnn.features.training.messages import StepReport\nimport msgspec\n"
        "record = viewer._training['training']\n"
        "late = StepReport(page=record['owner'], training=record['id'], first_step=0,\n"
        "                  is_remote=True)\n"
        "viewer._handle_custom_msg(msgspec.to_builtins(late), [b''])"
    )
    run_steps(notebook, "2", 6)
    assert json.loads(json.dumps(read_json(notebook, "training.losses.tolist()")))[:4] == losses
    after = notebook.read_array("viewer.state_dict()['5.weight'].numpy()")
    assert 1e-6 < np.abs(after - before).max() < 0.5
    expect(notebook.page.locator(".nbglcnn").first).to_be_visible()
    notebook.run("training.stop()")


def test_a_bend_in_mid_training_acts_on_what_is_learned(notebook: Notebook) -> None:
    start_paused_training(notebook)
    notebook.run(
        "bend = viewer.bend('2', nbglcnn.transforms.multiply(0.25), channels=[1, 6])\n"
        + WAIT_WHILE_CELL.format("viewer._training['training']['swap_count'] == 0")
    )
    run_steps(notebook, "4", 8)
    notebook.run("bend.enabled = False")
    run_steps(notebook, "3", 11)
    notebook.run("bend.enabled, bend.factor = True, -1.0")
    run_steps(notebook, "2", 13)
    marks = read_json(
        notebook, "[[m['step'], m['text']] for m in viewer._training['training']['marks']]"
    )
    assert marks == [[4, "2: multiply"], [8, "2: multiply off"], [11, "2: multiply on"],
                     [11, "2: multiply changed"]]  # fmt: skip
    # One swap of the Plan, for the layer.
    assert read_json(notebook, "viewer._training['training']['swap_count']") == 1

    factors = [1.0] * 4 + [0.25] * 4 + [1.0] * 3 + [-1.0] * 2
    assert_trained_equally(notebook, *train_bent_in_torch([0.05] * len(factors), factors))
    notebook.run("training.stop()")
    assert read_json(notebook, "[b.name for b in viewer.bends]") == ["multiply"]
    notebook.run("viewer.bends.clear()")


def test_another_tab_shows_the_curve_and_the_weights_of_the_one_that_trains(
    notebook: Notebook, lab: LabServer, browser: Callable[[str], Browser]
) -> None:
    notebook.delete_cells(1)
    start_paused_training(notebook)
    run_steps(notebook, "20", 24)
    notebook.run(WAIT_WHILE_CELL.format("viewer.network.carried_weights.step < 24"))
    notebook.save()
    maps = ".nbglcnn canvas[data-maps][data-drawn]"
    drawn = "all => all.map((one) => one.dataset.maps + one.toDataURL())"
    with local_page(browser("llvmpipe")) as page:
        lab.open_notebook(page, notebook.file.name)
        viewer = page.locator(".nbglcnn").last
        viewer.get_by_role("tab", name="Train").click()
        expect(viewer.get_by_text("Another page trains this network")).to_be_visible()
        expect(viewer.locator("[data-now]")).to_contain_text("step 24", timeout=20_000)
        viewer.get_by_role("tab", name="Network").click()
        expect(page.locator(maps).first).to_be_visible()
        mine = notebook.page.locator(".nbglcnn").last
        own = mine.locator(maps.removeprefix(".nbglcnn "))

        def alike() -> None:
            mine.scroll_into_view_if_needed()  # the training page draws only what is in view
            theirs, ours = ({*found.evaluate_all(drawn)} for found in (page.locator(maps), own))
            assert len(theirs) > 1
            assert {one[:80] for one in theirs - ours} == set()

        retry_until_passes(page, alike)  # two pages draw on the same cores
        page.wait_for_timeout(5000)  # a paused page isn't taken for disconnected
        assert read_json(
            notebook, "[training.state, viewer._training['training']['swap_count']]"
        ) == [
            "paused",
            0,
        ]
        # This training goes on while the other one trains, and reports its end.
        run_steps(notebook, "4", 28)
        notebook.run(WAIT_WHILE_CELL.format("viewer.network.carried_weights.step < 28"))
        viewer.get_by_role("tab", name="Train").click()
        expect(viewer.locator("[data-now]")).to_contain_text("step 28", timeout=20_000)
        notebook.run("training.stop()")
        expect(viewer.get_by_text("Another page trains this network")).to_be_hidden()
