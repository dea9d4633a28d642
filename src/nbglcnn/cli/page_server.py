"""One page for this machine alone: on 127.0.0.1, under an address that nobody can guess."""

from __future__ import annotations

import os
import secrets
import sys
import threading
import webbrowser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HOST = "127.0.0.1"
HOST_NAMES = (HOST, "localhost")
IDLE_TIMEOUT_S = 10  # after which a connection that says nothing is closed
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # a link would tell where it leads the page's address
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "frame-ancestors 'none'",  # what a page's own <meta> cannot say
}


class PageServer(ThreadingHTTPServer):
    """Answers with the page under `url`, and with 404 to everything else.

    A page of another site can ask this machine's ports, too: it doesn't know the address, and a
    name of its own that leads here (DNS rebinding) is refused by the Host header.

    Raises OSError where the port cannot be had.
    """

    daemon_threads = True
    # Elsewhere it only lets a port be had again at once; Windows would give one to two servers.
    allow_reuse_address = os.name != "nt"

    def __init__(self, content: bytes, port: int = 0) -> None:
        self.content = content
        self.path = f"/{secrets.token_urlsafe(24)}/"
        super().__init__((HOST, port), _Handler)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_port}{self.path}"

    def is_page_request(self, path: str, hosts: list[str]) -> bool:
        """Whether a request is for the page; `hosts` are its Host headers."""
        own = {f"{name}:{self.server_port}" for name in HOST_NAMES}
        if self.server_port == 80:
            own |= {*HOST_NAMES}
        right = secrets.compare_digest(path.encode(), self.path.encode())
        return right and len(hosts) == 1 and hosts[0].lower() in own

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away before it has all is no error."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    server_version, sys_version = "nbglcnn", ""
    timeout = IDLE_TIMEOUT_S

    def do_GET(self) -> None:
        if self.server.is_page_request(self.path, self.headers.get_all("Host") or []):
            self._respond(200, "text/html; charset=utf-8", self.server.content)
        else:
            self.send_error(404)

    do_HEAD = do_GET

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Whatever is wrong, nothing is here."""
        self._respond(404, "text/plain; charset=utf-8", b"Nothing is here.\n")

    def _respond(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing of requests: the terminal has the address and the way to end."""


def open_browser(url: str) -> None:
    """Open a browser and go on at once: one in a terminal holds whoever opens it."""
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
