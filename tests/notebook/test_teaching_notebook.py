"""A head that is taught in the page of a real JupyterLab, by a camera."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, expect

from eventually import frames
from lab import Lab, Notebook, alone
from references import fitted
from taught import CAMERA, MAKE, pictures

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(scope="module")
def notebook(lab: Lab, browser: Callable[[str], Browser]) -> Iterator[Notebook]:
    with alone(lab, browser("llvmpipe")) as notebook:
        notebook.run(MAKE.format(notebooks=str(NOTEBOOKS), support=str(SUPPORT)))
        notebook.page.evaluate(CAMERA)
        yield notebook


def told(notebook: Notebook, expression: str) -> object:
    return json.loads(notebook.run(f"print(json.dumps({expression}))").text)


def tab(page: Page) -> Locator:
    return page.locator(".nbg-teach").last


def of_class(page: Page, name: str) -> Locator:
    return tab(page).locator(f'[data-class="{name}"]')


def count(page: Page, name: str) -> int:
    return int(of_class(page, name).locator("[data-count]").get_attribute("data-count") or 0)


def hold(page: Page, name: str, until: int) -> None:
    """Hold the class's button until it has so many examples."""
    button = of_class(page, name).get_by_role("button", name=f"collect {name}")
    button.scroll_into_view_if_needed()
    box = button.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    for _ in range(300):
        if count(page, name) >= until:
            break
        page.wait_for_timeout(100)
    page.mouse.up()
    assert count(page, name) >= until


def show(page: Page, kind: str) -> None:
    page.evaluate("(kind) => { camera.shows = kind; }", kind)
    frames(page, 90)


def start_camera(notebook: Notebook) -> None:
    page = notebook.page
    notebook.run("viewer.input = nbglcnn.Webcam(mirrored=False)")
    page.get_by_role("button", name="Start the camera").click()
    notebook.until("viewer.input.any()")


def verdict(page: Page) -> str:
    return tab(page).locator("[data-verdict]").get_attribute("data-verdict") or ""


def pause(page: Page) -> None:
    page.get_by_role("button", name="Pause the source").click()
    frames(page, 90)


def test_the_camera_teaches_two_classes_and_tells_them_apart(notebook: Notebook) -> None:
    page = notebook.page
    notebook.run("viewer = Viewer(model, x, timeout=60)\nviewer")
    notebook.run("teaching = viewer.teach(['cup', 'hand'])")
    expect(tab(page)).to_be_visible()
    start_camera(notebook)
    train = tab(page).get_by_role("button", name="Train")
    expect(train).to_be_disabled()
    show(page, "cup")
    hold(page, "cup", 8)
    show(page, "hand")
    hold(page, "hand", 8)
    # Released, it is trained by itself.
    expect(tab(page).locator("[data-verdict]")).to_have_attribute("data-verdict", "hand")
    show(page, "cup")
    expect(tab(page).locator("[data-verdict]")).to_have_attribute("data-verdict", "cup")
    show(page, "hand")
    expect(tab(page).locator("[data-verdict]")).to_have_attribute("data-verdict", "hand")
    notebook.until("teaching.state == 'ready'")
    assert told(notebook, "teaching.counts") == {n: count(page, n) for n in ("cup", "hand")}
    assert told(notebook, "[teaching.accuracy, teaching.held_out_accuracy]") == [1.0, 1.0]
    # The page's numbers are those of the module, of what the page has.
    pause(page)
    shown = [
        float(of_class(page, name).locator("[data-probability]").get_attribute("data-probability"))
        for name in ("cup", "hand")
    ]
    notebook.run(
        "value = torch.from_numpy(viewer.activations[teaching.cut])\n"
        "right = torch.softmax(teaching.head()(value), 1).detach()[0].numpy()"
    )
    np.testing.assert_allclose(shown, notebook.array("right"), atol=1e-5)
    assert np.argmax(shown) == 1
    own = told(notebook, "list(teaching.probabilities.values())")
    np.testing.assert_allclose(own, shown, atol=1e-5)
    # Its optimum is PyTorch's, of the very features that the page has sent.
    before = notebook.array("teaching.head()[-1].weight.detach().numpy()")
    notebook.run("teaching.train()")
    after = notebook.array("teaching.head()[-1].weight.detach().numpy()")
    np.testing.assert_allclose(before, after, atol=1e-5 * np.abs(after).max())
    # And these are what PyTorch makes of the pictures, which have eight bits.
    notebook.run(
        "shown = torch.from_numpy(teaching.examples['cup']).permute(0, 3, 1, 2) / 255\n"
        "with torch.no_grad(): code = model.encoder(shown).flatten(1).numpy()\n"
        "found = teaching.features['cup']"
    )
    code, found = notebook.array("code"), notebook.array("found")
    np.testing.assert_allclose(found, code, atol=0.02 * np.abs(code).max())


