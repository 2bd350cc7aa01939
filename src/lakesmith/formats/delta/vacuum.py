"""Deletes data files that no version in the retention time references."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from lakesmith.formats.delta.actions import active_files, log_segment
from lakesmith.formats.delta.snapshot import open_snapshot_if_any
from lakesmith.formats.delta.spark_settings import spark_settings
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
    spark: SparkSession, location: str, older_than: float, before_delete: Callable[[], None] | None = None
) -> None:
    """Delete the files that no version of the last `older_than` seconds references. `before_delete` may raise to stop
    it: files that appear after the call are not deleted."""
    retention = f"RETAIN {whole_hours(older_than) / 3600:.6f} HOURS"
    with spark_settings(spark, _SETTINGS):
        # Delta computes ages when the statement runs. If this process were suspended after `before_delete`, Delta would
        # delete files that others wrote since. So it gets the list of files from before the call.
        old = [row["path"] for row in spark.sql(f"VACUUM delta.`{location}` {retention} DRY RUN").collect()]
        if before_delete is not None:
            before_delete()
        if not old:
            return
        inventory = spark.createDataFrame([(path, 0, False, 0) for path in old], _INVENTORY_COLUMNS)
        name = frame_name()
        statement = f"VACUUM delta.`{location}` USING INVENTORY (SELECT * FROM {name}) {retention}"
        run_sql(spark, statement, {name: inventory}).collect()


def count_unused_files(location: str, older_than: float) -> int:
    """The most files that a vacuum would delete. Needs no JVM."""
    table = open_snapshot_if_any(location)
    if table is None:
        return 0
    readable = log_segment(location, table.version()) is not None
    needed = active_files(location, table.version(), lambda _: True) if readable else {}
    before = time.time() - whole_hours(older_than)
    return sum(1 for path in _data_files(location) if path not in needed and os.stat(path).st_mtime < before)


def whole_hours(seconds: float) -> float:
    """The retention time rounded up to hours: Delta counts hours, and would round an hour and a quarter down. Less than
    an hour stays as it is, for users who know that nobody reads or writes. A minute is allowed for the start."""
    return seconds if seconds < 3600 else math.ceil((seconds - 60) / 3600) * 3600.0


def _data_files(location: str) -> Iterator[str]:
    """The files in a table's folder that are not part of its log."""
    for parent, folders, names in os.walk(os.path.abspath(location)):
        folders[:] = [name for name in folders if name[0] not in "._" or name == "_change_data" or "=" in name]
        yield from (os.path.join(parent, name) for name in names if name[0] not in "._")
