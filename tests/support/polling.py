"""Polling of conditions that hold eventually, robust against stalls of the machine."""

import time
from collections.abc import Callable
from typing import TypeVar

from playwright.sync_api import Page

T = TypeVar("T")


def retry_until_passes(page: Page, check: Callable[[], T], seconds: float = 60) -> T:
    """Return `check`'s result once it passes; after `seconds`, raise its last AssertionError."""
    end = time.monotonic() + seconds
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > end:
                raise
            page.wait_for_timeout(50)


def wait_frames(page: Page, count: int) -> None:
    """Wait for `count` animation frames: a stalled page doesn't use up this time."""
    page.evaluate(
        """count => new Promise((done) => {
          const next = () => (count-- > 0 ? requestAnimationFrame(next) : done());
          next();
        })""",
        count,
    )
