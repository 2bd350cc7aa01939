"""An S3 server of the test run."""

from __future__ import annotations

import subprocess
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from tests.servers.fetch import versitygw
from tests.servers.maven import free_port, start
from tests.servers.shared import shared


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """A running server; its buckets are folders."""

    port: int
    folder: Path
    log: Path
    """A line for each request that it answered, in the format of S3's access logs."""
    key: str = "tester"
    secret: str = "not-to-be-shown"

    def bucket(self) -> str:
        """Create a bucket, and return its name."""
        name = f"bucket-{uuid4().hex[:12]}"
        (self.folder / name).mkdir()
        return name

    def settings(self, port: int | None = None) -> dict[str, str]:
        """Return the settings to reach it, directly or through a proxy."""
        endpoint = f"http://127.0.0.1:{port or self.port}"
        return {"endpoint": endpoint, "key": self.key, "secret": self.secret, "region": "us-east-1"}


@pytest.fixture(scope="session")
def s3() -> S3Server:
    """One server for the whole test run; each test has its own bucket."""
    return shared("s3", start_s3)


def start_s3(folder: Path) -> tuple[S3Server, subprocess.Popen[bytes]]:
    buckets, users = folder / "buckets", folder / "users"
    buckets.mkdir()
    users.mkdir()
    server = S3Server(port=free_port(), folder=buckets, log=folder / "access.log")
    options = ["--port", f"127.0.0.1:{server.port}", "--iam-dir", str(users), "--access-log", str(server.log)]
    command = [str(versitygw()), *options, "posix", str(buckets)]
    environment = {"ROOT_ACCESS_KEY": server.key, "ROOT_SECRET_KEY": server.secret}
    return server, start(command, lambda: _answers(server.port), folder=folder, environment=environment)


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2).close()
    except urllib.error.HTTPError as error:  # it runs, and requires a signature
        error.close()
    except OSError:
        return False
    return True
