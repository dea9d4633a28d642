"""Picture file gives the same numbers in a page as in Python, and as the displayed Python code."""

import base64
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image, ImageOps
from playwright.sync_api import Page, expect

import nbglcnn
from fake_camera import last_frame, pause_camera, start_camera
from nbglcnn import Images, Plan
from nbglcnn.inputs.picture_decoding import picture_array
from nbglcnn.plan.schema import Input
from picture_files import FILE_TYPES, picture_files
from polling import retry_until_passes
from source_references import average_drawing_cells, decode_data_url
from sources_page import DROP_OR_PASTE_SCRIPT, SourcesPage
from views_page import ViewsPage

ShowViews = Callable[..., ViewsPage]
PICTURE_FILES = picture_files()
INPUT_SHAPES = {
    "grey": ("float", "1,1,10,9"),
    "colours": ("float", "1,3,10,9"),
    "alpha": ("float", "1,4,10,9"),
    "bytes": ("uint8", "1,10,9,3"),
    "bytes of grey": ("uint8", "1,10,9,1"),
    "bytes, channels first": ("uint8", "1,3,10,9"),
}
# The letterboxed pictures have 1 to 9 pixels on one side of 9 or 10.
LETTERBOX_SIZES = (
    [(9, k) for k in range(1, 11)] + [(k, 10) for k in range(1, 9)] + [(90, 1), (1, 90)]
)
PYTHON_LINE_SELECTOR = ".nbg-drawer .nbg-bend-python"


def input_plan(kind: str) -> Plan:
    """A network that returns its input, of a shape with no picture file."""
    dtype, shape = INPUT_SHAPES[kind]
    return nbglcnn.compile(
        onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["" : 17]> g ({dtype}[{shape}] x) => (float[{shape}] y)'
            " { f = Cast<to=1>(x) y = Relu(f) }"
        )
    )


def python_tensor(picture_input: object, record: Input) -> np.ndarray:
    source = Images(picture_input)
    return np.asarray(source.current_input_array(record, source.open_blobs(record)), np.float32)


@pytest.mark.parametrize("kind", INPUT_SHAPES)
def test_a_file_that_is_dropped_has_pythons_numbers(
    show: ShowViews, kind: str, tmp_path: Path
) -> None:
    plan = input_plan(kind)
    [record] = plan.header.inputs
    sourced = SourcesPage(show(plan, np.zeros(record.shape, record.dtype)), plan)
    sourced.open_drawer()
    step = 1 if record.dtype == "uint8" else 1 / 255
    wrong = {}
    for name, file in PICTURE_FILES.items():
        if file.is_tiff:
            continue
        (tmp_path / name).write_bytes(file.content)
        count = sourced.input_count
        mime = FILE_TYPES[name.rpartition(".")[2]]
        words = base64.b64encode(file.content).decode()
        sourced.page.evaluate(DROP_OR_PASTE_SCRIPT, ["drop", words, name, mime])
        sourced.wait_input_count(count + 1)
        # Four-channel colours are divided by alpha, which amplifies a step of a faint colour.
        found = sourced.last_input[:, : 3 if kind == "alpha" and file.page_tolerance else None]
        wanted = python_tensor([tmp_path / name], record)[:, : found.shape[1]]
        apart = np.abs(found - wanted)
        if kind == "alpha" and file.page_tolerance:
            apart = apart * python_tensor([tmp_path / name], record)[:, 3:]
        if apart.max() > (file.page_tolerance + 0.001) * step:
            wrong[name] = apart.max() / step
        expect(sourced.page.locator(PYTHON_LINE_SELECTOR)).to_contain_text(
            f'viewer.source = nbglcnn.Images(["{name}"])'
        )
    assert wrong == {}


def test_what_the_browser_cannot_read_has_no_line_of_python(show: ShowViews) -> None:
    plan = input_plan("colours")
    sourced = SourcesPage(show(plan, np.zeros((1, 3, 10, 9), np.float32)), plan)
    sourced.open_drawer()
    for name, file in PICTURE_FILES.items():
        if not file.is_tiff:
            continue
        words = base64.b64encode(file.content).decode()
        sourced.page.evaluate(DROP_OR_PASTE_SCRIPT, ["drop", words, name, "image/tiff"])
        sourced.wait_phase("failed")
        expect(sourced.page.locator(".nbg-drawer [role=alert]")).to_contain_text(
            "This browser can’t show the picture"
        )
        expect(sourced.page.locator(PYTHON_LINE_SELECTOR)).to_have_count(0)
    assert sourced.input_count == 0


def item_thumbnail(source_views: SourcesPage, number: int) -> np.ndarray:
    """An item's thumbnail, (height, width, 3)."""
    source_views.page.wait_for_function(
        "k => views.state.sourceControls.value.itemImage(k) !== undefined", arg=number
    )
    found = source_views.page.evaluate(
        """(k) => {
          const { data, width, height } = views.state.sourceControls.value.itemImage(k);
          return [[...data], width, height];
        }""",
        number,
    )
    data, width, height = found
    return np.array(data, np.uint8).reshape(height, width, 4)[..., :3]


