"""Explain for moved, joined, gated and biased values: their terms, and the trace through a ViT."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from torch import Tensor, nn

import nbglcnn
from explain_page import approx_float32, approx_float64, read_explanation
from formulas import evaluate_formula
from nbglcnn.graph import Array
from nbglcnn.plan.schema import Layer, Plan
from provenance_models import (
    ClassTokenViT,
    GatedNet,
    MovingLayers,
    TorchAttentionNet,
    WindowAttention,
)
from views_page import CLIPPED_ELEMENTS_SCRIPT, ViewsPage, parse_number

ShowViews = Callable[..., ViewsPage]
EXPLAINED_KINDS = {
    "moved",
    "concatenation",
    "sum",
    "elementwise",
    "max pool",
    "mean pool",
    "sum pool",
}
PIXELS_PER_LAYER = 3  # per layer


def open_views(
    show: ShowViews, model: nn.Module, x: Tensor, width: int = 1200
) -> tuple[ViewsPage, Any]:
    """Open the views; return them with the Plan and its values, after checking the outputs."""
    plan = nbglcnn.compile(model.eval(), x)
    with nbglcnn.Session(plan) as session:
        values = dict(session.run(x.numpy()))
    with torch.no_grad():
        given = model(x)
    named = {f"output[{k!r}]": v for k, v in given.items()} if isinstance(given, dict) else {}
    for key, value in (named or {"output": given}).items():
        np.testing.assert_allclose(values[key], value.numpy(), rtol=1e-4, atol=1e-5, err_msg=key)
    values[plan.header.inputs[0].key] = x.numpy()
    return show(plan, x.numpy(), width=width), (plan, values)


def displayed_value(plan: Plan, values: dict[str, Array], key: str) -> Array:
    """A value in the (n, c, h, w) shape that the views use."""
    return values[key].reshape(next(one.nchw for one in plan.values if one.key == key))


def parse_position(text: str) -> tuple[str, dict[str, int]]:
    """Parse the layer and the position that a link names."""
    key = re.split(r", (?:channel|value|y|x) \d", text)[0]
    return key, {name: int(at) for name, at in re.findall(r"(channel|value|y|x) (\d+)", text)}


def sum_terms(layer: Layer, shown: dict[str, Any]) -> float:
    """Compute a layer's number from its displayed terms."""
    [card] = shown["cards"]
    terms = [value for value, _ in card["lines"]]
    match layer.explanation:
        case "sum":
            found = sum(terms)
        case "elementwise":
            names = dict(zip("abcdef", map(np.asarray, terms), strict=False))
            found = float(evaluate_formula(layer.formula, np.zeros(()), **names))
        case "moved" | "concatenation":
            return float(card["result"][0])
        case kind:
            numbers = list(shown["terms"].values()) or [value for value, _ in shown["window"]]
            assert numbers, layer.name
            found = {"sum pool": sum, "mean pool": np.mean, "max pool": max}[kind](numbers)
    assert card["result"][0] == approx_float64(float(found)), layer.name
    return float(found)


