"""One module per kind of server that only lands files: how to connect, list, and create new files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Protocol

from lakesmith.errors import InfrastructureError
from lakesmith.ports import FileFact
from lakesmith.store.access import Access
from lakesmith.store.globs import Glob
from lakesmith.store.skipped import Skip

if TYPE_CHECKING:
    from remote_store import Store


class ConnectedStore(Protocol):
    """A connected store. Its methods raise the library's errors."""

    @property
    def store(self) -> Store:
        """The store of remote-store."""

    def files(self, base: str, glob: Glob, after: str | None, skip: Skip) -> Iterator[FileFact]:
        """The matching files below a folder, which ends with a slash or is empty. Paths and `after` are relative to it.
        Files that sort before `after` may be omitted, where this saves requests. `skip` gets skipped entries."""

    def fetch(self, key: str) -> bytes:
        """All bytes."""

    def stream(self, key: str) -> BinaryIO:
        """A stream of the bytes, seekable where the store supports it."""

    def create(self, key: str, file: BinaryIO, size: int, on_progress: Callable[[int], None]) -> None:
        """Create the file with all its bytes at once; raises when it exists."""


class _Connections(threading.local):
    """The connections of one thread: the libraries are not thread-safe."""

    def __init__(self) -> None:
        self.own: dict[Access, ConnectedStore] = {}


_connections = _Connections()
_connecting = threading.Lock()


def connect(access: Access) -> ConnectedStore:
    """The store of these settings for this thread; connects on first use."""
    # One after the other: servers refuse many logins at once.
    with _connecting:
        if access not in _connections.own:
            _connections.own[access] = _connect(access)
    return _connections.own[access]


def _connect(access: Access) -> ConnectedStore:
    try:
        match access.kind:
            case "sftp":
                from lakesmith.store.stores.sftp import Sftp

                return Sftp(access)
            case _:
                from lakesmith.store.stores.http import Http

                return Http(access)
    except ImportError as error:
        raise InfrastructureError(
            "missing-library",
            f"{access.url} needs the package {error.name}, which is not installed",
            hint=f"pip install 'lakesmith[{access.kind}]'",
        ) from error
