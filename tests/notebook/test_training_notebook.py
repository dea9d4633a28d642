"""The notebook on training runs as in class, and it learns the same as PyTorch."""

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, Locator, expect
from torch import nn
from torch.nn import functional as F

from fashion_autoencoder import FashionAutoencoder
from fashion_classifier import load_pictures
from jupyter_lab import LabServer
from notebooks import (
    ExecutedNotebook,
    assert_no_outputs,
    execute_notebook,
    open_notebook,
    printed_text,
)
from screenshots import copy_notebooks, viewer_cell
from training_checks import TorchTraining, train_in_torch

NOTEBOOK_NAME = "training.ipynb"
TIMEOUT_S = 400  # for all cells, on a busy machine


def classifier() -> nn.Module:
    """The notebook's classifier."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 4, 2, 1), nn.ReLU(), nn.Flatten(),
        nn.Linear(784, 10),
    )  # fmt: skip


def training_data() -> tuple[torch.Tensor, torch.Tensor]:
    pictures, labels = load_pictures()
    x = pictures[:, None].astype(np.float32) / 255
    return torch.from_numpy(x), torch.from_numpy(labels).long()


@cache
def train_classifier_in_torch() -> TorchTraining:
    """Run the classifier's fifty steps in PyTorch."""
    x, labels = training_data()
    return train_in_torch(
        classifier(), x[:800], labels[:800], F.cross_entropy,
        lambda p: torch.optim.SGD(p, 0.05, momentum=0.9), steps=50, size=16,
    )  # fmt: skip


def loss_of(model: nn.Module, x: torch.Tensor) -> float:
    with torch.no_grad():
        return float(F.mse_loss(model(x), x))


def warnings_in(outputs: list[dict[str, Any]]) -> list[str]:
    return ["".join(one["text"]) for one in outputs if one.get("name") == "stderr"]


def parse_number(pattern: str, text: str) -> float:
    match = re.search(pattern, text)
    assert match is not None, (pattern, text)
    return float(match[1])


def check_printed_text(text: str) -> None:
    """Check that the text printed with and without a page has PyTorch's numbers."""
    x, labels = training_data()
    # Adam's first step is as large as the learning rate for nearly all weights, and never larger.
    assert parse_number(r"encoder\.0\.weight +moved by at most ([\d.]+)", text) == 0.003
    assert parse_number(r"(\d+)% of encoder\.0\.weight moved", text) > 80
    assert parse_number(r"encoder\.0\.bias .*\|weight\| ([\d.]+)", text) < 0.01
    of_mean = float(((x - x.mean(0)) ** 2).mean())
    assert parse_number(r"mean picture's loss is ([\d.]+)", text) == pytest.approx(
        of_mean, abs=6e-4
    )
    assert 2 <= parse_number(r"beats it in step (\d+)", text) <= 40
    assert parse_number(r"between PyTorch and the page: (\S+)", text) <= 1e-5
    right = train_classifier_in_torch()
    for step in (1, 2, 10, 50):
        told = re.search(rf"^ *{step} +([\d.]+) +([\d.]+)$", text, re.MULTILINE)
        assert told is not None
        for one in told.groups():
            assert float(one) == pytest.approx(right.losses[step - 1], rel=1e-3)
    with torch.no_grad():
        share = float((right.model(x[800:]).argmax(1) == labels[800:]).float().mean())
    assert parse_number(r"([\d.]+)% right", text) == pytest.approx(100 * share, abs=1.5)
    assert parse_number(r"(\d+) of 16 maps are 0", text) > 8
    assert parse_number(r"loss ([\d.]+)\n", text) > 2
    assert "training stopped at step" in text
    assert parse_number(r"rate 0\.1: loss ([\d.]+)", text) < 0.14


def test_the_committed_notebook_carries_no_outputs() -> None:
    assert_no_outputs(NOTEBOOK_NAME, 15)


def test_without_a_browser_it_learns_the_same(tmp_path: Path, lab: LabServer) -> None:
    copy_notebooks(tmp_path)
    notebook = execute_notebook(tmp_path, NOTEBOOK_NAME, lab.environment)
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    check_printed_text(printed_text(outputs))
    with np.load(tmp_path / "history.npz") as history:
        assert len(history["losses"]) == 100


class TrainingNotebook(ExecutedNotebook):
    def training_tab(self, number: int) -> Locator:
        """The Train tab of a Viewer, scrolled into view."""
        viewer = viewer_cell(self.notebook, number).locator(".nbglcnn")
        expect(viewer.get_by_role("tab", name="Train")).to_have_attribute("aria-selected", "true")
        expect(viewer.locator(".nbg-train")).to_be_visible()
        return viewer

    def reconstruction_error(self) -> float:
        """The mean squared error of the first Viewer's output against its input."""
        return float(self.notebook.read_array("np.mean((viewer.output - viewer.input) ** 2)"))


@pytest.fixture(scope="module")
def training_notebook(
    lab: LabServer, browser: Callable[[str], Browser]
) -> Iterator[TrainingNotebook]:
    with open_notebook(lab, browser("llvmpipe"), NOTEBOOK_NAME, 1120, 1500) as (notebook, errors):
        yield TrainingNotebook(notebook, errors, TIMEOUT_S)


