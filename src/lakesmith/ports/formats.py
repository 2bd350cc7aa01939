"""The port to table formats, with the values that it exchanges."""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from lakesmith.ports.stores import TableFolder

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import FileMetaData
    from pyspark.sql import DataFrame, SparkSession


class Capability(enum.Enum):
    """What an adapter of the table port may support."""

    APPEND = "append rows"
    OVERWRITE = "replace all rows in one commit"
    OVERWRITE_WHERE = "replace the rows of some partitions in one commit"
    MERGE = "update and insert by key in one commit"
    CHANGE_FEED = "report which rows changed between two versions"
    FENCE = "commit a sequence number with the rows"
    TIME_TRAVEL = "read an earlier version"
    SCHEMA_EVOLUTION = "add a new column with the rows"
    TYPE_WIDENING = "widen a column without rewriting its rows"
    READ_WITHOUT_SPARK = "be read without a JVM"
    COMPACT = "combine small files"
    VACUUM = "delete files that no recent version references"
    RESTORE = "restore an earlier version in one commit"


@dataclass(frozen=True, slots=True)
class ColumnFact:
    """A column as it is stored."""

    name: str
    type: str
    """A Spark SQL type, such as `bigint`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """Facts of a table from its log, read without a JVM."""

    folder: TableFolder
    version: int
    table_id: str
    """Changes when the table is dropped and created again."""
    columns: tuple[ColumnFact, ...]
    partition_by: tuple[str, ...]
    rows: int
    bytes: int
    files: int
    committed_at: datetime
    """When the newest version was committed."""
    oldest: int
    """The oldest version whose commit is still in the log. Earlier changes are no longer readable."""
    sequence: int
    """The newest batch number that Lakesmith committed with rows; 0 when there is none."""
    change_feed: bool = True
    """Whether the table has a change feed. Tables that Lakesmith creates have one."""
    widened: bool = False
    """Whether columns may have been widened since the table was created."""
    maintenance_commits: int = 0
    """The number of newest commits that changed no row, such as compactions and vacuums."""

    @property
    def changed(self) -> int:
        """The newest version that may have changed rows: a reader of this version is up to date."""
        return self.version - self.maintenance_commits


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFact:
    """One commit in a table's log."""

    version: int
    committed_at: datetime
    operation: str
    parameters: Mapping[str, str]
    metrics: Mapping[str, str]
    note: str | None = None
    """The writer's note in the commit."""
    sequences: Mapping[str, int] = field(default_factory=dict)
    """The sequence numbers in the commit, by flow."""
    changes_rows: bool = True
    """Whether rows were added or removed. False for a commit that only moves rows between files, or names no file."""
    removes_rows: bool = False
    """Whether existing rows were changed or removed."""


def find_commit(commits: Iterable[CommitFact], flow: str, sequence: int, note: str) -> CommitFact | None:
    """The commit of a batch; None where the log does not have it.

    Reads `commits` from the newest back, skips commits of other writers, and stops at an earlier commit of the flow.
    """
    for commit in commits:
        if commit.note == note:
            return commit
        committed = commit.sequences.get(flow)
        if committed is not None and committed <= sequence:
            return None
    return None