def shots(notebook: Notebook, count: int = 6) -> None:
    """A Viewer with a head, of pictures that Python gives."""
    notebook.run(
        "if 'viewer' in globals(): viewer.close()\n"
        "viewer = Viewer(model, x, timeout=60)\ndisplay(viewer)\n"
        f"teaching = viewer.teach(examples={{name: pictures(name, {count}) "
        "for name in ('cup', 'hand')})\nteaching.train()"
    )
    expect(tab(notebook.page).locator("canvas[data-example=here]")).to_have_count(2 * count)


def test_what_python_gives_is_in_the_page_and_what_the_page_changes_in_python(
    notebook: Notebook,
) -> None:
    page = notebook.page
    shots(notebook)
    expect(tab(page).locator("[data-verdict]")).to_be_visible()
    notebook.run("viewer.input = pictures('hand', 1, seed=7)[:, None].astype('f') / 255")
    expect(tab(page).locator("[data-verdict]")).to_have_attribute("data-verdict", "hand")
    name = tab(page).get_by_label("Name of the class hand")
    name.fill("cup")
    expect(tab(page).get_by_text("Another class has this name.")).to_be_visible()
    name.fill("palm")
    name.press("Enter")
    notebook.until("teaching.classes == ('cup', 'palm')")
    expect(tab(page).locator("[data-verdict]")).to_have_attribute("data-verdict", "palm")
    # The newest stands first; it goes, and comes back.
    of_class(page, "cup").get_by_role("button", name="Delete example 6 of cup").click()
    notebook.until("teaching.counts['cup'] == 5 and teaching.state == 'outdated'")
    expect(tab(page)).to_contain_text("have changed since then")
    same = "np.array_equal(teaching.examples['cup'][..., 0], pictures('cup', 6)[:{}])"
    assert told(notebook, f"bool({same.format(5)})")
    tab(page).get_by_role("button", name="Undo").click()
    notebook.until("teaching.counts['cup'] == 6")
    assert told(notebook, f"bool({same.format(6)})")
    tab(page).get_by_role("button", name="Train").click()
    notebook.until("teaching.state == 'ready'")
    # By keys: the thumbnails are one stop, arrows lead along, Delete deletes.
    of_class(page, "cup").locator(".nbg-taught-thumb").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Delete")
    notebook.until("teaching.counts['cup'] == 5")
    # A class by the page, with what enters now: a still picture is one example.
    tab(page).get_by_role("button", name="Add class").click()
    notebook.until("teaching.classes == ('cup', 'palm', 'class 3')")
    button = of_class(page, "class 3").get_by_role("button", name="Hold to collect")
    button.focus()
    page.keyboard.down(" ")
    frames(page, 40)
    page.keyboard.up(" ")
    notebook.until("teaching.counts['class 3'] == 1 and len(teaching.head_classes) == 3")
    assert told(
        notebook,
        "bool(np.array_equal(teaching.examples['class 3'][0, ..., 0], "
        "pictures('hand', 1, seed=7)[0]))",
    )
    tab(page).get_by_role("button", name="Remove class class 3").click()
    notebook.until("teaching.classes == ('cup', 'palm') and not teaching.head_classes")
    expect(tab(page).locator("[data-verdict]")).to_have_count(0)
    # Python goes on, and the page follows.
    notebook.run(
        "teaching.rename('palm', 'hand')\nteaching.remove('cup', 0)\n"
        "teaching.add('cup', pictures('cup', 2, seed=3))\nteaching.train()"
    )
    expect(of_class(page, "cup").locator("[data-count]")).to_have_attribute("data-count", "6")
    expect(tab(page).locator("[data-verdict]")).to_have_attribute("data-verdict", "hand")


def test_a_teaching_that_another_one_replaced_holds_nothing_up(notebook: Notebook) -> None:
    """The page asks for it, and by the time the cell ends Python has it no more."""
    shots(notebook, 1)  # the tab is open
    given = "{name: pictures(name, %d) for name in ('cup', 'hand')}"
    notebook.run(
        f"import time\nviewer.teach(examples={given % 2}).train()\ntime.sleep(2)\n"
        f"teaching = viewer.teach(examples={given % 3})\nteaching.train()\ntime.sleep(2)\n"
        "teaching.remove('cup', 0)\nteaching.train()"
    )
    expect(tab(notebook.page).locator("canvas[data-example=here]")).to_have_count(5, timeout=20_000)
    expect(tab(notebook.page).locator("[data-verdict]")).to_be_visible()
    expect(tab(notebook.page).get_by_role("alert")).to_have_count(0)


