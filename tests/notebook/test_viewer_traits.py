"""Viewer's traits in real JupyterLab: the page changes them in Python, and Python in the page."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser, Locator, expect

from jupyter_lab import LabServer, Notebook, new_notebook
from polling import wait_frames
from viewer_models import IMPORTS_CELL, autoencoder, hook_values, pictures

SEED = 60


@pytest.fixture(scope="module")
def notebook(lab: LabServer, browser: Callable[[str], Browser]) -> Iterator[Notebook]:
    with new_notebook(lab, browser("llvmpipe")) as notebook:
        notebook.run(
            IMPORTS_CELL + f"model, x = autoencoder({SEED}), pictures({SEED})\n"
            "def changes(viewer, *names):\n"
            "    seen = []\n"
            "    viewer.observe(lambda c: seen.append((time.monotonic(), c.name, c.new)), names)\n"
            "    return seen"
        )
        yield notebook


@pytest.fixture(autouse=True)
def clear_cells(notebook: Notebook) -> Iterator[None]:
    """Remove the cells after each test."""
    yield
    notebook.delete_cells()


@pytest.fixture
def layer_view(notebook: Notebook) -> Iterator[Locator]:
    """`viewer` on its Layer tab, with encoder.0 open, in the notebook's last cell."""
    notebook.run(
        "viewer = Viewer(model, x)\nviewer.selected = {'layer': 'encoder.0', 'channel': 2}\nviewer"
    )
    view = notebook.page.locator(".nbglcnn").last
    view.get_by_role("tab", name="Layer").click()
    view.scroll_into_view_if_needed()  # out of sight: not drawn
    view.locator("[data-layer='encoder.0'] .nbg-grid canvas[data-drawn]").first.wait_for()
    yield view
    notebook.run("ipywidgets.Widget.close_all()")


def test_colours_and_their_range_go_both_ways(notebook: Notebook, layer_view: Locator) -> None:
    layer_view.get_by_label("Colour").select_option("viridis")
    layer_view.get_by_role("button", name="Fixed", exact=True).click()
    notebook.wait_until("(viewer.colormap, viewer.color_range) == ('viridis', 'fixed')")
    notebook.run("viewer.colormap, viewer.color_range = 'magma', 'channel'")
    expect(layer_view.get_by_label("Colour")).to_have_value("magma")
    button = layer_view.get_by_role("button", name="Channel", exact=True)
    expect(button).to_have_attribute("aria-pressed", "true")
    notebook.run("viewer.image_ranges = {'output': (-1, 2)}")
    layer_view.get_by_role("tab", name="Network").click()
    chosen = layer_view.get_by_label("Values of output shown as black and white")
    expect(chosen).to_have_value("[-1,2]")
    chosen.select_option("layer")
    notebook.wait_until("viewer.image_ranges == {'output': 'layer'}")
    layer_view.get_by_role("tab", name="Layer").click()
    for wrong in (
        "colormap = 'jet'",
        "color_range = 'global'",
        "running = True",
        "runs_per_second = 3",
    ):
        assert notebook.run(f"viewer.{wrong}", fails=True).error.startswith("TraitError")
    for wrong in ("hover = None", "status = {}"):
        assert "read-only" in notebook.run(f"viewer.{wrong}", fails=True).error
    # Read-only traits and invalid values from a page are rejected.
    notebook.run(
        "viewer.set_state({'runs_per_second': 9, 'running': True, 'colormap': 'jet',\n"
        "                  'color_range': 7, 'hover': {'layer': 'encoder.0'}})"
    )
    text = notebook.run(
        "print(viewer.colormap, viewer.color_range, viewer.hover, viewer.runs_per_second < 9)"
    ).text
    assert text == "magma channel None True\n"


