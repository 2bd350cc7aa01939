"""Opens a file for reading so that nothing but a regular file is read, and none outside of a folder.

What was listed may be swapped for a link or a FIFO before it is read. The check and the open are therefore one: each
folder on the real path is opened from the one above it, and no link is followed on the way.
"""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

from lakesmith.errors import DataError

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
"""Without waiting: to open a FIFO would take until somebody writes to it."""
_STAY = os.O_NOFOLLOW


def is_within(path: str, folder: str) -> bool:
    """Whether a real path is a folder's or lies below it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def resolve(location: str, boundary: str | None) -> str:
    """The real path of a file, which has to lie below the boundary."""
    real = os.path.realpath(location)
    if boundary is not None and not is_within(real, boundary):
        raise _outside(location)
    return real


def open_file(location: str, boundary: str | None) -> BinaryIO:
    """The file's bytes; links lead to it only below the boundary, or anywhere when there is none."""
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
    """Open the real path, step by step from the boundary: a link that was put there since is not followed."""
    *folders, name = os.path.relpath(real, boundary).split("/")
    here = os.open(boundary, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | _STAY, dir_fd=here)
            os.close(here)
            here = below
        return os.open(name, _READ | _STAY, dir_fd=here)
    finally:
        os.close(here)


def _outside(location: str) -> DataError:
    return DataError(
        "link-outside",
        f"{location} is a symbolic link that leaves the landing folder",
        hint="put the file itself there, or set `symlinks: anywhere` in the source",
    )
