"""A page with the engine of js/src/engine, and no code that knows Python."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from playwright.sync_api import Page

from bundle import bundle_script
from nbglcnn import Plan
from nbglcnn.plan.schema import Patch, content_hash, pack_file
from webgl_page import decode, encode


class EnginePage:
    """An engine in a page, and the blobs that it was given."""

    def __init__(self, page: Page) -> None:
        self.page = page
        page.add_script_tag(content=bundle_script("test/engine_page.ts", "--format=iife").decode())

    def add_blob(self, name: str, data: bytes) -> str:
        self.page.evaluate("a => page.put(...a)", [name, base64.b64encode(data).decode()])
        return name

    def add_content(self, plan: Plan, *arrays: np.ndarray) -> dict[str, Any]:
        """Put a Plan, its weights and inputs into the page's blob store; return their names."""
        weights = [weight.hash for weight in plan.header.weights]
        for name in weights:
            self.add_blob(name, plan.blobs[name].tobytes())
        inputs = [self.add_blob(content_hash(x.tobytes()), x.tobytes()) for x in arrays]
        file = self.add_blob(plan.hash, pack_file(plan, {}))
        return {"planHash": file, "weightHashes": weights, "inputHashes": inputs}

    def show(self, plan: Plan, *arrays: np.ndarray) -> None:
        self.page.evaluate("a => page.engine.show(a)", self.add_content(plan, *arrays))

    def patch(self, content: dict[str, Any], patches: Sequence[Patch]) -> dict[str, Any]:
        """Show the content with these patches on top of its earlier ones."""
        known = [[p.texture, p.layer, *p.rectangle, encode(p.data)] for p in patches]
        self.page.evaluate("a => page.patch(...a)", [content, known])
        return content

    def read(self, key: str) -> np.ndarray:
        return decode(self.page.evaluate("k => page.read(k)", key))

    def take_counters(self) -> dict[str, int]:
        """Return the counters since the last call, and reset them."""
        return dict(
            self.page.evaluate(
                "() => { const now = { ...page.counted };"
                " for (const what of Object.keys(now)) page.counted[what] = 0;"
                " return now; }"
            )
        )
