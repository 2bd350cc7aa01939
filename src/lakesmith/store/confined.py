"""Opens regular files inside a folder, and nothing else.

A listed file may be swapped for a link or a FIFO before it is read. So check and open are one operation: each folder
on the real path is opened from its parent, and no link is followed on the way.
"""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

from lakesmith.errors import DataError

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
"""Non-blocking: opening a FIFO would wait for a writer."""
_NO_LINK = os.O_NOFOLLOW


def is_within(path: str, folder: str) -> bool:
    """Whether a real path is the folder or lies below it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def resolve(location: str, boundary: str | None) -> str:
    """The real path of a file; raises where it leaves the boundary."""
    real = os.path.realpath(location)
    if boundary is not None and not is_within(real, boundary):
        raise _outside(location)
    return real


def open_file(location: str, boundary: str | None) -> BinaryIO:
    """Open a file. Links must not leave the boundary, if there is one."""
    descriptor = os.open(location, _READ) if boundary is None else _descend(resolve(location, boundary), boundary)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DataError(
            "not-a-file",
            f"{location} is not a regular file",
            hint="put a regular file there, or remove it: landing is append-only",
        )
    return os.fdopen(descriptor, "rb")


def _descend(real: str, boundary: str) -> int:
    """Open the real path, step by step from the boundary: a link that was added since is not followed."""
    *folders, name = os.path.relpath(real, boundary).split("/")
    here = os.open(boundary, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | _NO_LINK, dir_fd=here)
            os.close(here)
            here = below
        return os.open(name, _READ | _NO_LINK, dir_fd=here)
    finally:
        os.close(here)


def _outside(location: str) -> DataError:
    return DataError(
        "link-outside",
        f"{location} is a symbolic link that leaves the landing folder",
        hint="put the file itself there, or set `symlinks: anywhere` in the source",
    )
