"""Class names in the views, and the trace from a class back to its pixels."""

import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, Locator, Page, expect
from torch import nn

import nbglcnn
from accessibility import AXE_SCRIPT, accessibility_violations
from browsers import EMPTY_PAGE, serve_files
from nbglcnn.features.edits.records import Edit, edits_to_dicts
from readability import assert_checks_detect, layout_faults_by_width
from viewer_models import hook_values
from views_page import CLIPPED_ELEMENTS_SCRIPT, ViewsPage, parse_number

CLASS_NAMES = [
    "cat",
    "dog",
    "<img src=x onerror=alert(1)>",
    "a\u202eb",
    "",
    "bird, " + " ".join(["long"] * 18),
]
MANY_CLASS_NAMES = [f"name {k}" for k in range(21_841)]


class Net(nn.Module):
    """A classifier that flattens its maps."""

    def __init__(self, classes: int = 6) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3, padding=1)
        self.act = nn.ReLU()
        self.pool = nn.MaxPool2d(2)
        self.flat = nn.Flatten()
        self.drop = nn.Dropout()
        self.fc = nn.Linear(5 * 3 * 4, classes)
        self.share = nn.Softmax(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.flat(self.pool(self.act(self.conv(x))))
        return self.share(self.fc(self.drop(x)))


def make_classifier() -> tuple[nn.Module, np.ndarray]:
    torch.manual_seed(4)
    model = Net().eval()
    with torch.no_grad():
        model.fc.weight.mul_(6)
    return model, np.random.default_rng(1).standard_normal((2, 3, 6, 8)).astype(np.float32)


@pytest.fixture(scope="module")
def torch_values() -> dict[str, np.ndarray]:
    return hook_values(*make_classifier())


def open_views(page: Page, plan: nbglcnn.Plan, *inputs: np.ndarray) -> Iterator[ViewsPage]:
    files = {"/": EMPTY_PAGE}
    with serve_files(files.get) as address:
        page.set_viewport_size({"width": 900, "height": 900})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        page.goto(address + "/")
        yield ViewsPage(page, files, plan, *inputs)
        assert not errors, errors
        page.context.close()


@pytest.fixture(scope="module")
def views(browser: Callable[[str], Browser]) -> Iterator[ViewsPage]:
    """The classifier's views with class names, shared by all tests."""
    model, x = make_classifier()
    page = browser("llvmpipe").new_context().new_page()
    for views in open_views(page, nbglcnn.compile(model, x), x):
        views.set(classNames=CLASS_NAMES)
        yield views


def open_explain(views: ViewsPage, layer: str, channel: int | None = None) -> Locator:
    views.set(explainTrail=None, pixel=None, example=0, layerSection="explain", tab="layer")
    views.set(selected={"layer": layer, "channel": channel})
    question = views.page.locator(".nbg-question")
    expect(question).to_contain_text(f"Why is {layer},")
    views.wait_idle()
    return question


def best_class(values: np.ndarray) -> int:
    return int(values[0].argmax())


def test_the_output_names_its_largest_classes_and_a_click_asks_why(
    views: ViewsPage, torch_values: dict[str, np.ndarray]
) -> None:
    views.set(tab="network", example=0)
    views.wait_idle()
    page = views.page
    rows = page.locator("[data-layer='output'] .nbg-top-row")
    order = (-torch_values["output"][0]).argsort(kind="stable")
    shown = [row.split("\n") for row in rows.all_inner_texts()]
    assert 3 <= len(shown) <= len(order)
    for (name, share), k in zip(shown, order, strict=False):
        assert name == (CLASS_NAMES[k] or str(k))
        assert parse_number(share) == pytest.approx(torch_values["output"][0, k], rel=0.06)
    assert not page.locator("img").count()
    rows.first.click()
    expect(page.locator(".nbg-question")).to_contain_text(f"Why is share, value {order[0]} (")
    assert views.get("selected") == {"layer": "share", "channel": order[0]}


def test_explain_of_a_dense_layer_opens_at_the_winner_and_follows_it(
    views: ViewsPage, torch_values: dict[str, np.ndarray]
) -> None:
    question = open_explain(views, "fc")
    winners = [int(one.argmax()) for one in torch_values["fc"]]
    assert winners[0] != winners[1]
    for example, winner in enumerate(winners):
        views.set(example=example)
        expect(question).to_contain_text(f"fc, value {winner}")
        if CLASS_NAMES[winner]:
            expect(question).to_contain_text(f"({CLASS_NAMES[winner]})")
    views.set(example=0)
    largest = views.page.get_by_role("group", name="The largest values").get_by_role("button")
    expect(largest.first).to_have_attribute("aria-pressed", "true")
    order = (-torch_values["fc"][0]).argsort(kind="stable")[:5]
    for row, k in zip(largest.all_inner_texts(), order, strict=True):
        assert row.startswith(CLASS_NAMES[k] or str(k))
        assert parse_number(row.rpartition("\n")[2]) == pytest.approx(
            torch_values["fc"][0, k], rel=0.06
        )
    largest.nth(1).click()
    expect(question).to_contain_text(f"fc, value {order[1]}")
    expect(largest.nth(1)).to_have_attribute("aria-pressed", "true")


def test_an_input_of_a_dense_layer_is_a_channel_and_a_pixel_one_click_away(
    views: ViewsPage, torch_values: dict[str, np.ndarray]
) -> None:
    open_explain(views, "fc")
    page = views.page
    rows = page.locator(".nbg-terms tbody tr")
    expect(page.locator(".nbg-explain")).to_contain_text("inputs are pool, 5×3×4")
    for text in rows.all_inner_texts():
        cells = text.split("\t")
        k, c, y, x = (int(one) for one in re.findall(r"\d+", cells[0]))
        assert np.unravel_index(k, (5, 3, 4)) == (c, y, x)
        assert parse_number(cells[1]) == pytest.approx(torch_values["pool"][0, c, y, x], abs=6e-4)
    k, c, y, x = (int(one) for one in re.findall(r"\d+", rows.nth(2).inner_text().split("\t")[0]))
    rows.nth(2).get_by_role("button").click()
    question = page.locator(".nbg-question")
    expect(question).to_contain_text(f"Why is pool, channel {c}, pixel y {y}, x {x} =")
    assert parse_number(question.inner_text().partition("=")[2]) == pytest.approx(
        torch_values["pool"][0, c, y, x], abs=6e-4
    )


def test_from_the_winning_class_to_the_pixel_one_click_a_step_and_back(
    views: ViewsPage, torch_values: dict[str, np.ndarray]
) -> None:
    open_explain(views, "share")
    page = views.page
    ways = page.locator("[data-origin]")
    crumbs = page.get_by_role("navigation", name="Path to this value").get_by_role("button")
    weight = make_classifier()[0].fc.weight.detach().numpy()[best_class(torch_values["fc"])]
    products = (weight * torch_values["flat"][0]).reshape(5, 12).astype(np.float64)
    channels = products.sum(1)
    expect(ways).to_have_count(1)
    ways.first.click()
    # Channels of the flattened maps, with the largest contributions first.
    expect(page.locator(".nbg-question")).to_contain_text("Why is fc,")
    views.wait_idle()
    order = (-abs(channels)).argsort()
    assert ways.count() == 4
    for text, c in zip(ways.all_inner_texts(), order, strict=False):
        assert f"pool, all of channel {c}" in text
        assert parse_number(text.rpartition("\n")[2]) == pytest.approx(channels[c], rel=0.06)
    ways.first.click()
    c = int(order[0])
    most = int((products[c] * np.sign(channels[c])).argmax())
    y, x = divmod(most, 4)
    expect(page.locator(".nbg-question")).to_contain_text(f"pool, channel {c}, pixel y {y}, x {x}")
    views.wait_idle()
    # The pool's winning pixel, which is in its window and has the pool's value.
    ways.first.click()
    expect(page.locator(".nbg-question")).to_contain_text(f"Why is act, channel {c}")
    views.wait_idle()
    pixel = views.get("pixel")
    assert (pixel["y"] // 2, pixel["x"] // 2) == (y, x)
    assert torch_values["act"][0, c, pixel["y"], pixel["x"]] == torch_values["pool"][0, c, y, x]
    # For a convolution: the channels with the largest contributions, each the sum of its products.
    kernel = make_classifier()[0].conv.weight.detach().numpy()[c].astype(np.float64)
    around = np.pad(make_classifier()[1][0], ((0, 0), (1, 1), (1, 1)))
    taps = kernel * around[:, pixel["y"] : pixel["y"] + 3, pixel["x"] : pixel["x"] + 3]
    sums = taps.sum((1, 2))
    assert ways.count() == 3
    for text, k in zip(ways.all_inner_texts(), (-abs(sums)).argsort(), strict=True):
        assert f"x, channel {k}’s patch" in text
        assert parse_number(text.rpartition("\n")[2]) == pytest.approx(sums[k], rel=0.06)
    # A click leads to the tap with the largest contribution.
    k = int(abs(sums).argmax())
    dy, dx = divmod(int((taps[k] * np.sign(sums[k])).argmax()), 3)
    v, u = pixel["y"] + dy - 1, pixel["x"] + dx - 1
    ways.first.click()
    end = page.locator(".nbg-given")
    expect(end).to_contain_text(f"x, channel {k}, y {v}, x {u} =")
    expect(end.locator("strong")).not_to_have_text("…")
    assert parse_number(end.locator("strong").inner_text()) == pytest.approx(
        make_classifier()[1][0, k, v, u], abs=1e-5
    )
    mark, picture = (end.locator(one).bounding_box() for one in (".nbg-mark", "canvas"))
    assert mark and picture
    assert (mark["x"] - picture["x"]) / picture["width"] == pytest.approx(u / 8, abs=0.01)
    assert (mark["y"] - picture["y"]) / picture["height"] == pytest.approx(v / 6, abs=0.01)
    names = [text.partition(",")[0] for text in crumbs.all_inner_texts()]
    assert names == ["share", "fc", "pool", "act"]
    assert not page.evaluate(CLIPPED_ELEMENTS_SCRIPT)
    crumbs.nth(1).click()
    expect(page.locator(".nbg-question")).to_contain_text(
        f"Why is fc, value {best_class(torch_values['fc'])}"
    )
    expect(crumbs).to_have_count(1)
    # For a negative channel: the pixel with the most negative contribution.
    views.wait_idle()
    taker = next(c for c in order[:4] if channels[c] < 0)
    ways.filter(has_text=f"all of channel {taker}").click()
    y, x = divmod(int(products[taker].argmin()), 4)
    expect(page.locator(".nbg-question")).to_contain_text(
        f"pool, channel {taker}, pixel y {y}, x {x}"
    )
    # Selecting another layer isn't a step of the trace.
    views.set(selected={"layer": "conv", "channel": 0})
    expect(page.locator(".nbg-question")).to_contain_text("Why is conv")
    expect(crumbs).to_have_count(0)


def test_names_are_in_the_tooltip_the_inspector_and_what_is_spoken(
    views: ViewsPage, torch_values: dict[str, np.ndarray]
) -> None:
    views.set(layerSection="maps", example=0)
    views.open_layer("fc", 0)
    page = views.page
    expect(page.locator(".nbg-inspector h3")).to_contain_text("Channel 0 cat")
    expect(page.get_by_role("button", name="value 1, dog:")).to_be_visible()
    bars = page.locator("svg[data-bars='fc']")
    assert "dog · channel 1" in views.hover(bars, 1.5 / 6, 0.5)
    # A value that isn't a class has no class name.
    views.open_layer("flat", 0)
    expect(page.locator(".nbg-inspector h3")).not_to_contain_text("cat")


def test_a_bends_outputs_have_the_same_rows_with_names(views: ViewsPage) -> None:
    bend = [Edit(layer="conv", name="multiply", transform="multiply", parameters=(4.0,))]
    views.set(
        currentEdits={"edits": edits_to_dicts(bend), "weights": 0}, layerSection="bend", example=0
    )
    views.open_layer("conv")
    shown = views.page.locator(".nbg-bend-comparison .nbg-top")
    expect(shown).to_have_count(3)
    views.wait_idle()
    each = [
        one.locator(".nbg-top-name").all_inner_texts() for one in (shown.nth(k) for k in range(3))
    ]
    assert each[0] == each[1] == each[2]
    assert set(each[0]) == {name or str(k) for k, name in enumerate(CLASS_NAMES)}
    tops = shown.evaluate_all(
        "all => all.map(one => [...one.children].map(row => row.getBoundingClientRect().top))"
    )
    assert tops[0] == tops[1] == tops[2]
    views.set(currentEdits={"edits": [], "weights": 0}, layerSection="maps")


def test_the_word_of_the_examples_stands_clear_of_their_buttons(views: ViewsPage) -> None:
    for width in (1000, 1300):
        views.page.set_viewport_size({"width": width, "height": 900})
        word = views.page.locator(".nbg-examples").get_by_text("Example", exact=True)
        button = views.page.get_by_role("button", name="Previous example")
        expect(word).to_be_visible()
        one, other = word.bounding_box(), button.bounding_box()
        assert one is not None and other is not None
        assert other["x"] - one["x"] - one["width"] >= 8
    views.page.set_viewport_size({"width": 900, "height": 900})


def test_a_profile_says_that_costs_are_of_the_whole_batch(views: ViewsPage) -> None:
    views.set(tab="profile")
    said = views.page.locator(".nbg-profile p").first
    expect(said).to_contain_text("for a batch of 2")
    views.set(tab="network")


def test_the_way_to_the_pixels_is_accessible_and_can_be_read(
    views: ViewsPage, sweep_widths: Callable[..., tuple[int, ...]]
) -> None:
    page = views.page
    open_explain(views, "fc")
    page.locator("[data-origin]").first.click()
    views.wait_idle()
    page.add_script_tag(path=str(AXE_SCRIPT))
    assert not accessibility_violations(page, "light")
    page.evaluate("() => { document.body.dataset.jpThemeLight = 'false'; }")
    assert not accessibility_violations(page, "dark")
    assert layout_faults_by_width(page, sweep_widths(848)) == {}
    page.evaluate("() => { document.body.dataset.jpThemeLight = 'true'; }")
    # The complete trace, from the classes down to the input's pixel.
    open_explain(views, "share")
    for _ in range(4):
        assert layout_faults_by_width(page, sweep_widths(620)) == {}
        page.locator("[data-origin]").first.click()
        views.wait_idle()
    expect(page.locator(".nbg-given")).to_be_visible()
    assert layout_faults_by_width(page, sweep_widths(620, 1120)) == {}
    assert_checks_detect(
        page,
        {
            ".nbg-given, .nbg-given * { font-size: 9px !important }": "letters of 9.0 px",
            ".nbg-crumb { width: 20px; overflow: hidden; white-space: nowrap }": "cut off",
        },
    )


def test_compare_names_the_classes_of_a_of_b_and_of_their_difference(
    browser: Callable[[str], Browser],
) -> None:
    model, x = make_classifier()
    other = {name: 0.5 * tensor for name, tensor in model.state_dict().items()}
    joined = nbglcnn.compare(model, other, x)
    page = browser("llvmpipe").new_context().new_page()
    a = hook_values(model, x)["output"][0]
    model.load_state_dict(other)
    b = hook_values(model, x)["output"][0]
    order = (-np.maximum(a, b)).argsort(kind="stable")
    for views in open_views(page, joined.network.plan, x):
        views.set(classNames=CLASS_NAMES, tab="compare", selected=None)
        views.wait_idle()
        pictures = page.locator(".nbg-compared .nbg-top")
        for place, numbers in enumerate((a, b, b - a)):
            rows = pictures.nth(place).locator(".nbg-top-row").all_inner_texts()
            assert len(rows) == len(order)
            for text, k in zip(rows, order, strict=True):
                assert text.startswith(CLASS_NAMES[k] or str(k))
                assert parse_number(text.rpartition("\n")[2]) == pytest.approx(
                    numbers[k], rel=0.06, abs=1e-6
                )
    joined.close()


def test_twenty_thousand_names_leave_the_page_quick(
    show: Callable[..., ViewsPage],
) -> None:
    x = np.random.default_rng(2).standard_normal((1, 1, 2, 2)).astype(np.float32)
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, len(MANY_CLASS_NAMES))).eval()
    views = show(nbglcnn.compile(model, x), x)
    page = views.page
    views.wait_idle()
    before = page.evaluate("() => document.querySelectorAll('.nbglcnn *').length")
    took = page.evaluate(
        """async (names) => {
          const start = performance.now();
          views.state.classNames.value = names;
          await new Promise(requestAnimationFrame);
          await new Promise((done) => setTimeout(done));
          return performance.now() - start;
        }""",
        MANY_CLASS_NAMES,
    )
    assert took < 1000
    winner = int(hook_values(model, x)["1"][0].argmax())
    expect(page.locator(".nbg-top-row").first).to_contain_text(f"name {winner}")
    assert page.evaluate("() => document.querySelectorAll('.nbglcnn *').length") < before + 50


