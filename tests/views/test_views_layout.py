"""Every view at the widths of notebooks: nothing clipped, overlapping or too small."""

import re
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
import torch
from playwright.sync_api import Page, expect
from torch import nn

import nbglcnn
from nbglcnn.features.edits.records import Edit
from readability import (
    NETWORKS,
    WIDTHS,
    assert_checks_detect,
    compile_network,
    layout_faults,
    views_of,
    wait_page_drawn,
)
from sources_page import SourcesPage
from viewer_models import autoencoder, pictures
from views_page import ViewsPage, parse_number

# A subset of the sweep: for some networks, the views whose names match, at some widths.
SAMPLE_WIDTHS = {
    "autoencoder": (
        "graph|profile|explain of (encoder.4|decoder.0)|filters of decoder.0",
        (620, 1120),
    ),
    "unet": ("graph|explain of (pool|up2|cat).*, at its first", (768,)),
    "attention": ("graph|maps of share|explain of (norm|share|head)", (848,)),
    "signal": ("explain of (0|3|6)", (940,)),
    "compared": ("compare|strip", (620, 1120)),
    "long": ("strip|graph|(maps|explain) of encoder.*0, Conv2d 2×2$", (620,)),
}


@pytest.mark.timeout(900)  # for the full sweep
@pytest.mark.parametrize("name", NETWORKS)
def test_all_can_be_read_at_every_width(
    show: Callable[..., ViewsPage], request: pytest.FixtureRequest, name: str
) -> None:
    part, widths = SAMPLE_WIDTHS.get(name, ("(?!)", ()))
    if request.config.getoption("--sweep"):
        part, widths = ".", WIDTHS
    elif not widths:
        pytest.skip("in `make sweep`")
    plan, inputs = compile_network(name)
    views = show(plan, *inputs)
    found: dict[str, list[str]] = {}
    for view, state in views_of(plan).items():
        for width in widths if re.match(part, view) else ():
            views.page.set_viewport_size({"width": width, "height": 900})
            views.set(**state)
            wait_page_drawn(views)
            found[f"{view}, {width} px wide"] = layout_faults(views.page)
    assert len(found) >= len(widths), "no view has such a name"
    assert {view: these for view, these in found.items() if these} == {}


@pytest.mark.parametrize("name", ["autoencoder", "long"])
def test_the_bar_and_tips_keep_their_names_whole(
    show: Callable[..., ViewsPage], sweep_widths: Callable[..., tuple[int, ...]], name: str
) -> None:
    """With a batch, a playing source, a training, bends of a layer, and a tooltip over its maps."""
    plan, (x,) = compile_network(name)
    views = show(plan, x)
    page = views.page
    sourced = SourcesPage(views, plan)
    layer = plan.layers[1].name
    bend = Edit(layer=layer, name="turned", transform="rotate", parameters=(30,))
    progress = "() => { const p = views.state.progress; p.value = { ...p.value, phase: 'off' }; }"
    for source in (False, True) if name == "autoencoder" else (True,):
        if source:
            sourced.set_source("noise")
            views.set(currentEdits={"edits": [msgspec.to_builtins(bend)], "weights": 0})
            page.evaluate(progress.replace("'off'", "'waiting'"))
        for width in {*sweep_widths(620, 848), 1300}:
            page.set_viewport_size({"width": width, "height": 900})
            wait_page_drawn(views)
            words = page.locator(".nbg-model .nbg-name")
            assert words.evaluate("(one) => one.scrollWidth <= one.clientWidth"), width
            assert layout_faults(page) == [], width
    # At the left and right edges of the Viewer.
    for width in sweep_widths(620):
        page.set_viewport_size({"width": width, "height": 900})
        wait_page_drawn(views)
        for canvas, at in (("first", 0.1), ("last", 0.95)):
            views.hover(getattr(page.locator(".nbg-content canvas[data-maps]"), canvas), at, 0.5)
            assert layout_faults(page) == [], (width, at)
    expect(page.locator(".nbg-tip")).to_be_visible()
    assert_checks_detect(
        page, {".nbg-tip { width: 40px; overflow: hidden }": "in pieces"}, width=width
    )


