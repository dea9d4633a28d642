"""The network as a graph: meaning and position of nodes and lines, and navigation."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser, expect
from torch import nn

import nbglcnn
from denoiser import Denoiser
from gallery_networks import VisionTransformer
from graph_page import NODE_BOXES_SCRIPT, GraphPage, centre
from views_page import CLIPPED_ELEMENTS_SCRIPT, ViewsPage, parse_number
from zoo import ResNet18, UNet, autoencoder

EDGE_ENDS_SCRIPT = """() => [...document.querySelectorAll('.nbg-edge')].map(({ dataset }) =>
  [dataset.from, ...dataset.steps.split('\\n').filter((id) => id), dataset.to])"""
# A mosaic's maps as drawn, with a grey level from 0 to 255 for each pixel.
CANVAS_GREYS_SCRIPT = """(canvas) => {
  const { width, height, dataset } = canvas;
  const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
  return { width, height, columns: Number(dataset.columns), shown: Number(dataset.channels),
    grey: [...data].filter((_, k) => k % 4 === 0),
    coloured: data.some((v, k) => k % 4 < 3 && v !== data[k - (k % 4)]) };
}"""


def vit() -> nn.Module:
    """The gallery's ViT, for the 16 patches of a 32×32 picture."""
    model = VisionTransformer()
    model.places = nn.Parameter(model.places[:, :16].clone())
    return model


@pytest.fixture(scope="module")
def open_graph(
    browser: Callable[[str], Browser], static_site: tuple[str, dict[str, bytes]]
) -> Iterator[Callable[[str], GraphPage]]:
    """`open_graph("unet")` returns the page of that network."""
    made: dict[str, GraphPage] = {}
    models = {
        "unet": lambda: UNet(4),
        "resnet18": lambda: ResNet18(4, 10),
        "denoiser": Denoiser,
        "vit": vit,
    }

    def get(name: str) -> GraphPage:
        if name not in made:
            made[name] = GraphPage(
                browser("llvmpipe"), static_site[1], static_site[0], models[name]()
            )
        return made[name].reset()

    yield get
    for one in made.values():
        one.page.close()
        assert not one.errors


@pytest.mark.parametrize("name", ["unet", "resnet18"])
def test_every_layer_is_in_one_node_and_lines_are_the_layer_tables_inputs(
    open_graph: Callable[[str], GraphPage], name: str
) -> None:
    shown = open_graph(name)
    counts = []
    for button in (None, "Open all", "Close all"):
        if button is not None:
            shown.page.get_by_role("button", name=button).click()
        nodes = shown.node_boxes()
        owner = {layer: node for node, one in nodes.items() for layer in one["layers"]}
        listed = [layer for one in nodes.values() for layer in one["layers"]]
        assert sorted(listed) == sorted(layer.name for layer in shown.plan.layers)
        owner["x"] = "x"
        expected = {
            (owner[key], owner[layer.name])
            for layer in shown.plan.layers
            for key in layer.inputs
            if owner[key] != owner[layer.name]
        }
        lines = shown.page.evaluate(EDGE_ENDS_SCRIPT)
        drawn = {pair for ids in lines for pair in pairwise(ids)}
        assert drawn == expected
        counts.append(len(nodes))
    closed = {"unet": 13, "resnet18": 9}[name]
    assert counts[0] == counts[2] == closed and counts[1] > closed + 4


def test_a_resnet_shows_its_stem_its_four_layers_and_its_head(
    open_graph: Callable[[str], GraphPage],
) -> None:
    nodes = open_graph("resnet18").node_boxes()
    blocks = [f"layer{k}" for k in range(1, 5)]
    assert list(nodes) == ["x", "relu", "maxpool", *blocks, "avgpool", "fc"]
    assert [id for id, one in nodes.items() if one["kind"] == "group"] == blocks
    x, y = zip(*(centre(one) for one in nodes.values()), strict=True)
    assert list(x) == sorted(x), "flow steps right"
    assert list(y) == sorted(y), "resolution steps down"