@pytest.mark.parametrize(
    ("model", "x", "least"),
    [(ClassTokenViT, (2, 3, 12, 12), 18), (WindowAttention, (2, 4, 4, 8), 20),
     (GatedNet, (2, 3, 6, 8), 30), (MovingLayers, (2, 8, 6, 8), 14)],
)  # fmt: skip
def test_the_terms_of_what_is_moved_and_joined_make_the_number(
    show: ShowViews, model: Callable[[], nn.Module], x: tuple[int, ...], least: int
) -> None:
    torch.manual_seed(3)
    views, (plan, values) = open_views(show, model(), torch.rand(x))
    views.set(tab="layer", layerSection="explain", example=1)
    random = np.random.default_rng(5)
    layers = [
        one for one in plan.layers if one.explanation in EXPLAINED_KINDS and not one.is_composite
    ]
    assert len(layers) >= least
    links = views.page.locator(".nbg-lines .nbg-from-where")
    for layer in layers:
        own = displayed_value(plan, values, layer.name)
        image = 1 if own.shape[0] == 2 else 0
        for _ in range(PIXELS_PER_LAYER):
            at = [int(random.integers(n)) for n in own.shape[1:]]
            shown = read_explanation(views.page, layer.name, at)
            truth = float(own[(image, *at)])
            assert shown["value"][0] == approx_float32(truth), (layer.name, at)
            assert sum_terms(layer, shown) == approx_float32(truth), (layer.name, at)
            assert "Difference from rounding" not in shown["rounding"] or abs(truth) > 1e-6
            # The links name the positions of these numbers.
            numbers = [value for value, _ in shown["cards"][0]["lines"]] or [truth]
            if links.count() == len(numbers):
                for words, value in zip(links.all_inner_texts(), numbers, strict=True):
                    if "token" in words:
                        continue  # attention terms have their own test
                    key, where = parse_position(words)
                    source = displayed_value(plan, values, key)
                    channel = where.get("channel", where.get("value", 0))
                    y, x_ = where.get("y", 0), where.get("x", 0)
                    # A value without a leading batch axis may belong to any example.
                    examples = (
                        source if len(own) == 1 else source[min(image, len(source) - 1) :][:1]
                    )
                    found = examples[:, channel, y, x_].tolist()
                    assert any(one == approx_float32(value) for one in found), (
                        layer.name,
                        at,
                        words,
                    )
    assert not views.page.evaluate(CLIPPED_ELEMENTS_SCRIPT)


def test_a_class_token_and_the_bias_of_a_pair_are_told_as_parameters(show: ShowViews) -> None:
    torch.manual_seed(3)
    model = ClassTokenViT()
    views, (_, values) = open_views(show, model, torch.rand(2, 3, 12, 12))
    views.set(tab="layer", layerSection="explain", example=1)
    page = views.page
    shown = read_explanation(page, "cat", [0, 0, 5])
    assert shown["value"][0] == approx_float32(float(model.token.detach()[0, 0, 5]))
    expect(page.locator(".nbg-card")).to_contain_text("token[0, 0, 5], a parameter")
    expect(page.locator("[data-origin]")).to_have_count(0)
    shown = read_explanation(page, "add", [3, 0, 2])
    a, b = (value for value, _ in shown["cards"][0]["lines"])
    assert (a, b) == (
        approx_float32(float(values["cat"][1, 3, 2])),
        approx_float32(float(model.places.detach()[0, 3, 2])),
    )
    expect(page.locator(".nbg-card")).to_contain_text("places[0, 3, 2], a parameter")


def vit() -> tuple[nn.Module, Tensor]:
    """A ViT whose class token depends mostly on the patches."""
    torch.manual_seed(0)
    model = ClassTokenViT()
    with torch.no_grad():
        model.token.mul_(0.05)
        model.places.mul_(0.3)
        for block in model.blocks:
            block.attn.proj.weight.mul_(3)
    return model, torch.rand(2, 3, 12, 12)


EXPLAIN_PATH = [
    "head", "select", "norm", "blocks.1: add:1", "blocks.1: add", "blocks.1.attn.proj",
    "blocks.1.attn: transpose:1", "blocks.1.attn: matmul", "blocks.1.attn: unbind.slice:2",
    "blocks.1.attn: permute", "blocks.1.attn.qkv", "blocks.1.norm1", "blocks.0: add:1",
    "blocks.0: add", "blocks.0.attn.proj", "blocks.0.attn: transpose:1", "blocks.0.attn: matmul",
    "blocks.0.attn: unbind.slice:2", "blocks.0.attn: permute", "blocks.0.attn.qkv",
    "blocks.0.norm1", "add", "cat", "transpose", "patches",
]  # fmt: skip


