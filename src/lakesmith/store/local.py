"""Local disk as a store. Hard links are its commit points.

It uses plain `os` calls: every `plan` lists landing zones and reads pinned batches, and the import of a storage
library alone would cost a quarter of its time budget (see `docs/decisions/0002-local-storage.md`).
"""

from __future__ import annotations

import fcntl
import filecmp
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from lakesmith.disk import create, disk_failure, make_folders, sync, sync_all
from lakesmith.errors import InfrastructureError
from lakesmith.ports import EngineAccess, EngineName, FileFact, ObjectFact, StoreCapability
from lakesmith.store.checksum_files import (
    checksum_path,
    checksums_of,
    drop_stale_checksums,
    is_corrupt,
    write_checksums,
)
from lakesmith.store.confined import open_file, resolve
from lakesmith.store.errors import archive_conflict, file_gone, file_rewritten, probe_put_if_absent, unconfirmed
from lakesmith.store.globs import Glob
from lakesmith.store.local_listing import LocalListing, access_denied, read_error
from lakesmith.store.skipped import Skip, ignore, is_temporary, temporary_name

if TYPE_CHECKING:
    import pyarrow.fs

_CHUNK = 1024 * 1024


class LocalStore:
    """Files below one folder.

    `links_within` is the folder, relative to the root, that symbolic links to files must not leave; None allows all
    targets. A path outside of it, such as that of an archive, must not leave its own folder.
    """

    def __init__(self, root: str | Path, *, links_within: str | None = None) -> None:
        self._root = Path(root)
        self._url = str(self._root)
        self._links_within = links_within

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalStore) and (self._root, self._links_within) == (other._root, other._links_within)

    def __hash__(self) -> int:
        return hash((self._root, self._links_within))

    def __repr__(self) -> str:
        return f"LocalStore({self.url})"

    @property
    def url(self) -> str:
        return self._url

    @property
    def capabilities(self) -> frozenset[StoreCapability]:
        return _CAPABILITIES

    def location(self, key: str) -> str:
        return os.path.join(self._url, key)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[ObjectFact]:
        return self._below(prefix[: prefix.rfind("/") + 1], prefix, after or "")

    def _below(self, folder: str, prefix: str, after: str) -> Iterator[ObjectFact]:
        try:
            # A folder sorts as its files do: with a slash after its name.
            entries = sorted(
                (f"{folder}{entry.name}/" if entry.is_dir(follow_symlinks=False) else folder + entry.name, entry)
                for entry in os.scandir(self.location(folder))
            )
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise read_error(self.location(folder), error) from error
        for key, entry in entries:
            if not key.startswith(prefix):
                continue
            if key[-1] == "/":
                # "0" follows "/": all keys in the folder sort before this one.
                if f"{key[:-1]}0" > after:
                    yield from self._below(key, prefix, after)
            elif key > after and not is_temporary(entry.name):
                with suppress(FileNotFoundError):  # deleted since the folder was read
                    yield _fact(key, entry.stat())

    def find(
        self,
        pattern: str,
        ingested: Mapping[str, FileFact] | None = None,
        after: str | None = None,
        on_skipped: Skip | None = None,
    ) -> Iterator[FileFact]:
        glob = Glob(pattern)
        listing = LocalListing(
            root=str(self._root), glob=glob, boundary=self._boundary(glob.folder), skip=on_skipped or ignore
        )
        return iter(sorted(set(listing.files({} if ingested is None else ingested, after))))

    def _boundary(self, path: str) -> str | None:
        """The real path of the folder that a link at this path must not leave."""
        if self._links_within is None:
            return None
        own = path[: path.rfind("/") + 1]
        return os.path.realpath(self.location(self._links_within if path.startswith(self._links_within) else own))

    def stat(self, key: str) -> ObjectFact | None:
        try:
            found = os.stat(self.location(key))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise read_error(self.location(key), error) from error
        return _fact(key, found) if stat.S_ISREG(found.st_mode) else None

    def read(self, key: str, span: tuple[int, int] | None = None) -> bytes | None:
        try:
            with self._open(key) as file:
                if span is None:
                    return file.read()
                file.seek(span[0])
                return file.read(span[1] - span[0])
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise read_error(self.location(key), error) from error

    def open(self, path: str, as_of: FileFact | None = None) -> BinaryIO:
        location = self.location(path)
        try:
            file = self._open(path)
        except FileNotFoundError as error:
            raise file_gone(location) from error
        except OSError as error:
            raise read_error(location, error) from error
        status = os.fstat(file.fileno())
        if as_of and (as_of.size, as_of.modified) != (status.st_size, status.st_mtime_ns // 1_000_000):
            file.close()
            raise file_rewritten(location)
        return file

    def _open(self, path: str) -> BinaryIO:
        return open_file(self.location(path), self._boundary(path))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        return self._link_new(self._root / key, [data])

    def put_file(self, key: str, file: BinaryIO, *, size: int, on_progress: Callable[[int], None]) -> bool:
        return self._link_new(self._root / key, _chunks(file, on_progress))

    @contextmanager
    def create(self, key: str) -> Iterator[BinaryIO]:
        target = self._root / key
        temporary = target.with_name(temporary_name(target.name))
        try:
            # Errors of the disk stay as they are: the run translates those of Spark's workers by their text.
            with os.fdopen(_create(temporary), "wb") as file:
                yield file
            os.rename(temporary, target)
        finally:
            _discard(temporary)

    def replace(self, key: str, data: bytes, *, if_match: str | None = None) -> bool:
        target = self._root / key
        temporary = self._write_beside(target, [data])
        try:
            with _locked(target.parent):
                if if_match is not None and ((found := self.stat(key)) is None or found.etag != if_match):
                    return False
                os.replace(temporary, target)
            sync(target.parent)
        except OSError as error:
            raise write_error(target, error) from error
        finally:
            _discard(Path(temporary))
        return True

    def confirm(self, files: Mapping[str, int | None]) -> None:
        paths = self._confirmed(files)
        try:
            sync_all(paths)
        except OSError as error:
            raise write_error(self._root, error) from error

    def _confirmed(self, files: Mapping[str, int | None]) -> Sequence[str]:
        """The paths to sync: those of the files, which exist with these sizes, and of their folders up to the root."""
        paths = set()
        for key, size in files.items():
            found = self.stat(key)
            if found is None or size not in (None, found.size):
                raise unconfirmed(self.location(key), size, found)
            path = self.location(key)
            paths.add(path)
            while len(path) > len(self._url):
                path = os.path.dirname(path)
                paths.add(path)
        return sorted(paths)

    def put_checked(self, key: str, data: bytes, files: Mapping[str, int | None], linked: Callable[[], None]) -> bool:
        target = self._root / key
        temporary, checksums = (target.with_name(temporary_name(target.name)) for _ in range(2))
        try:
            for path, content in ((temporary, data), (checksums, checksums_of(data))):
                with os.fdopen(_create(path), "wb") as file:
                    file.write(content)
            # All at once: a slow disk syncs many files as fast as one.
            sync_all([str(temporary), str(checksums), *self._confirmed(files)])
            if not _link(temporary, target):
                return False
            linked()
            with suppress(OSError):  # the file has its name; the next writer writes missing checksums
                os.replace(checksums, checksum_path(target))
            sync(target.parent)
        except OSError as error:
            raise write_error(target, error) from error
        finally:
            for path in (temporary, checksums):  # the outcome is decided, and nobody reads leftovers
                _discard(path)
        return True

    def is_corrupt(self, key: str, data: bytes | None = None) -> bool:
        return is_corrupt(self.location(key), data)

    def drop_stale_checksums(self, keys: Iterable[str]) -> None:
        for key in keys:
            drop_stale_checksums(self.location(key))

    def write_checksums(self, folder: str, names: re.Pattern[str]) -> None:
        write_checksums(self.location(folder), names)

    def make_folder(self, key: str) -> None:
        make_folders(self.location(key))

    def sync_folder(self, key: str) -> None:
        with suppress(FileNotFoundError, NotADirectoryError):
            sync(self.location(key))

    def folder_changed(self, key: str) -> int | None:
        try:
            found = os.stat(self.location(key))
        except OSError:
            return None
        return found.st_mtime_ns if stat.S_ISDIR(found.st_mode) else None

    @contextmanager
    def scratch(self, keys: Iterable[str]) -> Iterator[LocalStore]:
        with tempfile.TemporaryDirectory(prefix="lakesmith-scratch-") as folder:
            for key in keys:
                link = Path(folder, key)
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(os.path.abspath(self.location(key)))
            yield LocalStore(folder)

    def move(self, path: str, to: str) -> None:
        source, target = self.location(path), self.location(to)
        try:
            make_folders(Path(target).parent)
            # For a link, its target: a relative link would break at its new path.
            os.link(resolve(source, self._boundary(path)), target)
        except FileExistsError:
            pass
        except FileNotFoundError as error:
            if os.path.exists(target):
                return
            raise file_gone(source) from error
        except PermissionError as error:
            raise access_denied(target, "make") from error
        except OSError:  # another disk
            with self._open(path) as file:
                self.put_file(to, file, size=0, on_progress=_no_progress)
        self._remove_moved(source, target)

    def _remove_moved(self, source: str, target: str) -> None:
        """Remove the old name of a file; raise where the target is another file."""
        try:
            if not os.path.samefile(source, target) and not filecmp.cmp(source, target, shallow=False):
                raise archive_conflict(source, target)
            # The new name must survive a power cut before the old one is removed.
            sync(target)
            sync(os.path.dirname(target))
            os.unlink(source)
        except FileNotFoundError:  # moved by an earlier run
            return
        except OSError as error:
            raise write_error(Path(target), error) from error

    def delete(self, keys: Iterable[str]) -> None:
        folders = set()
        for key in keys:
            path = self._root / key
            try:
                os.unlink(path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise write_error(path, error) from error
            folders.add(path.parent)
        for folder in folders:
            self._remove_if_empty(folder)

    def _remove_if_empty(self, folder: Path) -> None:
        """Remove empty folders: in a store, a folder is no more than the names of its files."""
        with suppress(OSError):
            while folder != self._root and self._root in folder.parents:
                os.rmdir(folder)
                folder = folder.parent

    def engine(self, name: EngineName) -> EngineAccess:
        return EngineAccess(os.path.abspath(self._root))

    def arrow(self) -> pyarrow.fs.FileSystem:
        from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

        return SubTreeFileSystem(os.path.abspath(self._root), LocalFileSystem())

    def probe(self) -> str | None:
        try:
            return probe_put_if_absent(self)
        except OSError as error:
            return f"{self._root}: {error.strerror}"

    def _link_new(self, target: Path, chunks: Iterable[bytes]) -> bool:
        """Write a complete file under a name; False where the name exists."""
        temporary = self._write_beside(target, chunks)
        try:
            if not _link(temporary, target):
                return False
        finally:
            _discard(Path(temporary))
        try:
            sync(target.parent)
        except OSError as error:
            raise write_error(target, error) from error
        return True

    def _write_beside(self, target: Path, chunks: Iterable[bytes]) -> str:
        """Write and sync a temporary file in the target's folder, under a name that listings skip."""
        temporary = target.with_name(temporary_name(target.name))
        try:
            descriptor = _create(temporary)
            with os.fdopen(descriptor, "wb") as file:
                for chunk in chunks:
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            _discard(temporary)
            raise write_error(target, error) from error
        except BaseException:
            _discard(temporary)
            raise
        return str(temporary)


_CAPABILITIES = frozenset(StoreCapability) - {StoreCapability.SHARED}


def _fact(key: str, found: os.stat_result) -> ObjectFact:
    etag = f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}"
    return ObjectFact(key, found.st_size, found.st_mtime_ns // 1_000_000, etag)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes that replace files in it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _chunks(file: BinaryIO, on_progress: Callable[[int], None]) -> Iterator[bytes]:
    sent = 0
    while chunk := file.read(_CHUNK):
        yield chunk
        sent += len(chunk)
        on_progress(sent)


def _no_progress(sent: int) -> None:
    """Ignore the progress."""


def write_error(target: Path, error: OSError) -> InfrastructureError:
    return disk_failure(str(error), f"cannot write {target}") or InfrastructureError(
        "storage-write",
        f"cannot write {target}: {error.strerror}",
        hint="check that the folder exists, has free space, and is writable for this user",
    )


def _link(temporary: str | Path, target: Path) -> bool:
    """Give a file its name, or return False because the name exists: of two writers exactly one wins."""
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
    return True


def _discard(path: Path) -> None:
    with suppress(OSError):
        os.unlink(path)


def _create(path: Path) -> int:
    try:
        return create(path)
    except FileNotFoundError:
        make_folders(path.parent)
        return create(path)
