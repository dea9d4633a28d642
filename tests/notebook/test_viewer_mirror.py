"""A Viewer that mirrors a PyTorch loop, in a real JupyterLab: the page's values are the model's."""

import re
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, expect

from assertions import assert_equal
from jupyter_lab import LabServer, Notebook, local_page, new_notebook
from lab_training import read_json
from polling import wait_frames

SETUP_CELL = """
import asyncio, json, threading, time, numpy as np, torch, nbglcnn
from torch import nn
from torch.nn import functional as F
from nbglcnn import Viewer
torch.manual_seed(3)
def made():
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Dropout(0.3), nn.Flatten(), nn.Linear(8 * 49, 10))
x, y = torch.rand(64, 1, 14, 14), torch.arange(64) % 10
shown = torch.rand(2, 1, 14, 14)

def steps(model, count, mirror=lambda **_: None, wait=0.0, done=lambda: True):
    "Trains in training mode, again so many steps until it is `done`, a minute at most; the losses."
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    end = time.monotonic() + 60
    # So many that the last one is mirrored, too, whatever `every` is.
    while not losses or len(losses) % count or not (done() or time.monotonic() > end):
        at = len(losses) % 4 * 16
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[at:at + 16]), y[at:at + 16])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        mirror(loss=loss)
        time.sleep(wait)
    return losses

def right(model):
    "What the model gives in eval mode, without touching it."
    import copy
    with torch.no_grad():
        return copy.deepcopy(model).eval()(shown).numpy()
"""
SHOW_CELL = "model = made()\nviewer = Viewer(model.eval(), shown, timeout=60)\nviewer"


@pytest.fixture(scope="module")
def notebook(lab: LabServer, browser: Callable[[str], Browser]) -> Iterator[Notebook]:
    with new_notebook(lab, browser("llvmpipe")) as notebook:
        notebook.run(SETUP_CELL)
        yield notebook


def last_view(notebook: Notebook) -> Locator:
    return notebook.page.locator(".nbglcnn").last


def show_viewer(notebook: Notebook) -> None:
    notebook.delete_cells(1)
    notebook.run(SHOW_CELL)
    assert notebook.run("print(viewer.activations.source)").text.startswith("page")


def assert_equals_model(notebook: Notebook) -> None:
    assert notebook.run("print(viewer.activations.source)").text.startswith("page")
    assert_equal(
        notebook.read_array("viewer.output"), notebook.read_array("right(model)"), rtol=1e-5
    )
    read_json(notebook, "viewer.verify().ok")
    state = "all(torch.equal(t, viewer.state_dict()[n]) for n, t in model.state_dict().items())"
    assert read_json(notebook, f"[viewer.verify().ok, {state}]") == [True, True]


def test_the_pages_last_values_are_those_of_the_model(notebook: Notebook) -> None:
    show_viewer(notebook)
    notebook.run(
        "mirror = nbglcnn.mirror(viewer, model, every=5)\n"
        "losses = steps(model, 200, mirror, done=lambda: mirror.frames > 2)\n"
        "mode = model.training"
    )
    # While the cell was busy the page drew some of the states; the last one follows after it.
    notebook.wait_until("not mirror.is_behind")
    frames = read_json(notebook, "mirror.frames")
    losses = np.array(read_json(notebook, "losses"))
    assert isinstance(frames, int) and 3 <= frames <= len(losses) // 5 + 2
    assert read_json(notebook, "mode") is True
    assert_equals_model(notebook)
    np.testing.assert_array_equal(read_json(notebook, "mirror.losses.tolist()"), losses.astype("f"))
    notebook.run("viewer.show(view='train')")
    train = last_view(notebook).locator(".nbg-train")
    expect(train).to_have_attribute("data-phase", "mirrored")
    curve = train.locator(".nbg-losses")
    expect(curve).to_have_attribute("data-steps", str(len(losses)), timeout=20_000)
    expect(train.get_by_role("status").first).to_contain_text("Mirrors a PyTorch training loop")
    expect(train.get_by_role("button", name="Pause")).to_have_count(0)
    expect(train.get_by_label("Learning rate")).to_have_count(0)
    notebook.run("mirror.close()")
    expect(train.get_by_role("status").first).to_contain_text("The mirror is closed")


