"""The Train tab: its display of a training, its requests, and its changes of the record."""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Locator, expect
from torch import nn

import nbglcnn
from accessibility import AXE_SCRIPT, accessibility_violations
from nbglcnn import Plan
from polling import retry_until_passes, wait_frames
from readability import assert_checks_detect, layout_faults_by_width
from training_cases import TrainingCase, train_case
from views_page import CLIPPED_ELEMENTS_SCRIPT, ViewsPage, canvas_pixels, parse_number
from webgl_page import decode

CLASS_NAMES = ["T-shirt", "trousers", "pullover", "dress"]


@cache
def autoencoder_case() -> tuple[Plan, np.ndarray, TrainingCase]:
    """A small autoencoder, its input and its training."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3, 2, 1), nn.ReLU(), nn.ConvTranspose2d(6, 1, 4, 2, 1), nn.Sigmoid()
    )
    grid = np.linspace(0, 1, 12, dtype=np.float32)
    images = np.stack([np.outer(grid**k, grid ** (k % 3)) for k in range(1, 31)])[:, None]
    images = images.astype(np.float32)
    return nbglcnn.compile(model.eval(), images[:2]), images[:2], train_case(model, images)


@cache
def classifier_case() -> tuple[Plan, np.ndarray, TrainingCase]:
    """A classifier of four kinds of pictures, its input and its training."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4))
    labels = np.arange(40) % 4
    images = np.zeros((40, 1, 8, 8), np.float32)
    for k, label in enumerate(labels):
        images[k, 0, 2 * label : 2 * label + 2] = 0.5 + k / 80
    return nbglcnn.compile(model.eval(), images[:2]), images[:2], train_case(model, images, labels)


def open_training(
    show: Callable[..., ViewsPage],
    case: tuple[Plan, np.ndarray, TrainingCase] | None = None,
    **how: Any,
) -> tuple[ViewsPage, TrainingCase]:
    plan, inputs, training = case or autoencoder_case()
    views = show(plan, inputs, width=1000)
    training.show_training(views, **how)
    views.set(tab="train")
    expect(views.page.locator(".nbg-train")).to_be_visible()
    return views, training


def training_record(views: ViewsPage) -> dict[str, Any]:
    return dict(views.get("training"))


def set_progress(views: ViewsPage, **changes: Any) -> None:
    views.page.evaluate(
        "a => { views.state.progress.value = { ...views.state.progress.value, ...a }; }", changes
    )


def requested_actions(views: ViewsPage) -> dict[str, Any]:
    return dict(views.page.evaluate("asked"))


def checkpoint_row(views: ViewsPage, step: int) -> Locator:
    return views.page.locator(f"[data-checkpoint='{100 + step}']")


def test_the_tab_is_there_with_a_training_alone(show: Callable[..., ViewsPage]) -> None:
    plan, inputs, training = autoencoder_case()
    views = show(plan, inputs)
    tabs = views.page.locator(".nbg-tabs [role=tab]")
    expect(tabs).to_have_text(["Network", "Layer", "Profile"])
    views.set(tab="train")  # possible in an exported page
    expect(views.page.locator(".nbg-line").first).to_be_visible()
    training.show_training(views)
    expect(tabs).to_have_text(["Network", "Layer", "Train", "Profile"])
    expect(views.page.locator(".nbg-train")).to_be_visible()
    views.set(training=None)
    set_progress(views, phase="off")
    expect(tabs).to_have_text(["Network", "Layer", "Profile"])


