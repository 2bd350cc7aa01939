"""An S3 server of the test run's own."""

from __future__ import annotations

import itertools
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.servers.fetch import versitygw
from tests.servers.maven import free_port, started

_NUMBERS = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """A running server; its buckets are folders."""

    port: int
    folder: Path
    key: str = "tester"
    secret: str = "not-to-be-shown"

    def bucket(self) -> str:
        """Make a bucket, and return its name."""
        name = f"bucket{next(_NUMBERS)}"
        (self.folder / name).mkdir()
        return name

    def settings(self, port: int | None = None) -> dict[str, str]:
        """How it is reached, directly or through a proxy."""
        endpoint = f"http://127.0.0.1:{port or self.port}"
        return {"endpoint": endpoint, "key": self.key, "secret": self.secret, "region": "us-east-1"}


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One server for the whole test run; each test has a bucket of its own."""
    folder, users = tmp_path_factory.mktemp("s3"), tmp_path_factory.mktemp("s3-users")
    server = S3Server(port=free_port(), folder=folder)
    command = [str(versitygw()), "--port", f"127.0.0.1:{server.port}", "--iam-dir", str(users), "posix", str(folder)]
    environment = {"ROOT_ACCESS_KEY": server.key, "ROOT_SECRET_KEY": server.secret}
    with started(command, lambda: _answers(server.port), folder=users, environment=environment):
        yield server


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2).close()
    except urllib.error.HTTPError as refusal:  # it is there, and asks for a signature
        refusal.close()
    except OSError:
        return False
    return True
