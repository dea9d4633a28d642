"""Exported pages that train: opened from disk with the network off, compared with PyTorch."""

import base64
import copy
import json
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from playwright.sync_api import Page, expect
from torch import nn
from torch.nn import functional as F

import nbglcnn
from assertions import assert_equal
from nbglcnn.errors import InputError
from nbglcnn.features.edits.records import Edit, edits_to_dicts
from nbglcnn.features.export.export import PAGE_SCRIPT_PATH
from onnx_models import randn, small_model
from polling import retry_until_passes
from training_checks import train_in_torch
from webgl_page import DISABLE_FLOAT32_SCRIPT

SEED = 7
# Encodes an array in the page as base64 of its bytes.
ENCODE_BASE64_SCRIPT = """(data) => {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
}"""
SET_PAGE_HIDDEN_SCRIPT = """(hidden) => {
  Object.defineProperty(document, 'hidden', { get: () => hidden, configurable: true });
  document.dispatchEvent(new Event('visibilitychange'));
}"""
KEEP_GL_CONTEXT_SCRIPT = """
const get = OffscreenCanvas.prototype.getContext;
OffscreenCanvas.prototype.getContext = function (...a) { return (window.gl = get.apply(this, a)); };
"""
LOSE_CONTEXT_SCRIPT = """async () => {
  const lose = window.gl.getExtension('WEBGL_lose_context');
  lose.loseContext();
  await new Promise((done) => setTimeout(done, 300));
  lose.restoreContext();
}"""


def network() -> nn.Module:
    """A classifier of ten classes for pictures of 14 by 14."""
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(8 * 49, 10),
    ).eval()  # fmt: skip


def examples() -> tuple[np.ndarray, np.ndarray]:
    """Sixty pictures; each class has a line at a different height."""
    x = np.random.default_rng(3).integers(0, 256, (60, 1, 14, 14), np.uint8)
    y = np.arange(60) % 10
    x[np.arange(60), 0, y, 3:9] = 255
    return x, y


X, Y = examples()
FLOAT_EXAMPLES = X.astype(np.float32) / 255
SGD = nbglcnn.SGD(0.05, momentum=0.9)
TRAIN_OPTIONS: dict[str, Any] = {
    "data": (X, Y), "loss": "cross_entropy", "optimizer": SGD, "batch_size": 16,
    "shuffle": False, "held_out": 0.2,
}  # fmt: skip


def reinitialized(model: nn.Module) -> nn.Module:
    """A copy with reinitialized weights."""
    copied = copy.deepcopy(model)
    torch.manual_seed(SEED)
    for module in copied.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    return copied


