"""Whole partitions are replaced: Spark writes the files of the new ones, and one commit takes the old ones away.

Delta's own `replaceWhere` computes the state of the whole log in jobs of Spark before and beside the write, which costs
more than the rows of a partition do.
"""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

from lakesmith.errors import DataError
from lakesmith.formats.delta.actions import additions, commit_actions, fresh_folder, removals, rows_in
from lakesmith.formats.delta.committable import committable, types_in
from lakesmith.ports import Part, Write
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame

_SPELT_ALIKE = {"byte", "short", "integer", "long", "boolean", "date", "string"}
"""Types whose values the log spells as Spark does in the name of a folder."""


def replaceable(part: Part, rows: DataFrame, table: DeltaTable, location: str, write: Write) -> bool:
    """Whether the part is of whole partitions, which the table is made of as the writer thinks, and Lakesmith may
    replace them."""
    columns = table.metadata().partition_columns
    if not part.partitions or columns != list(write.partition_by) or len(columns) != 1:
        return False
    # On some disks folders whose names differ only in capitals are one.
    folders = {text.casefold() for text in part.partitions if text}
    apart = len(folders) == sum(1 for text in part.partitions if text)
    return apart and types_in(table)[columns[0]] in _SPELT_ALIKE and committable(table, rows, location, columns)


def replace_part(part: Part, rows: DataFrame, table: DeltaTable, location: str, write: Write) -> None:
    """Commit the rows in place of those of the partitions; raises where another writer was first."""
    (column,), version = table.metadata().partition_columns, table.version()
    values = {text or None for text in part.partitions}  # Delta keeps a text without letters as NULL
    folder = fresh_folder(write)
    stored = [quoted(field.name) for field in table.schema().fields]
    rows.select(*stored).write.partitionBy(column).parquet(os.path.join(location, folder))
    added = list(additions(location, folder, column))
    if any(add["partitionValues"][column] not in values for add in added):
        shutil.rmtree(os.path.join(location, folder))
        raise partition_escaped()
    removed = list(removals(location, version, column, values))
    counts = {
        "numFiles": len(added),
        "numOutputRows": rows_in(added),
        "numOutputBytes": sum(add["size"] for add in added),
        "numRemovedFiles": len(removed),
        "numRemovedBytes": sum(each["remove"]["size"] for each in removed),
    }
    told = {"mode": "Overwrite", "partitionBy": json.dumps([column]), "predicate": json.dumps([part.where])}
    commit_actions(location, version, write, ("WRITE", told), counts, [*removed, *({"add": add} for add in added)])


def partition_escaped() -> DataError:
    """The error for rows that do not belong to the partitions which are replaced."""
    return DataError(
        "partition-escaped",
        "the query gave rows of partitions that its input's changes did not touch",
        hint="the promise `same_as` does not hold for this query; take it away, and the whole table is recomputed",
    )
