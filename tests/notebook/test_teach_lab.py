"""Teaching a head in the page of a real JupyterLab, by a camera."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, expect

from jupyter_lab import LabServer, Notebook, new_notebook
from polling import wait_frames
from source_references import fit_with_pillow
from teaching_data import FAKE_CAMERA_SCRIPT, SETUP_CELL, bar_pictures

NOTEBOOKS_FOLDER = Path(__file__).parents[2] / "notebooks"
SUPPORT_FOLDER = Path(__file__).parents[1] / "support"


@pytest.fixture(scope="module")
def notebook(lab: LabServer, browser: Callable[[str], Browser]) -> Iterator[Notebook]:
    with new_notebook(lab, browser("llvmpipe")) as notebook:
        notebook.run(
            SETUP_CELL.format(notebooks=str(NOTEBOOKS_FOLDER), support=str(SUPPORT_FOLDER))
        )
        notebook.page.evaluate(FAKE_CAMERA_SCRIPT)
        yield notebook


def read_json(notebook: Notebook, expression: str) -> object:
    return json.loads(notebook.run(f"print(json.dumps({expression}))").text)


def teach_tab(page: Page) -> Locator:
    return page.locator(".nbg-teach").last


def class_row(page: Page, name: str) -> Locator:
    return teach_tab(page).locator(f'[data-class="{name}"]')


def example_count(page: Page, name: str) -> int:
    return int(class_row(page, name).locator("[data-count]").get_attribute("data-count") or 0)


def collect_examples(page: Page, name: str, example_total: int) -> None:
    """Hold the class's button until it has this many examples."""
    button = class_row(page, name).get_by_role("button", name=f"collect {name}")
    button.scroll_into_view_if_needed()
    box = button.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    for _ in range(300):
        if example_count(page, name) >= example_total:
            break
        page.wait_for_timeout(100)
    page.mouse.up()
    assert example_count(page, name) >= example_total


def show_to_camera(page: Page, kind: str) -> None:
    page.evaluate("(kind) => { camera.shows = kind; }", kind)
    wait_frames(page, 90)


def start_camera(notebook: Notebook) -> None:
    page = notebook.page
    notebook.run("viewer.input = nbglcnn.Webcam(mirrored=False)")
    page.get_by_role("button", name="Start the camera").click()
    notebook.wait_until("viewer.input.any()")


def head_verdict(page: Page) -> str:
    return teach_tab(page).locator("[data-verdict]").get_attribute("data-verdict") or ""


def pause_source(page: Page) -> None:
    page.get_by_role("button", name="Pause the source").click()
    wait_frames(page, 90)


