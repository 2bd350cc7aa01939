"""Object stores, through obstore: S3 and compatible, Azure, Google Cloud Storage.

An `ObjectStore` can be sent to another process: it holds the settings, and connects where it is used.
"""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

from lakesmith.errors import InfrastructureError
from lakesmith.ports import EngineAccess, EngineName, FileFact, ObjectFact, SkippedEntry, StoreCapability
from lakesmith.store.access import Access
from lakesmith.store.errors import archive_conflict, file_gone, file_rewritten, probe_put_if_absent, unconfirmed
from lakesmith.store.failures import WRITE, failure_kind, retrying, store_errors
from lakesmith.store.globs import Glob, walk
from lakesmith.store.object_clients import connect
from lakesmith.store.skipped import Skip, hidden, is_temporary, temporary_name

if TYPE_CHECKING:
    import pyarrow.fs

Result = TypeVar("Result")

_PART = 8 * 1024 * 1024
"""Files up to this size are read and written in one request."""
_MAX_PARTS = 9000
"""S3 allows ten thousand; a file that grows a little must not fail at its end."""
_LARGEST_COPY = 5 * 1024**3
"""The largest file that S3 copies in one request."""
_CHUNK = 4 * 1024 * 1024
_PAGE = 1000
_LAST = "\U0010fffd"
"""Sorts after every letter of a name."""


