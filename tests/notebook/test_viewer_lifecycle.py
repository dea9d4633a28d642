"""The Viewer's lifecycle in real JupyterLab: reloads, re-runs, faults, and the saved notebook."""

import json
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from assertions import assert_equal
from fault_injection import wait_counts_settled
from jupyter_lab import LabServer, Notebook, new_notebook
from nbglcnn.report import RTOL
from nbglcnn.widget.frontend import LOADER_FILE, WIDGET_FILE
from viewer_models import IMPORTS_CELL, autoencoder, hook_values, pictures

FLOAT16_RTOL = RTOL["float16"]
# Loading a page on a busy machine takes longer than the default 10 s.
MAKE_VIEWER_CELL = "viewer = Viewer(autoencoder(50), pictures(50), timeout=60)"
LaunchBrowser = Callable[[str], Browser]


def expected_values(seed: int = 50) -> dict[str, object]:
    return hook_values(autoencoder(seed), pictures(seed))


@pytest.fixture(scope="module")
def notebook(lab: LabServer, browser: LaunchBrowser) -> Iterator[Notebook]:
    """One notebook for all tests whose page needs no special setup."""
    with new_notebook(lab, browser("llvmpipe")) as notebook:
        notebook.run(IMPORTS_CELL)
        yield notebook


