"""No serious fault of accessibility in any view, by axe-core's rules."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from accessibility import AXE, faults
from legible import assert_found, network, still, unreadable
from sourced import Sourced
from trained_autoencoder import autoencoder
from views_page import PARITY, Views

PLACES: tuple[dict[str, Any], ...] = (
    {"tab": "network", "form": "strip"},
    {"tab": "network", "form": "graph"},
    {"tab": "layer", "section": "maps"},
    {"tab": "layer", "section": "filters"},
    {"tab": "layer", "section": "explain"},
    {"tab": "layer", "section": "bend"},
    {"tab": "profile"},
)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_view_breaks_a_serious_rule(show: Callable[..., Views], theme: str) -> None:
    plan, images, _ = autoencoder()
    views = show(plan, images)
    views.page.add_script_tag(path=str(AXE))
    views.page.evaluate(
        "light => { document.body.dataset.jpThemeLight = light; }", theme == "light"
    )
    layers = [[one.name, 2e-7, one.name != "decoder.3"] for one in plan.layers]
    views.set(parity={**PARITY, "layers": layers})
    views.set(selected={"layer": "encoder.3", "channel": 1})
    bend = {
        "layer": "encoder.3", "name": "turned", "transform": "rotate", "parameters": [30],
        "channels": [1, 5], "mix": 0.5, "enabled": True, "source": "", "names": [], "array": "",
        "frozen": False,
    }  # fmt: skip
    off = {**bend, "name": "noise", "transform": "noise", "parameters": [0.5, 1], "enabled": False}
    views.set(edited={"edits": [bend, off], "weights": 0})
    found = {}
    # The strip in rows, then all.
    for width, places in ((620, PLACES[:1]), (1200, PLACES), (420, PLACES)):
        views.page.set_viewport_size({"width": width, "height": 1000})
        for place in places:
            views.set(**place)
            views.quiet()
            found[width, *place.values()] = faults(views.page, theme)
    wrong = {where: what for where, what in found.items() if what}
    assert not wrong, wrong


KINDS = ("picture", "webcam", "video", "drawing", "images", "noise")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_drawer_of_sources_breaks_no_serious_rule_and_can_be_read(
    show: Callable[..., Views], swept_widths: Callable[..., tuple[int, ...]], theme: str
) -> None:
    plan, images, _ = autoencoder()
    views = show(plan, images)
    views.page.add_script_tag(path=str(AXE))
    views.page.evaluate(
        "light => { document.body.dataset.jpThemeLight = light; }", theme == "light"
    )
    sourced = Sourced(views, plan)
    items = np.round(images * 255).astype(np.uint8)
    labels, names = [0, 2, 1], ["shirt", "bag", "coat"]
    sourced.set("images", index=1, title="Three", **sourced.put_set(items, 2, labels, names))
    sourced.wait(1)
    sourced.open()
    found = {}
    for width in (1200, 420):
        views.page.set_viewport_size({"width": width, "height": 1000})
        for kind in KINDS:
            views.page.locator(f"[data-kind={kind}]").click()
            views.quiet()
            found[width, kind] = faults(views.page, theme)
    # Each theme has some of the widths.
    widths = swept_widths(*((620, 940) if theme == "light" else (848,)))
    for kind in KINDS:
        views.page.locator(f"[data-kind={kind}]").click()
        found["read", kind] = unreadable(views.page, widths)
    views.set(source=None)
    sourced.set("webcam")
    views.set(sourceStatus={"phase": "failed", "failure": "denied", "detail": "why", "rate": 0})
    views.quiet()
    found["failed",] = faults(views.page, theme)
    found["read", "failed"] = unreadable(views.page, widths)
    wrong = {where: what for where, what in found.items() if what}
    assert not wrong, wrong
    if theme == "dark":
        return
    assert_found(
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
    show: Callable[..., Views], name: str, layers: list[str]
) -> None:
    """Of a transposed convolution, of attention, and of lines of numbers."""
    plan, inputs = network(name)
    views = show(plan, *inputs, width=848)
    views.page.add_script_tag(path=str(AXE))
    views.set(tab="layer", section="explain")
    for layer in layers:
        views.set(selected={"layer": layer, "channel": 1})
        still(views)
        assert faults(views.page, "light") == [], layer
