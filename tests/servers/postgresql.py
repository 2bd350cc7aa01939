"""A PostgreSQL of the test run, with a password, and a new database for each test."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from tests.servers.maven import free_port, start
from tests.servers.shared import shared

USER = "lakesmith"
PASSWORD = "pa$$ w'rd"


@dataclass(frozen=True)
class Database:
    """One database of the server."""

    port: int
    name: str

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{self.name}"

    def sql(self, text: str) -> str:
        """Run statements, each in its own transaction; return their rows as lines."""
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
def postgresql() -> Database:
    """The server's own database; a server that does not start fails the test."""
    return shared("postgresql", _start)


@pytest.fixture
def database(postgresql: Database) -> Database:
    """A separate database for the test."""
    name = f"shop_{uuid4().hex[:12]}"
    postgresql.sql(f"CREATE DATABASE {name}")
    return Database(postgresql.port, name)


def _start(folder: Path) -> tuple[Database, subprocess.Popen[bytes]]:
    data, password = folder / "data", folder / "password"
    password.write_text(PASSWORD)
    # The server does not run as root.
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
    port = free_port()
    settings = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
    words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    command = [_program("postgres"), "-D", str(data), *words]
    return Database(port, "postgres"), start(command, lambda: _answers(port), folder=folder, user=user)


def _answers(port: int) -> bool:
    command = ["pg_isready", "-h", "127.0.0.1", "-p", str(port), "-t", "1"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _program(name: str) -> str:
    """Return the folder of the newest server programs, which is outside of PATH in Debian."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: float(path.parts[-3]))
    program = str(found[-1]) if found else shutil.which(name)
    assert program, f"{name} is not installed: apt-get install postgresql"
    return program
