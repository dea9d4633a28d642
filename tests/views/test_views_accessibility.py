"""No serious accessibility violation in any view, by axe-core's rules."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from accessibility import AXE_SCRIPT, accessibility_violations
from readability import (
    assert_checks_detect,
    compile_network,
    layout_faults_by_width,
    wait_page_drawn,
)
from sources_page import SourcesPage
from trained_autoencoder import compile_autoencoder
from views_page import PARITY_STATE, ViewsPage

VIEW_STATES: tuple[dict[str, Any], ...] = (
    {"tab": "network", "networkLayout": "strip"},
    {"tab": "network", "networkLayout": "graph"},
    {"tab": "layer", "layerSection": "maps"},
    {"tab": "layer", "layerSection": "filters"},
    {"tab": "layer", "layerSection": "explain"},
    {"tab": "layer", "layerSection": "bend"},
    {"tab": "profile"},
)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_view_breaks_a_serious_rule(show: Callable[..., ViewsPage], theme: str) -> None:
    plan, images, _ = compile_autoencoder()
    views = show(plan, images)
    views.page.add_script_tag(path=str(AXE_SCRIPT))
    views.page.evaluate(
        "light => { document.body.dataset.jpThemeLight = light; }", theme == "light"
    )
    layers = [[one.name, 2e-7, one.name != "decoder.3"] for one in plan.layers]
    views.set(parity={**PARITY_STATE, "layers": layers})
    views.set(selected={"layer": "encoder.3", "channel": 1})
    bend = {
        "layer": "encoder.3", "name": "turned", "transform": "rotate", "parameters": [30],
        "channels": [1, 5], "mix": 0.5, "enabled": True, "source": "",
        "parameter_names": [], "array_hash": "",
        "is_frozen": False,
    }  # fmt: skip
    off = {**bend, "name": "noise", "transform": "noise", "parameters": [0.5, 1], "enabled": False}
    views.set(currentEdits={"edits": [bend, off], "weights": 0})
    found = {}
    # First the strip in rows, then all views.
    for width, places in ((620, VIEW_STATES[:1]), (1200, VIEW_STATES), (420, VIEW_STATES)):
        views.page.set_viewport_size({"width": width, "height": 1000})
        for place in places:
            views.set(**place)
            views.wait_idle()
            found[width, *place.values()] = accessibility_violations(views.page, theme)
    wrong = {where: what for where, what in found.items() if what}
    assert not wrong, wrong


KINDS = ("picture", "webcam", "video", "drawing", "images", "noise")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_drawer_of_sources_breaks_no_serious_rule_and_can_be_read(
    show: Callable[..., ViewsPage], sweep_widths: Callable[..., tuple[int, ...]], theme: str
) -> None:
    plan, images, _ = compile_autoencoder()
    views = show(plan, images)
    views.page.add_script_tag(path=str(AXE_SCRIPT))
    views.page.evaluate(
        "light => { document.body.dataset.jpThemeLight = light; }", theme == "light"
    )
    sourced = SourcesPage(views, plan)
    items = np.round(images * 255).astype(np.uint8)
    labels, names = [0, 2, 1], ["shirt", "bag", "coat"]
    sourced.set_source(
        "images", index=1, title="Three", **sourced.add_dataset(items, 2, labels, names)
    )
    sourced.wait_input_count(1)
    sourced.open_drawer()
    found = {}
    for width in (1200, 420):
        views.page.set_viewport_size({"width": width, "height": 1000})
        for kind in KINDS:
            views.page.locator(f"[data-kind={kind}]").click()
            views.wait_idle()
            found[width, kind] = accessibility_violations(views.page, theme)
    # Each theme tests some of the widths.
    widths = sweep_widths(*((620, 940) if theme == "light" else (848,)))
    for kind in KINDS:
        views.page.locator(f"[data-kind={kind}]").click()
        found["read", kind] = layout_faults_by_width(views.page, widths)
    views.set(source=None)
    sourced.set_source("webcam")
    views.set(
        sourceStatus={
            "phase": "failed",
            "failure": "denied",
            "detail": "why",
            "picturesPerSecond": 0,
        }
    )
    views.wait_idle()
    found["failed",] = accessibility_violations(views.page, theme)
    found["read", "failed"] = layout_faults_by_width(views.page, widths)
    wrong = {where: what for where, what in found.items() if what}
    assert not wrong, wrong
    if theme == "dark":
        return
    assert_checks_detect(
        views.page,
        {
            ".nbg-model > .nbg-name { max-width: 20px }": "0 letters are left",
            ".nbg-model > .nbg-name { max-width: 30px; white-space: normal }": "in pieces",
            ".nbg-chosen-source { width: 60px }": "0 letters are left",
            ".nbg-tabs { margin-top: -40px }": "over each other",
            ".nbg-kinds { width: 1200px }": "outside of the Viewer",
            ".nbg-drawer p { font-size: 10px !important }": "letters of 10.0 px",
        },
    )


@pytest.mark.parametrize(
    ("name", "layers"),
    [("autoencoder", ["decoder.0"]), ("attention", ["share"]), ("signal", ["0", "6"])],
)
def test_no_explanation_breaks_a_serious_rule(
    show: Callable[..., ViewsPage], name: str, layers: list[str]
) -> None:
    """Explain views of a transposed convolution, of attention, and of vectors."""
    plan, inputs = compile_network(name)
    views = show(plan, *inputs, width=848)
    views.page.add_script_tag(path=str(AXE_SCRIPT))
    views.set(tab="layer", layerSection="explain")
    for layer in layers:
        views.set(selected={"layer": layer, "channel": 1})
        wait_page_drawn(views)
        assert accessibility_violations(views.page, "light") == [], layer
