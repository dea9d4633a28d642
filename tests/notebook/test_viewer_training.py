"""A network that trains in the page of a real JupyterLab, compared with PyTorch."""

from collections.abc import Callable, Iterator

import numpy as np
import onnxruntime
import pytest
import torch
from playwright.sync_api import Browser, expect
from torch.nn import functional as F

from assertions import assert_equal
from fault_injection import LOSE_CONTEXT_AT_SCRIPT
from jupyter_lab import LabServer, Notebook, new_notebook
from lab_training import SETUP_CELL, make_model_and_data, read_json, start_training_in_viewer
from training_checks import train_in_torch


@pytest.fixture(scope="module")
def notebook(lab: LabServer, browser: Callable[[str], Browser]) -> Iterator[Notebook]:
    with new_notebook(lab, browser("llvmpipe")) as notebook:
        notebook.run(SETUP_CELL)
        yield notebook


def test_a_training_in_the_page_is_pytorchs(notebook: Notebook) -> None:
    notebook.run("viewer = Viewer(model, torch.rand(1, 1, 14, 14), timeout=60)\nviewer")
    notebook.run(
        "training = viewer.train((x, y), 'cross_entropy', nbglcnn.SGD(0.05, momentum=0.9), 16,\n"
        "                        steps=25, shuffle=False, held_out=0.2)\nawait training.done"
    )
    model, x, y = make_model_and_data()
    right = train_in_torch(
        model, x[:48], y[:48], F.cross_entropy,
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9), steps=25, size=16,
    )  # fmt: skip
    losses = np.array(read_json(notebook, "training.losses.tolist()"))
    np.testing.assert_allclose(losses, right.losses, rtol=1e-4)
    state = read_json(notebook, "{n: t.tolist() for n, t in viewer.state_dict().items()}")
    assert isinstance(state, dict)
    for name, tensor in right.model.state_dict().items():
        np.testing.assert_allclose(np.array(state[name]), tensor.numpy(), atol=2e-4, err_msg=name)
    right.model.eval()
    with torch.no_grad():
        logits = right.model(x[48:])
    held_out = np.array(read_json(notebook, "training.held_out_losses.tolist()"))
    assert held_out[0, 0] == 0 and held_out[-1, 0] == 25
    np.testing.assert_allclose(held_out[-1, 1], F.cross_entropy(logits, y[48:]), rtol=1e-3)
    output = notebook.read_array("viewer.run(x[:1].astype('f') / 255)")
    with torch.no_grad():
        assert_equal(output, right.model(x[:1]).numpy(), rtol=2e-4)


def test_it_pauses_goes_on_begins_again_and_follows_the_rate(notebook: Notebook) -> None:
    notebook.run("viewer = Viewer(model, torch.rand(1, 1, 14, 14), timeout=60)\nviewer")
    notebook.run("training = viewer.train((x, y), 'cross_entropy', nbglcnn.Adam(0.002), 16)")
    notebook.run("viewer.show(view='train')")
    tab = notebook.page.get_by_role("tab", name="Train").last
    expect(tab).to_have_attribute("aria-selected", "true")
    expect(notebook.page.locator(".nbg-train").last).to_be_visible()
    wait = "import asyncio\nwhile {}: await asyncio.sleep(0.05)"
    notebook.run(wait.format("training.step_count < 5"))
    notebook.run("training.pause()\n" + wait.format("training.state != 'paused'"))
    notebook.run("await asyncio.sleep(1)")
    count = read_json(notebook, "training.step_count")
    notebook.run("await asyncio.sleep(1)\ntraining.lr = 0.0")
    assert read_json(notebook, "training.step_count") == count
    before = read_json(notebook, "viewer.state_dict()['5.weight'].tolist()")
    notebook.run("training.step(3)\n" + wait.format(f"training.step_count < {count} + 3"))
    notebook.run("await asyncio.sleep(1)")
    assert read_json(notebook, "[training.step_count, training.state]") == [count + 3, "paused"]
    assert read_json(notebook, "viewer.state_dict()['5.weight'].tolist()") == before
    notebook.run("training.lr = 0.01\ntraining.resume()")
    notebook.run(wait.format(f"training.step_count < {count} + 8"))
    assert read_json(notebook, "viewer.state_dict()['5.weight'].tolist()") != before
    notebook.run("training.reset()\nawait asyncio.sleep(1)")
    assert read_json(notebook, "[training.step_count, training.state]") == [0, "paused"]
    first = notebook.read_array("viewer.state_dict()['5.weight'].numpy()")
    assert_equal(first, make_model_and_data()[0].state_dict()["5.weight"].numpy(), rtol=0)
    notebook.run("training.resume()\n" + wait.format("training.step_count < 2"))
    notebook.run("training.stop()")
    assert read_json(notebook, "[training.state, viewer.network.carried_weights is None]") == [
        "stopped",
        True,
    ]
    weights = notebook.read_array("viewer.state_dict()['5.weight'].numpy()")
    assert np.abs(weights - first).max() > 1e-4


