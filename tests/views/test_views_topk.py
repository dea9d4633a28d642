"""The largest classes, also of a segmentation: selected only while visible."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from playwright.sync_api import Page, expect
from torch import nn

import nbglcnn
from display_kind_models import Segmenter
from views_page import ViewsPage, parse_number
from webgl_page import encode

# Counts draws of the top-k programs, identified by a name in their source.
COUNT_DRAWS_SCRIPT = """(name) => {
  const own = WebGL2RenderingContext.prototype;
  const { shaderSource, attachShader, useProgram, drawArrays } = own;
  const [texts, picking] = [new Map(), new Set()];
  let now;
  globalThis.picked = 0;
  Object.assign(own, {
    shaderSource(shader, text) {
      texts.set(shader, text);
      return shaderSource.call(this, shader, text);
    },
    attachShader(program, shader) {
      if (texts.get(shader).includes(name)) picking.add(program);
      return attachShader.call(this, program, shader);
    },
    useProgram(program) {
      now = program;
      return useProgram.call(this, program);
    },
    drawArrays(...given) {
      if (picking.has(now)) globalThis.picked += 1;
      return drawArrays.apply(this, given);
    },
  });
}"""
SCROLL_AWAY_SCRIPT = "() => { document.body.style.paddingTop = '5000px'; scrollTo(0, 0); }"
SCROLL_BACK_SCRIPT = "() => { document.body.style.paddingTop = '0'; }"
# Counts the floats read back from the device.
COUNT_READBACKS_SCRIPT = """() => {
  const own = WebGL2RenderingContext.prototype;
  const { getBufferSubData } = own;
  globalThis.brought = [];
  own.getBufferSubData = function (target, offset, data) {
    globalThis.brought.push(data.length);
    return getBufferSubData.call(this, target, offset, data);
  };
}"""


@pytest.fixture
def counted_views(
    gl_page: Callable[..., Page], static_site: tuple[str, dict[str, bytes]]
) -> Callable[..., ViewsPage]:
    """open_views(name, plan, x): a network's views, counting draws of programs by that name."""

    def open_views(name: str, plan: nbglcnn.Plan, x: np.ndarray) -> ViewsPage:
        page = gl_page("llvmpipe")
        page.set_viewport_size({"width": 1200, "height": 1000})
        page.evaluate(COUNT_DRAWS_SCRIPT, name)
        page.evaluate(COUNT_READBACKS_SCRIPT)
        return ViewsPage(page, static_site[1], plan, x)

    return open_views


def take_draw_count(views: ViewsPage) -> int:
    """The draws since the last call."""
    views.wait_idle()
    return int(views.page.evaluate("() => { const n = picked; picked = 0; return n; }"))


def feed_input(views: ViewsPage, key: str, x: np.ndarray) -> None:
    views.page.evaluate("a => views.feed(...a)", [key, encode(x)])


def assert_topk_rows(views: ViewsPage, model: nn.Module, x: np.ndarray, example: int = 0) -> None:
    """Check that the rows are the largest of PyTorch's scores."""
    rows = views.page.locator("[data-layer='output'] .nbg-top-row").all_inner_texts()
    assert len(rows) >= 5
    with torch.no_grad():
        own = model(torch.from_numpy(x))[example].numpy()
    order = np.lexsort((np.arange(own.size), -own, ~np.isnan(own)))
    for row, k in zip(rows, order, strict=False):
        name, _, text = row.partition("\n")
        assert name == str(k)
        if np.isnan(own[k]):
            assert text == "NaN"
        else:
            assert parse_number(text) == pytest.approx(own[k], rel=0.06)


def test_a_thousand_classes_are_picked_out_only_while_their_list_is_in_sight(
    counted_views: Callable[..., ViewsPage],
) -> None:
    torch.manual_seed(5)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 1000)).eval()
    first, second, third = np.random.default_rng(4).standard_normal((3, 2, 3, 2, 2)).astype("f4")
    third[:, 0, 0, 0] = np.nan
    views = counted_views("consider_stretch", nbglcnn.compile(model, first), first)
    page = views.page
    assert take_draw_count(views) >= 2
    assert_topk_rows(views, model, first)
    page.evaluate("() => { brought.length = 0; }")
    views.set(example=1)
    views.wait_idle()
    assert_topk_rows(views, model, first, 1)
    brought = page.evaluate("brought")
    assert 20 in brought and 2 * 1000 not in brought, "all scores, in place of ten and their places"
    take_draw_count(views)
    page.evaluate(SCROLL_AWAY_SCRIPT)
    views.wait_idle()
    feed_input(views, "input", second)
    assert take_draw_count(views) == 0
    # A saved picture of the view has current scores, even if the view isn't visible.
    page.evaluate(
        "async () => { for (const screen of views.state.viewCaptureCallbacks) await screen(); }"
    )
    assert take_draw_count(views) == 2
    assert_topk_rows(views, model, second, 1)
    page.evaluate(SCROLL_BACK_SCRIPT)
    expect(page.locator("[data-layer='output'] .nbg-top-row").first).to_be_in_viewport()
    assert take_draw_count(views) == 0, "they are known"
    assert_topk_rows(views, model, second, 1)
    views.set(tab="layer", selected={"layer": "1", "channel": 0})
    take_draw_count(views)
    feed_input(views, "input", first)
    assert take_draw_count(views) == 0
    views.set(tab="network")
    feed_input(views, "input", third)  # entirely NaN
    views.wait_idle()
    assert_topk_rows(views, model, third, 1)


def test_ten_classes_are_read_as_they_are_and_nothing_is_picked_out(
    counted_views: Callable[..., ViewsPage],
) -> None:
    torch.manual_seed(6)
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 10)).eval()
    x = np.random.default_rng(4).standard_normal((1, 3, 2, 2)).astype("f4")
    views = counted_views("consider_stretch", nbglcnn.compile(model, x), x)
    assert take_draw_count(views) == 0
    assert_topk_rows(views, model, x)


def test_each_places_class_is_found_on_the_device_only_while_the_legend_is_in_sight(
    counted_views: Callable[..., ViewsPage],
) -> None:
    torch.manual_seed(1)
    x, other = torch.rand(2, 1, 3, 24, 32)
    model = Segmenter().eval()
    views = counted_views("float likeliest", nbglcnn.compile(model, x), x.numpy())
    page = views.page
    legend = page.locator(".nbg-end .nbg-classes-legend")

    def right(given: torch.Tensor) -> None:
        views.wait_idle()
        with torch.no_grad():
            which = model(given)[0].argmax(0).numpy()
        shares = np.bincount(which.ravel()) / which.size
        rows = legend.locator("li")
        for row in rows.all():
            share = parse_number(row.locator("strong").inner_text()) / 100
            assert share == pytest.approx(
                shares[int(str(row.get_attribute("data-class")))], abs=6e-4
            )
        assert rows.count() == min(4, np.count_nonzero(shares))

    assert take_draw_count(views) >= 1
    right(x)
    page.evaluate(SCROLL_AWAY_SCRIPT)
    views.wait_idle()
    take_draw_count(views)
    feed_input(views, "x", other.numpy())
    assert take_draw_count(views) == 0
    page.evaluate(SCROLL_BACK_SCRIPT)
    expect(legend).to_be_in_viewport()
    right(other)
    assert take_draw_count(views) == 1