def test_in_jupyterlab_the_page_learns_what_pytorch_learns(
    training_notebook: TrainingNotebook,
) -> None:
    text = printed_text(training_notebook.outputs)
    [warning] = warnings_in(training_notebook.outputs)
    assert "the loss has infinite values" in warning
    check_printed_text(text)
    source = training_notebook.notebook.read_array("np.array(viewer.activations.source)")
    assert str(source).startswith("page (WebGL2")
    # In the frozen encoder only BatchNorm's running statistics have changed.
    changed = {line for line in text.splitlines() if re.fullmatch(r"encoder\.\d\.\w+", line)}
    running = ("running_mean", "running_var", "num_batches_tracked")
    assert changed == {f"encoder.{k}.{name}" for k in (1, 4) for name in running}
    held = parse_number(r"held out: ([\d.]+) after 60 steps", text)
    small, large = (parse_number(rf"batch {size}: .* changes by (\d+)%", text) for size in (8, 32))
    assert held < 0.06
    assert 0 < large < small


def test_losses_and_weights_are_those_of_pytorchs_loop(training_notebook: TrainingNotebook) -> None:
    x, _ = training_data()
    state = training_notebook.notebook.read_array(
        "{n: t.numpy() for n, t in model.state_dict().items()}"
    )
    torch.manual_seed(1)
    model = FashionAutoencoder().eval()
    first = loss_of(model, x[:100])
    model.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
    assert loss_of(model, x[:100]) < first / 2
    losses = training_notebook.notebook.read_array("learning.losses")
    np.testing.assert_allclose(losses, train_classifier_in_torch().losses, rtol=1e-3)
    history = training_notebook.notebook.read_array("dict(np.load('history.npz'))")
    assert len(history["losses"]) == 30
    assert history["held_out_losses"][-1, 0] == 30


def test_a_class_goes_back_to_a_checkpoint_and_branches(
    training_notebook: TrainingNotebook,
) -> None:
    viewer = training_notebook.training_tab(0)
    expect(viewer.locator(".nbg-train[data-phase=paused]")).to_be_visible()
    expect(viewer.locator(".nbg-losses [role=img]").first).to_have_attribute(
        "aria-label", re.compile("after 30 steps, held out 0.0")
    )
    marks = viewer.locator(".nbg-chart-mark")
    texts = [mark.get_attribute("title") or "" for mark in marks.all()]
    assert "step 10: encoder.0.weight, encoder.0.bias and 8 more frozen" in texts
    assert "step 20: batch size 32" in texts
    now = training_notebook.reconstruction_error()
    rows = viewer.locator(".nbg-checkpoints [role=option]")
    rows.first.click()
    expect(viewer.get_by_text("all views show step 0")).to_be_visible()
    assert training_notebook.reconstruction_error() > 2 * now
    viewer = training_notebook.training_tab(0)
    rows = viewer.locator(".nbg-checkpoints [role=option]")
    rows.first.click()
    expect(viewer.get_by_text("all views show step 0")).to_be_hidden()
    assert training_notebook.reconstruction_error() == pytest.approx(now, rel=1e-6)
    viewer = training_notebook.training_tab(0)
    row = viewer.locator(".nbg-checkpoints [role=option][aria-label^='step 20,']")
    row.click()
    viewer.get_by_role("button", name="Go back to this one").click()
    training_notebook.notebook.wait_until("training.step_count == 20", "training")
    training_notebook.notebook.run("training.step(2)")
    training_notebook.notebook.wait_until("training.step_count == 22", "training")
    viewer = training_notebook.training_tab(0)
    expect(viewer.get_by_text("branch 1").first).to_be_visible()
    training_notebook.notebook.run("training.stop()")


def test_the_classifiers_tab_counts_right_answers_and_dead_units(
    training_notebook: TrainingNotebook,
) -> None:
    viewer = training_notebook.training_tab(2)
    expect(viewer.get_by_text("Accuracy", exact=True)).to_be_visible()
    expect(viewer.locator(".nbg-checkpoint-target .nbg-answer").first).to_be_visible()
    viewer.get_by_role("combobox", name="Watched layer").select_option("2")
    viewer.get_by_role("button", name="Step", exact=True).click()
    dead = viewer.locator("[data-line=dead]")
    expect(dead).to_have_text(re.compile(r"(9|1\d) of 16 of 3 are 0"))
    expect(viewer.locator("[data-line=ratios]")).to_contain_text("weight")
    training_notebook.notebook.wait_until("careless.step_count == 31", "careless")


def test_the_tab_shows_a_training_that_exploded(training_notebook: TrainingNotebook) -> None:
    viewer = training_notebook.training_tab(4)
    said = viewer.locator(".nbg-train-now [role=status]")
    expect(said).to_contain_text("Stopped")
    blown = training_notebook.notebook.read_array("blown.losses")
    assert len(blown) < 60
    ratios = blown[3:10] / blown[2:9]
    assert ratios.min() > 10  # each step overshoots further
    assert ratios.max() < 2 * ratios.min()


def test_the_console_stays_clean(training_notebook: TrainingNotebook) -> None:
    """Runs last in this module: it checks the console of all earlier tests."""
    assert training_notebook.errors == []
