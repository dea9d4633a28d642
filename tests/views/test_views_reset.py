"""Views reset for the next test have the same state, display and results as new ones."""

import difflib
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from playwright.sync_api import Page, expect
from torch import nn

import nbglcnn
from latent_page import open_workbench
from sources_page import SourcesPage
from trained_autoencoder import compile_autoencoder
from views_page import MAP_CANVAS_SELECTOR, ViewsPage, reset_page
from webgl_page import encode

ShowViews = Callable[..., ViewsPage]
StaticSite = tuple[str, dict[str, bytes]]

# All state except times, request counts, and the status line, which reports shader compilation.
READ_PAGE_STATE_SCRIPT = """() => {
  const kept = (key, value) =>
    value instanceof Map || value instanceof Set ? [...value]
    : value instanceof Node ? value.nodeName
    : typeof value === 'function' || ArrayBuffer.isView(value) ? String(value) : value;
  const whole = document.documentElement.cloneNode(true);
  for (const one of whole.querySelectorAll('.nbg-status')) one.remove();
  const page = [...whole.querySelectorAll('*')].map((one) => [one.tagName,
    ...[...one.attributes].map(({ name, value }) => `${name}=${value}`).sort(),
    [...one.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map(({ data }) => data),
  ].join(' ').replace(/[0-9.]+ ms/g, ''));
  const state = Object.entries(views.state)
    .filter(([name]) => !['session', 'run', 'capabilities'].includes(name))
    .map(([name, one]) => [name, JSON.stringify('value' in one ? one.value : one, kept)]);
  let heard = 0;
  const hear = () => heard++;
  addEventListener('keydown', hear);
  document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'F13', bubbles: true }));
  removeEventListener('keydown', hear);
  const calls = { ...views.calls, drawn: [...new Set(views.calls.drawn)].sort(),
    batches: 0, asked: 0, answered: 0 };
  return {
    state: Object.fromEntries(state),
    passes: views.state.run.value.passes,
    calls, heard,
    alive: views.alive(),
    page,
    focus: document.activeElement.outerHTML.slice(0, 40),
    hovered: [...document.querySelectorAll('body :hover')].map((one) => one.tagName),
    scrolled: [scrollX, scrollY],
    selected: String(getSelection()),
    names: Object.getOwnPropertyNames(globalThis).sort(),
    native: [fetch, stop, document.createComment, HTMLCanvasElement.prototype.toBlob, Math.cbrt,
      navigator.clipboard.writeText, MediaRecorder, Element.prototype.requestFullscreen,
    ].map(String),
    fed: views.fed,
    arrays: views.arrays.size,
  };
}"""
READ_VALUE_SCRIPT = "async (key) => Array.from(await views.state.session.value.read(key))"
# The maximum number of antialiased corner pixels that differ when Chromium redraws them.
MAX_SMOOTHED_PIXELS = 16
VALUE_KEYS = ("encoder.2", "decoder.3", "output")


def page_state(views: ViewsPage) -> dict[str, Any]:
    """The page's display, state and results."""
    page = views.page
    page.wait_for_function("() => document.fonts.status === 'loaded'")
    views.wait_idle()
    page.add_style_tag(content=".nbg-status { visibility: hidden }")  # it shows milliseconds
    picture = page.screenshot()
    page.evaluate("() => document.head.lastElementChild.remove()")
    return {
        **page.evaluate(READ_PAGE_STATE_SCRIPT),
        "values": {key: page.evaluate(READ_VALUE_SCRIPT, key) for key in VALUE_KEYS},
        "picture": picture,
    }


def open_a_layer(views: ViewsPage) -> None:
    views.open_layer("encoder.2", 3)
    views.set(
        layerSection="explain", pixel={"mapHeight": 14, "mapWidth": 14, "y": 2, "x": 3}, example=2
    )
    views.wait_idle()


def open_the_graph(views: ViewsPage) -> None:
    views.set(tab="network", networkLayout="graph")
    views.wait_idle()
    views.page.locator(".nbg-content").hover()
    views.page.mouse.wheel(0, 300)
    views.set(tab="profile")
    views.wait_idle()


def add_bend(views: ViewsPage) -> None:
    bend = {
        "layer": "encoder.5", "name": "add", "transform": "add", "parameters": [2.0],
        "channels": [3], "mix": 1, "enabled": True, "source": "",
        "parameter_names": [], "array_hash": "",
        "is_frozen": False, "skips_upstream": False,
    }  # fmt: skip
    before = views.page.evaluate(READ_VALUE_SCRIPT, "output")
    views.set(currentEdits={"edits": [bend], "weights": 0})
    views.wait_idle()
    assert views.page.evaluate(READ_VALUE_SCRIPT, "output") != before


def feed_inputs(views: ViewsPage) -> None:
    views.page.evaluate("a => views.feed(...a)", ["x", encode(np.ones((3, 1, 28, 28)))])
    sourced = SourcesPage(views, compile_autoencoder()[0])
    sourced.set_source("noise")
    sourced.wait_input_count(1)
    sourced.open_drawer()
    views.wait_idle()


def move_latent(views: ViewsPage) -> None:
    open_workbench(lambda *_given, **_options: views)
    views.page.locator(".nbg-latent-ring").focus()
    views.page.keyboard.press("ArrowRight")
    views.wait_idle()


def hover_map(views: ViewsPage) -> None:
    views.hover(views.page.locator(MAP_CANVAS_SELECTOR).nth(1), 0.3, 0.4)
    views.page.mouse.down()
    views.page.mouse.up()
    views.page.mouse.move(300, 200)


