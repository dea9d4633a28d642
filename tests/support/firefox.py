"""Firefox, driven over Marionette: a page with the few calls that a Notebook makes.

Headless Firefox has no WebGL on Linux without a graphics card ("Exhausted GL driver options"), so
it runs on a virtual screen, where Mesa's llvmpipe draws.
"""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from servers import free_port

NAMES = ("firefox-esr", "firefox")
PACKAGES = {"firefox-esr": NAMES, "xvfb": ("Xvfb",)}
START_S, PAGE_S = 60, 300
SETTINGS = {
    "webgl.force-enabled": True,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage_override.mstone": "ignore",
    "datareporting.policy.dataSubmissionEnabled": False,
    "app.normandy.enabled": False,
    "app.update.enabled": False,
    # A camera that is none, for which nobody is asked.
    "media.navigator.streams.fake": True,
    "media.navigator.permission.disabled": True,
    # Whatever is not this machine goes to a proxy that is not there.
    "network.proxy.type": 1,
    "network.proxy.http": "127.0.0.1",
    "network.proxy.http_port": 9,
    "network.proxy.ssl": "127.0.0.1",
    "network.proxy.ssl_port": 9,
}


def missing_packages() -> list[str]:
    """Debian packages that Firefox with WebGL needs here and that are not installed."""
    return [name for name, programs in PACKAGES.items() if not any(map(shutil.which, programs))]


class Mouse:
    """The mouse of a tab; it moves in CSS pixels of what is seen of the page."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        self._ask = ask

    def _do(self, *actions: dict[str, Any]) -> None:
        mouse = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}}
        self._ask("WebDriver:PerformActions", actions=[{**mouse, "actions": actions}])

    def move(self, x: float, y: float) -> None:
        """Go there."""
        self._do({"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)})

    def down(self) -> None:
        """Press the left button."""
        self._do({"type": "pointerDown", "button": 0})

    def up(self) -> None:
        """Let go of it."""
        self._do({"type": "pointerUp", "button": 0})


class FirefoxPage:
    """A tab of Firefox."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._received = b""
        self._number = 0
        self._scripts: list[str] = []
        self.mouse = Mouse(self._ask)
        self._receive()  # its greeting
        self.capabilities = self._ask("WebDriver:NewSession")["capabilities"]
        self._ask("WebDriver:SetTimeouts", script=PAGE_S * 1000, pageLoad=PAGE_S * 1000)

    def _receive(self) -> Any:
        while b":" not in self._received:
            self._read()
        size, _, self._received = self._received.partition(b":")
        while len(self._received) < int(size):
            self._read()
        message, self._received = self._received[: int(size)], self._received[int(size) :]
        return json.loads(message)

    def _read(self) -> None:
        data = self._connection.recv(2**16)
        if not data:
            raise AssertionError("Firefox has ended")
        self._received += data

    def _ask(self, command: str, **parameters: Any) -> Any:
        self._number += 1
        message = json.dumps([0, self._number, command, parameters]).encode()
        self._connection.sendall(b"%d:%s" % (len(message), message))
        _, _, error, result = self._receive()
        if error:
            raise AssertionError(f"Firefox: {error['message']}")
        return result

    def goto(self, url: str) -> None:
        """Load a page; then run the scripts that were added."""
        self._ask("WebDriver:Navigate", url=url)
        for script in self._scripts:
            self._ask("WebDriver:ExecuteScript", script=script, args=[])

    def add_init_script(self, script: str) -> None:
        """Run a script in each page, once it is loaded."""
        self._scripts.append(script)

    def evaluate(self, expression: str, argument: Any = None) -> Any:
        """What a function of one argument returns in the page, when its promise is kept."""
        script = f"return ({expression})(...arguments);"
        return self._ask("WebDriver:ExecuteScript", script=script, args=[argument])["value"]

    def wait_for_function(self, expression: str, *, timeout: float) -> None:
        """Wait until a function returns something true."""
        until = time.monotonic() + timeout / 1000
        while not self.evaluate(expression):
            if time.monotonic() > until:
                raise AssertionError(f"never true: {expression}")
            time.sleep(0.2)

    def wait_for_timeout(self, ms: float) -> None:
        """Let time pass."""
        time.sleep(ms / 1000)

    def on(self, event: str, callback: Callable[[Any], None]) -> None:
        """Do nothing: Marionette tells no events."""


@contextmanager
def firefox_page(folder: Path) -> Iterator[FirefoxPage]:
    """A tab of a new Firefox with a profile of its own, on a virtual screen."""
    folder.mkdir(parents=True)
    port = free_port()
    lines = [f"user_pref({json.dumps(k)}, {json.dumps(v)});" for k, v in SETTINGS.items()]
    lines.append(f'user_pref("marionette.port", {port});')
    (folder / "user.js").write_text("\n".join(lines))
    program = next(filter(None, map(shutil.which, NAMES)))
    with _screen() as display, (folder / "firefox.log").open("wb") as log:
        process = subprocess.Popen(
            [program, "--marionette", "--no-remote", "--profile", str(folder)],
            env={**os.environ, "HOME": str(folder), "DISPLAY": display},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield FirefoxPage(_connected(port))
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()


@contextmanager
def _screen() -> Iterator[str]:
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


def _connected(port: int) -> socket.socket:
    until = time.monotonic() + START_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=PAGE_S + 30)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.3)
