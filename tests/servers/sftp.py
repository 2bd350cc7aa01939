"""An SFTP server of the test run, run by an ordinary user, because root ignores permissions."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.servers.fetch import sshd
from tests.servers.maven import free_port, start
from tests.servers.shared import shared

_CONFIGURATION = """Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
PidFile none
UsePAM {pam}
StrictModes no
PasswordAuthentication no
AuthorizedKeysFile {folder}/user.pub
Subsystem sftp internal-sftp
ForceCommand internal-sftp
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SftpServer:
    """A running server that serves the machine's files."""

    port: int
    user: str
    folder: Path

    def drop(self) -> Path:
        """Create a folder that the server's user can write to."""
        found = Path(tempfile.mkdtemp(dir=self.folder / "drops"))
        _give(self.user, found)
        return found

    def settings(self, port: int | None = None) -> dict[str, str]:
        """Return the settings to reach it, directly or through a proxy."""
        host_key = " ".join((self.folder / "host.pub").read_text().split()[:2])
        known = f"[127.0.0.1]:{port or self.port} {host_key}"
        return {"user": self.user, "key_file": str(self.folder / "user"), "known_hosts": known}


@pytest.fixture(scope="session")
def sftp() -> SftpServer:
    """One server for the whole test run; each test has its own folder."""
    return shared("sftp", _start)


def _start(folder: Path) -> tuple[SftpServer, subprocess.Popen[bytes]]:
    user = "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    server = SftpServer(port=free_port(), user=user, folder=folder)
    _furnish(server)
    program = shutil.copytree(sshd(), folder / "program")
    command = [*_as_user(user), str(program / "sshd"), "-D", "-e", "-f", str(folder / "sshd_config")]
    _give(user, folder)
    environment = {"LD_LIBRARY_PATH": str(program)}
    return server, start(command, lambda: _answers(server.port), folder=folder, environment=environment)


def _furnish(server: SftpServer) -> None:
    for name in ("host", "user"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(server.folder / name)]
        subprocess.run(command, check=True, capture_output=True)
    # Without PAM, the server treats an account without a password, such as `nobody`, as locked.
    pam = "yes" if os.geteuid() == 0 else "no"
    configuration = _CONFIGURATION.format(port=server.port, folder=server.folder, pam=pam)
    (server.folder / "sshd_config").write_text(configuration)
    (server.folder / "drops").mkdir()


def _give(user: str, folder: Path) -> None:
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            shutil.chown(path, user)


def _as_user(user: str) -> Sequence[str]:
    if os.geteuid() != 0:
        return ()
    found = pwd.getpwnam(user)
    return ("setpriv", f"--reuid={found.pw_uid}", f"--regid={found.pw_gid}", "--clear-groups")


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
