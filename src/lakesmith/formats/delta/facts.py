"""Facts of a table, read from its log by delta-rs without a JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakesmith.declare.spark_type import read_schema
from lakesmith.formats.delta.actions import active_files, file_rows, recent_segment
from lakesmith.formats.delta.commits import committed_sequence, is_maintenance, read_commits
from lakesmith.formats.delta.integrity import log_failure
from lakesmith.formats.delta.log_files import LOG, LOG_FILE
from lakesmith.formats.delta.snapshot import open_snapshot, open_snapshot_at, open_snapshot_if_any
from lakesmith.ports import ColumnFact, TableFacts, TableFolder

if TYPE_CHECKING:
    from deltalake import DeltaTable


def read_facts(folder: TableFolder, flow: str) -> TableFacts | None:
    """The facts of the newest version; None when there is no table."""
    table = open_snapshot_if_any(folder)
    if table is None:
        return None
    from deltalake import exceptions

    try:
        return _facts_of(table, folder, flow)
    except exceptions.DeltaError as error:  # delta-rs reads some actions only when they are needed
        raise log_failure(folder, str(error)) from error


def _facts_of(table: DeltaTable, folder: TableFolder, flow: str) -> TableFacts:
    metadata = table.metadata()
    version = table.version()
    recent = read_commits(folder, version)
    newest = last = next(recent, None)
    maintenance = 0
    while last is not None and is_maintenance(last):
        maintenance, last = maintenance + 1, next(recent, None)
    adds = table.get_add_actions(flatten=True)
    return TableFacts(
        folder=folder,
        version=version,
        table_id=str(metadata.id),
        columns=tuple(ColumnFact(field["name"], str(read_schema(field["type"]))) for field in _schema(table)["fields"]),
        partition_by=tuple(metadata.partition_columns),
        rows=_count(folder, table),
        bytes=sum(adds["size_bytes"].to_pylist()),
        files=adds.num_rows,
        committed_at=newest.committed_at if newest else _log_modified_at(folder),
        oldest=_oldest_commit(folder),
        sequence=(newest and newest.sequences.get(flow)) or committed_sequence(folder, table, flow),
        change_feed=_has_feed(table),
        widened=is_widened(table),
        maintenance_commits=maintenance,
    )


def has_change_feed(folder: TableFolder, after: int) -> bool:
    """Whether the change feed is on now and was on in the version after `after`."""
    from deltalake import exceptions

    try:
        return _has_feed(open_snapshot(folder)) and _has_feed(open_snapshot_at(folder, after + 1))
    except exceptions.DeltaError:  # that version is gone, and its changes with it
        return False


def changed_types(folder: TableFolder, after: int) -> Sequence[str]:
    """The columns, nested ones by dotted names, that had another type at version `after` than they have now."""
    from deltalake import exceptions

    table = open_snapshot_if_any(folder)
    if table is None:
        return ()
    try:
        before = dict(_leaf_types("", _schema(open_snapshot_at(folder, after))))
    except exceptions.DeltaError:  # that version is gone, and its changes with it
        return ()
    return [name for name, type in _leaf_types("", _schema(table)) if before.get(name, type) != type]


def deletes_by_vector(table: DeltaTable) -> bool:
    """Whether files of the table may have deletion vectors."""
    return "deletionVectors" in (table.protocol().reader_features or ())


def is_widened(table: DeltaTable) -> bool:
    """Whether files of the table may hold narrower types than its columns. delta-rs can read the log of such a table,
    but can neither write it nor plan a query over it."""
    return "typeWidening" in (table.protocol().reader_features or ())


def _schema(table: DeltaTable) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(table.schema().to_json())
    return found


def _leaf_types(name: str, stored: str | dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The primitive types inside a type, with dotted names."""
    if isinstance(stored, str):
        yield name, stored
    elif stored["type"] == "struct":
        for field in stored["fields"]:
            yield from _leaf_types(f"{name}.{field['name']}".lstrip("."), field["type"])
    else:
        for part in ("elementType", "keyType", "valueType"):
            if part in stored:
                inside = part.removesuffix("Type")
                yield from _leaf_types(f"{name}.{inside}", stored[part])


def _has_feed(table: DeltaTable) -> bool:
    return table.metadata().configuration.get("delta.enableChangeDataFeed") == "true"


def _count(folder: TableFolder, table: DeltaTable) -> int:
    if not deletes_by_vector(table) or recent_segment(folder, table.version()) is None:
        return table.count()
    # delta-rs counts deleted rows too.
    files = active_files(folder, table.version(), lambda _: True).items()
    return sum(
        file_rows(folder, key, add) - (add.get("deletionVector") or {}).get("cardinality", 0) for key, add in files
    )


def _log_modified_at(folder: TableFolder) -> datetime:
    """When the table last changed, for a log that has only a checkpoint and no commit."""
    return datetime.fromtimestamp(max(file.modified for file in folder.list(f"{LOG}/")) / 1000, UTC)


def _oldest_commit(folder: TableFolder) -> int:
    """The oldest commit in the log. Older ones were cleaned up, and their changes cannot be read."""
    found = (LOG_FILE.fullmatch(file.key, len(LOG) + 1) for file in folder.list(f"{LOG}/0"))
    return next((int(file[1]) for file in found if file and file["commit"]), 0)
