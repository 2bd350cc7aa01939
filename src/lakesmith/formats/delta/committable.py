"""Whether Lakesmith may commit to a table's log by itself, past Delta's writer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lakesmith.columns import HIDDEN
from lakesmith.formats.delta.actions import log_files
from lakesmith.formats.delta.files import is_plain_table
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame


def committable(table: DeltaTable, rows: DataFrame, location: str, partitions: Sequence[str] = ()) -> bool:
    """Whether the table asks nothing of its writer but rows, its log can be read, and the rows are of its columns."""
    if table.metadata().configuration.get("delta.appendOnly") == "true":
        return False
    if not is_plain_table(table, also={"deletionVectors"}, partitions=partitions):
        return False
    stored = [name for name in rows.columns if not name.startswith(HIDDEN)]
    return log_files(location, table.version()) is not None and types_of(rows, stored) == types_in(table)


def types_in(table: DeltaTable) -> dict[str, Any]:
    """The types of a table's columns, in words that can be compared."""
    return _types(table.schema().to_json())


def types_of(rows: DataFrame, names: Sequence[str]) -> dict[str, Any]:
    """Likewise, of columns of a frame."""
    return _types(rows.select(*map(quoted, names)).schema.json())


def _types(schema: str) -> dict[str, Any]:
    return {field["name"]: _words(field["type"]) for field in json.loads(schema)["fields"]}


def _words(type: Any) -> Any:
    """A type without what it says of NULL: a table's columns take it at every depth, whatever rows promise."""
    if not isinstance(type, dict):
        return type
    if type["type"] == "struct":
        return [(field["name"], _words(field["type"])) for field in type["fields"]]
    inner = {name: _words(value) for name, value in type.items() if name in ("elementType", "keyType", "valueType")}
    return {"type": type["type"], **inner}
