"""One port per outside thing: what Lakesmith asks of table formats, storage and query engines, and what they answer.

An adapter says what it can do in `capabilities`; what it cannot do fails before any I/O. `tests/conformance` holds
the suite that every adapter of a port has to pass.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Protocol

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class Capability(enum.Enum):
    """What an adapter of the table port may or may not be able to do."""

    APPEND = "append rows"
    OVERWRITE = "replace all rows in one commit"
    OVERWRITE_WHERE = "replace the rows of some partitions in one commit"
    MERGE = "update and insert by key in one commit"
    CHANGE_FEED = "tell which rows changed between two versions"
    FENCE = "commit a sequence number with the rows"
    TIME_TRAVEL = "read an earlier version"
    SCHEMA_EVOLUTION = "take in a new column with the rows"
    TYPE_WIDENING = "give a column a wider type without writing its rows anew"
    READ_WITHOUT_SPARK = "be read without a JVM"
    COMPACT = "put the rows of small files together"
    VACUUM = "delete files that no version needs any more"
    RESTORE = "go back to an earlier version in one commit"


@dataclass(frozen=True, slots=True)
class ColumnFact:
    """A column as it is stored."""

    name: str
    type: str
    """A Spark SQL type, such as `bigint`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What a table's own log tells, without a JVM."""

    location: str
    version: int
    table_id: str
    """Changes when the table is dropped and made anew."""
    columns: tuple[ColumnFact, ...]
    partition_by: tuple[str, ...]
    rows: int
    bytes: int
    files: int
    committed_at: datetime
    """When the newest version was committed."""
    oldest: int
    """The oldest version whose commit is still in the log: changes before it cannot be read."""
    sequence: int
    """The newest batch number that Lakesmith committed with rows; 0 when there is none."""
    change_feed: bool = True
    """Whether the table tells which rows each version changed. Those that Lakesmith makes do."""
    widened: bool = False
    """Whether types of its columns may have become wider since it was made."""
    quiet: int = 0
    """How many of the newest versions moved no row: they tell of files that were put together or deleted."""

    @property
    def changed(self) -> int:
        """The newest version that may have changed rows: whoever has read so far has read all."""
        return self.version - self.quiet


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFact:
    """One commit in a table's log."""

    version: int
    committed_at: datetime
    operation: str
    parameters: Mapping[str, str]
    metrics: Mapping[str, str]
    note: str | None = None
    """What the writer left in the commit."""
    sequences: Mapping[str, int] = field(default_factory=dict)
    """By flow, the sequence number that the commit carries."""
    changes_rows: bool = True
    """Whether rows came or went. False where a commit only moves rows to other files, or tells of no file."""
    removes_rows: bool = False
    """Whether rows that were there before were changed or removed."""


def find_commit(commits: Iterable[CommitFact], flow: str, sequence: int, note: str) -> CommitFact | None:
    """The commit of a batch, however many of other writers lie above it; None where the log does not have it.

    `commits` is read from the newest back, and no further than a commit of the same flow that precedes the batch.
    """
    for commit in commits:
        if commit.note == note:
            return commit
        committed = commit.sequences.get(flow)
        if committed is not None and committed <= sequence:
            return None
    return None


def in_order(commits: Iterable[CommitFact]) -> list[CommitFact]:
    """The commits from the oldest on, each later than the one before, as Delta counts them for time travel: a clock
    that was set back makes no version older than those before it."""
    told: list[CommitFact] = []
    for commit in sorted(commits, key=lambda each: each.version):
        least = told[-1].committed_at + timedelta(milliseconds=1) if told else commit.committed_at
        told.append(replace(commit, committed_at=max(commit.committed_at, least)))
    return told


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """What goes with the rows into a commit."""

    flow: str
    """Who writes; with `sequence` the fence against a second writer of the same batch."""
    sequence: int
    note: str = ""
    """Kept in the commit, to tell this writer's commit from a twin's."""
    partition_by: tuple[str, ...] = ()
    """Used when the table is created by this write."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Likewise."""
    evolve: bool = False
    """Columns that the table does not have are added to it."""
    vectors: bool = False
    """A merge marks the rows that it replaces, where the format can, and leaves their files as they are."""
    widen: bool = False
    """Columns for which the rows have a wider type become as wide. Only with `evolve`, and only for `append`."""
    since: int | None = None
    """The version of the table that the rows continue: where it was rolled back since, they are not written."""


