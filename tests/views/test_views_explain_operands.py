"""Explain's source positions: borders, resampling, phases, 1-D values, attention."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from playwright.sync_api import Locator, Page, expect
from torch import nn

import nbglcnn
from explain_page import approx_float32, approx_float64, read_explanation
from readability import layout_faults, wait_page_drawn
from views_page import ViewsPage, parse_number


def read_matrix(page: Page | Locator, name: str) -> list[float]:
    """The numbers of the matrix with this name."""
    cells = page.locator(f'table[aria-label="{name}"] data')
    found: list[str] = cells.evaluate_all("(all) => all.map((one) => one.value)")
    return [float(one) for one in found]


def open_explain(show: Callable[..., ViewsPage], model: nn.Module, x: torch.Tensor) -> ViewsPage:
    views = show(nbglcnn.compile(model.eval(), x), x.numpy())
    views.set(tab="layer", layerSection="explain")
    return views


# The pixel that each patch cell repeats, and the lines from the border to these pixels.
REPEATED_CELLS_SCRIPT = """() => [
  [...document.querySelectorAll('table[aria-label="Patch of the input"] td')]
    .map((cell) => cell.dataset.from ?? ''),
  document.querySelector('.nbg-ink .nbg-source')?.getAttribute('d') ?? '',
  document.querySelector('.nbg-padded') !== null,
]"""


def test_repeated_padding_is_marked_with_where_it_comes_from(
    show: Callable[..., ViewsPage],
) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect"), nn.ReplicationPad2d((2, 0, 1, 0))
    )
    x = torch.randn(1, 1, 5, 6)
    views = open_explain(show, model, x)
    page = views.page
    read_explanation(page, "0", [1, 0, 2])
    cells, path, framed = page.evaluate(REPEATED_CELLS_SCRIPT)
    assert cells == ["y 1, x 1", "y 1, x 2", "y 1, x 3", *[""] * 6]
    assert path.count("L") == 3 and framed
    patch = read_matrix(page, "Patch of the input")
    assert patch[:3] == patch[6:] == [pytest.approx(float(one)) for one in x[0, 0, 1, 1:4]]
    expect(page.locator(".nbg-figure", has_text="Products")).to_contain_text(
        "3 mirrored at the border"
    )
    page.locator(".nbg-repeated").nth(1).hover()
    expect(page.locator(".nbg-tip")).to_contain_text("y 1, x 2, mirrored at the border")
    # Away from the border nothing is repeated.
    read_explanation(page, "0", [1, 2, 2])
    assert page.evaluate(REPEATED_CELLS_SCRIPT)[:2] == [[""] * 9, ""]
    # Padding as a separate layer.
    with torch.no_grad():
        maps = model(x)
    shown = read_explanation(page, "1", [0, 0, 1])
    assert shown["cards"][0]["result"][0] == approx_float32(float(maps[0, 0, 0, 1]))
    expect(page.locator(".nbg-card")).to_contain_text("y 0, x 0, repeated at the border")
    assert page.evaluate(REPEATED_CELLS_SCRIPT)[1].count("L") == 1


def test_a_sum_that_is_another_one_as_it_is_shown_has_another_sign(
    show: Callable[..., ViewsPage],
) -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 1))
    with torch.no_grad():
        model[0].weight.fill_(1)
        model[0].bias.fill_(0.1004)
    views = open_explain(show, model, torch.tensor([[[[0.1004, 0.25]]]]))
    bias = views.page.locator(".nbg-card").last
    read_explanation(views.page, "0", [0, 0, 0])
    expect(bias.locator(".nbg-result")).to_have_text("≈0.201")  # 0.100 + 0.100
    views.set(pixel={"mapHeight": 1, "mapWidth": 2, "y": 0, "x": 1})
    expect(bias.locator(".nbg-result")).to_have_text("0.350")


def test_a_batch_norm_says_whose_mean_and_deviation_it_has(show: Callable[..., ViewsPage]) -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.InstanceNorm2d(2))
    views = open_explain(show, model, torch.randn(1, 1, 3, 4))
    read_explanation(views.page, "1", [0, 1, 1])
    notes = views.page.locator(".nbg-steps > p")
    expect(notes).to_contain_text(
        "come from training (running_mean, √(running_var + eps)); eval mode uses the same"
    )
    read_explanation(views.page, "2", [0, 1, 1])
    expect(notes.last).to_contain_text("come from 12 values of this picture")


def test_a_layer_is_told_in_few_words_and_not_twice(show: Callable[..., ViewsPage]) -> None:
    model = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
    views = open_explain(show, model, torch.randn(1, 16, 5, 5))
    read_explanation(views.page, "2", [0, 1, 1])
    told = views.page.locator(".nbg-asked p")
    expect(told).to_have_text("0 Conv 3×3, 16→16, stride 1, padding 1 → 1 BN → 2 ReLU")
    expect(views.page.locator(".nbg-layer")).not_to_contain_text("kernel_size")
    views.open_layer("0", 0)
    expect(views.page.locator(".nbg-title")).to_contain_text(
        "Conv2d 3×3, 16→16, stride 1, padding 1"
    )


def test_upsampling_shows_its_source_pixels_and_their_shares(
    show: Callable[..., ViewsPage],
) -> None:
    model = nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Upsample(scale_factor=3))
    x = torch.randn(1, 2, 4, 5)
    views = open_explain(show, model, x)
    page = views.page
    read_explanation(page, "0", [1, 3, 5])
    pixels, shares = read_matrix(page, "Source pixels"), read_matrix(page, "Shares")
    assert pixels == [float(x[0, 1, y, x_]) for y in (1, 2) for x_ in (2, 3)]
    assert shares == [approx_float64(one) for one in (0.5625, 0.1875, 0.1875, 0.0625)]
    expected = sum(a * b for a, b in zip(pixels, shares, strict=True))
    assert sum(read_matrix(page, "Products")) == approx_float64(expected)
    with torch.no_grad():
        assert expected == approx_float32(float(model[0](x)[0, 1, 3, 5]))
    read_explanation(page, "1", [1, 7, 8])
    label = "channel 1 of 0, with the pixel that is copied marked"
    expect(page.get_by_label(label, exact=True)).to_be_visible()
    expect(page.locator(".nbg-card")).to_contain_text("y 2, x 2")


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (4, "no checkerboard artifacts"),
        (3, "4, 2 and 1 alternate: this causes checkerboard artifacts"),
    ],
)
def test_a_transposed_convolution_says_how_many_weights_reach_a_pixel(
    show: Callable[..., ViewsPage], kernel: int, words: str
) -> None:
    torch.manual_seed(2)
    model = nn.Sequential(nn.ConvTranspose2d(1, 2, kernel, stride=2, bias=False))
    x = torch.randn(1, 1, 6, 7)
    views = open_explain(show, model, x)
    page = views.page
    # The expected counts: the same transposed convolution of ones.
    counts = F.conv_transpose2d(torch.ones(1, 1, 6, 7), torch.ones(1, 1, kernel, kernel), stride=2)
    height, width = counts.shape[2:]
    expect(page.locator(".nbg-overlap-map")).to_contain_text(words)
    drawn = page.locator(".nbg-overlap-map canvas")
    assert drawn.evaluate("(one) => [one.height, one.width]") == [height, width]
    colours = drawn.evaluate(
        """(one) => [...one.getContext('2d').getImageData(0, 0, one.width, one.height).data]
          .reduce((all, _, i, data) => (i % 4 ? all : [...all, data.slice(i, i + 3).join()]), [])"""
    )
    kinds: dict[float, set[str]] = {}
    for count, colour in zip(counts.flatten().tolist(), colours, strict=True):
        kinds.setdefault(count, set()).add(colour)
    assert all(len(one) == 1 for one in kinds.values())
    assert len(set.union(*kinds.values())) == len(kinds)
    for y, x_ in ((2, 3), (3, 3), (0, 1)):
        read_explanation(page, "0", [1, y, x_])
        expect(page.locator(".nbg-overlap-map figcaption")).to_contain_text(
            f"{int(counts[0, 0, y, x_])} here;"
        )
        # Both pictures multiply the same numbers, and the diagram marks this phase's weights.
        both = [read_matrix(page, name) for name in ("Products with zeros", "Products")]
        with torch.no_grad():
            assert sum(both[0]) == approx_float64(sum(both[1]))
            assert sum(both[0]) == approx_float32(float(model(x)[0, 1, y, x_]))
        assert sorted(one for one in both[0] if one) == sorted(one for one in both[1] if one)
        own = page.locator(".nbg-phases .nbg-own text").all_text_contents()
        assert len(own) == len(both[1]) and len(set(own)) == 1
        others = page.locator(".nbg-phases text").all_text_contents()
        assert others.count(own[0]) == len(own)


# The distances of a curve's dots from their cells' centres, and the dots' heights.
PADDING_CELLS_SCRIPT = """(name) => {
  const cells = [...document.querySelectorAll(`table[aria-label="${name}"] td`)];
  const dots = [...cells[0].closest('figure').querySelectorAll('circle')];
  return cells.map((cell, i) => {
    const [a, b] = [cell, dots[i]].map((one) => one.getBoundingClientRect());
    return [a.left + a.width / 2 - b.left - b.width / 2, -b.top];
  });
}"""


def test_a_line_of_numbers_is_explained_by_curves_with_numbers(
    show: Callable[..., ViewsPage],
) -> None:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Conv1d(2, 3, 5, padding=2))
    x = torch.randn(1, 2, 40)
    views = open_explain(show, model, x)
    page = views.page
    read_explanation(page, "0", [1, 0, 7])
    chosen = int(page.get_by_label("Shown for channel").input_value())
    for name in ("Patch of the input", "Filter", "Products"):
        values, dots = read_matrix(page, name), page.evaluate(PADDING_CELLS_SCRIPT, name)
        assert len(values) == 5
        assert max(abs(apart) for apart, _ in dots) < 1
        assert np.argsort(values).tolist() == np.argsort([up for _, up in dots]).tolist()
    assert read_matrix(page, "Patch of the input") == [float(one) for one in x[0, chosen, 5:10]]
    source, result = page.locator(".nbg-signal").all()
    boxes = [one.bounding_box() for one in (source, result)]
    assert boxes[0] and boxes[1] and boxes[0]["height"] == boxes[1]["height"] > 80
    result.hover(position={"x": 10.5 / 40 * boxes[1]["width"], "y": 20})
    with torch.no_grad():
        expect(page.locator(".nbg-tip")).to_contain_text("x 10")
        told = page.locator(".nbg-tip").inner_text()
        assert parse_number(told) == approx_float32(float(model(x)[0, 1, 10]))
    result.click(position={"x": 30.5 / 40 * boxes[1]["width"], "y": 20})
    expect(page.locator(".nbg-question")).to_contain_text("channel 1, x 30 =")


class TwoHeadAttention(nn.Module):
    """Attention with two heads over five tokens, for two examples."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(6, 8) for _ in range(3))

    def split(self, x: torch.Tensor) -> list[torch.Tensor]:
        layers = (self.q, self.k, self.v)
        return [one(x).reshape(2, 5, 2, 4).transpose(1, 2) for one in layers]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(*self.split(x)).transpose(1, 2).reshape(2, 5, 8)


