"""A proxy on the loopback with chosen faults, like a busy store or a bad connection."""

from __future__ import annotations

import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

import pytest


@dataclass(frozen=True, slots=True)
class Cut:
    """The connection breaks after this number of bytes of the answer."""

    after: int


Fault = Literal["503", "reset"] | Cut
_BUSY = b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Proxy:
    """Forwards connections to a server; each fault affects one connection, in order."""

    def __init__(self, server: int) -> None:
        self._server = server
        self._faults: deque[Fault] = deque()
        self._always: Fault | None = None
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.faulted = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def fail(self, *faults: Fault) -> None:
        """Apply faults from now on, and reset open connections, so that no request uses them."""
        self._faults.extend(faults)
        self._reset_all()

    def fail_always(self, fault: Fault) -> None:
        self._always = fault
        self._reset_all()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # otherwise it would accept one more
        self._listener.close()
        self._reset_all()

    def _reset_all(self) -> None:
        for connection in list(self._open):
            _reset(connection)

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                fault = self._faults.popleft() if self._faults else self._always
                threading.Thread(target=self._serve, args=(client, fault), daemon=True).start()

    def _serve(self, client: socket.socket, fault: Fault | None) -> None:
        self._open.add(client)
        self.faulted += fault is not None
        try:
            if fault == "reset":
                _reset(client)
            elif fault == "503":
                _answer_busy(client)
            else:
                self._pass_on(client, fault)
        except OSError:
            _reset(client)
        finally:
            self._open.discard(client)

    def _pass_on(self, client: socket.socket, cut: Cut | None) -> None:
        with socket.create_connection(("127.0.0.1", self._server)) as server, client:
            forwarding = threading.Thread(target=_pump, args=(client, server), daemon=True)
            forwarding.start()
            _pump(server, client, cut.after if cut else None)
            if cut:
                _reset(client)
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            forwarding.join()


def _pump(source: socket.socket, target: socket.socket, limit: int | None = None) -> None:
    with suppress(OSError):
        while limit is None or limit > 0:
            data = source.recv(65536 if limit is None else min(65536, limit))
            if not data:
                target.shutdown(socket.SHUT_WR)
                return
            target.sendall(data)
            if limit is not None:
                limit -= len(data)


def _answer_busy(client: socket.socket) -> None:
    with client:
        client.settimeout(5)
        request = b""
        while b"\r\n\r\n" not in request:
            received = client.recv(65536)
            if not received:
                return
            request += received
        client.sendall(_BUSY)
        client.shutdown(socket.SHUT_WR)
        # Unread bytes would reset the connection before the answer is read.
        with suppress(OSError):
            while client.recv(65536):
                pass


def _reset(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@pytest.fixture
def proxy_to() -> Iterator[Callable[[int], Proxy]]:
    """Create a proxy to a port."""
    made: list[Proxy] = []

    def make(port: int) -> Proxy:
        made.append(Proxy(port))
        return made[-1]

    yield make
    for proxy in made:
        with suppress(OSError):  # a test may have closed it
            proxy.close()
