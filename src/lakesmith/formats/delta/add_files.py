"""Commits Parquet files that lie in a table's folder, without Spark."""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

from lakesmith.columns import CHANGE_FEED
from lakesmith.errors import DataError, InfrastructureError
from lakesmith.formats.delta.actions import (
    commit_actions,
    file_action,
    overwrite_metrics,
    remove_all_actions,
)
from lakesmith.formats.delta.commit import VersionTaken
from lakesmith.formats.delta.commit_results import batch_result, committed_by_another_run
from lakesmith.formats.delta.commit_rules import DELETION_VECTORS, is_plain_table, table_properties
from lakesmith.formats.delta.commits import committed_sequence
from lakesmith.formats.delta.rollbacks import refuse_if_rolled_back
from lakesmith.formats.delta.snapshot import open_snapshot_if_any
from lakesmith.ports import CommitResult, DataFile, TableFolder, Write

if TYPE_CHECKING:
    from deltalake import DeltaTable, Schema

_LOCAL_TIMES = "timestampNtz"
_VECTORS = "deletionVectors"
_APPEND = {"mode": "Append", "partitionBy": "[]"}
_TRIES = 10
_UNSTORABLE = re.compile(r"[ ,;{}()\n\t=]")
"""Characters that Delta refuses in names of columns and fields. delta-rs does not."""
Actions = Callable[["DeltaTable | None"], "Sequence[dict[str, Any]] | None"]
"""Make the actions for a version of the table; None where it has the batch already."""


def accepts_files(table: DeltaTable | None) -> bool:
    """Whether external Parquet files can be committed to the table, or can create it."""
    return table is None or is_plain_table(table)


def add(
    files: Sequence[DataFile],
    columns: str,
    folder: TableFolder,
    write: Write,
    table_id: str | None,
    *,
    overwrite: bool = False,
) -> CommitResult:
    """Commit the files, and return what the commit of the batch did: it may be an earlier one, whose reply was lost."""
    add_files(folder, files, columns, write, table_id, overwrite=overwrite)
    return batch_result(folder, write)


def advance(folder: TableFolder, write: Write) -> CommitResult:
    """Commit the batch number alone."""

    def no_actions(table: DeltaTable | None) -> Sequence[dict[str, Any]]:
        if table is None or committed_sequence(folder, table, write.flow) >= write.sequence:
            raise committed_by_another_run(write)
        refuse_if_rolled_back(table, folder, write)
        return ()

    append_actions(folder, write, {}, no_actions)
    return batch_result(folder, write)


def add_files(
    folder: TableFolder,
    files: Sequence[DataFile],
    columns: str,
    write: Write,
    table_id: str | None,
    *,
    overwrite: bool = False,
) -> bool:
    """Commit the files; False when the table already has the batch or a later one."""
    schema = _schema(columns)
    added = [{"add": file_action(file)} for file in files]
    counts = {
        "numFiles": len(files),
        "numOutputRows": sum(file.rows for file in files),
        "numOutputBytes": sum(file.size for file in files),
    }

    def actions(table: DeltaTable | None) -> list[dict[str, Any]] | None:
        if table is not None and committed_sequence(folder, table, write.flow) >= write.sequence:
            return None
        _refuse_other_table(table, schema, table_id, write.partition_by)
        refuse_if_rolled_back(table, folder, write)
        if table is not None:
            return added
        _refuse_unstorable_names(json.loads(columns))
        return [*new_table(schema.to_json(), table_properties(write), write.partition_by), *added]

    if overwrite and table_id is not None:
        return _overwrite(folder, write, actions)
    return append_actions(folder, write, counts, actions)


def _overwrite(folder: TableFolder, write: Write, actions: Actions) -> bool:
    """Commit the actions in place of all files; raises where another writer was first."""
    table = open_snapshot_if_any(folder)
    added = actions(table)
    if added is None:
        return False
    assert table is not None
    removed = list(remove_all_actions(folder, table.version()))
    metrics = overwrite_metrics([each["add"] for each in added], removed)
    operation = ("WRITE", {"mode": "Overwrite", "partitionBy": "[]"})
    commit_actions(folder, table.version(), write, operation, metrics, [*removed, *added])
    return True


