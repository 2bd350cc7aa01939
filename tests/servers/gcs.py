"""A Google Cloud Storage server of the test run. It reads as Google does; files are written through another API."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pytest
from tests.servers.fetch import fake_gcs
from tests.servers.maven import free_port, start
from tests.servers.shared import shared


@dataclass(frozen=True, slots=True, kw_only=True)
class GcsServer:
    """A running server. Its buckets are in memory."""

    port: int

    def bucket(self) -> str:
        """Create a bucket, and return its name."""
        name = f"bucket-{uuid4().hex[:12]}"
        self._post("/storage/v1/b?project=tests", json.dumps({"name": name}).encode(), "application/json")
        return name

    def put(self, bucket: str, name: str, data: bytes) -> None:
        """Create or overwrite an object: the server has no PUT of obstore's API."""
        path = f"/upload/storage/v1/b/{bucket}/o?uploadType=media&name={quote(name, safe='')}"
        self._post(path, data, "application/octet-stream")

    def settings(self, port: int | None = None) -> dict[str, str]:
        """The settings to connect directly or through a proxy."""
        return {"endpoint": f"http://127.0.0.1:{port or self.port}"}

    def _post(self, path: str, data: bytes, kind: str) -> None:
        url = f"http://127.0.0.1:{self.port}{path}"
        urllib.request.urlopen(urllib.request.Request(url, data, {"Content-Type": kind}), timeout=10).close()


@pytest.fixture(scope="session")
def gcs() -> GcsServer:
    """One server for the whole test run. Each test has its own bucket."""
    return shared("gcs", _start)


def _start(folder: Path) -> tuple[GcsServer, subprocess.Popen[bytes]]:
    server = GcsServer(port=free_port())
    command = [
        *(str(fake_gcs()), "-scheme", "http", "-backend", "memory", "-host", "127.0.0.1", "-port", str(server.port)),
        *("-public-host", f"127.0.0.1:{server.port}"),
    ]
    return server, start(command, lambda: _answers(server.port), folder=folder)


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/storage/v1/b?project=tests", timeout=2).close()
    except OSError:
        return False
    return True
