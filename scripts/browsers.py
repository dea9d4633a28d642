"""Chromium for tests, pictures and timings: where it is, how it draws without a GPU, its pages."""

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
RENDERERS = {
    "swiftshader": ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
    "llvmpipe": ["--use-gl=angle", "--use-angle=gl-egl", "--ignore-gpu-blocklist"],
}
QUIET = [
    "--no-sandbox",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
]
EMPTY = (
    b'<!doctype html><meta charset="utf-8"><title>nbglcnn</title><link rel="icon" href="data:,">'
)
TYPES = {
    **dict.fromkeys(("", ".html"), "text/html"),
    **dict.fromkeys((".js", ".mjs"), "text/javascript"),
    ".wasm": "application/wasm",
}
# Chromium reports a wrong WebGL call as a mere warning, and some notes on speed beside it.
WRONG = re.compile("INVALID_|GL_OUT_OF|error", re.IGNORECASE)


def find_chromium() -> str | None:
    """The browser of this machine, or the one that Playwright installed; None if there is none."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).exists() else None


def chromium_arguments(backend: str) -> list[str]:
    """Chromium's arguments for a renderer: "swiftshader" or "llvmpipe"."""
    return [*RENDERERS[backend], *QUIET]


def complaints(page: Page) -> list[str]:
    """What the page's console says of mistakes, from now on: the list grows by itself."""
    found: list[str] = []
    page.on("console", lambda m: found.append(m.text) if WRONG.search(m.text) else None)
    return found


@contextmanager
def serving(find: Callable[[str], bytes | None]) -> Iterator[str]:
    """The address of a server for this machine alone; `find` has the content of a path, or None."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            content = find(path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            kind = TYPES.get(Path(path).suffix, "application/octet-stream")
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing: who asks for a page says what matters."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