@pytest.fixture(scope="module")
def exported_pages(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Pages of the same network and data, by their initial weights."""
    folder = tmp_path_factory.mktemp("trains")
    found = {}
    for weights in ("given", "random"):
        train = {**TRAIN_OPTIONS, "weights": weights, "seed": SEED}
        path = folder / f"{weights}.html"
        found[weights] = nbglcnn.export_html(network(), FLOAT_EXAMPLES[:2], path, train=train)
    return found


@pytest.fixture
def open_offline(exported_page: Callable[..., Page]) -> Callable[..., Page]:
    """`exported_page` with a viewport of 1300×1000."""
    return partial(exported_page, viewport={"width": 1300, "height": 1000})


def evaluate_json(page: Page, expression: str) -> Any:
    """The result of an expression on the page's promise `webgl_page`, or its error message."""
    return page.evaluate(
        f"""async () => {{
          const page = await window.nbglcnn;
          try {{ return await ({expression}); }} catch (error) {{ return error.message; }}
        }}"""
    )


def evaluate_array(page: Page, expression: str) -> np.ndarray:
    """The result of an expression, as an array of float32."""
    text = evaluate_json(page, f"(async () => ({ENCODE_BASE64_SCRIPT})(await {expression}))()")
    return np.frombuffer(base64.b64decode(text), np.float32)


def download_weights(page: Page, path: Path) -> dict[str, torch.Tensor]:
    """Save the weights file that a page provides, and load it with PyTorch."""
    text = evaluate_json(page, f"(async () => ({ENCODE_BASE64_SCRIPT})(await page.weights()))()")
    path.write_bytes(base64.b64decode(text))
    return safetensors.torch.load_file(path)


def wait_for_steps(page: Page, condition: Callable[[int], bool]) -> None:
    """Wait until the number of steps satisfies `condition`."""
    end = time.monotonic() + 20
    while not condition(evaluate_json(page, "page.losses.length")):
        assert time.monotonic() < end
        page.wait_for_timeout(50)


def open_training_tab(page: Page) -> None:
    """Open the Train tab, and wait for its first state."""
    evaluate_json(page, "page.show({ name: 'train' })")
    expect(page.locator(".nbg-train[data-phase=paused]")).to_be_visible()


@pytest.mark.parametrize("weights", ["given", "random"])
def test_twelve_steps_are_pytorchs_and_the_weights_load_there(
    open_offline: Callable[..., Page],
    exported_pages: Mapping[str, Path],
    tmp_path: Path,
    weights: str,
) -> None:
    page = open_offline(exported_pages[weights])
    begun = network() if weights == "given" else reinitialized(network())
    assert evaluate_json(page, "page.losses.length") == 0
    assert_equal(evaluate_array(page, "page.read('5.weight')").reshape(10, 392),
                 begun[5].weight.detach().numpy(), rtol=0)  # fmt: skip
    assert evaluate_json(page, "page.step(12)") is None
    right = train_in_torch(
        begun, torch.from_numpy(FLOAT_EXAMPLES[:48]), torch.from_numpy(Y[:48]), F.cross_entropy,
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9), steps=12, size=16,
    )  # fmt: skip
    np.testing.assert_allclose(evaluate_array(page, "page.losses"), right.losses, rtol=1e-4)
    state = download_weights(page, tmp_path / "page.safetensors")
    for name, tensor in right.model.state_dict().items():
        if "num_batches" not in name:
            np.testing.assert_allclose(state[name], tensor, atol=2e-4, err_msg=name)
    model = network()
    model.load_state_dict(state)
    assert_equal(evaluate_array(page, "page.read('5.weight')").reshape(10, 392),
                 state["5.weight"].numpy(), rtol=0)  # fmt: skip
    text = base64.b64encode(FLOAT_EXAMPLES[10:12].tobytes()).decode()
    output = evaluate_array(
        page,
        f"page.run(new Float32Array(Uint8Array.from(atob('{text}'), "
        "(c) => c.charCodeAt(0)).buffer))",
    )
    with torch.no_grad():
        expected = model(torch.from_numpy(FLOAT_EXAMPLES[10:12])).numpy()
    assert np.abs(output.reshape(2, 10) - expected).max() <= 1e-5 * np.abs(expected).max()
    evaluate_json(page, "page.step(1)")  # the input that was run has no effect on training
    assert evaluate_json(page, "page.losses.length") == 13


def test_what_the_reader_bends_is_learned_from(
    open_offline: Callable[..., Page], exported_pages: Mapping[str, Path]
) -> None:
    page = open_offline(exported_pages["given"])
    factors: list[float] = []

    def prepared(model: nn.Module) -> None:
        def bent(_: nn.Module, __: object, value: torch.Tensor) -> torch.Tensor:
            change = torch.zeros_like(value)
            factor = 1.0 if len(factors) < 3 else 0.25
            change[:, [1, 6]] = (value[:, [1, 6]] * (factor - 1)).detach()
            factors.append(factor)
            return value + change

        model.train()
        model[2].register_forward_hook(bent)

    right = train_in_torch(
        network(), torch.from_numpy(FLOAT_EXAMPLES[:48]), torch.from_numpy(Y[:48]), F.cross_entropy,
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9), steps=8, size=16, prepared=prepared,
    )  # fmt: skip
    evaluate_json(page, "page.step(3)")
    edit = Edit(layer="2", name="less", transform="multiply", parameters=(0.25,), channels=(1, 6))
    page.get_by_role("tab", name="Train").click()
    ticks = page.locator(".nbg-chart-mark")
    expect(ticks).to_have_count(0)
    assert evaluate_json(page, f"page.edit({json.dumps(edits_to_dicts([edit]))})") is None
    expect(ticks).to_have_count(2)  # one on each of the two curves
    evaluate_json(page, "page.step(5)")
    np.testing.assert_allclose(evaluate_array(page, "page.losses"), right.losses, rtol=2e-4)


