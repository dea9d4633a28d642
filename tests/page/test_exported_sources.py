"""Sources in an exported page, without Python: a dataset, a video, the camera."""

import base64
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from playwright.sync_api import Page, expect

import nbglcnn
from assertions import assert_equal
from browsers import RECORD_CANVAS_SCRIPT
from exported_html import READ_VALUE_SCRIPT, RUN_INPUT_SCRIPT
from page_videos import GRAB_FRAME_SCRIPT, RECORD_VIDEOS_SCRIPT
from polling import retry_until_passes
from source_references import decode_data_url, fit_with_pillow
from viewer_models import autoencoder
from webgl_page import decode

SEED = 43
SHAPE = (1, 1, 22, 18)


@pytest.fixture
def open_exported(new_page: Callable[..., Page], tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """exported(source): a Viewer's page with that source, as a file, with the network off."""
    errors: list[str] = []

    def open_page(source: object) -> Page:
        viewer = nbglcnn.Viewer(autoencoder(SEED), np.zeros(SHAPE, np.float32))
        if source is not None:
            viewer.source = source
        path = viewer.to_html(tmp_path / "page.html")
        viewer.close()
        page = new_page("llvmpipe", offline=True, viewport={"width": 1000, "height": 900})
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.add_init_script(f"({RECORD_VIDEOS_SCRIPT})()")
        page.goto(path.as_uri())
        page.evaluate("async () => { await window.nbglcnn; }")
        return page

    yield open_page
    assert not errors, errors


def dataset_images() -> np.ndarray:
    return np.random.default_rng(6).integers(0, 256, (40, 22, 18), np.uint8)


def dataset_tensor(index: int) -> np.ndarray:
    return (dataset_images()[index].astype(np.float32) / 255).reshape(SHAPE)


def read_value(page: Page, key: str) -> np.ndarray:
    return decode(page.evaluate(READ_VALUE_SCRIPT, key))


def torch_output(x: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        return np.asarray(autoencoder(SEED)(torch.from_numpy(x.copy())).numpy().ravel())


def wait_for_input(page: Page, x: np.ndarray) -> None:
    """Wait until the input equals this."""
    retry_until_passes(
        page, lambda: np.testing.assert_array_equal(read_value(page, "input"), x.ravel())
    )


def current_frame(page: Page, *, mirrored: bool) -> np.ndarray:
    """Return the input, once it equals the current picture."""

    def last() -> np.ndarray:
        found = read_value(page, "input").reshape(SHAPE)
        expected = fit_with_pillow(
            decode_data_url(page.evaluate(GRAB_FRAME_SCRIPT)), SHAPE, mirrored=mirrored
        )
        assert np.abs(found[0, 0] - expected).max() <= 1.01 / 255
        return found

    return retry_until_passes(page, last)


def test_a_data_set_goes_along_and_is_chosen_from(open_exported: Callable[..., Page]) -> None:
    page = open_exported(
        nbglcnn.Images(dataset_images(), labels=[k % 3 for k in range(40)], index=4)
    )
    wait_for_input(page, dataset_tensor(4))
    assert_equal(read_value(page, "output"), torch_output(dataset_tensor(4)))
    page.locator(".nbg-chosen-source").click()
    page.locator('.nbg-thumb[data-index="9"]').click()
    wait_for_input(page, dataset_tensor(9))
    assert_equal(read_value(page, "output"), torch_output(dataset_tensor(9)))
    expect(page.locator(".nbg-data")).to_contain_text("label 0")
    # When the source is off, its last item stays; an input run by a script of the page turns the
    # source off, too.
    page.get_by_role("button", name="Turn off").click()
    expect(page.locator(".nbg-chosen-source")).to_contain_text("Array")
    wait_for_input(page, dataset_tensor(9))
    page.locator("[data-kind=images]").click()
    expect(page.locator(".nbg-chosen-source")).to_contain_text("Data set")
    x = np.full(SHAPE, 0.25, np.float32)
    first = page.evaluate(RUN_INPUT_SCRIPT, base64.b64encode(x.tobytes()).decode())
    assert_equal(np.array(first, np.float32), torch_output(x)[:5])
    expect(page.locator(".nbg-chosen-source")).to_contain_text("Array")
    wait_for_input(page, x)


def test_the_camera_feeds_a_page_of_a_file(open_exported: Callable[..., Page]) -> None:
    page = open_exported(None)
    page.locator(".nbg-chosen-source").click()
    page.locator("[data-kind=webcam]").click()
    page.get_by_role("button", name="Start the camera").click()
    page.get_by_role("button", name="Pause the source").click()
    found = current_frame(page, mirrored=True)
    assert_equal(read_value(page, "output"), torch_output(found))


def test_a_film_of_python_plays_in_a_page(
    open_exported: Callable[..., Page], new_page: Callable[..., Page], tmp_path: Path
) -> None:
    file = tmp_path / "film.webm"
    file.write_bytes(base64.b64decode(new_page("llvmpipe").evaluate(RECORD_CANVAS_SCRIPT)))
    page = open_exported(nbglcnn.Video(file))
    seen = set()

    def plays() -> None:
        seen.add(read_value(page, "input").tobytes())
        assert len(seen) > 3, "it plays by itself"

    retry_until_passes(page, plays)
    page.locator(".nbg-chosen-source").click()
    page.get_by_role("button", name="Pause the source").click()
    current_frame(page, mirrored=False)
