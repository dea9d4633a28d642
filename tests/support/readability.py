"""Checks for unreadable content in the views, measured in the page's own layout."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from playwright.sync_api import Page
from torch import nn

import nbglcnn
import zoo
from nbglcnn import Plan
from viewer_models import autoencoder, pictures
from views_page import ViewsPage

WIDTHS = (620, 768, 848, 940, 1120, 1420)
# Waits until the window has the requested width and nothing is requested, drawn or laid out for
# frames.
RESIZE_SCRIPT = """async (width) => {
  const calls = globalThis.views?.calls;
  const root = document.querySelector('.nbglcnn');
  const now = () => [calls?.batches, calls?.asked, calls?.answered, root.offsetHeight,
    root.offsetWidth, root.innerText.length].join();
  const end = performance.now() + 20000;
  for (let same = 0, before = ''; same < 6; ) {
    if (performance.now() > end) throw new Error('the view does not come to rest');
    await new Promise((done) => requestAnimationFrame(done));
    const next = now();
    same = next === before && calls?.asked === calls?.answered && innerWidth === width
      ? same + 1 : 0;
    before = next;
  }
}"""

FAULTS_SCRIPT = Path(__file__).with_suffix(".js").read_text("utf-8")


def layout_faults(page: Page) -> list[str]:
    """List all unreadable content in the open view."""
    found: list[str] = page.evaluate(FAULTS_SCRIPT)
    return found


def layout_faults_by_width(page: Page, widths: Iterable[int]) -> dict[int, list[str]]:
    """List the unreadable content in the open view, for each width that has any."""
    size = page.viewport_size
    assert size is not None
    found = {}
    for width in widths:
        page.set_viewport_size({"width": width, "height": size["height"]})
        wait_drawn(page)
        found[width] = layout_faults(page)
    page.set_viewport_size(size)
    wait_drawn(page)
    return {width: these for width, these in found.items() if these}


# Appended after the views' own styles, so it overrides them.
ADD_STYLE_SCRIPT = """(text) => {
  globalThis.style = document.createElement('style');
  style.textContent = text;
  document.body.append(style);
}"""


def assert_checks_detect(page: Page, broken_styles: dict[str, str], width: int = 848) -> None:
    """Assert that the checks report each broken style with its words."""
    size = page.viewport_size
    assert size is not None
    page.set_viewport_size({"width": width, "height": size["height"]})
    wait_drawn(page)
    missed = {}
    for style, words in broken_styles.items():
        page.evaluate(ADD_STYLE_SCRIPT, style)
        found = layout_faults(page)
        page.evaluate("() => style.remove()")
        if not any(one.startswith(words) for one in found):
            missed[style] = found
    assert not missed, missed
    page.set_viewport_size(size)
    wait_drawn(page)


class Attention(nn.Module):
    """A picture in patches, one attention block over them, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 8, 8)
        self.norm = nn.LayerNorm(16)
        self.query, self.key, self.value = (nn.Linear(16, 16) for _ in range(3))
        self.share = nn.Softmax(-1)
        self.mixed = nn.Linear(16, 16)
        self.wide, self.gelu, self.narrow = nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16)
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        y = self.norm(x)
        weights = self.share(self.query(y) @ self.key(y).transpose(1, 2) / 4)
        x = x + self.mixed(weights @ self.value(y))
        x = x + self.narrow(self.gelu(self.wide(x)))
        return self.head(x.mean(1))


def signal_autoencoder() -> nn.Module:
    """A network that downsamples and upsamples signals of 128 samples."""
    return nn.Sequential(
        nn.Conv1d(2, 8, 7, stride=2, padding=3),
        nn.BatchNorm1d(8),
        nn.ReLU(),
        nn.MaxPool1d(2),
        nn.Conv1d(8, 16, 5, padding=4, dilation=2),
        nn.Tanh(),
        nn.ConvTranspose1d(16, 4, 4, stride=4),
        nn.ReLU(),
        nn.Conv1d(4, 1, 3, padding=1),
    ).eval()


