"""A warehouse: where each table of a lake lies, and where Lakesmith keeps what it has to remember."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lakesmith.declare import PRIVATE, TableName
from lakesmith.disk import set_umask
from lakesmith.ports import Storage
from lakesmith.storage.access import find_access, is_remote
from lakesmith.storage.local import LocalStorage
from lakesmith.storage.remote import RemoteStorage

_NO_SETTINGS: Mapping[str, Mapping[str, str]] = MappingProxyType({})


def open_storage(url: str, settings: Mapping[str, Mapping[str, str]] = _NO_SETTINGS) -> Storage:
    """The store behind a folder or URL. `settings` are by the beginning of a URL; the longest that fits counts."""
    if is_remote(url):
        return RemoteStorage(*find_access(url, settings))
    return LocalStorage(url.removeprefix("file://"))


class Warehouse:
    """The folders of a lake below one root. Locations are made from validated names only.

    `adopted` are tables that lie elsewhere and are not the lake's to write. `umask` is what files and folders are made
    without.
    """

    def __init__(self, url: str, adopted: Mapping[TableName, str] | None = None, umask: int = PRIVATE) -> None:
        self.storage = open_storage(url)
        self.root = self.storage.root().rstrip("/")
        set_umask(self.root, umask)
        self._adopted = adopted or {}

    def table(self, name: TableName) -> str:
        return self._adopted.get(name, f"{self.root}/{name.layer}/{name.name}")

    def quarantine(self, name: TableName) -> str:
        return f"{self.root}/quarantine/{name.layer}/{name.name}"

    def settled(self, name: TableName) -> str:
        """Where it is kept what became of rows that were in quarantine."""
        return f"{self.root}/settled/{name.layer}/{name.name}"

    def staged(self, name: TableName) -> str:
        """Where batches lie that are written and not committed, each attempt in a folder of its own."""
        return f"{self.root}/_lakesmith/checked/{name}"

    def held(self, name: TableName) -> str:
        """Where the batch lies that a gate has refused."""
        return f"{self.root}/_lakesmith/held/{name}"

    def ends(self, name: TableName) -> str:
        """Where it is kept which keys of a table are gone."""
        return f"{self.root}/ends/{name.layer}/{name.name}"

    def tables_of(self, name: TableName) -> tuple[str, ...]:
        """Where a table lies, and those that belong to it."""
        return self.table(name), self.quarantine(name), self.settled(name), self.ends(name)

    def system(self, name: str) -> str:
        return f"{self.root}/system/{name}"
