"""Firefox, driven by Mozilla's marionette_driver: a page with the few methods that Notebook uses.

Headless Firefox has no WebGL on Linux without a graphics card ("Exhausted GL driver options"), so
it runs on a virtual screen and Mesa's llvmpipe renders.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from marionette_driver.marionette import ActionSequence, Marionette
from marionette_driver.wait import Wait

FIREFOX_NAMES = ("firefox-esr", "firefox")
PACKAGES = {"firefox-esr": FIREFOX_NAMES, "xvfb": ("Xvfb",)}
START_S, PAGE_S = 60, 300
# In addition to marionette_driver's preferences, which keep Firefox from checking for updates and
# the like.
PREFERENCES = {
    "webgl.force-enabled": True,
    # A fake camera, allowed without a prompt.
    "media.navigator.streams.fake": True,
    "media.navigator.permission.disabled": True,
    # Requests to other machines go to a proxy that does not exist.
    "network.proxy.type": 1,
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": 9,
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": 9,
}


def missing_packages() -> list[str]:
    """The Debian packages that Firefox with WebGL needs here and that are missing."""
    return [name for name, programs in PACKAGES.items() if not any(map(shutil.which, programs))]


class Mouse:
    """The mouse of a tab; it moves in CSS pixels of the viewport."""

    def __init__(self, browser: Marionette) -> None:
        self._browser = browser

    def _actions(self) -> ActionSequence:
        return self._browser.actions.sequence("pointer", "mouse", {"pointerType": "mouse"})

    def move(self, x: float, y: float) -> None:
        """Move to a point."""
        self._actions().pointer_move(round(x), round(y), duration=0).perform()

    def down(self) -> None:
        """Press the left button."""
        self._actions().pointer_down().perform()

    def up(self) -> None:
        """Release the left button."""
        self._actions().pointer_up().perform()


class FirefoxPage:
    """A tab of Firefox."""

    def __init__(self, browser: Marionette) -> None:
        self._browser = browser
        self._scripts: list[str] = []
        self.mouse = Mouse(browser)

    def goto(self, url: str) -> None:
        """Load a page; then run the added scripts."""
        self._browser.navigate(url)
        for script in self._scripts:
            self._execute(script)

    def add_init_script(self, script: str) -> None:
        """Run a script in each page after it has loaded."""
        self._scripts.append(script)

    def evaluate(self, expression: str, argument: Any = None) -> Any:
        """Return the result of a function of one argument in the page; promises are awaited."""
        return self._execute(f"return ({expression})(...arguments);", argument)

    def _execute(self, script: str, *arguments: Any) -> Any:
        # Without a sandbox, which would hide properties that the page adds to `window`.
        return self._browser.execute_script(script, script_args=arguments, sandbox=None)

    def wait_for_function(self, expression: str, *, timeout: float) -> None:
        """Wait until a function returns a truthy value."""
        Wait(self._browser, timeout=timeout / 1000, interval=0.2).until(
            lambda _: self.evaluate(expression), message=f"never true: {expression}"
        )

    def wait_for_timeout(self, ms: float) -> None:
        """Wait for this number of milliseconds."""
        time.sleep(ms / 1000)

    def on(self, event: str, callback: Callable[[Any], None]) -> None:
        """Do nothing: Marionette reports no events."""


@contextmanager
def firefox_page(folder: Path) -> Iterator[FirefoxPage]:
    """A tab of a new Firefox with a fresh profile, on a virtual screen."""
    folder.mkdir(parents=True)
    with _virtual_screen() as display:
        with patch.dict(os.environ, {"HOME": str(folder), "DISPLAY": display}):
            browser = Marionette(
                port=0,  # a free port
                app="fxdesktop",
                bin=next(filter(None, map(shutil.which, FIREFOX_NAMES))),
                prefs=PREFERENCES,
                workspace=str(folder),
                gecko_log=str(folder / "firefox.log"),
                startup_timeout=START_S,
                socket_timeout=PAGE_S + 30,
            )
        try:
            browser.start_session()
            browser.timeout.script = browser.timeout.page_load = PAGE_S
            yield FirefoxPage(browser)
        finally:
            browser.cleanup()


@contextmanager
def _virtual_screen() -> Iterator[str]:
    read, write = os.pipe()
    process = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "1280x1000x24", "-nolisten", "tcp"],
        pass_fds=[write],
        stderr=subprocess.DEVNULL,
    )
    os.close(write)
    try:
        with os.fdopen(read) as told:
            yield f":{told.readline().strip()}"
    finally:
        process.terminate()
        process.wait()