def test_drawing_weights_changes_neither_the_model_nor_the_process(tmp_path: Path) -> None:
    model = network()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    torch.manual_seed(11)
    state = torch.get_rng_state()
    viewer = nbglcnn.Viewer(model, FLOAT_EXAMPLES[:2])
    train = {**TRAIN_OPTIONS, "weights": "random", "seed": SEED}
    viewer.to_html(tmp_path / "page.html", train=train)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one, before[name]) for name, one in model.state_dict().items())
    own = viewer.state_dict()
    assert all(torch.equal(one, before[name]) for name, one in own.items())
    viewer.close()


def test_it_runs_pauses_steps_and_begins_again(
    open_offline: Callable[..., Page], exported_pages: Mapping[str, Path]
) -> None:
    page = open_offline(exported_pages["given"])
    tab = page.locator(".nbg-train")
    page.get_by_role("tab", name="Train").click()
    expect(page.locator(".nbg-train[data-phase=paused]")).to_be_visible()
    expect(tab.locator("[data-now]")).to_contain_text("step 0")
    before = evaluate_array(page, "page.read('5.weight')")
    tab.get_by_role("button", name="Run", exact=True).click()
    wait_for_steps(page, lambda n: n > 5)
    now = evaluate_array(page, "page.read('5.weight')")
    assert np.abs(now - before).max() > 1e-3
    tab.get_by_role("button", name="Pause").click()
    expect(page.locator(".nbg-train[data-phase=paused]")).to_be_visible()
    count = evaluate_json(page, "page.losses.length")
    tab.get_by_role("button", name="Step").click()
    wait_for_steps(page, lambda n: n == count + 1)
    expect(tab.get_by_role("button", name="Resume")).to_be_enabled()
    # With a learning rate of 0 nothing is learned.
    rate = tab.get_by_role("textbox", name="Learning rate")
    rate.fill("0")
    rate.press("Enter")
    still = evaluate_array(page, "page.read('5.weight')")
    evaluate_json(page, "page.step(2)")
    assert_equal(evaluate_array(page, "page.read('5.weight')"), still, rtol=0)
    tab.get_by_role("button", name="Reset").click()
    expect(tab.locator("[data-now]")).to_contain_text("step 0")
    expect(page.locator(".nbg-train[data-phase=paused]")).to_be_visible()
    assert_equal(evaluate_array(page, "page.read('5.weight')"), before, rtol=0)
    assert evaluate_json(page, "page.losses.length") == 0
    # Controls that need Python are disabled, and their text says so.
    tab.locator(".nbg-train-settings > button").click()
    settings = tab.locator(".nbg-train-popover")
    expect(settings).to_contain_text("requires Python")
    expect(settings.get_by_role("spinbutton")).to_be_disabled()
    for box in settings.get_by_role("checkbox").all():
        expect(box).to_be_disabled()
    expect(page.locator("body")).not_to_contain_text("viewer.")


