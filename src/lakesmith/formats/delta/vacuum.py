"""Deletes data files that no version in the retention time references."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from lakesmith.formats.delta.actions import active_files, log_segment
from lakesmith.formats.delta.log_files import sql_name
from lakesmith.formats.delta.snapshot import open_snapshot_if_any
from lakesmith.formats.delta.spark_settings import spark_settings
from lakesmith.ports import BATCH_FOLDER, TableFolder
from lakesmith.sql import frame_name, run_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_INVENTORY_COLUMNS = "path string, length bigint, isDir boolean, modificationTime bigint"
_SETTINGS = {
    # The caller has checked the age, which is not too short.
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    # Delta would use the table's own setting instead of any age but 0.
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
    # Two commits that nobody reads.
    "spark.databricks.delta.vacuum.logging.enabled": "false",
    # The number of tasks that list folders. Each task costs more than a folder of a small table.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
}


def vacuum(
    spark: SparkSession, folder: TableFolder, older_than: float, before_delete: Callable[[], None] | None = None
) -> None:
    """Delete the files that no version of the last `older_than` seconds references. `before_delete` may raise to stop
    it: files that appear after the call are not deleted."""
    before = _cutoff(older_than)
    retention = f"RETAIN {whole_hours(older_than) / 3600:.6f} HOURS"
    with spark_settings(spark, _SETTINGS):
        # Delta computes ages when the statement runs. If this process were suspended after `before_delete`, Delta would
        # delete files that others wrote since. So it gets the list of files from before the call.
        old = [row["path"] for row in spark.sql(f"VACUUM {sql_name(folder)} {retention} DRY RUN").collect()]
        leftovers = _leftovers(folder, before)
        if before_delete is not None:
            before_delete()
        folder.delete(leftovers)
        if not old:
            return
        inventory = spark.createDataFrame([(path, 0, False, 0) for path in old], _INVENTORY_COLUMNS)
        name = frame_name()
        statement = f"VACUUM {sql_name(folder)} USING INVENTORY (SELECT * FROM {name}) {retention}"
        run_sql(spark, statement, {name: inventory}).collect()


def count_unused_files(folder: TableFolder, older_than: float) -> int:
    """The most files that a vacuum would delete. Needs no JVM."""
    table = open_snapshot_if_any(folder)
    if table is None:
        return 0
    readable = log_segment(folder, table.version()) is not None
    needed = active_files(folder, table.version(), lambda _: True) if readable else {}
    before = _cutoff(older_than)
    old = (file.key for file in folder.list() if file.modified < before)
    unused = sum(1 for name in old if not _is_hidden(name) and folder.key(name) not in needed)
    return unused + len(_leftovers(folder, before))


def whole_hours(seconds: float) -> float:
    """The retention time rounded up to hours: Delta counts hours, and would round an hour and a quarter down. Less than
    an hour stays as it is, for users who know that nobody reads or writes. A minute is allowed for the start."""
    return seconds if seconds < 3600 else math.ceil((seconds - 60) / 3600) * 3600.0


def _cutoff(older_than: float) -> float:
    """The time in milliseconds since 1970 before which unneeded files are deleted."""
    return (time.time() - whole_hours(older_than)) * 1000


def _leftovers(folder: TableFolder, before: float) -> list[str]:
    """Old hidden files in the folders of batches, such as those of killed Spark jobs: Delta's VACUUM ignores them."""
    return [file.key for file in folder.list(BATCH_FOLDER) if file.modified < before and _is_hidden(file.key)]


def _is_hidden(name: str) -> bool:
    """Whether Delta's VACUUM ignores a file."""
    *folders, last = name.split("/")
    return last[0] in "._" or any(each[0] in "._" and each != "_change_data" and "=" not in each for each in folders)