def press_keys(views: ViewsPage) -> None:
    page = views.page
    page.locator("[role=tab]").first.focus()
    page.keyboard.press("?")
    page.keyboard.press("p")
    expect(page.locator(".nbg-present")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Tab")
    views.wait_idle()


def scroll_page(views: ViewsPage) -> None:
    views.page.set_viewport_size({"width": 420, "height": 300})
    views.page.mouse.wheel(0, 200)
    views.page.wait_for_function("() => scrollY > 0")
    views.page.evaluate("() => getSelection().selectAllChildren(document.body)")


def change_document(views: ViewsPage) -> None:
    page = views.page
    page.evaluate("""() => {
      document.body.dataset.jpThemeLight = 'false';
      document.body.style.zoom = 2;
      document.documentElement.lang = 'la';
      globalThis.mine = 1;
      views.mine = 2;
      localStorage.setItem('mine', '3');
      document.addEventListener('keydown', (event) => event.stopImmediatePropagation(), true);
      addEventListener('resize', () => { throw new Error('of another test'); });
      globalThis.second = views.show();
      globalThis.stop = globalThis.fetch = document.createComment = () => null;
      HTMLCanvasElement.prototype.toBlob = () => null;
      navigator.clipboard.writeText = () => Promise.reject();
      Math.cbrt = () => 0;
      delete globalThis.MediaRecorder;
      delete Element.prototype.requestFullscreen;
    }""")
    page.evaluate("""() => {
      const style = document.head.appendChild(document.querySelector('style').cloneNode());
      style.textContent = '.nbg-tabs { display: none }';
    }""")


DISTURBANCES = (
    open_a_layer,
    open_the_graph,
    add_bend,
    feed_inputs,
    move_latent,
    hover_map,
    press_keys,
    scroll_page,
    change_document,
)


def state_differences(new: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The differences, as (before, after); for the page, a diff of its elements."""
    changed: dict[str, Any] = {
        name: (new[name], found[name]) for name in new if found[name] != new[name]
    }
    if "page" in changed:
        changed["page"] = list(difflib.unified_diff(*changed["page"], n=0, lineterm=""))
    if "picture" in changed:
        before, after = (np.asarray(Image.open(io.BytesIO(one)), int) for one in changed["picture"])
        most = np.abs(after - before).max() if before.shape == after.shape else 255
        if most <= MAX_SMOOTHED_PIXELS:
            del changed["picture"]
        else:
            changed["picture"] = most
    return changed


def open_views(page: Page, site: StaticSite) -> ViewsPage:
    plan, images, _ = compile_autoencoder()
    page.set_viewport_size({"width": 1200, "height": 1000})
    return ViewsPage(page, site[1], plan, images)


@pytest.fixture(scope="module")
def new_state_cache() -> dict[str, Any]:
    """The cached result of `new_state`, shared by all tests of this file."""
    return {}


@pytest.fixture
def new_state(
    new_state_cache: dict[str, Any], gl_page: Callable[..., Page], static_site: StaticSite
) -> dict[str, Any]:
    """The state of the autoencoder's views in a new document."""
    if not new_state_cache:
        new_state_cache.update(page_state(open_views(gl_page("llvmpipe"), static_site)))
    return new_state_cache


@pytest.mark.parametrize("disturb", DISTURBANCES, ids=lambda one: one.__name__)
def test_after_whatever_a_test_did_the_page_stands_as_in_a_new_document(
    new_state: dict[str, Any],
    gl_page: Callable[..., Page],
    static_site: StaticSite,
    disturb: Callable[[ViewsPage], None],
) -> None:
    views = open_views(gl_page("llvmpipe", views=True), static_site)
    disturb(views)
    assert reset_page(views.page) == []
    assert state_differences(new_state, page_state(open_views(views.page, static_site))) == {}


def test_the_page_of_another_network_is_as_good(
    new_state: dict[str, Any], gl_page: Callable[..., Page], static_site: StaticSite
) -> None:
    page = gl_page("llvmpipe")
    x = np.zeros((1, 2, 9, 7), np.float32)
    plan = nbglcnn.compile(nn.Conv2d(2, 3, 3).eval(), torch.from_numpy(x))
    ViewsPage(page, static_site[1], plan, x)
    assert reset_page(page) == []
    assert state_differences(new_state, page_state(open_views(page, static_site))) == {}


LEFTOVERS = {
    "() => { Object.defineProperty(globalThis, 'mine', { value: 1 }); }": "[object Window]",
    "() => { location.hash = 'mine'; }": "the address",
    "() => { const wait = () => setTimeout(wait, 100); wait(); }": "a timer",
}


@pytest.mark.parametrize(("done", "left"), LEFTOVERS.items())
def test_what_cannot_be_put_back_is_found(show: ShowViews, done: str, left: str) -> None:
    plan, images, _ = compile_autoencoder()
    page = show(plan, images).page
    page.evaluate(done)
    assert reset_page(page) == [left]


def test_a_page_without_its_graphics_is_not_used_again(
    gl_page: Callable[..., Page], static_site: StaticSite
) -> None:
    views = open_views(gl_page("llvmpipe", allow="CONTEXT_LOST_WEBGL|context lost"), static_site)
    views.page.evaluate(
        "() => views.graphics().gl.getExtension('WEBGL_lose_context').loseContext()"
    )
    assert reset_page(views.page) == ["a lost context"]
