"""Rows of Delta tables on Spark: DataFrames and SQL only, so that the same code runs on Spark Connect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakesmith.formats.delta.log import DeltaLog
from lakesmith.ports import Write, Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

_SOURCE_VIEW = "lakesmith_merge_source"


class DeltaRows(DeltaLog):
    """Reads and commits of a table."""

    def read(self, spark: SparkSession, location: str, version: int) -> DataFrame:
        return spark.read.format("delta").option("versionAsOf", version).load(location)

    def changes(self, spark: SparkSession, location: str, after: int, until: int) -> DataFrame:
        return (
            spark.read.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", after + 1)
            .option("endingVersion", until)
            .load(location)
        )

    def append(self, frame: DataFrame, location: str, write: Write) -> Written:
        return self._commit(_writer(frame, write).mode("append"), location, write)

    def overwrite(self, frame: DataFrame, location: str, write: Write, where: str | None = None) -> Written:
        writer = _writer(frame, write).mode("overwrite")
        if where is not None:
            writer = writer.option("replaceWhere", where)
        elif write.evolve:
            writer = writer.option("overwriteSchema", "true")
        return self._commit(writer, location, write)

    def merge(self, frame: DataFrame, location: str, write: Write, key: Sequence[str], newer: str) -> Written:
        spark = frame.sparkSession
        on = " AND ".join(f"target.{_name(column)} = source.{_name(column)}" for column in key)
        evolution = "WITH SCHEMA EVOLUTION " if write.evolve else ""
        frame.createOrReplaceTempView(_SOURCE_VIEW)
        with _fenced(spark, write):
            spark.sql(
                f"MERGE {evolution}INTO delta.`{location}` AS target USING {_SOURCE_VIEW} AS source ON {on} "
                f"WHEN MATCHED AND ({newer}) THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            ).collect()
        return self.committed(location, write)

    def _commit(self, writer: DataFrameWriter, location: str, write: Write) -> Written:
        writer.options(txnAppId=write.flow, txnVersion=write.sequence, userMetadata=write.note).save(location)
        return self.committed(location, write)


def _writer(frame: DataFrame, write: Write) -> DataFrameWriter:
    writer = frame.write.format("delta").options(**write.properties)
    if write.partition_by:
        writer = writer.partitionBy(*write.partition_by)
    if write.evolve:
        writer = writer.option("mergeSchema", "true")
    return writer


@contextmanager
def _fenced(spark: SparkSession, write: Write) -> Iterator[None]:
    """MERGE takes its fence and note from session settings that do not reset themselves: left set, they would make
    Delta skip later writes in silence. They live for this one statement, in a session that one table alone uses."""
    settings = {
        "spark.databricks.delta.write.txnAppId": write.flow,
        "spark.databricks.delta.write.txnVersion": str(write.sequence),
        "spark.databricks.delta.commitInfo.userMetadata": write.note,
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


def _name(column: str) -> str:
    return f"`{column.replace('`', '``')}`"
