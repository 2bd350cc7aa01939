"""A redirect sends no credentials to another server, because it can lead to plain http://."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lakesmith.errors import InfrastructureError
from lakesmith.sources.registry import Registry
from lakesmith.store import failures, open_store


class _Server:
    """Answers every request with a redirect or an empty object, and records the headers."""

    def __init__(self, redirects_to: str | None = None) -> None:
        server = self
        self.headers: list[dict[str, str]] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.headers.append({name.lower(): value for name, value in self.headers.items()})
                self.send_response(302 if redirects_to else 404)
                if redirects_to:
                    self.send_header("Location", redirects_to + self.path)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_HEAD = do_GET

            def log_message(self, format: str, *args: object) -> None:
                """Write no access log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def other() -> Iterator[_Server]:
    server = _Server()
    yield server
    server.stop()


@pytest.fixture
def redirecting(other: _Server) -> Iterator[_Server]:
    server = _Server(other.url.replace("127.0.0.1", "localhost"))
    yield server
    server.stop()


def test_a_redirect_of_a_registry_does_not_forward_the_password(redirecting: _Server, other: _Server) -> None:
    assert Registry(url=redirecting.url, user="me", password="secret").latest("a-value") is None
    assert "authorization" in redirecting.headers[0]
    assert "authorization" not in other.headers[0]


@pytest.mark.parametrize("settings", [{"token": "secret"}, {"headers": "X-Api-Key: secret"}])
@pytest.mark.parametrize("pattern", ["*.json", "a.json"])
def test_a_redirect_of_a_web_server_does_not_forward_credentials(
    redirecting: _Server, other: _Server, settings: dict[str, str], pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "WAITS", ())
    storage = open_store(redirecting.url, {redirecting.url: settings})
    if "headers" in settings:
        with pytest.raises(InfrastructureError) as caught:
            list(storage.find(pattern))
        assert caught.value.code == "storage-failed"
    else:
        assert list(storage.find(pattern)) == []
    assert "secret" in str(redirecting.headers[0])
    assert "secret" not in str(other.headers)
