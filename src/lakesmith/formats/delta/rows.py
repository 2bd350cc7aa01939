"""Rows of Delta tables on Spark: DataFrames and SQL only, so that the same code runs on Spark Connect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakesmith.columns import GONE, HIDDEN
from lakesmith.disk import make_folders
from lakesmith.failpoints import reach
from lakesmith.formats.delta.dv_merge import pinned, place, placeable, with_places
from lakesmith.formats.delta.log import DeltaLog, is_widened, whole_hours
from lakesmith.formats.delta.partition_overwrite import partition_escaped, replace_part, replaceable
from lakesmith.formats.delta.rollbacks import refuse_if_rolled_back
from lakesmith.formats.delta.snapshot import opened, opened_if_any
from lakesmith.formats.delta.staged import take_folder, takes_rows
from lakesmith.ports import BROADCAST_ROWS, Part, Upsert, Write, Written
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

FENCE = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")
"""Settings with which Delta skips writes in silence where somebody has left them behind."""
_SOURCE_VIEW = "lakesmith_merge_source"
_LISTED_VIEW = "lakesmith_vacuum_listed"
_LISTING = "path string, length bigint, isDir boolean, modificationTime bigint"
"""The columns that Delta asks of a list of files."""
_WIDENING = "delta.enableTypeWidening"
_VECTORS = "delta.enableDeletionVectors"
_NOTE = "spark.databricks.delta.commitInfo.userMetadata"
_VACUUM = {
    # What may be deleted was judged before, and the age that was asked for is not too short.
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    # Delta would take the table's own setting in place of any age but 0.
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
    # Two commits that nobody reads.
    "spark.databricks.delta.vacuum.logging.enabled": "false",
    # Folders are listed by so many tasks, of which each would cost more than a folder of a small table does.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
}
_ACROSS_TYPES = "spark.databricks.delta.changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled"


class DeltaRows(DeltaLog):
    """Reads and commits of a table."""

    def read(self, spark: SparkSession, location: str, version: int, *, places: bool = False) -> DataFrame:
        rows = spark.read.format("delta").option("versionAsOf", version).load(location)
        return with_places(rows) if places else rows

    def changes(self, spark: SparkSession, location: str, after: int, until: int) -> DataFrame:
        # Delta reads changes in the newest types and refuses those of a time when they were narrower, as it does where
        # columns went away: but each value has a place in the wider type. Set anew each time, for the session goes on.
        spark.conf.set(_ACROSS_TYPES, "true" if _is_only_widened(location) else "false")
        return (
            spark.read.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", after + 1)
            .option("endingVersion", until)
            .load(location)
        )

    def append(self, frame: DataFrame, location: str, write: Write) -> Written:
        if write.widen:
            _let(frame.sparkSession, location, _WIDENING)
        return self._commit(_writer(frame, write).mode("append"), location, write)

    def overwrite(self, frame: DataFrame, location: str, write: Write, part: Part | None = None) -> Written:
        writer = _writer(frame, write).mode("overwrite")
        if part is None:
            writer = writer.option("overwriteSchema", "true") if write.evolve else writer
            return self._commit(writer, location, write)
        table = opened(location)
        if _is_next(table, write) and replaceable(part, frame, table, location, write):
            refuse_if_rolled_back(table, location, write)
            replace_part(part, frame, table, location, write)
            return self.committed(location, write)
        try:
            return self._commit(writer.option("replaceWhere", part.where), location, write)
        except Exception as error:
            if "DELTA_REPLACE_WHERE_MISMATCH" in str(error):
                raise partition_escaped() from error
            raise

    def takes_rows(self, rows: DataFrame, location: str) -> bool:
        return takes_rows(rows, opened_if_any(location), location)

    def take_folder(self, folder: str, rows: DataFrame, location: str, write: Write, *, whole: bool) -> Written:
        table = opened_if_any(location)
        if table is None or _is_next(table, write):
            take_folder(folder, rows.schema.json(), table, location, write, whole=whole)
        return self.committed(location, write)

    def merge(self, upsert: Upsert, location: str, write: Write) -> Written:
        spark = upsert.rows.sparkSession
        if write.vectors:
            _let(spark, location, _VECTORS)
            table = opened(location)
            upsert, count = pinned(upsert, table)
            if _is_next(table, write) and count <= BROADCAST_ROWS and placeable(table, upsert.rows, location):
                refuse_if_rolled_back(table, location, write)
                place(upsert, count, table, location, write)
                return self.committed(location, write)
        same = [f"target.{quoted(column)} = source.{quoted(column)}" for column in upsert.key]
        stored = [quoted(column) for column in upsert.rows.columns if not column.startswith(HIDDEN)]
        put = f"UPDATE SET {', '.join(f'{name} = source.{name}' for name in stored)}"
        insert = f"INSERT ({', '.join(stored)}) VALUES ({', '.join(f'source.{name}' for name in stored)})"
        clauses = [f"WHEN MATCHED AND ({upsert.newer}) THEN {put}", f"WHEN NOT MATCHED THEN {insert}"]
        if GONE in upsert.rows.columns:
            clauses = [
                f"WHEN MATCHED AND source.{GONE} AND ({upsert.newer}) THEN DELETE",
                f"WHEN MATCHED AND NOT source.{GONE} AND ({upsert.newer}) THEN {put}",
                f"WHEN NOT MATCHED AND NOT source.{GONE} THEN {insert}",
            ]
        condition = " AND ".join([*same, *([f"({upsert.also})"] if upsert.also else [])])
        evolution = "WITH SCHEMA EVOLUTION " if write.evolve else ""
        upsert.rows.createOrReplaceTempView(_SOURCE_VIEW)
        _refuse_if_rolled_back(location, write)
        with _fenced(spark, write):
            spark.sql(
                f"MERGE {evolution}INTO delta.`{location}` AS target USING {_SOURCE_VIEW} AS source "
                f"ON {condition} {' '.join(clauses)}"
            ).collect()
        return self.committed(location, write)

    def widen(self, spark: SparkSession, location: str, columns: Mapping[str, str]) -> None:
        _let(spark, location, _WIDENING)
        rows = _no_rows(spark, location)
        types = {name.lower(): type for name, type in columns.items()}
        wide = [
            f"CAST({quoted(name)} AS {types[name.lower()]}) AS {quoted(name)}"
            if name.lower() in types
            else quoted(name)
            for name in rows.columns
        ]
        rows.selectExpr(*wide).write.format("delta").mode("append").option("mergeSchema", "true").save(location)

    def advance(self, location: str, write: Write, spark: SparkSession | None = None) -> Written:
        if spark is None or not is_widened(opened(location)):
            return super().advance(location, write)
        return self.append(_no_rows(spark, location), location, write)

    def compact(self, spark: SparkSession, location: str, note: str) -> Written | None:
        before = opened(location).version()
        with _set(spark, {_NOTE: note}):
            spark.sql(f"OPTIMIZE delta.`{location}`").collect()
        made = next((commit for commit in self.commits(location, before) if commit.note == note), None)
        return self.written(made) if made else None

    def vacuum(
        self, spark: SparkSession, location: str, older_than: float, look: Callable[[], None] | None = None
    ) -> None:
        kept = f"RETAIN {whole_hours(older_than) / 3600:.6f} HOURS"
        with _set(spark, _VACUUM):
            # Delta reckons ages from the time when it is asked: a process that was suspended since it looked would have
            # it delete what somebody writes by then. So it is told which files there were before the look.
            old = [row["path"] for row in spark.sql(f"VACUUM delta.`{location}` {kept} DRY RUN").collect()]
            if look is not None:
                look()
            if not old:
                return
            spark.createDataFrame([(path, 0, False, 0) for path in old], _LISTING).createOrReplaceTempView(_LISTED_VIEW)
            spark.sql(f"VACUUM delta.`{location}` USING INVENTORY (SELECT * FROM {_LISTED_VIEW}) {kept}").collect()

    def _commit(self, writer: DataFrameWriter, location: str, write: Write) -> Written:
        _refuse_if_rolled_back(location, write)
        make_folders(location)
        writer.options(txnAppId=write.flow, txnVersion=write.sequence, userMetadata=write.note).save(location)
        return self.committed(location, write)


def _refuse_if_rolled_back(location: str, write: Write) -> None:
    """Before a commit of Spark's, which looks at the table a moment later: what happens in it is found afterwards."""
    if write.since is not None:
        refuse_if_rolled_back(opened(location), location, write)


