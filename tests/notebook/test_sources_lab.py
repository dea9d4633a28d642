"""Sources in real JupyterLab: the page feeds sources that Python set; Python reads the input."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, expect

from assertions import assert_equal
from fake_camera import RECORD_STREAMS_SCRIPT
from jupyter_lab import LabServer, Notebook, local_page, new_notebook
from page_videos import GRAB_FRAME_SCRIPT, RECORD_VIDEOS_SCRIPT
from polling import retry_until_passes, wait_frames
from source_references import decode_data_url, fit_with_pillow
from viewer_models import IMPORTS_CELL, autoencoder

SEED = 41
SHAPE = (1, 1, 22, 18)


@pytest.fixture(scope="module")
def shared_notebook(lab: LabServer, browser: Callable[[str], Browser]) -> Iterator[Notebook]:
    with new_notebook(lab, browser("llvmpipe")) as notebook:
        notebook.run(
            IMPORTS_CELL + "import nbglcnn\n"
            f"model = autoencoder({SEED})\n"
            "images = np.random.default_rng(3).integers(0, 256, (3000, 22, 18), np.uint8)\n"
            "x = np.zeros((1, 1, 22, 18), np.float32)"
        )
        notebook.page.evaluate(RECORD_STREAMS_SCRIPT)
        notebook.page.evaluate(RECORD_VIDEOS_SCRIPT)
        yield notebook


@pytest.fixture
def notebook(shared_notebook: Notebook) -> Notebook:
    """The notebook without a Viewer, regardless of earlier tests."""
    shared_notebook.run("if 'viewer' in globals(): viewer.close()")
    shared_notebook.delete_cells(1)
    return shared_notebook


def dataset_item(index: int) -> np.ndarray:
    images = np.random.default_rng(3).integers(0, 256, (3000, 22, 18), np.uint8)
    return (images[index].astype(np.float32) / 255).reshape(SHAPE)


def torch_output(x: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        return autoencoder(SEED)(torch.from_numpy(x)).numpy()


def test_a_data_set_of_python_is_fed_by_the_page_and_a_choice_there_comes_back(
    notebook: Notebook,
) -> None:
    # The cell that sets the input reads it: the value follows the new input, even if its block
    # hasn't arrived yet.
    notebook.run(
        "viewer = Viewer(model, x, timeout=60)\ndisplay(viewer)\nfirst = viewer.output\n"
        "viewer.input = nbglcnn.Images(images, index=7, title='Random')\n"
        "seen, found = viewer.input, viewer.output\n"
        "viewer.source = viewer.source.at(2900)\n"
        "later = viewer.output"
    )
    np.testing.assert_array_equal(notebook.read_array("seen"), dataset_item(7))
    assert_equal(notebook.read_array("found"), torch_output(dataset_item(7)))
    assert_equal(notebook.read_array("later"), torch_output(dataset_item(2900)))
    assert notebook.run("print(viewer.activations.source)").text.startswith("page")
    page = notebook.page
    page.locator(".nbg-chosen-source").click()
    notebook.run("news = []\nviewer.observe(lambda c: news.append(c.new.index), 'source')")
    page.locator('.nbg-thumb[data-index="2902"]').click()
    notebook.wait_until("viewer.source.index == 2902")
    np.testing.assert_array_equal(notebook.read_array("viewer.input"), dataset_item(2902))
    assert_equal(notebook.read_array("viewer.output"), torch_output(dataset_item(2902)))
    assert notebook.run("print(news)").text == "[2902]\n", "no echo"
    # The remaining input is also Python's own: local values, exported pages.
    notebook.wait_until("viewer.network.input_arrays[0].tobytes() == viewer.input.tobytes()")
    page.get_by_role("button", name="Turn off").click()
    notebook.wait_until("viewer.source is None")
    np.testing.assert_array_equal(notebook.read_array("viewer.input"), dataset_item(2902))
    expect(page.locator(".nbg-chosen-source")).to_contain_text("Array")
    notebook.run("viewer.input = x")
    assert_equal(notebook.read_array("viewer.output"), torch_output(np.zeros(SHAPE, np.float32)))


def test_a_camera_starts_by_a_click_and_python_reads_what_went_in(notebook: Notebook) -> None:
    page = notebook.page
    notebook.run(
        "viewer = Viewer(model, x, timeout=60)\ndisplay(viewer)\n"
        "before = viewer.output\nviewer.input = nbglcnn.Webcam()\nstill = viewer.input"
    )
    assert not notebook.read_array("still").any(), "until its first picture the last tensor stays"
    page.get_by_role("button", name="Start the camera").click()
    notebook.wait_until("viewer.source.owner != ''")
    notebook.wait_until("viewer.input.any()")
    notebook.run("live = viewer.input")
    live = notebook.read_array("live")
    assert live.shape == SHAPE and live.dtype == np.float32 and 0 <= live.min() < live.max() <= 1
    page.get_by_role("button", name="Pause the source").click()
    notebook.wait_until("not viewer.source.playing")

    def last() -> np.ndarray:
        found = notebook.read_array("viewer.input")
        expected = fit_with_pillow(
            decode_data_url(page.evaluate(GRAB_FRAME_SCRIPT)), SHAPE, mirrored=True
        )
        assert np.abs(found[0, 0] - expected).max() <= 1.01 / 255
        return found

    paused = retry_until_passes(page, last)
    assert_equal(notebook.read_array("viewer.output"), torch_output(paused))
    notebook.wait_until("viewer.network.input_arrays[0].tobytes() == viewer.input.tobytes()")
    # Setting the input turns the source off, and the camera light goes out.
    notebook.run("viewer.input = x")
    page.wait_for_function(
        "() => given.tracks.length > 0 && given.tracks.every((one) => one.readyState === 'ended')"
    )
    assert notebook.run("print(viewer.source)").text == "None\n"
    assert_equal(notebook.read_array("viewer.output"), torch_output(np.zeros(SHAPE, np.float32)))


def test_all_values_of_a_read_are_of_one_frame_of_the_camera(notebook: Notebook) -> None:
    # A run takes several slices: camera frames arrive while values are read one after another.
    notebook.run(
        "from torch import nn\ntorch.manual_seed(0)\n"
        "deep = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), *(one for _ in range(5)"
        " for one in (nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()))).eval()\n"
        "viewer = Viewer(deep, torch.zeros(1, 3, 96, 96), timeout=60)\ndisplay(viewer)\n"
        "before = viewer.output\nviewer.input = nbglcnn.Webcam()\n"
        "def torn():\n"
        "    found = viewer.activations.to_dict()\n"
        "    right = torch.from_numpy(found['input'])\n"
        "    wrong = []\n"
        "    for name, layer in deep.named_children():\n"
        "        right = layer(right)\n"
        "        if not np.allclose(found[name], right.detach(), atol=1e-4): wrong.append(name)\n"
        "    return wrong"
    )
    notebook.page.get_by_role("button", name="Start the camera").click()
    notebook.wait_until("viewer.input.any()")
    for _ in range(3):
        assert notebook.run("print(torn())").text == "[]\n"
        assert notebook.run("print(viewer.verify().ok)").text == "True\n"


def test_the_light_goes_out_when_the_cell_runs_again(notebook: Notebook) -> None:
    page = notebook.page
    cell = notebook.start("viewer = Viewer(model, x, timeout=60)\ndisplay(viewer)")
    notebook.wait(cell)
    notebook.run("viewer.input = nbglcnn.Webcam()")
    page.get_by_role("button", name="Start the camera").click()
    notebook.wait_until("viewer.input.any()")
    states = "() => given.tracks.map((one) => one.readyState)"
    assert page.evaluate(states)[-1] == "live"
    notebook.rerun(cell)
    page.wait_for_function("() => given.tracks.every((one) => one.readyState === 'ended')")


def test_a_drawing_is_pythons_input_and_stays_when_it_is_turned_off(notebook: Notebook) -> None:
    page = notebook.page
    notebook.run("viewer = Viewer(model, x, timeout=60)\ndisplay(viewer)")
    page.locator(".nbg-chosen-source").click()
    page.locator("[data-kind=drawing]").click()
    notebook.wait_until("type(viewer.source).__name__ == 'Drawing'")
    canvas = page.locator(".nbg-paper canvas").last
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 150, box["y"] + 150, steps=6)
    page.mouse.up()
    notebook.wait_until("viewer.input.any()")
    wait_frames(page, 60)
    drawn = notebook.read_array("viewer.input")
    assert drawn.max() > 0.9 and drawn.min() == 0
    assert_equal(notebook.read_array("viewer.output"), torch_output(drawn))
    notebook.run("viewer.source = None")
    np.testing.assert_array_equal(notebook.read_array("viewer.input"), drawn)
    assert_equal(notebook.read_array("viewer.output"), torch_output(drawn))


def test_a_source_that_the_page_turns_off_leaves_its_last_picture(notebook: Notebook) -> None:
    """Also with a picture that Python has not fetched yet, from a camera that goes on.

    A value set in Python stays too, even if the page reports a dataset that plays continuously.
    """
    page = notebook.page
    notebook.run(
        "viewer = Viewer(model, x, timeout=60)\ndisplay(viewer)\n"
        "viewer.source = nbglcnn.Images(images, playing=True, rate=1000)"
    )
    page.locator(".nbglcnn").scroll_into_view_if_needed()  # paused while out of view
    notebook.wait_until("viewer.source.index > 20")
    notebook.run("viewer.input = nbglcnn.Webcam()")
    page.get_by_role("button", name="Start the camera").click()
    notebook.wait_until("viewer.input.any()")
    page.get_by_role("button", name="Turn off").click()
    notebook.wait_until("viewer.source is None")
    wait_frames(page, 60)
    last = notebook.read_array("viewer.input")
    assert last.any()
    assert_equal(notebook.read_array("viewer.output"), torch_output(last))
    assert notebook.run("print(viewer.activations.source)").text.startswith("page")
    notebook.run("viewer.input = x")
    assert_equal(notebook.read_array("viewer.output"), torch_output(np.zeros(SHAPE, np.float32)))


def test_the_tab_that_started_a_camera_feeds_the_others(
    notebook: Notebook, lab: LabServer, browser: Callable[[str], Browser]
) -> None:
    notebook.run("viewer = Viewer(model, x, timeout=60)\ndisplay(viewer)\nviewer.output")
    notebook.run("viewer.input = nbglcnn.Webcam()")
    notebook.save()
    with local_page(browser("llvmpipe")) as page:
        other = lab.open_notebook(page, notebook.file.name)
        for tab in (notebook, other):
            expect(tab.page.get_by_role("button", name="Start the camera")).to_have_count(1)
        notebook.page.get_by_role("button", name="Start the camera").click()
        expect(page.locator(".nbg-chosen-source")).to_contain_text("in another page")
        # Live pictures arrive through Python, a few per second.
        input_of = "canvas[data-maps=input][data-drawn]"
        seen = set()
        for _ in range(40):
            seen.add(str(page.locator(input_of).first.evaluate("one => one.toDataURL()")))
            page.wait_for_timeout(100)
        assert len(seen) > 3
        notebook.page.get_by_role("button", name="Pause the source").click()
        notebook.wait_until("not viewer.source.playing")
        notebook.wait_until("viewer.network.input_arrays[0].tobytes() == viewer.input.tobytes()")

        def same() -> None:
            first, second = (
                tab.page.locator(input_of).first.evaluate("one => one.toDataURL()")
                for tab in (notebook, other)
            )
            assert first == second

        retry_until_passes(page, same)
        # The other page takes over the camera, and the first page releases its own.
        page.get_by_role("button", name="Run it here").click()
        notebook.page.wait_for_function(
            "() => given.tracks.every((track) => track.readyState === 'ended')"
        )
        expect(notebook.page.locator(".nbg-chosen-source")).to_contain_text("in another page")