def test_a_checkpoint_is_looked_at_and_gone_back_to(
    open_offline: Callable[..., Page], exported_pages: Mapping[str, Path], tmp_path: Path
) -> None:
    page = open_offline(exported_pages["given"])
    first = evaluate_array(page, "page.read('5.weight')")
    shown = evaluate_array(page, "page.read('output')")
    evaluate_json(page, "page.step(8)")
    losses = evaluate_array(page, "page.losses")
    open_training_tab(page)
    assert np.abs(evaluate_array(page, "page.read('output')") - shown).max() > 1e-2
    row = page.locator(".nbg-checkpoints [role=option]")
    row.first.click()
    expect(page.get_by_text("all views show step 0")).to_be_visible()
    assert_equal(evaluate_array(page, "page.read('5.weight')"), first, rtol=0)
    assert_equal(evaluate_array(page, "page.read('output')"), shown, rtol=1e-5)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save weights").click()
    assert download.value.suggested_filename.endswith("step-0.safetensors")
    download.value.save_as(tmp_path / "first.safetensors")
    state = safetensors.torch.load_file(tmp_path / "first.safetensors")
    assert torch.equal(state["5.weight"], network()[5].weight)
    page.get_by_role("button", name="Go back to this one").click()
    expect(page.get_by_text("branch 1").first).to_be_visible()
    evaluate_json(page, "page.step(8)")
    np.testing.assert_allclose(evaluate_array(page, "page.losses"), losses, rtol=1e-6)


def test_a_hidden_page_pauses_and_a_lost_context_goes_on_from_the_last_state(
    open_offline: Callable[..., Page], exported_pages: Mapping[str, Path]
) -> None:
    page = open_offline(exported_pages["given"], script=KEEP_GL_CONTEXT_SCRIPT)
    open_training_tab(page)
    evaluate_json(page, "page.step(3)")
    # The context is restored while training is paused, too.
    learned, output = (
        evaluate_array(page, f"page.read('{key}')") for key in ("5.weight", "output")
    )
    page.evaluate(LOSE_CONTEXT_SCRIPT)
    expect(page.locator(".nbg-train-now")).to_contain_text("training continues from step 3")
    expect(page.locator(".nbg-phase-ready")).to_be_visible()
    assert_equal(evaluate_array(page, "page.read('5.weight')"), learned, rtol=0)
    retry_until_passes(
        page, lambda: assert_equal(evaluate_array(page, "page.read('output')"), output, rtol=1e-6)
    )
    evaluate_json(page, "page.train()")
    wait_for_steps(page, lambda n: n > 6)
    page.evaluate(SET_PAGE_HIDDEN_SCRIPT, True)
    expect(page.locator(".nbg-train[data-phase=hidden]")).to_be_visible()
    count = evaluate_json(page, "page.losses.length")
    page.wait_for_timeout(300)
    assert evaluate_json(page, "page.losses.length") <= count + 1  # plus the step in flight
    page.evaluate(SET_PAGE_HIDDEN_SCRIPT, False)
    expect(page.locator(".nbg-train[data-phase=running]")).to_be_visible()
    page.evaluate(LOSE_CONTEXT_SCRIPT)
    # The first context loss was at step 3 too; no step is lost if the last one was just saved.
    again = re.compile(r"continues from step (?:(?!3\b)\d+|3; the (?:step|\d+ steps) after)")
    expect(page.locator(".nbg-train-now")).to_contain_text(again)
    count = evaluate_json(page, "page.losses.length")
    wait_for_steps(page, lambda n: n > count + 3)
    evaluate_json(page, "page.pause()")
    right = train_in_torch(
        network(), torch.from_numpy(FLOAT_EXAMPLES[:48]), torch.from_numpy(Y[:48]), F.cross_entropy,
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9),
        steps=evaluate_json(page, "page.losses.length"), size=16,
    )  # fmt: skip
    np.testing.assert_allclose(evaluate_array(page, "page.losses"), right.losses, rtol=1e-3)


