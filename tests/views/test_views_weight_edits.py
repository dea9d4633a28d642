"""Editing weights in Filters: the element of a cell, the edits sent, and the response."""

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, Locator, Page, expect
from torch import nn

import nbglcnn
from accessibility import AXE_SCRIPT, accessibility_violations
from jupyter_lab import LabServer, new_notebook
from readability import layout_faults_by_width
from viewer_models import IMPORTS_CELL, autoencoder, hook_values, pictures
from views_page import ViewsPage

ShowViews = Callable[..., ViewsPage]
SEED = 25
# A stub for Python: records requests and sends no response.
RECORD_REQUESTS_SCRIPT = """() => {
  globalThis.asked = [];
  views.state.setWeight.value = (edit) => asked.push({ ...edit, time: performance.now() });
}"""
FOCUSED_LABEL_SCRIPT = "() => document.activeElement.getAttribute('aria-label')"
# Whether the focused cell shows this number, which the page has read back from the device.
IS_CELL_VALUE_SCRIPT = """([number]) => {
  const text = document.activeElement.getAttribute('aria-label')?.split(' ')[1] ?? '';
  return Math.abs(Number(text.replace('−', '-')) - number) < 1e-6;
}"""
CELL_LABEL_PATTERN = re.compile(r"weight (?P<number>\S+) of (?P<place>.*?)(?P<edited>, edited)?$")

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "Conv1d": (lambda: nn.Conv1d(2, 3, 5), (1, 2, 20)),
    "Conv2d in groups": (lambda: nn.Conv2d(4, 6, (3, 2), groups=2), (1, 4, 9, 8)),
    "depthwise": (lambda: nn.Conv2d(5, 5, 3, groups=5), (1, 5, 8, 8)),
    "Conv3d": (lambda: nn.Conv3d(2, 3, (3, 2, 4)), (1, 2, 5, 6, 7)),
    "ConvTranspose2d in groups": (
        lambda: nn.ConvTranspose2d(4, 6, (2, 3), groups=2),
        (1, 4, 6, 5),
    ),
    "Linear": (lambda: nn.Linear(7, 5), (1, 3, 9, 7)),
}


