"""An exported page has its features in one list, and works if one of them is missing."""

import base64
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from playwright.sync_api import Page, expect
from torch import nn

import nbglcnn
from assertions import assert_equal
from bundle import bundle_script
from exported_html import READ_VALUE_SCRIPT
from nbglcnn import Noise, Viewer, transforms
from nbglcnn.features.export import export

RANDOM = np.random.default_rng(41)
X = RANDOM.random((1, 3, 9, 7), np.float32)
TRAINING_DATA = (RANDOM.random((8, 3, 9, 7), np.float32), RANDOM.random((8, 5), np.float32))
BUNDLE_ARGUMENTS = (
    "test/page_without_feature.ts",
    *("--format=iife", "--minify", "--charset=utf8", "--loader:.css=text"),
    *("--jsx=automatic", "--jsx-import-source=preact"),
)


def network() -> nn.Module:
    torch.manual_seed(4)
    layers = nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 63, 5)
    return nn.Sequential(*layers).eval()


@pytest.fixture(scope="module")
def exported_pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page that trains, one that teaches and one that compares; each has a bend."""
    folder = tmp_path_factory.mktemp("features")
    script = folder / "features.js"
    script.write_bytes(bundle_script(*BUNDLE_ARGUMENTS))
    paths = {name: folder / f"{name}.html" for name in ("train", "teach", "compare")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "PAGE_SCRIPT_PATH", script)
        viewer = Viewer(network(), X)
        viewer.bend("1", transforms.multiply(2))
        viewer.to_html(paths["train"], train={"data": TRAINING_DATA, "steps": 3, "batch_size": 4})
        viewer.input = Noise(seed=3)
        viewer.to_html(paths["teach"], teach=("one", "other"))
        viewer.close()
        nbglcnn.compare(network(), changed_network(), X).to_html(paths["compare"])
    return paths


def changed_network() -> nn.Module:
    model = network()
    with torch.no_grad():
        model[0].bias += 1
    return model


# An element that each feature shows in a page that has it. Latent and mirror show none in these
# pages.
FEATURE_MARKERS = {
    "edits": ("train", ".nbg-bent-pill"),
    "sources": ("teach", ".nbg-chosen-source"),
    "training": ("train", "[data-tab=train]"),
    "teaching": ("teach", "[data-tab=teach]"),
    "compare": ("compare", "[data-tab=compare]"),
    "export": ("train", ".nbg-save"),
}
TABS_BY_PAGE = {
    "train": ["network", "layer", "train", "profile"],
    "teach": ["network", "layer", "teach", "profile"],
    "compare": ["compare", "network", "layer", "profile"],
}
# The tab of each feature, and the features whose code a tab uses, as in Python.
FEATURE_TABS = {"training": "train", "teaching": "teach", "compare": "compare"}
FEATURE_DEPENDENCIES = {"teach": {"sources"}}


@pytest.fixture
def page_without(
    exported_page: Callable[..., Page], exported_pages: dict[str, Path]
) -> Callable[..., Page]:
    """`page_without("teach", "edits")`: that page without that feature, after its first run."""

    def opened(name: str, without: str) -> Page:
        script = f"globalThis.without = {without!r};"
        page = exported_page(
            exported_pages[name], script=script, viewport={"width": 1200, "height": 900}
        )
        page.evaluate("async () => { await window.nbglcnn; }")
        return page

    return opened


def read_value(page: Page, key: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(page.evaluate(READ_VALUE_SCRIPT, key)), np.float32)


def torch_output(is_bent: bool) -> np.ndarray:
    """PyTorch's output for the page's input, with the bend or without it."""
    convolution, relu, *rest = network()
    with torch.no_grad():
        hidden = relu(convolution(torch.from_numpy(X)))
        return np.asarray(nn.Sequential(*rest)((1 + is_bent) * hidden))


@pytest.mark.parametrize(
    ("name", "without"),
    [
        *(("train", without) for without in (*FEATURE_MARKERS, "latent", "mirror")),
        *(("teach", without) for without in ("sources", "latent", "teaching")),
        ("compare", "compare"),
    ],
)
def test_a_page_without_a_feature_has_all_others(
    page_without: Callable[..., Page], name: str, without: str
) -> None:
    page = page_without(name, without)
    if name == "train":
        expected = torch_output(is_bent=without != "edits")
        assert_equal(read_value(page, "output").reshape(1, 5), expected, rtol=1e-4, name="output")
    else:
        keys = page.evaluate("async () => (await window.nbglcnn).keys")
        assert np.isfinite(read_value(page, keys[-1])).all()
    tabs = [one for one in TABS_BY_PAGE[name] if one != FEATURE_TABS.get(without)]
    found = page.eval_on_selector_all("[data-tab]", "all => all.map(({ dataset }) => dataset.tab)")
    assert found == tabs
    for tab in tabs:
        if without in FEATURE_DEPENDENCIES.get(tab, ()):
            continue
        page.click(f"[data-tab={tab}]")
        expect(page.locator(f"[data-tab={tab}]")).to_have_attribute("aria-selected", "true")
        assert page.locator(".nbg-content").inner_text().strip()
    for feature, (where, selector) in FEATURE_MARKERS.items():
        if where == name:
            expect(page.locator(selector)).to_have_count(int(feature != without))


def test_a_page_without_training_still_takes_edits_and_sources(
    page_without: Callable[..., Page],
) -> None:
    page = page_without("train", "training")
    page.evaluate("async () => { await (await window.nbglcnn).edit([]); }")
    assert_equal(
        read_value(page, "output").reshape(1, 5), torch_output(False), rtol=1e-4, name="output"
    )
    assert not page.evaluate("async () => 'train' in await window.nbglcnn")
    page.click(".nbg-chosen-source")
    expect(page.locator(".nbg-drawer")).to_be_visible()


def test_a_page_without_sources_or_edits_trains(page_without: Callable[..., Page]) -> None:
    for without in ("sources", "edits"):
        page = page_without("train", without)
        losses = page.evaluate(
            "async () => { const page = await window.nbglcnn; await page.step(2);"
            " return [...page.losses]; }"
        )
        assert np.isfinite(losses).tolist() == [True, True]
        page.close()


def test_a_page_without_edits_offers_no_bends(page_without: Callable[..., Page]) -> None:
    page = page_without("train", "edits")
    assert not page.evaluate("async () => 'edit' in await window.nbglcnn")
    page.click("[data-tab=layer]")
    sections = page.locator("[aria-label='Section of the layer'] button")
    assert sections.all_inner_texts() == ["Maps", "Filters", "Explain"]
    refused = page.evaluate(
        "async () => { const page = await window.nbglcnn;"
        " try { page.show({ name: 'bend' }); } catch (error) { return error.message; } }"
    )
    assert "unknown view bend; expected one of network, maps, filters, explain" in refused