def test_a_unet_looks_like_a_u(open_graph: Callable[[str], GraphPage]) -> None:
    shown = open_graph("unet")
    nodes = shown.node_boxes()
    at = {name: centre(one) for name, one in nodes.items()}
    for left, right in (("down1", "join1"), ("down2", "join2")):
        assert at[left][1] == pytest.approx(at[right][1], abs=0.5), "one resolution, one height"
    assert at["down1"][1] < at["down2"][1] < at["middle"][1]
    across = [at[name][0] for name in ("x", "down1", "down2", "middle", "join2", "join1")]
    assert across == sorted(across)
    # Skips are horizontal, show their shape if there is room, and end at the join.
    labels = shown.page.locator(".nbg-skip")
    assert labels.all_inner_texts() == ["skip", "skip 4×32×32"]
    for skip, source in zip(labels.all(), ("down2", "down1"), strict=True):
        box = skip.bounding_box()
        assert box is not None
        assert -25 < centre(box)[1] - at[source][1] < 0
    assert [shown.picture_button(name).inner_text() for name in ("cat", "cat:1")] == ["cat", "cat"]
    # Captions are outside the U.
    for name, side in (("down2", -1), ("join2", 1)):
        box = shown.node(name).locator(".nbg-caption").bounding_box()
        assert box is not None and (centre(box)[0] - at[name][0]) * side > nodes[name]["width"] / 2
    expect(shown.node("down2").locator(".nbg-caption")).to_contain_text("8×16×16")
    expect(shown.node("down2").locator(".nbg-caption")).to_contain_text("6 layers")
    # Only the caption of a node may be larger than the node, and captions aren't clipped.
    assert [
        one
        for one in shown.page.evaluate(CLIPPED_ELEMENTS_SCRIPT)
        if not one.startswith("nbg-node")
    ] == []


def test_modules_open_and_close_in_place(open_graph: Callable[[str], GraphPage]) -> None:
    shown = open_graph("unet")
    shown.picture_button("down2").dblclick()
    expect(shown.node("down2")).to_have_count(0)
    inside = {id: one for id, one in shown.node_boxes().items() if id.startswith("down2.")}
    assert [one["layers"] for one in inside.values()] == [
        ["down2.0", "down2.1", "down2.2"],
        ["down2.3", "down2.4", "down2.5"],
    ]
    # They are side by side in the module's place, below its name.
    first, second = inside.values()
    assert first["y"] == second["y"] and first["x"] + first["width"] < second["x"]
    name = shown.page.locator(".nbg-bracket:has-text('down2')").bounding_box()
    assert name is not None and name["x"] == pytest.approx(first["x"], abs=1)
    assert name["y"] < first["y"]
    assert name["width"] == pytest.approx(second["x"] + second["width"] - first["x"], abs=1)
    shown.page.get_by_role("button", name="Close down2").click()
    expect(shown.node("down2")).to_have_count(1)
    # A click on the caption of a closed module opens it too.
    shown.page.get_by_role("button", name="Open join1 here").click()
    expect(shown.node("join1.2")).to_have_count(1)
    # When zoomed in, the opened module keeps its position.
    shown.reset()
    shown.views.set(graphCamera={"zoom": 1.5, "x": -300, "y": -250})
    before = shown.node_boxes()["middle"]
    shown.picture_button("middle").dblclick()
    after = shown.node_boxes()["middle.2"]
    assert (after["x"], after["y"]) == pytest.approx((before["x"], before["y"]), abs=1)