def test_it_ends_where_it_was_told_to(open_offline: Callable[..., Page], tmp_path: Path) -> None:
    train = {**TRAIN_OPTIONS, "steps": 4, "optimizer": nbglcnn.Adam(lambda step: 0.01 / (step + 1))}
    lesson = [{"text": "## It learns", "view": {"name": "train"}}]
    path = tmp_path / "a.html"
    nbglcnn.export_html(network(), FLOAT_EXAMPLES[:2], path, steps=lesson, train=train)
    page = open_offline(path, script=KEEP_GL_CONTEXT_SCRIPT)
    expect(page.locator(".nbg-train[data-phase=paused]")).to_be_visible()
    assert not [
        key for key in evaluate_json(page, "page.keys") if "train" in key or "evaluate" in key
    ]
    evaluate_json(page, "page.train()")
    expect(page.locator(".nbg-train[data-phase=stopped]")).to_be_visible()
    assert evaluate_json(page, "page.losses.length") == 4
    learned = evaluate_array(page, "page.read('5.weight')")
    page.evaluate(LOSE_CONTEXT_SCRIPT)
    expect(page.locator(".nbg-train-now")).to_contain_text("the weights are those of step 4")
    assert_equal(evaluate_array(page, "page.read('5.weight')"), learned, rtol=0)
    expect(page.locator(".nbg-train-now")).to_contain_text("Stopped. Reset starts again.")
    assert "reset() begins again" in evaluate_json(page, "page.step(1)")
    page.get_by_role("button", name="Reset").click()
    expect(page.locator(".nbg-train[data-phase=paused]")).to_be_visible()
    assert evaluate_json(page, "page.step(2)") is None
    right = train_in_torch(
        network(), torch.from_numpy(FLOAT_EXAMPLES[:48]), torch.from_numpy(Y[:48]), F.cross_entropy,
        lambda p: torch.optim.Adam(p, 0.01), steps=2, size=16, rate=lambda step: 0.01 / (step + 1),
    )  # fmt: skip
    np.testing.assert_allclose(evaluate_array(page, "page.losses"), right.losses, rtol=1e-4)


CURRENT_PICTURES_SCRIPT = """() => [...document.querySelectorAll('.nbg-checkpoint-now canvas')].map(
  (canvas) => canvas.toDataURL())"""
LAST_CHECKPOINT_PICTURES_SCRIPT = """() => [...document.querySelectorAll(
  '.nbg-checkpoint-rows > :last-child canvas')].map((canvas) => canvas.toDataURL())"""


@pytest.mark.parametrize("how", ["train", "step"])
def test_what_was_out_of_sight_while_it_trained_shows_the_last_step(
    open_offline: Callable[..., Page], tmp_path: Path, how: str
) -> None:
    train = {**TRAIN_OPTIONS, **({"steps": 6} if how == "train" else {})}
    path = tmp_path / "a.html"
    nbglcnn.export_html(network(), FLOAT_EXAMPLES[:2], path, train=train)
    page = open_offline(path)
    open_training_tab(page)
    evaluate_json(page, "page.step(1)")
    page.get_by_label("Layer of the checkpoints").select_option(index=0)
    first = page.evaluate(CURRENT_PICTURES_SCRIPT)
    page.evaluate("() => { document.body.style.paddingTop = '9000px'; scrollTo(0, 0); }")
    page.wait_for_function(
        "() => document.querySelector('.nbglcnn').getBoundingClientRect().y > 5e3"
    )
    evaluate_json(page, "page.train()" if how == "train" else "page.step(5)")
    phase = "stopped" if how == "train" else "paused"
    expect(page.locator(f".nbg-train[data-phase={phase}]")).to_have_count(1)
    assert evaluate_json(page, "page.losses.length") == 6
    learned = evaluate_array(page, "page.read('0.weight')")
    page.evaluate("() => { document.body.style.paddingTop = '0'; }")
    page.locator(".nbg-checkpoint-now").scroll_into_view_if_needed()
    last = page.evaluate(LAST_CHECKPOINT_PICTURES_SCRIPT)
    retry_until_passes(page, lambda: _assert_same(page.evaluate(CURRENT_PICTURES_SCRIPT), last))
    assert len(last) > 1 and page.evaluate(CURRENT_PICTURES_SCRIPT) != first
    expect(page.locator(".nbg-checkpoint-now .nbg-answer")).not_to_have_count(0)
    # The gradients are restored too, as are the update ratios of the last step.
    captions = page.locator(".nbg-learning figcaption").all_inner_texts()
    gradient = [text for text in captions if text.startswith("gradient")]
    assert gradient and not any("all 0" in text for text in gradient)
    expect(page.locator("[data-line=ratios]")).to_be_visible()
    assert np.isfinite(learned).all()


