"""The Explain view: the calculation of a pixel's value, against PyTorch."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from playwright.sync_api import Page, expect
from torch import nn

import nbglcnn
from explain_page import approx_float32, approx_float64, read_explanation
from viewer_models import hook_values
from views_page import CLIPPED_ELEMENTS_SCRIPT, ViewsPage, parse_number
from webgl_page import encode

PIXELS_PER_LAYER = 20


class Net(nn.Module):
    """One layer of each explained kind, with unusual settings."""

    def __init__(self) -> None:
        super().__init__()
        self.odd = nn.Sequential(
            nn.Conv2d(3, 8, (3, 2), stride=(2, 1), padding=(2, 1), dilation=(2, 1)),
            nn.BatchNorm2d(8, eps=1e-3),
            nn.LeakyReLU(0.2),
        )
        self.most = nn.MaxPool2d(3, 2, 1)
        self.groups = nn.Sequential(nn.Conv2d(8, 12, 3, padding=1, groups=4), nn.GELU())
        self.mean = nn.AvgPool2d(3, 2, 1, ceil_mode=True)
        self.up = nn.Sequential(
            nn.ConvTranspose2d(12, 6, (4, 3), stride=(2, 3), padding=1, output_padding=(0, 1)),
            nn.BatchNorm2d(6, affine=False),
            nn.SiLU(),
        )
        self.spread = nn.ConvTranspose2d(6, 4, 3, stride=2, dilation=2, groups=2, bias=False)
        self.skip = nn.Conv2d(4, 4, 1)
        self.tanh = nn.Tanh()
        self.whole = nn.AdaptiveAvgPool2d(1)
        self.flat = nn.Flatten()
        self.dense = nn.Sequential(nn.Linear(4, 7), nn.ReLU6())
        self.share = nn.Softmax(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.up(self.mean(self.groups(self.most(self.odd(x)))))
        x = self.spread(x)
        x = self.tanh(x + self.skip(x))
        return self.share(self.dense(self.flat(self.whole(x))))


def make_network() -> tuple[nn.Module, np.ndarray]:
    torch.manual_seed(5)
    model = Net()
    x = torch.randn(2, 3, 13, 11)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.3, 2)
    return model.eval(), x.numpy()


# Layers explained by a patch and a filter, and those explained by products only.
PATCH_LAYERS = {"odd.2", "groups.1", "elu", "first.2", "round", "mirror", "edge"}
PRODUCT_LAYERS = PATCH_LAYERS | {"up.2"}


def sum_terms(shown: dict[str, Any]) -> float:
    """Sum the displayed terms: the sum of products with which a pixel's cards begin."""
    layer = shown["question"].removeprefix("Why is ").partition(",")[0]
    patch, kernel, products = (
        [value for value, _ in shown[name]] for name in ("patch", "filter", "products")
    )
    assert bool(patch) == (layer in PATCH_LAYERS), f"{layer} has a patch of {len(patch)}"
    if patch:
        assert products == [approx_float64(a * b) for a, b in zip(patch, kernel, strict=True)]
    assert products or layer not in PRODUCT_LAYERS, f"{layer} has no products"
    assert shown["terms"], f"{layer} has no terms"
    if products:
        assert sum(products) == approx_float64(shown["terms"][str(shown["chosen"])])
    return float(sum(shown["terms"].values()))


FUNCTIONS = {
    "LeakyReLU": lambda v: F.leaky_relu(v, 0.2),
    "GELU": F.gelu,
    "SiLU": F.silu,
    "Tanh": torch.tanh,
    "ReLU6": F.relu6,
    "ELU": lambda v: F.elu(v, 0.7),
    "Softplus": lambda v: F.softplus(v, 1.5, 4),
}


