"""A picture file has the same numbers in a page as in Python, and the line of Python gives them."""

import base64
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from playwright.sync_api import expect

import nbglcnn
from nbglcnn import Images, Plan
from nbglcnn.plan import Input
from picture_files import FILE_TYPES, files
from sourced import Sourced
from test_data_sets import GIVE
from views_page import Views

Show = Callable[..., Views]
FILES = files()
SHAPES = {
    "grey": ("float", "1,1,10,9"),
    "colours": ("float", "1,3,10,9"),
    "alpha": ("float", "1,4,10,9"),
    "bytes": ("uint8", "1,10,9,3"),
    "bytes of grey": ("uint8", "1,10,9,1"),
    "bytes, channels first": ("uint8", "1,3,10,9"),
}
LINE = ".nbg-drawer .nbg-bend-python"


def plan_of(kind: str) -> Plan:
    """Passes on what enters, of a shape that no file has."""
    dtype, shape = SHAPES[kind]
    return nbglcnn.compile(
        onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["" : 17]> g ({dtype}[{shape}] x) => (float[{shape}] y)'
            " { f = Cast<to=1>(x) y = Relu(f) }"
        )
    )


def in_python(given: object, record: Input) -> np.ndarray:
    source = Images(given)
    return np.asarray(source.tensor(record, source.blobs(record)), np.float32)


@pytest.mark.parametrize("kind", SHAPES)
def test_a_file_that_is_dropped_has_pythons_numbers(show: Show, kind: str, tmp_path: Path) -> None:
    plan = plan_of(kind)
    [record] = plan.header.inputs
    sourced = Sourced(show(plan, np.zeros(record.shape, record.dtype)), plan)
    sourced.open()
    step = 1 if record.dtype == "uint8" else 1 / 255
    wrong = {}
    for name, file in FILES.items():
        if file.tiff:
            continue
        (tmp_path / name).write_bytes(file.content)
        count = sourced.count
        mime = FILE_TYPES[name.rpartition(".")[2]]
        words = base64.b64encode(file.content).decode()
        sourced.page.evaluate(GIVE, ["drop", words, name, mime])
        sourced.wait(count + 1)
        # Colours of four channels are divided by alpha, which makes a step of a faint one many.
        found = sourced.tensor[:, : 3 if kind == "alpha" and file.page_steps else None]
        wanted = in_python([tmp_path / name], record)[:, : found.shape[1]]
        apart = np.abs(found - wanted)
        if kind == "alpha" and file.page_steps:
            apart = apart * in_python([tmp_path / name], record)[:, 3:]
        if apart.max() > (file.page_steps + 0.001) * step:
            wrong[name] = apart.max() / step
        expect(sourced.page.locator(LINE)).to_contain_text(
            f'viewer.source = nbglcnn.Images(["{name}"])'
        )
    assert wrong == {}


def test_what_the_browser_cannot_read_has_no_line_of_python(show: Show) -> None:
    plan = plan_of("colours")
    sourced = Sourced(show(plan, np.zeros((1, 3, 10, 9), np.float32)), plan)
    sourced.open()
    for name, file in FILES.items():
        if not file.tiff:
            continue
        words = base64.b64encode(file.content).decode()
        sourced.page.evaluate(GIVE, ["drop", words, name, "image/tiff"])
        sourced.wait_phase("failed")
        expect(sourced.page.locator(".nbg-drawer [role=alert]")).to_contain_text(
            "This browser cannot show the picture"
        )
        expect(sourced.page.locator(LINE)).to_have_count(0)
    assert sourced.count == 0
