"""A local HTTP server for one page: on 127.0.0.1, under a random secret path."""

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
IDLE_TIMEOUT_S = 10  # after which an idle connection is closed
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",  # a link would send the page's secret address to its target
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "frame-ancestors 'none'",  # not possible in the page's own <meta>
}


class PageServer(ThreadingHTTPServer):
    """Serve the page at `url`, and 404 for every other request.

    Pages of other sites can send requests to local ports, too. They don't know the secret path, and
    the check of the Host header rejects a domain that resolves to this machine (DNS rebinding).

    Raises OSError if the port is not available.
    """

    daemon_threads = True
    # On POSIX this only reuses a port in TIME_WAIT; on Windows two servers could share one port.
    allow_reuse_address = os.name != "nt"

    def __init__(self, content: bytes, port: int = 0) -> None:
        self.content = content
        self.path = f"/{secrets.token_urlsafe(24)}/"
        super().__init__((HOST, port), _Handler)

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://{HOST}:{self.server_port}{self.path}"

    def is_page_request(self, path: str, host_headers: list[str]) -> bool:
        """Whether a request is for the page; `host_headers` are its Host headers."""
        own = {f"{name}:{self.server_port}" for name in HOST_NAMES}
        if self.server_port == 80:
            own |= {*HOST_NAMES}
        right = secrets.compare_digest(path.encode(), self.path.encode())
        return right and len(host_headers) == 1 and host_headers[0].lower() in own

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that disconnect before the response is complete."""
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
        """Send 404 for every error, to reveal nothing."""
        self._respond(404, "text/plain; charset=utf-8", b"Nothing is here.\n")

    def _respond(self, status: int, content_type: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Don't log requests: the terminal shows only the address and how to stop."""


def open_browser(url: str) -> None:
    """Open a browser in a thread: `webbrowser.open` blocks for a terminal browser."""
    threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()
