"""The port to stores: bytes that Spark does not move, with the values that it exchanges.

Keys are paths with slashes, relative to the root of a store. Above this port nothing renames files, makes links, or
trusts modification times.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    import pyarrow.fs


class StoreCapability(enum.Enum):
    """What a store may support besides listing and reading."""

    WRITE = "create, replace, move and delete files"
    REPLACE_IF_MATCH = "replace a file only if it is unchanged"
    TABLES = "hold tables: of all creators of a file exactly one wins, and engines read and write its files"
    SHARED = "be reached from other machines"
    CHECKSUM_FILES = "hold Hadoop's checksum file beside a file, because the store has no checksums of its own"


EngineName = Literal["spark", "delta-rs", "duckdb"]


class ObjectFact(NamedTuple):
    """A file of a store."""

    key: str
    size: int
    modified: int
    """Milliseconds since 1970, by the store's clock."""
    etag: str
    """Changes with the content."""


@dataclass(frozen=True, slots=True)
class EngineAccess:
    """How an engine reaches a store. Its `repr` shows no setting, because they include secrets."""

    url: str
    """The root of the store, as the engine spells it."""
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Spark settings, or the storage options of a library."""


class FileFact(NamedTuple):
    """A file of a listing. A tuple: a plan may have a hundred thousand of them."""

    path: str
    """Relative to the store's root, so that a lake can be moved; absolute when the glob is."""
    size: int
    modified: int
    """Milliseconds since 1970."""


class SkippedEntry(NamedTuple):
    """An entry of a landing folder that a listing skips, although its name matches the glob, or would without a leading
    `_` or `.`."""

    path: str
    """As in `FileFact`. Bytes that are not UTF-8 are escaped, as in `caf\\xe9.json`."""
    code: str
    """`hidden-name`, `name-not-utf8`, `not-a-file`, `path-too-long`, `broken-link`, `link-loop`, `link-outside` or
    `link-not-followed`."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A range of a source that is not files: after `since`, up to and including `until`."""

    since: Mapping[str, int | str] = field(default_factory=dict)
    """Empty before the first batch."""
    until: Mapping[str, int | str] = field(default_factory=dict)
    """Empty until it is pinned, where only a run can find the end of the source."""


class Store(Protocol):
    """Files below one root. A store can be sent to another process: it connects where it is used."""

    def __hash__(self) -> int:
        """Facts about a store are remembered."""

    @property
    def url(self) -> str:
        """The absolute folder or URL of the root, without a slash at the end."""

    @property
    def capabilities(self) -> frozenset[StoreCapability]:
        """What the store supports."""

    def location(self, key: str) -> str:
        """The absolute path or URL of a file."""

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[ObjectFact]:
        """The files whose keys start with a prefix, also in folders below it, in order of key; with `after`, only those
        whose keys sort after it. Unfinished files are not listed."""

    def find(
        self,
        pattern: str,
        ingested: Mapping[str, FileFact] | None = None,
        after: str | None = None,
        on_skipped: Callable[[SkippedEntry], None] | None = None,
    ) -> Iterable[FileFact]:
        """The landed files that match a glob, in order of path, without the unchanged files of `ingested`. `on_skipped`
        gets each skipped entry; the same one may come more than once.

        With `after`, only files whose full path, compared letter by letter, sorts after it. Other files are not
        checked, and folders that have only such files are not listed."""

    def stat(self, key: str) -> ObjectFact | None:
        """The file of a key, or None when there is none."""

    def read(self, key: str, span: tuple[int, int] | None = None) -> bytes | None:
        """The bytes, or those from `span[0]` up to `span[1]`; None when there is no such file."""

    def open(self, path: str, as_of: FileFact | None = None) -> BinaryIO:
        """The bytes of a found file, as a stream; raises when it is gone, or has changed since `as_of`."""

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Create the file with all its bytes, or return False and change nothing because it exists. When it returns,
        the file survives a power cut."""

    def put_file(self, key: str, file: BinaryIO, *, size: int, on_progress: Callable[[int], None]) -> bool:
        """`put_if_absent` for content larger than memory; `on_progress` gets the number of bytes read so far. Errors of
        `file` end it, and leave nothing visible."""

    def create(self, key: str) -> AbstractContextManager[BinaryIO]:
        """Write a file of a new, unique name as a stream. It is visible when the block ends, and not at all when the
        block raises. `confirm` makes it durable."""

    def replace(self, key: str, data: bytes, *, if_match: str | None = None) -> bool:
        """Create or overwrite the file; readers see the old bytes or the new, never a part. With `if_match`, False when
        the file has another etag or is gone."""

    def confirm(self, files: Mapping[str, int | None]) -> None:
        """Make sure that files which others wrote, such as Spark, exist with these sizes and survive a power cut.
        Raises where one is missing or has another size."""

    def move(self, path: str, to: str) -> None:
        """Move a found file to another path. A repeated move does nothing; an existing file is never overwritten with
        other bytes."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete files; missing ones are no error."""

    def engine(self, name: EngineName) -> EngineAccess:
        """How an engine reaches the store."""

    def arrow(self) -> pyarrow.fs.FileSystem:
        """The store as a file system of Arrow, with keys as paths."""

    def probe(self) -> str | None:
        """Test put-if-absent in the store; return what is wrong with it, or None."""


