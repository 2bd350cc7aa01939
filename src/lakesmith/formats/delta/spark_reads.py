"""Reads of Delta tables on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakesmith.columns import HIDDEN
from lakesmith.formats.delta.direct_reads import read_changes_directly, read_directly
from lakesmith.formats.delta.facts import is_widened
from lakesmith.formats.delta.snapshot import open_snapshot
from lakesmith.ports import TableFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

IN_FILE, AT_ROW = f"{HIDDEN}in_file", f"{HIDDEN}at_row"
_ACROSS_TYPES = "spark.databricks.delta.changeDataFeed.unsafeBatchReadOnIncompatibleSchemaChanges.enabled"


def read(spark: SparkSession, folder: TableFolder, version: int, *, positions: bool = False) -> DataFrame:
    """The rows of a version; with `positions`, hidden columns hold the file and row number of each."""
    rows = read_directly(spark, folder, version)
    if rows is None:
        rows = spark.read.format("delta").option("versionAsOf", version).load(folder.engine_url("spark"))
    # Some readers provide no positions.
    if not positions or "row_index" not in rows.select("_metadata.*").columns:
        return rows
    return rows.selectExpr("*", f"_metadata.file_path AS {IN_FILE}", f"_metadata.row_index AS {AT_ROW}")


def changes(spark: SparkSession, folder: TableFolder, after: int, until: int) -> DataFrame:
    """The rows of the change feed in versions after < v <= until."""
    direct = read_changes_directly(spark, folder, after, until)
    if direct is not None:
        return direct
    # Delta reads changes in the newest types and refuses those from before a column was widened, as it does for dropped
    # columns. But each narrower value fits the wider type. Set for each read: the session lives on.
    spark.conf.set(_ACROSS_TYPES, "true" if _is_only_widened(folder) else "false")
    return (
        spark.read.format("delta")
        .option("readChangeFeed", "true")
        .option("startingVersion", after + 1)
        .option("endingVersion", until)
        .load(folder.engine_url("spark"))
    )


def no_rows(spark: SparkSession, folder: TableFolder) -> DataFrame:
    """An empty frame with the columns of the table."""
    return spark.read.format("delta").load(folder.engine_url("spark")).limit(0)


def _is_only_widened(folder: TableFolder) -> bool:
    """Whether columns were widened, and cannot have been renamed or dropped."""
    table = open_snapshot(folder)
    return is_widened(table) and "columnMapping" not in (table.protocol().reader_features or ())