def test_after_a_lost_context_it_goes_on_from_the_last_state(notebook: Notebook) -> None:
    notebook.run("viewer = Viewer(model, torch.rand(1, 1, 14, 14), timeout=60)\nviewer")
    notebook.run("training = viewer.train((x, y), 'cross_entropy', nbglcnn.SGD(0.05), 16)")
    wait = "import asyncio\nwhile {}: await asyncio.sleep(0.05)"
    notebook.run(wait.format("training.step_count < 4"))
    notebook.run("training.pause()\n" + wait.format("training.state != 'paused'"))
    notebook.run("await asyncio.sleep(0.5)\ntraining.resume()")
    notebook.page.evaluate(LOSE_CONTEXT_AT_SCRIPT, "drawArrays")
    assert "continues from step" in notebook.run(wait.format("not training.message")
                                               + "\nprint(training.message)").text  # fmt: skip
    notebook.run(wait.format("training.step_count < 12") + "\ntraining.stop()")
    losses = np.array(read_json(notebook, "training.losses.tolist()"))
    assert np.isfinite(losses).all() and len(losses) >= 12


def test_another_input_in_between_leaves_what_was_learned(notebook: Notebook) -> None:
    notebook.run("viewer = Viewer(model, torch.rand(1, 1, 14, 14), timeout=60)\nviewer")
    notebook.run("training = viewer.train((x, y), 'cross_entropy', nbglcnn.SGD(0.05), 16)")
    wait = "import asyncio\nwhile {}: await asyncio.sleep(0.05)"
    notebook.run(wait.format("training.step_count < 6"))
    notebook.run("training.pause()\n" + wait.format("training.state != 'paused'"))
    notebook.run("await asyncio.sleep(1)")  # the page sends its weights
    before = notebook.read_array("viewer.state_dict()['5.weight'].numpy()")
    assert np.abs(before - make_model_and_data()[0].state_dict()["5.weight"].numpy()).max() > 1e-3
    output = notebook.read_array("viewer.run(x[5:6].astype('f') / 255)")
    model, x, _ = make_model_and_data()
    state = read_json(notebook, "{n: t.tolist() for n, t in viewer.state_dict().items()}")
    assert isinstance(state, dict)
    model.load_state_dict({name: torch.tensor(numbers) for name, numbers in state.items()})
    with torch.no_grad():
        assert_equal(output, model(x[5:6]).numpy(), rtol=1e-4)
    assert_equal(notebook.read_array("viewer.state_dict()['5.weight'].numpy()"), before, rtol=0)
    path = notebook.lab.root / "learned.onnx"
    notebook.run(f"viewer.to_onnx({str(path)!r})")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    [written] = session.run(None, {"input": x[5:6].numpy()})
    assert_equal(written, output, rtol=1e-4)
    notebook.run("training.step(2)\n" + wait.format("training.step_count < 8"))
    notebook.run("training.stop()")


def test_checkpoints_are_looked_at_and_gone_back_to(notebook: Notebook) -> None:
    notebook.run("viewer = Viewer(model, torch.rand(1, 1, 14, 14), timeout=60)\nviewer")
    notebook.run(
        "training = viewer.train((x, y), 'cross_entropy', nbglcnn.SGD(0.05, momentum=0.9), 16)"
    )
    wait = "import asyncio\nwhile {}: await asyncio.sleep(0.05)"
    notebook.run(wait.format("training.step_count < 12"))
    notebook.run("training.pause()\n" + wait.format("training.state != 'paused'"))
    notebook.page.get_by_role("tab", name="Train").last.click()
    tab = notebook.page.locator(".nbglcnn").last
    row = tab.locator(".nbg-checkpoints [role=option]")
    expect(row.first).to_be_visible()
    expect(tab.locator(".nbg-train[data-phase=paused]")).to_be_visible()
    first = make_model_and_data()[0].state_dict()["5.weight"].numpy()
    now = notebook.read_array("viewer.state_dict()['5.weight'].numpy()")
    losses = np.array(read_json(notebook, "training.losses.tolist()"))
    assert np.abs(now - first).max() > 1e-3
    row.first.click()
    expect(tab.get_by_text("all views show step 0")).to_be_visible()
    assert_equal(notebook.read_array("viewer.state_dict()['5.weight'].numpy()"), first, rtol=0)
    model, x, _ = make_model_and_data()
    with torch.no_grad():
        output = notebook.read_array("viewer.run(x[5:6].astype('f') / 255)")
        assert_equal(output, model(x[5:6]).numpy(), rtol=1e-4)
    row.first.click()
    expect(tab.get_by_text("all views show step 0")).to_be_hidden()
    assert_equal(notebook.read_array("viewer.state_dict()['5.weight'].numpy()"), now, rtol=0)
    row.first.click()
    tab.get_by_role("button", name="Go back to this one").click()
    notebook.run(wait.format("training.step_count > 0"))
    notebook.run("training.step(5)\n" + wait.format("training.step_count < 5"))
    # The earlier momentum is restored too, and the batches come in the same order.
    again = np.array(read_json(notebook, "training.losses.tolist()"))
    np.testing.assert_allclose(again, losses[:5], rtol=1e-6)
    expect(tab.get_by_text("branch 1").first).to_be_visible()
    notebook.run("training.stop()")


