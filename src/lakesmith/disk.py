"""The disk: what has to survive a power cut, and what it says when it cannot do what it is asked."""

from __future__ import annotations

import os

from lakesmith.errors import InfrastructureError

_FULL = ("No space left on device", "Disk quota exceeded")
_LOCKED = "Read-only file system"
_FAILED = "Input/output error"


def sync(path: str | os.PathLike[str]) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_synced(path: str | os.PathLike[str], content: bytes) -> None:
    """Make a file that was not there, and bring it to the disk; its name may not survive a power cut yet."""
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


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
