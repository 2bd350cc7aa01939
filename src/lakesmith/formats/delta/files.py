"""Parquet files that were written into a table's folder become part of the table: one commit, made by delta-rs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence, Set
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakesmith.disk import sync
from lakesmith.errors import DataError, InfrastructureError
from lakesmith.formats.delta.ground import check_ground
from lakesmith.formats.delta.names import commit_path, log_of
from lakesmith.formats.delta.opened import opened_if_any
from lakesmith.formats.delta.seals import drop_stale_seals
from lakesmith.ports import DataFile, Write

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable, Schema

_UNDERSTOOD = {"appendOnly", "changeDataFeed", "timestampNtz", "invariants"}
"""Features of a table that ask nothing of a writer which only adds rows, where no column says more."""
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
    from deltalake import exceptions
    from deltalake.transaction import AddAction, create_table_with_add_actions

    schema = _schema(columns)
    now = time.time_ns() // 1_000_000
    added = [AddAction(file.path, file.size, {}, now, True, _stats(file)) for file in files]
    properties = _properties(files, write)
    for _ in range(_TRIES):
        table = opened_if_any(location)
        if table is not None and (table.transaction_version(write.flow) or 0) >= write.sequence:
            return False
        _refuse_other_table(table, schema, table_id)
        check_ground(table, location, write)
        drop_stale_seals(location, table.version() + 1 if table is not None else 0)
        try:
            if table is None:
                create_table_with_add_actions(
                    location,
                    schema,
                    added,
                    mode="error",
                    configuration=dict(write.properties),
                    commit_properties=properties,
                )
            else:
                table.create_write_transaction([*added], "append", table.schema(), commit_properties=properties)
        except exceptions.CommitFailedError:
            continue  # somebody else was first with this version: their commit may be of this very batch
        except exceptions.DeltaError as error:
            if table is None and os.path.isdir(log_of(location)) and "already exists" in str(error):
                continue
            raise InfrastructureError(
                "commit-unknown",
                f"it is not known whether {len(files)} files were committed: {str(error).splitlines()[0]}",
                hint="run again: the log tells, and nothing is lost or doubled",
            ) from error
        return True
    raise InfrastructureError(
        "commit-conflict",
        f"other writers changed the table {_TRIES} times in a row",
        hint="nothing is lost: run again",
    )


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


def _properties(files: Sequence[DataFile], write: Write) -> CommitProperties:
    from deltalake import CommitProperties, Transaction

    metrics = {
        "numFiles": str(len(files)),
        "numOutputRows": str(sum(file.rows for file in files)),
        "numOutputBytes": str(sum(file.size for file in files)),
    }
    return CommitProperties(
        custom_metadata={"userMetadata": write.note, "operationMetrics": metrics},
        app_transactions=[Transaction(write.flow, write.sequence)],
        # delta-rs would commit behind a twin's commit of the same batch.
        max_commit_retries=0,
    )


def _stats(file: DataFile) -> str:
    if file.stats is not None:
        return file.stats
    return json.dumps(
        {
            "numRecords": file.rows,
            "minValues": {name: moment(least) for name, (least, _) in file.bounds.items()},
            "maxValues": {name: moment(greatest) for name, (_, greatest) in file.bounds.items()},
            "nullCount": dict.fromkeys(file.bounds, 0),
        }
    )


def moment(value: datetime) -> str:
    """As statistics of a file tell it; without a zone where it has none."""
    told = value.astimezone(UTC) if value.tzinfo else value
    return told.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def sync_commit(location: str, version: int) -> None:
    """Bring a commit to the disk: what was acknowledged survives a power cut."""
    for path in (commit_path(location, version), log_of(location), location):
        sync(path)
