"""Tables are kept in order, and nothing is lost, doubled or computed again because of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.run.lakes import Cut, Written

from lakesmith import failpoints
from lakesmith.errors import LakesmithError, UsageError
from lakesmith.records import StepRecord
from lakesmith.reports import RunReport

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.spark


def row(id: int, amount: object = 1, at: int = 1) -> dict[str, object]:
    return {"id": id, "amount": amount, "day": "d", "at": at}


def only(report: RunReport) -> StepRecord:
    assert not report.errors, report.errors
    (step,) = report.steps
    return step


def warehouse(lake: Written) -> Path:
    return lake.folder / ".lakesmith/warehouse"


def data_files(lake: Written, place: str) -> set[str]:
    return {path.name for path in (warehouse(lake) / place).rglob("*.parquet") if "_delta_log" not in path.parts}


def newest(lake: Written, table: str) -> int:
    version = lake.version(table)
    assert version is not None
    return version


@contextmanager
def watched(told: Callable[[str, str], None]) -> Iterator[None]:
    failpoints.watch(told)
    try:
        yield
    finally:
        failpoints.watch(None)


def cut_at(place: str) -> Callable[[str, str], None]:
    def told(reached: str, _about: str) -> None:
        if reached == place:
            raise Cut

    return told


def two_days(orders: Written) -> None:
    """Two batches, each with a row that bronze refuses and one that silver refuses."""
    for number in (1, 2):
        first = number * 10
        orders.land(f"orders/{number}.json", row(first), row(first + 1, -1), f'{{"id": {first + 2}, "am')
        orders.run()


def content(orders: Written) -> dict[str, object]:
    """What is in the tables and in quarantine."""
    return {
        "bronze": sorted(map(repr, orders.rows("SELECT id FROM bronze.orders"))),
        "refused": sorted(map(repr, orders.rows("SELECT raw FROM quarantine.bronze_orders"))),
        "silver": sorted(map(repr, orders.rows("SELECT id, amount FROM silver.orders"))),
        "refused in silver": sorted(map(repr, orders.rows("SELECT raw FROM quarantine.silver_orders"))),
        "gold": sorted(map(repr, orders.rows("SELECT day, orders, amount FROM gold.sales"))),
    }


def test_compacted_tables_hold_the_same_rows_in_fewer_files_and_nothing_is_computed_again(orders: Written) -> None:
    two_days(orders)
    before = content(orders)
    assert not orders.lake().compact(session=orders.spark).errors
    assert content(orders) == before
    facts = orders.lake()._facts(afar=False)
    assert {str(name): table.files for name, table in facts.tables.items()} == {
        "bronze.orders": 1,
        "silver.orders": 1,
        "gold.sales": 1,
    }
    assert orders.run() == {}
    assert orders.lake().compact(session=orders.spark).run is None
    orders.land("orders/3.json", row(10, 5, at=9))
    steps = orders.run()
    assert (steps["bronze.orders"].rows_in, steps["silver.orders"].rows_in) == (1, 1)
    assert orders.rows("SELECT orders, amount FROM gold.sales") == [(2, 6)]


def test_a_vacuum_deletes_what_no_version_needs_and_what_killed_runs_have_left(orders: Written) -> None:
    two_days(orders)
    orders.lake().compact(session=orders.spark)
    before = content(orders)
    left = warehouse(orders) / "bronze/orders/batch-00000009-0a0a0a0a/part.parquet"
    left.parent.mkdir()
    left.write_bytes(b"what a killed run has left")
    staged = warehouse(orders) / "_lakesmith/checked/bronze.orders/part.parquet"
    staged.parent.mkdir(parents=True)
    staged.write_bytes(b"likewise")
    _age(warehouse(orders), 8 * 86400)
    unread = data_files(orders, "bronze/orders")
    assert only(orders.lake().vacuum(("bronze.orders",), session=orders.spark)).sequence == 3
    # Tombstones tell when files were taken out of the table, and that was today.
    assert data_files(orders, "bronze/orders") == unread - {"part.parquet"}
    assert not left.parent.exists()
    assert not staged.exists()
    assert not orders.lake().vacuum(older_than=0.0, force=True, session=orders.spark).errors
    assert len(data_files(orders, "bronze/orders")) == 1
    assert content(orders) == before
    assert orders.run() == {}
    orders.land("orders/3.json", row(10, 5, at=9))
    assert orders.run()["silver.orders"].rows_in == 1


def _age(folder: Path, seconds: float) -> None:
    then = time.time() - seconds
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def test_what_a_table_has_not_read_yet_is_kept_however_old(orders: Written) -> None:
    orders.land("orders/1.json", row(1))
    orders.run()
    orders.land("orders/2.json", row(2))
    orders.run("bronze.orders")
    orders.lake().compact(("bronze.orders",), session=orders.spark)
    kept = data_files(orders, "bronze/orders")
    plan = orders.lake().plan_vacuum(("bronze.orders",), older_than=0.0, force=True)
    assert "silver.orders has read it up to version 0" in plan.tables[0].reason
    only(orders.lake().vacuum(("bronze.orders",), older_than=0.0, force=True, session=orders.spark))
    assert data_files(orders, "bronze/orders") == kept
    assert orders.run()["silver.orders"].rows_in == 1
    only(orders.lake().vacuum(("bronze.orders",), older_than=0.0, force=True, session=orders.spark))
    assert len(data_files(orders, "bronze/orders")) == 1
    with pytest.raises(LakesmithError, match="version"):
        orders.rows("SELECT count(id) FROM bronze.orders", "bronze.orders=0")


def test_less_than_an_hour_is_refused_without_force(orders: Written) -> None:
    with pytest.raises(UsageError, match="may still be read") as raised:
        orders.lake().plan_vacuum(older_than=1800.0)
    assert raised.value.code == "vacuum-too-short"
    assert not any(orders.lake().plan_vacuum(older_than=1800.0, force=True).steps)


@pytest.mark.parametrize("place", ["batch.pinned", "table.committed", "table.fenced", "files.vacuumed", "batch.done"])
def test_a_vacuum_that_is_killed_leaves_every_row_where_it_was(orders: Written, place: str) -> None:
    two_days(orders)
    before = content(orders)
    with watched(cut_at(place)), pytest.raises(Cut):
        orders.lake().vacuum(("silver.orders",), older_than=0.0, force=True, session=orders.spark)
    orders.land("orders/3.json", row(30), row(31, -1))
    orders.run()
    assert orders.run() == {}
    after = content(orders)
    assert {name: len(rows) for name, rows in after.items()} == {
        name: len(rows) + {"bronze": 2, "silver": 1, "refused in silver": 1}.get(name, 0)
        for name, rows in before.items()
    }


@pytest.mark.parametrize(
    "place",
    ["batch.pinned", "table.committing", "log.linked", "table.committed", "settled.committed", "quarantine.committed"],
)
@pytest.mark.parametrize("table", ["bronze.orders", "silver.orders"])
def test_a_restore_that_is_killed_is_seen_through_and_what_was_rolled_back_comes_in_once(
    orders: Written, table: str, place: str
) -> None:
    orders.land("orders/1.json", row(1), row(2, -1), '{"id": 3, "am')
    orders.run()
    first = newest(orders, table)
    orders.land("orders/2.json", row(4), row(5, -1), '{"id": 6, "am')
    orders.run()
    before = content(orders)
    with watched(cut_at(place)), pytest.raises(Cut):
        orders.lake().restore(table, first)
    orders.run()
    assert orders.run() == {}
    assert content(orders) == before


def test_a_restored_table_holds_what_it_held_with_its_quarantine(orders: Written) -> None:
    orders.land("orders/1.json", row(1), row(2, -1), '{"id": 3, "am')
    orders.run()
    versions = {table: newest(orders, table) for table in ("bronze.orders", "silver.orders")}
    first = content(orders)
    orders.land("orders/2.json", row(4), row(5, -1), '{"id": 6, "am')
    orders.run()
    second = content(orders)
    plan = orders.lake().plan_restore("bronze.orders", versions["bronze.orders"])
    assert "computes gold.sales, silver.orders again" in plan.tables[0].reason
    for table, version in versions.items():
        assert only(orders.lake().restore(table, version)).sequence == 3
    restored = content(orders)
    assert {name: restored[name] for name in first if name != "gold"} == {
        name: rows for name, rows in first.items() if name != "gold"
    }
    assert only(orders.lake().restore("bronze.orders", versions["bronze.orders"])).outcome == "skipped"
    assert orders.run()["bronze.orders"].rows_in == 3
    assert orders.run() == {}
    assert content(orders) == second
    assert orders.rows("SELECT table, action, outcome FROM system.audit WHERE outcome = 'ok' ORDER BY table") == [
        ("bronze.orders", "restore", "ok"),
        ("silver.orders", "restore", "ok"),
    ]
