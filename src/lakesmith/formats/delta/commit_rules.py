"""Which tables Lakesmith may commit to by itself, without Delta's writer."""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Any

from lakesmith.columns import HIDDEN
from lakesmith.formats.delta.actions import recent_segment
from lakesmith.ports import TableFolder, Write
from lakesmith.sql import quoted

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame

DELETION_VECTORS = "delta.enableDeletionVectors"
TEXT_PARTITIONS = frozenset({"byte", "short", "integer", "long", "boolean", "date", "string"})
"""Types whose values have the same text in the log as in the names of Spark's folders."""
_PLAIN_FEATURES = {"appendOnly", "changeDataFeed", "timestampNtz", "invariants"}
"""Table features that require nothing of a writer which only adds rows, as long as no column has a rule."""


def table_properties(write: Write) -> dict[str, str]:
    """The properties of a table that a write creates."""
    feed = {"delta.enableChangeDataFeed": "true"} if write.change_feed else {}
    stats = {"delta.dataSkippingStatsColumns": ",".join(write.stats_columns)} if write.stats_columns else {}
    vectors = {DELETION_VECTORS: "true"} if write.deletion_vectors else {}
    return {**feed, **stats, **vectors, **write.properties}


def can_commit(table: DeltaTable, rows: DataFrame, folder: TableFolder, partitions: Sequence[str] = ()) -> bool:
    """Whether the table is plain, its log is readable, and the rows have its columns."""
    if table.metadata().configuration.get("delta.appendOnly") == "true":
        return False
    if not is_plain_table(table, also={"deletionVectors"}, partitions=partitions):
        return False
    stored = [name for name in rows.columns if not name.startswith(HIDDEN)]
    return recent_segment(folder, table.version()) is not None and frame_types(rows, stored) == table_types(table)


def is_plain_table(table: DeltaTable, also: Set[str] = frozenset(), partitions: Sequence[str] = ()) -> bool:
    """Whether the table requires nothing of its writers but rows, and has exactly these partition columns. It may use
    the features in `also` too. Old tables do not name the features that they use."""
    protocol, metadata = table.protocol(), table.metadata()
    features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())}
    settings = metadata.configuration
    constrained = any(name.startswith("delta.constraints.") for name in settings)
    mapped = settings.get("delta.columnMapping.mode", "none") != "none"
    if (
        metadata.partition_columns != list(partitions)
        or constrained
        or mapped
        or not features <= _PLAIN_FEATURES | also
    ):
        return False
    return all(map(_is_plain_column, json.loads(table.schema().to_json())["fields"]))


def _is_plain_column(field: dict[str, Any]) -> bool:
    """Whether a column is nullable at every depth and has no rule of its own."""
    has_rule = any(name.startswith("delta.") for name in field.get("metadata", {}))
    return _accepts_null(field) and not has_rule


def _accepts_null(type: Any) -> bool:
    """Whether a type, or a field with one, accepts NULL at every depth."""
    if isinstance(type, list):
        return all(map(_accepts_null, type))
    if not isinstance(type, dict):
        return True
    flags = (type.get(name, True) for name in ("nullable", "containsNull", "valueContainsNull"))
    inner = ("fields", "type", "elementType", "keyType", "valueType")
    return all(flags) and all(_accepts_null(type[name]) for name in inner if name in type)


def table_types(table: DeltaTable) -> dict[str, Any]:
    """The types of a table's columns, in a form that can be compared with `frame_types`."""
    return _types(table.schema().to_json())


def frame_types(rows: DataFrame, names: Sequence[str]) -> dict[str, Any]:
    """The types of some columns of a frame, in a form that can be compared with `table_types`."""
    return _types(rows.select(*map(quoted, names)).schema.json())


def _types(schema: str) -> dict[str, Any]:
    return {field["name"]: _without_nullability(field["type"]) for field in json.loads(schema)["fields"]}


def _without_nullability(type: Any) -> Any:
    """A type without its NULL flags: a table's columns accept NULL at every depth."""
    if not isinstance(type, dict):
        return type
    if type["type"] == "struct":
        return [(field["name"], _without_nullability(field["type"])) for field in type["fields"]]
    inner = ("elementType", "keyType", "valueType")
    return {"type": type["type"], **{name: _without_nullability(type[name]) for name in inner if name in type}}
