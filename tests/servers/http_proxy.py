"""An HTTP proxy on the loopback that makes chosen requests fail."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import BinaryIO, Literal

import pytest
from tests.servers.proxy import _reset

Failure = Literal["503", "reset", "drop reply", "hang", "slow", "expired", "expired token", "unconditional"]
"""`drop reply`: the server handles the request, and its reply is lost. `hang`: no answer ever comes. `slow`: the
reply comes in small parts, with pauses. `expired` and `expired token`: the store rejects the credentials with 403 or
400. `unconditional`: the store ignores the condition, and replies that it overwrote the file."""

_OVERWRITTEN = b'HTTP/1.1 200 OK\r\nETag: "0"\r\nContent-Length: 0\r\n\r\n'
_ANSWERS = {
    "503": ("503 Slow Down", "SlowDown", "Reduce your request rate."),
    "expired": ("403 Forbidden", "ExpiredToken", "The provided token has expired."),
    "expired token": ("400 Bad Request", "ExpiredToken", "The provided token has expired."),
}


@dataclass(slots=True)
class FailureRule:
    """Requests that fail, `times` times."""

    failure: Failure
    method: str = ""
    part: str = ""
    """A part of their path."""
    times: int = 1
    after: int = 0
    """The number of matching requests that pass first."""

    def matches(self, request: Request) -> bool:
        if self.times == 0 or self.method not in ("", request.method) or self.part not in request.path:
            return False
        if self.after:
            self.after -= 1
            return False
        self.times -= 1
        return True


@dataclass(slots=True)
class Request:
    """A request as the proxy received it."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes = b""

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name), None)

    def raw(self) -> bytes:
        head = [f"{self.method} {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers)]
        return "\r\n".join([*head, "", ""]).encode() + self.body


@dataclass(slots=True)
class HttpProxy:
    """Passes requests on to a server, and makes some of them fail."""

    server: int
    failed: list[str] = field(default_factory=list)
    """Method and path of each request that failed."""
    seen: list[str] = field(default_factory=list)
    """Method and path of each received request."""
    port: int = 0
    _rules: list[FailureRule] = field(default_factory=list)
    _open: set[socket.socket] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    def __post_init__(self) -> None:
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def fail(self, failure: Failure, method: str = "", part: str = "", *, times: int = 1, after: int = 0) -> None:
        """Make these requests fail from now on; `times=-1` means always."""
        self._rules.append(FailureRule(failure, method, part, times, after))

    def heal(self) -> None:
        """Make no request fail from now on."""
        self._rules.clear()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            _reset(connection)

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._open.add(client)
        try:
            with client.makefile("rb") as stream:
                while (request := _read_request(stream, client)) and self._answer(request, client):
                    pass
        except (OSError, ValueError):
            pass
        finally:
            self._open.discard(client)
            _reset(client)

    def _answer(self, request: Request, client: socket.socket) -> bool:
        """Return whether the connection stays open."""
        with self._lock:
            failure = next((rule.failure for rule in self._rules if rule.matches(request)), None)
            self.seen.append(f"{request.method} {request.path}")
            if failure:
                self.failed.append(f"{request.method} {request.path}")
        match failure:
            case "503" | "expired" | "expired token":
                client.sendall(_response(*_ANSWERS[failure], empty=request.method == "HEAD"))
                return True
            case "reset":
                return False
            case "hang":
                threading.Event().wait()
            case "drop reply":
                self._ask(request)
                return False
            case "slow":
                reply = self._ask(request)
                part = len(reply) // 10 + 1
                for at in range(0, len(reply), part):
                    client.sendall(reply[at : at + part])
                    time.sleep(0.05)
                return True
            case "unconditional":
                reply = self._ask(request)
                client.sendall(_OVERWRITTEN if reply.split(b" ", 2)[1] == b"412" else reply)
                return True
        client.sendall(self._ask(request))
        return True

    def _ask(self, request: Request) -> bytes:
        """Return the complete answer of the server."""
        with socket.create_connection(("127.0.0.1", self.server)) as server, server.makefile("rb") as stream:
            server.sendall(request.raw())
            return _read_answer(stream, empty=request.method == "HEAD")


def _response(status: str, code: str, words: str, *, empty: bool) -> bytes:
    body = b"" if empty else f"<Error><Code>{code}</Code><Message>{words}</Message></Error>".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _read_request(stream: BinaryIO, client: socket.socket) -> Request | None:
    line = stream.readline().decode()
    if not line:
        return None
    method, path, _ = line.split()
    headers = _read_headers(stream)
    request = Request(method, path, headers)
    if request.header("expect"):
        request.headers = [each for each in headers if each[0].lower() != "expect"]
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.body = _read_body(stream, headers, otherwise=b"")
    return request


def _read_answer(stream: BinaryIO, *, empty: bool) -> bytes:
    line = stream.readline()
    headers = _read_headers(stream)
    head = line + "".join(f"{name}: {value}\r\n" for name, value in headers).encode() + b"\r\n"
    if empty or line.split()[1] in (b"204", b"304"):
        return head
    return head + _read_body(stream, headers, otherwise=None)


def _read_headers(stream: BinaryIO) -> list[tuple[str, str]]:
    found = []
    while (line := stream.readline().decode().rstrip("\r\n")) != "":
        name, _, value = line.partition(":")
        found.append((name, value.strip()))
    return found


def _read_body(stream: BinaryIO, headers: list[tuple[str, str]], otherwise: bytes | None) -> bytes:
    """Read a body: by its length, by `otherwise`, or until the end."""
    fields = {name.lower(): value for name, value in headers}
    if "content-length" in fields:
        return stream.read(int(fields["content-length"]))
    if fields.get("transfer-encoding") == "chunked":
        whole = b""
        while True:
            size = stream.readline()
            whole += size
            chunk = stream.read(int(size.split(b";")[0], 16) + 2)
            whole += chunk
            if chunk == b"\r\n":
                return whole
    return stream.read() if otherwise is None else otherwise


@pytest.fixture
def http_proxy_to() -> Iterator[Callable[..., HttpProxy]]:
    """Create a proxy to a port."""
    made: list[HttpProxy] = []

    def make(port: int) -> HttpProxy:
        made.append(HttpProxy(port))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()