class ConvolutionalAutoencoderWhoseAuthorLikesToDescribeAllOfIt(nn.Module):
    """Very long names without spaces."""

    def __init__(self) -> None:
        super().__init__()
        down = nn.Sequential(nn.Conv2d(1, 6, 3, stride=2, padding=1), nn.ReLU())
        up = nn.Sequential(nn.ConvTranspose2d(6, 1, 4, stride=2, padding=1), nn.Sigmoid())
        self.encoder_that_halves_the_resolution_of_the_picture = down
        self.decoder_that_doubles_the_resolution_of_the_picture = up

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        code = self.encoder_that_halves_the_resolution_of_the_picture(x)
        return self.decoder_that_doubles_the_resolution_of_the_picture(code)


NETWORKS = (
    "autoencoder",
    "unet",
    "resnet18",
    "attention",
    "signal",
    "densenet",
    "long",
    "compared",
)


def compile_network(name: str) -> tuple[Plan, tuple[np.ndarray, ...]]:
    """A compiled network of the sweep, and its input."""
    if name == "compared":
        x = pictures(3)
        joined = nbglcnn.compare(autoencoder(3), autoencoder(7), x, titles=("before", "after"))
        plan = joined.network.plan
        joined.close()
        return plan, (x,)
    torch.manual_seed(1)
    own: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
        "attention": (Attention(), (1, 3, 32, 32)),
        "signal": (signal_autoencoder(), (2, 2, 128)),
        "long": (ConvolutionalAutoencoderWhoseAuthorLikesToDescribeAllOfIt(), (2, 1, 16, 12)),
    }
    inputs: tuple[torch.Tensor, ...]
    if name in own:
        model, inputs = own[name][0].eval(), (torch.randn(own[name][1]),)
    else:
        model, inputs = zoo.build(name)
    return nbglcnn.compile(model, *inputs), tuple(one.numpy() for one in inputs)


# A view, as the state values that open it.
ViewState = dict[str, Any]


def views_of(plan: Plan) -> dict[str, ViewState]:
    """Every view of a network; of the layers, one of each kind."""
    found: dict[str, ViewState] = {
        form: {"tab": "network", "networkLayout": form, "selected": None}
        for form in ("strip", "graph")
    }
    if plan.header.comparison.pairs:
        found["compare"] = {"tab": "compare", "selected": None}
    values = {value.key: value for value in plan.header.values}
    kinds: dict[str, str] = {}
    for layer in plan.header.layers:
        if layer.name in values:
            steps = "×".join(map(str, layer.window.strides))
            kinds.setdefault(f"{layer.module or layer.operator} {steps}".strip(), layer.name)
    for kind, name in kinds.items():
        selected = {"layer": name, "channel": None}
        layer_view = {"tab": "layer", "selected": selected, "pixel": None}
        for section in ("maps", "filters", "explain"):
            found[f"{section} of {name}, {kind}"] = {**layer_view, "layerSection": section}
        # Pixels whose windows extend beyond the map.
        _, _, height, width = values[name].nchw
        for corner, y, x in (("first", 0, 0), ("last", height - 1, width - 1)):
            if height * width > 1:
                found[f"explain of {name}, {kind}, at its {corner} pixel"] = {
                    **layer_view,
                    "layerSection": "explain",
                    "pixel": {"height": height, "width": width, "y": y, "x": x},
                }
    found["profile"] = {"tab": "profile", "selected": None}
    return found


def wait_drawn(page: Page) -> None:
    """Wait until a newly opened view is drawn and shows its numbers."""
    size = page.viewport_size
    page.evaluate(RESIZE_SCRIPT, size and size["width"])


def wait_page_drawn(views: ViewsPage) -> None:
    """Apply `wait_drawn` to the page of these views."""
    wait_drawn(views.page)