def follow_cards(cards: list[dict[str, Any]], now: float) -> float:
    """Check that each card's result follows from the one before; return the last result."""
    for card in cards:
        lines = [value for value, _ in card["lines"]]
        result = card["result"][0]
        match card["title"]:
            case "Sum":
                assert lines[0] >= 0 >= lines[1]
                expected = sum(lines)
                assert expected == approx_float64(now)
            case "Bias":
                assert lines[0] == approx_float64(now)
                expected = sum(lines)
            case "BatchNorm2d" | "GroupNorm" | "InstanceNorm2d" | "LayerNorm":
                before, mean, deviation, scale, shift = lines
                assert before == approx_float64(now)
                expected = (before + mean) / deviation * scale + shift
            case title if title in FUNCTIONS:
                assert lines[-1] == approx_float64(now)
                expected = float(FUNCTIONS[title](torch.tensor(now, dtype=torch.float64)))
            case title:
                raise AssertionError(f"no such card: {title}")
        assert result == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert parse_number(card["result"][1]) == pytest.approx(result, abs=5.1e-4)
        now = result
    return now


SUM_LAYERS = ("odd.2", "groups.1", "up.2", "spread", "dense.1")


def sample_positions(values: np.ndarray, random: np.random.Generator) -> list[list[int]]:
    """Positions (channel, y, x): corners of the map first, then random ones."""
    shape = [*values.shape[1:], 1, 1][:3]
    corners = [[0, 0, 0], [shape[0] - 1, shape[1] - 1, shape[2] - 1]]
    return corners + [[int(random.integers(n)) for n in shape] for _ in range(PIXELS_PER_LAYER - 2)]


def test_the_shown_terms_add_up_to_the_shown_value_which_is_pytorchs(
    show: Callable[..., ViewsPage],
) -> None:
    model, x = make_network()
    values = hook_values(model, x)
    weights = model.state_dict()
    views = show(nbglcnn.compile(model, x), x)
    random = np.random.default_rng(2)
    views.set(tab="layer", layerSection="explain", example=1)
    for layer in (*SUM_LAYERS, "most", "mean", "whole", "share", "tanh"):
        for at in sample_positions(values[layer], random):
            shown = read_explanation(views.page, layer, at)
            channel, *pixel = at
            value, text = shown["value"]
            own = values[layer][1]
            truth = float(own[channel] if own.ndim == 1 else own[tuple(at)])
            assert value == approx_float32(truth), (layer, at)
            assert parse_number(text) == pytest.approx(value, abs=5.1e-4)
            if layer in SUM_LAYERS:
                found = follow_cards(shown["cards"], sum_terms(shown))
            elif layer == "tanh":
                total, last = shown["cards"]
                assert total["result"][0] == approx_float64(sum(one for one, _ in total["lines"]))
                found = follow_cards([last], total["result"][0])
            elif layer == "most":
                inside = [one for one, _ in shown["window"]]
                [found] = shown["ringed"]
                assert found == max(inside)
                rows, columns = (slice(max(0, 2 * one - 1), 2 * one + 2) for one in pixel)
                window = values["odd.2"][1, channel, rows, columns]
                np.testing.assert_allclose(inside, window.ravel(), rtol=1e-5, atol=1e-5)
            elif layer == "share":
                power, share = shown["cards"]
                position = str(channel)
                assert shown["terms"][position] == power["result"][0]
                found = shown["terms"][position] / sum(shown["terms"].values())
                assert share["result"][0] == approx_float64(found)
            else:
                [card] = shown["cards"]
                found = card["result"][0]
                total = sum(one for one, _ in shown["window"])
                divisor = parse_number(card_text(views.page).split("/")[1])
                assert found == approx_float64(total / divisor)
            assert found == approx_float32(value), (layer, at)
            if layer in ("odd.2", "groups.1"):
                name = f"{layer.split('.')[0]}.0.weight"
                first = 0 if layer == "odd.2" else channel // 3 * 2
                kernel = weights[name][channel, shown["chosen"] - first].numpy().ravel()
                np.testing.assert_array_equal([one for one, _ in shown["filter"]], kernel)


def card_text(page: Page) -> str:
    return page.locator(".nbg-lines").first.inner_text()


# Clicks, and waits in the page until a step shows these words: polling from outside would be too
# late on a busy machine.
DRAG_NUMBER_SCRIPT = """(button, words) => new Promise((done) => {
  const root = button.closest('.nbglcnn');
  const observer = new MutationObserver(() => {
    if (!root.querySelector('.nbg-question').innerText.includes(words)) return;
    observer.disconnect();
    done();
  });
  observer.observe(root, { childList: true, characterData: true, subtree: true });
  button.click();
})"""


