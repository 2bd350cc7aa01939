"""The stores under test, each with a folder per test."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.servers.azure import AzureServer
from tests.servers.proxy import Proxy
from tests.servers.s3 import S3Server
from tests.servers.sftp import SftpServer

from lakesmith.ports import Store
from lakesmith.store import open_store

REMOTE = ("s3", "azure", "sftp")
"""The writable stores; a web server is read-only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A URL in a real store and its settings."""

    url: str
    settings: dict[str, dict[str, str]]
    port: int
    """The port of the server."""
    wrong: dict[str, str]
    """Settings that the server rejects."""
    through: Callable[[int], Place]
    """Return the same place through another port."""

    def open(self) -> Store:
        return open_store(self.url, self.settings)

    def open_denied(self) -> Store:
        (root,) = self.settings
        return open_store(self.url, {root: self.settings[root] | self.wrong})

    def behind(self, proxy: Proxy) -> Store:
        return self.through(proxy.port).open()


def make_place(kind: str, request: pytest.FixtureRequest) -> Place:
    """Create a new place in a store of this kind."""
    match kind:
        case "s3":
            s3: S3Server = request.getfixturevalue("s3")
            return _place(f"s3://{s3.bucket()}", "/in", s3.port, s3.settings, {"secret": "another"})
        case "azure":
            azure: AzureServer = request.getfixturevalue("azure")
            return _place(f"az://{azure.container()}", "/in", azure.port, azure.settings, {"account_key": "YWJj"})
        case _:
            sftp: SftpServer = request.getfixturevalue("sftp")
            folder, own = sftp.drop(), sftp.folder / "host"

            def through(port: int) -> Place:
                root = f"sftp://127.0.0.1:{port}"
                settings = {root: sftp.settings(port)}
                wrong = {"key_file": str(own)}
                return Place(url=root + str(folder), settings=settings, port=sftp.port, wrong=wrong, through=through)

            return through(sftp.port)


def _place(root: str, path: str, port: int, settings: Callable[[int], dict[str, str]], wrong: dict[str, str]) -> Place:
    def through(other: int) -> Place:
        return Place(url=root + path, settings={root: settings(other)}, port=port, wrong=wrong, through=through)

    return through(port)


def put(storage: Store, key: str, data: bytes = b"{}") -> None:
    assert storage.put_file(key, io.BytesIO(data), size=len(data), on_progress=lambda sent: None)


def names(folder: Path) -> list[str]:
    """Return every file below a folder, also hidden ones."""
    return sorted(path.name for path in folder.rglob("*") if path.is_file())
