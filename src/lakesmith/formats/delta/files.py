"""Parquet files that were written into a table's folder become part of the table: one commit, made by delta-rs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakesmith.errors import InfrastructureError
from lakesmith.ports import DataFile, Write

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

_UNDERSTOOD = {"appendOnly", "invariants", "changeDataFeed", "timestampNtz"}
"""Features of a table that mean nothing for rows that are only added."""
_TRIES = 10


def takes_files(table: DeltaTable | None) -> bool:
    """Whether nothing is asked of a writer but to write rows."""
    if table is None:
        return True
    protocol = table.protocol()
    features = {*(protocol.writer_features or ()), *(protocol.reader_features or ())}
    return features <= _UNDERSTOOD and not table.metadata().partition_columns


def add_files(location: str, files: Sequence[DataFile], columns: str, write: Write) -> bool:
    """Commit the files; False when the batch, or a later one, is in the table already."""
    from deltalake import DeltaTable, Schema
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
    from deltalake.transaction import AddAction, create_table_with_add_actions

    now = time.time_ns() // 1_000_000
    added = [AddAction(file.path, file.size, {}, now, True, _stats(file)) for file in files]
    properties = _properties(files, write)
    for _ in range(_TRIES):
        try:
            table = DeltaTable(location)
        except TableNotFoundError:
            table = None
        try:
            if table is None:
                create_table_with_add_actions(
                    location,
                    Schema.from_json(columns),
                    added,
                    mode="error",
                    configuration=dict(write.properties),
                    commit_properties=properties,
                )
            elif (table.transaction_version(write.flow) or 0) >= write.sequence:
                return False
            else:
                table.create_write_transaction([*added], "append", table.schema(), commit_properties=properties)
        except CommitFailedError:
            continue  # somebody else was first with this version: their commit may be of this very batch
        except DeltaError as error:
            if table is None and os.path.isdir(f"{location}/_delta_log") and "already exists" in str(error):
                continue
            raise InfrastructureError(
                "commit-failed",
                f"{len(files)} files could not be committed: {str(error).splitlines()[0]}",
                hint="nothing was committed: run again",
            ) from error
        _sync(location)
        return True
    raise InfrastructureError(
        "commit-conflict",
        f"other writers changed the table {_TRIES} times in a row",
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
    return json.dumps(
        {
            "numRecords": file.rows,
            "minValues": {name: _moment(least) for name, (least, _) in file.bounds.items()},
            "maxValues": {name: _moment(greatest) for name, (_, greatest) in file.bounds.items()},
            "nullCount": dict.fromkeys(file.bounds, 0),
        }
    )


def _moment(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _sync(location: str) -> None:
    """Bring the newest commit to the disk: what was acknowledged survives a power cut."""
    folder = f"{location}/_delta_log"
    newest = max(name for name in os.listdir(folder) if name.endswith(".json") and name[:20].isdigit())
    for path in (f"{folder}/{newest}", folder):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