# Hosts' own style for definition lists in text.
HOST_STYLE = "dt { float: left; width: 20%; } dd { width: 80%; margin-left: 20%; }"


def test_the_list_of_keys_can_be_read_in_any_host(show: Callable[..., ViewsPage]) -> None:
    views = show(nbglcnn.compile(autoencoder(3), pictures(3)), pictures(3))
    views.page.get_by_role("button", name="Keys").click()
    for style in (":root {}", HOST_STYLE):
        views.page.add_style_tag(content=style)
        for width in WIDTHS:
            views.page.set_viewport_size({"width": width, "height": 900})
            wait_page_drawn(views)
            assert layout_faults(views.page) == [], (style, width)


def test_what_is_wrong_with_a_view_is_found(show: Callable[..., ViewsPage]) -> None:
    # Tests the measurements themselves on a deliberately broken page.
    x = pictures(3)
    views = show(nbglcnn.compile(autoencoder(3), x), x, width=848)
    views.open_layer("encoder.0", 0)
    views.set(layerSection="explain")
    wait_page_drawn(views)
    assert layout_faults(views.page) == []
    broken = {
        ".nbg-question { font-size: 10px !important }": "letters of 10.0 px",
        ".nbg-asked { width: 14px }": "in pieces of",
        ".nbg-matrix td { font-size: 40px }": "cut off",
        ".nbg-card { margin-top: -60px }": "over ",
        ".nbg-pick canvas { zoom: 0.3 }": "a picture of",
        ".nbg-overlay { transform: translateX(400px) }": "a mark outside of",
        ".nbg-index { width: 8px !important; padding: 0 !important }": "cut off",
    }
    assert_checks_detect(views.page, broken)
    assert layout_faults(views.page) == []


CHANNEL_LABEL = "Shown for channel"


def shown_channel(page: Page) -> int:
    return int(page.get_by_label(CHANNEL_LABEL).input_value())


def test_the_filter_stays_while_it_slides(show: Callable[..., ViewsPage]) -> None:
    torch.manual_seed(2)
    model, x = nn.Sequential(nn.Conv2d(5, 3, 3, padding=1)).eval(), torch.randn(1, 5, 6, 7)
    views = show(nbglcnn.compile(model, x), x.numpy())
    page = views.page
    views.set(pixel={"mapHeight": 6, "mapWidth": 7, "y": 0, "x": 0})
    views.open_layer("0", 1)
    views.set(layerSection="explain")
    expect(page.locator(".nbg-question")).to_contain_text("y 0, x 0 =")
    first = shown_channel(page)
    terms = [
        float(one.get_attribute("data-value") or "nan") for one in page.locator("[data-term]").all()
    ]
    assert abs(terms[0]) == max(map(abs, terms)), "the one that gives most comes first"
    most = set()
    weights = page.get_by_role("table", name="Filter").inner_text()
    for _ in range(12):
        page.get_by_role("button", name="Next position").click()
        most.add(page.locator("[data-term]").first.get_attribute("data-term"))
        assert shown_channel(page) == first
        assert page.get_by_role("table", name="Filter").inner_text() == weights
    expect(page.locator(".nbg-question")).to_contain_text("y 1, x 5 =")
    assert len(most) > 1, "another channel gives most somewhere"
    page.get_by_label(CHANNEL_LABEL).fill("4")
    page.get_by_label(CHANNEL_LABEL).press("Tab")
    page.get_by_role("button", name="Previous position").click()
    expect(page.locator(".nbg-question")).to_contain_text("y 1, x 4 =")
    assert shown_channel(page) == 4
    # Another output channel has another filter: again the input channel with the largest
    # contribution.
    views.set(selected={"layer": "0", "channel": 2})
    expect(page.locator(".nbg-question")).to_contain_text("channel 2")
    assert str(shown_channel(page)) == page.locator("[data-term]").first.get_attribute("data-term")