def test_the_curves_are_those_of_the_losses(show: Callable[..., ViewsPage]) -> None:
    views, training = open_training(show)
    losses, held = training.progress["losses"], training.progress["heldOut"]
    figure = views.page.locator(".nbg-losses [role=img]").first
    said = f"loss {losses[-1]:.4f} after 40 steps, held out {held[-1][1]:.4f}"
    expect(figure).to_have_attribute("aria-label", said)
    expect(views.page.locator(".nbg-chart-train")).to_have_text(f"train{losses[-1]:.4f}")
    expect(views.page.locator(".nbg-chart-held")).to_have_text(f"held out{held[-1][1]:.4f}")
    # The blue line falls with the losses, on a logarithmic axis.
    canvas = views.page.locator(".nbg-chart canvas").first
    # uPlot scales only whole pixel sizes: of "10.998px" it would scale the 998 on a high-DPI
    # screen.
    font = canvas.evaluate("canvas => canvas.getContext('2d').font")
    assert re.match(r"1\dpx ", font), font
    picture = canvas_pixels(canvas).astype(int)
    blue = (picture[..., 2] - picture[..., 0]) > 90
    plot = picture.shape[1] - 46 - 76

    def middle(step: int) -> float:
        column = blue[:, 46 + round(plot * step / 40)]
        return float(np.flatnonzero(column).mean())

    steps = [4, 12, 20, 28, 36]
    heights = [middle(step) for step in steps]
    logs = [np.log(losses[step - 1]) for step in steps]
    slope, base = np.polyfit(logs, heights, 1)
    assert slope < 0
    np.testing.assert_allclose(heights, slope * np.array(logs) + base, atol=4)
    # The tooltip shows the numbers of the step under the pointer.
    lines = views.page.locator(".nbg-chart-lines").first
    tip = views.hover(lines, (46 + plot / 2) / picture.shape[1], 0.5)
    assert tip.startswith("step 20")
    assert f"this batch {losses[19]:.4f}" in tip
    held_20 = next(loss for step, loss, _ in held if step == 20)
    assert f"held out {held_20:.4f}" in tip


def test_many_steps_are_drawn_at_once_and_their_mean_is_one_of_many(
    show: Callable[..., ViewsPage],
) -> None:
    views, _ = open_training(show)
    took = views.page.evaluate(
        """async () => {
          const losses = Array.from({ length: 100_000 }, (_, k) => 1 / (1 + k / 100));
          losses[60_000] = NaN;
          const { progress } = views.state;
          const begin = performance.now();
          for (let k = 0; k < 4; k++) {
            progress.value = { ...progress.value, losses: [...losses], step: 100_000 };
            await new Promise(requestAnimationFrame);
          }
          return performance.now() - begin;
        }"""
    )
    assert took < 2500
    expect(views.page.locator("[data-mean='1000']")).to_be_visible()
    label = views.page.locator(".nbg-losses [role=img]").first.get_attribute("aria-label") or ""
    losses = 1 / (1 + np.arange(99_000, 100_000) / 100)
    assert parse_number(label) == pytest.approx(losses.mean(), abs=5e-5)
    assert "after 100,000 steps" in label
    assert views.page.locator(".uplot").count() == 1


def test_classes_have_a_curve_of_right_answers_and_their_names(
    show: Callable[..., ViewsPage],
) -> None:
    views, training = open_training(show, classifier_case())
    views.set(classNames=CLASS_NAMES)
    figures = views.page.locator(".nbg-chart-lines")
    shares, held = training.progress["accuracies"], training.progress["heldOut"]
    right = re.compile(rf"^{100 * shares[-1]:.1f} % correct after 40 steps, held out ")
    expect(figures.nth(1)).to_have_attribute("aria-label", right)
    assert parse_number(
        (figures.nth(1).get_attribute("aria-label") or "").split("held out")[1]
    ) == (pytest.approx(100 * held[-1][2], abs=0.06))
    first = checkpoint_row(views, 21).locator(".nbg-answer").first
    scores = decode(training.progress["checkpoints"][-1]["predictions"]["f32"]).reshape(6, 4)[0]
    share = np.exp(scores - scores.max())
    best = int(scores.argmax())
    target = int(np.arange(40)[-6] % 4)
    mark = "✓" if best == target else "✗"
    expect(first).to_contain_text(f"{mark} {CLASS_NAMES[best]}")
    assert parse_number(first.locator(".nbg-second").inner_text()) == pytest.approx(
        100 / share.sum(), abs=0.6
    )
    expect(views.page.locator(".nbg-checkpoint-target .nbg-answer").first).to_have_text(
        CLASS_NAMES[target]
    )


