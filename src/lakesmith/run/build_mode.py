"""The mode of a build, decided again from the current inputs: they may have changed since the plan was made."""

from __future__ import annotations

from collections.abc import Mapping

from lakesmith.declare import Table
from lakesmith.errors import DataError
from lakesmith.plan.steps import Build, BuildMode, Position, Progress
from lakesmith.plan.widening import type_change_text
from lakesmith.ports import TableFacts, TableFormat
from lakesmith.sqlproof.query import partition_source


def inputs_with_changes(inputs: Mapping[str, TableFacts], progress: Progress) -> set[str]:
    """Return the inputs with changes that the table has not read."""
    return {name for name, found in inputs.items() if _is_ahead(found, progress.positions.get(name))}


def _is_ahead(found: TableFacts, position: Position | None) -> bool:
    return position is None or found.table_id != position.table_id or found.changed > position.version


def changes_after(found: TableFacts, position: Position) -> int:
    """Return the version after which changes are read."""
    return position.version if found.changed > position.version else found.version


def current_mode(
    format: TableFormat, table: Table, step: Build, progress: Progress, inputs: Mapping[str, TableFacts]
) -> tuple[BuildMode, str]:
    """Return the planned mode and why, or `full` when the inputs have changed in another way."""
    if step.mode == "full" or step.rebuild:
        return "full", step.reason
    if step.mode == "partitions":
        source = partition_source(table)
        if isinstance(source, str) or inputs_with_changes(inputs, progress) - {str(source.table)}:
            return "full", "another input changed since the plan was made"
    for name, found in inputs.items():
        position = progress.positions.get(name)
        if position is None or position.table_id != found.table_id:
            return "full", f"{name} was rebuilt"
        if found.version > position.version and not format.has_change_feed(found.location, position.version):
            return "full", f"{name} has no change feed since version {position.version}"
        if found.changed > position.version and found.oldest > position.version + 1:
            raise DataError(
                "source-gap",
                f"{name} has lost the changes of versions {position.version + 1} to {found.oldest - 1}",
                hint=f"its log was cleaned up; `lakesmith run {step.table} --full-refresh` reads all of it",
            )
        if found.version > position.version and (retyped := format.changed_types(found.location, position.version)):
            return "full", type_change_text(name, retyped)
        if step.mode in ("changes", "sums") and (operation := _rewrite(format, found, position.version)):
            return "full", f"rows of {name} changed ({operation})"
    return step.mode, step.reason


def _rewrite(format: TableFormat, found: TableFacts, since: int) -> str | None:
    """Return the newest operation after `since` that changed or removed rows of a table, if there is one."""
    commits = format.commits(found.location, since)
    return next((each.operation for each in commits if each.version <= found.version and each.removes_rows), None)