def test_a_slider_scrubs_through_all_positions(show: Callable[..., ViewsPage]) -> None:
    model, x = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1)).eval(), torch.randn(1, 1, 6, 7)
    views = show(nbglcnn.compile(model, x), x.numpy())
    page = views.page
    views.set(pixel={"mapHeight": 6, "mapWidth": 7, "y": 2, "x": 3})
    views.open_layer("0", 0)
    views.set(layerSection="explain")
    slider = page.get_by_role("slider", name="Position of the filter")
    expect(slider).to_have_value("17")
    expect(slider).to_have_attribute("aria-valuetext", "y 2, x 3, position 18 of 42")
    slider.press("ArrowRight")
    expect(page.locator(".nbg-question")).to_contain_text("y 2, x 4 =")
    slider.press("End")
    expect(page.locator(".nbg-question")).to_contain_text("y 5, x 6 =")
    expect(slider).to_have_attribute("aria-valuetext", "y 5, x 6, position 42 of 42")
    assert views.get("selected")["layer"] == "0", "the arrows were the slider's"


def test_negative_outputs_grow_to_the_left(show: Callable[..., ViewsPage]) -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.Flatten(), nn.Linear(50, 4))
    with torch.no_grad():
        model[2].weight.zero_()
        model[2].bias.copy_(torch.tensor([3.0, -1.0, 0.5, -2.0]))
    x = torch.rand(1, 1, 5, 5)
    views = show(nbglcnn.compile(model.eval(), x), x.numpy())
    rows = views.page.locator(".nbg-end .nbg-top-row")
    expect(rows).to_have_count(4)
    found = {}
    for row in rows.all():
        track = row.locator(".nbg-top-track").bounding_box()
        bar = row.locator(".nbg-top-bar").bounding_box()
        assert track is not None and bar is not None
        ends = np.array([bar["x"], bar["x"] + bar["width"]]) - track["x"]
        found[parse_number(row.locator("strong").inner_text())] = ends / track["width"]
    for value, ends in found.items():
        expected = sorted(((min(value, 0) + 2) / 5, (max(value, 0) + 2) / 5))
        np.testing.assert_allclose(ends, expected, atol=0.02, err_msg=str(value))


def focused_layer(page: Page) -> str:
    return str(page.evaluate("() => document.activeElement.closest('[data-layer]')?.dataset.layer"))


@pytest.mark.parametrize("form", ["strip", "graph"])
def test_the_focus_goes_from_the_finder_to_the_layer(
    show: Callable[..., ViewsPage], form: str
) -> None:
    views = show(nbglcnn.compile(autoencoder(3), pictures(3)), pictures(3))
    page = views.page
    views.set(networkLayout=form)
    page.get_by_role("button", name=form.title(), pressed=True).wait_for()
    views.wait_idle()  # a picture redrawn during the key press would lose it
    page.locator(".nbg-picture").first.press("/")
    field = page.get_by_label("Find a layer")
    expect(field).to_be_focused()
    page.keyboard.type("decoder.2")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.activeElement.matches('.nbg-picture')")
    assert focused_layer(page) == views.get("selected")["layer"] == "decoder.2"
    expect(field).to_have_value("")
    page.keyboard.press("ArrowLeft")
    assert views.get("selected")["layer"] != "decoder.2", "the arrows go on from there"
    # Esc restores the field's previous state.
    before = views.get("selected")
    page.keyboard.press("/")
    expect(field).to_be_focused()
    page.keyboard.type("enc")
    page.keyboard.press("Escape")
    if page.evaluate("document.activeElement.matches('.nbg-finder')"):
        page.keyboard.press("Escape")  # the browser's suggestion list was open and took the first
    page.wait_for_function("() => document.activeElement.matches('.nbg-picture')")
    assert (views.get("tab"), views.get("selected")) == ("network", before)
    expect(field).to_have_value("")


