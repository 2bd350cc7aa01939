"""Replaces whole partitions: Spark writes the new files, and one commit removes the old ones.

Delta's own `replaceWhere` computes the state of the whole log in Spark jobs before and beside the write. That costs
more than the rows of a partition.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lakesmith.errors import DataError
from lakesmith.formats.delta.actions import (
    add_actions,
    commit_actions,
    overwrite_metrics,
    remove_partition_actions,
)
from lakesmith.formats.delta.commit_rules import TEXT_PARTITIONS, can_commit, table_types
from lakesmith.ports import ReplaceWhere, TableFolder, Write, new_batch_folder
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame


def can_replace_partitions(
    only: ReplaceWhere, rows: DataFrame, table: DeltaTable, folder: TableFolder, write: Write
) -> bool:
    """Whether `only` selects whole partitions, the table has the partition column of `write`, and Lakesmith may commit
    to it."""
    columns = table.metadata().partition_columns
    if not only.partitions or columns != list(write.partition_by) or len(columns) != 1:
        return False
    # Some disks take folders whose names differ only in case for one.
    names = {text.casefold() for text in only.partitions if text}
    distinct = len(names) == sum(1 for text in only.partitions if text)
    return distinct and table_types(table)[columns[0]] in TEXT_PARTITIONS and can_commit(table, rows, folder, columns)


def replace_partitions(
    only: ReplaceWhere, rows: DataFrame, table: DeltaTable, folder: TableFolder, write: Write
) -> None:
    """Commit the rows in place of those of the partitions; raises where another writer was first."""
    (column,) = table.metadata().partition_columns
    batch = new_batch_folder(write.sequence)
    stored = [quoted(field.name) for field in table.schema().fields]
    rows.select(*stored).write.partitionBy(column).parquet(f"{folder.engine_url('spark')}/{batch}")
    commit_partitions(add_actions(folder, batch, column), only, table, folder, write)


def commit_partitions(
    added: Sequence[dict[str, Any]], only: ReplaceWhere, table: DeltaTable, folder: TableFolder, write: Write
) -> None:
    """Commit new files in place of those of the partitions."""
    (column,), version = table.metadata().partition_columns, table.version()
    values = {text or None for text in only.partitions}  # Delta stores an empty text as NULL
    if any(add["partitionValues"][column] not in values for add in added):
        folder.delete([unquote(add["path"]) for add in added])
        raise partition_escaped()
    removed = list(remove_partition_actions(folder, version, column, values))
    parameters = {"mode": "Overwrite", "partitionBy": json.dumps([column]), "predicate": json.dumps([only.where])}
    actions = [*removed, *({"add": add} for add in added)]
    commit_actions(folder, version, write, ("WRITE", parameters), overwrite_metrics(added, removed), actions)


def partition_escaped() -> DataError:
    """The error for rows outside the partitions that are replaced."""
    return DataError(
        "partition-escaped",
        "the query returned rows of partitions that its input's changes did not touch",
        hint="`same_as` is wrong for this query: remove it, and every run recomputes the whole table",
    )
