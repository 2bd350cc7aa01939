"""A web server for the test run, with index pages and an optional token."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest


class WebServer:
    """A running server; `token`, if set, is required; `requests` has the received requests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token: str | None = None
        self.requests: list[str] = []
        handler = partial(_Handler, self, directory=str(folder))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port

    def start(self) -> None:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, web: WebServer, *args: object, directory: str) -> None:
        self._web = web
        super().__init__(*args, directory=directory)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        if self._may_pass():
            super().do_GET()

    def do_HEAD(self) -> None:
        if self._may_pass():
            super().do_HEAD()

    def _may_pass(self) -> bool:
        self._web.requests.append(f"{self.command} {self.path}")
        if self._web.token in (None, self.headers.get("Authorization", "").removeprefix("Bearer ")):
            return True
        self.send_error(403)
        return False

    def log_message(self, format: str, *args: object) -> None:
        """Write no access log."""


@pytest.fixture
def http(tmp_path: Path) -> Iterator[WebServer]:
    """A server that serves a folder."""
    folder = tmp_path / "web"
    folder.mkdir()
    server = WebServer(folder)
    server.start()
    yield server
    server.stop()