def test_the_camera_teaches_two_classes_and_tells_them_apart(notebook: Notebook) -> None:
    page = notebook.page
    notebook.run("viewer = Viewer(model, x, timeout=60)\nviewer")
    notebook.run("teaching = viewer.teach(['cup', 'hand'])")
    expect(teach_tab(page)).to_be_visible()
    start_camera(notebook)
    train = teach_tab(page).get_by_role("button", name="Train")
    expect(train).to_be_disabled()
    show_to_camera(page, "cup")
    collect_examples(page, "cup", 8)
    show_to_camera(page, "hand")
    collect_examples(page, "hand", 8)
    # On release, it is trained automatically.
    expect(teach_tab(page).locator("[data-verdict]")).to_have_attribute("data-verdict", "hand")
    show_to_camera(page, "cup")
    expect(teach_tab(page).locator("[data-verdict]")).to_have_attribute("data-verdict", "cup")
    show_to_camera(page, "hand")
    expect(teach_tab(page).locator("[data-verdict]")).to_have_attribute("data-verdict", "hand")
    notebook.wait_until("teaching.state == 'ready'")
    assert read_json(notebook, "teaching.counts") == {
        n: example_count(page, n) for n in ("cup", "hand")
    }
    assert read_json(notebook, "[teaching.accuracy, teaching.held_out_accuracy]") == [1.0, 1.0]
    # The page's numbers are the module's, computed from the page's input.
    pause_source(page)
    shown = [
        float(class_row(page, name).locator("[data-probability]").get_attribute("data-probability"))
        for name in ("cup", "hand")
    ]
    notebook.run(
        "value = torch.from_numpy(viewer.activations[teaching.cut])\n"
        "right = torch.softmax(teaching.head()(value), 1).detach()[0].numpy()"
    )
    np.testing.assert_allclose(shown, notebook.read_array("right"), atol=1e-5)
    assert np.argmax(shown) == 1
    own = read_json(notebook, "list(teaching.probabilities.values())")
    np.testing.assert_allclose(own, shown, atol=1e-5)
    # The optimum is PyTorch's for the same features that the page sent.
    before = notebook.read_array("teaching.head()[-1].weight.detach().numpy()")
    notebook.run("teaching.train()")
    after = notebook.read_array("teaching.head()[-1].weight.detach().numpy()")
    np.testing.assert_allclose(before, after, atol=1e-5 * np.abs(after).max())
    # These are PyTorch's features for the pictures, which have eight bits.
    notebook.run(
        "shown = torch.from_numpy(teaching.examples['cup']).permute(0, 3, 1, 2) / 255\n"
        "with torch.no_grad(): code = model.encoder(shown).flatten(1).numpy()\n"
        "found = teaching.features['cup']"
    )
    code, found = notebook.read_array("code"), notebook.read_array("found")
    np.testing.assert_allclose(found, code, atol=0.02 * np.abs(code).max())


def make_picture_viewer(notebook: Notebook, count: int = 6) -> None:
    """A Viewer with a head, taught with pictures from Python."""
    notebook.run(
        "if 'viewer' in globals(): viewer.close()\n"
        "viewer = Viewer(model, x, timeout=60)\ndisplay(viewer)\n"
        f"teaching = viewer.teach(examples={{name: bar_pictures(name, {count}) "
        "for name in ('cup', 'hand')})\nteaching.train()"
    )
    expect(teach_tab(notebook.page).locator("canvas[data-example=here]")).to_have_count(2 * count)


def test_what_python_gives_is_in_the_page_and_what_the_page_changes_in_python(
    notebook: Notebook,
) -> None:
    page = notebook.page
    make_picture_viewer(notebook)
    expect(teach_tab(page).locator("[data-verdict]")).to_be_visible()
    notebook.run("viewer.input = bar_pictures('hand', 1, seed=7)[:, None].astype('f') / 255")
    expect(teach_tab(page).locator("[data-verdict]")).to_have_attribute("data-verdict", "hand")
    name = teach_tab(page).get_by_label("Name of the class hand")
    name.fill("cup")
    expect(teach_tab(page).get_by_text("Another class has this name.")).to_be_visible()
    name.fill("palm")
    name.press("Enter")
    notebook.wait_until("teaching.classes == ('cup', 'palm')")
    expect(teach_tab(page).locator("[data-verdict]")).to_have_attribute("data-verdict", "palm")
    # The newest example comes first; it is deleted and restored.
    class_row(page, "cup").get_by_role("button", name="Delete example 6 of cup").click()
    notebook.wait_until("teaching.counts['cup'] == 5 and teaching.state == 'outdated'")
    expect(teach_tab(page)).to_contain_text("have changed since then")
    same = "np.array_equal(teaching.examples['cup'][..., 0], bar_pictures('cup', 6)[:{}])"
    assert read_json(notebook, f"bool({same.format(5)})")
    teach_tab(page).get_by_role("button", name="Undo").click()
    notebook.wait_until("teaching.counts['cup'] == 6")
    assert read_json(notebook, f"bool({same.format(6)})")
    teach_tab(page).get_by_role("button", name="Train").click()
    notebook.wait_until("teaching.state == 'ready'")
    # By keyboard: the thumbnails are one Tab stop, arrow keys move, Delete deletes.
    class_row(page, "cup").locator(".nbg-taught-thumb").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Delete")
    notebook.wait_until("teaching.counts['cup'] == 5")
    # Add a class in the page, with the current input: a still picture is one example.
    teach_tab(page).get_by_role("button", name="Add class").click()
    notebook.wait_until("teaching.classes == ('cup', 'palm', 'class 3')")
    button = class_row(page, "class 3").get_by_role("button", name="Hold to collect")
    button.focus()
    page.keyboard.down(" ")
    wait_frames(page, 40)
    page.keyboard.up(" ")
    notebook.wait_until("teaching.counts['class 3'] == 1 and len(teaching.head_classes) == 3")
    assert read_json(
        notebook,
        "bool(np.array_equal(teaching.examples['class 3'][0, ..., 0], "
        "bar_pictures('hand', 1, seed=7)[0]))",
    )
    teach_tab(page).get_by_role("button", name="Remove class class 3").click()
    notebook.wait_until("teaching.classes == ('cup', 'palm') and not teaching.head_classes")
    expect(teach_tab(page).locator("[data-verdict]")).to_have_count(0)
    # Python continues, and the page follows.
    notebook.run(
        "teaching.rename('palm', 'hand')\nteaching.remove('cup', 0)\n"
        "teaching.add('cup', bar_pictures('cup', 2, seed=3))\nteaching.train()"
    )
    expect(class_row(page, "cup").locator("[data-count]")).to_have_attribute("data-count", "6")
    expect(teach_tab(page).locator("[data-verdict]")).to_have_attribute("data-verdict", "hand")


