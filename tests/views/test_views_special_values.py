"""Display of special values: attention heads, and NaN and infinity."""

import re
from collections.abc import Callable

import numpy as np
import onnx
import onnx.parser
import pytest
import torch
from playwright.sync_api import expect
from torch import nn

import nbglcnn
from colours import signed_colours
from nbglcnn import Plan
from nbglcnn.widget.parity import make_verify_result
from rank_networks import PerHeadAttention, TorchAttention
from views_page import PARITY_STATE, ViewsPage, canvas_pixels, parse_number

TOKENS, HEADS = 16, 4


@pytest.fixture(scope="module")
def attention_cases() -> tuple[Plan, np.ndarray, dict[str, np.ndarray]]:
    """A handwritten attention (heads on the second axis), and PyTorch's (heads on the first)."""
    torch.manual_seed(5)
    model, x = (
        nn.Sequential(PerHeadAttention(32, HEADS), TorchAttention(32, HEADS)).eval(),
        torch.randn(1, 16, 32),
    )
    plan = nbglcnn.compile(model, x)
    with nbglcnn.Session(plan) as session:
        return plan, x.numpy(), session.run(x.numpy())


def test_each_head_of_an_attention_is_a_channel(
    show: Callable[..., ViewsPage], attention_cases: tuple[Plan, np.ndarray, dict[str, np.ndarray]]
) -> None:
    plan, x, values = attention_cases
    views = show(plan, x)
    softmaxes = [layer.name for layer in plan.layers if layer.operator == "Softmax"]
    assert [values[name].shape for name in softmaxes] == [(1, 4, 16, 16), (4, 16, 16)]
    for name in softmaxes:
        heads = values[name].reshape(HEADS, TOKENS, TOKENS)
        views.open_layer(name, 3)
        views.wait_idle()
        page = views.page
        expect(page.locator(".nbg-head")).to_contain_text("4 heads of 16×16")
        expect(page.locator(".nbg-grid .nbg-cell-caption")).to_have_count(HEADS)
        rows = page.locator(".nbg-table tbody tr")
        for word, pick in (("min", np.min), ("max", np.max), ("mean", np.mean)):
            _, channel, whole = rows.filter(has_text=word).first.locator("th, td").all_inner_texts()
            assert parse_number(channel) == pytest.approx(float(pick(heads[3])), abs=6e-4)
            assert parse_number(whole) == pytest.approx(float(pick(heads)), abs=6e-4)
        expect(page.get_by_text("1,024 values")).to_be_visible()
        others = page.locator(".nbg-tiles [aria-label^='Similar to channel 3']")
        flat = heads.reshape(HEADS, -1).astype(float)
        like = flat @ flat[3] / np.linalg.norm(flat, axis=1)
        expected = [k for k in np.argsort(-like) if k != 3]
        labels = [one.get_attribute("aria-label") or "" for one in others.all()]
        assert [int(label.split(": ")[1]) for label in labels] == expected
        tip = views.hover(page.locator(".nbg-inspector canvas").first, 0.5 / 16, 15.5 / 16)
        assert "y 15, x 0" in tip
        assert parse_number(tip.split("\n")[0]) == pytest.approx(float(heads[3, 15, 0]), rel=1e-4)


def test_a_value_of_a_head_is_explained(
    show: Callable[..., ViewsPage], attention_cases: tuple[Plan, np.ndarray, dict[str, np.ndarray]]
) -> None:
    plan, x, values = attention_cases
    views = show(plan, x)
    name = next(layer.name for layer in plan.layers if layer.operator == "Softmax")
    views.set(layerSection="explain", pixel={"mapHeight": 16, "mapWidth": 16, "y": 9, "x": 4})
    views.open_layer(name, 2)
    stored = views.page.locator(".nbg-rounding").get_attribute("data-stored")
    assert float(stored or "nan") == float(values[name][0, 2, 9, 4])
    expect(views.page.locator(".nbg-question")).to_contain_text(
        "head 2, query token 9, key token 4"
    )


