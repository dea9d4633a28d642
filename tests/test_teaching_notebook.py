"""A head that is taught in the page of a real JupyterLab, by a camera."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from lab import Lab, Notebook, alone
from taught import CAMERA, MAKE

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"


@pytest.fixture(scope="module")
def notebook(lab: Lab, browser: Callable[[str], Browser]) -> Iterator[Notebook]:
    with alone(lab, browser("llvmpipe")) as notebook:
        notebook.run(MAKE.format(notebooks=str(NOTEBOOKS)))
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
    page.wait_for_timeout(1500)


def start_camera(notebook: Notebook) -> None:
    page = notebook.page
    notebook.run("viewer.input = nbglcnn.Webcam(mirrored=False)")
    page.get_by_role("button", name="Start the camera").click()
    notebook.until("viewer.input.any()")


def verdict(page: Page) -> str:
    return tab(page).locator("[data-verdict]").get_attribute("data-verdict") or ""


def pause(page: Page) -> None:
    page.get_by_role("button", name="Pause the source").click()
    page.wait_for_timeout(1500)


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
