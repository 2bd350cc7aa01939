"""The warehouse: the folders of a lake's tables and of Lakesmith's own files."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lakesmith.declare import PRIVATE, TableName
from lakesmith.disk import set_umask
from lakesmith.ports import Store, TableFolder
from lakesmith.store.access import RemoteFolder, find_access, is_remote
from lakesmith.store.local import LocalStore
from lakesmith.store.object_store import ObjectStore
from lakesmith.store.remote import RemoteStore

_NO_SETTINGS: Mapping[str, Mapping[str, str]] = MappingProxyType({})


def open_store(url: str, settings: Mapping[str, Mapping[str, str]] = _NO_SETTINGS) -> Store:
    """The store of a folder or URL. `settings` are by URL prefix; the longest match wins."""
    if is_remote(url):
        return store_of(find_access(url, settings))
    return LocalStore(url.removeprefix("file://"))


def store_of(folder: RemoteFolder) -> Store:
    """The store of a folder of a bucket, container or server."""
    return (ObjectStore if folder.access.kind in ("s3", "az", "gs") else RemoteStore)(folder)


def folder_at(url: str, settings: Mapping[str, Mapping[str, str]] = _NO_SETTINGS) -> TableFolder:
    """The folder of a table that may lie outside of the warehouse."""
    if is_remote(url):
        folder = find_access(url, settings)
        return TableFolder(store_of(RemoteFolder(folder.access)), folder.path)
    parent, _, name = url.removeprefix("file://").rstrip("/").rpartition("/")
    return TableFolder(
        LocalStore(
            parent or ("/" if url.startswith("/") else "."),
        ),
        name,
    )


class Warehouse:
    """The folders of a lake below one root. Their names are made from validated names only.

    `adopted` are the folders of tables that the lake only reads. `umask` holds the permissions that new files and
    folders do not get. `settings` are those of remote stores.
    """

    def __init__(
        self,
        url: str,
        adopted: Mapping[TableName, str] | None = None,
        umask: int = PRIVATE,
        settings: Mapping[str, Mapping[str, str]] = _NO_SETTINGS,
    ) -> None:
        self.store = open_store(url, settings)
        if not is_remote(url):
            set_umask(self.store.url, umask)
        self._adopted = {name: folder_at(location, settings) for name, location in (adopted or {}).items()}

    def folder(self, path: str) -> TableFolder:
        """A folder of the warehouse."""
        return TableFolder(self.store, path)

    def table(self, name: TableName) -> TableFolder:
        return self._adopted.get(name) or self.folder(f"{name.layer}/{name.name}")

    def quarantine(self, name: TableName) -> TableFolder:
        return self.folder(f"quarantine/{name.layer}/{name.name}")

    def quarantine_decisions(self, name: TableName) -> TableFolder:
        """The folder of the table with decisions about quarantined rows."""
        return self.folder(f"quarantine_decisions/{name.layer}/{name.name}")

    def held(self, name: TableName) -> TableFolder:
        """The folder of the batch that a gate holds."""
        return self.folder(f"_lakesmith/held/{name}")

    def deleted_keys(self, name: TableName) -> TableFolder:
        """The folder of the table with the deleted keys of a table."""
        return self.folder(f"deleted_keys/{name.layer}/{name.name}")

    def tables_of(self, name: TableName) -> tuple[TableFolder, ...]:
        """The folders of a table and of the tables that belong to it."""
        return self.table(name), self.quarantine(name), self.quarantine_decisions(name), self.deleted_keys(name)

    def system(self, name: str) -> TableFolder:
        return self.folder(f"system/{name}")
