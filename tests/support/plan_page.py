"""Runs Plans in Chromium with the public runtime bundle: arrays in, arrays out."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, Page, Playwright

import nbglcnn
from browsers import (
    EMPTY_PAGE,
    chromium_arguments,
    collect_console_errors,
    find_chromium,
    serve_files,
)
from nbglcnn.plan.schema import Plan
from nbglcnn.runtime.session import to_float32

RUNTIME_FILE = Path(nbglcnn.__file__).with_name("static") / "runtime.js"
TIMEOUT_S = 120  # to compile and run one Plan on a renderer without a GPU
OPEN_DEVICE_SCRIPT = """async () => {
  const { load, openDevice } = await import("/runtime.js");
  const device = openDevice();
  const floats = (text) => new Float32Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const text = (array) => {
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    let all = "";
    for (let k = 0; k < bytes.length; k += 8192) all += String.fromCharCode(...bytes.subarray(k, k + 8192));
    return btoa(all);
  };
  let first; // stays open, so that what all Sessions draw and read with is built once
  window.runPlan = async (url, inputs, outputs) => {
    const session = await load(await (await fetch(url)).arrayBuffer(), { device });
    try {
      await session.run(Object.fromEntries(inputs.map(([key, array]) => [key, floats(array)])));
      const arrays = [];
      for (const key of outputs) arrays.push(text(await session.read(key)));
      return arrays;
    } finally {
      first ??= session;
      if (session !== first) session.close();
    }
  };
}"""  # noqa: E501
RUN_PLAN_SCRIPT = """([patience, ...given]) => Promise.race([
  window.runPlan(...given),
  new Promise((_, no) => setTimeout(() => no(new Error(`no answer in ${patience} ms`)), patience)),
])"""


class PlanPage:
    """A page that runs Plans one by one on one device; an error makes the next run reopen it."""

    def __init__(self, browser: Browser, address: str, files: dict[str, bytes]) -> None:
        self._browser, self._address, self._files = browser, address, files
        self._numbers = itertools.count()
        self._page: Page | None = None
        self._errors: list[str] = []

    def run(self, plan: Plan, arrays: tuple[np.ndarray, ...]) -> dict[str, np.ndarray]:
        """Return the Plan's outputs for these inputs."""
        header = plan.header
        inputs = [
            [record.key, base64.b64encode(to_float32(record.key, array).tobytes()).decode()]
            for record, array in zip(header.inputs, arrays, strict=True)
        ]
        url = f"/{next(self._numbers)}.plan"
        self._files[url] = plan.to_bytes()
        try:
            page = self._open_page()
            found = page.evaluate(
                RUN_PLAN_SCRIPT, [TIMEOUT_S * 1000, url, inputs, list(header.outputs)]
            )
            if self._errors:
                raise RuntimeError(f"the page's console has {self._errors[:3]}")
        except BaseException:
            self.close()
            raise
        finally:
            del self._files[url]
        values = {value.key: value for value in header.values}
        return {
            key: np.frombuffer(base64.b64decode(text), np.float32)
            .reshape(values[key].shape)
            .astype(values[key].dtype)
            for key, text in zip(header.outputs, found, strict=True)
        }

    def close(self) -> None:
        """Close the page; the next run opens a new one."""
        if self._page is not None:
            self._page.close()
        self._page = None
        self._errors.clear()

    def _open_page(self) -> Page:
        if self._page is None:
            self._page = self._browser.new_page()
            self._errors = collect_console_errors(self._page)
            self._page.goto(self._address)
            self._page.evaluate(OPEN_DEVICE_SCRIPT)
        return self._page


@contextmanager
def open_plan_pages(
    playwright: Playwright, renderers: tuple[str, ...]
) -> Iterator[dict[str, PlanPage]]:
    """Open a PlanPage for each of these renderers ("swiftshader", "llvmpipe")."""
    files = {"/": EMPTY_PAGE, "/runtime.js": RUNTIME_FILE.read_bytes()}
    with serve_files(files.get) as address:
        browsers = {
            name: playwright.chromium.launch(
                executable_path=find_chromium(), args=chromium_arguments(name)
            )
            for name in renderers
        }
        yield {name: PlanPage(one, address, files) for name, one in browsers.items()}
        for one in browsers.values():
            one.close()