def test_the_controls_write_what_is_wanted(show: Callable[..., ViewsPage]) -> None:
    views, _ = open_training(show)
    page = views.page
    page.get_by_role("button", name="Pause").click()
    assert training_record(views)["state"] == "paused" and training_record(views)["pause_at"] == -1
    set_progress(views, phase="paused")
    page.get_by_role("button", name="Step", exact=True).click()
    assert training_record(views)["state"] == "running" and training_record(views)["pause_at"] == 41
    views.set(training={**training_record(views), "state": "paused", "pause_at": -1})
    page.get_by_role("button", name="Resume").click()
    assert training_record(views)["state"] == "running" and training_record(views)["pause_at"] == -1
    rate = page.get_by_role("textbox", name="Learning rate")
    rate.fill("0,05")
    rate.press("Enter")
    assert training_record(views)["lr"] == 0.05
    rate.fill("−1")
    rate.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("Enter at least 0.")
    rate.press("Escape")
    expect(rate).to_have_value("0.05")
    slider = page.get_by_role("slider", name="Learning rate")
    slider.press("ArrowLeft")
    assert training_record(views)["lr"] == pytest.approx(0.05 / 10**0.05, rel=0.03)
    page.get_by_role("slider", name="Input noise").press("End")
    assert training_record(views)["noise"] == 0.5
    reset = page.get_by_role("button", name="Reset")
    assert "initial weights" in (reset.get_attribute("title") or "")
    reset.click()
    now = training_record(views)
    assert re.fullmatch("[0-9a-f]{16}", now["id"]) and now["state"] == "paused"
    assert now["noise"] == 0.5, "the rest stays"


def test_a_rate_of_the_step_cannot_be_set(show: Callable[..., ViewsPage]) -> None:
    views, training = open_training(show)
    set_progress(views, config={**training.progress["config"], "learning_rates": "blob"})
    expect(views.page.get_by_role("textbox", name="Learning rate")).to_be_disabled()
    expect(views.page.locator(".nbg-slider-field").first).to_contain_text("a function of the step")
    expect(views.page.get_by_role("textbox", name="Input noise")).to_be_enabled()


def test_another_batch_and_frozen_layers_are_asked_for(show: Callable[..., ViewsPage]) -> None:
    views, _ = open_training(show)
    page = views.page
    page.get_by_role("button", name="MSE · Adam · batch 8 · all layers").click()
    size = page.get_by_role("spinbutton", name="Batch size")
    size.press("ControlOrMeta+a")
    for step, digit in enumerate("16"):
        size.press(digit)
        set_progress(views, step=900 + step)  # training redraws the view
        expect(page.locator("[data-now]")).to_contain_text(f"step {900 + step}")
    assert training_record(views)["batch_size"] == 0
    size.press("Enter")
    assert training_record(views)["batch_size"] == 16
    page.get_by_role("checkbox", name="2").uncheck()
    assert training_record(views)["frozen"] == ["2.weight", "2.bias"]
    button = page.get_by_role("button", name="MSE · Adam · batch 16 · 1 of 2 layers")
    expect(button).to_be_visible()
    expect(page.get_by_role("checkbox", name="0")).to_be_disabled()  # one layer must be trained
    page.get_by_role("checkbox", name="2").check()
    assert training_record(views)["frozen"] == []
    page.keyboard.press("Escape")
    expect(size).to_have_count(0)
    # Python compiles another training.
    set_progress(views, phase="waiting")
    expect(page.locator(".nbg-train [role=status]")).to_contain_text(
        "Python is compiling the network"
    )


def test_a_page_without_python_says_why_they_cannot_be_changed(
    show: Callable[..., ViewsPage],
) -> None:
    views, _ = open_training(show, can_recompile=False)
    page = views.page
    page.get_by_role("button", name="all layers").click()
    expect(page.get_by_role("spinbutton")).to_be_disabled()
    expect(page.locator(".nbg-train-popover")).to_contain_text(
        "Changing the batch size or the trained layers requires"
    )
    expect(page.get_by_role("button", name="state_dict")).to_have_count(0)


def test_weights_and_gradients_are_watched_while_they_are_seen(
    show: Callable[..., ViewsPage],
) -> None:
    views, _ = open_training(show)
    first = ["0.weight", "0.bias", "grad 0.weight", "grad 0.bias"]
    assert first in requested_actions(views)["watches"]
    assert requested_actions(views)["watching"] == 2  # and the checkpoints' layer
    views.page.get_by_role("combobox", name="Watched layer").select_option("2")
    expect(views.page.locator(".nbg-learning")).to_have_attribute("data-layer", "2")
    assert requested_actions(views)["watches"][-1][0] == "2.weight"
    assert requested_actions(views)["watching"] == 2
    assert views.get("selected") == {"layer": "2", "channel": None}
    views.set(tab="network")
    views.page.wait_for_function("asked.watching === 0")