@pytest.mark.parametrize("key", ["down1.5", "down2.5", "middle.5"])
def test_a_node_shows_the_channels_of_its_last_layer(
    open_graph: Callable[[str], GraphPage], key: str
) -> None:
    shown = open_graph("unet")
    shown.views.set(colormap="grey", graphCamera={"zoom": 1, "x": 0, "y": 0})
    shown.wait_idle()
    canvas = shown.page.locator(f".nbg-node[data-layer='{key}'] canvas")
    shown.views.wait_idle()
    got = canvas.evaluate(CANVAS_GREYS_SCRIPT)
    maps = shown.values[key][0]
    channels, height, width = maps.shape
    columns, rows = got["columns"], -(-got["shown"] // got["columns"])
    scale = (got["width"] - columns + 1) / columns / width
    assert scale == int(scale) >= 1 and got["height"] == rows * (height * scale + 1) - 1
    order = list(range(channels))
    if got["shown"] < channels:
        order = sorted(order, key=lambda c: -float(maps[c].std()))
    grey = np.array(got["grey"]).reshape(got["height"], got["width"])
    assert not got["coloured"]
    low, high = float(maps.min()), float(maps.max())
    step = int(scale)
    for tile, channel in enumerate(order[: got["shown"]]):
        top = tile // columns * (height * step + 1)
        left = tile % columns * (width * step + 1)
        part = grey[top : top + height * step : step, left : left + width * step : step]
        expected = (maps[channel] - low) / (high - low) * 255
        np.testing.assert_allclose(part, expected, atol=1.6)


def test_only_what_is_in_the_window_is_drawn_and_asked_for(
    open_graph: Callable[[str], GraphPage],
) -> None:
    shown = open_graph("unet")
    run = """async () => {
      const { state, calls } = views;
      calls.drawn.length = 0;
      state.run.value = await state.session.value.run();
      const wait = (done) => setTimeout(done, 600);
      await new Promise(wait);
      return [...new Set(calls.drawn)];
    }"""
    ends = {"x", "output", "down1.5", "join1.5"}
    assert ends < set(shown.page.evaluate(run))
    # One node centred at four times the size.
    at = centre(shown.node_boxes()["middle"])
    shown.page.mouse.move(*at)
    shown.page.keyboard.down("Control")
    for _ in range(8):
        shown.page.mouse.wheel(0, -100)
    shown.page.keyboard.up("Control")
    shown.wait_idle()
    drawn = set(shown.page.evaluate(run))
    assert "middle.5" in drawn and not drawn & ends
    pictured = shown.page.locator(".nbg-node canvas").evaluate_all(
        "all => all.map((one) => one.closest('.nbg-node').dataset.node)"
    )
    assert set(pictured) <= {"middle", "down2", "join2"} and "middle" in pictured


def test_wheel_and_drag_and_buttons_move_the_graph(open_graph: Callable[[str], GraphPage]) -> None:
    shown = open_graph("unet")
    page = shown.page
    start = shown.view_transform()
    x, y = centre(shown.node_boxes()["down2"])
    page.mouse.move(x, y)
    page.mouse.wheel(0, -100)
    page.wait_for_timeout(100)
    assert shown.view_transform() == start, "the wheel scrolls the notebook"
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    page.wait_for_function("() => views.state.graphCamera.value !== null")
    near = shown.view_transform()
    assert near["zoom"] == pytest.approx(start["zoom"] * 2**0.5, rel=1e-3)
    assert centre(shown.node_boxes()["down2"]) == pytest.approx((x, y), abs=0.5)
    # A drag that starts on a node isn't a click.
    page.mouse.down()
    page.mouse.move(x + 30, y + 20, steps=3)
    page.mouse.move(x + 60, y + 40)
    page.mouse.up()
    moved = shown.view_transform()
    assert (moved["x"] - near["x"], moved["y"] - near["y"]) == pytest.approx((60, 40), abs=0.1)
    assert shown.views.get("selected") is None
    page.get_by_role("button", name="Zoom in").click()
    assert shown.view_transform()["zoom"] == pytest.approx(near["zoom"] * 1.25, rel=1e-3)
    page.get_by_role("button", name="Zoom out").press("Enter")
    assert shown.view_transform()["zoom"] == pytest.approx(near["zoom"], rel=1e-3)
    page.get_by_role("button", name="Fit").click()
    assert shown.view_transform() == start


LABEL_BOXES_SCRIPT = """() => {
  const texts = '.nbg-on-line, .nbg-skip, .nbg-bracket > span, .nbg-node .nbg-caption > *';
  return [...document.querySelectorAll(texts)].map((one) => {
    const range = document.createRange();
    range.selectNodeContents(one);
    const { left, top, right, bottom } = range.getBoundingClientRect();
    return { text: one.textContent, left, top, right, bottom };
  }).filter(({ text, right, left }) => text.trim() !== '' && right > left);
}"""


def overlapping_labels(labels: list[dict[str, Any]], min_gap_px: float) -> list[tuple[str, str]]:
    """Pairs of labels closer than `min_gap_px` pixels horizontally and overlapping vertically."""
    return [
        (a["text"], b["text"])
        for k, a in enumerate(labels)
        for b in labels[k + 1 :]
        if a["left"] < b["right"] + min_gap_px
        and b["left"] < a["right"] + min_gap_px
        and a["top"] < b["bottom"]
        and b["top"] < a["bottom"]
    ]


@pytest.mark.parametrize("name", ["unet", "denoiser", "resnet18"])
def test_no_label_of_the_graph_touches_another(
    open_graph: Callable[[str], GraphPage], name: str
) -> None:
    shown = open_graph(name)
    for button in (None, "Open all", "Close all"):
        if button is not None:
            shown.page.get_by_role("button", name=button).click()
        shown.views.set(graphCamera={"zoom": 1, "x": 0, "y": 0})
        shown.wait_idle()
        labels = shown.page.evaluate(LABEL_BOXES_SCRIPT)
        assert len(labels) > 5
        assert overlapping_labels(labels, 4) == [], button
    shown.views.set(graphCamera=None)


# Parts of the graph outside its window: nodes and all text.
OUTSIDE_WINDOW_SCRIPT = """() => {
  const window_ = document.querySelector('.nbg-window');
  const box = window_.getBoundingClientRect();
  const all = '.nbg-node, .nbg-caption > *, .nbg-bracket, .nbg-skip, .nbg-block-name';
  return [...window_.querySelectorAll(all)].filter((one) => one.checkVisibility()).filter((one) => {
    const { left, top, right, bottom, width } = one.getBoundingClientRect();
    return width > 0 && (left < box.left - 0.5 || top < box.top - 0.5
      || right > box.right + 0.5 || bottom > box.bottom + 0.5);
  }).map((one) => `${one.className}: ${one.textContent}`);
}"""


@pytest.mark.parametrize("name", ["resnet18", "vit"])
@pytest.mark.parametrize("width", [848, 1100, 1420])
def test_fit_shows_every_node_and_caption(
    open_graph: Callable[[str], GraphPage], name: str, width: int
) -> None:
    shown = open_graph(name)
    page = shown.page
    page.set_viewport_size({"width": width, "height": 1000})
    for opening in ("Close all", "Open all"):
        button = page.get_by_role("button", name=opening)
        if button.is_enabled():
            button.click()
        page.get_by_role("button", name="Zoom in").click()
        page.get_by_role("button", name="Fit").click()
        shown.wait_idle()
        assert page.evaluate(OUTSIDE_WINDOW_SCRIPT) == [], opening
        last = page.locator(".nbg-node[data-kind=output]").bounding_box()
        assert last is not None and last["x"] + last["width"] < width
        # Nodes too small for names have pictures, and show the name on hover.
        if last["width"] < 30:
            node = page.locator(".nbg-node[data-kind=stage] > .nbg-picture").first
            assert node.locator("canvas, svg").count() == 1
        before = shown.view_transform()["zoom"]
        page.get_by_role("button", name="Zoom out").click()
        assert shown.view_transform()["zoom"] <= before
        page.get_by_role("button", name="Zoom in").click()
        assert shown.view_transform()["zoom"] > before * 0.99


def test_two_fingers_pinch_and_one_scrolls_past_a_graph_that_is_all_there(
    open_graph: Callable[[str], GraphPage],
) -> None:
    shown = open_graph("unet")
    start = shown.view_transform()
    device = shown.page.context.new_cdp_session(shown.page)
    device.send("Emulation.setTouchEmulationEnabled", {"enabled": True, "maxTouchPoints": 2})

    def touch(kind: str, *points: tuple[float, float]) -> None:
        fingers = [{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(points)]
        device.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})

    x, y = centre(shown.node_boxes()["cat"])
    touch("touchStart", (x, y))
    touch("touchMove", (x + 40, y))
    touch("touchEnd")
    assert shown.view_transform() == start
    touch("touchStart", (x - 50, y), (x + 50, y))
    for by in (70, 100):
        touch("touchMove", (x - by, y), (x + by, y))
    touch("touchEnd")
    device.send("Emulation.setTouchEmulationEnabled", {"enabled": False})
    device.detach()
    assert shown.view_transform()["zoom"] == pytest.approx(start["zoom"] * 2, rel=0.02)
    assert centre(shown.node_boxes()["cat"]) == pytest.approx((x, y), abs=3)