def parse_index(layer: nn.Module, position_text: str) -> tuple[int, ...]:
    """The index into PyTorch's weight for "kernel 3, input 1, row 2, column 0"."""
    numbers = [int(text) for text in re.findall(r"\d+", position_text)]
    if isinstance(layer, nn.Linear):
        return numbers[0], numbers[1]
    output, taken, *inside = numbers
    groups = layer.groups
    assert isinstance(groups, int)
    if isinstance(layer, nn.Conv1d):
        inside = inside[1:]  # a single row
    if isinstance(layer, nn.ConvTranspose2d):
        return taken, output % (layer.out_channels // groups), *inside
    per_group = layer.in_channels // groups
    assert taken // per_group == output // (layer.out_channels // groups)
    return output, taken % per_group, *inside


def open_filters(show: ShowViews, model: nn.Module, x: torch.Tensor, layer: str) -> ViewsPage:
    """Open the Filters of a layer; requests to Python are recorded."""
    views = show(nbglcnn.compile(model.eval(), x), x.numpy())
    views.page.evaluate(RECORD_REQUESTS_SCRIPT)
    views.open_layer(layer)
    views.set(layerSection="filters")
    expect(views.page.locator("canvas[data-kernels], .nbg-bars").first).to_be_visible()
    return views


def focused_cell(page: Page) -> tuple[float, str, bool]:
    """The focused cell's label: its number, its position, and whether it was edited."""
    found = CELL_LABEL_PATTERN.match(page.evaluate(FOCUSED_LABEL_SCRIPT))
    assert found is not None, page.evaluate(FOCUSED_LABEL_SCRIPT)
    return float(found["number"].replace("−", "-")), found["place"], found["edited"] is not None


def requested_edits(page: Page) -> list[dict[str, Any]]:
    """The edits requested since the last call."""
    return list(page.evaluate("() => asked.splice(0)"))


def apply_edits(weight: torch.Tensor, edits: list[dict[str, Any]]) -> np.ndarray:
    """Apply edits to a parameter."""
    flat = weight.detach().numpy().copy().reshape(-1)
    for edit in edits:
        flat[edit["index"] : edit["index"] + len(edit["values"])] = edit["values"]
    return flat.reshape(weight.shape)


def drag_cell(
    page: Page, cell: Locator, upward_px: float, steps: int = 5, pause_ms: float = 0
) -> None:
    """Press at a cell's centre and drag up by `upward_px` pixels, with a pause half-way."""
    cell.scroll_into_view_if_needed()
    box = cell.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - upward_px / 2, steps=steps // 2)
    page.wait_for_timeout(pause_ms)
    page.mouse.move(x, y - upward_px, steps=steps // 2)
    page.mouse.up()


@pytest.mark.parametrize("name", LAYERS)
def test_each_cell_is_its_element_of_pytorchs_weight(show: ShowViews, name: str) -> None:
    torch.manual_seed(4)
    make, shape = LAYERS[name]
    layer = make()
    weight = layer.weight
    assert isinstance(weight, torch.Tensor)
    views = open_filters(show, nn.Sequential(layer, nn.ReLU()), torch.randn(shape), "0")
    page = views.page
    canvas = page.locator("canvas[data-kernels='0.weight']")
    box = canvas.bounding_box()
    assert box is not None
    random = np.random.default_rng(8)
    seen = set()
    while len(seen) < 4:
        x, y = random.uniform(0.02, 0.98, 2)
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])
        if page.locator(".nbg-tip").count() == 0:
            continue  # gap between kernels
        tip = page.locator(".nbg-tip").inner_text()
        page.mouse.down()
        page.mouse.up()
        number, place, _ = focused_cell(page)
        at = parse_index(layer, place)
        assert number == pytest.approx(float(weight[at].item()), rel=1e-5)
        assert tip.startswith(page.evaluate(FOCUSED_LABEL_SCRIPT).split(" ")[1])
        page.keyboard.press("Enter")
        page.keyboard.type("-0.375")
        page.keyboard.press("Enter")
        [edit] = requested_edits(page)
        flat = int(np.ravel_multi_index(at, weight.shape))
        assert (edit["name"], edit["index"], edit["values"]) == ("0.weight", flat, [-0.375])
        seen.add(flat)
    # Zeroes exactly the weights of this output channel.
    page.get_by_role("button", name="Zero").click()
    expected = weight.detach().numpy().copy()
    if isinstance(layer, nn.ConvTranspose2d):
        first = at[0] // 2 * 2
        expected[first : first + 2, at[1]] = 0
    else:
        expected[at[0]] = 0
    np.testing.assert_array_equal(apply_edits(weight, requested_edits(page)), expected)