def test_a_click_keys_and_typed_numbers_choose_the_pixel(show: Callable[..., ViewsPage]) -> None:
    model, x = make_network()
    views = show(nbglcnn.compile(model, x), x)
    page = views.page
    question = page.locator(".nbg-question")
    views.open_layer("odd.2", 3)
    large = page.locator(":is(.nbg-inspector, .nbg-blended) > .nbg-maps")
    box = large.bounding_box()
    assert box is not None
    _, _, height, width = hook_values(model, x)["odd.2"].shape
    large.click(
        position={"x": 2.5 / width * box["width"], "y": 5.5 / height * box["height"]},
    )
    expect(question).to_have_text(re.compile(r"Why is odd\.2, channel 3, pixel y 5, x 2 = .*\?"))
    own = page.locator(".nbg-pick")
    own.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    expect(question).to_contain_text("channel 3, pixel y 4, x 3 ")
    assert own.evaluate("(own) => own === document.activeElement")
    page.keyboard.press("Escape")
    views.set(tab="layer", layerSection="maps", selected={"layer": "odd.2", "channel": 4})
    page.locator(".nbg-rail-item[aria-current=true]").focus()
    page.keyboard.press("e")
    expect(question).to_contain_text("channel 4, pixel y 4, x 3 ")
    page.get_by_role("button", name="Next position").click()
    expect(question).to_contain_text("pixel y 4, x 4 ")
    page.get_by_role("spinbutton", name="y", exact=True).fill(str(height - 1))
    page.get_by_role("spinbutton", name="x", exact=True).fill(str(width - 1))
    page.get_by_role("button", name="Next position").click()
    expect(question).to_contain_text("pixel y 0, x 0 ")
    page.get_by_role("button", name="Slide the filter").evaluate(
        DRAG_NUMBER_SCRIPT, "pixel y 0, x 3 "
    )
    page.get_by_role("button", name="Pause").click()
    # Another channel's products, via the keyboard.
    page.get_by_role("spinbutton", name="Shown for channel").fill("1")
    page.keyboard.press("Enter")
    expect(page.locator(".nbg-figure", has_text="Filter")).to_contain_text("odd.0.weight[4, 1]")


def test_an_index_that_is_typed_stays_while_the_network_runs(
    show: Callable[..., ViewsPage],
) -> None:
    model = nn.Sequential(nn.Conv2d(12, 2, 1)).eval()
    plan = nbglcnn.compile(model, torch.zeros(1, 12, 2, 12))
    inputs = np.random.default_rng(3).standard_normal((4, 1, 12, 2, 12)).astype(np.float32)
    views = show(plan, inputs[0])
    views.set(tab="layer", layerSection="explain", selected={"layer": "0", "channel": 0})
    page = views.page
    question = page.locator(".nbg-question")
    for name, words in (("x", "x 11 "), ("Shown for channel", "")):
        field = page.get_by_role("spinbutton", name=name, exact=True)
        field.press("ControlOrMeta+a")
        field.press("Backspace")
        for x, typed in zip(inputs[1:], ("", "1", "11"), strict=True):
            if typed:
                field.press("1")
            page.evaluate("a => views.feed(...a)", [plan.header.inputs[0].key, encode(x)])
            views.wait_idle()
            expect(field).to_have_value(typed)
        expect(question).to_contain_text(words)
        field.press("4")  # beyond the largest
        field.press("Tab")
        expect(field).to_have_value("11")


def test_explain_opens_far_from_zero_and_holds_the_input_channel_while_the_filter_slides(
    show: Callable[..., ViewsPage],
) -> None:
    """The first input channel contributes most at some pixels, the second at others."""
    model = nn.Sequential(nn.Conv2d(2, 2, 1, bias=False)).eval()
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 1], [0.01, 1]])[..., None, None])
    x = np.array([[[[1, 2, -9, 1]], [[4, 5, -1, 6]]]], "f4")
    views = show(nbglcnn.compile(model, x), x)
    views.set(tab="layer", layerSection="explain", selected={"layer": "0", "channel": 0})
    page = views.page
    question, term = page.locator(".nbg-question"), page.get_by_label("Shown for channel")
    expect(question).to_contain_text("x 2 = −10")
    expect(term).to_have_value("0")
    page.get_by_role("button", name="Next position").click()
    expect(question).to_contain_text("x 3 = 7")
    expect(term).to_have_value("0")
    views.set(selected={"layer": "0", "channel": 1})
    expect(question).to_contain_text("channel 1, x 3 = 6.01")
    expect(term).to_have_value("1")


