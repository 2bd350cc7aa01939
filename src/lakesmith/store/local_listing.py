"""Lists a local folder: it always ends, and each entry is a file or is skipped with a reason."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lakesmith.disk import disk_failure
from lakesmith.errors import InfrastructureError
from lakesmith.ports import FileFact, SkippedEntry
from lakesmith.store.confined import is_within
from lakesmith.store.globs import Glob, walk
from lakesmith.store.skipped import (
    Skip,
    broken_link,
    link_loop,
    link_not_followed,
    link_outside,
    not_a_file,
    path_too_long,
)

Entry = os.DirEntry[str] | Path
_PATH_MAX = 4096
"""The maximum length of a path in bytes, including the final null byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalListing:
    """One listing of the files below a folder that match a glob."""

    root: str
    """The folder that paths are relative to."""
    glob: Glob
    boundary: str | None
    """The real path of the folder that links must not leave; None allows all targets."""
    skip: Skip

    def files(self, ingested: Mapping[str, FileFact], after: str | None) -> Iterator[FileFact]:
        """The files that sort after a path, without unchanged ingested files."""
        for path, entry in self._matching(after):
            before = ingested.get(path)
            status = self._status(path, entry)
            if status is None:
                continue
            # Most files are ingested already: creating no objects for them keeps a listing cheap.
            if (
                before is not None
                and before.size == status.st_size
                and before.modified == status.st_mtime_ns // 1_000_000
            ):
                continue
            skipped = self._skip_reason(path, entry, status)
            if skipped is None:
                yield FileFact(path, status.st_size, status.st_mtime_ns // 1_000_000)
            else:
                self.skip(skipped)

    def _matching(self, after: str | None) -> Iterator[tuple[str, Entry]]:
        if not self.glob.is_path:
            yield from walk(self.glob, self._children, after, self.skip)
        elif after is None or self.glob.text > after:
            yield self.glob.text, Path(self._location(self.glob.text))

    def _status(self, path: str, entry: Entry) -> os.stat_result | None:
        """The status of an entry's target. None without target, which is reported unless the file was just deleted."""
        try:
            return entry.stat()
        except OSError as error:
            if error.errno == errno.ELOOP:
                self.skip(link_loop(path))
            elif entry.is_symlink():
                self.skip(broken_link(path, str(error.strerror)))
            elif error.errno == errno.ENAMETOOLONG:
                self.skip(path_too_long(path))
            elif not isinstance(error, FileNotFoundError):
                raise read_error(self._location(path), error) from error
        return None

    def _skip_reason(self, path: str, entry: Entry, status: os.stat_result) -> SkippedEntry | None:
        """Why an entry is not a file to ingest."""
        if stat.S_ISDIR(status.st_mode) and entry.is_symlink():
            return link_not_followed(path, "links to folders are not followed here")
        if not stat.S_ISREG(status.st_mode):
            return not_a_file(path, status.st_mode)
        location = self._location(path)
        if len(os.fsencode(location)) >= _PATH_MAX:
            return path_too_long(path)
        if (
            self.boundary is not None
            and entry.is_symlink()
            and not is_within(os.path.realpath(location), self.boundary)
        ):
            return link_outside(path)
        return None

    def _children(self, folder: str, deep: bool) -> Iterator[tuple[str, bool | None, os.DirEntry[str]]]:
        location = self._location(folder)
        if folder != self.glob.folder and (skipped := self._folder_skip_reason(folder)):
            self.skip(skipped)
            return
        try:
            descriptor = os.open(location, os.O_RDONLY | os.O_DIRECTORY)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG and folder != self.glob.folder:
                self.skip(path_too_long(folder))
                return
            raise list_error(location, error) from error
        try:
            # By descriptor, so that the path is not resolved again for each file.
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    yield entry.name, _is_folder(entry, deep), entry
        except OSError as error:
            raise list_error(location, error) from error
        finally:
            os.close(descriptor)

    def _folder_skip_reason(self, folder: str) -> SkippedEntry | None:
        """Why a folder is not entered. Any part of its path may be a link: names without wildcards are not listed."""
        location = self._location(folder).rstrip("/")
        if not any(map(os.path.islink, self._unchecked(location))):
            return None
        real = os.path.realpath(location)
        if os.path.islink(location) and is_within(os.path.realpath(os.path.dirname(location)), real):
            return link_loop(folder)
        if self.boundary is not None and not is_within(real, self.boundary) and os.path.lexists(location):
            return link_outside(folder)
        return None

    def _unchecked(self, location: str) -> Iterator[str]:
        """The unchecked parents of a path: the walk lists no folder for a name without wildcards."""
        for _ in self.glob.segments:
            yield location
            location = os.path.dirname(location)

    def _location(self, path: str) -> str:
        return os.path.join(self.root, path)


def _is_folder(entry: os.DirEntry[str], deep: bool) -> bool | None:
    """Whether an entry is a folder. None for a broken link, and for a link to a folder that may lead in circles."""
    try:
        found = entry.is_dir()
    except OSError:
        return None
    return None if found and deep and entry.is_symlink() else found


def list_error(location: str, error: OSError) -> InfrastructureError:
    if isinstance(error, PermissionError):
        return access_denied(location, "list")
    what = f"cannot list {location}: {error.strerror}"
    return InfrastructureError("storage-failed", what, hint="check the folder and its disk")


def read_error(location: str, error: OSError) -> InfrastructureError:
    if isinstance(error, PermissionError):
        return access_denied(location, "read")
    return disk_failure(str(error), f"cannot read {location}") or InfrastructureError(
        "storage-failed",
        f"cannot read {location}: {error.strerror}",
        hint="check the file; `lakesmith doctor` checks the storage",
    )


def access_denied(location: str, action: str) -> InfrastructureError:
    return InfrastructureError(
        "storage-denied",
        f"this user may not {action} {location}",
        hint="grant the permission, or run as another user",
    )
