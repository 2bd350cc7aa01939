"""Servers that all processes of a test run share: the first test that needs one starts it, the run stops it."""

from __future__ import annotations

import fcntl
import os
import pickle
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

import pytest

Server = TypeVar("Server")

_FOLDER = "LAKESMITH_TEST_SERVERS"
"""The environment variable with the folder of the run's servers; pytest-xdist's processes inherit it."""

_STARTED: list[subprocess.Popen[bytes]] = []
"""The servers that this process started."""


def shared(name: str, start: Callable[[Path], tuple[Server, subprocess.Popen[bytes]]]) -> Server:
    """Return the server of this name. The first caller of the run starts it, in a folder that exists during the run."""
    folder = Path(os.environ[_FOLDER]) / name
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        described = folder / "server.pickle"
        if not described.exists():
            # Retry a failed start of another process from scratch.
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            server, process = start(folder)
            _STARTED.append(process)
            (folder / "pid").write_text(str(process.pid))
            described.write_bytes(pickle.dumps(server))
        return cast("Server", pickle.loads(described.read_bytes()))


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        folder = tempfile.mkdtemp(prefix="lakesmith-servers-")
        # Some servers do not run as root, and their user must be able to read their folders.
        os.chmod(folder, 0o755)
        os.environ[_FOLDER] = folder


def pytest_unconfigure(config: pytest.Config) -> None:
    for process in _STARTED:
        # The run stops it, not this process, so suppress Python's warning about a running child.
        process.returncode = 0
    if not hasattr(config, "workerinput") and (folder := os.environ.pop(_FOLDER, None)):
        for pid in Path(folder).glob("*/pid"):
            _stop(int(pid.read_text()))
        shutil.rmtree(folder, ignore_errors=True)


def _stop(pid: int) -> None:
    """Kill a process whose parent may have ended, so that it cannot be waited for."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        for number, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
            signal.pidfd_send_signal(process, number)
            if select.select([process], [], [], patience)[0]:
                return
    finally:
        os.close(process)
