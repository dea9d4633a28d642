"""The playground runs as in class: two networks learn in one page, and runs are compared."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, Locator, expect
from torch import nn
from torch.nn import functional as F

import nbglcnn
from enlarging import WAYS, Choice, autoencoder, checkerboard, enlarging, layers
from fashion_classifier import load_pictures
from jupyter_lab import LabServer
from notebooks import (
    ExecutedNotebook,
    assert_no_outputs,
    execute_notebook,
    open_notebook,
    printed_text,
)
from screenshots import copy_notebooks

NOTEBOOK_NAME = "playground.ipynb"
TIMEOUT_S = 500  # for all cells, on a busy machine
ALL_DECODERS = [
    (way, kernel, stride) for way in WAYS for kernel in (2, 3, 4, 5) for stride in (2, 4)
]


@pytest.mark.parametrize(("way", "kernel", "stride"), ALL_DECODERS)
def test_every_choice_gives_a_picture_back(way: str, kernel: int, stride: int) -> None:
    model = autoencoder(Choice(kernel=kernel, stride=stride, enlarge=way))
    assert model.encoder(torch.rand(2, 1, 28, 28)).shape[2:] == (7, 7)
    assert model(torch.rand(2, 1, 28, 28)).shape == (2, 1, 28, 28)


@pytest.mark.parametrize("kernel", [2, 3, 4, 5])
def test_a_fractional_stride_reads_where_the_shader_reads(kernel: int) -> None:
    """Recompute each number: the taps are half a pixel apart and read the nearest pixel."""
    torch.manual_seed(0)
    enlarge = nn.Sequential(*enlarging("fractional stride", 1, 1, kernel, 2))
    x = torch.rand(1, 1, 5, 6)
    with torch.no_grad():
        found = enlarge(x)[0, 0].numpy()
    weight, bias = (p.detach().numpy() for p in enlarge[-1].parameters())
    small = np.pad(x[0, 0].numpy(), 3)  # zeros outside
    taps = (np.arange(kernel) - (kernel - 1) / 2) / 2  # for 4: −0.75, −0.25, 0.25, 0.75
    for y, row in enumerate(found):
        for column, number in enumerate(row):
            rows = np.floor((y + 0.5) / 2 + taps).astype(int) + 3
            columns = np.floor((column + 0.5) / 2 + taps).astype(int) + 3
            sum_of_products = (weight[0, 0] * small[np.ix_(rows, columns)]).sum() + bias[0]
            assert number == pytest.approx(sum_of_products, abs=1e-6)


@pytest.mark.parametrize(("way", "kernel", "stride"), [*ALL_DECODERS[::5], ALL_DECODERS[-1]])
def test_its_table_of_layers_is_the_plans(way: str, kernel: int, stride: int) -> None:
    model = autoencoder(Choice(kernel=kernel, stride=stride, enlarge=way))
    plan = nbglcnn.compile(model, torch.zeros(1, 1, 28, 28))
    right = [(one.name, one.output_shape[1:], one.parameters, one.macs) for one in plan.layers]
    assert [(one.name, one.shape, one.parameters, one.macs) for one in layers(model)] == right


def test_the_number_for_checkerboards_counts_what_repeats_and_nothing_else() -> None:
    y, x = np.mgrid[:28, :28]
    board = ((x + y) % 2).astype(np.float32)[None, None]
    slow = np.sin(2 * np.pi * x / 28)[None, None]
    assert checkerboard(board) == pytest.approx(1)
    assert checkerboard((x % 4 == 3)[None, None].astype(float)) == pytest.approx(1)
    assert checkerboard(slow) == pytest.approx(0, abs=1e-12)
    assert checkerboard(np.full((2, 1, 28, 28), 0.5)) == 0
    # Half the contrast is the checkerboard's: the variances before the factor are 1/4 and 1/2.
    assert checkerboard(board + slow / np.sqrt(2)) == pytest.approx(0.5)
    assert checkerboard(np.concatenate([board, slow])) == pytest.approx(0.5)


def test_an_unknown_way_to_enlarge_is_refused() -> None:
    with pytest.raises(ValueError, match="enlarge = 'zoom'; there are 'transposed conv'"):
        autoencoder(Choice(enlarge="zoom"))


def test_the_committed_notebook_carries_no_outputs() -> None:
    assert_no_outputs(NOTEBOOK_NAME, 7)


def check_printed_text(text: str) -> None:
    """Check the text printed with and without a page."""
    numbers = re.findall(r"^\d: (\w+).*: loss (\S+), checkerboard (\S+)%, then (\S+)%", text, re.M)
    (left, *transposed), (right, *resized) = numbers
    assert (left, right) == ("transposed", "resize")
    loss, before, after = map(float, transposed)
    assert loss < 0.06 and before > 50 and after > 1
    loss, before, after = map(float, resized)
    assert loss < 0.06 and before < 20 and after < 0.5
    assert "kernel 3: 1 1 2 1 2 1 2 1 2 1 1\nkernel 4: 1 1 2 2 2 2 2 2 2 2 1 1" in text
    assert "zeros, then a convolution = a transposed one: True" in text


@pytest.mark.sweep  # test_no_browser.py and the tour cover this
def test_without_a_browser_it_learns_the_same(tmp_path: Path, lab: LabServer) -> None:
    copy_notebooks(tmp_path)
    notebook = execute_notebook(tmp_path, NOTEBOOK_NAME, lab.environment)
    check_printed_text(
        printed_text([one for cell in notebook["cells"] for one in cell.get("outputs", [])])
    )


class PlaygroundNotebook(ExecutedNotebook):
    def playground(self) -> Locator:
        """The playground, scrolled into view."""
        self.notebook.page.evaluate("() => window.lab.panel().content.scrollToItem(1, 'start')")
        box = self.notebook.page.locator(".jp-Cell[data-windowed-list-index='1']")
        expect(box.locator(".nbglcnn")).to_have_count(2)
        return box

    def run_losses(self, number: int) -> np.ndarray:
        """The losses of a run."""
        return np.asarray(self.notebook.read_array(f"playground.runs[{number - 1}].losses"))


@pytest.fixture(scope="module")
def playground_notebook(
    lab: LabServer, browser: Callable[[str], Browser]
) -> Iterator[PlaygroundNotebook]:
    with open_notebook(lab, browser("llvmpipe"), NOTEBOOK_NAME, 1400, 1700) as (notebook, errors):
        yield PlaygroundNotebook(notebook, errors, TIMEOUT_S)


def test_two_networks_learn_in_one_page(playground_notebook: PlaygroundNotebook) -> None:
    check_printed_text(printed_text(playground_notebook.outputs))
    for number in (1, 2, 3):
        losses = playground_notebook.run_losses(number)
        assert len(losses) == 60
        assert losses[-10:].mean() < losses[:3].mean() / 2
    for side in ("left", "right"):
        source = playground_notebook.notebook.evaluate_silently(
            f"print(playground.{side}.viewer.activations.source)"
        )
        assert source.startswith("page (WebGL2")


def test_what_runs_keep_is_what_their_networks_draw(
    playground_notebook: PlaygroundNotebook,
) -> None:
    x = torch.from_numpy(load_pictures()[0][-64:, None] / np.float32(255))
    boards = []
    for number, way in enumerate(("transposed conv", "resize + conv", "fractional stride")):
        run = f"playground.runs[{number}]"
        state = playground_notebook.notebook.read_array(
            f"{{n: t.numpy() for n, t in {run}.model.state_dict().items()}}"
        )
        told = playground_notebook.notebook.read_array(f"_np.array({run}.checkerboards)")
        model = autoencoder(Choice(enlarge=way))
        with torch.no_grad():
            assert told[0] == pytest.approx(checkerboard(model(x).numpy()), rel=1e-6)
            model.load_state_dict({name: torch.from_numpy(one) for name, one in state.items()})
            drawn = model(x)
        np.testing.assert_array_equal(
            playground_notebook.notebook.read_array(f"{run}.drawn"), drawn.numpy()
        )
        assert told[1] == pytest.approx(checkerboard(drawn.numpy()), rel=1e-6)
        held_out = playground_notebook.notebook.read_array(f"{run}.held_out")
        assert held_out[-1, 0] == 60
        assert held_out[-1, 1] == pytest.approx(float(F.mse_loss(drawn, x)), rel=0.3)
        boards.append(told[1])
    assert boards[0] > 10 * max(boards[1:])


def test_the_table_has_the_runs_and_two_of_them_are_compared(
    playground_notebook: PlaygroundNotebook,
) -> None:
    box = playground_notebook.playground()
    rows = box.locator("table", has_text="checkerboard").locator("tbody tr")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("transposed conv")
    expect(rows.nth(2)).to_contain_text(re.compile(r"fractional stride.*2,481.*60"))
    expect(box.get_by_label(re.compile("losses of 2: .* and 3: "))).to_be_visible()
    box.get_by_label("A", exact=True).select_option("1: transposed conv, kernel 3, stride 2")
    chart = box.get_by_label(re.compile("losses of 1: transposed conv.* and 3: fractional stride"))
    expect(chart).to_be_visible()
    expect(chart.locator("polyline")).to_have_count(4)
    expect(box.get_by_alt_text("1: transposed conv, kernel 3, stride 2")).to_be_visible()
    differences = playground_notebook.notebook.read_array("compared['encoder.0'].difference")
    assert np.abs(differences).max() > 0.01


def test_a_slider_is_moved_by_keyboard_and_the_network_trained_anew(
    playground_notebook: PlaygroundNotebook,
) -> None:
    box = playground_notebook.playground()
    before = playground_notebook.notebook.read_array(
        "playground.left.model.decoder[0].weight.detach().numpy()"
    )
    handle = box.locator(".widget-hslider", has_text="kernel").first.locator(".noUi-handle")
    handle.focus()
    handle.press("ArrowRight")
    expect(box.get_by_role("row", name="encoder.0 Conv2d 8×14×14 136 25,088")).to_be_visible()
    playground_notebook.notebook.wait_until("playground.left.choice.kernel == 4")
    box = playground_notebook.playground()
    box.get_by_role("button", name="Train left").click()
    expect(box.get_by_text("run 4: 60 steps")).to_be_visible(timeout=120_000)
    expect(box.get_by_role("button", name="Train left")).to_be_enabled()
    rows = box.locator("table", has_text="checkerboard").locator("tbody tr")
    expect(rows).to_have_count(4)
    losses = playground_notebook.run_losses(4)
    assert losses[-10:].mean() < losses[:3].mean() / 2
    after = playground_notebook.notebook.read_array(
        "playground.runs[3].model.decoder[0].weight.detach().numpy()"
    )
    assert after.shape[2:] == (4, 4) and before.shape[2:] == (3, 3)


def test_the_console_stays_clean(playground_notebook: PlaygroundNotebook) -> None:
    """Runs last in this module: it checks the console of all earlier tests."""
    assert playground_notebook.errors == []