def append_actions(
    folder: TableFolder,
    write: Write | None,
    counts: dict[str, int],
    actions: Actions,
) -> bool:
    """Commit the actions for the newest version; retry where another writer was first. False where they are None."""
    for _ in range(_TRIES):
        table = open_snapshot_if_any(folder)
        added = actions(table)
        if added is None:
            return False
        version = table.version() if table is not None else -1
        with suppress(VersionTaken):  # the other commit may be of this very batch
            commit_actions(folder, version, write, ("WRITE", _APPEND), counts, added, blind=True)
            return True
    raise InfrastructureError(
        "commit-conflict",
        f"other writers committed to the table {_TRIES} times in a row",
        hint="nothing is lost: run again",
    )


def new_table(text: str, properties: Mapping[str, str], partition_by: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The actions that create a table with these columns, as JSON of Delta."""
    feed = properties.get("delta.enableChangeDataFeed") == "true"
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 4 if feed else 2}
    used = {_LOCAL_TIMES: _has_local_times(json.loads(text)), _VECTORS: properties.get(DELETION_VECTORS) == "true"}
    if features := [name for name, is_used in used.items() if is_used]:
        # Protocols below writer version 7 do not name features.
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features}
        protocol["writerFeatures"] = [*features, *(["changeDataFeed"] if feed else [])]
    metadata = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": text,
        "partitionColumns": list(partition_by),
        "configuration": dict(properties),
        "createdTime": time.time_ns() // 1_000_000,
    }
    return [{"protocol": protocol}, {"metaData": metadata}]


def _has_local_times(type: Any) -> bool:
    """Whether a type has timestamps without a time zone, which need a table feature."""
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
        raise _bad_column_name(f"these columns: {str(error).splitlines()[0]}") from error


def _refuse_unstorable_names(columns: Any) -> None:
    """Raise for columns that Delta's own writer refuses."""
    reserved = (field["name"] for field in columns["fields"] if field["name"].lower() in CHANGE_FEED)
    if bad := next(chain(filter(_UNSTORABLE.search, _names(columns)), reserved), None):
        raise _bad_column_name(f"a column or field named {bad!r}")


def _bad_column_name(what: str) -> DataError:
    return DataError(
        "bad-column-name", f"a Delta table cannot have {what}", hint="rename it in the source or in the query"
    )


def _names(type: Any) -> Iterator[str]:
    """The names of the fields in a type, at every depth."""
    if isinstance(type, list):
        for each in type:
            yield each["name"]
            yield from _names(each["type"])
    elif isinstance(type, dict):
        for inner in ("fields", "elementType", "keyType", "valueType"):
            yield from _names(type.get(inner))


def _nullable(type: Any) -> Any:
    """The type with NULL allowed at every depth, as in tables that Spark creates."""
    if isinstance(type, list):
        return [_nullable(each) for each in type]
    if not isinstance(type, dict):
        return type
    inner = {name: _nullable(value) for name, value in type.items() if name != "metadata"}
    flags = {name: True for name in ("nullable", "containsNull", "valueContainsNull") if name in type}
    return {**inner, **flags, **({"metadata": {}} if "metadata" in type else {})}


def _refuse_other_table(
    table: DeltaTable | None, schema: Schema, table_id: str | None, partitions: Sequence[str]
) -> None:
    """Raise when the rows were written for another table."""
    found = str(table.metadata().id) if table is not None else None
    stored = {field.name: field.type for field in table.schema().fields} if table is not None else {}
    if found != table_id or not (table is None or is_plain_table(table, also={_VECTORS}, partitions=partitions)):
        what = "was dropped" if table is None else "was created or changed by another writer"
    elif table is not None and any(stored.get(field.name) != field.type for field in schema.fields):
        what = "has other columns now"
    else:
        return
    raise InfrastructureError(
        "commit-conflict",
        f"the table {what} while rows were being written for it",
        hint="nothing is lost: run again",
    )