def in_commit_order(commits: Iterable[CommitFact]) -> list[CommitFact]:
    """The commits from the oldest on, with increasing times as in Delta's time travel: a clock that was set back makes
    no version older than earlier ones."""
    ordered: list[CommitFact] = []
    for commit in sorted(commits, key=lambda each: each.version):
        earliest = ordered[-1].committed_at + timedelta(milliseconds=1) if ordered else commit.committed_at
        ordered.append(replace(commit, committed_at=max(commit.committed_at, earliest)))
    return ordered


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """What a commit stores besides the rows, and how it writes them."""

    flow: str
    """The writer. With `sequence`, it fences off a second writer of the same batch."""
    sequence: int
    note: str = ""
    """Stored in the commit, to distinguish this writer's commit from another one of the same batch."""
    partition_by: tuple[str, ...] = ()
    """Used when this write creates the table."""
    change_feed: bool = False
    """Used when this write creates the table: it has a change feed."""
    stats_columns: tuple[str, ...] = ()
    """Used when this write creates the table: readers filter by these columns only. Empty for all columns."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Used when this write creates the table: properties of the format, by its own names."""
    evolve: bool = False
    """Add columns that the table does not have."""
    deletion_vectors: bool = False
    """A merge uses deletion vectors, where the format can, instead of rewriting files. A table that this write creates
    allows them."""
    few: bool = False
    """The rows are so few that the driver may collect them and write their files."""
    widen: bool = False
    """Widen columns to the types of the rows. Only with `evolve`, and only for `append`."""
    based_on: int | None = None
    """The version of the table that the rows continue. After a rollback behind it, the write fails."""


BATCH_FOLDER = "batch-"
"""The start of the names of folders with the files of one attempt at a batch."""
MAINTENANCE_NOTE = "lakesmith maintenance "
"""The start of the note of a commit that changes no row. Readers skip such commits."""
BROADCAST_ROWS = 4_000_000
"""The maximum number of rows in a frame that a join broadcasts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """Rows to upsert or, where the column DELETE_ROW is true, to delete. In SQL, `source` is a row of the batch and
    `target` a row of the table."""

    rows: DataFrame
    """Hidden columns are not stored."""
    key: tuple[str, ...]
    newer: str
    """SQL: the row of the batch replaces the row of the table."""
    extra_match: str | None = None
    """SQL: a condition that two rows must meet to match, besides equal keys."""
    by_order: tuple[str, str] | None = None
    """Two cheaper SQL conditions: the row of the batch replaces the row of the table; only `newer` can decide."""
    matched: tuple[int, DataFrame] | None = None
    """A version of the table and its rows with these keys and their positions, where they were read already."""


@dataclass(frozen=True, slots=True)
class ReplaceWhere:
    """Which rows of a table an overwrite replaces."""

    where: str
    """SQL."""
    partitions: tuple[str | None, ...] = ()
    """For whole partitions: the values of the partition column, as Spark's text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """What a commit did, from its log."""

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
    """A Parquet file with rows of a table that no version references yet."""

    path: str
    """Below the table's folder."""
    size: int
    rows: int
    bounds: Mapping[str, tuple[datetime, datetime]] = field(default_factory=dict)
    """The least and the greatest value of columns, where known."""
    footer: FileMetaData | None = None
    """The footer, where it was read already."""
    partition: Mapping[str, str | None] = field(default_factory=dict)
    """The values of the partition columns, as text."""


def new_batch_folder(sequence: int) -> str:
    """A new name for a folder below a table's, for the files of one attempt at a batch. Nobody else writes to it."""
    return f"{BATCH_FOLDER}{sequence:08}-{uuid.uuid4().hex[:8]}"


