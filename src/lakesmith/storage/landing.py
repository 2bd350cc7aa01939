"""Files are put into a landing zone: all of a file or nothing, once, with a note of what it was."""

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
from lakesmith.ports import FileFact, SkippedEntry, Storage
from lakesmith.storage.access import find_access, is_remote
from lakesmith.storage.globs import Glob
from lakesmith.storage.local import LocalStorage
from lakesmith.storage.remote import RemoteStorage
from lakesmith.storage.skipped import Skip
from lakesmith.storage.warehouse import open_storage

MANIFEST = "_manifest"
"""The folder beside the files that holds a note for each; listings pass over it."""
_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """Told while a file is on its way."""

    file: str
    sent: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """A file, and what became of it."""

    file: str
    """As it was named."""
    location: str
    """Where it is now."""
    state: Literal["landed", "already landed", "refused"]
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """`land`: what became of each file. One that is refused leaves the others theirs."""

    table: str
    files: tuple[Landed, ...]
    errors: tuple[LakesmithError, ...] = ()


def landing_of(
    files: str, landing: str, settings: Mapping[str, Mapping[str, str]], symlinks: Symlinks = "inside"
) -> tuple[Storage, str]:
    """The store that a source's glob is in, and the glob in it. A glob that is a whole path or URL stays one, so that
    the files of two stores are never taken for each other. On local disk, the folder before the first wildcard is the
    one that links stay inside of."""
    if is_remote(files):
        access, _ = find_access(files, settings)
        return RemoteStorage(access), files
    root, glob = ("/", files.removeprefix("file://")) if files.startswith(("file://", "/")) else (landing, files)
    if is_remote(root):
        return open_storage(root, settings), glob
    links_within = Glob(glob).folder if symlinks == "inside" else None
    return LocalStorage(root.removeprefix("file://"), links_within=links_within), glob


def not_ours(entries: Iterable[SkippedEntry], glob: str, archive: str | None) -> tuple[SkippedEntry, ...]:
    """What a listing of the landing folder passed over, in order, without Lakesmith's notes and the archive."""
    own = f"{archived(glob, archive, '')}/" if archive is not None else ""
    return tuple(
        sorted(
            entry
            for entry in entries
            if entry.path.rpartition("/")[2] != MANIFEST and not own.startswith(f"{entry.path}/")
        )
    )


def found_in_order(
    storage: Storage,
    glob: str,
    taken: Mapping[str, FileFact],
    after: str | None,
    settled: str | None,
    on_skipped: Skip | None = None,
) -> tuple[FileFact, ...]:
    """The new files after a name, where names come in order: up to one before which none is missing.

    A listing is not the picture of a moment. Of two files that come while it goes on it may show the later one alone.
    All that comes before the last one it has shown is there by then, so a second listing shows it; `settled` is the
    name up to which nothing can have come.
    """
    found = {file.path: file for file in storage.list(glob, taken, after, on_skipped)}
    last = max(found, default="")
    if last > (settled or ""):
        found |= {file.path: file for file in storage.list(glob, taken, settled) if file.path <= last}
    return tuple(sorted(found.values()))


def archived(files: str, archive: str, path: str) -> str:
    """Where a file goes once it is taken in: below `archive`, which a relative path puts beside the files."""
    folder = Glob(files).folder
    root = archive if is_remote(archive) or archive.startswith("/") else folder + archive
    return f"{root.rstrip('/')}/{path.removeprefix(folder)}"


