"""Restores a table to an earlier version: one commit adds the files of that version and removes the others.

Delta's own `RESTORE` carries no batch number, and commits on top of whatever others committed since it started: a
suspended one would remove rows that came later. This one then fails with a conflict, like every commit of a batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lakesmith.errors import DataError, InfrastructureError
from lakesmith.formats.delta.actions import (
    active_files,
    commit_actions,
    log_segment,
    metadata_at,
    remove_action,
)
from lakesmith.formats.delta.commit_results import batch_result, committed_by_another_run
from lakesmith.formats.delta.commit_rules import is_plain_table
from lakesmith.formats.delta.commits import committed_sequence
from lakesmith.formats.delta.deletion_vectors import read_vector, vector_file
from lakesmith.formats.delta.log_files import data_file_key, missing_file, sql_name
from lakesmith.formats.delta.snapshot import open_snapshot, open_snapshot_if_any
from lakesmith.ports import CommitResult, TableFolder, Write

if TYPE_CHECKING:
    from deltalake import DeltaTable

_FEATURES = {"deletionVectors", "typeWidening", "typeWidening-preview"}


def restore(folder: TableFolder, version: int | None, write: Write) -> CommitResult:
    """Commit the rows of a version, or no rows; raises where another writer was first."""
    table = open_snapshot(folder)
    if committed_sequence(folder, table, write.flow) >= write.sequence:
        raise committed_by_another_run(write)
    counts, actions = restore_actions(table, folder, version)
    operation = ("RESTORE", {"version": str(version)}) if version is not None else ("DELETE", {"predicate": '["true"]'})
    commit_actions(folder, table.version(), write, operation, counts, actions)
    return batch_result(folder, write)


def check_restore(folder: TableFolder, version: int | None) -> None:
    """Raise where the table cannot be restored to the version."""
    table = open_snapshot_if_any(folder)
    if table is not None:
        restore_actions(table, folder, version)


def restore_actions(
    table: DeltaTable, folder: TableFolder, version: int | None
) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """The actions that restore a version, or no rows, with their counts; raises where that is not possible."""
    now = table.version()
    partitions = table.metadata().partition_columns
    append_only = table.metadata().configuration.get("delta.appendOnly") == "true"
    if append_only or not is_plain_table(table, also=_FEATURES, partitions=partitions) or not log_segment(folder, now):
        raise InfrastructureError(
            "restore-unable",
            "Lakesmith cannot restore this table: it has unsupported features, or commits of its log are missing",
            hint=f"in Spark: {_in_spark(folder, version)}",
        )
    if version is not None and not log_segment(folder, version):
        raise DataError(
            "restore-gone",
            f"version {version} is no longer readable: its commits were cleaned up",
            hint="`lakesmith history TABLE` lists the versions",
        )
    current = dict(_by_content(folder, now))
    target = dict(_by_content(folder, version)) if version is not None else {}
    restored = [add for key, add in target.items() if key not in current]
    removed = [add for key, add in current.items() if key not in target]
    _refuse_missing(folder, version, restored)
    counts = {
        "numRestoredFiles": len(restored),
        "restoredFilesSize": sum(add["size"] for add in restored),
        "numRemovedFiles": len(removed),
        "removedFilesSize": sum(add["size"] for add in removed),
    }
    actions = [*map(remove_action, removed), *({"add": {**add, "dataChange": True}} for add in restored)]
    if version is not None and (before := metadata_at(folder, version)) != metadata_at(folder, now):
        actions.insert(0, {"metaData": before})
    return counts, actions


def _in_spark(folder: TableFolder, version: int | None) -> str:
    if version is None:
        return f"DELETE FROM {sql_name(folder)}"
    return f"RESTORE {sql_name(folder)} TO VERSION AS OF {version}"


def _by_content(folder: TableFolder, version: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """The files of a version, by path and deletion vector."""
    for path, add in active_files(folder, version, lambda _: True).items():
        vector = {name: value for name, value in (add.get("deletionVector") or {}).items() if value is not None}
        yield f"{path} {json.dumps(vector, sort_keys=True)}", add | ({"deletionVector": vector} if vector else {})


def _refuse_missing(folder: TableFolder, version: int | None, files: list[dict[str, Any]]) -> None:
    vectors = [vector for add in files if (vector := add.get("deletionVector"))]
    keys = [data_file_key(folder, add["path"]) for add in files]
    keys += [key for vector in vectors if (key := vector_file(folder, vector))]
    missing = missing_file(folder, keys)
    if missing is not None:
        raise DataError(
            "restore-vacuumed",
            f"version {version} needs {missing.rpartition('/')[2]}, which was vacuumed or deleted",
            hint="nothing was changed; restore a later version: `lakesmith history TABLE` lists them",
        )
    for vector in vectors:  # a corrupt one would restore deleted rows
        read_vector(folder, vector)
