"""Durable writes to the local disk, and errors of the disk."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from lakesmith.errors import InfrastructureError

_FULL = ("No space left on device", "Disk quota exceeded")
_READ_ONLY = "Read-only file system"
_FAILED = "Input/output error"
_AT_ONCE = 16
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_umasks: dict[str, int] = {}
"""The umask of each folder."""


def sync(path: str | os.PathLike[str]) -> None:
    """Sync a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(paths: Iterable[str]) -> None:
    """Sync files or folders, several at a time: the disk writes their pages and its journal together."""
    pending = list(paths)
    if len(pending) < 2:
        for path in pending:
            sync(path)
        return
    with ThreadPoolExecutor(min(len(pending), _AT_ONCE)) as pool:
        list(pool.map(sync, pending))


def sync_tree(folder: str) -> None:
    """Sync every file and folder below a folder, and the folder itself."""
    sync_all(os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in ("", *names))


def make_folders(folder: str | os.PathLike[str]) -> None:
    """Create a folder and its missing parents, and sync their names."""
    # Not normalised: `landing/../done` needs the folder `landing`.
    path, missing = os.path.join(os.getcwd(), folder), list[str]()
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for path in reversed(missing):
        with suppress(FileExistsError):  # another process was faster, and may not have synced the name yet
            _make_folder(path)
        sync(os.path.dirname(path))


def _make_folder(path: str) -> None:
    umask = _umask_of(path)
    if umask is None:
        os.mkdir(path)
        return
    os.mkdir(path, 0o777 & ~umask)
    # A folder inherits the setgid bit of its parent, with which teams share a warehouse.
    os.chmod(path, (os.stat(path).st_mode & 0o7000) | (0o777 & ~umask))


def set_umask(folder: str | os.PathLike[str], umask: int) -> None:
    """Set the umask for new files and folders in a folder. The umask of the process belongs to its user, and applies
    to all threads."""
    _umasks[os.path.abspath(folder)] = umask


def _umask_of(path: str | os.PathLike[str]) -> int | None:
    folder = os.path.abspath(path)
    while folder not in _umasks:
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return _umasks[folder]


def create(path: str | os.PathLike[str]) -> int:
    """Create a file that does not exist; return its descriptor."""
    umask = _umask_of(path)
    if umask is None:
        return os.open(path, _NEW, 0o666)
    descriptor = os.open(path, _NEW, 0o666 & ~umask)
    os.fchmod(descriptor, 0o666 & ~umask)  # whatever the umask of the process is
    return descriptor


def write_new(path: str | os.PathLike[str], content: bytes) -> None:
    """Create a file that does not exist, with this content."""
    with os.fdopen(create(path), "wb") as file:
        file.write(content)


def disk_failure(reason: str, doing: str) -> InfrastructureError | None:
    """The error for a disk that is full, read-only or broken; None for other reasons. The system's messages are the
    same in Python, Java and Rust."""
    if any(word in reason for word in _FULL):
        return InfrastructureError(
            "disk-full",
            f"{doing}: the disk is full",
            hint="free space on the disk, then run again: nothing is lost or duplicated",
        )
    if _READ_ONLY in reason:
        return InfrastructureError(
            "storage-write",
            f"{doing}: the disk is read-only",
            hint="make it writable (mount -o remount,rw), then run again: nothing is lost or duplicated",
        )
    if _FAILED in reason:
        return InfrastructureError(
            "disk-failed",
            f"{doing}: the disk failed (input/output error)",
            hint="check the disk (dmesg, smartctl) and repair it, then run again: nothing is lost or duplicated",
        )
    return None
