"""Commits of rows on Spark: DataFrames and SQL only, so that the same code runs on Spark Connect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakesmith.columns import DELETE_ROW, HIDDEN
from lakesmith.failpoints import failpoint
from lakesmith.formats.delta.commit_results import batch_result, commit_result
from lakesmith.formats.delta.commit_rules import DELETION_VECTORS, can_commit, table_properties
from lakesmith.formats.delta.commits import committed_sequence, table_commits
from lakesmith.formats.delta.dv_merge import (
    can_merge_by_vectors,
    match_condition,
    merge_by_vectors,
    merge_few,
    pin_rows,
)
from lakesmith.formats.delta.few_rows import append_few, overwrite_few
from lakesmith.formats.delta.log_files import sql_name
from lakesmith.formats.delta.partition_overwrite import can_replace_partitions, partition_escaped, replace_partitions
from lakesmith.formats.delta.rollbacks import refuse_if_rolled_back
from lakesmith.formats.delta.snapshot import open_snapshot, open_snapshot_if_any
from lakesmith.formats.delta.spark_reads import no_rows
from lakesmith.formats.delta.spark_settings import FENCE, NOTE, spark_settings
from lakesmith.ports import BROADCAST_ROWS, CommitResult, ReplaceWhere, TableFolder, Upsert, Write
from lakesmith.sql import frame_name, quoted, run_sql

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

_WIDENING = "delta.enableTypeWidening"


def append(frame: DataFrame, folder: TableFolder, write: Write) -> CommitResult:
    """Add the rows; creates the table when there is none."""
    if write.few and (done := append_few(frame, folder, write)):
        return done
    if write.widen:
        _enable_feature(frame.sparkSession, folder, _WIDENING)
    return _commit(_writer(frame, write).mode("append"), folder, write)


def overwrite(frame: DataFrame, folder: TableFolder, write: Write, only: ReplaceWhere | None) -> CommitResult:
    """Replace all rows, or those that `only` selects."""
    if write.few and (done := overwrite_few(frame, folder, write, only)):
        return done
    writer = _writer(frame, write).mode("overwrite")
    if only is None:
        writer = writer.option("overwriteSchema", "true") if write.evolve else writer
        return _commit(writer, folder, write)
    table = open_snapshot(folder)
    if _is_next(folder, table, write) and can_replace_partitions(only, frame, table, folder, write):
        refuse_if_rolled_back(table, folder, write)
        replace_partitions(only, frame, table, folder, write)
        return batch_result(folder, write)
    try:
        return _commit(writer.option("replaceWhere", only.where), folder, write)
    except Exception as error:
        if "DELTA_REPLACE_WHERE_MISMATCH" in str(error):
            raise partition_escaped() from error
        raise


def accepts_rows(rows: DataFrame, folder: TableFolder) -> bool:
    """Whether files with such rows can be committed to the table, or can create it."""
    table = open_snapshot_if_any(folder)
    return table is None or can_commit(table, rows, folder)


def merge(upsert: Upsert, folder: TableFolder, write: Write) -> CommitResult:
    """Update, insert and delete rows by key, with deletion vectors where `write` and the table allow it."""
    spark = upsert.rows.sparkSession
    if write.deletion_vectors:
        _enable_feature(spark, folder, DELETION_VECTORS)
        table = open_snapshot(folder)
        can_merge = _is_next(folder, table, write) and can_merge_by_vectors(table, upsert.rows, folder)
        if can_merge:
            refuse_if_rolled_back(table, folder, write)
        if can_merge and write.few and merge_few(upsert, table, folder, write):
            return batch_result(folder, write)
        upsert, count = pin_rows(upsert, table)
        if can_merge and count <= BROADCAST_ROWS:
            merge_by_vectors(upsert, count, table, folder, write)
            return batch_result(folder, write)
    evolution = "WITH SCHEMA EVOLUTION " if write.evolve else ""
    _refuse_if_rolled_back(folder, write)
    # MERGE takes its fence and note from session settings that do not reset themselves. Left set, they would make Delta
    # skip later writes without an error. Only one table uses this session.
    fence = {**dict(zip(FENCE, (write.flow, str(write.sequence)), strict=True)), NOTE: write.note}
    with spark_settings(spark, fence):
        name = frame_name()
        statement = (
            f"MERGE {evolution}INTO {sql_name(folder)} AS target USING {name} AS source "
            f"ON {match_condition(upsert)} {_merge_clauses(upsert)}"
        )
        run_sql(spark, statement, {name: upsert.rows}).collect()
    return batch_result(folder, write)


def _merge_clauses(upsert: Upsert) -> str:
    stored = [quoted(column) for column in upsert.rows.columns if not column.startswith(HIDDEN)]
    update = f"UPDATE SET {', '.join(f'{name} = source.{name}' for name in stored)}"
    insert = f"INSERT ({', '.join(stored)}) VALUES ({', '.join(f'source.{name}' for name in stored)})"
    if DELETE_ROW not in upsert.rows.columns:
        return f"WHEN MATCHED AND ({upsert.newer}) THEN {update} WHEN NOT MATCHED THEN {insert}"
    return (
        f"WHEN MATCHED AND source.{DELETE_ROW} AND ({upsert.newer}) THEN DELETE "
        f"WHEN MATCHED AND NOT source.{DELETE_ROW} AND ({upsert.newer}) THEN {update} "
        f"WHEN NOT MATCHED AND NOT source.{DELETE_ROW} THEN {insert}"
    )


def widen(spark: SparkSession, folder: TableFolder, columns: Mapping[str, str]) -> None:
    """Give columns wider types by an append of no rows."""
    _enable_feature(spark, folder, _WIDENING)
    rows = no_rows(spark, folder)
    types = {name.lower(): type for name, type in columns.items()}
    wide = [
        f"CAST({quoted(name)} AS {types[name.lower()]}) AS {quoted(name)}" if name.lower() in types else quoted(name)
        for name in rows.columns
    ]
    rows.selectExpr(*wide).write.format("delta").mode("append").option("mergeSchema", "true").save(
        folder.engine_url("spark")
    )


def compact(spark: SparkSession, folder: TableFolder, note: str) -> CommitResult | None:
    """Combine small files into larger ones; None when there is nothing to do."""
    before = open_snapshot(folder).version()
    with spark_settings(spark, {NOTE: note}):
        spark.sql(f"OPTIMIZE {sql_name(folder)}").collect()
    made = next((commit for commit in table_commits(folder, before) if commit.note == note), None)
    return commit_result(made) if made else None


def _commit(writer: DataFrameWriter, folder: TableFolder, write: Write) -> CommitResult:
    _refuse_if_rolled_back(folder, write)
    if folder.disk is not None:
        folder.disk.make_folder(folder.path)
    writer.options(txnAppId=write.flow, txnVersion=write.sequence, userMetadata=write.note).save(
        folder.engine_url("spark")
    )
    return batch_result(folder, write)


def _refuse_if_rolled_back(folder: TableFolder, write: Write) -> None:
    """Check before a commit by Spark, which reads the table a moment later. A rollback in between is found after the
    commit."""
    if write.based_on is not None:
        refuse_if_rolled_back(open_snapshot(folder), folder, write)


def _writer(frame: DataFrame, write: Write) -> DataFrameWriter:
    writer = frame.write.format("delta").options(**table_properties(write))
    if write.partition_by:
        writer = writer.partitionBy(*write.partition_by)
    if write.evolve:
        writer = writer.option("mergeSchema", "true")
    return writer


def _enable_feature(spark: SparkSession, folder: TableFolder, feature: str) -> None:
    """Enable a table feature in a commit of its own that changes no row. To be killed after it does no harm."""
    if open_snapshot(folder).metadata().configuration.get(feature) != "true":
        spark.sql(f"ALTER TABLE {sql_name(folder)} SET TBLPROPERTIES ('{feature}' = 'true')").collect()
        failpoint("feature.enabled", folder)


def _is_next(folder: TableFolder, table: DeltaTable, write: Write) -> bool:
    """Whether the table has neither this batch nor a later one."""
    return committed_sequence(folder, table, write.flow) < write.sequence