@pytest.mark.parametrize("most", [2**17, 0], ids=["packed in the call", "packed on a thread"])
def test_the_page_draws_while_the_loops_own_cell_is_busy(notebook: Notebook, most: int) -> None:
    show_viewer(notebook)
    notebook.run(
        "from nbglcnn.features.mirror import frame_sender\n"
        f"frame_sender.MAX_SYNC_PACK_BYTES = {most}"
    )
    canvas = last_view(notebook).locator("canvas[data-maps][data-drawn]").last
    expect(canvas).to_be_visible()
    index = notebook.start(
        "with nbglcnn.mirror(viewer, model, every=1) as mirror:\n"
        "    losses = steps(model, 200, mirror, wait=0.02, done=lambda: mirror.frames > 5)\n"
        "    within = mirror.frames"
    )
    seen: set[str] = set()
    end = time.monotonic() + 60
    while len(seen) < 3 and time.monotonic() < end:
        seen.add(canvas.evaluate("one => one.toDataURL()"))
        notebook.page.wait_for_timeout(100)
    assert not notebook.wait(index).error
    assert len(seen) > 2
    within = read_json(notebook, "within")
    assert isinstance(within, int) and within > 5
    assert_equals_model(notebook)
    assert read_json(notebook, "viewer.network.weight_source is not None") is False
    notebook.run(
        "from nbglcnn.features.mirror import frame_sender\nframe_sender.MAX_SYNC_PACK_BYTES = 2**17"
    )


def test_a_loop_in_a_thread_is_followed_while_values_are_read(notebook: Notebook) -> None:
    show_viewer(notebook)
    notebook.run(
        "mirror = nbglcnn.mirror(viewer, model, every=2)\nenough = threading.Event()\n"
        "done = lambda: enough.is_set() and mirror.frames > 5\n"
        "loop = threading.Thread(target=steps, args=(model, 300, mirror, 0.01, done))\n"
        "loop.start()"
    )
    for _ in range(4):
        # The values are of a single state, while the loop continues.
        assert read_json(notebook, "viewer.verify().ok") is True
    assert read_json(notebook, "loop.is_alive()") is True
    notebook.run("enough.set()\nwhile loop.is_alive(): await asyncio.sleep(0.05)")
    notebook.wait_until("not mirror.is_behind")
    frames = read_json(notebook, "mirror.frames")
    assert isinstance(frames, int) and frames > 5
    assert_equals_model(notebook)
    notebook.run("mirror.close()")


def test_what_was_in_flight_as_the_cell_ended_is_followed_by_the_last_state(
    notebook: Notebook,
) -> None:
    show_viewer(notebook)
    # No page message is handled in this cell: it ends before the first state is drawn.
    notebook.run(
        "from nbglcnn.features.mirror import mirror as _m\n"
        "_m.POLL_INTERVAL_S = _m.IDLE_POLL_INTERVAL_S = 1e9\n"
        "mirror = nbglcnn.mirror(viewer, model, every=1)\nsteps(model, 30, mirror)\n"
        "_m.POLL_INTERVAL_S, _m.IDLE_POLL_INTERVAL_S = 0.02, 0.25\nbehind = mirror.frames"
    )
    assert read_json(notebook, "behind") == 1
    # The state is sent once, and again if the page waited longer than 3 s for the cell to end.
    notebook.wait_until("mirror.frames > 1 and not mirror.is_behind", "mirror.frames")
    assert read_json(notebook, "mirror.frames") in (2, 3)
    assert_equals_model(notebook)
    notebook.run("mirror.close()")


def test_a_page_that_was_reloaded_has_the_weights_and_the_curve_of_now(notebook: Notebook) -> None:
    show_viewer(notebook)
    notebook.run(
        "mirror = nbglcnn.mirror(viewer, model, every=3)\nlosses = steps(model, 30, mirror)"
    )
    notebook.save()
    notebook.page.reload()
    notebook.wait_restarted()
    assert_equals_model(notebook)
    notebook.run("viewer.show(view='train')")
    losses = last_view(notebook).locator(".nbg-losses")
    expect(losses).to_have_attribute("data-steps", "30", timeout=20_000)
    notebook.run(
        "losses += steps(model, 30, mirror)\nmirror.note(held_out_loss=0.5)\nmirror.flush()"
    )
    expect(losses).to_have_attribute("data-steps", "60", timeout=20_000)
    expect(losses.get_by_role("img").first).to_have_attribute(
        "aria-label", re.compile("held out 0.5000")
    )
    assert_equals_model(notebook)
    notebook.run("mirror.close()")


