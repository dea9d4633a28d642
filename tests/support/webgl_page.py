"""A page with the GL layer of js/src/webgl; numpy arrays in and out."""

import base64
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from bundle import bundle_script
from nbglcnn import Plan
from nbglcnn.features.edits import records
from nbglcnn.features.edits.records import Edit

_plan_numbers = itertools.count()


def encode(array: Any) -> str:
    return base64.b64encode(np.ascontiguousarray(array, np.float32).tobytes()).decode()


def decode(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), np.float32)


# The other renderer runs in `make sweep`: these tests don't depend on the renderer.
ONE_RENDERER = pytest.mark.parametrize(
    "backend", [pytest.param("swiftshader", marks=pytest.mark.sweep), "llvmpipe"]
)


class GlPage:
    """The GL layer in a browser page; sessions have numbers."""

    def __init__(self, page: Page, files: dict[str, bytes]) -> None:
        self.page = page
        self._files = files
        self._plans: dict[int, Plan] = {}
        page.add_script_tag(content=bundle_script("test/webgl_page.ts", "--format=iife").decode())

    def serve_file(self, content: bytes) -> str:
        url = f"/{next(_plan_numbers)}.plan"
        self._files[url] = content
        return url

    def open(self, plan: Plan) -> int:
        number = self.page.evaluate("url => gl.open(url)", self.serve_file(plan.to_bytes()))
        self._plans[number] = plan
        return int(number)

    def write(self, session: int, key: str, array: Any) -> None:
        self.page.evaluate("a => gl.write(...a)", [session, key, encode(array)])

    def lose_and_restore(self) -> None:
        """Lose and restore the WebGL context."""
        self.page.evaluate(
            """async () => {
              const lose = gl.lose();
              lose.loseContext();
              await new Promise((resolve) => setTimeout(resolve, 20));
              lose.restoreContext();
            }"""
        )

    def close(self, session: int) -> None:
        self.page.evaluate("k => gl.the(k).dispose()", session)

    def run(self, session: int, section: str | None = None) -> dict[str, Any]:
        return dict(
            self.page.evaluate("([k, one]) => gl.run(k, one ?? undefined)", [session, section])
        )

    def commit(self, session: int) -> None:
        self.page.evaluate("k => gl.commit(k)", session)

    def read(self, session: int, key: str) -> np.ndarray:
        header = self._plans[session].header
        [shape] = {v.shape for v in (*header.values, *header.parameters) if v.key == key}
        return decode(self.page.evaluate("a => gl.read(...a)", [session, key])).reshape(shape)

    def values(self, session: int, arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Run with these inputs and return all observed values."""
        plan = self._plans[session]
        for record, array in zip(plan.header.inputs, arrays, strict=True):
            self.write(session, record.key, array)
        self.run(session)
        return {v.key: self.read(session, v.key).astype(v.dtype) for v in plan.values}

    def run_plan(self, plan: Plan, arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """Run a Plan in a session of its own and return all observed values."""
        session = self.open(plan)
        values = self.values(session, arrays)
        self.close(session)
        return values

    def set_weight(self, session: int, texture: int, rows: Any) -> None:
        self.page.evaluate("a => gl.setWeight(...a)", [session, texture, encode(rows)])

    def set_edits(
        self, session: int, edits: Sequence[Edit], arrays: Mapping[str, Any] = {}
    ) -> None:
        """Set edits and return when the page has applied them; the next run uses them."""
        for name, array in arrays.items():
            self.page.evaluate("a => gl.putArray(...a)", [name, encode(array)])
        self.page.evaluate("a => gl.setEdits(...a)", [session, records.edits_to_dicts(edits)])

    def read_derived(self, session: int, derived_kind: str, key: str) -> np.ndarray:
        """Read a derived value: before its edits, without any edits, or the difference."""
        header = self._plans[session].header
        [shape] = {v.shape for v in header.values if v.key == key}
        read = "([k, what, key]) => gl.read(k, gl.keys[what](key))"
        return decode(self.page.evaluate(read, [session, derived_kind, key])).reshape(shape)

    def statistics(self, session: int, key: str, image: int = 0) -> dict[str, Any]:
        found = self.page.evaluate(
            "([k, ...a]) => gl.the(k).statistics(...a)", [session, key, image]
        )
        return dict(found)

    def histogram(
        self, session: int, key: str, *histogram_arguments: int | None
    ) -> dict[str, Any] | None:
        """The histogram; `histogram_arguments`: (bins, image, channel). None if none is finite."""
        found = self.page.evaluate(
            "([k, ...a]) => gl.the(k).histogram(...a.map((one) => one ?? undefined))",
            [session, key, *histogram_arguments],
        )
        return dict(found) if found else None

    def topk(
        self, session: int, key: str, count: int, image: int = 0
    ) -> tuple[list[int], np.ndarray] | None:
        """The indices and scores of the largest; None if the device can't select them."""
        found = self.page.evaluate(
            "([k, ...a]) => gl.the(k).topk(...a)", [session, key, count, image]
        )
        return found and (found["indices"], np.array(found["scores"], np.float32))

    def argmax(self, session: int, key: str, image: int = 0) -> np.ndarray | None:
        found = self.page.evaluate(
            "async ([k, ...a]) => { const found = await gl.the(k).argmax(...a);"
            " return found && gl.base64(found); }",
            [session, key, image],
        )
        return found and decode(found)

    def draw(self, session: int, *jobs: dict[str, Any]) -> list[np.ndarray]:
        """The pixels (height, width, RGBA) of each job's canvas; both drawing paths must agree."""
        drawing_paths = [
            self.page.evaluate(
                "a => gl.draw(...a)", [session, [DRAW_JOB | job for job in jobs], way]
            )
            for way in ("canvas", "readback")
        ]
        assert drawing_paths[0] == drawing_paths[1]
        return [
            np.frombuffer(base64.b64decode(one["pixels"]), np.uint8).reshape(
                one["height"], one["width"], 4
            )
            for one in drawing_paths[0]
        ]

    def count_live_objects(self) -> dict[str, int]:
        return dict(self.page.evaluate("() => ({ ...gl.opened().liveObjects })"))

    def wait_alive(self, counts: dict[str, int]) -> None:
        """Wait until the object counts equal `counts`; pending work frees its own objects."""
        same = (
            "counts => Object.entries(gl.opened().liveObjects).every(([k, n]) => n === counts[k])"
        )
        self.page.wait_for_function(same, arg=counts)


DRAW_JOB: dict[str, Any] = {
    "image": 0,
    "columns": 1,
    "gap": 0,
    "scale": 1,
    "colormap": "signed",
    "theme": "light",
    "range": {"mode": "layer"},
    "drawMode": "maps",
}
# Simulates a device that can't render to 32-bit floats.
DISABLE_FLOAT32_SCRIPT = """() => {
  const { getExtension } = WebGL2RenderingContext.prototype;
  WebGL2RenderingContext.prototype.getExtension = function (name) {
    return name === "EXT_color_buffer_float" ? null : getExtension.call(this, name);
  };
}"""