def test_from_the_winning_class_of_a_vit_to_a_patch_of_the_picture_by_clicks_alone(
    show: ShowViews,
) -> None:
    model, x = vit()
    views, (plan, values) = open_views(show, model, x)
    page = views.page
    views.set(tab="layer", layerSection="explain", selected={"layer": "head", "channel": None})
    question, ways = page.locator(".nbg-question"), page.locator("[data-origin]")
    crumbs = page.get_by_role("navigation", name="Path to this value").get_by_role("button")
    winner = int(values["head"][0].argmax())
    expect(question).to_contain_text(f"Why is head, value {winner} =")
    layers = {layer.name: layer for layer in plan.layers}
    for k, name in enumerate(EXPLAIN_PATH):
        views.wait_idle()
        expect(question).to_contain_text(f"Why is {name},")
        # The number is the network's at the requested position, and its terms add up to it.
        place, chosen = views.get("pixel"), views.get("selected")["channel"]
        own = displayed_value(plan, values, name)[0, winner if chosen is None else chosen]
        truth = float(own.flat[0] if own.size == 1 else own[place["y"], place["x"]])
        assert parse_number(question.inner_text().rpartition("=")[2]) == pytest.approx(
            truth, abs=6e-4
        )
        sums = page.locator(".nbg-rounding")
        total, stored = (
            float(sums.get_attribute(f"data-{n}") or "nan") for n in ("total", "stored")
        )
        assert (total, stored) == (approx_float32(truth), approx_float32(truth))
        # Terms are sorted by size; a single source has the number itself.
        amounts = [parse_number(t.rpartition("\n")[2]) for t in ways.all_inner_texts() if "\n" in t]
        assert amounts == sorted(amounts, key=abs, reverse=True)
        if layers[name].explanation in ("moved", "concatenation"):
            assert amounts == [pytest.approx(truth, rel=0.06, abs=1e-3)]
        if name == "blocks.1.attn: matmul":
            head, feature = chosen, place["x"]
            shares = values["blocks.1.attn: softmax"][0, head, place["y"]]
            v = values["blocks.1.attn: unbind[2]"][0, head, :, feature]
            expected = np.sort(-(shares * v))[:4]
            np.testing.assert_allclose(amounts, -expected, rtol=0.06)
            words = f"head {head}, query token 0 (no patch), feature {feature}"
            expect(question).to_contain_text(f"{name}, {words} =")
        expect(crumbs).to_have_count(k)
        ways.first.click()
    # The pixels read by the patch's convolution are those of the patch that the trace reached.
    end = page.locator(".nbg-given")
    expect(end.locator("strong")).not_to_have_text("…")
    channel, y, x_ = (int(k) for k in re.findall(r"(?:channel|y|x) (\d+)", end.inner_text()))
    assert parse_number(end.inner_text().partition("=")[2]) == approx_float32(
        float(x[0, channel, y, x_])
    )
    assert [text.partition(",")[0] for text in crumbs.all_inner_texts()] == EXPLAIN_PATH
    patch = re.search(r"y (\d), x (\d)", crumbs.last.inner_text())
    assert patch and (y // 4, x_ // 4) == tuple(map(int, patch.groups()))
    # The convolution's step: the channel, of three, with the largest contribution, over its whole
    # patch.
    kernel = model.patches.weight.detach().numpy()
    row, column = y // 4 * 4, x_ // 4 * 4
    which = int(re.search(r"channel (\d)", crumbs.last.inner_text())[1])
    products = kernel[which] * x[0, :, row : row + 4, column : column + 4].numpy()
    sums_ = products.sum((1, 2))
    assert channel == int(abs(sums_).argmax())
    tap = (products[channel] * np.sign(sums_[channel])).argmax()
    assert (y - row, x_ - column) == divmod(int(tap), 4)
    assert not page.evaluate(CLIPPED_ELEMENTS_SCRIPT)
    crumbs.nth(7).click()
    expect(question).to_contain_text("Why is blocks.1.attn: matmul, head")
    expect(crumbs).to_have_count(7)


@pytest.mark.parametrize(
    ("model", "shape", "first", "least"),
    [(TorchAttentionNet, (2, 3, 12, 12), "head", 15), (WindowAttention, (2, 4, 4, 8), "mean", 15)],
)
def test_no_step_of_the_way_is_a_dead_end(
    show: ShowViews, model: Callable[[], nn.Module], shape: tuple[int, ...], first: str, least: int
) -> None:
    """Largest terms lead to the input, via nn.MultiheadAttention and shifted windows."""
    torch.manual_seed(2)
    x = torch.rand(shape)
    views, (plan, values) = open_views(show, model(), x)
    page = views.page
    views.set(tab="layer", layerSection="explain", example=1)
    views.set(selected={"layer": first, "channel": None})
    ways = page.locator("[data-origin]")
    sums = page.locator(".nbg-rounding")
    seen: list[str] = []
    while len(seen) < 40:
        views.wait_idle()
        name = views.get("selected")["layer"]
        if name == "x":
            break
        assert name not in seen
        seen.append(name)
        own = displayed_value(plan, values, name)
        own = own[1 if len(own) == 2 else 0]
        place, chosen = views.get("pixel"), views.get("selected")["channel"]
        number_ = own[int(own.argmax()) if chosen is None else chosen]
        truth = float(number_.flat[0] if number_.size == 1 else number_[place["y"], place["x"]])
        for side in ("total", "stored"):
            assert float(sums.get_attribute(f"data-{side}") or "nan") == approx_float32(truth), (
                name,
                side,
            )
        ways.first.click()
    assert len(seen) >= least, seen
    assert views.get("example") == 1
    place, channel = views.get("pixel"), views.get("selected")["channel"]
    given = page.locator(".nbg-given strong")
    expect(given).not_to_have_text("…")
    wanted = float(displayed_value(plan, values, "x")[1, channel, place["y"], place["x"]])
    assert parse_number(given.inner_text()) == approx_float32(wanted)


def test_attention_is_asked_for_by_head_query_and_key_in_headings_and_crumbs(
    show: ShowViews,
) -> None:
    model, x = vit()
    views, (_, values) = open_views(show, model, x)
    page = views.page
    question = page.locator(".nbg-question")
    crumbs = page.get_by_role("navigation", name="Path to this value")
    name = "blocks.1.attn: softmax"
    views.set(tab="layer", layerSection="explain", selected={"layer": name, "channel": 1})
    views.set(pixel={"mapHeight": 10, "mapWidth": 10, "y": 0, "x": 6})
    words = "head 1, query token 0 (no patch), key token 6 (patch 1, 2)"
    expect(question).to_contain_text(f"Why is {name}, {words} =")
    assert parse_number(question.inner_text().rpartition("=")[2]) == pytest.approx(
        float(values[name][0, 1, 0, 6]), abs=6e-4
    )
    # Another pair, selected by token numbers.
    page.get_by_role("spinbutton", name="Query").fill("4")
    page.get_by_role("spinbutton", name="Key").fill("0")
    page.get_by_role("spinbutton", name="Head").fill("0")
    words = "head 0, query token 4 (patch 1, 0), key token 0 (no patch)"
    expect(question).to_contain_text(f"Why is {name}, {words} =")
    views.wait_idle()
    page.locator("[data-origin]").first.click()
    expect(question).to_contain_text("Why is blocks.1.attn: mul,")
    expect(crumbs).to_contain_text(f"{name}, {words}")
    # The scores before it belong to the same pair; each product is of one feature of both.
    views.wait_idle()
    page.locator("[data-origin]").first.click()
    expect(question).to_contain_text(f"Why is blocks.1.attn: q @ k.T, {words} =")
    views.wait_idle()
    q, k = (values[f"blocks.1.attn: unbind[{i}]"][0, 0] for i in (0, 1))
    products = q[4] * k[0]
    order = (-abs(products)).argsort()[:2].repeat(2)
    amounts = [
        parse_number(t.rpartition("\n")[2]) for t in page.locator("[data-origin]").all_inner_texts()
    ]
    np.testing.assert_allclose(amounts, products[order], rtol=0.06)


def test_a_step_leads_to_the_example_that_the_number_is_of(show: ShowViews) -> None:
    """After the transpose the token axis precedes the example axis; before it, it follows."""
    torch.manual_seed(3)
    views, (_, values) = open_views(show, MovingLayers(), torch.rand(2, 8, 6, 8))
    page = views.page
    views.set(tab="layer", layerSection="explain", example=0)
    for example in (1, 0):
        read_explanation(page, "mha: transpose", [9, example, 2])
        page.locator("[data-origin]").click()
        question = page.locator(".nbg-question")
        expect(question).to_contain_text("Why is transpose, channel 9, x 2 =")
        assert views.get("example") == example
        assert parse_number(question.inner_text().rpartition("=")[2]) == pytest.approx(
            float(values["transpose"][example, 9, 2]), abs=6e-4
        )


class WordConv(nn.Module):
    """A convolution over words, with embeddings looked up by word index."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.conv = nn.Embedding(9, 4), nn.Conv1d(4, 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(self.words(x).transpose(1, 2)).amax(2)


def test_a_word_says_which_row_of_the_table_its_number_chooses(show: ShowViews) -> None:
    torch.manual_seed(4)
    model, x = WordConv(), torch.tensor([[3, 0, 8, 5, 5], [1, 7, 2, 0, 6]])
    views, _ = open_views(show, model, x)
    page = views.page
    views.set(tab="layer", layerSection="explain", example=1)
    table = model.words.weight.detach().numpy()
    for token, feature in ((1, 2), (3, 0), (4, 3)):
        shown = read_explanation(page, "words", [token, 0, feature])
        word = int(x[1, token])
        assert shown["value"][0] == approx_float32(float(table[word, feature]))
        assert shown["cards"][0]["result"][0] == approx_float32(float(table[word, feature]))
        card = page.locator(".nbg-card")
        expect(card).to_contain_text(f"words.weight[{word}, {feature}], a parameter")
        assert [value for value, _ in shown["cards"][0]["lines"]] == [word]
        expect(page.locator("[data-origin]")).to_contain_text("x, value")


class UnexplainedLayer(nn.Module):
    """An unexplained layer between two explained ones."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.least, self.act = nn.Conv2d(3, 4, 3), nn.Softmin(1), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.least(self.conv(x)) - 0.2).amax((2, 3))


def test_the_way_back_stays_on_a_layer_that_is_not_explained(show: ShowViews) -> None:
    torch.manual_seed(1)
    views, _ = open_views(show, UnexplainedLayer(), torch.rand(1, 3, 6, 6))
    page = views.page
    views.set(tab="layer", layerSection="explain", selected={"layer": "amax", "channel": 2})
    crumbs = page.get_by_role("navigation", name="Path to this value").get_by_role("button")
    for k, name in enumerate(("amax", "act")):
        expect(page.locator(".nbg-question")).to_contain_text(f"Why is {name}, ")
        views.wait_idle()
        expect(crumbs).to_have_count(k)
        page.locator("[data-origin]").first.click()
    expect(page.locator(".nbg-unknown")).to_contain_text("Softmin is not explained yet.")
    expect(crumbs).to_have_count(2)
    here = page.locator(".nbg-trail [aria-current]")
    expect(here).to_contain_text(re.compile(r"^least, channel 2, y \d, x \d$"))
    crumbs.last.click()
    expect(page.locator(".nbg-question")).to_contain_text("Why is act, channel 2,")
    expect(crumbs).to_have_count(1)