QUIET = "lakesmith upkeep "
"""With this begins the note of a commit that moves no row and that no reader has to follow."""
BROADCAST_ROWS = 4_000_000
"""Of a frame that has no more rows, every task of a join holds all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """Rows to put in or, where the column GONE is true, to take away. `source` and `target` name the sides in SQL."""

    rows: DataFrame
    """Hidden columns are not stored."""
    key: tuple[str, ...]
    newer: str
    """SQL: the row of the table is to be replaced."""
    also: str | None = None
    """SQL: what else makes two rows the same, beside their key."""
    by_order: tuple[str, str] | None = None
    """SQL, a cheaper question than `newer`: the row is to be replaced; and: only `newer` can tell."""
    met: tuple[int, DataFrame] | None = None
    """A version of the table and its rows with these keys, with their places, where they were read already."""


@dataclass(frozen=True, slots=True)
class Part:
    """Which rows of a table are replaced."""

    where: str
    """SQL."""
    partitions: tuple[str | None, ...] = ()
    """Where it stands for whole partitions, the values of the one column that makes them, as Spark spells them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a commit did, as its log tells."""

    version: int
    considered: int = 0
    """Rows that a merge compared with the table."""
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    bytes: int = 0
    files: int = 0


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file with rows of a table, which no version knows of yet."""

    path: str
    """Below the table's folder."""
    size: int
    rows: int
    bounds: Mapping[str, tuple[datetime, datetime]] = field(default_factory=dict)
    """By column, the least and the greatest value, where they are known."""
    stats: str | None = None
    """Where the file itself was asked, all that the log is to tell of it."""


class TableFormat(Protocol):
    """A table format: Delta first. Methods that take a session or a frame move rows; the others need no JVM."""

    name: str
    capabilities: frozenset[Capability]

    def facts(self, location: str, flow: str) -> TableFacts | None:
        """What the table's log tells, or None when there is no table."""

    def commits(self, location: str, after: int = -1) -> Iterable[CommitFact]:
        """The commits of versions > `after`, newest first. Each is read when it is reached, so to look at the newest
        costs the same however long the log is."""

    def written(self, commit: CommitFact) -> Written:
        """What a commit did."""

    def added_by(self, location: str, version: int, column: str) -> Mapping[str, int] | None:
        """How many rows the commit of a version added, for each value of a text column; None where the commit or its
        files are gone."""

    def has_changes(self, location: str, after: int) -> bool:
        """Whether the change feed was on from the version after `after` to now."""

    def retyped(self, location: str, after: int) -> Sequence[str]:
        """The columns, nested ones by dotted names, that had another type at version `after` than they have now."""

    def adopt(self, location: str) -> None:
        """Make the Parquet files of a folder a table, without a copy of any."""

    def version_at(self, location: str, when: datetime) -> int:
        """The version that was current at `when`."""

    def is_readable(self, location: str, version: int) -> bool:
        """Whether the log and the files of a version are there."""

    def arrow(self, location: str, version: int) -> pa.dataset.Dataset | pa.RecordBatchReader:
        """The rows of a version for engines that read Arrow."""

    def read(self, spark: SparkSession, location: str, version: int, *, places: bool = False) -> DataFrame:
        """The rows of exactly that version; with `places`, hidden columns tell where each lies,
        if the format can."""

    def changes(self, spark: SparkSession, location: str, after: int, until: int) -> DataFrame:
        """The rows that changed in versions after < v <= until, with `_change_type` (insert, update_preimage,
        update_postimage, delete) and `_commit_version`."""

    def append(self, frame: DataFrame, location: str, write: Write) -> Written:
        """Add the rows; makes the table when there is none."""

    def overwrite(self, frame: DataFrame, location: str, write: Write, part: Part | None = None) -> Written:
        """Replace all rows, or those of a part, in one commit; makes the table when there is none. Rows that do not
        belong to the part are refused."""

    def merge(self, upsert: Upsert, location: str, write: Write) -> Written:
        """Update rows with the same key when they are to be replaced, insert others, delete those that are gone."""

    def widen(self, spark: SparkSession, location: str, columns: Mapping[str, str]) -> None:
        """Give columns wider types, which are Spark SQL types by name. No row is written."""

    def advance(self, location: str, write: Write, spark: SparkSession | None = None) -> Written:
        """Commit the sequence number alone. Without a JVM, unless the table is one that only `spark` can write."""

    def compact(self, spark: SparkSession, location: str, note: str) -> Written | None:
        """Put the rows of small files together in a commit that changes no row; None when there was nothing to do."""

    def vacuum(
        self, spark: SparkSession, location: str, older_than: float, look: Callable[[], None] | None = None
    ) -> None:
        """Delete the files that no version needs which was current in so many seconds, and that no version knows.
        `look` may still raise when it is known which these are: no file that comes after it is deleted."""

    def stale(self, location: str, older_than: float) -> int:
        """How many files a vacuum would delete at the most. Without a JVM."""

    def restore(self, location: str, version: int | None, write: Write) -> Written:
        """Give the table the rows and columns of an earlier version, or no rows, in one commit. Without a JVM."""

    def refuse_restore(self, location: str, version: int | None) -> None:
        """Raise where a table cannot be restored so: what it takes is gone from its log or from its folder."""

    def sync_log(self, location: str) -> None:
        """Make the table's commits survive a power cut: whoever made the newest may have been killed before it did."""

    def takes_files(self, location: str) -> bool:
        """Whether Parquet files that others wrote can be committed to the table, or to one that is made there."""

    def add(
        self, files: Sequence[DataFile], columns: str, location: str, write: Write, table_id: str | None
    ) -> Written:
        """Add the rows of Parquet files that lie in the table's folder, without a JVM. With an id, the table has it;
        without one there is none yet, and it is made. `columns` is Spark's JSON of them: the table has them all."""

    def takes_rows(self, rows: DataFrame, location: str) -> bool:
        """Whether Parquet files of such rows can be committed to the table as it is, or to one that is made there."""

    def take_folder(self, folder: str, rows: DataFrame, location: str, write: Write, *, whole: bool) -> Written:
        """Make the Parquet files of a folder, which hold columns like those of `rows` and perhaps hidden ones, part of
        the table; with `whole`, in the place of all its rows. The files are moved."""


