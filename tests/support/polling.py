"""What holds after a while, however long a machine stands still in between."""

import time
from collections.abc import Callable
from typing import TypeVar

from playwright.sync_api import Page

T = TypeVar("T")


def retry_until_passes(page: Page, check: Callable[[], T], seconds: float = 60) -> T:
    """What `check` gives once it raises no AssertionError; raises its last one after `seconds`."""
    end = time.monotonic() + seconds
    while True:
        try:
            return check()
        except AssertionError:
            if time.monotonic() > end:
                raise
            page.wait_for_timeout(50)


def wait_frames(page: Page, count: int) -> None:
    """Let the page draw so many frames: time in which it did not stand still."""
    page.evaluate(
        """count => new Promise((done) => {
          const next = () => (count-- > 0 ? requestAnimationFrame(next) : done());
          next();
        })""",
        count,
    )