@pytest.fixture(autouse=True)
def assert_nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close the viewers of the shared notebook after each test, and check that nothing is left."""
    yield
    if "notebook" in request.fixturenames:
        shared = request.getfixturevalue("notebook")
        shared.run("ipywidgets.Widget.close_all()")
        shared.delete_cells()


def test_twenty_viewers_share_one_context_and_closing_them_frees_all(notebook: Notebook) -> None:
    notebook.run(
        "model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU()).eval()\n"
        "viewers = [Viewer(model, np.full((1, 1, 6, 6), k, np.float32)) for k in range(20)]\n"
        "values = {str(k): v.output for k, v in enumerate(viewers)}\n"
        "with torch.no_grad(): true = {str(k): model(torch.from_numpy(v.input)).numpy()\n"
        "                              for k, v in enumerate(viewers)}"
    )
    values, true = notebook.read_array("values"), notebook.read_array("true")
    for k in range(20):
        assert_equal(values[str(k)], true[str(k)], name=str(k))
    assert notebook.page.evaluate("() => window.probe.contexts.length") == 1
    assert wait_counts_settled(notebook)["textures"] >= 20
    notebook.run("for v in viewers: v.close()")
    alive = wait_counts_settled(notebook)
    assert alive in ({}, dict.fromkeys(alive, 0))  # without users the GL context is freed too
    error = notebook.run("viewers[0].output", fails=True).error
    assert error == "PageError: this Viewer was closed; create another one"


def test_all_viewers_of_a_page_share_one_copy_of_the_front_end(notebook: Notebook) -> None:
    notebook.run("both = [Viewer(autoencoder(k), pictures(k)) for k in (50, 51)]")
    assert notebook.run("print([v.activations.source[:4] for v in both])").text.count("page") == 2
    modules: list[int] = []
    session = notebook.page.context.new_cdp_session(notebook.page)
    session.on("Debugger.scriptParsed", lambda script: modules.append(script["length"]))
    session.send("Debugger.enable")  # reports all loaded scripts; a page keeps each module
    session.detach()
    assert modules.count(len(WIDGET_FILE.read_text("utf-8"))) == 1
    assert modules.count(len(LOADER_FILE.read_text("utf-8"))) >= 2


def test_a_cell_that_runs_again_takes_its_old_viewers_place(notebook: Notebook) -> None:
    cell = notebook.start(
        MAKE_VIEWER_CELL + "\nfirst = globals().get('first', viewer)\nviewer.output"
    )
    assert not notebook.wait(cell).error
    before = wait_counts_settled(notebook)
    for _ in range(3):
        notebook.rerun(cell)
    after = wait_counts_settled(notebook)
    assert after == before
    assert after["textures"] > 0
    # A read brings the replaced Viewer back, and it is freed again.
    assert_equal(notebook.read_array("first.output"), expected_values()["output"])
    assert wait_counts_settled(notebook) == before


def test_a_replaced_viewer_that_is_shown_elsewhere_stays(notebook: Notebook) -> None:
    cell = notebook.start(MAKE_VIEWER_CELL + "\nviewer.output")
    assert not notebook.wait(cell).error
    notebook.run("kept = viewer\nkept")
    notebook.page.wait_for_selector("[data-phase=ready]")
    notebook.rerun(cell)
    notebook.run("kept.input = pictures(51)")
    assert_equal(
        notebook.read_array("kept.output"), hook_values(autoencoder(50), pictures(51))["output"]
    )
    notebook.page.wait_for_selector("[data-phase=ready]")


def test_a_lost_context_comes_back_with_the_same_numbers(notebook: Notebook) -> None:
    notebook.run(MAKE_VIEWER_CELL + "\nviewer")
    notebook.run("viewer.output")
    notebook.page.evaluate(
        """() => {
          const context = window.probe.contexts.findLast((gl) => !gl.isContextLost());
          window.loser = context.getExtension("WEBGL_lose_context");
          window.loser.loseContext();
        }"""
    )
    notebook.page.wait_for_selector("text=The graphics context was lost")
    error = notebook.run("viewer.activations.read('output', timeout=1)", fails=True).error
    assert error.startswith("ContextLost: the page that shows this Viewer lost its graphics")
    reading = notebook.start("values = viewer.activations.to_dict()")
    notebook.page.wait_for_timeout(500)
    notebook.page.evaluate("() => window.loser.restoreContext()")
    assert not notebook.wait(reading).error
    values = notebook.read_array("values")
    for name, value in expected_values().items():
        assert_equal(values[name], value, name=name)
    report = notebook.run("print(viewer.report())").text
    rows = dict(line.split("  ", 1) for line in report.splitlines())
    rows = {name: text.strip() for name, text in rows.items()}
    assert rows["losses"] == "the graphics context was lost 1×, and came back"
    assert re.match(r"JupyterLab 4\.\d.*; Mozilla/5\.0 .*Chrome/", rows["host"])
    assert "llvmpipe" in rows["device"] and "max_texture_size " in rows["limits"]
    assert rows["last error"] == "none" and "ipykernel" in rows["packages"]
    held = re.fullmatch(
        r"(\d+) bytes on the GPU by the Plan, (\d+) allocated by the page", rows["memory"]
    )
    assert held and int(held[1]) * 0.9 <= int(held[2]) < int(held[1]) * 3 + 4_000_000
    for private in ("encoder", "Sequential", str(notebook.lab.root), "token", "root"):
        assert private not in report


def test_another_versions_page_is_refused_in_words(notebook: Notebook) -> None:
    notebook.run(
        "from nbglcnn.widget.viewer import MESSAGES\n"
        "spoken = MESSAGES.digest\nvars(MESSAGES)['digest'] = 'another'"
    )
    try:
        notebook.run(MAKE_VIEWER_CELL + "\nviewer")
        error = notebook.run("viewer.output", fails=True).error
    finally:
        notebook.run("vars(MESSAGES)['digest'] = spoken")
    assert error.startswith("PageError: the page runs the front-end of nbglcnn 0.")
    assert "Reload the page" in error
    notebook.page.wait_for_selector("text=The page and the kernel differ")


def test_nan_weights_run_and_are_read(notebook: Notebook) -> None:
    notebook.run(
        MAKE_VIEWER_CELL + "\nbroken = autoencoder(50).state_dict()\n"
        "broken['decoder.0.weight'][0, 0] = float('nan')\n"
        "viewer.load_state_dict(broken)\nviewer"
    )
    values = notebook.read_array("viewer.activations.to_dict()")
    model = autoencoder(50)
    model.decoder[0].weight.data[0, 0] = float("nan")
    for name, value in hook_values(model, pictures(50)).items():
        assert_equal(values[name], value, name=name)


def test_a_saved_notebook_holds_a_picture_and_no_weights(notebook: Notebook) -> None:
    notebook.run(
        "torch.manual_seed(0)\n"
        "large = nn.Sequential(nn.Conv2d(3, 256, 5, padding=2), nn.ReLU(),\n"
        "                      nn.Conv2d(256, 256, 5, padding=2)).eval()\n"
        "noise = np.random.default_rng(0).random((2, 3, 48, 48), np.float32)"
    )
    before = notebook.save()
    notebook.run("viewer = Viewer(large, noise)\nviewer")
    notebook.run("viewer.output\nNone")
    after = notebook.save()
    saved = json.loads(notebook.file.read_text())
    data = [o["data"] for cell in saved["cells"] for o in cell["outputs"] if "data" in o][-1]
    assert "image/png" in data
    assert "Conv2d" in "".join(data["text/plain"])
    assert 5_000 < after - before < 200_000


def test_a_notebook_opened_without_its_kernel_shows_the_snapshot(notebook: Notebook) -> None:
    notebook.run(MAKE_VIEWER_CELL + "\nviewer")
    notebook.run("viewer.output")
    notebook.save()
    saved = json.loads(notebook.file.read_text())
    state = saved["metadata"]["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    assert all(entry["model_name"] == "HTMLModel" for entry in state.values())
    notebook.page.evaluate("() => window.lab.kernel().shutdown()")
    notebook.open()
    picture = notebook.page.locator(".nbglcnn-snapshot img").last
    picture.scroll_into_view_if_needed()
    assert picture.evaluate("image => image.complete && image.naturalWidth") > 300
    caption = notebook.page.locator(".nbglcnn-snapshot figcaption").last
    assert caption.text_content() == "Picture from the last run. Run the cell to bring it to life."
    notebook.run(IMPORTS_CELL)
    notebook.run(MAKE_VIEWER_CELL + "\nviewer")
    assert "page" in notebook.run("viewer.output\nprint(viewer.activations.source)").text
    notebook.save()
    notebook.open()
    notebook.page.wait_for_selector("[data-phase=ready]")


def test_a_reloaded_page_gets_everything_again(notebook: Notebook) -> None:
    notebook.run(MAKE_VIEWER_CELL + "\nviewer")
    notebook.run("viewer.output")
    notebook.save()
    notebook.open()
    notebook.wait_restarted()
    values = notebook.read_array("viewer.activations.to_dict()")
    for name, value in expected_values().items():
        assert_equal(values[name], value, name=name)
    notebook.page.wait_for_selector("[data-phase=ready]")
    assert "page" in notebook.run("print(viewer.activations.source)").text


BUSY_COMM_INFO_CELL = """
import asyncio, zmq
kernel = get_ipython().kernel
asked = []
answer = kernel.comm_info_request
kernel.comm_info_request = lambda *given: asked.append(given) or answer(*given)
request = kernel.session.msg("comm_info_request", {})
parts = [zmq.Frame(part) for part in kernel.session.serialize(request, ident=b"a page")]
async def run_in_context(*args):
    await asyncio.create_task(kernel.shell_main(None, *args))