def test_attention_is_explained_by_a_pair_its_softmax_row_and_the_weighted_sum(
    show: Callable[..., ViewsPage],
) -> None:
    torch.manual_seed(5)
    model, x = TwoHeadAttention().eval(), torch.randn(2, 5, 6) * 2
    views = open_explain(show, model, x)
    views.set(example=1)
    page = views.page
    plan: list[Any] = list(nbglcnn.compile(model, x).layers)
    scores, mix = (one.name for one in plan if one.operator == "MatMul" and not one.module)
    share = next(one.name for one in plan if one.operator == "Softmax")
    factor = next(one.name for one in plan if one.operator == "Mul")
    with torch.no_grad():
        q, k, v = model.split(x)
        wanted = (q @ k.transpose(2, 3))[1]
        shares = (wanted / 2).softmax(-1)
        mixed = shares @ v[1]
    steps = page.locator(".nbg-attention > section")
    for layer, truth, at in (
        (scores, wanted, [1, 3, 2]),
        (share, shares, [0, 4, 1]),
        (mix, mixed, [1, 2, 3]),
    ):
        shown = read_explanation(page, layer, at)
        assert shown["value"][0] == approx_float32(float(truth[tuple(at)]))
        head, query, last = at
        key = int(shares[head, query].argmax()) if layer == mix else last
        feature = last if layer == mix else 0
        one, two, three = steps.all()
        assert sum(read_matrix(one, "Products")) == approx_float32(float(wanted[head, query, key]))
        terms = two.locator("[data-term]").evaluate_all(
            "(all) => all.map((one) => [Number(one.dataset.term), Number(one.dataset.value)])"
        )
        assert [value for _, value in sorted(terms)] == [
            approx_float32(float(part)) for part in shares[head, query]
        ]
        assert read_matrix(three, "Shares") == [
            approx_float32(float(part)) for part in shares[head, query]
        ]
        assert sum(read_matrix(three, "Products")) == approx_float32(
            float(mixed[head, query, feature])
        )
        expect(steps.nth([scores, share, mix].index(layer))).to_have_class("nbg-asked-for")
        expect(one).to_contain_text(f"head {head}, query of token {query}, key of token {key}")
    # Another key, selected in the row of attention weights.
    steps.nth(1).get_by_label("Shown for token").fill("0")
    page.keyboard.press("Enter")
    expect(steps.first).to_contain_text("key of token 0")
    assert sum(read_matrix(steps.first, "Products")) == approx_float32(float(wanted[1, 2, 0]))
    # The step between is a function of one number.
    shown = read_explanation(page, factor, [0, 1, 2])
    given, scaled = (card["result"][0] for card in shown["cards"])
    assert scaled == pytest.approx(given / 2, rel=1e-6)


