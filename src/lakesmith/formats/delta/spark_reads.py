"""Reads of Delta tables on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.formats.delta.dv_merge import with_positions
from lakesmith.formats.delta.facts import is_widened
from lakesmith.formats.delta.snapshot import open_snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ACROSS_TYPES = "spark.databricks.delta.changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled"


def read(spark: SparkSession, location: str, version: int, *, positions: bool = False) -> DataFrame:
    """The rows of a version; with `positions`, hidden columns hold the file and row number of each."""
    rows = spark.read.format("delta").option("versionAsOf", version).load(location)
    return with_positions(rows) if positions else rows


def changes(spark: SparkSession, location: str, after: int, until: int) -> DataFrame:
    """The rows of the change feed in versions after < v <= until."""
    # Delta reads changes in the newest types and refuses those from before a column was widened, as it does for dropped
    # columns. But each narrower value fits the wider type. Set for each read: the session lives on.
    spark.conf.set(_ACROSS_TYPES, "true" if _is_only_widened(location) else "false")
    return (
        spark.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", after + 1)
        .option("endingVersion", until)
        .load(location)
    )


def no_rows(spark: SparkSession, location: str) -> DataFrame:
    """An empty frame with the columns of the table."""
    return spark.read.format("delta").load(location).limit(0)


def _is_only_widened(location: str) -> bool:
    """Whether columns were widened, and cannot have been renamed or dropped."""
    table = open_snapshot(location)
    return is_widened(table) and "columnMapping" not in (table.protocol().reader_features or ())
