"""Parquet files that were written into a table's folder become part of the table, in one commit."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from lakesmith.errors import DataError, InfrastructureError
from lakesmith.formats.delta.actions import addition, commit_actions, moment
from lakesmith.formats.delta.commit import VersionTaken
from lakesmith.formats.delta.rollbacks import refuse_if_rolled_back
from lakesmith.formats.delta.snapshot import opened_if_any
from lakesmith.ports import DataFile, Write

if TYPE_CHECKING:
    from deltalake import DeltaTable, Schema

_UNDERSTOOD = {"appendOnly", "changeDataFeed", "timestampNtz", "invariants"}
"""Features of a table that ask nothing of a writer which only adds rows, where no column says more."""
_LOCAL_TIMES = "timestampNtz"
_APPEND = {"mode": "Append", "partitionBy": "[]"}
_TRIES = 10


def takes_files(table: DeltaTable | None) -> bool:
    """Whether nothing is asked of a writer but to write rows. Old tables do not name the features that they use."""
    return table is None or is_plain_table(table)


def is_plain_table(table: DeltaTable, also: Set[str] = frozenset(), partitions: Sequence[str] = ()) -> bool:
    """Whether the table asks nothing of its writers but rows; it may use the features in `also` too, and has just these
    partition columns."""
    protocol, metadata = table.protocol(), table.metadata()
    features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())}
    settings = metadata.configuration
    constrained = any(name.startswith("delta.constraints.") for name in settings)
    mapped = settings.get("delta.columnMapping.mode", "none") != "none"
    if metadata.partition_columns != list(partitions) or constrained or mapped or not features <= _UNDERSTOOD | also:
        return False
    return all(map(_is_plain, json.loads(table.schema().to_json())["fields"]))


def _is_plain(field: dict[str, Any]) -> bool:
    """Whether a column may be empty, and has no rule of its own."""
    told = any(name.startswith("delta.") for name in field.get("metadata", {}))
    return bool(field["nullable"]) and not told


def add_files(location: str, files: Sequence[DataFile], columns: str, write: Write, table_id: str | None) -> bool:
    """Commit the files; False when the batch, or a later one, is in the table already."""
    schema = _schema(columns)
    added = [
        {"add": addition(location, os.path.join(location, file.path), {}, file.stats or _stats(file))} for file in files
    ]
    counts = {
        "numFiles": len(files),
        "numOutputRows": sum(file.rows for file in files),
        "numOutputBytes": sum(file.size for file in files),
    }

    def actions(table: DeltaTable | None) -> list[dict[str, Any]] | None:
        if table is not None and (table.transaction_version(write.flow) or 0) >= write.sequence:
            return None
        _refuse_other_table(table, schema, table_id)
        refuse_if_rolled_back(table, location, write)
        return added if table is not None else [*new_table(schema, write.properties), *added]

    return append_actions(location, write, counts, actions)


def append_actions(
    location: str,
    write: Write | None,
    counts: dict[str, int],
    actions: Callable[[DeltaTable | None], Sequence[dict[str, Any]] | None],
) -> bool:
    """Commit what is to be added to the table as it is, again where others are first; False where that is None."""
    for _ in range(_TRIES):
        table = opened_if_any(location)
        added = actions(table)
        if added is None:
            return False
        version = table.version() if table is not None else -1
        with suppress(VersionTaken):  # their commit may be of this very batch
            commit_actions(location, version, write, ("WRITE", _APPEND), counts, added, blind=True)
            return True
    raise InfrastructureError(
        "commit-conflict",
        f"other writers changed the table {_TRIES} times in a row",
        hint="nothing is lost: run again",
    )


def new_table(schema: Schema, properties: Mapping[str, str]) -> list[dict[str, Any]]:
    """The actions that make a table."""
    text = schema.to_json()
    feed = properties.get("delta.enableChangeDataFeed") == "true"
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 4 if feed else 2}
    if _has_local_times(json.loads(text)):
        # Only writers of version 7 name the features that they need.
        features = [_LOCAL_TIMES, *(["changeDataFeed"] if feed else [])]
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
        protocol |= {"readerFeatures": [_LOCAL_TIMES], "writerFeatures": features}
    metadata = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": text,
        "partitionColumns": [],
        "configuration": dict(properties),
        "createdTime": time.time_ns() // 1_000_000,
    }
    return [{"protocol": protocol}, {"metaData": metadata}]


def _has_local_times(type: Any) -> bool:
    """Whether a type holds times without a zone, for which Delta has a feature."""
    if isinstance(type, list):
        return any(map(_has_local_times, type))
    if isinstance(type, dict):
        inner = ("fields", "type", "elementType", "keyType", "valueType")
        return any(_has_local_times(type[name]) for name in inner if name in type)
    return bool(type == "timestamp_ntz")


def _schema(columns: str) -> Schema:
    from deltalake import Schema

    try:
        return Schema.from_json(json.dumps(_nullable(json.loads(columns))))
    except ValueError as error:
        raise DataError(
            "bad-column-name",
            f"no table can have these columns: {str(error).splitlines()[0]}",
            hint="give the fields other names in the source",
        ) from error


def _nullable(type: Any) -> Any:
    """A type in which everything may be empty, as Spark makes tables."""
    if isinstance(type, list):
        return [_nullable(each) for each in type]
    if not isinstance(type, dict):
        return type
    told = {name: _nullable(value) for name, value in type.items() if name != "metadata"}
    may_be = {name: True for name in ("nullable", "containsNull", "valueContainsNull") if name in type}
    return {**told, **may_be, **({"metadata": {}} if "metadata" in type else {})}


def _refuse_other_table(table: DeltaTable | None, schema: Schema, table_id: str | None) -> None:
    """Raise when the table is not the one that the rows were written for."""
    found = str(table.metadata().id) if table is not None else None
    stored = {field.name: field.type for field in table.schema().fields} if table is not None else {}
    if found != table_id or not takes_files(table):
        what = "was dropped" if table is None else "was made or changed by somebody else"
    elif table is not None and any(stored.get(field.name) != field.type for field in schema.fields):
        what = "has other columns now"
    else:
        return
    raise InfrastructureError(
        "commit-conflict",
        f"the table {what} while rows for it were written",
        hint="nothing is lost: run again",
    )


def _stats(file: DataFile) -> str:
    return json.dumps(
        {
            "numRecords": file.rows,
            "minValues": {name: moment(least) for name, (least, _) in file.bounds.items()},
            "maxValues": {name: moment(greatest) for name, (_, greatest) in file.bounds.items()},
            "nullCount": dict.fromkeys(file.bounds, 0),
        }
    )
