"""The private folder for Spark's temporary files. Sessions empty it; a later run removes it after a kill."""

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
"""A process locks its folder at once. After this number of seconds, a folder without a lock counts as abandoned."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """A folder of this process and of the JVM that it starts."""

    folder: str
    lock: int
    """The descriptor of a locked file. The JVM inherits it, so the lock is released when both processes have ended."""
    process: int

    def clear(self) -> None:
        """Remove the files of past sessions. The JVM still runs, and its next session needs the folder."""
        _clear(self.folder)

    def remove(self) -> None:
        if self.process == os.getpid():  # and not in a fork
            shutil.rmtree(self.folder, ignore_errors=True)


_own: list[Scratch] = []
"""At most one: a process has one JVM, whose folder cannot change."""


def own_scratch() -> Scratch:
    """The folder of this process. Removes folders that dead processes of this user have left."""
    if not _own or _own[0].process != os.getpid():
        _sweep(tempfile.gettempdir())
        made = tempfile.mkdtemp(prefix=_UNFINISHED + _PREFIX)
        lock = os.open(os.path.join(made, _LOCK), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Renamed only when locked, so that no other process removes it as abandoned.
        folder = os.path.join(os.path.dirname(made), os.path.basename(made).removeprefix(_UNFINISHED))
        os.rename(made, folder)
        scratch = Scratch(folder, lock, os.getpid())
        atexit.register(scratch.remove)
        _own[:] = [scratch]
    return _own[0]


def clear_own_scratch() -> None:
    """Remove the files of this process's past sessions, if it has a folder."""
    for scratch in _own:
        if scratch.process == os.getpid():
            scratch.clear()


def _sweep(parent: str) -> None:
    with os.scandir(parent) as entries:
        found = [entry for entry in entries if entry.name.startswith(_PREFIX)]
    for entry in found:
        with suppress(OSError):  # another process may remove it at the same time
            if _is_own_folder(entry) and _is_abandoned(entry.path):
                _clear(entry.path)  # the lock is removed last, because a folder without it looks new
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
    with suppress(FileNotFoundError), os.scandir(folder) as entries:  # the system may clean the temporary folder
        found = [entry for entry in entries if entry.name != _LOCK]
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            with suppress(OSError):  # the JVM removes some files itself
                os.unlink(entry.path)