def test_a_fixed_range_stays_when_the_input_changes(
    notebook: Notebook, layer_view: Locator
) -> None:
    legend = layer_view.locator(".nbg-controls .nbg-legend")
    picture = layer_view.locator(".nbg-inspector canvas").first

    def shown(cell: str) -> tuple[str, str]:
        before = picture.get_attribute("data-drawn") or "0"
        notebook.run(cell + "\nviewer.output\nNone")
        picture.scroll_into_view_if_needed()  # out of sight: not drawn
        notebook.page.wait_for_function(
            "([canvas, before]) => canvas.dataset.drawn !== before",
            arg=[picture.element_handle(), before],
        )
        notebook.wait_settled()
        return legend.inner_text(), picture.evaluate("canvas => canvas.toDataURL()")

    # Its own range, then the same range fixed: the picture is the same.
    layer = shown("viewer.input = x.copy() + 0.125")
    notebook.run("viewer.color_range = 'fixed'")
    wait_frames(notebook.page, 20)
    fixed = shown("viewer.input = 3 * x")
    assert fixed[0] == layer[0] and fixed[1] != layer[1]
    again = shown("viewer.input = x.copy() + 0.125")
    assert again == layer
    notebook.run("viewer.color_range = 'layer'")
    assert shown("viewer.input = 3 * x")[0] != layer[0]


