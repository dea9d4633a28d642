"""A Viewer's edits in real JupyterLab: Python's changes reach the page, and vice versa."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from assertions import assert_equal
from jupyter_lab import LabServer, Notebook, new_notebook
from nbglcnn import Viewer, transforms
from polling import retry_until_passes
from viewer_models import IMPORTS_CELL, autoencoder, pictures

SEED = 33
# Runs `script` with the page's model of `viewer`, the one that its views use.
RUN_WITH_MODEL_JS = """async ([id, work, given]) => {
  const mime = "application/vnd.jupyter.widget-view+json";
  const renderer = window.lab.panel().content.rendermime.createRenderer(mime);
  const model = await (await renderer._manager.promise).get_model(id);
  return await (0, eval)(work)(model, given);
}"""
SET_TRAITS_SCRIPT = """(model, given) => {
  for (const [name, value] of Object.entries(given)) model.set(name, value);
  model.save_changes();
}"""
GET_TRAITS_SCRIPT = "(model, names) => names.map((name) => model.get(name))"
# Records, from now on, the frames in which the page's slider moved and those in which the bent map
# changed.
RECORD_STATES_SCRIPT = """() => {
  const root = [...document.querySelectorAll(".nbglcnn")].at(-1);
  const bent = root.querySelector(".nbg-bend-mine canvas");
  const copy = new OffscreenCanvas(bent.width, bent.height).getContext("2d");
  const seen = () => {
    copy.clearRect(0, 0, bent.width, bent.height);
    copy.drawImage(bent, 0, 0);
    return copy.getImageData(0, 0, bent.width, bent.height).data.join();
  };
  const { compiles, textures } = window.probe;
  const steps = []; // of the slider
  let [frame, before, ended] = [0, seen(), false];
  root.querySelector("[data-bend='rotate'] input[type=range]").addEventListener("input", () => {
    steps.push({ asked: frame, seen: 0, ms: 0 });
  });
  const tick = () => {
    const now = seen();  // as the frame before this one has left it
    const last = steps.at(-1);
    if (now !== before && last) {
      last.seen ||= frame;
      last.ms ||= Number(root.querySelector(".nbg-status strong").textContent.split(" ")[0]);
    }
    [before, frame] = [now, frame + 1];
    if (!ended) requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
  const end = () => {
    ended = true;
    return [window.probe.compiles - compiles, steps];
  };
  window.dragged = { textures, end };
}"""
ALL_MATCH_PATTERN = re.compile("^10 of 10 layers match PyTorch .*, with bends applied$")
SEND_MESSAGES_SCRIPT = "(model, contents) => contents.forEach((one) => model.send(one))"


@pytest.fixture(scope="module")
def notebook(lab: LabServer, browser: Callable[[str], Browser]) -> Iterator[Notebook]:
    with new_notebook(lab, browser("llvmpipe")) as notebook:
        notebook.run(
            IMPORTS_CELL + "from nbglcnn import channels, transforms\n"
            f"model, x = autoencoder({SEED}), pictures({SEED})"
        )
        yield notebook


@pytest.fixture
def local_viewer() -> Iterator[Viewer]:
    """The same Viewer on local OpenGL, which test_viewer_edits.py checks against PyTorch."""
    made = Viewer(autoencoder(SEED), pictures(SEED))
    yield made
    made.close()


def run_with_model(notebook: Notebook, script: str, argument: Any) -> Any:
    name = notebook.run("print(viewer.model_id)").text.strip()
    return notebook.page.evaluate(RUN_WITH_MODEL_JS, [name, script, argument])


def compare_with_local(notebook: Notebook, reference_viewer: Viewer, where: str) -> None:
    """Check that the page's values equal local OpenGL's with the same edits, bent and unbent."""
    notebook.run("assert viewer.activations.source.startswith('page')")
    for mapping in ("activations", "unbent"):
        found = notebook.read_array(f"viewer.{mapping}.to_dict()")
        expected = getattr(reference_viewer, mapping).to_dict()
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert_equal(found[key], value, name=f"{mapping}[{key!r}] {where}")


def test_python_and_the_page_edit_one_network(notebook: Notebook, local_viewer: Viewer) -> None:
    # A read after a change, in the cell that creates and shows the Viewer, includes the change.
    array = np.random.default_rng(1).normal(size=local_viewer.unbent["encoder.4"].shape)
    np.save(notebook.lab.root / "array.npy", array)
    notebook.run(
        f"import time\narray = np.load({str(notebook.lab.root / 'array.npy')!r})\n"
        "viewer = Viewer(model, x, timeout=60)\ndisplay(viewer)\n"
        "bend = viewer.bend('encoder.2', transforms.multiply(2), channels=[1, 3], name='louder')\n"
        "seen = {'0': viewer.activations['encoder.2']}\n"
        "for k in range(1, 8):\n"
        "    for other in range(8):\n"  # the next one comes while the page works
        "        bend.factor = 50 + other\n"
        "        time.sleep(0.003)\n"
        "    bend.factor = k - 3\n"
        "    seen[str(k)] = viewer.activations['encoder.2']\n"
        "unbent = viewer.unbent['encoder.2']\n"
    )
    seen, unbent = notebook.read_array("seen"), notebook.read_array("unbent")
    assert_equal(unbent, local_viewer.activations["encoder.2"])
    for k in range(8):
        expected = unbent.copy()
        expected[:, [1, 3]] *= k - 3 if k else 2
        assert_equal(seen[str(k)], expected, name=str(k))
    bend = local_viewer.bend("encoder.2", transforms.multiply(4), channels=[1, 3], name="louder")
    compare_with_local(notebook, local_viewer, "after changes of Python")
    # Arrays are sent with the edits that use them; undo restores them without another transfer.
    notebook.run("viewer.inject('encoder.4', array)\nviewer.bends.clear()\nviewer.undo()")
    local_viewer.inject("encoder.4", array)
    compare_with_local(notebook, local_viewer, "with an injected array")
    notebook.run("viewer.undo()\nfirst = viewer.output\nviewer.redo()")
    local_viewer.undo()
    assert_equal(notebook.read_array("first"), local_viewer.output)
    local_viewer.redo()
    compare_with_local(notebook, local_viewer, "after a redo")

    # The page bends: Python's objects and observers follow, and the next read includes it.
    now, history = run_with_model(notebook, GET_TRAITS_SCRIPT, ["_edits", "_history"])
    assert [one["name"] for one in now["edits"]] == ["louder", "inject"]
    louder = {**now["edits"][0], "parameters": [0.5]}
    tilt = {**louder, "layer": "decoder.2", "name": "tilt", "transform": "rotate"}
    tilt = {**tilt, "parameters": [30], "channels": None, "mix": 0.25}
    notebook.run("news = []\nbend.observe(lambda c: news.append(c.new), 'factor')")
    edits = {"edits": [louder, now["edits"][1], tilt], "weights": 0}
    past = [*history["past"], now]
    run_with_model(
        notebook, SET_TRAITS_SCRIPT, {"_edits": edits, "_history": {"past": past, "future": []}}
    )
    notebook.wait_until("len(viewer.bends) == 2")
    assert notebook.run("print(news, bend.factor, viewer.bends['tilt'].degrees)").text == (
        "[0.5] 0.5 30.0\n"
    )
    bend.factor = 0.5
    local_viewer.bend("decoder.2", transforms.rotate(30), mix=0.25, name="tilt")
    compare_with_local(notebook, local_viewer, "after a change of the page")
    # Invalid edits from the page are reported back, and nothing changes.
    for wrong in ({**tilt, "layer": "encoder.9"}, {**tilt, "transform": "glsl", "source": "y=x"}):
        run_with_model(notebook, SET_TRAITS_SCRIPT, {"_edits": {"edits": [wrong], "weights": 0}})
        notebook.run("None")

        def as_it_was() -> None:
            names = [
                one["name"]
                for one in run_with_model(notebook, GET_TRAITS_SCRIPT, ["_edits"])[0]["edits"]
            ]
            assert names == ["louder", "inject", "tilt"]

        retry_until_passes(notebook.page, as_it_was)
    # A weight dragged in the page is one step, and the page can undo it.
    page = notebook.run("print(viewer._connection.active_page.id)").text.strip()
    words = {"type": "setweight", "page": page, "name": "encoder.0.weight", "index": 40}
    run_with_model(
        notebook,
        SEND_MESSAGES_SCRIPT,
        [{**words, "values": [one], "step": "drag"} for one in (1, 2, 3)],
    )
    notebook.wait_until("viewer.state_dict()['encoder.0.weight'].reshape(-1)[40] == 3")
    local_viewer.set_weight("encoder.0.weight", np.unravel_index(40, (9, 1, 3, 3)), 3)
    compare_with_local(notebook, local_viewer, "after a weight was dragged")
    now, history = run_with_model(notebook, GET_TRAITS_SCRIPT, ["_edits", "_history"])
    assert now["weights"] == 1 and len(history["past"]) == len(past) + 1
    before = history["past"].pop()
    run_with_model(
        notebook, SET_TRAITS_SCRIPT, {"_edits": before, "_history": {**history, "future": [now]}}
    )
    notebook.wait_until("viewer._edits['weights'] == 0")
    local_viewer.undo()
    compare_with_local(notebook, local_viewer, "after the page took the weight back")

    # If Python has no GLSL compiler, the page reports the error and keeps the previous edits.
    notebook.run(
        "viewer.network.local.check_glsl_edits = lambda *_: None\n"
        "viewer.bend('encoder.0', transforms.glsl('y = nothing(x);'), name='bad')\n"
        "values = viewer.activations['decoder.0']"
    )
    assert_equal(notebook.read_array("values"), local_viewer.activations["decoder.0"])
    notebook.wait_until("'nothing' in viewer._connection.last_error")
    notebook.run("viewer.bends['bad'].remove()")
    compare_with_local(notebook, local_viewer, "without a text that doesn't compile")

    # After a lost context, in another page and after a reload, all edits are restored.
    notebook.page.evaluate(
        """async () => {
          const context = window.probe.contexts.findLast((gl) => !gl.isContextLost());
          const loser = context.getExtension("WEBGL_lose_context");
          loser.loseContext();
          await new Promise((yes) => setTimeout(yes, 500));
          loser.restoreContext();
        }"""
    )
    compare_with_local(notebook, local_viewer, "after a lost context")
    notebook.run("assert 'came back' in viewer.report() and '3 edits' in viewer.report()")
    notebook.save()
    notebook.open()
    notebook.run("viewer")
    compare_with_local(notebook, local_viewer, "after a reload")
    assert (
        json.loads(json.dumps(local_viewer._edits))
        == run_with_model(notebook, GET_TRAITS_SCRIPT, ["_edits"])[0]
    )
    notebook.run("ipywidgets.Widget.close_all()")


def test_a_linked_slider_bends_while_it_is_dragged(
    notebook: Notebook, local_viewer: Viewer
) -> None:
    notebook.run(
        "viewer = Viewer(model, x, timeout=60)\n"
        "bend = viewer.bend('encoder.1', transforms.rotate(0))\n"
        "slider = ipywidgets.FloatSlider(min=-180, max=180, step=1, layout={'width': '400px'})\n"
        "link = ipywidgets.link((slider, 'value'), (bend, 'degrees'))\n"
        "seen = []\nbend.observe(lambda c: seen.append(c.new), 'degrees')\n"
        "from nbglcnn.features.edits import store\n"
        "store.ONE_STEP = 60  # where the kernel stands still\n"
        "display(slider, viewer)\nviewer.output\nNone"
    )
    page = notebook.page
    handle = page.locator(".noUi-handle").last
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for k in range(190):
        page.mouse.move(x + k, y)
        page.wait_for_timeout(16)
        # Drag further if the kernel stalled and has seen too few values.
        if k > 90 and int(notebook.evaluate_silently("print(len(seen))")) >= 10:
            break
    page.mouse.up()
    notebook.wait_until("len(seen) >= 10 and slider.value > 60 and bend.degrees == slider.value")
    degrees = notebook.run("print(bend.degrees)").text
    assert is_in_order(notebook)
    local_viewer.bend("encoder.1", transforms.rotate(float(degrees)))
    compare_with_local(notebook, local_viewer, "after the drag")
    # One undo reverts the whole drag, and the slider follows.
    assert notebook.run("print(len(viewer._history['past']), viewer.undo())").text == "2 True\n"
    notebook.run("assert bend.degrees == 0\nstore.ONE_STEP = 1.0")
    notebook.wait_until("slider.value == 0")
    notebook.run("ipywidgets.Widget.close_all()")


def test_the_pages_slider_makes_nothing_and_is_seen_within_two_frames(
    notebook: Notebook, local_viewer: Viewer
) -> None:
    notebook.run(
        "viewer = Viewer(model, x, timeout=60)\n"
        "bend = viewer.bend('encoder.1', transforms.rotate(0))\n"
        "viewer.show('encoder.1', view='bend')\nviewer"
    )
    page = notebook.page
    slider = page.locator("[data-bend='rotate'] input[type=range]").first
    page.get_by_role("button", name="This layer").click()
    slider.scroll_into_view_if_needed()
    notebook.wait_settled()
    box = slider.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.5, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.2, middle)
    page.wait_for_timeout(700)  # resources for a drag's first change exist
    page.evaluate(RECORD_STATES_SCRIPT)
    for k in range(1, 13):
        page.mouse.move(box["x"] + box["width"] * (0.2 + 0.05 * k), middle)
        page.wait_for_timeout(150)
    page.mouse.up()
    # Textures for the statistics of displayed maps are freed afterwards; nothing else is created.
    page.wait_for_function("() => probe.textures === dragged.textures", timeout=20_000)
    compiled, steps = page.evaluate("() => dragged.end()")
    assert compiled == 0, "no program is new"
    assert len(steps) >= 10 and all(step["seen"] for step in steps), steps
    middle = len(steps) // 2
    waits = sorted(step["seen"] - step["asked"] for step in steps)
    runs = sorted(step["ms"] for step in steps)
    # Two frames, plus those in which a run occupies the CPU that draws here.
    assert waits[middle] <= 2 + runs[middle] // 16, steps
    notebook.wait_until("bend.degrees > 100")
    notebook.wait_until("len(viewer._history['past']) == 2", "viewer._history['past']")  # one drag
    local_viewer.bend(
        "encoder.1", transforms.rotate(float(notebook.evaluate_silently("print(bend.degrees)")))
    )
    compare_with_local(notebook, local_viewer, "after the page's slider")
    # The parity check compares with the model whose bends are replayed, if they can be replayed.
    line = page.locator(".nbglcnn").last.locator(".nbg-status")
    said = line.locator(".nbg-ok")
    expect(said).to_have_text(ALL_MATCH_PATTERN)
    told = "viewer.status['parity']"
    notebook.wait_until(
        f"'10 of 10 layers match PyTorch' in {told} and 'with bends applied' in {told}", told
    )
    notebook.run("viewer.bend('encoder.0', transforms.glsl('y = x * x;'), name='square')\nNone")
    expect(line).to_contain_text("Not compared: bends are active")
    expect(said).to_have_count(0)
    notebook.wait_until(f"{told}.startswith(\"bent: not compared (the bend 'square'\")", told)
    notebook.run("viewer.bends['square'].remove()")
    expect(said).to_have_text(ALL_MATCH_PATTERN)
    notebook.run("viewer.bend('encoder.0', transforms.invert(), name='off', enabled=False)\nNone")
    expect(page.locator(".nbg-bend-others")).to_contain_text("invert")
    expect(said).to_have_text(ALL_MATCH_PATTERN)  # the active edits are unchanged
    notebook.run("ipywidgets.Widget.close_all()")


def is_in_order(notebook: Notebook) -> bool:
    """Whether no earlier state came back, as an echo would cause."""
    seen = json.loads(notebook.run("import json\nprint(json.dumps(seen))").text)
    return seen == sorted(seen)