def test_numbers_are_stepped_typed_and_pasted_from_the_keyboard(show: ShowViews) -> None:
    torch.manual_seed(4)
    conv, norm = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)
    views = open_filters(show, nn.Sequential(conv, norm), torch.randn(1, 2, 9, 8), "0")
    page, weight = views.page, conv.weight.detach()
    page.get_by_role("button", name="Edit 0.weight").click()
    first = page.get_by_role("gridcell").first
    first.focus()
    # A single tab stop; arrows stay in the kernel, Page keys go through all kernels.
    assert page.locator("[role=gridcell][tabindex='0']").count() == 1
    for key in ("ArrowLeft", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown", "PageDown"):
        page.keyboard.press(key)
    assert focused_cell(page)[1:] == ("kernel 0, input 1, row 1, column 2", False)
    assert views.get("selected")["layer"] == "0", "the arrows went to another layer"
    # One step is a hundredth of the colour range, with Shift a tenth of that.
    unit = 2 * float(weight.abs().max()) / 100
    now = float(weight[0, 1, 1, 2])
    page.keyboard.press("Alt+ArrowUp")
    page.keyboard.press("Alt+ArrowUp")
    page.keyboard.press("Alt+Shift+ArrowDown")
    edits = requested_edits(page)
    assert [edit["values"] for edit in edits] == [
        pytest.approx([now + by * unit], rel=1e-6) for by in (1, 2, 1.9)
    ]
    assert {edit["step"] for edit in edits} == {edits[0]["step"]}, "undone together"
    # Invalid numbers aren't sent, and the reason is shown; Esc cancels.
    field, alert = page.locator(".nbg-typed"), page.get_by_role("alert")
    for text, why in (
        ("0,5", "Use a decimal point: 0.5"),
        ("abc", "is not a number"),
        ("1e39", "3.4e38"),
    ):
        page.keyboard.press("Enter")
        page.keyboard.type(text)
        page.keyboard.press("Enter")
        expect(alert).to_contain_text(why)
        expect(field).to_have_attribute("aria-invalid", "true")
        page.keyboard.press("Escape")
        expect(field).to_have_count(0)
        expect(alert).to_have_count(0)
    assert views.get("tab") == "layer", "Esc led out of the view"
    # Paste rows of numbers, starting at the selected cell.
    paste = """text => {
      const clipboardData = new DataTransfer();
      clipboardData.setData('text/plain', text);
      const how = { clipboardData, bubbles: true, cancelable: true };
      document.activeElement.dispatchEvent(new ClipboardEvent('paste', how));
    }"""
    page.keyboard.press("ArrowLeft")
    page.evaluate(paste, "1\t2\n-3\t4e-1\n")
    expected = weight.numpy().copy()
    expected[0, 1, 1:, 1:] = [[1, 2], [-3, 0.4]]
    np.testing.assert_array_equal(apply_edits(weight, requested_edits(page)), expected)
    page.evaluate(paste, "[[1, 2, 3]]")
    expect(alert).to_contain_text("1×3 values don’t fit from row 1, column 1 of 3×3")
    page.evaluate(paste, "1, 2\n3")
    expect(alert).to_contain_text("differ in length")
    assert requested_edits(page) == []
    # A digit starts typing.
    page.keyboard.type("-25")
    page.keyboard.press("Enter")
    assert [edit["values"] for edit in requested_edits(page)] == [[-25]]
    # A factor multiplies the weights that the filter had before the typing began.
    factor = page.get_by_label("Factor of Filter 0")
    factor.press("ControlOrMeta+a")
    factor.press("-")
    page.evaluate("() => { const { run } = views.state; run.value = { ...run.value }; }")
    views.wait_idle()
    factor.press("2")
    expect(factor).to_have_value("-2")
    factor.press("Enter")
    expected = weight.numpy().copy()
    expected[0] *= -2
    np.testing.assert_array_equal(apply_edits(weight, requested_edits(page)), expected)
    # One number per channel.
    page.get_by_role("button", name="Edit 0.bias").click()
    page.get_by_role("grid", name="Bias").get_by_role("gridcell").nth(2).dblclick()
    page.keyboard.type("7")
    page.keyboard.press("Enter")
    [edit] = requested_edits(page)
    assert (edit["name"], edit["index"], edit["values"]) == ("0.bias", 2, [7])


def test_a_drag_waits_for_the_numbers_of_its_last_edit(show: ShowViews) -> None:
    torch.manual_seed(4)
    conv = nn.Conv2d(1, 2, 3)
    views = open_filters(show, nn.Sequential(conv, nn.ReLU()), torch.randn(1, 1, 9, 8), "0")
    page = views.page
    page.get_by_role("button", name="Edit 0.weight").click()
    cell = page.get_by_role("gridcell").nth(4)
    drag_cell(page, cell, 40, steps=40)
    edits = requested_edits(page)
    # No response arrives: each edit waits 0.4 s at most, and the last one was sent.
    assert 1 <= len(edits) <= 8
    times = [edit["time"] for edit in edits]
    assert all(after - before > 350 for before, after in pairwise(times[:-1]))
    start = float(conv.weight[0, 0, 1, 1].item())
    unit = 2 * float(conv.weight.abs().max().item()) / 100
    assert edits[-1]["values"] == pytest.approx([start + 40 * unit], rel=1e-5)
    assert len({edit["step"] for edit in edits}) == 1
    # A click changes nothing.
    cell.click()
    assert requested_edits(page) == []
    # With Shift a tenth as fast, from the current value.
    page.keyboard.down("Shift")
    drag_cell(page, cell, 40)
    page.keyboard.up("Shift")
    edits = requested_edits(page)
    assert edits[-1]["values"] == pytest.approx([start + 44 * unit], rel=1e-5)
    # A slider scales all weights of a filter, in one undo step.
    weight = conv.weight.detach().numpy()
    page.get_by_role("slider", name="Scale Filter 0").fill("0.5")
    edits = requested_edits(page)
    assert len({edit["step"] for edit in edits}) == 1
    expected = weight.copy()
    expected[0] *= 0.5
    np.testing.assert_allclose(apply_edits(conv.weight, edits), expected, rtol=1e-6)
    # Touching a number doesn't scroll the page; touching the small picture does.
    how = "one => getComputedStyle(one).touchAction"
    assert cell.evaluate(how) == "none"
    assert page.locator("canvas[data-kernels]").evaluate(how) == "auto"


def test_without_python_weights_are_shown_and_not_changed(show: ShowViews) -> None:
    torch.manual_seed(4)
    conv = nn.Conv2d(1, 2, 3)
    views = open_filters(show, nn.Sequential(conv, nn.ReLU()), torch.randn(1, 1, 9, 8), "0")
    page = views.page
    views.set(setWeight=None)
    page.get_by_role("button", name="Edit 0.weight").click()
    expect(page.locator(".nbg-weight-editor")).to_contain_text("Editing weights requires Python.")
    cell = page.get_by_role("gridcell").nth(4)
    drag_cell(page, cell, 40)
    cell.dblclick()
    expect(page.locator(".nbg-typed")).to_have_count(0)
    assert focused_cell(page)[0] == pytest.approx(float(conv.weight[0, 0, 1, 1].item()), rel=1e-5)
    assert requested_edits(page) == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_numbers_break_no_serious_rule_of_accessibility_and_can_be_read(
    show: ShowViews, sweep_widths: Callable[..., tuple[int, ...]], theme: str
) -> None:
    model = autoencoder(SEED)
    views = open_filters(show, model, torch.from_numpy(pictures(SEED)), "encoder.3")
    page = views.page
    page.add_script_tag(path=str(AXE_SCRIPT))
    page.evaluate("light => { document.body.dataset.jpThemeLight = light; }", theme == "light")
    for key in ("weight", "bias"):
        page.get_by_role("button", name=f"Edit encoder.3.{key}").click()
    page.get_by_role("gridcell").first.dblclick()
    page.keyboard.type("x")
    page.keyboard.press("Enter")
    for width in (1200, 420):
        page.set_viewport_size({"width": width, "height": 1000})
        views.wait_idle()
        assert accessibility_violations(page, theme) == [], width
    assert layout_faults_by_width(page, sweep_widths(620 if theme == "light" else 848)) == {}


def test_python_has_what_is_dragged_and_undo_brings_every_bit_back(
    lab: LabServer, browser: Callable[[str], Browser]
) -> None:
    with new_notebook(lab, browser("llvmpipe")) as notebook:
        notebook.run(
            IMPORTS_CELL
            + f"model, x = autoencoder({SEED}), pictures({SEED})\nviewer = Viewer(model, x)\nviewer"
        )
        notebook.run("viewer.show('encoder.3', view='filters')")
        page = notebook.page
        before = autoencoder(SEED).state_dict()
        name = "encoder.3.weight"
        weight = before[name].numpy()

        def same_as_pytorch(state: dict[str, torch.Tensor]) -> None:
            """Python's weights equal these bit for bit, and the output is PyTorch's with them."""
            given = "{k: v.numpy() for k, v in viewer.state_dict().items()}"
            found = notebook.read_array(given)
            for key, value in state.items():
                np.testing.assert_array_equal(found[key], value.numpy(), err_msg=key)
            model = autoencoder(SEED)
            model.load_state_dict(state)
            expected = hook_values(model, pictures(SEED))["output"]
            np.testing.assert_allclose(
                notebook.read_array("viewer.output"), expected, rtol=0, atol=1e-5
            )

        page.get_by_role("button", name=f"Edit {name}").click()
        cell = page.get_by_role("gridcell").nth(4)
        # Longer than the maximum gap between keys of one step.
        drag_cell(page, cell, 30, steps=15, pause_ms=1200)
        changed = page.locator(".nbg-weight-edited", has_text="weights changed")
        expect(changed).to_have_text(f"1 of {weight.size} weights changed")
        expect(page.locator("canvas[data-corners='1']")).to_have_count(1)
        dragged = weight[0, 0, 1, 1] + 30 * 2 * np.abs(weight).max() / 100
        page.wait_for_function(IS_CELL_VALUE_SCRIPT, arg=[float(dragged)])
        assert focused_cell(page)[1:] == ("kernel 0, input 0, row 1, column 1", True)
        state = {key: value.clone() for key, value in before.items()}
        state[name][0, 0, 1, 1] = torch.from_numpy(
            notebook.read_array(f"viewer.state_dict()['{name}'].numpy()")
        )[0, 0, 1, 1]
        assert state[name][0, 0, 1, 1].item() == pytest.approx(float(dragged), rel=1e-6)
        same_as_pytorch(state)

        cell.focus()  # the notebook's cells had the focus
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        page.keyboard.type("0.25")
        page.keyboard.press("Enter")
        expect(changed).to_have_text(f"2 of {weight.size} weights changed")
        state[name][0, 0, 1, 2] = 0.25
        page.get_by_role("button", name="Zero").click()
        expect(changed).to_have_text(f"{weight[0].size} of {weight.size} weights changed")
        zeroed = {key: value.clone() for key, value in state.items()}
        zeroed[name][0] = 0
        same_as_pytorch(zeroed)
        page.get_by_role("button", name="Undo").click()
        expect(changed).to_have_text(f"2 of {weight.size} weights changed")
        same_as_pytorch(state)
        # A slider scales the whole filter, and one click restores its state before all edits.
        page.get_by_role("slider", name="Scale Filter 0").fill("0.5")
        expect(changed).to_have_text(f"{weight[0].size} of {weight.size} weights changed")
        scaled = {key: value.clone() for key, value in state.items()}
        scaled[name][0] *= 0.5
        same_as_pytorch(scaled)
        page.get_by_role("button", name="Reset").click()
        expect(changed).to_have_count(0)
        same_as_pytorch(before)
        for _ in range(2):
            page.get_by_role("button", name="Undo").click()
        expect(changed).to_have_text(f"2 of {weight.size} weights changed")
        same_as_pytorch(state)
        # A whole drag is one undo step.
        cell.focus()
        page.keyboard.press("Control+z")
        page.keyboard.press("Control+z")
        expect(changed).to_have_count(0)
        expect(page.get_by_role("button", name="Undo")).to_be_disabled()
        same_as_pytorch(before)
        page.get_by_role("button", name="Redo").click()
        expect(changed).to_have_text(f"1 of {weight.size} weights changed")
        # Newly loaded weights aren't edits, and earlier edits can no longer be undone.
        notebook.run(f"viewer.load_state_dict(autoencoder({SEED + 4}).state_dict())")
        expect(changed).to_have_count(0)
