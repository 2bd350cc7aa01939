"""Whether a table can be written by who commits to its log by himself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakesmith.columns import HIDDEN
from lakesmith.formats.delta.actions import log_files
from lakesmith.formats.delta.files import is_plain_table
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame


def is_open(table: DeltaTable, rows: DataFrame, location: str, partitions: Sequence[str] = ()) -> bool:
    """Whether the table asks nothing of its writer but rows, its log can be read, and the rows are of its columns."""
    if table.metadata().configuration.get("delta.appendOnly") == "true":
        return False
    if not is_plain_table(table, also={"deletionVectors"}, partitions=partitions):
        return False
    stored = [name for name in rows.columns if not name.startswith(HIDDEN)]
    types = {column.name: column.type for column in table.schema().fields}
    return log_files(location, table.version()) is not None and types_of(rows, stored) == types


def types_of(rows: DataFrame, names: Sequence[str]) -> dict[str, Any]:
    """The types of columns as the log tells them."""
    from deltalake import Schema

    told = Schema.from_json(rows.select(*map(quoted, names)).schema.json())
    return {column.name: column.type for column in told.fields}