def test_a_teaching_that_another_one_replaced_holds_nothing_up(notebook: Notebook) -> None:
    """The page requests its examples after Python has replaced the teaching."""
    make_picture_viewer(notebook, 1)  # the tab is open
    given = "{name: bar_pictures(name, %d) for name in ('cup', 'hand')}"
    notebook.run(
        f"import time\nviewer.teach(examples={given % 2}).train()\ntime.sleep(2)\n"
        f"teaching = viewer.teach(examples={given % 3})\nteaching.train()\ntime.sleep(2)\n"
        "teaching.remove('cup', 0)\nteaching.train()"
    )
    expect(teach_tab(notebook.page).locator("canvas[data-example=here]")).to_have_count(
        5, timeout=20_000
    )
    expect(teach_tab(notebook.page).locator("[data-verdict]")).to_be_visible()
    expect(teach_tab(notebook.page).get_by_role("alert")).to_have_count(0)


def test_pictures_are_chosen_as_files(notebook: Notebook, tmp_path: Path) -> None:
    page = notebook.page
    make_picture_viewer(notebook, 2)
    files = []
    for k, one in enumerate(bar_pictures("cup", 3, seed=5)):
        files.append(tmp_path / f"{k}.png")
        Image.fromarray(one).resize((56, 56), Image.Resampling.NEAREST).save(files[-1])
    files.append(tmp_path / "none.png")
    files[-1].write_text("no picture")
    class_row(page, "cup").locator("input[type=file]").set_input_files(files)
    notebook.wait_until("teaching.counts['cup'] == 5")
    expect(teach_tab(page).get_by_role("alert")).to_contain_text("none.png is not a picture")
    found = notebook.read_array("teaching.examples['cup'][2:, ..., 0]") / 255
    for one, file in zip(found, files, strict=False):
        right = fit_with_pillow(Image.open(file).convert("RGB"), (1, 1, 28, 28), mirrored=False)
        assert np.abs(one - right).max() <= 2 / 255
    notebook.run(
        "shown = torch.from_numpy(teaching.examples['cup']).permute(0, 3, 1, 2) / 255\n"
        "with torch.no_grad(): code = model.encoder(shown).flatten(1).numpy()"
    )
    code = notebook.read_array("code")
    features = notebook.read_array("teaching.features['cup']")
    np.testing.assert_allclose(features, code, atol=0.02 * np.abs(code).max())


