"""A PostgreSQL of the test run's own, with a password, and a fresh database for each test that asks."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

USER = "lakesmith"
PASSWORD = "pa$$ w'rd"
_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Database:
    """One database of the server."""

    port: int
    name: str

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{self.name}"

    def sql(self, text: str) -> str:
        """Run statements, each committed by itself; what they answer, a row a line."""
        command = ["psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", self.name, "-qAtX"]
        environment = {**os.environ, "PGPASSWORD": PASSWORD, "PGTZ": "UTC"}
        answer = subprocess.run(
            [*command, "-v", "ON_ERROR_STOP=1"],
            input=text,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        return answer.stdout.strip()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Database]:
    """The server's own database; a server that does not start fails the test."""
    # Not below pytest's folders: those are closed to the user that the server has to run as.
    folder = Path(tempfile.mkdtemp(prefix="lakesmith-postgresql-"))
    try:
        yield from _serve(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database(postgresql: Database) -> Database:
    """A database of the test's own."""
    name = f"shop{next(_NUMBERS)}"
    postgresql.sql(f"CREATE DATABASE {name}")
    return Database(postgresql.port, name)


def _serve(folder: Path) -> Iterator[Database]:
    data, password = folder / "data", folder / "password"
    password.write_text(PASSWORD)
    # The server refuses to run as root.
    user = "nobody" if os.geteuid() == 0 else None
    if user:
        for path in (folder, password):
            shutil.chown(path, user)
    made = subprocess.run(
        [
            *(_program("initdb"), "-D", str(data), "-U", USER, "--auth=scram-sha-256", f"--pwfile={password}"),
            *("--encoding=UTF8", "--locale=C", "--no-sync"),
        ],
        user=user,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    port = _free_port()
    settings = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
    words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    log = folder / "log"
    with log.open("w") as stream:
        server = subprocess.Popen(
            [_program("postgres"), "-D", str(data), *words], user=user, cwd=folder, stdout=stream, stderr=stream
        )
    try:
        _wait(server, port, log)
        yield Database(port, "postgres")
    finally:
        server.terminate()
        server.wait(timeout=30)


def _wait(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    for _ in range(100):
        assert server.poll() is None, log.read_text()
        answer = subprocess.run(
            ["pg_isready", "-h", "127.0.0.1", "-p", str(port), "-t", "1"], capture_output=True, check=False
        )
        if answer.returncode == 0:
            return
        try:
            server.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(f"PostgreSQL did not answer: {log.read_text()}")


def _program(name: str) -> str:
    """The server's programs lie outside PATH in Debian; the newest version's are taken."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
    program = str(found[-1]) if found else shutil.which(name)
    assert program, f"{name} is not installed: apt-get install postgresql"
    return program


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
