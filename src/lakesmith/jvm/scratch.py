"""The folder for Spark's temporary files: private, emptied with the session, removed by a later run after a kill."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass

_PREFIX = "lakesmith-spark-"
_UNFINISHED = "new-"
_LOCK = "lock"
_UNLOCKED = 86_400
"""A process that has made a folder locks it at once: one without a lock is abandoned after so many seconds."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """A folder of this process and of the JVM that it starts."""

    folder: str
    lock: int
    """The descriptor of a locked file. The JVM inherits it: the lock is free once both processes have ended."""
    process: int

    def clear(self) -> None:
        """Remove what sessions have left. The JVM lives on, and its next session needs the folder."""
        _clear(self.folder)

    def remove(self) -> None:
        if self.process == os.getpid():  # and not in a fork
            shutil.rmtree(self.folder, ignore_errors=True)


_own: list[Scratch] = []
"""One at the most: a process has one JVM, whose folder cannot change."""


def own_scratch() -> Scratch:
    """The folder of this process. What dead processes of this user have left is removed."""
    if not _own or _own[0].process != os.getpid():
        _sweep(tempfile.gettempdir())
        made = tempfile.mkdtemp(prefix=_UNFINISHED + _PREFIX)
        lock = os.open(os.path.join(made, _LOCK), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Renamed once it is locked: another process would take it for abandoned before.
        folder = os.path.join(os.path.dirname(made), os.path.basename(made).removeprefix(_UNFINISHED))
        os.rename(made, folder)
        scratch = Scratch(folder, lock, os.getpid())
        atexit.register(scratch.remove)
        _own[:] = [scratch]
    return _own[0]


def clear_own_scratch() -> None:
    """Remove what sessions of this process have left, if it has a folder."""
    for scratch in _own:
        if scratch.process == os.getpid():
            scratch.clear()


def _sweep(parent: str) -> None:
    with os.scandir(parent) as entries:
        found = [entry for entry in entries if entry.name.startswith(_PREFIX)]
    for entry in found:
        with suppress(OSError):  # another process sweeps, too
            if _is_own_folder(entry) and _is_abandoned(entry.path):
                _clear(entry.path)  # the lock goes last: whatever is left without it looks new
                shutil.rmtree(entry.path, ignore_errors=True)


def _is_own_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_uid == os.getuid()


def _is_abandoned(folder: str) -> bool:
    try:
        lock = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return time.time() - os.stat(folder).st_mtime > _UNLOCKED
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def _clear(folder: str) -> None:
    found: list[os.DirEntry[str]] = []
    with suppress(FileNotFoundError), os.scandir(folder) as entries:  # somebody may clean the temporary folder
        found = [entry for entry in entries if entry.name != _LOCK]
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            with suppress(OSError):  # the JVM removes some files itself
                os.unlink(entry.path)
