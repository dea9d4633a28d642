"""The cost of layers: the Profile tab's times, counts and verdicts, and the bars below stages."""

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from playwright.sync_api import Locator, expect
from torch import nn

import nbglcnn
from nbglcnn import Plan
from nbglcnn.lowering.lower import lower
from recurrent import INPUTS, leaky_integrator
from views_page import CLIPPED_ELEMENTS_SCRIPT, PARITY_STATE, ViewsPage, parse_number

COST_COLUMNS = ("ms", "parameters", "macs", "bytes")


class UnevenCosts(nn.Module):
    """One layer has nearly all of the work, one nearly all of the parameters, one costs nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.light = nn.Conv2d(2, 3, 1)
        self.heavy = nn.Conv2d(3, 24, 7, padding=3)
        self.relu = nn.ReLU()
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.flat = nn.Flatten()
        self.wide = nn.Linear(96, 300)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.relu(self.heavy(self.light(x))))
        return self.wide(self.flat(x))


@pytest.fixture(scope="module")
def uneven_costs() -> tuple[Plan, np.ndarray]:
    torch.manual_seed(0)
    x = torch.randn(1, 2, 96, 96)
    return nbglcnn.compile(UnevenCosts().eval(), x), x.numpy()


def open_profile(
    show: Callable[..., ViewsPage], plan_and_input: tuple[Plan, np.ndarray]
) -> ViewsPage:
    """Open the Profile tab and measure every layer."""
    views = show(*plan_and_input)
    measure_layers(views)
    return views


def measure_layers(views: ViewsPage) -> None:
    """Open the Profile tab and wait until every layer, and the work outside layers, is measured."""
    views.set(tab="profile")
    views.page.wait_for_function(
        "() => views.state.layerTimes.value?.size === views.state.plan.value.layers.length + 1",
        timeout=60_000,
    )
    expect(views.page.get_by_role("button", name="Measure again")).to_be_visible()


def column_values(table: Locator, cost: str) -> dict[str, float]:
    """The values of a column by layer, in row order."""
    found: dict[str, float] = {}
    for row in table.locator("tbody tr").all():
        value = row.locator(f"[data-cost={cost}]").get_attribute("data-value")
        found[row.get_attribute("data-row") or ""] = float(value or "nan")
    return found


def test_every_layer_has_its_costs(
    show: Callable[..., ViewsPage], uneven_costs: tuple[Plan, np.ndarray]
) -> None:
    views = open_profile(show, uneven_costs)
    plan = uneven_costs[0]
    table = views.page.get_by_role("table", name="Costs of all layers")
    for cost in COST_COLUMNS[1:]:
        assert column_values(table, cost) == {one.name: getattr(one, cost) for one in plan.layers}
    ms = column_values(table, "ms")
    assert max(ms, key=lambda name: ms[name]) == "heavy", "it multiplies 84 times as often"
    assert ms["heavy"] > 0
    assert ms["flat"] == 0
    assert table.locator("[data-row=flat] [data-cost=ms]").inner_text() == "–"
    total = table.locator("tfoot td:not(:empty)").all_inner_texts()
    assert parse_number(total[0]) == pytest.approx(sum(ms.values()), rel=0.05)
    assert parse_number(total[1]) == pytest.approx(
        sum(one.parameters - one.shared for one in plan.layers) / 1e3, rel=0.01
    )
    # Rerunning layers loses nothing: the values still equal PyTorch's.
    run = views.get("run")
    assert run["sequence"] > 1
    took = (views.get("remeasuredRun") or run)["ms"]
    # Each layer's time covers only its own passes; if it covered a whole run, the sum would be 5
    # runs.
    assert 0 < sum(ms.values()) < 2.5 * took
    said = table.page.locator(".nbg-profile p strong").first.inner_text()
    assert said.startswith("One run takes ") and said.endswith(" ms")
    assert parse_number(said) == pytest.approx(took, rel=0.06)
    headline = table.page.locator(".nbg-profile p").first
    expect(headline).not_to_contain_text("batch")
    expect(headline).not_to_contain_text("now 0 runs/s")
    # During the measurement it counts the layers of viewer.layers.
    views.page.evaluate("() => { views.state.layerTimes.value = new Map(); }")
    expect(headline).to_contain_text(f"0 of {len(plan.layers)} layers measured")
    bars = table.locator("[data-row=heavy] .nbg-cost-track > span").all()
    assert "100%" in (bars[0].get_attribute("style") or "")


def test_a_profile_changes_no_value(show: Callable[..., ViewsPage]) -> None:
    # Compiled for its output only, layers share textures: timing them leaves old values there.
    torch.manual_seed(0)
    layers = [each for _ in range(4) for each in (nn.Conv2d(4, 4, 3, padding=1), nn.Tanh())]
    model, x = nn.Sequential(*layers).eval(), torch.randn(1, 4, 9, 9)
    plan = nbglcnn.compile(model, x, observe="outputs")
    outputs = [one.output for one in plan.header.passes]
    assert len(set(outputs)) < len(outputs), "no texture is used twice"
    views = show(plan, x.numpy())
    measure_layers(views)
    found = views.page.evaluate("async () => [...await views.state.session.value.read('output')]")
    with torch.inference_mode():
        truth = model(x).numpy().ravel()
    np.testing.assert_allclose(found, truth, rtol=0, atol=1e-5 * np.abs(truth).max())


def test_a_column_sorts_the_table(
    show: Callable[..., ViewsPage], uneven_costs: tuple[Plan, np.ndarray]
) -> None:
    views = open_profile(show, uneven_costs)
    table = views.page.get_by_role("table", name="Costs of all layers")
    names = [one.name for one in uneven_costs[0].layers]
    assert list(column_values(table, "ms")) == names
    for cost, word in zip(COST_COLUMNS, ("Time", "Parameters", "MACs", "Memory"), strict=True):
        head = table.locator(f"th[data-column={cost}]")
        head.get_by_role("button", name=word).click()
        expect(head).to_have_attribute("aria-sort", "descending")
        falling = list(column_values(table, cost).values())
        assert falling == sorted(falling, reverse=True)
        head.get_by_role("button").click()
        expect(head).to_have_attribute("aria-sort", "ascending")
        assert list(column_values(table, cost).values()) == sorted(falling)
    table.locator("th[data-column=number] button").press("Enter")
    assert list(column_values(table, "ms")) == names
    table.get_by_role("button", name="heavy").click()
    expect(views.page.locator(".nbg-layer")).to_have_attribute("data-layer", "heavy")


def test_layers_say_whether_they_match(
    show: Callable[..., ViewsPage], uneven_costs: tuple[Plan, np.ndarray]
) -> None:
    plan, _ = uneven_costs
    views = show(plan, uneven_costs[1])
    expect(views.page.locator(".nbg-badge")).to_have_count(0)  # no comparison has run yet
    layers = [
        [one.name, 0.25 if one.name == "pool" else 2e-7, one.name != "pool"] for one in plan.layers
    ]
    views.set(parity={**PARITY_STATE, "layers": layers})
    views.set(networkLayout="strip")
    views.wait_drawn()
    shown = {
        (one.locator("xpath=ancestor::*[@data-layer][1]").get_attribute("data-layer")): (
            one.get_attribute("aria-label"),
            one.get_attribute("data-matches"),
        )
        for one in views.page.locator(".nbg-stage .nbg-badge").all()
    }
    assert shown["pool"] == ("differs from PyTorch, max error 0.25", "false")
    assert shown["relu"] == ("matches PyTorch, max error 2e−7", "true")
    views.open_layer("pool")
    title = views.page.locator(".nbg-title .nbg-badge")
    expect(title).to_have_attribute("aria-label", "differs from PyTorch, max error 0.25")
    # A newly loaded page has Python's result before its first run.
    status, run = views.page.locator(".nbg-status"), views.get("run")
    expect(status).to_contain_text("layers match PyTorch")
    views.set(run=None)
    expect(status).not_to_contain_text("match PyTorch")
    expect(title).to_have_count(0)
    views.set(run=run)
    expect(status).to_contain_text("layers match PyTorch")
    views.set(tab="profile")
    errors = views.page.locator("[data-row=pool] td").last
    expect(errors).to_contain_text("0.25")
    views.page.locator("th[data-column=error] button").click()
    assert views.page.locator("tbody tr").first.get_attribute("data-row") == "pool"


def test_times_that_nobody_measured_are_called_estimated(
    show: Callable[..., ViewsPage], uneven_costs: tuple[Plan, np.ndarray]
) -> None:
    views = show(*uneven_costs)
    views.set(networkLayout="strip")
    bars = views.page.locator(".nbg-stage .nbg-cost")
    heavy = views.page.locator(".nbg-stage[data-layer=relu] .nbg-cost")
    expect(heavy).to_have_attribute("aria-label", re.compile(r"^\d+ % of time, estimated"))
    expect(heavy.locator(".nbg-estimated")).to_be_visible()
    shares = {}
    for word in ("parameters", "MACs", "memory"):
        heavy.click()
        expect(heavy).to_have_attribute("aria-label", re.compile(f" of {word}$"))
        shares[word] = [
            parse_number(text.split(",")[-1])
            for text in (one.get_attribute("aria-label") or "" for one in bars.all())
        ]
    layers = {one.name: one for one in uneven_costs[0].layers}
    # A stage's bar is the sum of its layers; vectors have no bar.
    stages = {"light": ["light"], "relu": ["heavy", "relu"], "pool": ["pool"]}
    names = views.page.locator(".nbg-stage:has(.nbg-cost)").all()
    assert [one.get_attribute("data-layer") for one in names] == list(stages)
    for word, cost in zip(shares, ("parameters", "macs", "bytes"), strict=True):
        total = sum(getattr(one, cost) for one in layers.values())
        expected = [sum(getattr(layers[n], cost) for n in stage) for stage in stages.values()]
        # "> 99 %", "< 1 %"
        assert shares[word] == pytest.approx([100 * one / total for one in expected], abs=1), word
    heavy.click()
    measure_layers(views)
    expect(views.page.locator("td em")).to_have_count(0)
    views.set(tab="network")
    expect(heavy).not_to_have_attribute("aria-label", re.compile("estimated"))


def test_pictures_are_the_same_on_either_way(
    show: Callable[..., ViewsPage], uneven_costs: tuple[Plan, np.ndarray]
) -> None:
    views = open_profile(show, uneven_costs)
    page = views.page
    ways = page.get_by_role("group", name="How pictures reach the screen")
    ways.get_by_role("button").click()
    for way in ("canvas", "readback", "numbers"):
        expect(ways.locator(f"[data-delivery={way}]")).to_contain_text(re.compile(r"\d m?s"))
    pixels = """() => [...document.querySelectorAll('.nbglcnn canvas[data-maps]')].map((canvas) => {
      const { width, height } = canvas;
      return canvas.getContext('2d').getImageData(0, 0, width, height).data.join();
    })"""
    drawn = {}
    for way in ("WebGL to screen", "Read back to a 2-D canvas"):
        views.set(tab="profile")
        ways.get_by_role("radio", name=re.compile(way)).check()
        assert page.evaluate("views.state.session.value.canvasTransfer") in ("canvas", "readback")
        views.set(tab="network")
        views.wait_idle()
        drawn[way] = page.evaluate(pixels)
    one, other = drawn.values()
    assert len(one) > 3
    assert one == other
    assert len(set(one)) > 3, "pictures are empty"


def test_a_narrow_profile_is_whole(
    show: Callable[..., ViewsPage], uneven_costs: tuple[Plan, np.ndarray]
) -> None:
    views = open_profile(show, uneven_costs)
    views.page.set_viewport_size({"width": 420, "height": 900})
    views.wait_idle()
    assert views.page.evaluate(CLIPPED_ELEMENTS_SCRIPT) == []


def test_a_module_that_is_called_twice_is_counted_once(show: Callable[..., ViewsPage]) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(2, 2, 3, padding=1)  # 38 parameters

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.conv(self.conv(x).relu())

    x = torch.randn(1, 2, 8, 8)
    views = show(nbglcnn.compile(Twice().eval(), x), x.numpy())
    expect(views.page.locator(".nbg-bar")).to_contain_text("3 layers · 38 parameters")
    measure_layers(views)
    table = views.page.get_by_role("table", name="Costs of all layers")
    assert column_values(table, "parameters") == {"conv": 38, "relu": 0, "conv:1": 38}
    assert table.locator("tfoot [data-column=parameters]").inner_text() == "38"


def test_layers_and_the_last_run_name_their_section_where_there_is_more_than_one(
    show: Callable[..., ViewsPage], uneven_costs: tuple[Plan, np.ndarray]
) -> None:
    views = show(lower(leaky_integrator()), INPUTS[0])
    measure_layers(views)
    time = views.page.locator(".nbg-status [data-clock]")
    expect(time).to_have_attribute("title", re.compile("one run of forward, post;"))
    for layer, section in (("scaled", "forward"), ("squashed", "post"), ("y", "post")):
        name = views.page.locator(f'tr[data-row="{layer}"] th')
        expect(name).to_have_text(f"{layer} {section}")
    other = show(*uneven_costs)
    measure_layers(other)
    time = other.page.locator(".nbg-status [data-clock]")
    expect(time).to_have_attribute("title", re.compile("one run;"))
    expect(other.page.locator('tr[data-row="wide"] th')).to_have_text("wide")