def test_far_nodes_are_blocks_with_their_names_and_near_ones_have_maps(
    open_graph: Callable[[str], GraphPage],
) -> None:
    shown = open_graph("unet")
    node = shown.node("down1")
    words = node.locator(".nbg-caption > .nbg-name")
    shape = node.locator(".nbg-caption > span").first
    expect(shape).to_be_visible()
    for zoom, far in ((0.55, False), (0.45, True)):
        shown.views.set(graphCamera={"zoom": zoom, "x": 20, "y": 20})
        expect(node.locator(".nbg-block-name")).to_have_count(int(far))
        shown.page.wait_for_timeout(200)
        assert words.is_visible() is not far
        assert not shape.is_visible()
        assert node.locator("canvas").count() == int(not far)
        name = node.locator(".nbg-block-name") if far else words
        assert name.inner_text() == "down1"
        size = name.evaluate("one => parseFloat(getComputedStyle(one).fontSize)") * zoom
        assert size == pytest.approx(11, abs=0.1)
    # The minimum size.
    for _ in range(6):
        shown.page.get_by_role("button", name="Zoom out").click()
    assert shown.node_boxes()["down1"]["width"] == pytest.approx(44, abs=0.1)


def test_arrows_move_along_the_edges_and_enter_opens(
    open_graph: Callable[[str], GraphPage],
) -> None:
    shown = open_graph("unet")
    page = shown.page
    stops = page.locator(".nbg-node .nbg-picture[tabindex='0']")
    expect(stops).to_have_count(1)
    stops.focus()

    def here() -> str:
        return str(page.evaluate("() => document.activeElement.closest('.nbg-node').dataset.node"))

    def press(key: str, then: str) -> None:
        page.keyboard.press(key)
        expect(shown.picture_button(then)).to_be_focused()
        expect(stops).to_have_count(1)

    assert here() == "x"
    for node in ("down1", "pool", "down2", "pool:1", "middle", "up2", "cat", "join2"):
        press("ArrowRight", node)
    assert shown.views.get("selected") == {"layer": "join2.5", "channel": None}
    press("ArrowLeft", "cat")
    press("ArrowLeft", "up2")
    press("ArrowDown", "middle")
    # Enter opens the module in place and keeps the focus in it; Backspace closes it.
    press("Enter", "middle.5")
    press("ArrowLeft", "middle.2")
    press("Backspace", "middle")
    # A node outside the window scrolls into view when it gets the focus.
    shown.views.set(graphCamera={"zoom": 2, "x": -1000, "y": -1000})
    press("ArrowRight", "up2")
    press("ArrowRight", "cat")
    assert shown.is_in_window("cat")
    page.evaluate("() => document.activeElement.blur()")
    shown.views.set(graphCamera={"zoom": 2, "x": 2000, "y": -1000})
    assert not shown.is_in_window("cat")
    stops.focus()
    expect(shown.picture_button("cat")).to_be_in_viewport()
    assert shown.is_in_window("cat")
    page.keyboard.press("Enter")
    expect(page.locator(".nbg-layer")).to_have_attribute("data-layer", "cat")