def test_pictures_are_chosen_as_files(notebook: Notebook, tmp_path: Path) -> None:
    page = notebook.page
    shots(notebook, 2)
    files = []
    for k, one in enumerate(pictures("cup", 3, seed=5)):
        files.append(tmp_path / f"{k}.png")
        Image.fromarray(one).resize((56, 56), Image.Resampling.NEAREST).save(files[-1])
    files.append(tmp_path / "none.png")
    files[-1].write_text("no picture")
    of_class(page, "cup").locator("input[type=file]").set_input_files(files)
    notebook.until("teaching.counts['cup'] == 5")
    expect(tab(page).get_by_role("alert")).to_contain_text("none.png is no picture")
    found = notebook.array("teaching.examples['cup'][2:, ..., 0]") / 255
    for one, file in zip(found, files, strict=False):
        right = fitted(Image.open(file).convert("RGB"), (1, 1, 28, 28), mirrored=False)
        assert np.abs(one - right).max() <= 2 / 255
    notebook.run(
        "shown = torch.from_numpy(teaching.examples['cup']).permute(0, 3, 1, 2) / 255\n"
        "with torch.no_grad(): code = model.encoder(shown).flatten(1).numpy()"
    )
    code = notebook.array("code")
    features = notebook.array("teaching.features['cup']")
    np.testing.assert_allclose(features, code, atol=0.02 * np.abs(code).max())


def test_bends_make_features_stale_and_the_page_computes_them_again(notebook: Notebook) -> None:
    page = notebook.page
    shots(notebook, 3)
    before = notebook.array("teaching.features['hand']")
    stale = tab(page).get_by_text("of other weights or bends")
    notebook.run("bend = viewer.bend('encoder.6', nbglcnn.transforms.multiply(2.5))")
    expect(stale).to_contain_text("6 examples")
    notebook.run("bend.remove()")
    expect(stale).to_have_count(0)
    notebook.run("viewer.bend('encoder.6', nbglcnn.transforms.multiply(2.5))")
    tab(page).get_by_role("button", name="Compute them again and train").click()
    notebook.until("teaching.stale == 0 and teaching.state == 'ready'")
    expect(stale).to_have_count(0)
    after = notebook.array("teaching.features['hand']")
    np.testing.assert_allclose(after, 2.5 * before, rtol=1e-4, atol=1e-4)
    # A weight: the page hears of it, and Python computes again.
    notebook.run("viewer.set_weight('encoder.6.bias', 0, 5.0)")
    expect(stale).to_contain_text("6 examples")
    notebook.run("teaching.train()\nright = teaching.head()[-1].weight.detach().numpy()")
    expect(stale).to_have_count(0)
    # And the page has these features, too: its own training gives the same.
    frames(page, 60)
    notebook.run("teaching._lesson.head = None\nteaching.rename('cup', 'cup')")
    tab(page).get_by_role("button", name="Train").click()
    notebook.until("teaching.head_classes == ('cup', 'hand')")
    right = notebook.array("right")
    found = notebook.array("teaching.head()[-1].weight.detach().numpy()")
    np.testing.assert_allclose(found, right, atol=1e-5 * np.abs(right).max())


def test_a_reloaded_page_gets_everything_back(notebook: Notebook, tmp_path: Path) -> None:
    page = notebook.page
    shots(notebook)
    notebook.run("viewer.input = pictures('hand', 1, seed=7)[:, None].astype('f') / 255")
    expect(tab(page).locator("[data-verdict]")).to_have_attribute("data-verdict", "hand")
    with page.expect_download() as download:
        tab(page).get_by_role("button", name="Save to a file").click()
    assert download.value.suggested_filename == "taught-cup-hand.safetensors"
    file = tmp_path / "taught.safetensors"
    download.value.save_as(file)
    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    page.reload()
    notebook.wait_ready()
    notebook.run("viewer")
    expect(tab(page).locator("canvas[data-example=here]")).to_have_count(12)
    expect(tab(page).locator("[data-verdict]")).to_have_attribute("data-verdict", "hand")
    assert told(notebook, "teaching.state") == "ready"
    # What the page wrote is what Python has, and both take it.
    notebook.run(
        f"path = {str(file)!r}\nbefore = teaching.features['cup']\n"
        "right = teaching.head()[-1].weight.detach().numpy()\n"
        "teaching.remove('hand')\nteaching.load(path)"
    )
    assert told(notebook, "[teaching.counts, teaching.state, teaching.stale]") == [
        {"cup": 6, "hand": 6}, "ready", 0,
    ]  # fmt: skip
    assert told(notebook, "bool((teaching.features['cup'] == before).all())")
    assert told(notebook, "bool((teaching.head()[-1].weight.detach().numpy() == right).all())")
    notebook.run("teaching.remove('hand')")
    expect(of_class(page, "hand")).to_have_count(0)
    tab(page).locator("input[accept='.safetensors']").set_input_files(file)
    notebook.until("teaching.counts == {'cup': 6, 'hand': 6} and teaching.state == 'ready'")
    expect(tab(page).locator("[data-verdict]")).to_have_attribute("data-verdict", "hand")
    # It ends, and with it the tab.
    notebook.run("teaching.stop()")
    expect(page.get_by_role("tab", name="Teach")).to_have_count(0)
