"""Stores over the network, through remote-store: S3, Azure, SFTP and HTTP behave alike.

A `RemoteStore` can be sent to another process: it holds the settings, and connects where it is used.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

from lakesmith.errors import InfrastructureError
from lakesmith.ports import EngineAccess, EngineName, FileFact, ObjectFact, SkippedEntry, StoreCapability
from lakesmith.store.access import Access, RemoteFolder
from lakesmith.store.errors import archive_conflict, file_gone, file_rewritten, probe_put_if_absent
from lakesmith.store.failures import failure_kind, retrying, store_errors
from lakesmith.store.globs import Glob
from lakesmith.store.skipped import Skip
from lakesmith.store.stores import ConnectedStore, connect
from lakesmith.store.streams import have_same_bytes

if TYPE_CHECKING:
    import pyarrow.fs
    from remote_store import FileInfo

Result = TypeVar("Result")

_ONE_REQUEST = 8 * 1024 * 1024
"""Files up to this size are fetched in one request."""
_CHUNK = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RemoteStore:
    """Files below one URL."""

    root: RemoteFolder

    @property
    def capabilities(self) -> frozenset[StoreCapability]:
        writes = () if self.root.access.kind == "http" else (StoreCapability.WRITE,)
        return frozenset((StoreCapability.SHARED, *writes))

    @property
    def url(self) -> str:
        return self.root.url

    def location(self, key: str) -> str:
        return self.root.location(key)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[ObjectFact]:
        with store_errors(self.root.access, self.location(prefix)):
            folder = prefix[: prefix.rfind("/") + 1]
            listed = retrying(lambda: tuple(self._store.store.list_files(self.root.name(folder), recursive=True)))
        base = len(self.root.prefix)
        facts = (_fact(str(file.path)[base:], file) for file in listed)
        return iter(
            sorted(fact for fact in facts if fact.key.startswith(prefix) and (after is None or fact.key > after))
        )

    def find(
        self,
        pattern: str,
        ingested: Mapping[str, FileFact] | None = None,
        after: str | None = None,
        on_skipped: Skip | None = None,
    ) -> Iterator[FileFact]:
        ingested = {} if ingested is None else ingested
        base, below = self.root.split(pattern)
        glob = Glob(below)
        outside = pattern[: len(pattern) - len(below)]
        found: set[FileFact] = set()
        start = after.removeprefix(outside) if after is not None and after.startswith(outside) else None

        def skip(entry: SkippedEntry) -> None:
            if on_skipped is not None:
                on_skipped(entry._replace(path=outside + entry.path))

        with store_errors(self.root.access, self.location(pattern)):
            for file in self._store.files(base, glob, start, skip):
                named = FileFact(outside + file.path, file.size, file.modified)
                # A store may ignore `after`.
                if (after is None or named.path > after) and ingested.get(named.path) != named:
                    found.add(named)
        return iter(sorted(found))

    def stat(self, key: str) -> ObjectFact | None:
        found = self._info(key)
        return None if found is None else _fact(key, found)

    def read(self, key: str, span: tuple[int, int] | None = None) -> bytes | None:
        data = self._unless_missing(key, lambda: self._store.fetch(self.root.name(key)))
        return data if data is None or span is None else data[slice(*span)]

    def open(self, path: str, as_of: FileFact | None = None) -> BinaryIO:
        key, location = self.root.name(path), self.location(path)
        info = self._info(path)
        if info is None:
            raise file_gone(location)
        # Times in listings may be more exact than those of a single file.
        if as_of and (as_of.size, as_of.modified // 1000) != (info.size, max(0, int(info.modified_at.timestamp()))):
            raise file_rewritten(location)
        if 0 < info.size <= _ONE_REQUEST:
            data = self.read(path)
            if data is None:
                raise file_gone(location)
            if len(data) != info.size:
                raise file_rewritten(location)
            return io.BytesIO(data)
        return cast(BinaryIO, io.BufferedReader(_Resuming(self.root.access, key, location, info), _CHUNK))

    def put_if_absent(self, key: str, data: bytes) -> bool:
        return self.put_file(key, io.BytesIO(data), size=len(data), on_progress=_no_progress)

    def put_file(self, key: str, file: BinaryIO, *, size: int, on_progress: Callable[[int], None]) -> bool:
        with store_errors(self.root.access, self.location(key)):
            try:
                self._store.create(self.root.name(key), file, size, on_progress)
            except Exception as error:
                if failure_kind(error) != "exists":
                    raise
                return False
        return True

    @contextmanager
    def create(self, key: str) -> Iterator[BinaryIO]:
        written = io.BytesIO()
        yield written
        self.put_if_absent(key, written.getvalue())

    def replace(self, key: str, data: bytes, *, if_match: str | None = None) -> bool:
        if if_match is not None:
            raise self._no_tables()
        with store_errors(self.root.access, self.location(key)):
            retrying(lambda: self._store.store.write_atomic(self.root.name(key), data, overwrite=True))
        return True

    def confirm(self, files: Mapping[str, int | None]) -> None:
        raise self._no_tables()

    def engine(self, name: EngineName) -> EngineAccess:
        raise self._no_tables()

    def arrow(self) -> pyarrow.fs.FileSystem:
        raise self._no_tables()

    def _no_tables(self) -> InfrastructureError:
        return InfrastructureError(
            "landing-only",
            f"{self.url} can be a landing zone, and cannot hold tables",
            hint="use a folder, s3://, az:// or gs:// as the warehouse",
        )

    def move(self, path: str, to: str) -> None:
        source, target = self._info(path), self._info(to)
        if source is None:
            if target is None:
                raise file_gone(self.location(path))
            return
        if target is None:
            # Copy first, then remove: the file exists at any moment.
            with store_errors(self.root.access, self.location(path)):
                retrying(lambda: self._store.store.copy(self.root.name(path), self.root.name(to), overwrite=True))
                retrying(lambda: self._store.store.delete(self.root.name(path), missing_ok=True))
        elif source.size == target.size and have_same_bytes(self.open(path), self.open(to)):
            self.delete([path])
        else:
            raise archive_conflict(self.location(path), self.location(to))

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._unless_missing(key, lambda key=key: self._store.store.delete(self.root.name(key)))  # type: ignore[misc]

    def probe(self) -> str | None:
        try:
            return probe_put_if_absent(self)
        except InfrastructureError as error:
            return error.what

    @property
    def _store(self) -> ConnectedStore:
        return connect(self.root.access)

    def _info(self, path: str) -> FileInfo | None:
        return self._unless_missing(path, lambda: self._store.store.get_file_info(self.root.name(path)))

    def _unless_missing(self, path: str, act: Callable[[], Result]) -> Result | None:
        with store_errors(self.root.access, self.location(path)):
            try:
                return retrying(act)
            except Exception as error:
                if failure_kind(error) != "missing":
                    raise
                return None


def _fact(key: str, info: FileInfo) -> ObjectFact:
    modified = max(0, int(info.modified_at.timestamp() * 1000))
    return ObjectFact(key, info.size, modified, str(info.etag or modified))


class _Resuming(io.RawIOBase):
    """A stream that reconnects after a broken connection, as long as the file is unchanged."""

    def __init__(self, access: Access, key: str, location: str, info: FileInfo) -> None:
        self._access = access
        self._key = key
        self._location = location
        self._info = info
        self._position = 0
        self._stream: BinaryIO | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        with store_errors(self._access, self._location):
            chunk = retrying(lambda: self._next(len(buffer)))
        buffer[: len(chunk)] = chunk
        self._position += len(chunk)
        return len(chunk)

    def _next(self, size: int) -> bytes:
        try:
            if self._stream is None:
                self._stream = self._open_stream()
            chunk = self._stream.read(size)
            # A web server may not report a size.
            if not chunk and self._info.size and self._position < self._info.size:
                raise ConnectionError(f"the stream ended at byte {self._position} of {self._info.size}")
            return chunk
        except Exception as error:
            self._drop()
            match failure_kind(error):
                case "missing":
                    raise file_gone(self._location) from None
                case "exists":  # the condition of the request: the file is unchanged
                    raise file_rewritten(self._location) from None
                case _:
                    raise

    def _open_stream(self) -> BinaryIO:
        store = connect(self._access)
        if self._position:
            self._check_unchanged(store)
        stream = store.stream(self._key)
        if self._position and stream.seekable():
            stream.seek(self._position)
        else:
            left = self._position
            while left:
                left -= len(stream.read(min(left, _CHUNK)))
        return stream

    def _check_unchanged(self, store: ConnectedStore) -> None:
        now, before = store.store.get_file_info(self._key), self._info
        if (now.size, now.modified_at, now.etag) != (before.size, before.modified_at, before.etag):
            raise file_rewritten(self._location)

    def _drop(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(Exception):
                stream.close()

    def close(self) -> None:
        self._drop()
        super().close()


def _no_progress(sent: int) -> None:
    """Ignore the progress."""