def test_pictures_have_the_signs_of_their_numbers(show: Callable[..., ViewsPage]) -> None:
    views, training = open_training(show)
    values = training.arrays["0.weight"]
    tiles = views.page.locator("canvas[data-tiles='0.weight']")
    one = int(tiles.get_attribute("data-one") or 0)
    picture = canvas_pixels(tiles).astype(int)
    step = 3 * one + 3
    across = (picture.shape[1] - 2 + 3) // step
    most = np.abs(values).max()
    checked = 0
    for tile in range(len(values)):
        for y in range(3):
            for x in range(3):
                value = values[tile, 0, y, x]
                r, _, b = picture[
                    1 + (tile // across) * step + y * one + one // 2,
                    1 + (tile % across) * step + x * one + one // 2,
                ]
                if abs(value) > 0.05 * most:
                    assert (b > r) == (value > 0), (tile, y, x, value, r, b)
                    checked += 1
    assert checked > 30
    caption = views.page.locator(".nbg-learning figcaption").first.inner_text()
    assert parse_number(caption.split("±")[1]) == pytest.approx(most, abs=0.006)


def test_a_line_says_how_far_a_step_goes_and_what_is_dead(show: Callable[..., ViewsPage]) -> None:
    views, training = open_training(show)
    found = views.page.locator("[data-line=ratios]")
    expect(found).to_contain_text("1e−3 is usual")
    values = decode(training.progress["updateRatios"]["f32"])
    assert parse_number(found.inner_text().split("weight")[1]) == pytest.approx(values[0], rel=0.3)
    course = {**training.progress["config"], "relu_layers": ["1"]}
    views.page.evaluate(
        """config => { const { progress } = views.state;
        progress.value = { ...progress.value, config, deadUnits: new Float32Array([0.5]) }; }""",
        course,
    )
    expect(views.page.locator("[data-line=dead]")).to_contain_text("3 of 6")


def test_a_checkpoint_is_shown_and_gone_back_to(show: Callable[..., ViewsPage]) -> None:
    views, _ = open_training(show, state="paused")
    set_progress(views, phase="paused")
    page = views.page
    back = page.get_by_role("button", name="Go back to this one")
    expect(back).to_be_disabled()
    assert back.get_attribute("title") == "Choose a checkpoint first."
    checkpoint_row(views, 13).click()
    assert requested_actions(views)["looks"] == [113]
    said = page.locator(".nbg-train [role=status]")
    expect(said).to_have_text("All views show step 13. Click again or press Esc to return.")
    expect(checkpoint_row(views, 13)).to_have_attribute("aria-selected", "true")
    dots = page.get_by_role("slider", name="Checkpoint on the curve")
    assert (dots.get_attribute("aria-valuetext") or "").startswith("step 13, loss 0.")
    checkpoint_row(views, 13).press("ArrowUp")
    expect(checkpoint_row(views, 5)).to_be_focused()
    assert requested_actions(views)["looks"] == [113, 105]
    checkpoint_row(views, 5).press("Enter")
    assert requested_actions(views)["looks"][-1] is None
    checkpoint_row(views, 5).press(" ")
    checkpoint_row(views, 5).press("Escape")
    assert requested_actions(views)["looks"] == [113, 105, None, 105, None]
    expect(said).to_have_text("")
    expect(page.locator(".nbg-train")).to_be_visible()
    # Drag along the curve.
    box = dots.bounding_box()
    assert box is not None
    place = page.locator(".nbg-step-dot").nth(3).bounding_box()
    assert place is not None
    page.mouse.move(place["x"] + 5, box["y"] + 8)
    page.mouse.down()
    page.mouse.move(place["x"] - 30, box["y"] + 8, steps=4)
    page.mouse.move(box["x"] + 50, box["y"] + 8, steps=4)
    page.mouse.up()
    assert requested_actions(views)["looks"][5:] == [121, 113, 105, 100]
    page.get_by_role("checkbox", name="keep a branch").uncheck()
    back.click()
    assert requested_actions(views)["backs"] == [[100, False]]
    expect(back).to_be_disabled()


def test_while_it_runs_a_checkpoint_is_chosen_and_not_shown(show: Callable[..., ViewsPage]) -> None:
    views, _ = open_training(show)
    checkpoint_row(views, 13).click()
    expect(checkpoint_row(views, 13)).to_have_attribute("aria-selected", "true")
    assert requested_actions(views)["looks"] == []
    views.page.get_by_role("button", name="Go back to this one").click()
    assert requested_actions(views)["backs"] == [[113, True]]


def test_a_checkpoint_of_other_layers_is_neither_shown_nor_gone_back_to(
    show: Callable[..., ViewsPage],
) -> None:
    views, _ = open_training(show, state="paused")
    views.page.evaluate(
        """() => { const { progress } = views.state;
        const checkpoints = progress.value.checkpoints.map(
          (one) => ({ ...one, isRestorable: false, branchNumber: 1 }));
        progress.value = { ...progress.value, phase: 'paused', checkpoints }; }"""
    )
    checkpoint_row(views, 13).click()
    assert requested_actions(views)["looks"] == []
    expect(checkpoint_row(views, 13)).to_contain_text("branch 1")
    back = views.page.get_by_role("button", name="Go back to this one")
    expect(back).to_be_disabled()
    assert "different set of trained layers" in (back.get_attribute("title") or "")


def test_a_checkpoints_row_shows_the_change_of_its_weights_and_its_pictures(
    show: Callable[..., ViewsPage],
) -> None:
    views, training = open_training(show)
    page = views.page
    expect(page.locator(".nbg-checkpoint-heading")).to_contain_text("2.weight, change since step 0")
    blank = canvas_pixels(page.locator("canvas[data-tiles='2.weight step 0']")).astype(int)
    moved = canvas_pixels(page.locator("canvas[data-tiles='2.weight step 21']")).astype(int)
    colours = [np.abs(one[..., 0] - one[..., 2]).max() for one in (blank, moved)]
    assert colours[0] < 4 < colours[1]
    page.get_by_role("button", name="Weights", exact=True).click()
    expect(page.locator(".nbg-checkpoint-heading")).not_to_contain_text("change")
    blank = canvas_pixels(page.locator("canvas[data-tiles='2.weight step 0']")).astype(int)
    assert np.abs(blank[..., 0] - blank[..., 2]).max() > 50
    # The pictures show the predictions.
    shown = canvas_pixels(page.locator("canvas[data-prediction='example 1, step 21']"))[..., 0]
    found = decode(training.progress["checkpoints"][-1]["predictions"]["f32"]).reshape(6, 12, 12)[0]
    np.testing.assert_allclose(shown, np.rint(found * 255), atol=1)
    target = canvas_pixels(page.locator("canvas[data-prediction='example 1, target']"))[..., 0]
    assert target.shape == (12, 12) and target.max() > 200


@pytest.mark.parametrize(
    ("phase", "message", "words"),
    [
        ("hidden", "", "Paused: the page is hidden."),
        ("elsewhere", "", "Another page trains this network. The curve and weights here"),
        ("stopped", "", "Stopped. viewer.train(…) starts a new training."),
        ("failed", "the loss became NaN at encoder.3", "The loss became NaN at encoder.3."),
        ("running", "training goes on from step 3", "Training goes on from step 3."),
        ("running", "", ""),
    ],
)
def test_how_it_goes_is_said_in_words(
    show: Callable[..., ViewsPage], phase: str, message: str, words: str
) -> None:
    state = "stopped" if phase == "stopped" else "running"
    views, _ = open_training(show, acts=phase not in ("elsewhere", "stopped"), state=state)
    set_progress(views, phase=phase, message=message)
    said = views.page.locator(".nbg-train [role=status]")
    expect(said).to_contain_text(words) if words else expect(said).to_have_text("")
    button = views.page.locator(".nbg-primary")
    step = views.page.get_by_role("button", name="Step", exact=True)
    stuck = phase in ("stopped", "failed")
    assert button.is_disabled() == stuck
    assert step.is_disabled() == (stuck or phase == "elsewhere")
    if phase == "stopped":
        expect(views.page.get_by_role("button", name="Reset")).to_be_disabled()
        expect(views.page.get_by_role("textbox", name="Learning rate")).to_be_disabled()


def test_a_loss_that_became_nan_leads_to_the_layer_that_went_wrong(
    show: Callable[..., ViewsPage],
) -> None:
    views, _ = open_training(show, failed_layer="1")
    views.page.get_by_role("button", name="Show 1").click()
    expect(views.page.locator(".nbg-layer")).to_have_attribute("data-layer", "1")


def test_before_its_data_is_here_it_says_that_it_waits(show: Callable[..., ViewsPage]) -> None:
    views, _ = open_training(show)
    set_progress(views, phase="waiting", config=None, losses=[], checkpoints=[])
    expect(views.page.locator(".nbg-train [role=status]")).to_contain_text("Waiting for the data")
    expect(views.page.locator(".nbg-losses")).to_have_count(0)


def test_marks_and_branches_are_on_the_curve(show: Callable[..., ViewsPage]) -> None:
    marks = [{"step": 12, "text": "learning rate 0.001 → 0.002"}]
    views, training = open_training(show, marks=marks)
    mark = views.page.locator(".nbg-chart-mark")
    expect(mark).to_have_attribute("title", "step 12: learning rate 0.001 → 0.002")
    canvas = views.page.locator(".nbg-chart canvas").first
    before = canvas_pixels(canvas)
    higher = [3 * loss for loss in training.progress["losses"]]
    set_progress(views, branches=[{"losses": higher, "accuracies": [], "heldOut": []}])

    def redrawn() -> None:
        after = canvas_pixels(canvas)
        assert before.shape == after.shape and (before != after).any()

    retry_until_passes(views.page, redrawn)
    # A branch longer than the current curve ends within the axes, away from the labels.
    set_progress(views, branches=[{"losses": higher * 4, "accuracies": [], "heldOut": []}])
    wait_frames(views.page, 6)
    plot, canvas_box = (
        views.page.evaluate(
            "selector => { const { left, right } = document.querySelector(selector)"
            ".getBoundingClientRect(); return [left, right]; }",
            selector,
        )
        for selector in (".nbg-chart .u-over", ".nbg-chart canvas")
    )
    drawn = canvas_pixels(canvas)
    scale = drawn.shape[1] / (canvas_box[1] - canvas_box[0])
    outside = drawn[:, round((plot[1] - canvas_box[0]) * scale) + 2 :]
    assert (outside == outside[0, 0]).all(), "a curve leaves the plot"
    dot = views.page.locator(".nbg-step-dot").last.bounding_box()
    assert dot is not None and dot["x"] < plot[0] + 0.4 * (plot[1] - plot[0])


BROKEN_STYLES = {
    ".nbg-train-settings label { display: inline-block; width: 20px; overflow: hidden }": "cut off",
    ".nbg-chart-train { margin-top: 20px }": "over each other",
    ".nbglcnn .nbg-learning figcaption { font-size: 10px }": "letters of 10.0 px",
    ".nbg-checkpoint .nbg-answer { margin-top: -30px }": "over a picture",
    ".nbg-checkpoint-heading { width: 80px; overflow: hidden; white-space: nowrap }": "cut off",
    ".nbg-train-popover input { width: 8px; padding: 0 }": "cut off",
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("what", ["pictures", "classes"])
def test_it_is_whole_and_accessible_at_any_width(
    show: Callable[..., ViewsPage],
    sweep_widths: Callable[..., tuple[int, ...]],
    theme: str,
    what: str,
) -> None:
    marks = [{"step": 12, "text": "learning rate 0.001 → 0.002"}]
    made = autoencoder_case() if what == "pictures" else classifier_case()
    views, training = open_training(show, made, state="paused", marks=marks)
    page = views.page
    page.evaluate("light => { document.body.dataset.jpThemeLight = light; }", theme == "light")
    page.add_script_tag(path=str(AXE_SCRIPT))
    set_progress(views, phase="paused", message="the loss became NaN at encoder.3")
    checkpoint_row(views, 13).click()
    for width in (1000, 480):
        page.set_viewport_size({"width": width, "height": 1000})
        for open_ in (False, True):
            if open_:
                page.get_by_role("button", name="all layers").click()
            views.wait_idle()
            assert page.evaluate(CLIPPED_ELEMENTS_SCRIPT) == []
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert accessibility_violations(page, theme) == []
        page.keyboard.press("Escape")
        checkpoint_row(views, 5).click()
    if what == "classes":
        views.set(classNames=CLASS_NAMES)
    # With a further branch, and a checkpoint with other layers; with the settings open and closed.
    branches = [{"losses": training.progress["losses"], "accuracies": [], "heldOut": []}]
    checkpoints = "views.state.progress.value.checkpoints.map(" + (
        "(one, k) => ({ ...one, isRestorable: k !== 1, branchNumber: k === 1 ? 1 : 0 }))"
    )
    set_progress(views, branches=branches)
    page.evaluate(
        "() => { const { progress } = views.state;"
        f" progress.value = {{ ...progress.value, checkpoints: {checkpoints} }}; }}"
    )
    widths = sweep_widths(*((620, 1120) if theme == "light" else (848,)))
    assert layout_faults_by_width(page, widths) == {}
    page.get_by_role("button", name="all layers").click()
    assert layout_faults_by_width(page, widths) == {}
    if (theme, what) == ("light", "classes"):
        assert_checks_detect(page, BROKEN_STYLES)
