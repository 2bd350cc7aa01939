"""An Azure blob server of the test run."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from tests.servers.fetch import azurite
from tests.servers.maven import free_port, start
from tests.servers.shared import shared


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureServer:
    """A running server with its standard account."""

    port: int
    account: str = "devstoreaccount1"
    account_key: str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    def container(self) -> str:
        """Create a container, and return its name."""
        from azure.storage.blob import BlobServiceClient

        name = f"container-{uuid4().hex[:12]}"
        with BlobServiceClient(self.settings()["endpoint"], credential=self.account_key) as service:
            service.create_container(name).close()
        return name

    def settings(self, port: int | None = None) -> dict[str, str]:
        """Return the settings to reach it, directly or through a proxy."""
        endpoint = f"http://127.0.0.1:{port or self.port}/{self.account}"
        return {"account": self.account, "account_key": self.account_key, "endpoint": endpoint}


@pytest.fixture(scope="session")
def azure() -> AzureServer:
    """One server for the whole test run; each test has its own container."""
    return shared("azure", _start)


def _start(folder: Path) -> tuple[AzureServer, subprocess.Popen[bytes]]:
    server = AzureServer(port=free_port())
    command = [
        *(str(azurite()), "--silent", "--location", str(folder), "--blobHost", "127.0.0.1"),
        *("--blobPort", str(server.port), "--skipApiVersionCheck", "--disableTelemetry"),
    ]
    return server, start(command, lambda: _answers(server.port), folder=folder)


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2).close()
    except urllib.error.HTTPError as error:  # it runs, and requires a signature
        error.close()
    except OSError:
        return False
    return True
