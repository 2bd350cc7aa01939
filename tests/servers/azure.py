"""An Azure blob server of the test run's own."""

from __future__ import annotations

import itertools
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.servers.fetch import azurite
from tests.servers.maven import free_port, started

_NUMBERS = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureServer:
    """A running server with the account that every such server has."""

    port: int
    account: str = "devstoreaccount1"
    account_key: str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    def container(self) -> str:
        """Make a container, and return its name."""
        from azure.storage.blob import BlobServiceClient

        name = f"container{next(_NUMBERS)}"
        with BlobServiceClient(self.settings()["endpoint"], credential=self.account_key) as service:
            service.create_container(name).close()
        return name

    def settings(self, port: int | None = None) -> dict[str, str]:
        """How it is reached, directly or through a proxy."""
        endpoint = f"http://127.0.0.1:{port or self.port}/{self.account}"
        return {"account": self.account, "account_key": self.account_key, "endpoint": endpoint}


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    """One server for the whole test run; each test has a container of its own."""
    folder = tmp_path_factory.mktemp("azure")
    server = AzureServer(port=free_port())
    command = [
        *(str(azurite()), "--silent", "--location", str(folder), "--blobHost", "127.0.0.1"),
        *("--blobPort", str(server.port), "--skipApiVersionCheck", "--disableTelemetry"),
    ]
    with started(command, lambda: _answers(server.port), folder=folder):
        yield server


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2).close()
    except urllib.error.HTTPError as refusal:  # it is there, and asks for a signature
        refusal.close()
    except OSError:
        return False
    return True
