"""One module for each kind of store: how it is reached, listed, and given a file that must not be there yet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Protocol

from lakesmith.errors import InfrastructureError
from lakesmith.ports import FileFact
from lakesmith.storage.access import Access
from lakesmith.storage.globs import Glob
from lakesmith.storage.skipped import Skip

if TYPE_CHECKING:
    from remote_store import Store


class Reached(Protocol):
    """A store that can be asked. What its methods raise is the library's."""

    @property
    def store(self) -> Store:
        """What remote-store makes of it."""

    def files(self, base: str, glob: Glob, after: str | None, skip: Skip) -> Iterator[FileFact]:
        """The files that match below a folder, which ends with a slash or is empty. Their paths are below it too, and
        so is `after`; what sorts before that may be left out, where this saves requests. `skip` gets what is passed
        over, with paths below the folder."""

    def fetch(self, key: str) -> bytes:
        """All bytes."""

    def stream(self, key: str) -> BinaryIO:
        """The bytes as they come, seekable where the store can."""

    def create(self, key: str, file: BinaryIO, size: int, tell: Callable[[int], None]) -> None:
        """Make the file with all its bytes at once; an error when it is there already."""


class _Connections(threading.local):
    """Of one thread: a connection cannot be shared among several, where the library does not see to that."""

    def __init__(self) -> None:
        self.own: dict[Access, Reached] = {}


_connections = _Connections()
_shared: dict[Access, Reached] = {}
_connecting = threading.Lock()


def reach(access: Access) -> Reached:
    """The store; connected to when it is first asked."""
    known = _shared if access.kind in ("s3", "az") else _connections.own
    with _connecting:
        if access not in known:
            known[access] = _connect(access)
        return known[access]


def _connect(access: Access) -> Reached:
    try:
        match access.kind:
            case "s3":
                from lakesmith.storage.stores.s3 import S3

                return S3(access)
            case "az":
                from lakesmith.storage.stores.azure import Azure

                return Azure(access)
            case "sftp":
                from lakesmith.storage.stores.sftp import Sftp

                return Sftp(access)
            case _:
                from lakesmith.storage.stores.http import Http

                return Http(access)
    except ImportError as error:
        extra = {"az": "azure"}.get(access.kind, access.kind)
        raise InfrastructureError(
            "missing-library",
            f"{access.url} cannot be reached without the package {error.name}",
            hint=f"pip install 'lakesmith[{extra}]'",
        ) from error
