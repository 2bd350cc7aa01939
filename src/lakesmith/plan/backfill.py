"""Plans a backfill: the column that holds a row's day, and the commits that are left to make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from lakesmith.declare import (
    Append,
    Changes,
    Merge,
    Replace,
    ReplacePartitions,
    Scd2,
    Snapshot,
    Source,
    Table,
    TableName,
)
from lakesmith.errors import UsageError
from lakesmith.plan.fingerprint import rebuild_reason
from lakesmith.plan.steps import Backfill, BackfillChunk, Progress
from lakesmith.ports import TableFacts

_DAYS = ("date", "timestamp", "timestamp_ntz", "string")
"""Types of columns that can hold a row's day."""


def backfill_chunks(
    table: Table, facts: TableFacts | None, progress: Progress, upstream: Sequence[TableName], requested: Backfill
) -> tuple[BackfillChunk, ...]:
    """Return the remaining chunks of a backfill. An interrupted backfill continues where it stopped."""
    column = day_column(table, facts)
    changed = None if progress.definition is None else rebuild_reason(progress.definition, table)
    if changed is not None:
        raise _no_backfill(
            table,
            f"its {changed} changed since the last run, so the other days would keep the earlier definition",
            f"lakesmith run {table.name} rebuilds all of it; readers see the old rows until then",
        )
    unfinished = progress.backfill
    abandoned = ""
    if unfinished is not None and (unfinished.span, unfinished.days) == (requested.span, requested.days):
        requested = unfinished
    elif unfinished is not None:
        abandoned = f"; the backfill of {unfinished.span}, done up to {unfinished.done}, is abandoned"
    chunks = list(requested.chunks())
    return tuple(
        BackfillChunk(
            table=table.name,
            chunk=chunk,
            column=column,
            backfill=requested,
            inputs=tuple(upstream),
            reason=f"backfill of {requested.span}, {number} of {len(chunks)} chunks left{abandoned}",
        )
        for number, chunk in zip(range(len(chunks), 0, -1), chunks, strict=True)
    )


def unfinished_backfill_text(table: TableName, backfill: Backfill) -> str:
    """Say that a backfill is unfinished, and how to continue it."""
    span = backfill.span
    return (
        f"its backfill of {span} is done up to {backfill.done}: "
        f"lakesmith run {table} --from {span.start} --to {span.end} --chunk {backfill.days} continues it"
    )


def day_column(table: Table, facts: TableFacts | None) -> str:
    """Return the column that holds a row's day. Raise where there is none, or nothing to backfill."""
    if isinstance(table.origin, Source):
        raise _no_backfill(table, "bronze stays as it arrived", "backfill a table that reads it")
    if facts is None:
        raise _no_backfill(table, "it is not built yet", f"lakesmith run +{table.name} builds all of it")
    types = {column.name.lower(): column.type for column in facts.columns}
    name = _declared_day_column(table, types)
    type = types.get(name.lower(), "missing")
    if type not in _DAYS:
        raise _no_backfill(
            table,
            f"its time column {name} is {type}, not a date or timestamp",
            f"make it a date or a timestamp in {table.declared_at.file}, or rebuild all of it: "
            f"lakesmith run {table.name} --full-refresh",
        )
    return next(column.name for column in facts.columns if column.name.lower() == name.lower())


def _declared_day_column(table: Table, types: dict[str, str]) -> str:
    match table.load:
        case ReplacePartitions(by=by):
            return by
        case Append(by=str(by)):
            return by
        case Append():
            raise _no_backfill(table, "no column holds the time of a row", "declare it: load: {append: {by: <column>}}")
        case Scd2(order_by=order_by) | Changes(order_by=order_by):
            return order_by[0]
        case Merge(order_by=order_by) if order_by:
            return order_by[0]
        case Merge(key=key):
            days = [name for name in key if types.get(name.lower()) in ("date", "timestamp", "timestamp_ntz")]
            if len(days) == 1:
                return days[0]
            raise _no_backfill(
                table,
                f"{'none' if not days else 'more than one'} of its key columns is a date or timestamp",
                f"lakesmith run {table.name} --full-refresh rebuilds all of it",
            )
        case Replace():
            raise _no_backfill(
                table, "load: replace builds the table from all rows every time", f"lakesmith run {table.name}"
            )
        case Snapshot():
            raise _no_backfill(
                table,
                "an extract is compared with all other extracts, not with those of some days",
                f"lakesmith run {table.name} --full-refresh rebuilds all of it",
            )
        case _:
            assert_never(table.load)


def _no_backfill(table: Table, why: str, hint: str) -> UsageError:
    return UsageError(
        "no-backfill",
        f"{table.name} cannot be backfilled by days: {why}",
        at=table.load_at or table.declared_at,
        table=str(table.name),
        hint=hint,
    )
