"""A plan in words."""

from __future__ import annotations

from tests.plan.lakes import file, named

from lakesmith.errors import DataError
from lakesmith.plan.explain import describe, explain
from lakesmith.plan.steps import (
    Build,
    Compact,
    Finish,
    Ingest,
    Input,
    Plan,
    Restore,
    TablePlan,
    Vacuum,
    Widen,
)
from lakesmith.ports import ColumnFact


def test_each_step_is_described() -> None:
    orders = named("silver.orders")
    since = (Input(table=named("bronze.orders"), since=3),)
    whole = (Input(table=named("bronze.a"), since=None), Input(table=named("bronze.b"), since=None))
    assert [
        describe(step)
        for step in (
            Ingest(table=orders, files=(file("a", 4000), file("b", 100)), reason=""),
            Ingest(table=orders, files=(file("a", 7),), reason=""),
            Build(table=orders, mode="changes", inputs=since, reason=""),
            Build(table=orders, mode="partitions", inputs=since, reason=""),
            Build(table=orders, mode="full", inputs=whole, reason=""),
            Widen(table=orders, columns=(ColumnFact("id", "bigint"), ColumnFact("n", "double")), reason=""),
            Finish(table=orders, sequence=4, reason=""),
            Compact(table=orders, files=12, bytes=4000, reason=""),
            Vacuum(table=orders, older_than=7 * 86400.0, reason=""),
            Vacuum(table=orders, older_than=5400.0, reason=""),
            Restore(table=orders, version=3, reason=""),
            Restore(table=orders, version=3, keeps_rows=True, reason=""),
        )
    ] == [
        "ingest 2 files (4.1 kB)",
        "ingest 1 file (7 B)",
        "build from changed rows of bronze.orders since version 3",
        "recompute the partitions touched by changes of bronze.orders since version 3",
        "full build from bronze.a, bronze.b",
        "widen id to bigint, n to double",
        "finish batch 4, which was interrupted",
        "compact 12 files (4.0 kB)",
        "delete files that no version of the last 7d references",
        "delete files that no version of the last 90m references",
        "restore version 3",
        "stay at version 3, and record the restored versions of its inputs",
    ]


def test_tables_are_shown_by_layer_with_symbol_and_reason() -> None:
    error = DataError("file-changed", "it changed", table="bronze.b")
    explained = explain(
        Plan(
            lake="shop",
            environment="dev",
            tables=(
                TablePlan(table=named("gold.a"), status="added", reason="new table"),
                TablePlan(table=named("silver.a"), status="changed", reason="more"),
                TablePlan(table=named("silver.b"), status="unchanged", reason="up to date"),
                TablePlan(table=named("bronze.b"), status="unchanged", reason="it changed"),
            ),
            problems=(error,),
        )
    )
    assert [(str(table.table), symbol, table.reason) for symbol, table in explained] == [
        ("bronze.b", "!", "it changed"),
        ("silver.a", "~", "more"),
        ("silver.b", "=", "up to date"),
        ("gold.a", "+", "new table"),
    ]
