"""Local disk as a store whose commit point is a hard link.

Plain `os` calls: listing a landing zone and reading a pinned batch are on the path of every `plan`, and the import of
a storage library alone would cost a quarter of its time budget (see `docs/decisions/0002-local-storage.md`).
"""

from __future__ import annotations

import filecmp
import os
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from lakesmith.disk import create, disk_failure, make_folders, sync
from lakesmith.errors import InfrastructureError
from lakesmith.ports import FileFact
from lakesmith.storage.globs import Glob, walk
from lakesmith.storage.wrong import archive_taken, file_gone, file_rewritten, probe_put_if_absent

_CHUNK = 1024 * 1024


class LocalStorage:
    """Files below one folder."""

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root)

    def root(self) -> str:
        return str(self._root)

    def location(self, path: str) -> str:
        return os.path.join(self._root, path)

    def list(
        self, pattern: str, known: Mapping[str, FileFact] | None = None, after: str | None = None
    ) -> Iterator[FileFact]:
        known_as = ({} if known is None else known).get
        found: set[FileFact] = set()
        for path, entry in self._matching(Glob(pattern), after):
            before = known_as(path)
            try:
                status = entry.stat()
            except FileNotFoundError:  # gone since the listing began
                continue
            # Most files are known: nothing is made for them, so that a listing costs little more than the calls.
            if (
                before is not None
                and before.size == status.st_size
                and before.modified == status.st_mtime_ns // 1_000_000
            ):
                continue
            if stat.S_ISREG(status.st_mode):
                found.add(FileFact(path, status.st_size, status.st_mtime_ns // 1_000_000))
        return iter(sorted(found))

    def _matching(self, glob: Glob, after: str | None) -> Iterator[tuple[str, os.DirEntry[str] | Path]]:
        if not glob.is_path:
            return walk(glob, self._children, after)
        if after is not None and glob.text <= after:
            return iter(())
        return iter([(glob.text, Path(self.location(glob.text)))])

    def _children(self, folder: str, deep: bool) -> Iterator[tuple[str, bool, os.DirEntry[str]]]:
        try:
            descriptor = os.open(self.location(folder), os.O_RDONLY | os.O_DIRECTORY)
        except (FileNotFoundError, NotADirectoryError):
            return
        except PermissionError as error:
            raise _denied(self.location(folder), "list") from error
        except OSError as error:
            what = f"{self.location(folder)} cannot be listed: {error.strerror}"
            raise InfrastructureError("storage-failed", what, hint="look at the folder and at its disk") from error
        try:
            # Through the open folder, so that the path to it is not looked up anew for each file.
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    yield entry.name, entry.is_dir(follow_symlinks=not deep), entry
        finally:
            os.close(descriptor)

    def read(self, key: str) -> bytes | None:
        try:
            return (self._root / key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unread(self.location(key), error) from error

    def open(self, path: str, as_of: FileFact | None = None) -> BinaryIO:
        location = self.location(path)
        try:
            file = open(location, "rb")  # noqa: SIM115 - the caller closes it
        except FileNotFoundError as error:
            raise file_gone(location) from error
        except OSError as error:
            raise _unread(location, error) from error
        status = os.fstat(file.fileno())
        if as_of and (as_of.size, as_of.modified) != (status.st_size, status.st_mtime_ns // 1_000_000):
            file.close()
            raise file_rewritten(location)
        return file

    def head(self, path: str, size: int) -> bytes:
        with self.open(path) as file:
            return file.read(size)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        return self._link_new(self._root / key, [data])

    def put_file(self, key: str, file: BinaryIO, *, size: int, tell: Callable[[int], None]) -> bool:
        return self._link_new(self._root / key, _chunks(file, tell))

    def replace(self, key: str, data: bytes) -> None:
        target = self._root / key
        temporary = self._write_beside(target, [data])
        try:
            os.replace(temporary, target)
            sync(target.parent)
        except OSError as error:
            _discard(Path(temporary))
            raise _unwritten(target, error) from error

    def move(self, path: str, to: str) -> None:
        source, target = self.location(path), self.location(to)
        try:
            make_folders(Path(target).parent)
            os.link(source, target)
            sync(target)
            sync(Path(target).parent)  # the new name has to survive before the old one goes
        except FileExistsError:
            self._settle(source, target)
            return
        except FileNotFoundError as error:
            if os.path.exists(target):
                return
            raise file_gone(source) from error
        except PermissionError as error:
            raise _denied(target, "make") from error
        except OSError:  # another disk
            with open(source, "rb") as file:
                self.put_file(to, file, size=0, tell=_nobody)
            self._settle(source, target)
            return
        os.unlink(source)

    def _settle(self, source: str, target: str) -> None:
        """The target is there: it is the source under its new name, or else somebody else's file."""
        try:
            if not os.path.samefile(source, target) and not filecmp.cmp(source, target, shallow=False):
                raise archive_taken(source, target)
            os.unlink(source)
        except FileNotFoundError:  # moved by an earlier run
            return

    def remove(self, key: str) -> bool:
        try:
            os.unlink(self._root / key)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _unwritten(self._root / key, error) from error
        return True

    def keys(self, folder: str) -> Sequence[str]:
        try:
            return sorted(name for name in os.listdir(self._root / folder) if not name.startswith("."))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise _unread(self.location(folder), error) from error

    def probe(self) -> str | None:
        try:
            return probe_put_if_absent(self)
        except OSError as error:
            return f"{self._root}: {error.strerror}"

    def _link_new(self, target: Path, chunks: Iterable[bytes]) -> bool:
        """Give the name to a file that is complete, unless the name is taken."""
        temporary = self._write_beside(target, chunks)
        try:
            os.link(temporary, target)
        except FileExistsError:
            return False
        except OSError as error:
            if failure := disk_failure(str(error), f"cannot write {target}"):
                raise failure from error
            raise InfrastructureError(
                "no-put-if-absent",
                f"{target.parent} cannot make hard links ({error.strerror}), so a commit there could be lost",
                hint="use a warehouse on a local disk with hard links (ext4, xfs, apfs, …)",
            ) from error
        finally:
            _discard(Path(temporary))
        try:
            sync(target.parent)
        except OSError as error:
            raise _unwritten(target, error) from error
        return True

    def _write_beside(self, target: Path, chunks: Iterable[bytes]) -> str:
        """Write and sync a temporary file in the target's folder, under a name that listings pass over."""
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        try:
            descriptor = _create(temporary)
            with os.fdopen(descriptor, "wb") as file:
                for chunk in chunks:
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            _discard(temporary)
            raise _unwritten(target, error) from error
        except BaseException:
            _discard(temporary)
            raise
        return str(temporary)


def _chunks(file: BinaryIO, tell: Callable[[int], None]) -> Iterator[bytes]:
    sent = 0
    while chunk := file.read(_CHUNK):
        yield chunk
        sent += len(chunk)
        tell(sent)


def _nobody(sent: int) -> None:
    """Nobody waits for this."""


def _unwritten(target: Path, error: OSError) -> InfrastructureError:
    return disk_failure(str(error), f"cannot write {target}") or InfrastructureError(
        "storage-write",
        f"cannot write {target}: {error.strerror}",
        hint="check that the folder exists, has room, and may be written by this user",
    )


def _unread(location: str, error: OSError) -> InfrastructureError:
    if isinstance(error, PermissionError):
        return _denied(location, "read")
    return disk_failure(str(error), f"cannot read {location}") or InfrastructureError(
        "storage-failed",
        f"cannot read {location}: {error.strerror}",
        hint="look at the file; `lakesmith doctor` checks the storage",
    )


def _denied(location: str, verb: str) -> InfrastructureError:
    return InfrastructureError(
        "storage-denied",
        f"this user may not {verb} {location}",
        hint="give the user the right to it, or run as a user who has it",
    )


def _discard(path: Path) -> None:
    with suppress(OSError):
        os.unlink(path)


def _create(path: Path) -> int:
    try:
        return create(path)
    except FileNotFoundError:
        make_folders(path.parent)
        return create(path)