def _writer(frame: DataFrame, write: Write) -> DataFrameWriter:
    writer = frame.write.format("delta").options(**write.properties)
    if write.partition_by:
        writer = writer.partitionBy(*write.partition_by)
    if write.evolve:
        writer = writer.option("mergeSchema", "true")
    return writer


def _let(spark: SparkSession, location: str, feature: str) -> None:
    """Let the table use a feature. A commit of its own that changes no row: to end after it does no harm."""
    if opened(location).metadata().configuration.get(feature) != "true":
        spark.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('{feature}' = 'true')").collect()
        reach("feature.let", location)


def _no_rows(spark: SparkSession, location: str) -> DataFrame:
    return spark.read.format("delta").load(location).limit(0)


def _is_next(table: DeltaTable, write: Write) -> bool:
    """Whether neither this batch nor a later one is in the table."""
    return (table.transaction_version(write.flow) or 0) < write.sequence


def _is_only_widened(location: str) -> bool:
    """Whether columns were widened, and cannot have been renamed or dropped."""
    table = opened(location)
    return is_widened(table) and "columnMapping" not in (table.protocol().reader_features or ())


@contextmanager
def _fenced(spark: SparkSession, write: Write) -> Iterator[None]:
    """MERGE takes its fence and note from session settings that do not reset themselves: left set, they would make
    Delta skip later writes in silence. They live for this one statement, in a session that one table alone uses."""
    with _set(spark, {**dict(zip(FENCE, (write.flow, str(write.sequence)), strict=True)), _NOTE: write.note}):
        yield


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings for one statement."""
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)
