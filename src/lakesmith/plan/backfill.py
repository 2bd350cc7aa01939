"""Days of a table that are computed again: which column tells the day of a row, and which commits are left to make."""

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
from lakesmith.plan.fingerprint import rebuild_because
from lakesmith.plan.steps import Backfill, BackfillChunk, Progress
from lakesmith.ports import TableFacts

_DAYS = ("date", "timestamp", "timestamp_ntz", "string")
"""Types of columns that tell a day."""


def refills(
    table: Table, facts: TableFacts | None, progress: Progress, upstream: Sequence[TableName], asked: Backfill
) -> tuple[BackfillChunk, ...]:
    """The commits that are left of a backfill: one that was begun before goes on where it stopped."""
    column = day_column(table, facts)
    changed = None if progress.definition is None else rebuild_because(progress.definition, table)
    if changed is not None:
        raise _refused(
            table,
            f"its {changed} changed since the last run, and all other days would be of the earlier one",
            f"lakesmith run {table.name} computes all of it; readers see the old rows until then",
        )
    open_one = progress.backfill
    given_up = ""
    if open_one is not None and (open_one.span, open_one.days) == (asked.span, asked.days):
        asked = open_one
    elif open_one is not None:
        given_up = f"; that of {open_one.span}, done up to {open_one.done}, is given up"
    chunks = list(asked.chunks())
    return tuple(
        BackfillChunk(
            table=table.name,
            chunk=chunk,
            column=column,
            backfill=asked,
            inputs=tuple(upstream),
            reason=f"backfill of {asked.span}, {number} of {len(chunks)} left{given_up}",
        )
        for number, chunk in zip(range(len(chunks), 0, -1), chunks, strict=True)
    )


def open_text(table: TableName, backfill: Backfill) -> str:
    """That a backfill has not come to its end, and how to go on."""
    span = backfill.span
    return (
        f"its backfill of {span} is done up to {backfill.done}: "
        f"lakesmith run {table} --from {span.start} --to {span.end} --chunk {backfill.days} goes on"
    )


def day_column(table: Table, facts: TableFacts | None) -> str:
    """The column that tells a row's day; raises where there is none, or nothing to compute again."""
    if isinstance(table.origin, Source):
        raise _refused(table, "bronze stays as it arrived", "backfill a table that is made from it")
    if facts is None:
        raise _refused(table, "it is not built yet", f"lakesmith run +{table.name} builds all of it")
    types = {column.name.lower(): column.type for column in facts.columns}
    name = _named(table, types)
    found = types.get(name.lower(), "nothing")
    if found not in _DAYS:
        raise _refused(
            table,
            f"{name} tells when a row was, and is no day or time but {found}",
            f"make it a date or a timestamp in {table.declared_at.file}, or compute all: "
            f"lakesmith run {table.name} --full-refresh",
        )
    return next(column.name for column in facts.columns if column.name.lower() == name.lower())


def _named(table: Table, types: dict[str, str]) -> str:
    match table.load:
        case ReplacePartitions(by=by):
            return by
        case Append(by=str(by)):
            return by
        case Append():
            raise _refused(table, "no column tells when a row was", "say it: load: {append: {by: <column>}}")
        case Scd2(order_by=order_by) | Changes(order_by=order_by):
            return order_by[0]
        case Merge(order_by=order_by) if order_by:
            return order_by[0]
        case Merge(key=key):
            days = [name for name in key if types.get(name.lower()) in ("date", "timestamp", "timestamp_ntz")]
            if len(days) == 1:
                return days[0]
            raise _refused(
                table,
                f"{'none' if not days else 'more than one'} of its key columns is a day or a time",
                f"lakesmith run {table.name} --full-refresh computes all of it",
            )
        case Replace():
            raise _refused(
                table, "a table with load: replace is computed from all rows each time", f"lakesmith run {table.name}"
            )
        case Snapshot():
            raise _refused(
                table,
                "an extract is weighed against all others, not against those of some days",
                f"lakesmith run {table.name} --full-refresh computes all of it",
            )
        case _:
            assert_never(table.load)


def _refused(table: Table, why: str, hint: str) -> UsageError:
    return UsageError(
        "no-backfill",
        f"{table.name} cannot be computed again by days: {why}",
        at=table.load_at or table.declared_at,
        table=str(table.name),
        hint=hint,
    )
