"""Object stores, through obstore: S3 and compatible, Azure, Google Cloud Storage.

An `ObjectStore` can be sent to another process: it holds the settings, and connects where it is used.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from lakesmith.errors import InfrastructureError
from lakesmith.ports import EngineAccess, EngineName, FileFact, ObjectFact, SkippedEntry, StoreCapability
from lakesmith.store.access import Access, RemoteFolder
from lakesmith.store.errors import archive_conflict, file_gone, file_rewritten, probe_put_if_absent, unconfirmed
from lakesmith.store.failures import WRITE, failure_kind, retrying, store_errors
from lakesmith.store.globs import Glob
from lakesmith.store.object_clients import connect
from lakesmith.store.object_listing import PAGE, ObjectListing
from lakesmith.store.object_requests import (
    Attempts,
    fact_of,
    get_span,
    head,
    in_parallel,
    is_folder_marker,
    unless_missing,
    write_of,
)
from lakesmith.store.skipped import Skip, is_temporary, temporary_name
from lakesmith.store.streams import SpanReader, have_same_bytes, read_full

if TYPE_CHECKING:
    import pyarrow.fs

_PART = 8 * 1024 * 1024
"""Files up to this size are read and written in one request."""
_MAX_PARTS = 9000
"""S3 allows ten thousand; a file that grows a little must not fail at its end."""
_LARGEST_COPY = 5 * 1024**3
"""The largest file that S3 copies in one request."""
_CHUNK = 4 * 1024 * 1024
_RACING = 4
"""The writers of a probe: some stores honour conditions only when requests come one after the other."""


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """The files of a bucket or container below one folder."""

    root: RemoteFolder

    @property
    def url(self) -> str:
        return self.root.url

    @property
    def capabilities(self) -> frozenset[StoreCapability]:
        return _CAPABILITIES

    def location(self, key: str) -> str:
        return self.root.location(key)

    # Listings

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[ObjectFact]:
        start = None if after is None else self.root.prefix + after
        skip = len(self.root.prefix)
        with store_errors(self.root.access, self.location(prefix)):
            for found in ObjectListing(self.root.access).scan(self.root.prefix + prefix, start):
                marks_folder = found.size == 0 and is_folder_marker(self.root.access, found.key)
                if not marks_folder and not is_temporary(found.key.rpartition("/")[2]):
                    yield found._replace(key=found.key[skip:])

    def find(
        self,
        pattern: str,
        ingested: Mapping[str, FileFact] | None = None,
        after: str | None = None,
        on_skipped: Skip | None = None,
    ) -> Iterator[FileFact]:
        ingested = {} if ingested is None else ingested
        base, below = self.root.split(pattern)
        outside = pattern[: len(pattern) - len(below)]
        start = after.removeprefix(outside) if after is not None and after.startswith(outside) else None
        found: set[FileFact] = set()

        def skip(entry: SkippedEntry) -> None:
            if on_skipped is not None:
                on_skipped(entry._replace(path=outside + entry.path))

        with store_errors(self.root.access, self.location(pattern)):
            for fact in ObjectListing(self.root.access).matching(base, Glob(below), start, skip):
                path = outside + fact.key[len(base) :]
                file = FileFact(path, fact.size, fact.modified)
                # A listing may have more than was requested.
                if (after is None or path > after) and ingested.get(path) != file:
                    found.add(file)
            empty = {self.root.name(file.path): file for file in found if file.size == 0}
            markers = in_parallel(partial(is_folder_marker, self.root.access), list(empty))
            found -= {empty[name] for name, is_marker in markers if is_marker}
        return iter(sorted(found))

    # Reading

    def stat(self, key: str) -> ObjectFact | None:
        with store_errors(self.root.access, self.location(key)):
            found = head(self.root.access, self.root.name(key))
        return None if found is None else found._replace(key=key)

    def read(self, key: str, span: tuple[int, int] | None = None) -> bytes | None:
        if span is not None and span[0] >= span[1]:
            return None if self.stat(key) is None else b""
        with store_errors(self.root.access, self.location(key)):
            found = unless_missing(lambda: get_span(self.root.access, self.root.name(key), span))
        return None if found is None else found[1]

    def open(self, path: str, as_of: FileFact | None = None) -> BinaryIO:
        fact, first = self._first(path)
        # Times in listings may be more exact than those of a single file.
        if as_of and (as_of.size, as_of.modified // 1000) != (fact.size, fact.modified // 1000):
            raise file_rewritten(self.location(path))
        if len(first) == fact.size:
            return io.BytesIO(first)
        reader = SpanReader(fact.size, lambda start, end: self._span(path, fact, first, start, end), _PART)
        return io.BufferedReader(reader, _CHUNK)

    def _first(self, path: str) -> tuple[ObjectFact, bytes]:
        """A file, and its first bytes; all of a small file. Raises when it is gone."""
        name, location = self.root.name(path), self.location(path)
        with store_errors(self.root.access, location):
            found = unless_missing(lambda: get_span(self.root.access, name, (0, _PART)))
            if found is not None and found[0] is None:  # the first byte is after the end of an empty file
                found = unless_missing(lambda: get_span(self.root.access, name, None))
        if found is None:
            raise file_gone(location)
        return cast("tuple[ObjectFact, bytes]", found)

    def _span(self, path: str, fact: ObjectFact, first: bytes, start: int, end: int) -> bytes:
        """The bytes of a span, only if the file is unchanged."""
        if start < len(first):
            return first[start:end]
        name, location = self.root.name(path), self.location(path)
        with store_errors(self.root.access, location):
            try:
                return retrying(lambda: get_span(self.root.access, name, (start, end), fact.etag)[1])
            except Exception as error:
                match failure_kind(error):
                    case "missing":
                        raise file_gone(location) from None
                    case "exists":  # the condition of the request: the file is unchanged
                        raise file_rewritten(location) from None
                    case _:
                        raise

    # Writing

    def put_if_absent(self, key: str, data: bytes) -> bool:
        with store_errors(self.root.access, self.location(key)):
            return self._create(self.root.name(key), data)

    def _create(self, name: str, data: bytes) -> bool:
        import obstore

        write, store = uuid.uuid4().hex, connect(self.root.access).store
        put = Attempts(
            lambda: obstore.put(store, name, data, mode="create", attributes={WRITE: write}, use_multipart=False)
        )
        try:
            retrying(put)
        except Exception as error:
            # If the reply to an attempt was lost, the next one finds that file under the name. A store may also refuse
            # a large file without reading it, which looks like a broken connection.
            kind = failure_kind(error)
            if kind == "exists" and put.count == 1:
                return False
            if kind not in ("exists", "transient") or (owner := write_of(self.root.access, name)) is None:
                raise
            return owner == write
        return True

    def put_file(self, key: str, file: BinaryIO, *, size: int, on_progress: Callable[[int], None]) -> bool:
        part = max(_PART, size // _MAX_PARTS)
        first = read_full(file, part)
        if len(first) < part:
            on_progress(len(first))
            return self.put_if_absent(key, first)
        if self.root.access.kind == "s3" and size > _LARGEST_COPY:
            raise InfrastructureError(
                "file-too-large",
                f"{self.location(key)} would have {size} bytes, and S3 copies at most {_LARGEST_COPY} at once",
                hint="split the file, or upload it with the tools of the store",
            )
        return self._create_large(self.root.name(key), first, file, part, on_progress)

    def _create_large(
        self, name: str, first: bytes, file: BinaryIO, part: int, on_progress: Callable[[int], None]
    ) -> bool:
        """Upload parts to a temporary name, and copy the file to its name if that is free."""
        folder, slash, last = name.rpartition("/")
        temporary = f"{folder}{slash}{temporary_name(last)}"
        try:
            with self._upload(temporary, part, complete_always=True) as target:
                sent, chunk = 0, first
                while chunk:
                    target.write(chunk)
                    sent += len(chunk)
                    on_progress(sent)
                    chunk = read_full(file, part)
            with store_errors(self.root.access, self.root.shown(name)):
                return self._copy(temporary, name)
        finally:
            with suppress(Exception):  # report the first error, even if the temporary file stays
                self._delete([temporary])

    def _copy(self, source: str, target: str) -> bool:
        """Copy a large file, unless the target exists."""
        import obstore

        store = connect(self.root.access).store
        copy = Attempts(lambda: obstore.copy(store, source, target, overwrite=False))
        try:
            retrying(copy)
        except Exception as error:
            if failure_kind(error) != "exists":
                raise
            # If the reply to the first attempt was lost, the target is our own.
            return copy.count > 1 and self._are_equal(source, target)
        return True

    @contextmanager
    def create(self, key: str) -> Iterator[BinaryIO]:
        with self._upload(self.root.name(key), _PART) as target:
            yield cast(BinaryIO, target)

    @contextmanager
    def _upload(self, name: str, part: int, *, complete_always: bool = False) -> Iterator[_Upload]:
        """Write a file in parts; it becomes visible when the block ends. Otherwise, parts stay in the store where no
        rule deletes those of unfinished uploads, unless the upload is completed even when the block raises."""
        import obstore

        write, client = uuid.uuid4().hex, connect(self.root.access)
        writer = obstore.open_writer(
            client.persistent, name, buffer_size=part, attributes={WRITE: write}, max_concurrency=4
        )
        target = _Upload(writer, self.root.access, self.root.shown(name))
        try:
            yield target
        except BaseException:
            if complete_always:
                with suppress(Exception):
                    writer.close()
            raise
        with store_errors(self.root.access, self.root.shown(name)):
            try:
                writer.close()
            except Exception:
                # If the reply was lost, the next attempt finds no upload to complete.
                if write_of(self.root.access, name) != write:
                    raise

    def replace(self, key: str, data: bytes, *, if_match: str | None = None) -> bool:
        import obstore

        name, store, write = self.root.name(key), connect(self.root.access).store, uuid.uuid4().hex
        mode: Any = "overwrite"
        with store_errors(self.root.access, self.location(key)):
            if if_match is not None:
                meta = unless_missing(lambda: obstore.head(store, name))
                if meta is None or fact_of(meta).etag != if_match:
                    return False
                version = {} if meta["version"] is None else {"version": meta["version"]}
                mode = {"e_tag": f'"{if_match}"', **version}
            put = Attempts(
                lambda: obstore.put(store, name, data, mode=mode, attributes={WRITE: write}, use_multipart=False)
            )
            try:
                retrying(put)
            except Exception as error:
                if if_match is None or failure_kind(error) != "exists":
                    raise
                return put.count > 1 and write_of(self.root.access, name) == write
        return True

    def confirm(self, files: Mapping[str, int | None]) -> None:
        for key, found in in_parallel(self.stat, list(files)):
            size = files[key]
            if found is None or size not in (None, found.size):
                raise unconfirmed(self.location(key), size, found)

    def move(self, path: str, to: str) -> None:
        location, target = self.location(path), self.root.name(to)
        try:
            fact, first = self._first(path)
        except Exception:
            if self.stat(path) is None and self.stat(to) is not None:
                return
            raise
        with store_errors(self.root.access, location):
            # Copy first, then remove: the file exists at any moment.
            if len(first) == fact.size:
                copied = self._create(target, first)
            elif self.root.access.kind == "s3" and fact.size > _LARGEST_COPY:
                copied = head(self.root.access, target) is None and self._copy_in_parts(path, target, fact)
            else:
                copied = self._copy(self.root.name(path), target)
            if not copied and not self._are_equal(self.root.name(path), target):
                raise archive_conflict(location, self.location(to))
        self.delete([path])

    def _copy_in_parts(self, path: str, target: str, fact: ObjectFact) -> bool:
        part = fact.size // _MAX_PARTS + _PART
        with self.open(path) as source, self._upload(target, part) as file:
            while chunk := source.read(part):
                file.write(chunk)
        return True

    def _are_equal(self, one: str, other: str) -> bool:
        """Whether two files of the bucket have the same bytes."""
        first, second = head(self.root.access, one), head(self.root.access, other)
        if first is None or second is None or first.size != second.size:
            return False
        bucket = ObjectStore(RemoteFolder(self.root.access))
        return have_same_bytes(bucket.open(one), bucket.open(other))

    def delete(self, keys: Iterable[str]) -> None:
        names = [self.root.name(key) for key in keys]
        for at in range(0, len(names), PAGE):
            with store_errors(self.root.access, self.location(names[at])):
                self._delete(names[at : at + PAGE])

    def _delete(self, names: Sequence[str]) -> None:
        """Delete files with few requests. Where one is missing, or the store knows no such request, delete each."""
        import obstore

        store = connect(self.root.access).store
        if len(names) > 1:
            try:
                retrying(lambda: obstore.delete(store, names))
                return
            except Exception as error:
                if failure_kind(error) not in ("missing", "rejected"):
                    raise
        for _ in in_parallel(lambda name: unless_missing(lambda: obstore.delete(store, name)), names):
            pass

    # Engines

    def engine(self, name: EngineName) -> EngineAccess:
        from lakesmith.store.engines import engine_access

        return engine_access(self.root, name)

    def arrow(self) -> pyarrow.fs.FileSystem:
        from lakesmith.store.arrow_files import arrow_files

        return arrow_files(self)

    def probe(self) -> str | None:
        try:
            return probe_put_if_absent(self, _RACING)
        except InfrastructureError as error:
            return error.what


_CAPABILITIES = frozenset(StoreCapability) - {StoreCapability.CHECKSUM_FILES}


class _Upload(io.RawIOBase):
    """A file that is written in parts."""

    def __init__(self, writer: Any, access: Access, location: str) -> None:
        self._writer = writer
        self._access = access
        self._location = location
        self._position = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        if size:
            with store_errors(self._access, self._location):
                self._writer.write(data)
            self._position += size
        return size
