"""A warehouse: where each table of a lake lies, and where Lakesmith keeps what it has to remember."""

from __future__ import annotations

from urllib.parse import urlsplit

from lakesmith.declare import TableName
from lakesmith.errors import DeclarationError
from lakesmith.ports import Storage
from lakesmith.storage.local import LocalStorage


def open_storage(url: str) -> Storage:
    """The store behind a folder or URL."""
    scheme = urlsplit(url).scheme
    if scheme in ("", "file"):
        return LocalStorage(url.removeprefix("file://"))
    raise DeclarationError(
        "unknown-storage",
        f"'{scheme}://' storage is not supported",
        hint="use a folder on local disk",
    )


class Warehouse:
    """The folders of a lake below one root. Locations are made from validated names only."""

    def __init__(self, url: str) -> None:
        self.storage = open_storage(url)
        self.root = self.storage.root().rstrip("/")

    def table(self, name: TableName) -> str:
        return f"{self.root}/{name.layer}/{name.name}"

    def quarantine(self, name: TableName) -> str:
        return f"{self.root}/quarantine/{name.layer}/{name.name}"

    def system(self, name: str) -> str:
        return f"{self.root}/system/{name}"