def test_the_numbers_are_those_of_the_last_run_and_of_one_run(
    show: Callable[..., ViewsPage],
) -> None:
    model, x = make_network()
    views = show(nbglcnn.compile(model, x), x)
    views.set(tab="layer", layerSection="explain", example=1)
    at = [2, 1, 1]
    read_explanation(views.page, "odd.2", at)
    for k in range(3):
        other = np.random.default_rng(k).standard_normal(x.shape).astype(np.float32)
        truth = float(hook_values(model, other)["odd.2"][1][tuple(at)])
        views.page.evaluate(RUN_INPUT_SCRIPT, encode(other))
        views.page.wait_for_function(
            """wanted => {
              const shown = document.querySelector('.nbg-question data').value;
              return Math.abs(shown - wanted) < 1e-4;
            }""",
            arg=truth,
        )
        shown = read_explanation(views.page, "odd.2", at)
        assert shown["value"][0] == approx_float32(truth)
        assert follow_cards(shown["cards"], sum_terms(shown)) == approx_float32(truth)


RUN_INPUT_SCRIPT = """async (text) => {
  const { state } = views;
  const session = state.session.value;
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  session.write(state.plan.value.inputs[0].key, new Float32Array(bytes.buffer));
  state.run.value = await session.run();
}"""


