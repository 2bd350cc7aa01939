"""Whole partitions are replaced: Spark writes the files of the new ones, and one commit takes the old ones away.

Delta's own `replaceWhere` computes the state of the whole log in jobs of Spark before and beside the write, which costs
more than the rows of a partition do.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from typing import TYPE_CHECKING

from lakesmith.errors import DataError
from lakesmith.formats.delta.actions import additions, commit_actions, removals
from lakesmith.formats.delta.open import is_open
from lakesmith.ports import Part, Write

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame

_SPELT_ALIKE = {"byte", "short", "integer", "long", "boolean", "date", "string"}
"""Types whose values the log spells as Spark does in the name of a folder."""


def replaceable(part: Part, rows: DataFrame, table: DeltaTable, location: str) -> bool:
    """Whether the part is of whole partitions of a table that asks nothing of its writer but rows."""
    columns = table.metadata().partition_columns
    if not part.partitions or len(columns) != 1 or "" in part.partitions:  # Delta makes a text without letters NULL
        return False
    kind = next(column.type for column in table.schema().fields if column.name == columns[0])
    return getattr(kind, "type", None) in _SPELT_ALIKE and is_open(table, rows, location, columns)


def replace_part(part: Part, rows: DataFrame, table: DeltaTable, location: str, write: Write) -> None:
    """Commit the rows in place of those of the partitions; raises where another writer was first."""
    (column,), version = table.metadata().partition_columns, table.version()
    folder = f"batch-{write.sequence:08}-{uuid.uuid4().hex[:8]}"
    rows.write.partitionBy(column).parquet(os.path.join(location, folder))
    added = list(additions(location, folder, column))
    if any(add["partitionValues"][column] not in part.partitions for add in added):
        shutil.rmtree(os.path.join(location, folder))
        raise partition_escaped()
    removed = list(removals(location, version, column, set(part.partitions)))
    counts = {
        "numFiles": len(added),
        "numOutputRows": sum(json.loads(add["stats"])["numRecords"] for add in added),
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