class ObjectStore:
    """The files of a bucket or container below one folder."""

    def __init__(self, access: Access, base: str = "") -> None:
        self._access = access
        self._base = f"{base}/" if base else ""

    def __repr__(self) -> str:
        return f"ObjectStore({self.url})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectStore) and (other._access, other._base) == (self._access, self._base)

    def __hash__(self) -> int:
        return hash((self._access, self._base))

    @property
    def url(self) -> str:
        return f"{self._access.url}/{self._base}".rstrip("/")

    @property
    def capabilities(self) -> frozenset[StoreCapability]:
        return _CAPABILITIES

    def location(self, key: str) -> str:
        return key if "://" in key else f"{self._access.url}/{self._base}{key}"

    # Listings

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[ObjectFact]:
        start = None if after is None else self._base + after
        skip = len(self._base)
        with store_errors(self._access, self.location(prefix)):
            for found in self._scan(self._base + prefix, start):
                if is_temporary(found.key.rpartition("/")[2]) or (found.size == 0 and self._is_marker(found.key)):
                    continue
                yield found._replace(key=found.key[skip:])

    def find(
        self,
        pattern: str,
        ingested: Mapping[str, FileFact] | None = None,
        after: str | None = None,
        on_skipped: Skip | None = None,
    ) -> Iterator[FileFact]:
        ingested = {} if ingested is None else ingested
        base, below = self._split(pattern)
        outside = pattern[: len(pattern) - len(below)]
        start = after.removeprefix(outside) if after is not None and after.startswith(outside) else None
        found: set[FileFact] = set()

        def skip(entry: SkippedEntry) -> None:
            if on_skipped is not None:
                on_skipped(entry._replace(path=outside + entry.path))

        with store_errors(self._access, self.location(pattern)):
            for fact in self._matching(base, Glob(below), start, skip):
                path = outside + fact.key[len(base) :]
                file = FileFact(path, fact.size, fact.modified)
                # A listing may have more than was requested.
                if (after is None or path > after) and ingested.get(path) != file:
                    found.add(file)
            empty = {self._key(file.path): file for file in found if file.size == 0}
            found -= {empty[name] for name, is_marker in self._in_parallel(self._is_marker, list(empty)) if is_marker}
        return iter(sorted(found))

    def _matching(self, base: str, glob: Glob, after: str | None, skip: Skip) -> Iterator[ObjectFact]:
        """The matching files, and those hidden ones that are reported to `skip`. `after` only saves requests."""
        start = None if after is None else base + after
        flat = glob.is_flat and not glob.is_path
        if flat and (not self._is_sorted or (start is None and glob.prefix == glob.folder)):
            listed: Iterable[ObjectFact] = self._children(base + glob.folder)[0]
        elif start is not None and not self._is_sorted and not glob.is_path:
            # Folder by folder, so that old ones are not listed.
            yield from (fact for _, fact in walk(glob, lambda folder, deep: self._entries(base + folder), after, skip))
            return
        else:
            listed = self._scan(base + glob.prefix, start, flat=flat)
        for fact in listed:
            path = fact.key[len(base) :]
            if glob.matches(path):
                yield fact
            elif by := glob.hidden_in(path):
                skip(hidden(by))

    def _scan(self, prefix: str, after: str | None = None, *, flat: bool = False) -> Iterator[ObjectFact]:
        """The files whose keys start with a prefix and sort after `after`, in order; when flat, none in folders below
        the one of the prefix."""
        folder = prefix[: prefix.rfind("/") + 1]
        if not self._is_sorted:
            listed = sorted(self._stream(folder, None))
            yield from (fact for fact in listed if fact.key.startswith(prefix) and (after is None or fact.key > after))
            return
        start: str | None = max(_just_before(prefix), after or "")
        while start is not None:
            begin, start, below = start, None, 0
            for fact in self._stream(folder, begin):
                key = fact.key
                if key.startswith(prefix):
                    if flat and "/" in key[len(folder) :]:
                        below += 1
                        if below > _PAGE:  # listing further files of the folder would cost more than to start again
                            start = folder + key[len(folder) :].partition("/")[0] + "/" + _LAST
                            break
                    elif after is None or key > after:
                        below = 0
                        yield fact
                elif key > prefix:
                    return

    def _stream(self, folder: str, after: str | None) -> Iterator[ObjectFact]:
        """The files below a folder. With `after`, the store may omit those that do not sort after it."""
        import obstore

        options = {"offset": _valid(after)} if after else {}
        for page in obstore.list(connect(self._access).persistent, folder or None, chunk_size=_PAGE, **options):
            yield from map(_fact, page)

    def _children(self, folder: str) -> tuple[Sequence[ObjectFact], Sequence[str]]:
        """The files and the folders directly in a folder."""
        import obstore

        listed = obstore.list_with_delimiter(connect(self._access).persistent, folder or None)
        return [_fact(meta) for meta in listed["objects"]], listed["common_prefixes"]

    def _entries(self, folder: str) -> Iterator[tuple[str, bool, ObjectFact]]:
        files, folders = self._children(folder)
        for path in folders:
            yield path[len(folder) :], True, ObjectFact(path, 0, 0, "")
        for fact in files:
            yield fact.key[len(folder) :], False, fact

    def _is_marker(self, name: str) -> bool:
        """Whether an empty object of a listing stands for a folder, as Hadoop makes them. Either its name ends with a
        slash, which the listing does not show, so that no object has the name; or an attribute says so."""
        import obstore

        store = connect(self._access).store
        found = _unless_missing(lambda: obstore.get(store, name, options={"head": True}).attributes)
        return found is None or found.get("hdi_isfolder") == "true"

    @property
    def _is_sorted(self) -> bool:
        """Whether listings are sorted, and can start in the middle."""
        return self._access.kind in ("s3", "gs")

    # Reading

    def stat(self, key: str) -> ObjectFact | None:
        with store_errors(self._access, self.location(key)):
            found = self._head(self._key(key))
        return None if found is None else found._replace(key=key)

    def _head(self, name: str) -> ObjectFact | None:
        import obstore

        meta = _unless_missing(lambda: obstore.head(connect(self._access).store, name))
        return None if meta is None else _fact(meta)

    def read(self, key: str, span: tuple[int, int] | None = None) -> bytes | None:
        if span is not None and span[0] >= span[1]:
            return None if self.stat(key) is None else b""
        with store_errors(self._access, self.location(key)):
            found = _unless_missing(lambda: self._get(self._key(key), span))
        return None if found is None else found[1]

    def _get(self, name: str, span: tuple[int, int] | None, etag: str | None = None) -> tuple[ObjectFact | None, bytes]:
        """The file, and the bytes of a span; no file when the span starts after its end."""
        import obstore

        options: dict[str, Any] = {}
        if span is not None:
            options["range"] = span
        if etag is not None:
            options["if_match"] = f'"{etag}"'
        try:
            found = obstore.get(connect(self._access).store, name, options=cast(Any, options))
            return _fact(found.meta), bytes(found.bytes())
        except Exception as error:
            if failure_kind(error) != "range":
                raise
            return None, b""

    def open(self, path: str, as_of: FileFact | None = None) -> BinaryIO:
        fact, first = self._first(path)
        # Times in listings may be more exact than those of a single file.
        if as_of and (as_of.size, as_of.modified // 1000) != (fact.size, fact.modified // 1000):
            raise file_rewritten(self.location(path))
        if len(first) == fact.size:
            return io.BytesIO(first)
        return cast(BinaryIO, io.BufferedReader(_Reader(self, self._key(path), fact, first), _CHUNK))

    def _first(self, path: str) -> tuple[ObjectFact, bytes]:
        """A file, and its first bytes; all of a small file. Raises when it is gone."""
        name, location = self._key(path), self.location(path)
        with store_errors(self._access, location):
            found = _unless_missing(lambda: self._get(name, (0, _PART)))
            if found is not None and found[0] is None:  # the first byte is after the end of an empty file
                found = _unless_missing(lambda: self._get(name, None))
        if found is None:
            raise file_gone(location)
        return cast("tuple[ObjectFact, bytes]", found)

    # Writing

    def put_if_absent(self, key: str, data: bytes) -> bool:
        with store_errors(self._access, self.location(key)):
            return self._create(self._key(key), data)

    def _create(self, name: str, data: bytes) -> bool:
        import obstore

        write, store = uuid.uuid4().hex, connect(self._access).store
        put = _Attempts(
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
            if kind not in ("exists", "transient") or (owner := self._write_of(name)) is None:
                raise
            return owner == write
        return True

    def _write_of(self, name: str) -> str | None:
        """The id of the write that created a file, after an error; None when it cannot be found."""
        import obstore

        try:
            found = obstore.get(connect(self._access).persistent, name, options={"head": True})
        except Exception as error:
            if failure_kind(error) not in ("missing", "transient"):
                raise
            return None
        return str(found.attributes.get(WRITE, ""))

    def put_file(self, key: str, file: BinaryIO, *, size: int, on_progress: Callable[[int], None]) -> bool:
        part = max(_PART, size // _MAX_PARTS)
        first = _read_full(file, part)
        if len(first) < part:
            on_progress(len(first))
            return self.put_if_absent(key, first)
        if self._access.kind == "s3" and size > _LARGEST_COPY:
            raise InfrastructureError(
                "file-too-large",
                f"{self.location(key)} would have {size} bytes, and S3 copies at most {_LARGEST_COPY} at once",
                hint="split the file, or upload it with the tools of the store",
            )
        return self._create_large(self._key(key), first, file, part, on_progress)

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
                    chunk = _read_full(file, part)
            with store_errors(self._access, self._shown(name)):
                return self._copy(temporary, name)
        finally:
            with suppress(Exception):  # report the first error, even if the temporary file stays
                self._delete([temporary])

    def _copy(self, source: str, target: str) -> bool:
        """Copy a large file, unless the target exists."""
        import obstore

        store = connect(self._access).store
        copy = _Attempts(lambda: obstore.copy(store, source, target, overwrite=False))
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
        with self._upload(self._key(key), _PART) as target:
            yield cast(BinaryIO, target)

    @contextmanager
    def _upload(self, name: str, part: int, *, complete_always: bool = False) -> Iterator[_Upload]:
        """Write a file in parts; it becomes visible when the block ends. Otherwise, parts stay in the store where no
        rule deletes those of unfinished uploads, unless the upload is completed even when the block raises."""
        import obstore

        write, client = uuid.uuid4().hex, connect(self._access)
        writer = obstore.open_writer(
            client.persistent, name, buffer_size=part, attributes={WRITE: write}, max_concurrency=4
        )
        target = _Upload(writer, self._access, self._shown(name))
        try:
            yield target
        except BaseException:
            if complete_always:
                with suppress(Exception):
                    writer.close()
            raise
        with store_errors(self._access, self._shown(name)):
            try:
                writer.close()
            except Exception:
                # If the reply was lost, the next attempt finds no upload to complete.
                if self._write_of(name) != write:
                    raise

    def replace(self, key: str, data: bytes, *, if_match: str | None = None) -> bool:
        import obstore

        name, store, write = self._key(key), connect(self._access).store, uuid.uuid4().hex
        mode: Any = "overwrite"
        with store_errors(self._access, self.location(key)):
            if if_match is not None:
                meta = _unless_missing(lambda: obstore.head(store, name))
                if meta is None or _fact(meta).etag != if_match:
                    return False
                version = {} if meta["version"] is None else {"version": meta["version"]}
                mode = {"e_tag": f'"{if_match}"', **version}
            put = _Attempts(
                lambda: obstore.put(store, name, data, mode=mode, attributes={WRITE: write}, use_multipart=False)
            )
            try:
                retrying(put)
            except Exception as error:
                if if_match is None or failure_kind(error) != "exists":
                    raise
                return put.count > 1 and self._write_of(name) == write
        return True

    def confirm(self, files: Mapping[str, int | None]) -> None:
        for key, found in self._in_parallel(self.stat, list(files)):
            size = files[key]
            if found is None or size not in (None, found.size):
                raise unconfirmed(self.location(key), size, found)

    def move(self, path: str, to: str) -> None:
        location, target = self.location(path), self._key(to)
        try:
            fact, first = self._first(path)
        except Exception:
            if self.stat(path) is None and self.stat(to) is not None:
                return
            raise
        with store_errors(self._access, location):
            # Copy first, then remove: the file exists at any moment.
            if len(first) == fact.size:
                copied = self._create(target, first)
            elif self._access.kind == "s3" and fact.size > _LARGEST_COPY:
                copied = self._head(target) is None and self._copy_in_parts(path, target, fact)
            else:
                copied = self._copy(self._key(path), target)
            if not copied and not self._are_equal(self._key(path), target):
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
        root = ObjectStore(self._access)
        first, second = root.stat(one), root.stat(other)
        if first is None or second is None or first.size != second.size:
            return False
        with root.open(one) as left, root.open(other) as right:
            while True:
                chunk = left.read(_CHUNK)
                if chunk != right.read(_CHUNK):
                    return False
                if not chunk:
                    return True

    def delete(self, keys: Iterable[str]) -> None:
        names = [self._key(key) for key in keys]
        for at in range(0, len(names), _PAGE):
            with store_errors(self._access, self.location(names[at])):
                self._delete(names[at : at + _PAGE])

    def _delete(self, names: Sequence[str]) -> None:
        """Delete files with few requests. Where one is missing, or the store knows no such request, delete each."""
        import obstore

        store = connect(self._access).store
        if len(names) > 1:
            try:
                retrying(lambda: obstore.delete(store, names))
                return
            except Exception as error:
                if failure_kind(error) not in ("missing", "rejected"):
                    raise
        for _ in self._in_parallel(lambda name: _unless_missing(lambda: obstore.delete(store, name)), names):
            pass

    # Engines

    def engine(self, name: EngineName) -> EngineAccess:
        from lakesmith.store.engines import engine_access

        return engine_access(self._access, self._base, name)

    def arrow(self) -> pyarrow.fs.FileSystem:
        from lakesmith.store.arrow_files import arrow_files

        return arrow_files(self)

    def probe(self) -> str | None:
        try:
            return probe_put_if_absent(self)
        except InfrastructureError as error:
            return error.what

    def _split(self, path: str) -> tuple[str, str]:
        """The base folder of a path, and the path below it; for a URL, the base is empty."""
        if path.startswith(f"{self._access.url}/"):
            return "", path.removeprefix(f"{self._access.url}/")
        return self._base, path

    def _key(self, path: str) -> str:
        return "".join(self._split(path))

    def _shown(self, name: str) -> str:
        """The URL of a file by its name in the bucket."""
        return f"{self._access.url}/{name}"

    def _in_parallel(self, act: Callable[[str], Result], items: Sequence[str]) -> Iterator[tuple[str, Result]]:
        if len(items) == 1:
            yield items[0], act(items[0])
        elif items:
            with ThreadPoolExecutor(min(16, len(items))) as pool:
                yield from zip(items, pool.map(act, items), strict=True)


_CAPABILITIES = frozenset(StoreCapability) - {StoreCapability.CHECKSUM_FILES}


class _Attempts:
    """Counts the calls of an action."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self.count = 0

    def __call__(self) -> object:
        self.count += 1
        return self._act()


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


class _Reader(io.RawIOBase):
    """A stream of a large file: each request is for a range, and only if the file is unchanged."""

    def __init__(self, store: ObjectStore, name: str, fact: ObjectFact, first: bytes) -> None:
        self._store = store
        self._name = name
        self._location = store._shown(name)
        self._fact = fact
        self._first = first
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._fact.size}[whence]
        return self._position

    def readinto(self, buffer: Any) -> int:
        chunk = self._next(len(buffer))
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self._next(_PART), b""))

    def _next(self, size: int) -> bytes:
        start = self._position
        end = min(start + min(size, _PART), self._fact.size)
        if end <= start:
            return b""
        if start < len(self._first):
            chunk = self._first[start:end]
        else:
            with store_errors(self._store._access, self._location):
                chunk = retrying(lambda: self._range(start, end))
        self._position += len(chunk)
        return chunk

    def _range(self, start: int, end: int) -> bytes:
        try:
            return self._store._get(self._name, (start, end), self._fact.etag)[1]
        except Exception as error:
            match failure_kind(error):
                case "missing":
                    raise file_gone(self._location) from None
                case "exists":  # the condition of the request: the file is unchanged
                    raise file_rewritten(self._location) from None
                case _:
                    raise


def _fact(meta: Any) -> ObjectFact:
    modified = max(0, int(meta["last_modified"].timestamp() * 1000))
    # Some listings have etags without quotes.
    return ObjectFact(meta["path"], meta["size"], modified, (meta["e_tag"] or str(modified)).strip('"'))


def _just_before(prefix: str) -> str:
    """A key that sorts before all keys with a prefix, and after most of the others in the same folder."""
    if not prefix or prefix.endswith("/"):
        return ""
    return prefix[:-1] + chr(ord(prefix[-1]) - 1) + _LAST


def _valid(key: str) -> str:
    """The part of a text that can be a key, which sorts before the text."""
    valid: list[str] = []
    for segment in key.split("/"):
        if segment in ("", ".", ".."):
            break
        valid.append(segment)
    return "/".join(valid)


def _unless_missing(act: Callable[[], Result]) -> Result | None:
    try:
        return retrying(act)
    except Exception as error:
        if failure_kind(error) != "missing":
            raise
        return None


def _read_full(file: BinaryIO, size: int) -> bytes:
    """As many bytes as a file still has, up to a size: raw files may return fewer than were requested."""
    chunks, missing = [], size
    while missing and (chunk := file.read(missing)):
        chunks.append(chunk)
        missing -= len(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