class DiskStore(Store, Protocol):
    """A store with `StoreCapability.CHECKSUM_FILES`: a local disk. A disk syncs nothing by itself, and returns flipped
    bits without an error."""

    def put_checked(self, key: str, data: bytes, files: Mapping[str, int | None], linked: Callable[[], None]) -> bool:
        """`put_if_absent` of a file with a checksum file, after `confirm` of others: a slow disk syncs many files as
        fast as one. `linked` is called when the file has its name."""

    def is_corrupt(self, key: str, data: bytes | None = None) -> bool:
        """Whether a file, or its content where given, does not match its checksum file. A missing checksum file proves
        nothing. Raises OSError."""

    def drop_stale_checksums(self, keys: Iterable[str]) -> None:
        """Before files are created: remove the checksum files of deleted files of the same names."""

    def write_checksums(self, folder: str, names: re.Pattern[str]) -> None:
        """Write the missing checksum files of the newest files of a folder, and remove leftovers of killed writers."""

    def make_folder(self, key: str) -> None:
        """Create a folder and its parents, with the permissions of the warehouse."""

    def sync_folder(self, key: str) -> None:
        """Sync the names in a folder, if it exists."""

    def folder_changed(self, key: str) -> int | None:
        """Nanoseconds since 1970 of the last new or removed name in a folder; None where there is no folder."""

    def scratch(self, keys: Iterable[str]) -> AbstractContextManager[Store]:
        """A temporary store with links to these files, for programs that do not sync what they write."""


@dataclass(frozen=True, slots=True)
class TableFolder:
    """The folder of a table in a store. Names are relative to the folder."""

    store: Store
    path: str
    """The key of the folder, without a slash at the end."""

    @property
    def url(self) -> str:
        """The absolute path or URL, as in errors."""
        return self.store.location(self.path)

    def __str__(self) -> str:
        return self.url

    @property
    def disk(self) -> DiskStore | None:
        """The store, where it is a local disk."""
        return cast("DiskStore", self.store) if StoreCapability.CHECKSUM_FILES in self.store.capabilities else None

    def key(self, name: str) -> str:
        """The key of a file."""
        return f"{self.path}/{name}"

    def below(self, name: str) -> TableFolder:
        """A folder in the folder."""
        return TableFolder(self.store, self.key(name))

    def list(self, prefix: str = "", *, after: str | None = None) -> Iterator[ObjectFact]:
        """The files whose names start with a prefix, in order of name."""
        start = None if after is None else self.key(after)
        skip = len(self.path) + 1
        for found in self.store.list(self.key(prefix), after=start):
            yield found._replace(key=found.key[skip:])

    def stat(self, name: str) -> ObjectFact | None:
        return self.store.stat(self.key(name))

    def read(self, name: str, span: tuple[int, int] | None = None) -> bytes | None:
        return self.store.read(self.key(name), span)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        return self.store.put_if_absent(self.key(name), data)

    def create(self, name: str) -> AbstractContextManager[BinaryIO]:
        return self.store.create(self.key(name))

    def replace(self, name: str, data: bytes) -> None:
        self.store.replace(self.key(name), data)

    def confirm(self, files: Mapping[str, int | None]) -> None:
        self.store.confirm({self.key(name): size for name, size in files.items()})

    def delete(self, names: Iterable[str]) -> None:
        self.store.delete(self.key(name) for name in names)

    def engine_url(self, name: EngineName) -> str:
        """The URL of the folder, as an engine spells it."""
        return f"{self.store.engine(name).url}/{self.path}"


def names_in_folder(store: Store, folder: str) -> Sequence[str]:
    """The names of the files directly in a folder, in order."""
    found = (file.key[len(folder) + 1 :] for file in store.list(f"{folder}/"))
    return [name for name in found if "/" not in name]
