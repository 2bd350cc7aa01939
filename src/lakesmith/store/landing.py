"""Lands files: each completely or not at all, once, with a manifest of its content."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Literal, cast

from lakesmith.declare.sources import Symlinks
from lakesmith.errors import DataError, LakesmithError, UsageError
from lakesmith.file_names import escaped, is_utf8
from lakesmith.ports import FileFact, SkippedEntry, Store
from lakesmith.store.access import RemoteFolder, find_access, is_remote
from lakesmith.store.globs import Glob
from lakesmith.store.local import LocalStore
from lakesmith.store.skipped import Skip
from lakesmith.store.warehouse import open_store, store_of

MANIFEST = "_manifest"
"""The folder of the manifests, beside the files; listings skip it."""
_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingProgress:
    """The progress of an upload."""

    file: str
    sent: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedFile:
    """The result for one file."""

    file: str
    """The path as given."""
    location: str
    """The path or URL in the landing zone."""
    state: Literal["landed", "already landed", "rejected"]
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingReport:
    """`land`: the result for each file. A rejected file does not stop the others."""

    table: str
    files: tuple[LandedFile, ...]
    errors: tuple[LakesmithError, ...] = ()


def landing_store(
    files: str, landing: str, settings: Mapping[str, Mapping[str, str]], symlinks: Symlinks = "inside"
) -> tuple[Store, str]:
    """The store of a source's glob, and the glob in it. An absolute path or URL stays one, so that files of two stores
    are never confused. On local disk, links must not leave the folder before the first wildcard."""
    if is_remote(files):
        return store_of(RemoteFolder(find_access(files, settings).access)), files
    root, glob = ("/", files.removeprefix("file://")) if files.startswith(("file://", "/")) else (landing, files)
    if is_remote(root):
        return open_store(root, settings), glob
    links_within = Glob(glob).folder if symlinks == "inside" else None
    return LocalStore(root.removeprefix("file://"), links_within=links_within), glob


def foreign_entries(entries: Iterable[SkippedEntry], glob: str, archive: str | None) -> tuple[SkippedEntry, ...]:
    """The skipped entries of a landing folder, sorted, without Lakesmith's manifests and the archive."""
    own = f"{archive_path(glob, archive, '')}/" if archive is not None else ""
    return tuple(
        sorted(
            entry
            for entry in entries
            if entry.path.rpartition("/")[2] != MANIFEST and not own.startswith(f"{entry.path}/")
        )
    )


def list_in_order(
    storage: Store,
    glob: str,
    ingested: Mapping[str, FileFact],
    after: str | None,
    complete_until: str | None,
    on_skipped: Skip | None = None,
) -> tuple[FileFact, ...]:
    """The new files after a name, for files that arrive in order of name; no earlier file is missing.

    A listing is not a snapshot: of two files that arrive meanwhile, it may show only the later one. All files before
    the last one shown exist by then, so a second listing shows them. Up to `complete_until`, no new file can arrive.
    """
    found = {file.path: file for file in storage.find(glob, ingested, after, on_skipped)}
    last = max(found, default="")
    if last > (complete_until or ""):
        found |= {file.path: file for file in storage.find(glob, ingested, complete_until) if file.path <= last}
    return tuple(sorted(found.values()))


def archive_path(files: str, archive: str, path: str) -> str:
    """The archive path of an ingested file: below `archive`, which is relative to the folder of the files."""
    folder = Glob(files).folder
    root = archive if is_remote(archive) or archive.startswith("/") else folder + archive
    return f"{root.rstrip('/')}/{path.removeprefix(folder)}"


def land(
    storage: Store,
    glob: str,
    files: Sequence[str | Path],
    *,
    table: str,
    name: str | None = None,
    on_progress: Callable[[LandingProgress], None] | None = None,
) -> LandingReport:
    """Land files where the table's glob finds them. Names are checked before the first byte is sent."""
    if name is not None and len(files) != 1:
        raise UsageError("one-name", f"one name was given for {len(files)} files", hint="land one file with --as")
    keys = [_key(glob, name or Path(file).name, table) for file in files]
    for file in files:
        if not os.path.isfile(file) or not os.access(file, os.R_OK):
            raise UsageError("unreadable-file", f"{file} is not a readable file", hint="check the path")
    landed: list[LandedFile] = []
    errors: list[LakesmithError] = []
    for file, key in zip(files, keys, strict=True):
        digest, size = _sha256_of(file)

        def report(sent: int, file: str = str(file), size: int = size) -> None:
            if on_progress:
                on_progress(LandingProgress(file=file, sent=sent, bytes=size))

        state: Literal["landed", "already landed", "rejected"] = "rejected"
        try:
            state = _land_one(storage, file, key, digest, size, table, report)
        except LakesmithError as error:
            error.table = error.table or table
            errors.append(error)
        landed.append(
            LandedFile(file=str(file), location=storage.location(key), state=state, bytes=size, sha256=digest)
        )
    return LandingReport(table=table, files=tuple(landed), errors=tuple(errors))


