"""Temporary local servers, each on its own port."""

import random
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

TIMEOUT_S = 120  # for any operation; test machines are slow


# Below the ephemeral ports of operating systems: a kernel could take one of those while its server
# starts.
PORTS = range(20_000, 32_000)


def free_port() -> int:
    """Find a port that isn't in use."""
    chance = random.SystemRandom()  # independent of the tests' seeds
    while True:
        with socket.socket() as free:
            port = chance.choice(PORTS)
            with suppress(OSError):
                free.bind(("127.0.0.1", port))
                return port


@contextmanager
def running_server(
    command: Sequence[str],
    health_url: str,
    log: Path,
    environment: Mapping[str, str],
    *,
    folder: Path | None = None,
    signals: Sequence[signal.Signals] = (signal.SIGTERM,),
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `command` in `folder` until the block ends; wait until the URL `health_url` responds.

    Its output goes to `log`; `signals` are sent to stop it.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_healthy(health_url, process, log)
        yield process
    finally:
        for number in signals:
            process.send_signal(number)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()


def _wait_healthy(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            time.sleep(0.2)
    raise AssertionError(f"the server did not start:\n{log.read_text()[-4000:]}")