def test_a_click_selects_and_a_skip_selects_what_travels(
    open_graph: Callable[[str], GraphPage],
) -> None:
    shown = open_graph("unet")
    page = shown.page
    shown.picture_button("join2").click()
    assert shown.views.get("selected") == {"layer": "join2.5", "channel": None}
    expect(shown.picture_button("join2")).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".nbg-panel .nbg-title strong")).to_have_text("join2.5")
    page.get_by_role("button", name="Skip from down1 to cat: down1.5, 4×32×32").click()
    assert shown.views.get("selected") == {"layer": "down1.5", "channel": None}
    expect(page.locator(".nbg-travels")).to_have_attribute("data-to", "cat:1")
    # A click on the line itself, far from its label.
    nodes = shown.node_boxes()
    left, right = nodes["down2"], nodes["cat"]
    share = left["x"] + left["width"] + 0.85 * (right["x"] - left["x"] - left["width"])
    page.mouse.click(share, centre(left)[1])
    assert shown.views.get("selected") == {"layer": "down2.5", "channel": None}
    shown.open_groups("down1")
    shown.picture_button("down1.2").dblclick()
    expect(page.locator(".nbg-layer")).to_have_attribute("data-layer", "down1.2")


def test_a_closed_module_that_is_selected_shows_its_layers_below(
    open_graph: Callable[[str], GraphPage],
) -> None:
    shown = open_graph("unet")
    look = shown.page.locator(".nbg-module-layers")
    expect(look).to_have_count(0)
    shown.picture_button("down2").click()
    tiles = look.locator(".nbg-tile")
    names = [" ".join(text.split()) for text in tiles.all_inner_texts()]
    assert names == ["0 Conv", "1 BN", "2 ReLU", "3 Conv", "4 BN", "5 ReLU"]
    keys = look.locator("canvas").evaluate_all("all => all.map((one) => one.dataset.maps)")
    assert keys == [f"down2.{k}" for k in range(6)]
    tiles.nth(3).click()
    assert shown.views.get("selected") == {"layer": "down2.3", "channel": None}
    expect(shown.picture_button("down2")).to_have_attribute("aria-pressed", "true")
    tiles.nth(3).dblclick()
    expect(shown.page.locator(".nbg-layer")).to_have_attribute("data-layer", "down2.3")


