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

    def facts(self, location: str, flow: str) -> TableFacts | None:
        cached = self._cache.get(location, flow) if self._cache else None
        if cached:
            return cached
        found = facts.read_facts(location, flow)
        if found and self._cache:
            self._cache.put(location, flow, found)
        return found

    def commits(self, location: str, after: int = -1) -> Iterator[CommitFact]:
        return commits.table_commits(location, after)

    def commit_result(self, commit: CommitFact) -> CommitResult:
        return commit_results.commit_result(commit)

    def rows_added_by(self, location: str, version: int, column: str) -> Mapping[str, int] | None:
        return arrow_reader.rows_added_by(location, version, column)

    def has_change_feed(self, location: str, after: int) -> bool:
        return facts.has_change_feed(location, after)

    def changed_types(self, location: str, after: int) -> Sequence[str]:
        return facts.changed_types(location, after)

    def adopt(self, location: str) -> None:
        adopt.adopt_files(location)

    def version_at(self, location: str, when: datetime) -> int:
        return commits.version_at(location, when)

    def is_readable(self, location: str, version: int) -> bool:
        return arrow_reader.is_readable(location, version)

    def arrow(self, location: str, version: int) -> pa.dataset.Dataset | pa.RecordBatchReader:
        return arrow_reader.read_arrow(location, version)

    def read(self, spark: SparkSession, location: str, version: int, *, positions: bool = False) -> DataFrame:
        return spark_reads.read(spark, location, version, positions=positions)

    def changes(self, spark: SparkSession, location: str, after: int, until: int) -> DataFrame:
        return spark_reads.changes(spark, location, after, until)

    def append(self, frame: DataFrame, location: str, write: Write) -> CommitResult:
        return spark_writes.append(frame, location, write)

    def overwrite(
        self, frame: DataFrame, location: str, write: Write, only: ReplaceWhere | None = None
    ) -> CommitResult:
        return spark_writes.overwrite(frame, location, write, only)

    def merge(self, upsert: Upsert, location: str, write: Write) -> CommitResult:
        return spark_writes.merge(upsert, location, write)

    def widen(self, spark: SparkSession, location: str, columns: Mapping[str, str]) -> None:
        spark_writes.widen(spark, location, columns)

    def advance(self, location: str, write: Write, spark: SparkSession | None = None) -> CommitResult:
        if spark is not None and facts.is_widened(open_snapshot(location)):
            return spark_writes.append(spark_reads.no_rows(spark, location), location, write)
        return add_files.advance(location, write)

    def compact(self, spark: SparkSession, location: str, note: str) -> CommitResult | None:
        return spark_writes.compact(spark, location, note)

    def vacuum(
        self, spark: SparkSession, location: str, older_than: float, before_delete: Callable[[], None] | None = None
    ) -> None:
        vacuum.vacuum(spark, location, older_than, before_delete)

    def count_unused_files(self, location: str, older_than: float) -> int:
        return vacuum.count_unused_files(location, older_than)

    def restore(self, location: str, version: int | None, write: Write) -> CommitResult:
        return restore.restore(location, version, write)

    def check_restore(self, location: str, version: int | None) -> None:
        restore.check_restore(location, version)

    def sync_log(self, location: str) -> None:
        commit.sync_log(location)

    def accepts_files(self, location: str) -> bool:
        return add_files.accepts_files(open_snapshot_if_any(location))

    def add(
        self, files: Sequence[DataFile], columns: str, location: str, write: Write, table_id: str | None
    ) -> CommitResult:
        return add_files.add(files, columns, location, write, table_id)

    def accepts_rows(self, rows: DataFrame, location: str) -> bool:
        return spark_writes.accepts_rows(rows, location)

    def commit_folder(
        self, folder: str, rows: DataFrame, location: str, write: Write, *, overwrite: bool
    ) -> CommitResult:
        return spark_writes.commit_folder(folder, rows, location, write, overwrite=overwrite)


__all__ = ["Delta", "FactsCache"]
