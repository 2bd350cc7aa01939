"""What a build commits, decided again from the current inputs: they may have changed since the plan was made."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import assert_never

from lakesmith.declare import Table, TableName
from lakesmith.errors import DataError
from lakesmith.ledger.content import AddedSums, BuildContent, ChangedKeys, ChangedPartitions, ChangedRows, FullBuild
from lakesmith.plan.steps import Build, Position, Progress
from lakesmith.plan.widening import type_change_text
from lakesmith.ports import TableFacts, TableFormat
from lakesmith.sqlproof.query import partition_source


def inputs_with_changes(inputs: Mapping[str, TableFacts], progress: Progress) -> set[str]:
    """Return the inputs with changes that the table has not read."""
    return {name for name, found in inputs.items() if _is_ahead(found, progress.positions.get(name))}


def _is_ahead(found: TableFacts, position: Position | None) -> bool:
    return position is None or found.table_id != position.table_id or found.changed > position.version


def _changes_after(found: TableFacts, position: Position) -> int:
    """Return the version after which changes are read."""
    return position.version if found.changed > position.version else found.version


def current_content(
    format: TableFormat, table: Table, step: Build, progress: Progress, inputs: Mapping[str, TableFacts]
) -> tuple[BuildContent, str]:
    """Return what the planned mode commits and why, or a full build when the inputs have changed in another way."""
    if step.rebuild:
        return FullBuild(), step.reason
    why_full = partial(_why_full, format, step.table, progress, inputs)
    kind: type[ChangedRows | AddedSums | ChangedKeys | ChangedPartitions]
    match step.mode:
        case "full":
            return FullBuild(), step.reason
        case "changes":
            kind, why = ChangedRows, why_full(new_rows_only=True)
        case "sums":
            kind, why = AddedSums, why_full(new_rows_only=True)
        case "keys":
            kind, why = ChangedKeys, why_full(new_rows_only=False)
        case "partitions":
            source = partition_source(table)
            traced = not isinstance(source, str) and inputs_with_changes(inputs, progress) <= {str(source.table)}
            other = None if traced else "another input changed since the plan was made"
            kind, why = ChangedPartitions, other or why_full(new_rows_only=False)
        case _:
            assert_never(step.mode)
    if why is not None:
        return FullBuild(), why
    since = {name: _changes_after(found, progress.positions[name]) for name, found in inputs.items()}
    return kind(since=since), step.reason


def _why_full(
    format: TableFormat,
    table: TableName,
    progress: Progress,
    inputs: Mapping[str, TableFacts],
    *,
    new_rows_only: bool,
) -> str | None:
    """Return why the changes of the inputs cannot be read, or None."""
    for name, found in inputs.items():
        position = progress.positions.get(name)
        if position is None or position.table_id != found.table_id:
            return f"{name} was rebuilt"
        if found.version > position.version and not format.has_change_feed(found.folder, position.version):
            return f"{name} has no change feed since version {position.version}"
        if found.changed > position.version and found.oldest > position.version + 1:
            raise DataError(
                "source-gap",
                f"{name} has lost the changes of versions {position.version + 1} to {found.oldest - 1}",
                hint=f"its log was cleaned up; `lakesmith run {table} --full-refresh` reads all of it",
            )
        if found.version > position.version and (retyped := format.changed_types(found.folder, position.version)):
            return type_change_text(name, retyped)
        if new_rows_only and (operation := _rewrite(format, found, position.version)):
            return f"rows of {name} changed ({operation})"
    return None


def _rewrite(format: TableFormat, found: TableFacts, since: int) -> str | None:
    """Return the newest operation after `since` that changed or removed rows of a table, if there is one."""
    commits = format.commits(found.folder, since)
    return next((each.operation for each in commits if each.version <= found.version and each.removes_rows), None)
