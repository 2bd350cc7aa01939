"""The days and tables that a backfill recomputes or rejects."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest
from tests.plan.lakes import bronze, facts, lake, made, named

from lakesmith.declare import Append, Changes, Load, Merge, Replace, ReplacePartitions, Scd2, Snapshot, Table
from lakesmith.plan.explain import describe
from lakesmith.plan.fingerprint import definition
from lakesmith.plan.graph import Graph
from lakesmith.plan.planner import make_plan
from lakesmith.plan.select import select_matching as matched
from lakesmith.plan.steps import Backfill, BackfillChunk, Build, LakeFacts, Plan, Position, Progress, Span
from lakesmith.ports import ColumnFact

DAILY = made("gold.daily", "SELECT day, count(*) AS n FROM bronze.orders GROUP BY day", ReplacePartitions(by="day"))
AFTER = made("gold.after", "SELECT day, n FROM gold.daily", ReplacePartitions(by="day"))
JANUARY = Backfill(span=Span(start=date(2026, 1, 1), end=date(2026, 1, 31)), days=10)
TYPES = {"day": "date", "ts": "timestamp", "id": "bigint", "text": "string"}


def plan(
    table: Table,
    *more: Table,
    requested: Backfill = JANUARY,
    begun: Backfill | None = None,
    seen: int = 3,
    recorded: str | None = None,
    there: bool = True,
) -> Plan:
    declared = lake(bronze("orders"), table, *more)
    known = replace(facts(3), columns=tuple(ColumnFact(name, type) for name, type in TYPES.items()))
    tables = {named("bronze.orders"): known, **{each.name: known for each in (table, *more) if there}}
    upstream = {table.name: "bronze.orders", **{each.name: str(table.name) for each in more}}
    progress = {
        name: Progress(
            head=1,
            definition=recorded or definition(declared.tables[name]),
            positions={source: Position(table_id="one", version=seen if name == table.name else 3)},
            backfill=begun if name == table.name else None,
        )
        for name, source in upstream.items()
        if there
    }
    return make_plan(
        declared,
        Graph.of(declared.tables),
        LakeFacts(tables=tables, progress=progress),
        selected=frozenset(declared.tables) - {named("bronze.orders")},
        backfill=requested,
        backfilled=frozenset({table.name}),
    )


def chunks(found: Plan) -> list[str]:
    return [str(step.chunk) for step in found.steps if isinstance(step, BackfillChunk)]


def test_days_are_split_into_chunks_with_one_commit_each() -> None:
    found = plan(DAILY)
    assert chunks(found) == [
        "2026-01-01 to 2026-01-10",
        "2026-01-11 to 2026-01-20",
        "2026-01-21 to 2026-01-30",
        "2026-01-31 to 2026-01-31",
    ]
    step = next(found.steps)
    assert describe(step) == "rebuild the rows with day from 2026-01-01 to 2026-01-10"
    assert step.reason == "backfill of 2026-01-01 to 2026-01-31, 4 of 4 chunks left"


def test_a_table_is_brought_up_to_date_before_its_backfill() -> None:
    first, *rest = plan(DAILY, seen=1).steps
    assert isinstance(first, Build)
    assert all(isinstance(step, BackfillChunk) for step in rest)


def test_downstream_tables_read_the_changes_of_a_backfill() -> None:
    last = list(plan(DAILY, AFTER).steps)[-1]
    assert isinstance(last, Build)
    assert (last.table, last.mode) == (AFTER.name, "partitions")


def test_the_same_backfill_continues_and_another_abandons_it() -> None:
    begun = replace(JANUARY, done=date(2026, 1, 20))
    assert chunks(plan(DAILY, begun=begun)) == ["2026-01-21 to 2026-01-30", "2026-01-31 to 2026-01-31"]
    other = plan(DAILY, begun=begun, requested=replace(JANUARY, days=31))
    assert chunks(other) == ["2026-01-01 to 2026-01-31"]
    assert next(other.steps).reason.endswith(
        "the backfill of 2026-01-01 to 2026-01-31, done up to 2026-01-20, is abandoned"
    )


def test_the_last_chunk_ends_a_backfill() -> None:
    *_, before, last = JANUARY.chunks()
    assert JANUARY.after(before) == replace(JANUARY, done=date(2026, 1, 30))
    assert JANUARY.after(last) is None


def test_a_table_with_a_changed_query_needs_a_full_build_instead_of_a_backfill() -> None:
    (error,) = plan(DAILY, recorded="0.0:0").problems
    assert error.code == "no-backfill"
    assert "its query changed" in error.what
    assert (error.hint or "").startswith("lakesmith run gold.daily rebuilds all of it")


def test_a_backfill_applies_changed_checks() -> None:
    recorded = definition(DAILY).partition(":")[0] + ":0"
    assert len(chunks(plan(DAILY, recorded=recorded))) == 4


@pytest.mark.parametrize(
    ("load", "column"),
    [
        (Append(by="ts"), "ts"),
        (Append(dedup=("id",), by="TS"), "ts"),
        (Merge(key=("id",), order_by=("ts", "id")), "ts"),
        (Merge(key=("id", "day")), "day"),
        (Scd2(key=("id",), order_by=("ts",)), "ts"),
        (Changes(key=("id",), order_by=("day",), op="text"), "day"),
        (ReplacePartitions(by="text"), "text"),
    ],
)
def test_each_load_has_a_day_column(load: Load, column: str) -> None:
    table = made("silver.x", "SELECT id, ts, day, text FROM bronze.orders", load)
    assert next(step.column for step in plan(table).steps if isinstance(step, BackfillChunk)) == column


@pytest.mark.parametrize(
    ("load", "why"),
    [
        (Replace(), "builds the table from all rows every time"),
        (Append(), "no column holds the time of a row"),
        (Append(by="id"), "is bigint, not a date or timestamp"),
        (Merge(key=("id",)), "none of its key columns is a date or timestamp"),
        (Merge(key=("day", "ts")), "more than one of its key columns is a date or timestamp"),
        (Snapshot(key=("id",), taken="ts"), "an extract is compared with all other extracts"),
    ],
)
def test_a_table_without_a_day_column_is_a_problem_with_a_next_step(load: Load, why: str) -> None:
    found = plan(made("silver.x", "SELECT id, ts, day, text FROM bronze.orders", load))
    (error,) = found.problems
    assert (error.code, error.exit_code) == ("no-backfill", 2)
    assert why in error.what
    assert error.hint
    assert not list(found.steps)


def test_a_table_that_is_not_built_has_no_days() -> None:
    assert "it is not built yet" in plan(DAILY, there=False).problems[0].what


def test_bronze_has_no_backfill() -> None:
    declared = lake(bronze("orders"))
    found = make_plan(
        declared,
        Graph.of(declared.tables),
        LakeFacts(),
        selected=frozenset(declared.tables),
        backfill=JANUARY,
        backfilled=frozenset(declared.tables),
    )
    assert "bronze stays as it arrived" in found.problems[0].what


@pytest.mark.parametrize("selector", ["daily", "gold.daily+", "1+daily+2", "@gold.daily", "daily,layer:gold"])
def test_only_named_tables_are_backfilled(selector: str) -> None:
    declared = lake(bronze("orders"), DAILY, AFTER)
    assert matched(Graph.of(declared.tables), declared.tables, [selector]) == {DAILY.name}
