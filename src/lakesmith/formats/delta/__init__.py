"""Delta Lake: delta-rs reads the log without a JVM, and Spark moves the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from lakesmith.formats.delta import (
    add_files,
    adopt,
    arrow_reader,
    commit,
    commit_results,
    commits,
    facts,
    restore,
    spark_reads,
    spark_writes,
    vacuum,
)
from lakesmith.formats.delta.facts_cache import FactsCache
from lakesmith.formats.delta.snapshot import open_snapshot, open_snapshot_if_any
from lakesmith.ports import (
    Capability,
    CommitFact,
    CommitResult,
    DataFile,
    ReplaceWhere,
    TableFacts,
    TableFolder,
    Upsert,
    Write,
)

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset
    from pyspark.sql import DataFrame, SparkSession


class Delta:
    """The Delta adapter of the table port. Each method delegates to the module of its topic."""

    name = "delta"
    capabilities = frozenset(Capability)

    def __init__(self, cache: FactsCache | None = None) -> None:
        self._cache = cache

    def facts(self, folder: TableFolder, flow: str) -> TableFacts | None:
        cached = self._cache.get(folder, flow) if self._cache else None
        if cached:
            return cached
        found = facts.read_facts(folder, flow)
        if found and self._cache:
            self._cache.put(folder, flow, found)
        return found

    def commits(self, folder: TableFolder, after: int = -1) -> Iterator[CommitFact]:
        return commits.table_commits(folder, after)

    def commit_result(self, commit: CommitFact) -> CommitResult:
        return commit_results.commit_result(commit)

    def rows_added_by(self, folder: TableFolder, version: int, column: str) -> Mapping[str, int] | None:
        return arrow_reader.rows_added_by(folder, version, column)

    def has_change_feed(self, folder: TableFolder, after: int) -> bool:
        return facts.has_change_feed(folder, after)

    def changed_types(self, folder: TableFolder, after: int) -> Sequence[str]:
        return facts.changed_types(folder, after)

    def adopt(self, folder: TableFolder) -> None:
        adopt.adopt_files(folder)

    def version_at(self, folder: TableFolder, when: datetime) -> int:
        return commits.version_at(folder, when)

    def is_readable(self, folder: TableFolder, version: int) -> bool:
        return arrow_reader.is_readable(folder, version)

    def arrow(self, folder: TableFolder, version: int) -> pa.dataset.Dataset | pa.RecordBatchReader:
        return arrow_reader.read_arrow(folder, version)

    def read(self, spark: SparkSession, folder: TableFolder, version: int, *, positions: bool = False) -> DataFrame:
        return spark_reads.read(spark, folder, version, positions=positions)

    def changes(self, spark: SparkSession, folder: TableFolder, after: int, until: int) -> DataFrame:
        return spark_reads.changes(spark, folder, after, until)

    def append(self, frame: DataFrame, folder: TableFolder, write: Write) -> CommitResult:
        return spark_writes.append(frame, folder, write)

    def overwrite(
        self, frame: DataFrame, folder: TableFolder, write: Write, only: ReplaceWhere | None = None
    ) -> CommitResult:
        return spark_writes.overwrite(frame, folder, write, only)

    def merge(self, upsert: Upsert, folder: TableFolder, write: Write) -> CommitResult:
        return spark_writes.merge(upsert, folder, write)

    def widen(self, spark: SparkSession, folder: TableFolder, columns: Mapping[str, str]) -> None:
        spark_writes.widen(spark, folder, columns)

    def advance(self, folder: TableFolder, write: Write, spark: SparkSession | None = None) -> CommitResult:
        if spark is not None and facts.is_widened(open_snapshot(folder)):
            return spark_writes.append(spark_reads.no_rows(spark, folder), folder, write)
        return add_files.advance(folder, write)

    def compact(self, spark: SparkSession, folder: TableFolder, note: str) -> CommitResult | None:
        return spark_writes.compact(spark, folder, note)

    def vacuum(
        self,
        spark: SparkSession,
        folder: TableFolder,
        older_than: float,
        before_delete: Callable[[], None] | None = None,
    ) -> None:
        vacuum.vacuum(spark, folder, older_than, before_delete)

    def count_unused_files(self, folder: TableFolder, older_than: float) -> int:
        return vacuum.count_unused_files(folder, older_than)

    def restore(self, folder: TableFolder, version: int | None, write: Write) -> CommitResult:
        return restore.restore(folder, version, write)

    def check_restore(self, folder: TableFolder, version: int | None) -> None:
        restore.check_restore(folder, version)

    def sync_log(self, folder: TableFolder) -> None:
        commit.sync_log(folder)

    def accepts_files(self, folder: TableFolder) -> bool:
        return add_files.accepts_files(open_snapshot_if_any(folder))

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
        return add_files.add(files, columns, folder, write, table_id, overwrite=overwrite)

    def accepts_rows(self, rows: DataFrame, folder: TableFolder) -> bool:
        return spark_writes.accepts_rows(rows, folder)


__all__ = ["Delta", "FactsCache"]