class AddedAtPosition(nn.Module):
    """The added value has the same position as the sum."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.act = nn.Conv2d(2, 2, 3, padding=1), nn.Tanh()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.act(self.conv(x))
        return (y + x).mean((2, 3))


def test_a_step_to_the_same_place_of_another_layer_stays_there(
    show: Callable[..., ViewsPage],
) -> None:
    torch.manual_seed(3)
    x = torch.randn(1, 2, 6, 7).numpy()
    model = AddedAtPosition().eval()
    plan = nbglcnn.compile(model, x)
    views = show(plan, x)
    views.set(layerSection="explain", tab="layer")
    views.open_layer("add", 1)
    views.set(pixel={"mapHeight": 6, "mapWidth": 7, "y": 2, "x": 3})
    page = views.page
    question = page.locator(".nbg-question")
    expect(question).to_contain_text("Why is add, channel 1, pixel y 2, x 3 =")
    page.locator("[data-origin]").filter(has_text="act").first.click()
    expect(question).to_contain_text("Why is act, channel 1, pixel y 2, x 3 =")
    # The mean of each map acts as a pool and leads to its pixels.
    views.open_layer("mean", 1)
    expect(question).to_contain_text("Why is mean, value 1 =")
    true = float(hook_values(model, x)["output"][0, 1])
    assert parse_number(question.inner_text().partition("=")[2]) == pytest.approx(true, abs=6e-4)
    page.locator("[data-origin]").first.click()
    expect(question).to_contain_text("Why is add, channel 1, pixel y ")