def test_earlier_weights_are_looked_at_while_the_loop_goes_on(notebook: Notebook) -> None:
    show_viewer(notebook)
    pictures = last_view(notebook).locator("canvas[data-maps][data-drawn]")
    expect(pictures.nth(2)).to_be_visible()
    key = pictures.last.get_attribute("data-maps")

    def shown() -> str:
        last_view(notebook).get_by_role("tab", name="Network").click()
        own = last_view(notebook).locator(f'canvas[data-maps="{key}"]').first
        own.scroll_into_view_if_needed()
        expect(own).to_have_attribute("data-drawn", re.compile("."))
        wait_frames(notebook.page, 40)
        found = str(own.evaluate("(one) => one.toDataURL()"))
        last_view(notebook).get_by_role("tab", name="Train").click()
        return found

    notebook.run("mirror = nbglcnn.mirror(viewer, model, every=1)\nviewer.show(view='train')")
    train = last_view(notebook).locator(".nbg-train")
    rows, status = train.locator("[data-checkpoint]"), train.get_by_role("status").first
    expect(rows.first).to_have_attribute("aria-label", re.compile("^step 0, loss"))
    first = shown()
    notebook.run("steps(model, 40, mirror, wait=0.05)")
    expect(rows.nth(3)).to_be_visible()
    later = shown()
    assert first != later
    rows.first.click()
    expect(status).to_contain_text("All views show step 0")
    assert shown() == first
    notebook.run("steps(model, 5, mirror, wait=0.05)")
    notebook.wait_until("not mirror.is_behind")
    # Python reads the current weights, while the views still show earlier ones.
    assert_equals_model(notebook)
    assert shown() == first
    expect(rows.first).to_have_attribute("aria-selected", "true")
    train.get_by_role("button", name="Back to now").click()
    expect(status).not_to_contain_text("All views")
    now = shown()
    assert now not in (first, later)
    rows.first.click()
    expect(status).to_contain_text("All views show step 0")
    notebook.run("mirror.close()")
    rows.nth(2).click()  # also after the mirror's end
    expect(status).to_contain_text("All views show step")
    expect(status).not_to_contain_text("step 0")
    for _ in range(10):  # it redraws after a while
        last = shown()
        if last not in (first, now):
            break
    assert last not in (first, now)
    # PyTorch is compared at the current weights, whichever state the views show.
    made = read_json(notebook, "viewer.status['parity_at']")
    notebook.page.wait_for_timeout(2500)
    assert read_json(notebook, "viewer.status['parity_at']") == made, "no check of earlier weights"
    train.get_by_role("button", name="Back to now").click()
    notebook.wait_until("viewer.status['parity'] != ''", "viewer.status")
    assert "match" in last_view(notebook).inner_text()
    assert "first difference" not in last_view(notebook).inner_text()
    assert "Slow mode" not in last_view(notebook).inner_text()


CLICK_DURING_STEPS_SCRIPT = """(train) => {
  // The step count is drawn as a message comes: the run with its weights is still on its way then.
  const click = () => {
    observer.disconnect();
    train.querySelector("[data-checkpoint]").click();
  };
  const observer = new MutationObserver(click);
  observer.observe(train.querySelector("[data-now]"), { characterData: true, subtree: true });
}"""


