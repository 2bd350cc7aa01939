"""Local disk as a store whose commit point is a hard link.

Plain `os` calls: listing a landing zone and reading a pinned batch are on the path of every `plan`, and the import of
a storage library alone would cost a quarter of its time budget (see `docs/decisions/0002-local-storage.md`).
"""

from __future__ import annotations

import errno
import glob
import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from lakesmith.errors import InfrastructureError
from lakesmith.ports import FileFact


class LocalStorage:
    """Files below one folder."""

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root)

    def root(self) -> str:
        return str(self._root)

    def location(self, path: str) -> str:
        return os.path.join(self._root, path)

    def list(self, pattern: str) -> Iterator[FileFact]:
        # Spark passes over names that start with '_' or '.': a file that it would not read must not be pinned.
        for name in sorted(glob.iglob(pattern, root_dir=self._root, recursive=True)):
            if any(part.startswith(("_", ".")) for part in Path(name).parts if part not in (".", "/")):
                continue
            path = self.location(name)
            try:
                found = os.stat(path)
            except FileNotFoundError:  # gone since the listing began
                continue
            if not os.path.isdir(path):
                yield FileFact(name, found.st_size, found.st_mtime_ns // 1_000_000)

    def read(self, key: str) -> bytes | None:
        try:
            return (self._root / key).read_bytes()
        except FileNotFoundError:
            return None

    def head(self, path: str, size: int) -> bytes:
        with open(self.location(path), "rb") as file:
            return file.read(size)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        target = self._root / key
        temporary = self._write_beside(target, data)
        try:
            os.link(temporary, target)
        except FileExistsError:
            return False
        except OSError as error:
            raise InfrastructureError(
                "no-put-if-absent",
                f"{target.parent} cannot make hard links ({error.strerror}), so a commit there could be lost",
                hint="use a warehouse on a local disk with hard links (ext4, xfs, apfs, …)",
            ) from error
        finally:
            os.unlink(temporary)
        _sync_folder(target.parent)
        return True

    def replace(self, key: str, data: bytes) -> None:
        target = self._root / key
        os.replace(self._write_beside(target, data), target)
        _sync_folder(target.parent)

    def remove(self, key: str) -> bool:
        try:
            os.unlink(self._root / key)
        except FileNotFoundError:
            return False
        return True

    def keys(self, folder: str) -> Sequence[str]:
        try:
            return sorted(name for name in os.listdir(self._root / folder) if not name.startswith("."))
        except FileNotFoundError:
            return ()

    def probe(self) -> str | None:
        key = f"_lakesmith/probe/{uuid.uuid4().hex}"
        try:
            if not self.put_if_absent(key, b"first"):
                return f"{self._root}: a new file was taken for an old one"
            if self.put_if_absent(key, b"second") or self.read(key) != b"first":
                return f"{self._root}: two writers of one file both won"
            self.remove(key)
        except OSError as error:
            return f"{self._root}: {error.strerror}"
        return None

    def _write_beside(self, target: Path, data: bytes) -> str:
        """Write and sync a temporary file in the target's folder, under a name that listings pass over."""
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            descriptor = _create(temporary)
        except OSError as error:
            raise InfrastructureError(
                "storage-write",
                f"cannot write {target}: {error.strerror}",
                hint="check that the warehouse exists, has room, and may be written by this user",
            ) from error
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return str(temporary)


def _create(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return os.open(path, flags, 0o644)
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags, 0o644)


def _sync_folder(folder: Path) -> None:
    """A new name survives a power cut only once its folder is on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