def _assert_same(a: list[str], b: list[str]) -> None:
    assert a == b


def test_a_device_of_16_bits_says_why_it_cannot_train_and_shows_the_rest(
    open_offline: Callable[..., Page], exported_pages: Mapping[str, Path]
) -> None:
    page = open_offline(exported_pages["given"], script=f"({DISABLE_FLOAT32_SCRIPT})();")
    with torch.no_grad():
        expected = network()(torch.from_numpy(FLOAT_EXAMPLES[:2])).numpy()
    assert_equal(evaluate_array(page, "page.read('output')").reshape(2, 10), expected, rtol=2e-2)
    page.get_by_role("tab", name="Train").click()
    expect(page.locator(".nbg-train")).to_contain_text("This device supports only float16 values")
    expect(page.locator(".nbg-train-controls")).to_have_count(0)
    assert "only float16 values" in evaluate_json(page, "page.train()")
    page.get_by_role("tab", name="Network").click()
    expect(page.locator(".nbg-picture").first).to_be_visible()


def test_a_page_without_training_has_nothing_of_it(
    open_offline: Callable[..., Page], tmp_path: Path
) -> None:
    path = nbglcnn.export_html(network(), FLOAT_EXAMPLES[:2], tmp_path / "page.html")
    text = path.read_text("utf-8")
    assert PAGE_SCRIPT_PATH.read_text("utf-8").strip() in text
    # The Plan, the input, and samples of the layers.
    assert text.count('<script type="application/octet-stream"') == 3
    page = open_offline(path)
    assert "without train=" in evaluate_json(page, "page.train()")
    assert "unknown view train" in evaluate_json(page, "page.show({ name: 'train' })")
    tabs = page.locator(".nbg-tabs [role=tab]")
    expect(tabs).to_have_text(["Network", "Layer", "Profile"])
    expect(page.locator(".nbg-train-controls")).to_have_count(0)
    with pytest.raises(InputError, match="the view 'train' needs a page that trains"):
        nbglcnn.export_html(
            network(), FLOAT_EXAMPLES[:2], path, steps=[{"view": {"name": "train"}}]
        )


class PartlyTrained(nn.Module):
    """Has parameters that forward never reads, and frozen ones that are folded."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.line, self.spare = nn.Linear(4 * 144, 10), nn.Linear(3, 3)
        self.one, self.other = nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(3, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps = torch.relu(self.norm(self.conv(x))).flatten(1)
        return self.line(maps) + (self.one @ self.other).sum()


def test_the_file_has_all_of_the_state_dict(
    open_offline: Callable[..., Page], tmp_path: Path
) -> None:
    torch.manual_seed(5)
    model = PartlyTrained().eval()
    train = {**TRAIN_OPTIONS, "parameters": ["line"]}
    page = open_offline(
        nbglcnn.export_html(model, FLOAT_EXAMPLES[:2], tmp_path / "a.html", train=train)
    )
    evaluate_json(page, "page.step(3)")
    state = download_weights(page, tmp_path / "a.safetensors")
    own = model.state_dict()
    assert state.keys() == own.keys()
    other = PartlyTrained().eval()
    other.load_state_dict(state)
    for name in own:
        assert torch.equal(state[name], own[name]) is not name.startswith(("line", "norm.running"))
    with torch.no_grad():
        expected = other(torch.from_numpy(FLOAT_EXAMPLES[:2])).numpy()
    found = evaluate_array(page, "page.read('output')").reshape(2, 10)
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


def test_a_viewer_writes_the_training_that_it_was_given(
    open_offline: Callable[..., Page], tmp_path: Path
) -> None:
    viewer = nbglcnn.Viewer(network(), FLOAT_EXAMPLES[:2])
    with pytest.raises(InputError, match=r"train=True: this Viewer has no training"):
        viewer.to_html(tmp_path / "page.html", train=True)
    viewer.train((X, Y), "cross_entropy", SGD, 16, steps=2, shuffle=False)
    now = viewer.state_dict()["5.weight"].numpy()
    page = open_offline(viewer.to_html(tmp_path / "page.html", train=True))
    assert_equal(evaluate_array(page, "page.read('5.weight')").reshape(10, 392), now, rtol=0)
    evaluate_json(page, "page.train()")
    opened_text = page.locator(".nbg-tabs [role=tab]")
    expect(opened_text).to_have_text(["Network", "Layer", "Train", "Profile"])
    wait_for_steps(page, lambda n: n == 2)
    viewer.close()


class UnownedParameter(nn.Module):
    """Has a parameter outside of any module."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.scale = nn.Conv2d(1, 1, 3, padding=1), nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x) * self.scale


