"""The warehouse: the folders of a lake's tables and of Lakesmith's own files."""

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
    """The store of a folder or URL. `settings` are by URL prefix; the longest match wins."""
    if is_remote(url):
        return RemoteStorage(*find_access(url, settings))
    return LocalStorage(url.removeprefix("file://"))


class Warehouse:
    """The folders of a lake below one root. Locations are made from validated names only.

    `adopted` are the locations of tables that the lake only reads. `umask` holds the permissions that new files and
    folders do not get.
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

    def quarantine_decisions(self, name: TableName) -> str:
        """The folder of the table with decisions about quarantined rows."""
        return f"{self.root}/quarantine_decisions/{name.layer}/{name.name}"

    def staged(self, name: TableName) -> str:
        """The folder of written, uncommitted batches, with one folder per attempt."""
        return f"{self.root}/_lakesmith/checked/{name}"

    def held(self, name: TableName) -> str:
        """The folder of the batch that a gate holds."""
        return f"{self.root}/_lakesmith/held/{name}"

    def deleted_keys(self, name: TableName) -> str:
        """The folder of the table with the deleted keys of a table."""
        return f"{self.root}/deleted_keys/{name.layer}/{name.name}"

    def tables_of(self, name: TableName) -> tuple[str, ...]:
        """The folders of a table and of the tables that belong to it."""
        return self.table(name), self.quarantine(name), self.quarantine_decisions(name), self.deleted_keys(name)

    def system(self, name: str) -> str:
        return f"{self.root}/system/{name}"