def test_bends_make_features_stale_and_the_page_computes_them_again(notebook: Notebook) -> None:
    page = notebook.page
    make_picture_viewer(notebook, 3)
    before = notebook.read_array("teaching.features['hand']")
    stale = teach_tab(page).get_by_text("from earlier weights or bends")
    notebook.run("bend = viewer.bend('encoder.6', nbglcnn.transforms.multiply(2.5))")
    expect(stale).to_contain_text("6 examples")
    notebook.run("bend.remove()")
    expect(stale).to_have_count(0)
    notebook.run("viewer.bend('encoder.6', nbglcnn.transforms.multiply(2.5))")
    teach_tab(page).get_by_role("button", name="Recompute and train").click()
    notebook.wait_until("teaching.stale == 0 and teaching.state == 'ready'")
    expect(stale).to_have_count(0)
    after = notebook.read_array("teaching.features['hand']")
    np.testing.assert_allclose(after, 2.5 * before, rtol=1e-4, atol=1e-4)
    # A weight edit: the page is notified, and Python computes the features again.
    notebook.run("viewer.set_weight('encoder.6.bias', 0, 5.0)")
    expect(stale).to_contain_text("6 examples")
    notebook.run("teaching.train()\nright = teaching.head()[-1].weight.detach().numpy()")
    expect(stale).to_have_count(0)
    # The page has these features, too: its own training gives the same result.
    wait_frames(page, 60)
    notebook.run("teaching._lesson.head = None\nteaching.rename('cup', 'cup')")
    teach_tab(page).get_by_role("button", name="Train").click()
    notebook.wait_until("teaching.head_classes == ('cup', 'hand')")
    right = notebook.read_array("right")
    found = notebook.read_array("teaching.head()[-1].weight.detach().numpy()")
    np.testing.assert_allclose(found, right, atol=1e-5 * np.abs(right).max())


def test_a_reloaded_page_gets_everything_back(notebook: Notebook, tmp_path: Path) -> None:
    page = notebook.page
    make_picture_viewer(notebook)
    notebook.run("viewer.input = bar_pictures('hand', 1, seed=7)[:, None].astype('f') / 255")
    expect(teach_tab(page).locator("[data-verdict]")).to_have_attribute("data-verdict", "hand")
    with page.expect_download() as download:
        teach_tab(page).get_by_role("button", name="Save to a file").click()
    assert download.value.suggested_filename == "taught-cup-hand.safetensors"
    file = tmp_path / "taught.safetensors"
    download.value.save_as(file)
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    page.reload()
    notebook.wait_ready()
    notebook.run("viewer")
    expect(teach_tab(page).locator("canvas[data-example=here]")).to_have_count(12)
    expect(teach_tab(page).locator("[data-verdict]")).to_have_attribute("data-verdict", "hand")
    assert read_json(notebook, "teaching.state") == "ready"
    # The file that the page wrote equals Python's data, and both can load it.
    notebook.run(
        f"path = {str(file)!r}\nbefore = teaching.features['cup']\n"
        "right = teaching.head()[-1].weight.detach().numpy()\n"
        "teaching.remove('hand')\nteaching.load(path)"
    )
    assert read_json(notebook, "[teaching.counts, teaching.state, teaching.stale]") == [
        {"cup": 6, "hand": 6}, "ready", 0,
    ]  # fmt: skip
    assert read_json(notebook, "bool((teaching.features['cup'] == before).all())")
    assert read_json(notebook, "bool((teaching.head()[-1].weight.detach().numpy() == right).all())")
    notebook.run("teaching.remove('hand')")
    expect(class_row(page, "hand")).to_have_count(0)
    teach_tab(page).locator("input[accept='.safetensors']").set_input_files(file)
    notebook.wait_until("teaching.counts == {'cup': 6, 'hand': 6} and teaching.state == 'ready'")
    expect(teach_tab(page).locator("[data-verdict]")).to_have_attribute("data-verdict", "hand")
    # Teaching stops, and the tab is removed.
    notebook.run("teaching.stop()")
    expect(page.get_by_role("tab", name="Teach")).to_have_count(0)
