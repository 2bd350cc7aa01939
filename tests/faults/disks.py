"""Disks of a test's own, which can be full or locked: real ones, so that Python, Java and Rust see the same."""

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
        """Leave no room on it."""
        with self._filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(_BLOCK)
            except OSError:
                return

    def free(self) -> None:
        """Make room again."""
        self._filler.unlink(missing_ok=True)

    def lock(self) -> None:
        """From now on it may only be read."""
        _call("mount", "-o", "remount,ro", str(self.folder))

    def unlock(self) -> None:
        _call("mount", "-o", "remount,rw", str(self.folder))


@contextmanager
def disk_at(folder: Path, size: str = "16m") -> Iterator[Disk]:
    """A disk in place of a folder, with what the folder holds."""
    kept = folder.with_name(f"{folder.name}.kept")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(folder, kept)
    _call("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))
    try:
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        shutil.rmtree(kept)
        yield Disk(folder)
        # What was written to the disk is there without it too.
        shutil.copytree(folder, kept)
    finally:
        _call("umount", "--lazy", str(folder))
    shutil.rmtree(folder)
    kept.rename(folder)


def _call(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def is_root() -> bool:
    """Whether disks can be mounted here."""
    return os.geteuid() == 0