task = asyncio.ensure_future(HELD)
viewer.output
del kernel.comm_info_request
print(len(asked))
"""


@pytest.mark.parametrize("held", ["kernel.shell_main(None, parts)", "run_in_context(parts)"])
def test_what_a_page_asks_as_a_cell_begins_is_answered_while_it_waits(
    notebook: Notebook, held: str
) -> None:
    notebook.run(MAKE_VIEWER_CELL + "\nviewer")
    assert notebook.run(BUSY_COMM_INFO_CELL.replace("HELD", held)).text.strip() == "1"
    notebook.run("await asyncio.sleep(0.2)")
    assert notebook.run("print(task.done(), task.exception())").text.strip() == "True None"


BLOCKED_CELL = """
import time
from nbglcnn.notebook import blocking
print("it waits")
until = time.monotonic() + 20
blocking.wait_until(lambda: answered() or time.monotonic() > until)
print("it has waited", until > time.monotonic())
"""


def test_a_page_hears_of_the_widgets_that_there_are_while_a_cell_waits(notebook: Notebook) -> None:
    notebook.run(MAKE_VIEWER_CELL + "\nviewer")
    path = notebook.lab.root / "answered"
    notebook.run(f"from pathlib import Path\nanswered = Path({str(path)!r}).exists")
    cell = notebook.start(BLOCKED_CELL)
    expect(notebook.page.get_by_text("it waits", exact=True).last).to_be_visible()
    told = notebook.page.evaluate(
        "() => window.lab.kernel().requestCommInfo({target_name: 'jupyter.widget'})"
    )
    path.touch()  # the reply came while the cell waited, so it can end
    identity = notebook.run("print(viewer.model_id)").text.strip()
    assert told["content"]["comms"][identity] == {"target_name": "jupyter.widget"}
    assert notebook.wait(cell).text.splitlines()[-1] == "it has waited True"


def test_a_restarted_kernel_is_said_and_the_cell_can_run_again(notebook: Notebook) -> None:
    notebook.run(MAKE_VIEWER_CELL + "\nviewer")
    notebook.run("viewer.output")
    notebook.page.evaluate("() => window.lab.kernel().restart()")
    notebook.wait_ready()
    notebook.page.wait_for_selector("text=Python restarted")
    notebook.run(IMPORTS_CELL)
    notebook.run(
        MAKE_VIEWER_CELL + "\nvalue = viewer.output\nsource = viewer.activations.source\nviewer"
    )
    assert "page" in notebook.run("print(source)").text
    assert_equal(notebook.read_array("value"), expected_values()["output"])


DISABLE_WEBGL2_SCRIPT = """for (const type of [HTMLCanvasElement, OffscreenCanvas]) {
  const getContext = type.prototype.getContext;
  type.prototype.getContext = function (kind, ...rest) {
    return kind === "webgl2" ? null : getContext.call(this, kind, ...rest);
  };
}"""
DISABLE_EXTENSIONS_SCRIPT = """const { getExtension } = WebGL2RenderingContext.prototype;
WebGL2RenderingContext.prototype.getExtension = function (name) {
  return FLOATS.includes(name) ? null : getExtension.call(this, name);
};"""
DISABLE_FLOAT32_SCRIPT = 'const FLOATS = ["EXT_color_buffer_float"];' + DISABLE_EXTENSIONS_SCRIPT
DISABLE_FLOATS_SCRIPT = (
    'const FLOATS = ["EXT_color_buffer_float", "EXT_color_buffer_half_float"];'
    + DISABLE_EXTENSIONS_SCRIPT
)


@pytest.mark.parametrize(
    ("script", "words"),
    [(DISABLE_WEBGL2_SCRIPT, "no WebGL 2"), (DISABLE_FLOATS_SCRIPT, "neither float32 nor float16")],
    ids=["no WebGL 2", "no floats"],
)
def test_a_page_that_cannot_run_it_says_so_and_python_computes(
    lab: LabServer, browser: LaunchBrowser, script: str, words: str
) -> None:
    with new_notebook(lab, browser("llvmpipe"), script=script) as notebook:
        notebook.run(IMPORTS_CELL)
        outputs = notebook.run(
            MAKE_VIEWER_CELL + "\nvalue = viewer.output\nvalue = viewer.output\nviewer"
        )
        assert outputs.warnings.count("UserWarning") == 1
        assert words in outputs.warnings and "computed in Python (OpenGL" in outputs.warnings
        assert_equal(notebook.read_array("value"), expected_values()["output"])
        assert notebook.run("print(viewer.activations.source)").text.startswith("local (OpenGL: ")
        picture = notebook.page.wait_for_selector(".nbglcnn img")
        assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 200
        assert "This browser" in notebook.view_texts()[0]


def test_a_page_that_draws_no_float32_runs_it_in_float16_and_says_so(
    lab: LabServer, browser: LaunchBrowser
) -> None:
    with new_notebook(lab, browser("llvmpipe"), script=DISABLE_FLOAT32_SCRIPT) as notebook:
        notebook.run(IMPORTS_CELL)
        outputs = notebook.run(MAKE_VIEWER_CELL + "\nvalues = viewer.activations.to_dict()\nviewer")
        assert outputs.warnings == ""
        values = notebook.read_array("values")
        for name, value in expected_values().items():
            assert_equal(values[name], value, rtol=FLOAT16_RTOL, name=name)
            assert np.array_equal(values[name], values[name].astype("f2"))
        source = notebook.run("print(viewer.activations.source)").text
        assert source.startswith("page (WebGL2: ") and source.endswith(", float16)\n")
        assert notebook.run("print(viewer.status['precision'])").text == "float16\n"
        notebook.run("report = viewer.verify()\nassert report.ok, report")
        [view] = notebook.view_texts()
        assert "float16 (largest error 0.0" in view
        assert "(this device doesn’t support float32)" in view
        assert "of a layer's largest" in notebook.run("print(report.summary)").text


def test_a_viewer_in_float16_equals_pytorch_to_three_digits(
    lab: LabServer, browser: LaunchBrowser, sweep_backend: str
) -> None:
    with new_notebook(lab, browser(sweep_backend)) as notebook:
        notebook.run(IMPORTS_CELL)
        notebook.run(
            "viewer = Viewer(autoencoder(50), pictures(50), precision='float16')\n"
            "values = viewer.activations.to_dict()\nviewer"
        )
        values = notebook.read_array("values")
        for name, value in expected_values().items():
            assert_equal(values[name], value, rtol=FLOAT16_RTOL, name=name)
            assert np.array_equal(values[name], values[name].astype("f2"))
        notebook.run("assert viewer.verify().ok")
        [view] = notebook.view_texts()
        assert re.search(r"MB on the GPU.*float16 \(largest error 0\.0", view, re.DOTALL)
        assert "support float32" not in view
        assert notebook.page.locator(".nbglcnn canvas[data-drawn]").count() > 3


def limit_texture_size_script(max_side_texels: int) -> str:
    """A script that limits the device's textures to this many texels per side."""
    return (
        "const { getParameter } = WebGL2RenderingContext.prototype;\n"
        "WebGL2RenderingContext.prototype.getParameter = function (name) {\n"
        f"  return name === this.MAX_TEXTURE_SIZE ? {max_side_texels} : getParameter.call(this, "
        "name);\n};"
    )


