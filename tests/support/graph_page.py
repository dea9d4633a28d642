"""A page that shows one network as a graph, and the positions of its nodes."""

from typing import Any

import torch
from playwright.sync_api import Browser, Locator
from torch import nn

import nbglcnn
from nbglcnn import Plan
from viewer_models import hook_values
from views_page import ViewsPage

NODE_BOXES_SCRIPT = """() => Object.fromEntries(
  [...document.querySelectorAll('.nbg-node')].map((node) => {
  const { x, y, width, height } = node.getBoundingClientRect();
  const layers = node.dataset.layers.split('\\n').filter((name) => name);
  return [node.dataset.node, { kind: node.dataset.kind, layers, x, y, width, height }];
}))"""


class GraphPage:
    """A network in a page shared by all its tests, with its values in PyTorch."""

    def __init__(self, browser: Browser, files: dict[str, bytes], address: str, model: nn.Module):
        torch.manual_seed(0)
        [first] = [one for one in model.modules() if isinstance(one, nn.Conv2d)][:1]
        x = torch.randn(1, first.in_channels, 32, 32)
        model.train()
        with torch.no_grad():
            model(torch.randn(8, *x.shape[1:]))  # give BatchNorm running statistics
        self.x = x.numpy()
        self.plan: Plan = nbglcnn.compile(model.eval(), self.x)
        self.values = hook_values(model, self.x)
        self.errors: list[str] = []
        self.page = browser.new_page(viewport={"width": 1200, "height": 1000})
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(address + "/")
        self.views = ViewsPage(self.page, files, self.plan, self.x)

    def reset(self) -> "GraphPage":
        """Restore the initial state of the page."""
        self.page.set_viewport_size({"width": 1200, "height": 1000})
        self.page.mouse.move(0, 0)
        look = {"colormap": "signed", "rangeMode": "layer", "tab": "network", "selected": None}
        self.views.set(networkLayout="graph", openGroups=None, graphCamera=None, **look)
        self.wait_idle()
        return self

    def wait_idle(self) -> None:
        self.views.wait_idle()  # pictures update after a zoom ends
        self.views.wait_drawn()

    def node_boxes(self) -> dict[str, Any]:
        found: dict[str, Any] = self.page.evaluate(NODE_BOXES_SCRIPT)
        return found

    def node(self, name: str) -> Locator:
        return self.page.locator(f".nbg-node[data-node='{name}']")

    def picture_button(self, name: str) -> Locator:
        return self.node(name).locator(".nbg-picture")

    def open_groups(self, *groups: str) -> None:
        self.page.evaluate("ids => { views.state.openGroups.value = new Set(ids); }", list(groups))

    def is_in_window(self, name: str) -> bool:
        """Whether a node lies entirely within the window."""
        box = self.page.locator(".nbg-window").bounding_box()
        node = self.node_boxes()[name]
        assert box is not None
        return all(
            box[at] <= node[at] and node[at] + node[length] <= box[at] + box[length]
            for at, length in (("x", "width"), ("y", "height"))
        )

    def view_transform(self) -> dict[str, float]:
        """The zoom factor and offset of the drawn sheet."""
        found: dict[str, float] = self.page.locator(".nbg-sheet").evaluate(
            "e => { const m = new DOMMatrix(getComputedStyle(e).transform);"
            " return { zoom: m.a, x: m.e, y: m.f }; }"
        )
        return found


def centre(box: dict[str, float]) -> tuple[float, float]:
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