class FileFact(NamedTuple):
    """A file as a listing shows it. A tuple: there may be a hundred thousand of them in a plan."""

    path: str
    """Below the store's root, so that a lake can be moved; absolute when it was asked for so."""
    size: int
    modified: int
    """Milliseconds since 1970."""


class SkippedEntry(NamedTuple):
    """An entry of a landing folder that a listing passes over, although its name fits the glob or would without a
    leading `_` or `.`."""

    path: str
    """Like that of a `FileFact`. Bytes that are not UTF-8 are spelled out, as in `caf\\xe9.json`."""
    code: str
    """`hidden-name`, `name-not-utf8`, `not-a-file`, `path-too-long`, `broken-link`, `link-loop`, `link-outside` or
    `link-not-followed`."""
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A stretch of a source that is not files: what comes after `since`, up to and with `until`."""

    since: Mapping[str, int | str] = field(default_factory=dict)
    """Empty before the first batch."""
    until: Mapping[str, int | str] = field(default_factory=dict)
    """Empty until it is pinned, where only a run can tell how far the source goes."""


class Storage(Protocol):
    """Bytes that are not tables: landing files, pinned batches, leases. Keys are relative to one root."""

    def root(self) -> str:
        """The absolute folder or URL of the root."""

    def location(self, path: str) -> str:
        """The absolute path or URL of a listed file."""

    def list(
        self,
        pattern: str,
        known: Mapping[str, FileFact] | None = None,
        after: str | None = None,
        on_skipped: Callable[[SkippedEntry], None] | None = None,
    ) -> Iterable[FileFact]:
        """The files that match a glob, in order of path, without those that are still as they are known by path.
        `on_skipped` gets each entry that is passed over; the same one may come more than once.

        With `after`, only those whose whole path, compared letter by letter, sorts after it: the others are not looked
        at, and folders that hold no other are not entered."""

    def read(self, key: str) -> bytes | None:
        """The bytes, or None when there is no such file."""

    def open(self, path: str, as_of: FileFact | None = None) -> BinaryIO:
        """The bytes of a listed file, as a stream; an error when it is gone, or not as it was listed in `as_of`."""

    def head(self, path: str, size: int) -> bytes:
        """The first bytes of a listed file."""

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Make the file with all its bytes, or return False and change nothing because it is there already."""

    def put_file(self, key: str, file: BinaryIO, *, size: int, tell: Callable[[int], None]) -> bool:
        """`put_if_absent` for bytes that are too many to hold; `tell` hears how many have been taken so far. What
        `file` raises ends it, and leaves nothing that can be seen."""

    def replace(self, key: str, data: bytes) -> None:
        """Make or overwrite the file; readers see the old bytes or the new, never a part."""

    def move(self, path: str, to: str) -> None:
        """Give a listed file another path. To do it twice is as good as once; a file that is there is never replaced
        by other bytes."""

    def remove(self, key: str) -> bool:
        """Remove the file; False when somebody else did."""

    def keys(self, folder: str) -> Sequence[str]:
        """The file names directly in a folder, sorted."""

    def probe(self) -> str | None:
        """Try put-if-absent for real; what is wrong with the store, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Rows that a query gave."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    truncated: bool = False
    """Whether there are more rows than these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewColumn:
    """A column of a view."""

    name: str
    sql: str | None = None
    """Spark SQL over the columns of the table; without it, the column of the same name."""
    type: str | None = None
    """The Spark SQL type that it is cast to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A table in another shape."""

    table: str
    columns: tuple[ViewColumn, ...]


class QueryEngine(Protocol):
    """Answers SQL over tables of the lake."""

    name: str

    def referenced(self, sql: str) -> frozenset[str]:
        """The table names, as written, that a statement reads; an error when it is not a single SELECT."""

    def query(
        self,
        sql: str,
        tables: Mapping[str, pa.dataset.Dataset | pa.RecordBatchReader],
        views: Mapping[str, View] | None = None,
        *,
        rows: int | None = None,
    ) -> Answer:
        """Run the statement over these tables, these views of them, and nothing else. Gives the first `rows`."""