def test_a_device_too_small_for_any_plan_is_said_and_python_computes(
    lab: LabServer, browser: LaunchBrowser
) -> None:
    with new_notebook(lab, browser("llvmpipe"), script=limit_texture_size_script(4)) as notebook:
        notebook.run(IMPORTS_CELL)
        outputs = notebook.run(
            MAKE_VIEWER_CELL + "\nvalue = viewer.output\nvalue = viewer.output\nviewer"
        )
        assert outputs.warnings.count("UserWarning") == 1
        assert "the page cannot run this Viewer (" in outputs.warnings
        assert "at most 4" in outputs.warnings and "computed in Python" in outputs.warnings
        assert_equal(notebook.read_array("value"), expected_values()["output"])
        notebook.page.wait_for_selector("text=This device is too small for the network")


def test_a_smaller_device_gets_a_plan_that_fits_it(lab: LabServer, browser: LaunchBrowser) -> None:
    with new_notebook(lab, browser("llvmpipe"), script=limit_texture_size_script(2048)) as notebook:
        notebook.run(IMPORTS_CELL)
        notebook.run(MAKE_VIEWER_CELL + "\nvalues = viewer.activations.to_dict()")
        values = notebook.read_array("values")
        text = notebook.run("print(viewer.network.plan.header.target.max_texture_size)").text
        for name, value in expected_values().items():
            assert_equal(values[name], value, name=name)
        assert text == "2048\n"
        assert "page" in notebook.run("print(viewer.activations.source)").text
