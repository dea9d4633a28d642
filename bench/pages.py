"""The benchmark's page in a fresh Chromium, and the server for a network's files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

import nbglcnn
from browsers import EMPTY_PAGE, chromium_arguments, find_chromium, serve_files
from bundle import bundle_script

BENCH_FOLDER = Path(__file__).parent
STATIC_FOLDER = Path(nbglcnn.__file__).with_name("static")
NODE_MODULES = BENCH_FOLDER / "node_modules"
ESBUILD_OPTIONS = ("--format=esm", "--external:/runtime.js")
PAGE_SCRIPT_BUILD = (str(BENCH_FOLDER / "page.ts"), *ESBUILD_OPTIONS)
TRAINING_SCRIPT_BUILD = (str(BENCH_FOLDER / "training.ts"), *ESBUILD_OPTIONS)


def find_file(path: str, files: Mapping[str, bytes], script: tuple[str, ...]) -> bytes | None:
    """The file that the page requests."""
    if path == "/":
        return EMPTY_PAGE
    if path == "/page.js":
        return bundle_script(*script)
    first, _, rest = path.lstrip("/").partition("/")
    if first == "model":
        return files.get(rest)
    places = {
        "runtime.js": STATIC_FOLDER / "runtime.js",
        "ort": NODE_MODULES / "onnxruntime-web" / "dist" / rest,
        "tfjs": NODE_MODULES / "@tensorflow" / "tfjs-backend-wasm" / "dist" / rest,
    }
    place = places.get(first)
    return place.read_bytes() if place is not None and place.is_file() else None


@contextmanager
def open_page(
    renderer: str, files: Mapping[str, bytes], script: tuple[str, ...] = PAGE_SCRIPT_BUILD
) -> Iterator[tuple[Page, str]]:
    """Open the benchmark's page in a fresh Chromium; yield it with the graphics device's name."""
    answer = partial(find_file, files=files, script=script)
    with serve_files(answer) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(),
            args=[
                *chromium_arguments(renderer),
                "--disable-gpu-watchdog",
                "--js-flags=--expose-gc",
            ],
            env={**os.environ, "MESA_SHADER_CACHE_DISABLE": "true"},  # so that first runs compile
            ignore_default_args=["--mute-audio"],
        )
        opened = browser.new_page()
        opened.set_default_timeout(600_000)
        opened.goto(address)
        opened.add_script_tag(url="/page.js", type="module")
        opened.wait_for_function("() => window.bench !== undefined")
        device = opened.evaluate(
            """() => {
              const gl = document.createElement("canvas").getContext("webgl2");
              const info = gl.getExtension("WEBGL_debug_renderer_info");
              return gl.getParameter(info.UNMASKED_RENDERER_WEBGL);
            }"""
        )
        yield opened, device
        browser.close()
