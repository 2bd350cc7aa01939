"""The disk: what has to survive a power cut, and what it says when it cannot do what it is asked."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from lakesmith.errors import InfrastructureError

_FULL = ("No space left on device", "Disk quota exceeded")
_LOCKED = "Read-only file system"
_FAILED = "Input/output error"
_AT_ONCE = 16
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_umasks: dict[str, int] = {}
"""By folder."""


def sync(path: str | os.PathLike[str]) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(paths: Iterable[str]) -> None:
    """Sync files or folders, several at a time: a disk writes their pages and its journal together."""
    wanted = list(paths)
    if len(wanted) < 2:
        for path in wanted:
            sync(path)
        return
    with ThreadPoolExecutor(min(len(wanted), _AT_ONCE)) as pool:
        list(pool.map(sync, wanted))


def sync_tree(folder: str) -> None:
    """Sync every file below a folder, and the folders themselves."""
    sync_all(os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in ("", *names))


def make_folders(folder: str | os.PathLike[str]) -> None:
    """Make a folder, and the missing ones above it, such that their names survive a power cut."""
    # Not normalised: `landing/../done` needs the folder `landing`.
    path, missing = os.path.join(os.getcwd(), folder), list[str]()
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for path in reversed(missing):
        with suppress(FileExistsError):  # somebody else was faster, and may not have synced its name yet
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
    """Make files and folders from now on without some permissions: this folder, and all below it. The umask of the
    process belongs to whoever runs it, and holds for all its threads."""
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
    """Create a file that does not exist; returns its descriptor."""
    umask = _umask_of(path)
    if umask is None:
        return os.open(path, _NEW, 0o666)
    descriptor = os.open(path, _NEW, 0o666 & ~umask)
    os.fchmod(descriptor, 0o666 & ~umask)  # whatever the umask of the process is
    return descriptor


def write_new(path: str | os.PathLike[str], content: bytes) -> None:
    """Create a file with a content."""
    with os.fdopen(create(path), "wb") as file:
        file.write(content)


def disk_failure(said: str, doing: str) -> InfrastructureError | None:
    """The error for a disk that is full, may not be written or fails, whoever met it: the system's words are the same
    in Python, Java and Rust. None where it is not about the disk."""
    if any(word in said for word in _FULL):
        return InfrastructureError(
            "disk-full",
            f"{doing}: the disk is full",
            hint="make room on the disk, then run again: nothing is lost or doubled",
        )
    if _LOCKED in said:
        return InfrastructureError(
            "storage-write",
            f"{doing}: the disk may only be read",
            hint="let it be written again (mount -o remount,rw), then run again: nothing is lost or doubled",
        )
    if _FAILED in said:
        return InfrastructureError(
            "disk-failed",
            f"{doing}: the disk failed (input/output error)",
            hint="look at the disk (dmesg, smartctl) and mend it, then run again: nothing is lost or doubled",
        )
    return None
