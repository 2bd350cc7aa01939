"""An Azure blob server of the test run."""

from __future__ import annotations

import base64
import hmac
import subprocess
import urllib.error
import urllib.request
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote
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
        name = f"container-{uuid4().hex[:12]}"
        self.request("PUT", f"/{self.account}/{name}", "restype:container")
        return name

    def put_marker(self, container: str, name: str) -> None:
        """Create an empty blob that stands for a folder."""
        self.request("PUT", f"/{self.account}/{container}/{quote(name)}", **{"x-ms-meta-hdi_isfolder": "true"})

    def request(self, method: str, path: str, query: str = "", **more: str) -> None:
        """Send a request that the account's key signs."""
        headers = {
            "x-ms-blob-type": "BlockBlob",
            "x-ms-date": formatdate(usegmt=True),
            **more,
            "x-ms-version": "2021-12-02",
        }
        signed = "".join(f"{name}:{value}\n" for name, value in headers.items())
        parts = [method, "", "", "", "", "application/octet-stream", *[""] * 6]
        text = "\n".join(parts) + f"\n{signed}/{self.account}{path}" + (f"\n{query}" if query else "")
        digest = hmac.digest(base64.b64decode(self.account_key), text.encode(), "sha256")
        headers["Authorization"] = f"SharedKey {self.account}:{base64.b64encode(digest).decode()}"
        headers["Content-Type"] = "application/octet-stream"
        url = f"http://127.0.0.1:{self.port}{path}?{query.replace(':', '=')}"
        request = urllib.request.Request(url, b"", headers, method=method)
        urllib.request.urlopen(request, timeout=10).close()

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
