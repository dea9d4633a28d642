"""Chromium for tests and screenshots: where it is, and how it draws without a GPU."""

import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

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
