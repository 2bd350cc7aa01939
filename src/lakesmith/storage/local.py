"""Local disk as a store. Hard links are its commit points.

It uses plain `os` calls: every `plan` lists landing zones and reads pinned batches, and the import of a storage
library alone would cost a quarter of its time budget (see `docs/decisions/0002-local-storage.md`).
"""

from __future__ import annotations

import filecmp
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from lakesmith.disk import create, disk_failure, make_folders, sync
from lakesmith.errors import InfrastructureError
from lakesmith.ports import FileFact
from lakesmith.storage.confined import open_file, resolve
from lakesmith.storage.errors import archive_conflict, file_gone, file_rewritten, probe_put_if_absent
from lakesmith.storage.globs import Glob
from lakesmith.storage.local_listing import LocalListing, access_denied, read_error
from lakesmith.storage.skipped import Skip, ignore, temporary_name

_CHUNK = 1024 * 1024


class LocalStorage:
    """Files below one folder.

    `links_within` is the folder, relative to the root, that symbolic links to files must not leave; None allows all
    targets. A path outside of it, such as that of an archive, must not leave its own folder.
    """

    def __init__(self, root: str | Path, *, links_within: str | None = None) -> None:
        self._root = Path(root)
        self._links_within = links_within

    def root(self) -> str:
        return str(self._root)

    def location(self, path: str) -> str:
        return os.path.join(self._root, path)

    def list(
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

    def read(self, key: str) -> bytes | None:
        try:
            with self._open(key) as file:
                return file.read()
        except FileNotFoundError:
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

    def head(self, path: str, size: int) -> bytes:
        with self.open(path) as file:
            return file.read(size)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        return self._link_new(self._root / key, [data])

    def put_file(self, key: str, file: BinaryIO, *, size: int, on_progress: Callable[[int], None]) -> bool:
        return self._link_new(self._root / key, _chunks(file, on_progress))

    def replace(self, key: str, data: bytes) -> None:
        target = self._root / key
        temporary = self._write_beside(target, [data])
        try:
            os.replace(temporary, target)
            sync(target.parent)
        except OSError as error:
            _discard(Path(temporary))
            raise write_error(target, error) from error

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

    def remove(self, key: str) -> bool:
        try:
            os.unlink(self._root / key)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise write_error(self._root / key, error) from error
        return True

    def keys(self, folder: str) -> Sequence[str]:
        try:
            return sorted(name for name in os.listdir(self._root / folder) if not name.startswith("."))
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise read_error(self.location(folder), error) from error

    def probe(self) -> str | None:
        try:
            return probe_put_if_absent(self)
        except OSError as error:
            return f"{self._root}: {error.strerror}"

    def _link_new(self, target: Path, chunks: Iterable[bytes]) -> bool:
        """Write a complete file under a name; False where the name exists."""
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


def _discard(path: Path) -> None:
    with suppress(OSError):
        os.unlink(path)


def _create(path: Path) -> int:
    try:
        return create(path)
    except FileNotFoundError:
        make_folders(path.parent)
        return create(path)