class CompositeLayers(nn.Module):
    """Layers that exporters split into several operators."""

    def __init__(self) -> None:
        super().__init__()
        self.near = nn.LocalResponseNorm(3, alpha=0.2, beta=0.6, k=1.5)
        self.even = nn.LocalResponseNorm(2, alpha=0.3)
        self.round = nn.Conv2d(4, 3, 3, padding=(1, 2), padding_mode="circular")
        self.mirror = nn.Conv2d(3, 4, 3, padding=2, stride=2, padding_mode="reflect")
        self.edge = nn.Conv2d(4, 4, (4, 3), padding="same", padding_mode="replicate", groups=2)
        self.token = nn.Linear(6, 5)
        self.plain = nn.Linear(5, 4, bias=False)

    def forward(self, x: torch.Tensor, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.edge(self.mirror(self.round(self.even(self.near(x)))))
        return x, self.plain(self.token(words))


def test_layers_of_several_operators_are_explained_as_one(show: Callable[..., ViewsPage]) -> None:
    """Padding that repeats the map, LocalResponseNorm, and Linear over a sequence."""
    torch.manual_seed(4)
    model = CompositeLayers().eval()
    inputs = (torch.randn(2, 4, 7, 8) * 3, torch.randn(2, 3, 6))
    values: dict[str, np.ndarray] = {}
    for name, module in model.named_children():
        module.register_forward_hook(
            lambda _module, _inputs, value, name=name: values.update({name: value.numpy()})
        )
    with torch.inference_mode():
        model(*inputs)
    arrays = tuple(one.numpy() for one in inputs)
    views = show(nbglcnn.compile(model, arrays), *arrays)
    random = np.random.default_rng(6)
    views.set(tab="layer", layerSection="explain", example=1)
    for layer, own in ((name, of[1]) for name, of in values.items()):
        frame = own.shape if own.ndim == 3 else (own.shape[0], 1, own.shape[1])
        for at in sample_positions(np.empty((1, *frame)), random)[:12]:
            shown = read_explanation(views.page, layer, at)
            value, _ = shown["value"]
            assert value == approx_float32(float(own.reshape(frame)[tuple(at)])), (layer, at)
            if layer in ("near", "even"):
                squares, ratio = shown["cards"]
                around = sum(one**2 for one, _ in squares["lines"])
                assert squares["result"][0] == approx_float64(around)
                x, bias, share, total, beta = (one for one, _ in ratio["lines"])
                assert total == approx_float64(around)
                found = ratio["result"][0]
                assert found == approx_float64(x / (bias + share * total) ** beta)
            else:
                found = follow_cards(shown["cards"], sum_terms(shown))
            assert found == approx_float32(value), (layer, at)


def test_what_is_not_explained_is_said_with_its_name(
    show: Callable[..., ViewsPage],
) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.solid = nn.Conv3d(1, 2, 2)
            self.blocks = nn.Softmin(1)
            self.line = nn.Sequential(nn.Conv1d(3, 5, 3, stride=2), nn.Tanh())
            self.start = nn.Parameter(torch.randn(1, 3, 5, 6))
            self.made = nn.Conv2d(3, 4, 3, padding=1)

        def forward(
            self, picture: torch.Tensor, volume: torch.Tensor, sound: torch.Tensor
        ) -> dict[str, torch.Tensor]:
            maps = self.blocks(picture) * self.made(self.start)
            return {"maps": maps, "solid": self.solid(volume), "line": self.line(sound)}

    torch.manual_seed(0)
    inputs = [torch.randn(2, 4, 5, 6), torch.randn(1, 1, 3, 4, 5), torch.randn(2, 3, 9)]
    model = Net().eval()
    with torch.no_grad():
        line = model.line(inputs[2]).numpy()
    arrays = [one.numpy() for one in inputs]
    views = show(nbglcnn.compile(model, tuple(arrays)), *arrays)
    views.set(layerSection="explain")
    said = {
        "blocks": "Softmin is not explained yet.",
        "solid": "Conv3d is not explained yet in this form.",
        "picture": "Inputs are not computed.",
        "made": "made does not depend on the input.",
    }
    for layer, words in said.items():
        views.set(selected={"layer": layer, "channel": None}, tab="layer")
        expect(views.page.locator(".nbg-explain")).to_contain_text(words)
    expect(views.page.locator(".nbg-explain")).not_to_contain_text("undefined")
    # A 1-D value among several inputs is explained.
    views.set(example=1, selected={"layer": "line.1", "channel": 3})
    views.set(pixel={"mapHeight": 1, "mapWidth": 4, "y": 0, "x": 2})
    expect(views.page.locator(".nbg-question")).to_contain_text("line.1, channel 3, x 2 =")
    found = views.page.locator(".nbg-result data").last.get_attribute("value")
    assert float(found or "nan") == approx_float32(float(line[1, 3, 2]))


# Overlays that don't align with their picture; rays to a patch leave it intentionally.
COUNT_MISPLACED_OVERLAYS_SCRIPT = """() => [
  ...document.querySelectorAll('.nbg-overlay')
].filter((over) => {
  const own = over.getBoundingClientRect();
  const map = over.closest('.nbg-maps').querySelector('canvas').getBoundingClientRect();
  return ['left', 'top', 'width', 'height'].some((side) => Math.abs(own[side] - map[side]) > 1);
}).length"""


@pytest.mark.parametrize(("width", "dark"), [(420, True), (900, False)])
def test_no_text_of_an_explanation_is_clipped(
    show: Callable[..., ViewsPage], width: int, dark: bool
) -> None:
    model, x = make_network()
    views = show(nbglcnn.compile(model, x), x, width=width)
    if dark:
        views.page.evaluate("() => { document.body.dataset.jpThemeLight = 'false'; }")
    views.set(tab="layer", layerSection="explain")
    for layer in ("odd.2", "groups.1", "up.2", "most", "dense.1", "share", "tanh"):
        read_explanation(views.page, layer, [1, 0, 0])
        assert views.page.evaluate(CLIPPED_ELEMENTS_SCRIPT) == [], layer
        assert views.page.evaluate(COUNT_MISPLACED_OVERLAYS_SCRIPT) == 0, layer
        assert views.page.evaluate("document.documentElement.scrollWidth") <= width, layer
    views.set(layerSection="maps")


# Content of both pictures of a transposed convolution: the phase, ringed and hatched taps, numbers.
READ_BOTH_WAYS_SCRIPT = """() => {
  const root = document.querySelector('.nbg-both-ways');
  const table = (name) => [...root.querySelectorAll(`table[aria-label="${name}"] td`)];
  const hatched = (cells) => cells.filter((one) => one.classList.contains('nbg-hatched'));
  const under = table('Pixels under the filter');
  const ringed = table('Map with zeros inserted')
    .filter((one) => one.classList.contains('nbg-ring'));
  return {
    phase: root.innerText.match(/phase .*/)[0],
    ringed: [ringed.length, hatched(ringed).length],
    under: [under.length, hatched(under).length],
    products: table('Products').map((one) => Number(one.querySelector('data').value)),
    said: root.innerText.match(/the same .*/)[0],
  };
}"""


@pytest.mark.parametrize(
    ("y", "x", "outside", "words"),
    [
        (0, 0, 3, "; 3 of its 4 taps lie outside the map (padding)"),
        (0, 5, 2, "; 2 of its 4 taps lie outside the map (padding)"),
        (4, 4, 0, ""),
    ],
)
def test_a_phase_has_its_whole_filter_at_the_border_too_and_both_pictures_agree(
    show: Callable[..., ViewsPage], y: int, x: int, outside: int, words: str
) -> None:
    torch.manual_seed(4)
    model = nn.Sequential(nn.ConvTranspose2d(1, 2, 4, stride=2, padding=1, bias=False))
    given = torch.randn(1, 1, 5, 5)
    views = show(nbglcnn.compile(model, given), given.numpy())
    views.set(tab="layer", layerSection="explain")
    read_explanation(views.page, "0", [1, y, x])
    found = views.page.evaluate(READ_BOTH_WAYS_SCRIPT)
    phase = f"phase ({(y + 1) % 2}, {(x + 1) % 2}) of 4: an ordinary 2×2 filter{words}"
    assert found["phase"] == phase
    assert found["ringed"] == found["under"] == [4, outside]
    with torch.no_grad():
        wanted = float(model(given)[0, 1, y, x])
    assert sum(found["products"]) == pytest.approx(wanted, rel=1e-5)
    assert found["said"].startswith(f"the same {4 - outside} product")


class AdaptivePools(nn.Module):
    """Adaptive pools, whose windows overlap and differ in size."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 3, 1)
        self.mean, self.most = nn.AdaptiveAvgPool2d((3, 5)), nn.AdaptiveMaxPool2d((4, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return self.mean(x).mean() + self.most(x)


def test_of_an_uneven_pool_the_window_of_each_pixel_is_shown(
    show: Callable[..., ViewsPage],
) -> None:
    torch.manual_seed(7)
    model, x = AdaptivePools().eval(), torch.randn(2, 1, 11, 13)
    values = hook_values(model, x.numpy())
    views = show(nbglcnn.compile(model, x), x.numpy())
    views.set(tab="layer", layerSection="explain", example=1)
    random = np.random.default_rng(3)
    for layer in ("mean", "most"):
        for channel, y, x_ in sample_positions(values[layer], random)[:8]:
            shown = read_explanation(views.page, layer, [channel, y, x_])
            sides = zip((y, x_), (11, 13), values[layer].shape[2:], strict=True)
            rows, columns = (slice(i * n // m, -(-(i + 1) * n // m)) for i, n, m in sides)
            window = values["first"][1, channel, rows, columns].ravel()
            inside = [one for one, _ in shown["window"]]
            np.testing.assert_allclose(inside, window, rtol=1e-5, atol=1e-5)
            value, _ = shown["value"]
            assert value == approx_float32(
                float(window.mean() if layer == "mean" else window.max())
            )


class FieldWidening(nn.Module):
    """Layers that enlarge the receptive field in different ways, with a skip and a larger map."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Conv2d(1, 3, (3, 2), stride=(2, 1), padding=(2, 1), dilation=(2, 1))
        self.mean = nn.AvgPool2d(3, 2, 1)
        self.up = nn.ConvTranspose2d(3, 3, (4, 3), stride=(2, 3), padding=(1, 0))
        self.act = nn.Sigmoid()
        self.skip = nn.Conv2d(3, 3, 3, padding=1)
        self.larger = nn.Upsample(scale_factor=2, mode="bilinear")
        self.last = nn.Conv2d(3, 1, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.up(self.mean(self.wide(x))))
        return self.last(self.larger(x + self.skip(x)))


# The pixels whose centres lie inside the drawn shape.
COVERED_CURVE_SCRIPT = """(figure) => {
  const path = figure.querySelector('svg .nbg-ink path, svg path.nbg-ink');
  const { width, height } = path.ownerSVGElement.getBoundingClientRect();
  const [rows, columns] = figure.dataset.pixels.split('×').map(Number);
  const found = [];
  for (let y = 0; y < rows; y++) for (let x = 0; x < columns; x++) {
    const middle = new DOMPoint(((x + 0.5) * width) / columns, ((y + 0.5) * height) / rows);
    if (path.isPointInFill(middle)) found.push(y * columns + x);
  }
  return [figure.dataset.field, found];
}"""


def test_the_fields_of_a_pixel_are_drawn_where_its_gradients_are_not_zero(
    show: Callable[..., ViewsPage],
) -> None:
    torch.manual_seed(6)
    model, x = FieldWidening().eval(), torch.randn(1, 1, 21, 17)
    views = show(nbglcnn.compile(model, x), x.numpy())
    kept: dict[str, torch.Tensor] = {}
    changes: dict[str, torch.Tensor] = {}  # offsets added to values while they are computed

    def hook(name: str, value: torch.Tensor) -> torch.Tensor:
        kept.setdefault(name, value)
        return value + changes[name] if name in changes else value

    for name, module in model.named_children():
        module.register_forward_hook(lambda _module, _inputs, value, name=name: hook(name, value))
    # Double precision, so that no change is lost to rounding.
    given = x.double().requires_grad_()
    output = model.double()(given)
    random = np.random.default_rng(2)
    views.set(tab="layer", layerSection="explain")
    for name in ("wide", "mean", "up", "act", "skip"):
        value = kept[name]
        height, width = value.shape[2:]
        for _ in range(3):
            y, x_ = int(random.integers(height)), int(random.integers(width))
            [gradient] = torch.autograd.grad(value[0, 1, y, x_], given, retain_graph=True)
            expected = {"from,x": np.flatnonzero(gradient[0, 0].numpy()).tolist()}
            # A forward difference instead of a full Jacobian, which takes ten seconds.
            change = torch.zeros_like(value)
            change[0, 1, y, x_] = 0.1
            changes.update({name: change})
            with torch.no_grad():
                reached = (model(given) - output)[0, 0].numpy()
            changes.clear()
            expected["to,output"] = np.flatnonzero(reached).tolist()
            read_explanation(views.page, name, [1, y, x_])
            figures = views.page.locator("[data-field]").all()
            found = dict(figure.evaluate(COVERED_CURVE_SCRIPT) for figure in figures)
            assert found == expected, (name, y, x_)


class NormsAndSlopes(nn.Module):
    """Normalisation by the picture's own statistics, activation slopes, external constants."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(2, 6, 3, padding=1), nn.GroupNorm(3, 6), nn.PReLU(6))
        self.second = nn.Sequential(nn.Conv2d(6, 4, 1), nn.InstanceNorm2d(4, affine=True))
        self.elu = nn.ELU(0.7)
        self.larger = nn.Upsample(scale_factor=2, mode="bilinear")
        self.again = nn.Upsample(scale_factor=(1, 2), mode="nearest")
        self.third = nn.Sequential(nn.LayerNorm([10, 14, 24]), nn.Softplus(1.5, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        y = self.elu(self.second(x))
        return self.third(self.again(self.larger(torch.cat([y, x], dim=1))))


def test_numbers_of_the_picture_itself_and_from_elsewhere_are_explained(
    show: Callable[..., ViewsPage],
) -> None:
    torch.manual_seed(9)
    model, x = NormsAndSlopes(), torch.randn(2, 2, 7, 6)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim in (1, 3):
                parameter.copy_(0.5 + 0.5 * torch.rand(parameter.shape))
    model.eval()
    values = hook_values(model, x.numpy())
    plan = nbglcnn.compile(model, x)
    values["cat"] = np.concatenate([values["elu"], values["first"]], axis=1)
    [joined] = [one.name for one in plan.layers if one.operator == "Concat"]
    views = show(plan, x.numpy())
    views.set(tab="layer", layerSection="explain", example=1)
    random = np.random.default_rng(4)
    slopes = model.first[2].weight.detach().numpy()
    for layer in ("first.2", "elu", joined, "larger", "again", "third.1"):
        truth = values["cat" if layer == joined else layer]
        for at in sample_positions(truth, random):
            shown = read_explanation(views.page, layer, at)
            assert shown["value"][0] == approx_float32(float(truth[1][tuple(at)])), (layer, at)
            cards = shown["cards"]
            channel, y, x_ = at
            if layer in ("first.2", "elu"):
                start, last = sum_terms(shown), len(cards) - (layer == "first.2")
                found = follow_cards(cards[:last], start)
                if layer == "first.2":
                    assert cards[-1]["title"] == "PReLU"
                    slope = 1 if found >= 0 else float(slopes[channel])
                    assert cards[-1]["result"][0] == approx_float64(found * slope)
                    found *= slope
            elif layer == joined:
                [card] = cards
                found = card["result"][0]
                source = "elu" if channel < 4 else "first.2"
                own = channel if channel < 4 else channel - 4
                words = views.page.locator(".nbg-card").inner_text()
                assert f"{source}, channel {own}, y {y}, x {x_}" in words
            elif layer == "third.1":
                found = follow_cards(cards[1:], cards[0]["result"][0])
            else:
                [card] = cards
                numbers = [value for value, _ in card["lines"]]
                found = card["result"][0]
                if layer == "again":
                    assert numbers == [found]
                    assert found == approx_float32(float(values["larger"][1, channel, y, x_ // 2]))
                else:
                    shares = numbers[::2] if len(numbers) > 1 else [1.0]
                    assert sum(shares) == approx_float64(1)
                    parts = numbers[1::2] if len(numbers) > 1 else numbers
                    total = sum(a * b for a, b in zip(shares, parts, strict=True))
                    assert total == approx_float64(found)
            assert found == approx_float32(float(truth[1][tuple(at)])), (layer, at)


class UpperTriangle(nn.Module):
    """A convolution, then the part of its maps from the first superdiagonal on."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x).triu(1)


def test_an_operator_is_right_in_every_view_by_its_record_alone(
    show: Callable[..., ViewsPage],
) -> None:
    torch.manual_seed(3)
    model = UpperTriangle().eval()
    x = np.random.default_rng(3).standard_normal((1, 1, 6, 7)).astype(np.float32)
    with torch.no_grad():
        expected = model(torch.from_numpy(x)).numpy()
    plan = nbglcnn.compile(model, x)
    triangle = plan.layers[1]
    views = show(plan, x)
    page = views.page
    # It belongs to the convolution's stage, which the graph draws as the output.
    views.set(tab="network", networkLayout="graph", openGroups=None, graphCamera=None)
    node = page.locator(f".nbg-node[data-node='{triangle.name}']")
    expect(node).to_have_attribute("data-layers", f"conv\n{triangle.name}")
    expect(node).to_have_attribute("data-kind", "output")
    expect(page.locator(".nbg-node")).to_have_count(2)  # the other is the input
    views.set(tab="layer", layerSection="explain")
    for at, words in [([2, 1, 5], "5 − 1 ≥ 1: x; else 0"), ([0, 4, 2], "2 − 4 ≥ 1: x; else 0")]:
        shown = read_explanation(page, triangle.name, at)
        assert shown["value"][0] == approx_float32(float(expected[0][tuple(at)]))
        expect(page.locator(".nbg-card").last).to_contain_text(words)
        assert shown["cards"][-1]["title"] == "Trilu"
        given = shown["cards"][-2]["result"][0]
        kept = at[2] - at[1] >= 1
        assert shown["cards"][-1]["result"][0] == approx_float64(given if kept else 0.0)
    # A masked element depends on nothing.
    expect(page.locator(".nbg-explain")).to_contain_text("nothing of x")
