"""Chromium for tests, pictures and timings: its path, rendering without a GPU, its pages."""

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, BrowserType, Page, sync_playwright

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
RENDERERS = {
    "swiftshader": ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
    "llvmpipe": ["--use-gl=angle", "--use-angle=gl-egl", "--ignore-gpu-blocklist"],
}
# Chromium honours only one --disable-features switch, so this list includes Playwright's own for
# pages too. The address bar's pop-ups are two extra pages in every window, which cost as much as
# the test's page.
DISABLED_FEATURES = (
    *("AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades"),
    *("HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding"),
    *("ThirdPartyStoragePartitioning", "AvoidCorsURLLoaderRestartOnRedirect", "OptimizationHints"),
    *("NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch"),
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup"),
)
CHROMIUM_FLAGS = [
    "--no-sandbox",
    f"--disable-features={','.join(DISABLED_FEATURES)}",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
]
EMPTY_PAGE = (
    b'<!doctype html><meta charset="utf-8"><title>nbglcnn</title><link rel="icon" href="data:,">'
)
CONTENT_TYPES = {
    **dict.fromkeys(("", ".html"), "text/html"),
    **dict.fromkeys((".js", ".mjs"), "text/javascript"),
    ".wasm": "application/wasm",
}
# In a page: the canvases with maps that are visible.
VISIBLE_MAPS_SCRIPT = """() =>
  [...document.querySelectorAll('.nbglcnn canvas[data-maps]')].filter((canvas) => {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    return document.elementsFromPoint(left + width / 2, top + height / 2).includes(canvas);
  })"""
# In a page: base64 of a one-second video with a bright bar that moves from left to right.
RECORD_CANVAS_SCRIPT = """async () => {
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [64, 48];
  const context = canvas.getContext('2d');
  const recorder = new MediaRecorder(canvas.captureStream(25), {
    mimeType: 'video/webm;codecs=vp8', videoBitsPerSecond: 2e6,
  });
  const parts = [];
  recorder.ondataavailable = ({ data }) => parts.push(data);
  const ended = new Promise((done) => { recorder.onstop = done; });
  recorder.start();
  for (let k = 0; k < 25; k++) {
    context.fillStyle = '#204060';
    context.fillRect(0, 0, 64, 48);
    context.fillStyle = '#e0d0c0';
    context.fillRect(2 * k, 8, 10, 32);
    await new Promise((done) => setTimeout(done, 40));
  }
  recorder.stop();
  await ended;
  const bytes = new Uint8Array(await new Blob(parts).arrayBuffer());
  let text = '';
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}"""
HOST = "127.0.0.1"
LOCAL_SCHEMES = ("data", "blob", "about", "file")  # schemes that need no other machine
# Chromium reports an invalid WebGL call only as a warning, next to performance notes.
CONSOLE_ERROR = re.compile("INVALID_|GL_OUT_OF|error", re.IGNORECASE)


def find_chromium() -> str | None:
    """The system's Chromium, or the one that Playwright installed; None if there is none."""
    for name in CHROMIUM_NAMES:
        if found := shutil.which(name):
            return found
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).exists() else None


def chromium_arguments(renderer: str) -> list[str]:
    """Chromium's arguments for a renderer: "swiftshader" or "llvmpipe"."""
    return [*RENDERERS[renderer], *CHROMIUM_FLAGS]


def collect_console_errors(page: Page) -> list[str]:
    """The page's console errors from now on: the list grows as they occur."""
    found: list[str] = []
    page.on("console", lambda m: found.append(m.text) if CONSOLE_ERROR.search(m.text) else None)
    return found


def watch_external_requests(context: BrowserContext, urls: list[str]) -> None:
    """Append every URL outside this machine that the context's pages request to `urls`."""

    def check(url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in LOCAL_SCHEMES and parts.hostname != HOST:
            urls.append(url)

    context.on("request", lambda request: check(request.url))
    context.on("page", lambda page: page.on("websocket", lambda socket: check(socket.url)))


def watch_browser_requests(browser_type: BrowserType) -> list[str]:
    """Requests outside this machine in any browser launched from now on: the list grows."""
    found: list[str] = []
    launch = browser_type.launch

    def launch_guarded(**options: Any) -> Browser:
        browser = launch(**options)
        new_context = browser.new_context

        def open_context(**options: Any) -> BrowserContext:
            context = new_context(**options)
            watch_external_requests(context, found)
            return context

        browser.new_context = open_context  # type: ignore[method-assign]
        browser.new_page = lambda **given: open_context(**given).new_page()  # type: ignore[method-assign]
        return browser

    browser_type.launch = launch_guarded  # type: ignore[method-assign]
    return found


@contextmanager
def serve_files(find_content: Callable[[str], bytes | None]) -> Iterator[str]:
    """The address of a localhost server; `find_content` returns the content of a path, or None."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            content = find_content(path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            kind = CONTENT_TYPES.get(Path(path).suffix, "application/octet-stream")
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Log nothing: the test that requests a page reports errors."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
