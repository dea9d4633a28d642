"""A page that holds the engine of js/src/engine, and nothing that knows Python."""

import base64
from typing import Any

import numpy as np
from playwright.sync_api import Page

from bundle import bundled
from nbglcnn import Plan
from nbglcnn.plan import content_hash, pack_file
from page import decode


class Engine:
    """An engine in a page, and the blobs it has been given."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.add_script_tag(content=bundled("test/engine.ts", "--format=iife").decode())

    def put(self, name: str, data: bytes) -> str:
        self.page.evaluate("a => page.put(...a)", [name, base64.b64encode(data).decode()])
        return name

    def content(self, plan: Plan, *arrays: np.ndarray) -> dict[str, Any]:
        """Puts all that is to be shown into the page's store, and names it."""
        weights = [weight.hash for weight in plan.header.weights]
        for name in weights:
            self.put(name, plan.blobs[name].tobytes())
        inputs = [self.put(content_hash(x.tobytes()), x.tobytes()) for x in arrays]
        file = self.put(plan.hash, pack_file(plan, {}))
        return {"plan": file, "weights": weights, "inputs": inputs}

    def show(self, plan: Plan, *arrays: np.ndarray) -> None:
        self.page.evaluate("a => page.engine.show(a)", self.content(plan, *arrays))

    def read(self, key: str) -> np.ndarray:
        return decode(self.page.evaluate("k => page.read(k)", key))

    def counted(self) -> dict[str, int]:
        """What was done since this was asked last."""
        return dict(
            self.page.evaluate(
                "() => { const now = { ...page.counted };"
                " Object.assign(page.counted, { uploaded: 0, compiled: 0, sessions: 0 });"
                " return now; }"
            )
        )