def test_the_focus_that_follows_an_arrow_does_not_come_after_the_next_key(
    show: Callable[..., ViewsPage],
) -> None:
    views = show(nbglcnn.compile(autoencoder(3), pictures(3)), pictures(3))
    page = views.page
    views.set(networkLayout="strip")
    views.wait_idle()
    page.locator(".nbg-picture").first.focus()
    page.evaluate(
        """async () => {
          const press = (key) => document.activeElement.dispatchEvent(
            new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
          press('ArrowRight');
          press('/'); // before the frame in which the focus follows the arrow
          for (let k = 0; k < 3; k++) await new Promise((done) => requestAnimationFrame(done));
        }"""
    )
    expect(page.get_by_label("Find a layer")).to_be_focused()


def test_arrows_on_the_tabs_go_to_the_tabs_beside(show: Callable[..., ViewsPage]) -> None:
    views = show(nbglcnn.compile(autoencoder(3), pictures(3)), pictures(3))
    page = views.page
    views.set(selected={"layer": "encoder.2", "channel": None})
    page.get_by_role("tab", name="Network").focus()
    for key, tab in (
        ("ArrowRight", "layer"), ("ArrowRight", "profile"), ("ArrowRight", "network"),
        ("ArrowLeft", "profile"), ("Home", "network"), ("End", "profile"),
    ):  # fmt: skip
        page.keyboard.press(key)
        assert views.get("tab") == tab
        assert page.evaluate("() => document.activeElement.dataset.tab") == tab
    assert views.get("selected") == {"layer": "encoder.2", "channel": None}
    expect(page.locator("[role=tab][tabindex='0']")).to_have_count(1)


def test_a_time_with_building_shaders_is_not_told_as_a_runs(show: Callable[..., ViewsPage]) -> None:
    views = show(nbglcnn.compile(autoencoder(3), pictures(3)), pictures(3))
    status = views.page.locator(".nbg-status")
    run = {
        "ms": 588,
        "clock": "fence",
        "passes": 9,
        "hasBuiltPipelines": True,
        "isExclusive": False,
        "sequence": 9,
    }
    views.set(run=run, remeasuredRun=None)
    expect(status).to_contain_text("preparing the GPU…")
    expect(status).not_to_contain_text(" ms")
    views.set(tab="profile", layerTimes=None, session=None)
    expect(views.page.locator(".nbg-profile")).not_to_contain_text("588")
    views.set(remeasuredRun={**run, "ms": 1.26, "hasBuiltPipelines": False, "isExclusive": True})
    expect(status.locator("strong").first).to_have_text("1.3 ms")
    expect(status).not_to_contain_text("preparing")


def test_layers_that_add_up_to_more_than_a_run_are_explained(
    show: Callable[..., ViewsPage],
) -> None:
    plan = nbglcnn.compile(autoencoder(3), pictures(3))
    views = show(plan, pictures(3))
    views.set(tab="profile")
    page = views.page
    expect(page.get_by_role("button", name="Measure again")).to_be_visible(timeout=60_000)
    line = page.locator(".nbg-profile p").first
    for each, words in ((2.0, True), (0.5, False)):
        page.evaluate(
            "([count, ms]) => { const { layerTimes, run, remeasuredRun } = views.state;"
            " run.value = { ...run.value, ms: count, hasBuiltPipelines: false };"
            " remeasuredRun.value = null;"
            " const time = { ms, clock: 'wall', passes: 1, repeats: 1 };"
            " layerTimes.value = new Map(Array.from({ length: count + 1 }, (_, k) =>"
            " [k < count ? k : -1, time])); }",
            [len(plan.layers), each],
        )
        expect(line).to_contain_text("sum of the layers")
        assert ("The machine was busy during the measurement" in line.inner_text()) == words