def test_the_element_under_the_pointer_is_known(notebook: Notebook, layer_view: Locator) -> None:
    notebook.run("viewer.example = 1\nseen = changes(viewer, 'hover')")
    canvas = layer_view.locator(".nbg-inspector canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    height, width = 11, 9  # of encoder.0

    def point(y: int, x: int) -> None:
        notebook.page.mouse.move(
            box["x"] + (x + 0.5) * box["width"] / width,
            box["y"] + (y + 0.5) * box["height"] / height,
        )

    def told(y: int, x: int, spot: str) -> bool:
        """Whether Python was notified, in a later cell: running it scrolls the pictures away."""
        nonlocal box
        for patience_ms in (800, 3000, 8000):  # a busy machine reads the value late
            point(y, x)
            notebook.page.wait_for_timeout(patience_ms)
            known = notebook.run(f"at = [h for _, _, h in seen if h and ({spot})]\nprint(len(at))")
            canvas.scroll_into_view_if_needed()
            box = canvas.bounding_box() or box
            if known.text != "0\n":
                return True
        return False

    assert told(4, 3, "h['value'] is not None")
    value = hook_values(autoencoder(SEED), pictures(SEED))["encoder.0"][1, 2, 4, 3]
    assert notebook.run("print(list(at[0].values())[:4])").text == "['encoder.0', 2, 4, 3]\n"
    assert float(notebook.run("print(at[0]['value'])").text) == pytest.approx(value, 1e-5)
    notebook.run("seen.clear()")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box() or box
    for k in range(300):
        point(k % height, k % width)
    assert told(7, 8, "(h['y'], h['x']) == (7, 8)")
    rate = notebook.run(
        "print(len(seen) / max(1, seen[-1][0] - seen[0][0] + 0.2), len(seen))"
    ).text.split()
    assert float(rate[1]) >= 2 and float(rate[0]) < 14
    notebook.page.mouse.move(5, 5)
    notebook.wait_until("viewer.hover is None")


def test_runs_a_second_are_counted_and_end_at_zero(notebook: Notebook, layer_view: Locator) -> None:
    notebook.run("viewer.output\nseen = changes(viewer, 'runs_per_second', 'running')")
    notebook.wait_until("not viewer.running and viewer.runs_per_second == 0")
    took = notebook.run(
        "seen.clear()\ninside = []\nstart = time.monotonic()\n"
        "known = lambda: any(now and rate >= 1 for now, rate in inside)\n"
        "while (took := time.monotonic() - start) < 2.5 or not known() and took < 60:\n"
        "    viewer.run(x + np.float32(time.monotonic() % 1))\n"
        "    inside.append((viewer.running, viewer.runs_per_second))\n"
        "viewer.input = x\nNone"
    )
    assert not took.warnings
    # Observed while the cell was still busy. Some reading has both at once, since on a busy machine
    # the page may be idle between two runs for long enough that `running` is False for a moment.
    assert notebook.run("print(known())").text == "True\n"
    notebook.wait_until("not viewer.running and viewer.runs_per_second == 0")
    text = notebook.run(
        "rate = [value for _, name, value in seen if name == 'runs_per_second']\n"
        "span = seen[-1][0] - seen[0][0]\n"
        "print(max(rate), rate[-1], len(rate) / span,\n"
        "      [value for _, name, value in seen if name == 'running'])"
    ).text
    most, last, often, flags = text.split(maxsplit=3)
    assert 1 <= float(most) < 200 and float(last) == 0 and float(often) <= 5
    assert flags.startswith("[True") and flags.strip().endswith("False]")


def test_linked_viewers_follow_each_other_in_tabs_and_boxes(notebook: Notebook) -> None:
    notebook.run(
        f"a, b = Viewer(model, x, height=400), Viewer(autoencoder({SEED + 4}), x, height=400)\n"
        "links = [ipywidgets.link((a, name), (b, name)) for name in ('example', 'selected')]\n"
        "links += [ipywidgets.jslink((a, 'colormap'), (b, 'colormap'))]\n"
        "speed = ipywidgets.FloatText()\n"
        "links += [ipywidgets.jsdlink((a, 'runs_per_second'), (speed, 'value'))]\n"
        "import anywidget, traitlets\n"
        "class Lamp(anywidget.AnyWidget):\n"
        "    _esm = 'export default { render() {} }'\n"
        "    of = traitlets.Dict().tag(sync=True)\n"
        "lamp = Lamp()\n"
        "links += [ipywidgets.jsdlink((a, 'status'), (lamp, 'of'))]\n"
        "tab = ipywidgets.Tab([ipywidgets.VBox([a, b]), speed])\ntab"
    )
    one, two = (notebook.page.locator(".jp-OutputArea .nbglcnn").nth(k) for k in (-2, -1))
    for view in (one, two):
        view.get_by_role("tab", name="Layer").click()
    # The page changes the first Viewer, and the second Viewer's page follows.
    one.get_by_label("Next example").click()
    one.locator("[data-layer='encoder.0'], .nbg-layer").first.wait_for()
    notebook.run("a.selected = {'layer': 'decoder.1', 'channel': 3}")
    expect(two.locator(".nbg-layer")).to_have_attribute("data-layer", "decoder.1")
    two.get_by_role("button", name="channel 5, mean").click()
    expect(one.locator(".nbg-inspector h3")).to_contain_text("Channel 5")
    notebook.wait_until("a.selected == b.selected == {'layer': 'decoder.1', 'channel': 5}")
    notebook.wait_until("a.example == b.example == 1")
    notebook.wait_until("lamp.of['page'] == 'connected' and lamp.of == a.status")
    two.get_by_label("Colour").select_option("cividis")
    expect(one.get_by_label("Colour")).to_have_value("cividis")
    notebook.wait_until("a.colormap == b.colormap == 'cividis'")
    assert two.locator("canvas[data-drawn]").count() > 3
    notebook.run(
        "box = ipywidgets.HBox([ipywidgets.Label('beside'), a],\n"
        "                      layout=ipywidgets.Layout(width='900px'))\nbox"
    )
    beside = notebook.page.locator(".jp-OutputArea .widget-hbox .nbglcnn").last
    beside.scroll_into_view_if_needed()
    beside.locator("canvas[data-drawn]").first.wait_for()
    assert 300 < (beside.bounding_box() or {"width": 0})["width"] <= 900
    expected = hook_values(autoencoder(SEED), pictures(SEED) * np.float32(2))["output"]
    np.testing.assert_allclose(notebook.read_array("a.run(2 * x)"), expected, rtol=1e-4, atol=1e-6)
    notebook.run("ipywidgets.Widget.close_all()")


def test_python_turns_the_page_and_hears_of_its_turns(
    notebook: Notebook, layer_view: Locator
) -> None:
    notebook.run("viewer.show('encoder.0', channels=[3, 1])")
    large = layer_view.locator(".nbg-fours canvas")
    expect(large).to_have_count(2)
    assert [one.get_attribute("aria-label") for one in large.all()] == [
        "channel 3 of encoder.0",
        "channel 1 of encoder.0",
    ]
    text = notebook.run("print(viewer.selected, viewer.view)").text
    assert text == (
        "{'layer': 'encoder.0', 'channel': 3} {'name': 'maps', 'layer': 'encoder.0', "
        "'channels': [3, 1], 'pixel': None}\n"
    )
    notebook.run("viewer.show('encoder.1', channels=[3, 1])")  # the same channels, another layer
    expect(layer_view.locator(".nbg-layer")).to_have_attribute("data-layer", "encoder.1")
    expect(large.first).to_have_attribute("aria-label", "channel 3 of encoder.1")
    notebook.run("viewer.show(0, 2, pixel=(4, 5))")
    question = layer_view.locator(".nbg-question")
    expect(question).to_contain_text("encoder.0, channel 2, pixel y 4, x 5")
    layer_view.get_by_role("button", name="Maps", exact=True).click()
    notebook.wait_until("viewer.view['name'] == 'maps'")
    for name, word in (("profile", "Profile"), ("network", "Network")):
        notebook.run(f"viewer.show(view='{name}')")
        expect(layer_view.get_by_role("tab", name=word)).to_have_attribute("aria-selected", "true")
    layer_view.get_by_role("tab", name="Layer").click()
    notebook.wait_until("viewer.view['name'] == 'maps'")
    notebook.run("viewer.symmetric, viewer.colormap = True, 'grey'")
    expect(layer_view.get_by_role("checkbox", name="± around zero")).to_be_checked()
    for wrong, words in (
        ("'nothing'", "KeyError"),
        ("'encoder.0', 99", "TraitError: encoder.0 has channels 0 to 8, not 99"),
        ("'encoder.0', [0, 1, 2, 3, 0]", "TraitError: at most 4 channels"),
        ("'encoder.0', pixel=(0, 99)", "TraitError: a map of encoder.0 has"),
        ("view='movie'", "TraitError: unknown view 'movie'"),
        ("view='train'", "TraitError: the view 'train' needs a training: call viewer.train(…)"),
        ("channels=1", "TraitError: channels and a pixel need a layer"),
    ):
        assert words in notebook.run(f"viewer.show({wrong})", fails=True).error
    notebook.run("viewer.set_state({'view': {'name': 'maps', 'layer': 'nothing'}})")
    assert notebook.run("print(viewer.view['layer'])").text == "encoder.0\n"


def test_steps_of_explain_reach_python_and_stay_where_they_lead(notebook: Notebook) -> None:
    notebook.run(
        "class Added(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.conv, self.act = nn.Conv2d(2, 2, 3, padding=1), nn.Tanh()\n"
        "        self.pool, self.flat, self.fc = nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 3)\n"
        "    def forward(self, x):\n"
        "        y = self.act(self.conv(x))\n"
        "        return self.fc(self.flat(self.pool((y + x) * y)))\n"
        "viewer = Viewer(Added().eval(), torch.randn(1, 2, 6, 7))\n"
        "viewer.show('add', 1, pixel=(2, 3))\nviewer"
    )
    view = notebook.page.locator(".nbglcnn").last
    question = view.locator(".nbg-question")
    expect(question).to_contain_text("Why is add, channel 1, pixel y 2, x 3 =")
    view.locator("[data-origin]").filter(has_text="act").first.click()
    expect(question).to_contain_text("Why is act, channel 1, pixel y 2, x 3 =")
    notebook.wait_until("viewer.view['layer'] == 'act' and viewer.view['pixel'] == [2, 3]")
    # For a layer of another size the same pixel is not requested.
    view.locator(".nbg-rail-item[title^='fc,']").click()
    expect(question).to_contain_text("Why is fc, value")
    notebook.wait_until("viewer.view['layer'] == 'fc' and viewer.view['pixel'] in (None, [0, 0])")
    notebook.run("ipywidgets.Widget.close_all()")


def test_present_takes_the_window_from_a_cell_that_is_narrower(
    notebook: Notebook, layer_view: Locator
) -> None:
    page = notebook.page
    window = page.evaluate("() => [innerWidth, innerHeight]")
    seen = (
        "(root) => { const { left, top, width, height } = root.getBoundingClientRect();"
        " const at = (x, y) => root.contains(document.elementFromPoint(x, y));"
        " return { box: [left, top, width, height].map(Math.round), above: at(4, 4) &&"
        " at(innerWidth - 4, innerHeight - 4), zoom: root.currentCSSZoom }; }"
    )
    before = layer_view.evaluate(seen)
    assert before["box"][2] < window[0] - 50 and not before["above"]
    notebook.run("viewer.present()\nNone")
    expect(layer_view).to_have_attribute("data-presenting", "")
    # The view fills the window by a popover or as full screen: the key press that ran the cell may
    # count as user activation.
    page.wait_for_function("(root) => root.clientWidth > 0", arg=layer_view.element_handle())
    now = layer_view.evaluate(seen)
    assert now["box"] == [0, 0, *page.evaluate("() => [innerWidth, innerHeight]")]
    width, height = now["box"][2:]
    zoom = max(1.15, min(width / 1113, height / 626))
    assert now["above"] and now["zoom"] == pytest.approx(zoom, abs=0.01)
    assert notebook.run("print(viewer.presenting)").text == "True\n"
    # A tab is at its visible position, and its key presses do not reach the notebook.
    layer_view.get_by_role("tab", name="Network").click()
    notebook.wait_until("viewer.view['name'] == 'network'")
    cells = page.locator(".jp-Cell").count()
    page.keyboard.press("b")
    page.keyboard.press("p")
    expect(layer_view).not_to_have_attribute("data-presenting", "")
    assert page.locator(".jp-Cell").count() == cells
    notebook.wait_until("not viewer.presenting")
    layer_view.get_by_role("button", name="Present").click()
    notebook.wait_until("viewer.presenting")
    notebook.run("viewer.present(False)\nNone")
    expect(layer_view).not_to_have_attribute("data-presenting", "")
    assert layer_view.evaluate(seen)["box"][2] == before["box"][2]


def test_names_of_classes_reach_the_page_as_text_and_later_ones_replace_them(
    notebook: Notebook,
) -> None:
    notebook.run(
        "deep = nn.Sequential(nn.Flatten(), nn.Linear(22 * 18, 3)).eval()\n"
        "names = ['<b>bold</b>', 'two\\nlines', 'Löwe 狮子']\n"
        "viewer = Viewer(deep, x, classes=names)\nviewer"
    )
    rows = notebook.page.locator(".nbglcnn").last.locator(".nbg-top-name")
    expect(rows).to_have_count(3)
    expect(rows.filter(has_text="two lines")).to_have_count(1)
    assert sorted(rows.all_inner_texts()) == ["<b>bold</b>", "Löwe 狮子", "two lines"]
    assert not rows.locator("b").count()
    runs = notebook.run("print(viewer.output.shape)\nviewer.classes = {1: 'middle'}").text
    assert runs == "(2, 3)\n"
    expect(rows.filter(has_text="middle")).to_have_count(1)
    assert sorted(rows.all_inner_texts()) == ["0", "2", "middle"]
    assert (
        "TraitError: classes has 2 names"
        in notebook.run("viewer.classes = ['a', 'b']", fails=True).error
    )
    notebook.run("viewer.classes = None")
    expect(rows.filter(has_text="middle")).to_have_count(0)
    notebook.run("ipywidgets.Widget.close_all()")