def test_the_pointer_reads_values_at_any_zoom(open_graph: Callable[[str], GraphPage]) -> None:
    shown = open_graph("resnet18")
    canvas = shown.page.locator(".nbg-node[data-node='layer1'] canvas")
    maps = shown.values["layer1"][0]
    for zoom in (0.6, 1.7):
        shown.views.set(graphCamera={"zoom": zoom, "x": -100 * zoom, "y": 40})
        shown.wait_idle()
        columns = int(canvas.get_attribute("data-columns") or 1)
        assert columns == 2 and maps.shape == (4, 8, 8)
        text = shown.views.hover(canvas, 0.5 + 0.5 * 2.5 / 8, 0.5 * 5.5 / 8)
        assert "channel 1 · y 5, x 2" in text
        assert parse_number(text) == pytest.approx(float(maps[1, 5, 2]), rel=1e-4, abs=1e-5)
    shown.views.set(graphCamera={"zoom": 0.8, "x": 0, "y": 0})
    bars = shown.page.locator(".nbg-node [data-bars='avgpool']")
    code = shown.values["avgpool"].ravel()
    count = bars.locator("rect").count()
    assert count >= 5
    whole, fourth = bars.bounding_box(), bars.locator("rect").nth(3).bounding_box()
    assert whole is not None and fourth is not None
    middle = fourth["y"] + fourth["height"] / 2 - whole["y"]
    text = shown.views.hover(bars, 0.5, middle / whole["height"])
    channel = int(parse_number(text.split("channel")[1]))
    assert channel == sorted(np.argsort(-np.abs(code), kind="stable")[:count])[3]
    assert parse_number(text) == pytest.approx(float(code[channel]), rel=1e-4)


def test_a_layer_is_found_by_its_name_or_its_type(open_graph: Callable[[str], GraphPage]) -> None:
    shown = open_graph("resnet18")
    page = shown.page
    shown.picture_button("layer1").focus()
    page.keyboard.press("/")
    field = page.get_by_label("Find a layer")
    expect(field).to_be_focused()
    field.press_sequentially("layer3.0.conv2")
    field.press("Enter")
    assert shown.views.get("selected") == {"layer": "layer3.0.conv2", "channel": None}
    expect(shown.node("layer3.0.bn2")).to_have_class("nbg-node nbg-chosen")
    expect(shown.node("layer2")).to_have_count(1)
    field.fill("maxpool2d")
    field.press("Enter")
    assert shown.views.get("selected") == {"layer": "maxpool", "channel": None}


def test_chains_are_strips_and_branches_a_graph_until_somebody_chooses(
    open_graph: Callable[[str], GraphPage], show: Callable[..., ViewsPage]
) -> None:
    shown = open_graph("unet")
    page = shown.page
    shown.views.set(networkLayout=None)
    pressed = page.get_by_role("group", name="Layout of the network").locator(
        "[aria-pressed='true']"
    )
    expect(pressed).to_have_text("Graph")
    page.set_viewport_size({"width": 420, "height": 900})
    expect(page.locator(".nbg-list")).to_be_visible()
    expect(pressed).to_have_text("Strip")
    page.get_by_role("button", name="Graph").click()
    shown.wait_idle()
    assert all(shown.is_in_window(name) for name in shown.node_boxes())
    # The layout choice persists while another tab is open.
    shown.views.set(tab="layer")
    expect(page.locator(".nbg-window")).to_have_count(0)
    shown.views.set(tab="network")
    expect(page.locator(".nbg-window")).to_be_visible()

    x = np.random.default_rng(0).random((1, 1, 28, 28), np.float32)
    plain = show(nbglcnn.compile(autoencoder().eval(), x), x).page
    expect(plain.locator(".nbg-line")).to_be_visible()
    plain.get_by_role("button", name="Graph").click()
    nodes = plain.evaluate(NODE_BOXES_SCRIPT)
    assert all(one["kind"] != "group" for one in nodes.values()), "five layers are all open"
    centres = [centre(one)[1] for one in nodes.values()]
    lowest = centres.index(max(centres))
    assert 0 < lowest < len(centres) - 1
    assert centres[:lowest] == sorted(centres[:lowest])
    assert centres[lowest:] == sorted(centres[lowest:], reverse=True)