@pytest.mark.parametrize(
    ("train", "options", "words"),
    [
        ({"lr": 0.1}, {}, "train: unknown key 'lr'"),
        ({"weights": "zero"}, {}, "weights='zero'; expected \"given\""),
        ({"seed": -1}, {}, "seed=-1; expected an integer"),
        ({"loss": "hinge"}, {}, "hinge"),
        ({"data": (X, Y[:3])}, {}, "inputs and targets need the same number of examples"),
        ({"epochs": 1, "steps": 2}, {}, "both epochs and steps"),
        ({"optimizer": nbglcnn.SGD(lambda step: 0.1)}, {}, "the number of steps"),
        ({"held_out": 1.0}, {}, "held_out=1.0"),
        ({}, {"precision": "float16"}, "precision='float16'; training needs 32-bit floats"),
        ({}, {"observe": "outputs"}, "keeps no parameters"),
        ({"data": (np.zeros((90_000, 1, 14, 14), np.float32), np.zeros(90_000, np.int64))}, {},
         "takes at most 67,108,864"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_is_refused(
    tmp_path: Path, train: Any, options: dict[str, Any], words: str
) -> None:
    asked = {**TRAIN_OPTIONS, **train}
    with pytest.raises(InputError) as found:
        nbglcnn.export_html(
            network(), FLOAT_EXAMPLES[:2], tmp_path / "a.html", train=asked, **options
        )
    assert words in str(found.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("train", "words"),
    [([X], "expected a dict of viewer.train"), ({"loss": "mse"}, 'train: "data" is missing')],
)
def test_what_is_no_training_is_refused(tmp_path: Path, train: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        nbglcnn.export_html(network(), FLOAT_EXAMPLES[:2], tmp_path / "a.html", train=train)


def test_weights_that_nothing_draws_are_refused(tmp_path: Path) -> None:
    train = {"data": FLOAT_EXAMPLES, "weights": "random"}
    with pytest.raises(
        InputError, match=r"the model itself \(UnownedParameter\) has scale but no reset"
    ):
        nbglcnn.export_html(
            UnownedParameter().eval(), FLOAT_EXAMPLES[:2], tmp_path / "page.html", train=train
        )
    normed = nn.utils.parametrizations.weight_norm(nn.Conv2d(1, 1, 3, padding=1))
    with pytest.raises(InputError, match=r"computes its weights from other weights"):
        nbglcnn.export_html(nn.Sequential(normed).eval(), FLOAT_EXAMPLES[:2], tmp_path / "a.html",
                            train=train)  # fmt: skip
    file, x = small_model(), randn(1, 2, 4, 5)
    with pytest.raises(InputError, match=r"an ONNX model doesn't define how its weights"):
        nbglcnn.export_html(file, x, tmp_path / "page.html", train={**train, "data": x})
    comparison = nbglcnn.compare(network(), reinitialized(network()), FLOAT_EXAMPLES[:2])
    with pytest.raises(InputError, match="a comparison can't be trained"):
        comparison.to_html(tmp_path / "page.html", train=TRAIN_OPTIONS)
    comparison.close()