class NonfiniteChannel(nn.Module):
    """One channel of a layer is NaN and varies least."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act = nn.Conv2d(1, 24, 3, padding=1), nn.ReLU()
        with torch.no_grad():
            self.first.weight[17], self.first.bias[17] = 0, torch.nan

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(self.first(x))


def test_nan_is_said_and_its_channel_stands_first(show: Callable[..., ViewsPage]) -> None:
    torch.manual_seed(2)
    model, x = NonfiniteChannel().eval(), torch.randn(1, 1, 14, 14)
    plan = nbglcnn.compile(model, x)
    with nbglcnn.Session(plan) as session:
        report = nbglcnn.verify(session, model, x)
    views = show(plan, x.numpy())
    page = views.page
    views.set(selected={"layer": "first", "channel": None})
    said = make_verify_result(0, report, "PyTorch")
    parity = {**PARITY_STATE, "layers": said.layers, "non_finite": said.non_finite}
    views.set(parity=parity)
    views.wait_idle()
    status = page.locator(".nbg-status")
    expect(status).to_contain_text("2 of 2 layers match PyTorch")
    expect(status).to_contain_text("2 layers have NaN or infinity, first NaN: first, channel 17")
    badge = page.locator(".nbg-strip .nbg-badge, .nbg-line .nbg-badge").first
    expect(badge).to_have_attribute("data-matches", "true")
    expect(badge).to_have_attribute("data-finite", "false")
    expect(badge).to_have_accessible_name(re.compile("196 NaN, first in channel 17"))
    panel = page.locator(".nbg-panel")
    expect(panel.locator(".nbg-tiles").get_by_role("button").first).to_contain_text("ch 17")
    expect(panel).to_contain_text("those with NaN or infinity first")
    expect(panel.locator(".nbg-numbers")).to_contain_text("NaN 196")
    expect(panel.locator(".nbg-numbers")).to_contain_text("first in channel 17")
    views.set(parity={**parity, "non_finite": []})
    expect(badge).to_have_attribute("data-finite", "true")


def compile_onnx_text(text: str, *inputs: np.ndarray) -> tuple[Plan, tuple[np.ndarray, ...]]:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g {text}')
    return nbglcnn.compile(model, inputs if len(inputs) > 1 else inputs[0]), inputs


def test_an_onnx_output_that_is_read_on_is_a_layer_of_maps(show: Callable[..., ViewsPage]) -> None:
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    plan, inputs = compile_onnx_text(
        "(float[1,3,8,8] x) => (y, m) {y = Neg(x) m = ReduceMean<keepdims=0>(y)}", x
    )
    views = show(plan, *inputs)
    views.page.locator(".nbg-stage[data-layer=y] canvas[data-maps]").wait_for()
    views.set(rangeMode="layer")
    views.open_layer("y", 2)
    most = float(np.abs(x).max())
    assert_grid(views, np.stack([signed_colours(values, most) for values in -x[0]]))


def test_the_channels_of_an_onnx_picture_are_grey_in_its_range_on_its_layer_tab(
    show: Callable[..., ViewsPage],
) -> None:
    x = -np.random.default_rng(2).random((1, 3, 8, 8), np.float32)
    plan, inputs = compile_onnx_text("(float[1,3,8,8] x) => (y) {y = Neg(x)}", x)
    views = show(plan, *inputs)
    views.set(rangeMode="layer")
    views.open_layer("y", 1)
    assert_grid(views, -255 * x[0, ..., None].repeat(3, -1))


def assert_grid(views: ViewsPage, channels: np.ndarray) -> None:
    """Check that the three channels, (3, 8, 8, RGB), are drawn side by side."""
    drawn = canvas_pixels(views.page.locator(".nbg-grid canvas").first).astype(int)
    side = drawn.shape[0]
    gap = (drawn.shape[1] - 3 * side) // 2
    middle = (np.arange(8) + 0.5) * side / 8
    at = middle.astype(int)
    for channel, colors in enumerate(channels):
        shown = drawn[:, channel * (side + gap) :][at[:, None], at]
        assert np.abs(shown - colors).max() <= 2


def test_a_value_without_elements_says_so(show: Callable[..., ViewsPage]) -> None:
    plan, inputs = compile_onnx_text(
        "(float[2,0,8] x, float[1,1,4,4] z) => (y, w) {y = Relu(x) w = Neg(z)}",
        np.zeros((2, 0, 8), np.float32),
        np.ones((1, 1, 4, 4), np.float32),
    )
    views = show(plan, *inputs)
    views.open_layer("y")
    expect(views.page.locator(".nbglcnn")).to_contain_text("no values")
    expect(views.page.locator(".nbglcnn")).not_to_contain_text("1 value")
    expect(views.page.locator(".nbglcnn")).not_to_contain_text("NaN")


def test_the_histogram_of_one_number_is_one_bar_in_the_middle(
    show: Callable[..., ViewsPage],
) -> None:
    plan, inputs = compile_onnx_text(
        "(float[1,1,4,4] x) => (m) {y = Relu(x) m = ReduceMean<keepdims=0>(y)}",
        np.full((1, 1, 4, 4), 0.25, np.float32),
    )
    views = show(plan, *inputs)
    views.open_layer("y")
    shape = views.page.locator(".nbg-layer .nbg-histogram").first
    expect(shape.locator("rect")).to_have_count(1)
    box, all_ = shape.locator("rect").bounding_box(), shape.locator("svg").bounding_box()
    assert box is not None and all_ is not None
    assert abs(box["x"] + box["width"] / 2 - all_["x"] - all_["width"] / 2) < 2
    assert shape.locator("span").all_inner_texts() == ["0.25"]


class Segmenter(nn.Module):
    """Two modules, class scores for each pixel, and a number for each picture."""

    def __init__(self) -> None:
        super().__init__()
        self.low = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU())
        self.high = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1), nn.ReLU())
        self.head = nn.Conv2d(6, 5, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.head(self.high(self.low(x)))
        y = y - y.mean((2, 3), keepdim=True)
        return y.argmax(1), y.amax((1, 2, 3))


def test_a_class_for_each_pixel_is_a_map_and_a_number_for_each_example_that_examples(
    show: Callable[..., ViewsPage],
) -> None:
    torch.manual_seed(0)
    model, x = Segmenter().eval(), torch.rand(3, 3, 12, 16)
    plan = nbglcnn.compile(model, x)
    frames = {value.key: value.nchw for value in plan.values}
    assert frames["output[0]"] == (3, 1, 12, 16)
    assert frames["output[1]"] == (3, 1, 1, 1)
    views = show(plan, x.numpy())
    expected = [one.detach().numpy() for one in model(x)]
    for example in (0, 2):
        views.set(example=example)
        views.wait_idle()
        maps = views.page.locator(".nbg-graph canvas[data-maps='output[0]']")
        for i, j in ((0, 0), (7, 12), (11, 15)):
            text = views.hover(maps, (j + 0.5) / 16, (i + 0.5) / 12)
            assert parse_number(text) == expected[0][example, i, j]
        shown = views.page.locator(".nbg-graph [data-layer='output[1]'] .nbg-number")
        assert parse_number(shown.inner_text()) == pytest.approx(expected[1][example], rel=0.01)


def test_tokens_stay_channels_beside_maps_of_the_same_rank() -> None:
    class Tokens(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            tokens = x.flatten(2).transpose(1, 2) * 2  # (2, 20, 3)
            return tokens.softmax(-1).sum() + x[:, 0].relu().mean(1).sum()

    plan = nbglcnn.compile(Tokens(), torch.rand(2, 3, 4, 5))
    frames = {value.shape: value.nchw for value in plan.values}
    assert frames[2, 20, 3] == (2, 20, 1, 3)
    assert frames[2, 4, 5] == (2, 1, 4, 5)


def test_the_rail_has_the_modules_above_their_layers(show: Callable[..., ViewsPage]) -> None:
    x = torch.rand(1, 3, 12, 16)
    views = show(nbglcnn.compile(Segmenter().eval(), x), x.numpy())
    views.open_layer("high.0")
    views.wait_idle()
    groups = views.page.locator(".nbg-rail-group").all_inner_texts()
    assert [text.split() for text in groups[:4]] == [
        ["x"],
        ["low", "0", "1"],
        ["high", "0", "1"],
        ["head", *groups[3].split()[1:]],
    ]


def test_means_are_of_finite_values_with_the_count_of_others_beside_them(
    show: Callable[..., ViewsPage],
) -> None:
    x = np.random.default_rng(0).standard_normal((1, 4, 9, 9)).astype(np.float32)
    x[0, 1, 2, 3], x[0, 1, 4, 5], x[0, 2, 0, 0] = np.nan, np.inf, -np.inf
    x[0, 3] = np.nan
    views = show(nbglcnn.compile(nn.Sequential(nn.LeakyReLU(1.0)).eval(), x), x)
    views.open_layer("0", 1)
    views.wait_idle()
    captions = [
        text.split() for text in views.page.locator(".nbg-grid .nbg-cell-caption").all_inner_texts()
    ]
    means = [x[0, c][np.isfinite(x[0, c])].mean() for c in range(3)]
    for c in range(3):
        assert parse_number(captions[c][1]) == pytest.approx(means[c], rel=0.06, abs=1e-3)
    assert [words[2:] for words in captions[:3]] == [[], ["1", "NaN"], ["1", "Inf"]]
    assert captions[3] == ["3", "81", "NaN"]
    table = views.page.locator(".nbg-table tr", has_text="mean").locator("strong").inner_text()
    assert parse_number(table) == pytest.approx(means[1], abs=6e-4)
    inspector = views.page.locator(".nbg-inspector .nbg-filter figcaption")
    expect(inspector).to_contain_text("Its 81 values without 1 NaN, 1 infinity")
    layer = views.page.locator(".nbg-block h3", has_text="All values")
    expect(layer).to_contain_text("324 values")
    expect(layer).to_contain_text("without 82 NaN, 2 infinities")


@pytest.mark.parametrize(("width", "classes"), [(848, 10), (1200, 10), (1200, 30)])
def test_an_output_says_how_many_of_its_values_are_not_listed(
    show: Callable[..., ViewsPage], width: int, classes: int
) -> None:
    torch.manual_seed(1)
    x = torch.rand(1, 1, 20, 20)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1296, classes))
    views = show(nbglcnn.compile(model.eval(), x), x.numpy(), width=width)
    listed = views.page.locator(".nbg-top-row")
    expect(listed.nth(4)).to_be_visible()
    rows = listed.count()
    more = views.page.locator(".nbg-top-more")
    if rows == classes:
        expect(more).to_have_count(0)
    else:
        expect(more).to_have_text(f"the {rows} largest, {classes - rows} more")
    box, end = views.page.locator(".nbg-top").bounding_box(), views.page.locator(".nbg-end").last
    assert box is not None
    caption = end.locator(".nbg-caption").bounding_box()
    assert caption is not None
    assert box["y"] + box["height"] <= caption["y"] + 1