def test_a_click_on_earlier_weights_holds_while_newer_ones_are_computed(notebook: Notebook) -> None:
    show_viewer(notebook)
    notebook.run("mirror = nbglcnn.mirror(viewer, model, every=1)\nviewer.show(view='train')")
    train = last_view(notebook).locator(".nbg-train")
    rows, status = train.locator("[data-checkpoint]"), train.get_by_role("status").first
    expect(rows.first).to_have_attribute("aria-label", re.compile("^step 0, loss"))
    for _ in range(3):
        train.evaluate(CLICK_DURING_STEPS_SCRIPT)
        notebook.run("steps(model, 1, mirror)")
        expect(status).to_contain_text("All views show step 0")
        notebook.wait_until("not mirror.is_behind")
        expect(rows.first).to_have_attribute("aria-selected", "true")
        expect(status).to_contain_text("All views show step 0")
        train.get_by_role("button", name="Back to now").click()
        expect(status).not_to_contain_text("All views")
    notebook.run("mirror.close()")


def test_only_changed_tensors_travel(notebook: Notebook) -> None:
    show_viewer(notebook)
    notebook.run(
        "sent = []\noriginal = viewer.send\n"
        "def send(content, buffers=None):\n"
        "    if content.get('type') == 'mirrorframe': sent.append((content, len(buffers[0])))\n"
        "    original(content, buffers)\n"
        "viewer.send = send\n"
        "for parameter in model[0].parameters(): parameter.requires_grad_(False)\n"
        "model[1].requires_grad_(False).momentum = 0.0\n"
        "with nbglcnn.mirror(viewer, model, every=5) as mirror: steps(model, 5, mirror)\n"
        "weights = viewer.network.plan.header.weights\n"
        "names = {w.texture: w.recipe.sources for w in weights}\n"
        "changed = {s for content, _ in sent for t in content['textures'] for s in names[t]}"
    )
    parameters = read_json(notebook, "dict(viewer.network.graph.parameters)")
    changed = read_json(notebook, "sorted(changed)")
    assert isinstance(parameters, dict) and isinstance(changed, list)
    trained = {parameters["6.weight"], parameters["6.bias"]}
    assert set(changed) & set(parameters.values()) == trained
    assert_equals_model(notebook)


def test_two_pages_follow_and_one_that_is_gone_holds_up_nobody(
    notebook: Notebook, lab: LabServer, browser: Callable[[str], Browser]
) -> None:
    show_viewer(notebook)
    notebook.run("mirror = nbglcnn.mirror(viewer, model, every=2)")
    notebook.save()
    with local_page(browser("llvmpipe")) as page:
        lab.open_notebook(page, notebook.file.name)
        theirs = page.locator(".nbglcnn").last
        expect(theirs.locator("canvas[data-maps][data-drawn]").first).to_be_visible()
        notebook.run("steps(model, 20, mirror, wait=0.02)\nmirror.flush()")
        theirs.get_by_role("tab", name="Train").click()
        expect(theirs.locator(".nbg-losses")).to_have_attribute("data-steps", "20", timeout=20_000)
    notebook.run(
        "before = mirror.frames\n"
        "steps(model, 20, mirror, wait=0.03, done=lambda: mirror.frames > before + 5)"
    )
    notebook.wait_until("not mirror.is_behind")
    frames = read_json(notebook, "mirror.frames - before")
    assert isinstance(frames, int) and frames > 5
    assert_equals_model(notebook)
    notebook.run("mirror.close()")


def test_what_cannot_be_beside_a_mirror_is_refused(notebook: Notebook) -> None:
    show_viewer(notebook)
    notebook.run("mirror = nbglcnn.mirror(viewer, model)")
    error = notebook.run("viewer.train((x, y), 'cross_entropy', steps=2)", fails=True).error
    assert "mirrors a loop in Python" in error
    error = notebook.run("nbglcnn.mirror(viewer, model)", fails=True).error
    assert "mirrors a loop in Python" in error
    error = notebook.run("viewer.set_weight('6.bias', 0, 1.0)", fails=True).error
    assert "call mirror.close() first" in error
    notebook.run("mirror.close()\nviewer.set_weight('6.bias', 0, 1.0)")
    assert read_json(notebook, "viewer.verify().ok") is True
    notebook.run("training = viewer.train((x, y), 'cross_entropy', batch_size=16)")
    error = notebook.run("nbglcnn.mirror(viewer, model)", fails=True).error
    assert "viewer.training.stop() first" in error
    notebook.run("training.stop()\nmirror = nbglcnn.mirror(viewer, model)\nmirror.close()")
    assert_equals_model(notebook)