class TableFormat(Protocol):
    """A table format: Delta first. Methods that take a session or a frame move rows; the others need no JVM."""

    name: str
    capabilities: frozenset[Capability]

    def facts(self, folder: TableFolder, flow: str) -> TableFacts | None:
        """The facts of the newest version, or None when there is no table."""

    def commits(self, folder: TableFolder, after: int = -1) -> Iterable[CommitFact]:
        """The commits of versions > `after`, newest first. Each is read on demand, so the newest costs the same however
        long the log is."""

    def commit_result(self, commit: CommitFact) -> CommitResult:
        """What a commit did."""

    def rows_added_by(self, folder: TableFolder, version: int, column: str) -> Mapping[str, int] | None:
        """How many rows the commit of a version added, for each value of a text column; None where the commit or its
        files are gone."""

    def has_change_feed(self, folder: TableFolder, after: int) -> bool:
        """Whether the change feed was on from the version after `after` to now."""

    def changed_types(self, folder: TableFolder, after: int) -> Sequence[str]:
        """The columns, nested ones by dotted names, that had another type at version `after` than they have now."""

    def adopt(self, folder: TableFolder) -> None:
        """Make a table of the Parquet files in a folder, without copying them."""

    def version_at(self, folder: TableFolder, when: datetime) -> int:
        """The version that was current at `when`."""

    def is_readable(self, folder: TableFolder, version: int) -> bool:
        """Whether the log and the data files of a version exist."""

    def arrow(self, folder: TableFolder, version: int) -> pa.dataset.Dataset | pa.RecordBatchReader:
        """The rows of a version for engines that read Arrow."""

    def read(self, spark: SparkSession, folder: TableFolder, version: int, *, positions: bool = False) -> DataFrame:
        """The rows of exactly that version; with `positions` and where the format can, hidden columns hold the position
        of each row."""

    def changes(self, spark: SparkSession, folder: TableFolder, after: int, until: int) -> DataFrame:
        """The rows that changed in versions after < v <= until, with `_change_type` (insert, update_preimage,
        update_postimage, delete) and `_commit_version`."""

    def append(self, frame: DataFrame, folder: TableFolder, write: Write) -> CommitResult:
        """Add the rows; creates the table when there is none."""

    def overwrite(
        self, frame: DataFrame, folder: TableFolder, write: Write, only: ReplaceWhere | None = None
    ) -> CommitResult:
        """Replace all rows, or those that `only` selects, in one commit; creates the table when there is none. Raises
        for new rows that `only` does not select."""

    def merge(self, upsert: Upsert, folder: TableFolder, write: Write) -> CommitResult:
        """Update, insert and delete rows by key."""

    def widen(self, spark: SparkSession, folder: TableFolder, columns: Mapping[str, str]) -> None:
        """Widen columns to Spark SQL types. Writes no row."""

    def advance(self, folder: TableFolder, write: Write, spark: SparkSession | None = None) -> CommitResult:
        """Commit the sequence number alone. Without a JVM, unless the table is one that only `spark` can write."""

    def compact(self, spark: SparkSession, folder: TableFolder, note: str) -> CommitResult | None:
        """Combine small files in a commit that changes no row; None when there is nothing to do."""

    def vacuum(
        self,
        spark: SparkSession,
        folder: TableFolder,
        older_than: float,
        before_delete: Callable[[], None] | None = None,
    ) -> None:
        """Delete the files that no version of the last `older_than` seconds references. `before_delete` may raise to
        stop it: files that appear after the call are not deleted."""

    def count_unused_files(self, folder: TableFolder, older_than: float) -> int:
        """The most files that a vacuum would delete. Without a JVM."""

    def restore(self, folder: TableFolder, version: int | None, write: Write) -> CommitResult:
        """Restore the rows and columns of an earlier version, or no rows, in one commit. Without a JVM."""

    def check_restore(self, folder: TableFolder, version: int | None) -> None:
        """Raise where the table cannot be restored to the version: commits or data files are gone."""

    def sync_log(self, folder: TableFolder) -> None:
        """Sync the table's log, so that commits survive a power cut: a killed writer may not have done it."""

    def accepts_files(self, folder: TableFolder) -> bool:
        """Whether external Parquet files can be committed to the table, or can create it."""

    def add(
        self,
        files: Sequence[DataFile],
        columns: str,
        folder: TableFolder,
        write: Write,
        table_id: str | None,
        *,
        overwrite: bool = False,
    ) -> CommitResult:
        """Commit Parquet files that lie in the table's folder, without a JVM; with `overwrite`, in place of all its
        rows. Creates the table when `table_id` is None, and raises when the table has another id. `columns` is Spark's
        JSON: the table has them all. The files may have hidden ones."""

    def accepts_rows(self, rows: DataFrame, folder: TableFolder) -> bool:
        """Whether Parquet files of such rows can be committed to the table, or can create it."""
