"""Private disks of a test, which can be full or read-only. They are real: Python, Java and Rust see the same."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_BLOCK = b"\0" * 4096


@dataclass(frozen=True)
class Disk:
    """A small disk that is mounted at a folder."""

    folder: Path

    @property
    def _filler(self) -> Path:
        return self.folder / ".filler"

    def fill(self) -> None:
        """Fill the disk."""
        with self._filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(_BLOCK)
            except OSError:
                return

    def free(self) -> None:
        """Free the space again."""
        self._filler.unlink(missing_ok=True)

    def lock(self) -> None:
        """Make the disk read-only."""
        _call("mount", "-o", "remount,ro", str(self.folder))

    def unlock(self) -> None:
        _call("mount", "-o", "remount,rw", str(self.folder))


@contextmanager
def disk_at(folder: Path, size: str = "16m") -> Iterator[Disk]:
    """Mount a disk over a folder, with the folder's content."""
    copy = folder.with_name(f"{folder.name}.copy")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(folder, copy)
    _call("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        shutil.copytree(copy, folder, dirs_exist_ok=True)
        shutil.rmtree(copy)
        yield Disk(folder)
        # Copy what was written to the disk back to the folder.
        shutil.copytree(folder, copy)
    finally:
        _call("umount", "--lazy", str(folder))
    shutil.rmtree(folder)
    copy.rename(folder)


def _call(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def is_root() -> bool:
    """Return whether this process can mount disks."""
    return os.geteuid() == 0