@pytest.mark.parametrize("kind", ["bytes", "bytes of grey", "bytes, channels first"])
def test_items_of_a_data_set_enter_an_input_of_bytes_as_bytes(show: ShowViews, kind: str) -> None:
    plan = input_plan(kind)
    [record] = plan.header.inputs
    sourced = SourcesPage(show(plan, np.zeros(record.shape, record.dtype)), plan)
    images = np.random.default_rng(5).integers(0, 256, (7, *record.shape[1:]), np.uint8)
    sourced.set_source("images", index=4, **sourced.add_dataset(images, 3))
    sourced.wait_input_count(1)
    np.testing.assert_array_equal(sourced.last_input, images[4:5].astype(np.float32))
    seen = images[4] if record.layout == "NHWC" else images[4].transpose(1, 2, 0)
    np.testing.assert_array_equal(item_thumbnail(sourced, 4), np.broadcast_to(seen, (10, 9, 3)))


@pytest.mark.parametrize("kind", ["bytes", "bytes of grey", "bytes, channels first"])
def test_a_drawing_enters_an_input_of_bytes_as_whole_numbers(show: ShowViews, kind: str) -> None:
    plan = input_plan(kind)
    [record] = plan.header.inputs
    sourced = SourcesPage(show(plan, np.zeros(record.shape, record.dtype)), plan)
    page = sourced.page
    sourced.open_drawer()
    page.locator("[data-kind=drawing]").click()
    box = page.locator(".nbg-paper canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 40, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 120, steps=4)
    page.mouse.up()
    sourced.wait_phase("still")
    page.wait_for_function("() => views.fed.told.at(-1) === true")
    url = page.evaluate("() => views.state.sourceControls.value.canvas.toDataURL()")
    channels = record.shape[3 if record.layout == "NHWC" else 1]
    wanted = np.rint(255 * average_drawing_cells(decode_data_url(url), (1, channels, 10, 9)))
    found = sourced.last_input[0]
    if record.layout == "NHWC":
        found = found.transpose(2, 0, 1)
    assert np.ptp(found) > 100
    np.testing.assert_allclose(found, wanted, atol=1)
    np.testing.assert_array_equal(found, np.rint(found))


def test_a_camera_enters_an_input_of_bytes_with_its_channels_last(show: ShowViews) -> None:
    plan = input_plan("bytes")
    sourced = SourcesPage(show(plan, np.zeros((1, 10, 9, 3), np.uint8), width=900), plan)
    start_camera(sourced)
    sourced.wait_input_count(3)
    pause_camera(sourced.page)
    frame = ImageOps.mirror(last_frame(sourced.page).convert("RGB"))
    wanted = picture_array(frame, 3, "uint8", (10, 9)).transpose(1, 2, 0)
    assert np.abs(sourced.last_input[0] - wanted).max() <= 2
    np.testing.assert_array_equal(sourced.last_input, np.rint(sourced.last_input))


def test_a_letterbox_of_any_proportions_stands_where_python_sets_it(
    show: ShowViews, tmp_path: Path
) -> None:
    """An odd remainder, half a pixel off the centre, rounds the same way in both."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,10,9] x) => (float[1,3,10,9] y) '
        "{ y = Relu(x) }"
    )
    plan = nbglcnn.compile(model, preprocess=nbglcnn.Preprocess(fit="letterbox"))
    [record] = plan.header.inputs
    sourced = SourcesPage(show(plan, np.zeros((1, 3, 10, 9), np.float32)), plan)
    sourced.open_drawer()
    random = np.random.default_rng(6)
    for number, (width, height) in enumerate(LETTERBOX_SIZES):
        file = tmp_path / f"{number}.png"
        picture = Image.fromarray(random.integers(1, 256, (height, width, 3), np.uint8))
        picture.save(file)
        words = base64.b64encode(file.read_bytes()).decode()
        sourced.page.evaluate(DROP_OR_PASTE_SCRIPT, ["drop", words, file.name, "image/png"])
        sourced.wait_input_count(number + 1)
        wanted = python_tensor([file], record)
        np.testing.assert_array_equal(sourced.last_input, wanted, err_msg=f"{width}×{height}")


READ_EXPORTED_SCRIPT = """async (key) => Array.from(await (await window.nbglcnn).read(key))"""


@pytest.mark.parametrize("name", ["rgba.png", "turned 7.webp", "p3.png"])
def test_a_file_that_is_dropped_into_an_exported_page_has_pythons_numbers(
    exported_page: Callable[..., Page], tmp_path: Path, name: str
) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,10,9] x) => (float[1,3,10,9] y) '
        "{ y = Relu(x) }"
    )
    path = nbglcnn.export_html(model, np.zeros((1, 3, 10, 9), np.float32), tmp_path / "page.html")
    page = exported_page(path, viewport={"width": 1200, "height": 900})
    page.locator(".nbg-chosen-source").click()
    file = PICTURE_FILES[name]
    (tmp_path / name).write_bytes(file.content)
    [record] = nbglcnn.compile(model).header.inputs
    wanted = python_tensor([tmp_path / name], record)
    words = base64.b64encode(file.content).decode()
    page.evaluate(DROP_OR_PASTE_SCRIPT, ["drop", words, name, FILE_TYPES[name.rpartition(".")[2]]])

    def check() -> None:
        found = np.float32(page.evaluate(READ_EXPORTED_SCRIPT, "y")).reshape(wanted.shape)
        assert np.abs(found - wanted).max() <= (file.page_tolerance + 0.001) / 255

    retry_until_passes(page, check)