def land(
    storage: Storage,
    glob: str,
    files: Sequence[str | Path],
    *,
    table: str,
    name: str | None = None,
    on_progress: Callable[[Sending], None] | None = None,
) -> Landing:
    """Put files where the table's glob finds them. Names are checked before the first byte is sent."""
    if name is not None and len(files) != 1:
        raise UsageError("one-name", f"one name was given for {len(files)} files", hint="land one file with --as")
    keys = [_key(glob, name or Path(file).name, table) for file in files]
    for file in files:
        if not os.path.isfile(file) or not os.access(file, os.R_OK):
            raise UsageError("unreadable-file", f"{file} is not a file that can be read", hint="check the path")
    landed: list[Landed] = []
    errors: list[LakesmithError] = []
    for file, key in zip(files, keys, strict=True):
        digest, size = _sha256_of(file)

        def told(sent: int, file: str = str(file), size: int = size) -> None:
            if on_progress:
                on_progress(Sending(file=file, sent=sent, bytes=size))

        state: Literal["landed", "already landed", "refused"] = "refused"
        try:
            state = _land_one(storage, file, key, digest, size, table, told)
        except LakesmithError as error:
            error.table = error.table or table
            errors.append(error)
        landed.append(Landed(file=str(file), location=storage.location(key), state=state, bytes=size, sha256=digest))
    return Landing(table=table, files=tuple(landed), errors=tuple(errors))


def _key(glob: str, name: str, table: str) -> str:
    pattern = Glob(glob)
    key = pattern.folder + name
    if pattern.matches(key) and ".." not in key.split("/"):
        return key
    shown = glob.removeprefix(pattern.folder)
    raise UsageError(
        "landing-name",
        f"{name} would not be taken in: {table} reads {glob}",
        table=table,
        hint=f"give it a name that fits {shown} with --as; names that start with _ or . are passed over",
    )


def _land_one(
    storage: Storage, file: str | Path, key: str, digest: str, size: int, table: str, tell: Callable[[int], None]
) -> Literal["landed", "already landed"]:
    manifest = _manifest_key(key)
    with open(file, "rb") as source:
        checked = _Checked(source, digest, size, str(file))
        is_new = _digest_there(storage, key, manifest) is None and storage.put_file(
            key, cast(BinaryIO, checked), size=size, tell=tell
        )
    if not is_new and (there := _digest_there(storage, key, manifest)) != digest:
        raise DataError(
            "landed-other-bytes",
            f"{storage.location(key)} is there already, with other bytes than {file}"
            f" (SHA-256 {str(there)[:12]}…, not {digest[:12]}…)",
            table=table,
            hint="landing is append-only: land the new bytes under another name with --as",
        )
    # Last: a note never stands for a file that is not there. One that is missing is written by the next attempt.
    note = {"file": key.rpartition("/")[2], "bytes": size, "sha256": digest, "landed_at": _now()}
    storage.put_if_absent(manifest, json.dumps(note).encode())
    return "landed" if is_new else "already landed"


def _manifest_key(key: str) -> str:
    folder, slash, name = key.rpartition("/")
    return f"{folder}{slash}{MANIFEST}/{name}.json"


def _digest_there(storage: Storage, key: str, manifest: str) -> str | None:
    """The SHA-256 of the landed file, or None when there is none. Read from the bytes where nobody has noted it."""
    note = storage.read(manifest)
    if note is not None:  # the file itself may have been archived since
        return str(json.loads(note)["sha256"])
    if not any(True for _ in storage.list(_literal(key))):
        return None
    with storage.open(key) as file:
        return _sha256(file)[0]


def _literal(key: str) -> str:
    """A glob that matches this path and no other."""
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
    """The file's bytes; raises at the last of them when they are not those that were looked at before.

    Stores make a file visible after its last byte, so that a file which is written while it is sent does not land.
    """

    def __init__(self, file: BinaryIO, digest: str, size: int, name: str) -> None:
        self._file = file
        self._wanted = digest
        self._size = size
        self._name = name
        self.seek(0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        assert (offset, whence) == (0, io.SEEK_SET), "sent again from its beginning, or not at all"
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
        if ended and (self._read, self._digest.hexdigest()) != (self._size, self._wanted):
            raise DataError(
                "file-rewritten",
                f"{self._name} changed while it was sent; nothing has landed",
                hint="land it when whoever writes it is done",
            )
        return len(chunk)