def test_a_step_that_gives_nan_names_the_first_layer_that_went_wrong(notebook: Notebook) -> None:
    notebook.run("viewer = Viewer(model, torch.rand(1, 1, 14, 14), timeout=60)\nviewer")
    notebook.run(
        "rates = [0.05, 0.05, 1e30, 0.05, 0.05]\n"
        "training = viewer.train((x, y), 'cross_entropy', nbglcnn.SGD(lambda k: rates[k]), 16,\n"
        "                        steps=5, shuffle=False, held_out=0.2)"
    )
    notebook.run("await training.done")
    message = str(read_json(notebook, "training.message"))
    assert message.startswith("training stopped at step 3: 5 has NaN (")
    assert message.endswith("The weights are those of the step before")
    assert read_json(notebook, "[training.step_count, training.state]") == [3, "stopped"]
    # The held-out loss is also evaluated with weights that give NaN.
    assert read_json(notebook, "np.isnan(training.held_out_losses[-1, 1]).item()")
    assert read_json(notebook, "viewer._training['training']['failed_layer']") == "5"
    assert read_json(
        notebook, "all(t.isfinite().all().item() for t in viewer.state_dict().values())"
    )
    page = notebook.page.locator(".nbglcnn").last
    ring = page.locator(".nbg-nan-badge").first
    expect(ring).to_have_attribute("title", "training stopped: 5 was the first with NaN or "
                                            "infinite values")  # fmt: skip
    page.get_by_role("tab", name="Train").click()
    page.get_by_role("button", name="Show 5").click()
    expect(page.get_by_role("tab", name="Layer")).to_have_attribute("aria-selected", "true")


# A feature that adds the gradient of the 4th logit with respect to the input.
ADD_GRADIENT_CELL = """
from dataclasses import replace
from nbglcnn.gradients.vjp import add_vjp
from nbglcnn.graph import ValueKey
from nbglcnn.lowering.shape_inference import infer_shapes
from nbglcnn.contribution import Contribution

def add_gradient(graph):
    graph = infer_shapes(graph)
    of, [given] = graph.key("output").value_name, graph.inputs
    seed = np.zeros(graph.shape(of), np.float32)
    seed[0, 3] = 1
    graph, found = add_vjp(graph, of, [given], seed, section="unit", name="unit")
    key = ValueKey("unit.gradient", found[given], "contributed")
    return replace(graph, keys=(*graph.keys, key))

viewer.network.set_contribution("unit", Contribution(add_gradient))
viewer.input = given = torch.rand(1, 1, 14, 14)
"""


def test_a_gradient_that_another_feature_adds_follows_the_steps_of_a_training(
    notebook: Notebook,
) -> None:
    notebook.run("viewer = Viewer(model, torch.rand(1, 1, 14, 14), timeout=60)\nviewer")
    notebook.run(ADD_GRADIENT_CELL)
    given = torch.from_numpy(notebook.read_array("given.numpy()")).requires_grad_()
    model, x, y = make_model_and_data()

    def check(trained: torch.nn.Module) -> None:
        found = notebook.read_array("viewer.activations['unit.gradient']")
        [right] = torch.autograd.grad(trained.eval()(given)[0, 3], given)
        np.testing.assert_allclose(found, right.numpy(), atol=1e-3 * float(right.abs().max()))

    check(model)
    start_training_in_viewer(notebook)
    right = train_in_torch(
        model, x[:48], y[:48], F.cross_entropy,
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9), steps=4, size=16,
    )  # fmt: skip
    check(right.model)
    notebook.run("training.stop()")
    check(right.model)
    notebook.run("viewer.network.set_contribution('unit', None)\nviewer.input = given")
    assert read_json(notebook, "'unit.gradient' in viewer.activations") is False
