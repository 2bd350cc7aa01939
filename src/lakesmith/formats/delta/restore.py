"""A table goes back to an earlier version: one commit of our own takes its files in again and the others out.

Delta's own `RESTORE` carries no batch number, and commits behind whatever others have done since it was asked for: one
that was suspended would take back rows that came later. This one is refused then, as every commit of a batch is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lakesmith.errors import DataError, InfrastructureError
from lakesmith.formats.delta.actions import (
    added_files,
    commit_actions,
    log_files,
    metadata_at,
    removal,
)
from lakesmith.formats.delta.files import is_plain_table
from lakesmith.formats.delta.names import absolute
from lakesmith.formats.delta.vectors import read_vector
from lakesmith.ports import Write

if TYPE_CHECKING:
    from deltalake import DeltaTable

_FEATURES = {"deletionVectors", "typeWidening", "typeWidening-preview"}


def restore(table: DeltaTable, location: str, version: int | None, write: Write) -> None:
    """Commit that the table holds what it held at a version, or nothing; raises where another writer was first."""
    counts, actions = way_back(table, location, version)
    told = ("RESTORE", {"version": str(version)}) if version is not None else ("DELETE", {"predicate": '["true"]'})
    commit_actions(location, table.version(), write, told, counts, actions)


def way_back(table: DeltaTable, location: str, version: int | None) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """The actions that lead back to a version, or to no rows, with their counts; raises where there is no such way."""
    now = table.version()
    partitions = table.metadata().partition_columns
    fixed = table.metadata().configuration.get("delta.appendOnly") == "true"
    if fixed or not is_plain_table(table, also=_FEATURES, partitions=partitions) or not log_files(location, now):
        raise InfrastructureError(
            "restore-unable",
            "the table has features, or a log, that Lakesmith does not know how to take back",
            hint=f"in Spark: {_in_spark(location, version)}",
        )
    if version is not None and not log_files(location, version):
        raise DataError(
            "restore-gone",
            f"version {version} cannot be read any more: the log was cleaned up since",
            hint="`lakesmith history TABLE` lists the versions",
        )
    held = dict(_by_content(location, now))
    wanted = dict(_by_content(location, version)) if version is not None else {}
    comes = [add for key, add in wanted.items() if key not in held]
    goes = [add for key, add in held.items() if key not in wanted]
    _refuse_missing(location, version, comes)
    counts = {
        "numRestoredFiles": len(comes),
        "restoredFilesSize": sum(add["size"] for add in comes),
        "numRemovedFiles": len(goes),
        "removedFilesSize": sum(add["size"] for add in goes),
    }
    actions = [*map(removal, goes), *({"add": {**add, "dataChange": True}} for add in comes)]
    if version is not None and (before := metadata_at(location, version)) != metadata_at(location, now):
        actions.insert(0, {"metaData": before})
    return counts, actions


def _in_spark(location: str, version: int | None) -> str:
    if version is None:
        return f"DELETE FROM delta.`{location}`"
    return f"RESTORE delta.`{location}` TO VERSION AS OF {version}"


def _by_content(location: str, version: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The files of a version: one is another where other rows of it are deleted."""
    for path, add in added_files(location, version, lambda _: True).items():
        vector = {name: value for name, value in (add.get("deletionVector") or {}).items() if value is not None}
        yield f"{path} {json.dumps(vector, sort_keys=True)}", add | ({"deletionVector": vector} if vector else {})


def _refuse_missing(location: str, version: int | None, files: list[dict[str, Any]]) -> None:
    for add in files:
        path = absolute(location, add["path"])
        try:
            os.stat(path)
            if add.get("deletionVector"):
                read_vector(location, add["deletionVector"])
        except OSError as error:
            raise DataError(
                "restore-vacuumed",
                f"version {version} needs {os.path.basename(error.filename or path)}, which was vacuumed or deleted",
                hint="nothing was changed; restore a later version: `lakesmith history TABLE` lists them",
            ) from error
