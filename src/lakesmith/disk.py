"""What has to survive a power cut."""

from __future__ import annotations

import os


def sync(path: str | os.PathLike[str]) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