class ResizedSkips(nn.Module):
    """Layers whose maps are larger or smaller than their inputs, with a skip."""

    def __init__(self) -> None:
        super().__init__()
        self.less = nn.Conv2d(1, 2, 3, stride=3)
        self.more = nn.ConvTranspose2d(2, 2, 3, stride=2)
        self.pool = nn.MaxPool2d(2)
        self.large = nn.Upsample(scale_factor=5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.less(x)
        x = x + torch.relu(x)
        return self.large(self.pool(self.more(x)))


@pytest.mark.parametrize("width", [620, 848, 1420])
def test_source_and_result_are_of_one_size_beside_each_other(
    show: Callable[..., ViewsPage], width: int
) -> None:
    model, x = ResizedSkips().eval(), torch.randn(1, 1, 39, 36)
    plan = nbglcnn.compile(model, x)
    views = show(plan, x.numpy(), width=width)
    views.set(tab="layer", layerSection="explain")
    for layer in ("less", "more", "pool", "large"):
        read_explanation(views.page, layer, [1, 2, 1])
        wait_page_drawn(views)
        assert layout_faults(views.page) == []
        source, result = (
            views.page.locator(f"{one} canvas").first.bounding_box()
            for one in (".nbg-from", ".nbg-pick")
        )
        assert source and result
        assert source["x"] + source["width"] < result["x"], "beside"
        assert abs(source["y"] - result["y"]) < 60
        sides = [max(one["width"], one["height"]) for one in (source, result)]
        assert min(sides) > 0.8 * max(sides), (layer, sides)


def test_a_map_made_of_a_single_number_is_shown_too(show: Callable[..., ViewsPage]) -> None:
    model = nn.Sequential(nn.ConvTranspose2d(3, 2, 4))
    x = torch.randn(1, 3, 1, 1)
    views = open_explain(show, model, x)
    read_explanation(views.page, "0", [1, 2, 3])
    expect(views.page.locator(".nbg-pick canvas")).to_have_count(1)
    expect(views.page.locator(".nbg-from")).to_have_count(1)
    wait_page_drawn(views)
    assert layout_faults(views.page) == []