def _key(glob: str, name: str, table: str) -> str:
    pattern = Glob(glob)
    key = pattern.folder + name
    if not is_utf8(name):
        raise UsageError(
            "landing-name",
            f"{escaped(name)} would not be ingested: its name is not UTF-8",
            table=table,
            hint="choose another name with --as",
        )
    if pattern.matches(key) and ".." not in key.split("/"):
        return key
    shown = glob.removeprefix(pattern.folder)
    raise UsageError(
        "landing-name",
        f"{name} would not be ingested: {table} reads {glob}",
        table=table,
        hint=f"choose a name that matches {shown} with --as; names that start with _ or . are skipped",
    )


def _land_one(
    storage: Store, file: str | Path, key: str, digest: str, size: int, table: str, on_progress: Callable[[int], None]
) -> Literal["landed", "already landed"]:
    manifest = _manifest_key(key)
    with open(file, "rb") as source:
        checked = _Checked(source, digest, size, str(file))
        is_new = _landed_digest(storage, key, manifest) is None and storage.put_file(
            key, cast(BinaryIO, checked), size=size, on_progress=on_progress
        )
    if not is_new and (landed := _landed_digest(storage, key, manifest)) != digest:
        raise DataError(
            "landed-other-bytes",
            f"{storage.location(key)} exists already, with other content than {file}"
            f" (SHA-256 {str(landed)[:12]}…, not {digest[:12]}…)",
            table=table,
            hint="landing is append-only: land the new content under another name with --as",
        )
    # Last: a manifest implies its file. The next attempt writes a missing one.
    content = {"file": key.rpartition("/")[2], "bytes": size, "sha256": digest, "landed_at": _now()}
    storage.put_if_absent(manifest, json.dumps(content).encode())
    return "landed" if is_new else "already landed"


def _manifest_key(key: str) -> str:
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}{MANIFEST}/{name}.json"


def _landed_digest(storage: Store, key: str, manifest: str) -> str | None:
    """The SHA-256 of the landed file, or None when there is none. Computed from the file where it has no manifest."""
    content = storage.read(manifest)
    if content is not None:  # the file itself may have been archived since
        return str(json.loads(content)["sha256"])
    if not any(True for _ in storage.find(_literal(key))):
        return None
    with storage.open(key) as file:
        return _sha256(file)[0]


def _literal(key: str) -> str:
    """A glob that matches only this path."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in key)


def _sha256_of(file: str | Path) -> tuple[str, int]:
    with open(file, "rb") as source:
        return _sha256(source)


def _sha256(file: BinaryIO) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
    return digest.hexdigest(), size


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


class _Checked(io.RawIOBase):
    """The file's bytes; raises at the end when they do not match the digest.

    Stores make a file visible after its last byte, so a file that changes during the upload does not land.
    """

    def __init__(self, file: BinaryIO, digest: str, size: int, name: str) -> None:
        self._file = file
        self._expected = digest
        self._size = size
        self._name = name
        self.seek(0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        assert (offset, whence) == (0, io.SEEK_SET), "a retry sends the file from its beginning"
        self._digest = hashlib.sha256()
        self._read = 0
        return self._file.seek(0)

    def tell(self) -> int:
        return self._read

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        chunk = self._file.read(len(buffer))
        buffer[: len(chunk)] = chunk
        self._digest.update(chunk)
        self._read += len(chunk)
        ended = not chunk or self._read >= self._size
        if ended and (self._read, self._digest.hexdigest()) != (self._size, self._expected):
            raise DataError(
                "file-rewritten",
                f"{self._name} changed during the upload; nothing landed",
                hint="land it when its writer is done",
            )
        return len(chunk)
