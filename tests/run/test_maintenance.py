"""Maintenance loses, duplicates and recomputes nothing."""

from __future__ import annotations

import os
import shutil
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.marks import chosen_only
from tests.run.lakes import ORDERS, Cut, Written, cut_at, watched

from lakesmith import failpoints
from lakesmith.errors import LakesmithError, UsageError
from lakesmith.jvm.session import isolated
from lakesmith.lake.facts import read_facts
from lakesmith.ledger import lease
from lakesmith.plan.steps import QuarantineFilter
from lakesmith.records import StepRecord
from lakesmith.reports import RunReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


def leave_stray(lake: Written, place: str = "bronze/orders") -> Path:
    """Create a file as a killed run leaves it."""
    path = warehouse(lake) / place / "batch-00000009-0a0a0a0a" / "stray.parquet"
    path.parent.mkdir()
    path.write_bytes(b"never committed")
    return path


def newest(lake: Written, table: str) -> int:
    version = lake.version(table)
    assert version is not None
    return version


@pytest.fixture(scope="module")
def two_days(shared_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake after two batches, each with a row that bronze rejects and one that silver rejects; to be copied."""
    lake = Written(tmp_path_factory.mktemp("two_days") / "shop", isolated(shared_spark))
    lake.declare({"lakesmith.yml": "name: shop\n", **ORDERS})
    for number in (1, 2):
        first = number * 10
        lake.land(f"orders/{number}.json", row(first), row(first + 1, -1), f'{{"id": {first + 2}, "am')
        lake.run()
    return lake.folder


@pytest.fixture
def shop(two_days: Path, orders: Written) -> Written:
    """The lake after two batches, for one test to change."""
    shutil.copytree(two_days, orders.folder, dirs_exist_ok=True)
    return orders


FIRST = {"bronze.orders": 0, "silver.orders": 0}
"""The versions of the first batch."""


def content(orders: Written) -> dict[str, list[str]]:
    """Return the rows of the tables and of the quarantine."""
    return {
        "bronze": sorted(map(repr, orders.rows("SELECT id FROM bronze.orders"))),
        "rejected": sorted(map(repr, orders.rows("SELECT raw FROM quarantine.bronze_orders"))),
        "silver": sorted(map(repr, orders.rows("SELECT id, amount FROM silver.orders"))),
        "rejected in silver": sorted(map(repr, orders.rows("SELECT raw FROM quarantine.silver_orders"))),
        "gold": sorted(map(repr, orders.rows("SELECT day, orders, amount FROM gold.sales"))),
    }


def test_compacted_tables_have_the_same_rows_in_fewer_files_and_nothing_is_recomputed(shop: Written) -> None:
    before = content(shop)
    assert not shop.lake().compact(session=shop.spark).errors
    assert content(shop) == before
    facts = read_facts(shop.lake()._lake, remote=False)
    assert {table.files for table in facts.tables.values()} == {1}
    assert shop.run() == {}
    assert shop.lake().compact(session=shop.spark).run is None
    shop.land("orders/3.json", row(10, 5, at=9))
    steps = shop.run()
    assert (steps["bronze.orders"].rows_in, steps["silver.orders"].rows_in) == (1, 1)
    assert shop.rows("SELECT orders, amount FROM gold.sales") == [(2, 6)]


def test_a_vacuum_deletes_unused_files_and_leftovers_of_killed_runs(shop: Written) -> None:
    shop.lake().compact(session=shop.spark)
    before = content(shop)
    left = leave_stray(shop)
    staged = warehouse(shop) / "bronze/orders/batch-00000002-ab12cd34"
    killed = (staged / "lakesmith_kind=good/part.parquet", staged / "_temporary/0/part.parquet", staged / "_SUCCESS")
    for file in killed:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"likewise")
    _age(warehouse(shop), 8 * 86400)
    had = data_files(shop, "bronze/orders")
    assert only(shop.lake().vacuum(("bronze.orders",), session=shop.spark)).sequence == 3
    # The log has the time when files were removed from the table: today.
    assert data_files(shop, "bronze/orders") == had - {left.name, "part.parquet"}
    assert not left.exists()
    assert not any(file.exists() for file in killed)
    assert not shop.lake().vacuum(older_than=0.0, force=True, session=shop.spark).errors
    assert len(data_files(shop, "bronze/orders")) == 1
    assert content(shop) == before
    assert shop.run() == {}
    assert not any(shop.lake().plan_vacuum(older_than=0.0, force=True).steps)
    shop.land("orders/3.json", row(10, 5, at=9))
    assert shop.run()["silver.orders"].rows_in == 1


def _age(folder: Path, seconds: float) -> None:
    then = time.time() - seconds
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def test_files_that_a_downstream_table_has_not_read_are_retained(orders: Written) -> None:
    orders.land("orders/1.json", row(1))
    orders.run()
    orders.land("orders/2.json", row(2))
    orders.run("bronze.orders")
    orders.lake().compact(("bronze.orders",), session=orders.spark)
    archived_bytes = data_files(orders, "bronze/orders")
    plan = orders.lake().plan_vacuum(("bronze.orders",), older_than=0.0, force=True)
    assert "silver.orders has read it up to version 0" in plan.tables[0].reason
    assert orders.lake().vacuum(("bronze.orders",), older_than=0.0, force=True, session=orders.spark).run is None
    assert data_files(orders, "bronze/orders") == archived_bytes
    assert orders.run()["silver.orders"].rows_in == 1
    only(orders.lake().vacuum(("bronze.orders",), older_than=0.0, force=True, session=orders.spark))
    assert len(data_files(orders, "bronze/orders")) == 1
    with pytest.raises(LakesmithError, match="version"):
        orders.rows("SELECT count(id) FROM bronze.orders", "bronze.orders=0")


def test_a_retention_below_an_hour_is_rejected_without_force(orders: Written) -> None:
    with pytest.raises(UsageError, match="may still read files") as raised:
        orders.lake().plan_vacuum(older_than=1800.0)
    assert raised.value.code == "vacuum-too-short"
    assert not any(orders.lake().plan_vacuum(older_than=1800.0, force=True).steps)


@pytest.mark.parametrize(
    "place",
    chosen_only(
        ["batch.pinned", "table.committed", "table.fenced", "files.vacuumed", "batch.finishing"],
        "table.fenced",
        "files.vacuumed",
    ),
)
def test_a_killed_vacuum_loses_no_row(shop: Written, place: str) -> None:
    leave_stray(shop)
    with cut_at(place), pytest.raises(Cut):
        shop.lake().vacuum(("bronze.orders",), older_than=0.0, force=True, session=shop.spark)
    shop.land("orders/3.json", row(30), '{"id": 31, "am')
    shop.run("bronze.orders")
    assert shop.run("bronze.orders") == {}
    assert shop.rows("SELECT id FROM bronze.orders ORDER BY id") == [(10,), (11,), (20,), (21,), (30,)]
    assert shop.rows("SELECT count(*) FROM quarantine.bronze_orders") == [(3,)]


@pytest.mark.parametrize(
    "place",
    chosen_only(
        [
            "batch.pinned",
            "table.committing",
            "log.linked",
            "table.committed",
            "decisions.committed",
            "quarantine.committed",
        ],
        "log.linked",
        "table.committed",
    ),
)
def test_a_killed_restore_is_completed_and_rolled_back_rows_are_ingested_once(shop: Written, place: str) -> None:
    with cut_at(place), pytest.raises(Cut):
        shop.lake().restore("bronze.orders", FIRST["bronze.orders"])
    shop.run("bronze.orders")
    assert shop.run("bronze.orders") == {}
    assert shop.rows("SELECT id FROM bronze.orders ORDER BY id") == [(10,), (11,), (20,), (21,)]
    assert shop.rows("SELECT count(*), count(DISTINCT raw) FROM quarantine.bronze_orders") == [(2, 2)]


def test_a_restored_table_has_its_earlier_rows_and_quarantine(shop: Written) -> None:
    before = content(shop)
    plan = shop.lake().plan_restore("bronze.orders", FIRST["bronze.orders"])
    assert "recomputes gold.sales, silver.orders" in plan.tables[0].reason
    for table, version in FIRST.items():
        assert only(shop.lake().restore(table, version)).sequence == 3
    restored = content(shop)
    assert (restored["bronze"], restored["silver"]) == (["(10,)", "(11,)"], ["(10, 1)"])
    assert [len(restored[name]) for name in ("rejected", "rejected in silver")] == [1, 1]
    assert only(shop.lake().restore("bronze.orders", FIRST["bronze.orders"])).outcome == "skipped"
    assert shop.run()["bronze.orders"].rows_in == 3
    assert shop.run() == {}
    assert content(shop) == before
    assert shop.rows("SELECT \"table\", action FROM system.audit WHERE outcome = 'ok' ORDER BY 1") == [
        ("bronze.orders", "restore"),
        ("silver.orders", "restore"),
    ]


def test_rows_rejected_before_a_foreign_rollback_are_stored_once_after_a_vacuum(
    shop: Written,
) -> None:
    before = content(shop)
    place = warehouse(shop) / "bronze/orders"
    shop.spark.sql(f"RESTORE TABLE delta.`{place}` TO VERSION AS OF {FIRST['bronze.orders']}")
    _age(leave_stray(shop).parent, 8 * 86400)
    assert only(shop.lake().vacuum(("bronze.orders",), session=shop.spark)).sequence == 3
    assert shop.run()["bronze.orders"].rows_in == 3
    assert shop.run() == {}
    assert content(shop) == before


@pytest.mark.parametrize("table", chosen_only(["bronze.orders", "silver.orders"], "silver.orders"))
def test_a_run_suspended_during_a_vacuum_fails_and_the_next_one_is_correct(
    orders: Written, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    orders.land("orders/1.json", row(1), row(2, -1))
    orders.run()
    orders.land("orders/2.json", row(3), row(4, -1))
    # A suspended process renews no lease.
    monkeypatch.setattr(lease, "LEASE_SECONDS", 0.0)
    monkeypatch.setattr(lease.Leases, "_renew", lambda *_: False)
    asleep, awake, reports = threading.Event(), threading.Event(), []

    def watcher(place: str, about: str) -> None:
        if place == "table.committing" and about == table and not asleep.is_set():
            asleep.set()
            assert awake.wait(120)

    with watched(watcher):
        thread = threading.Thread(target=lambda: reports.append(orders.lake().run(session=isolated(orders.spark))))
        thread.start()
        try:
            assert asleep.wait(120)
            leave_stray(orders, table.replace(".", "/"))
            only(orders.lake().vacuum((table,), older_than=0.0, force=True, session=orders.spark))
        finally:
            awake.set()
        thread.join(120)
    (report,) = reports
    assert {error.code for error in report.errors} <= {"commit-lost", "commit-conflict"}
    assert report.errors
    orders.run()
    assert orders.run() == {}
    assert orders.rows("SELECT id FROM bronze.orders ORDER BY id") == [(1,), (2,), (3,), (4,)]
    assert orders.rows("SELECT id FROM silver.orders ORDER BY id") == [(1,), (3,)]
    assert orders.rows("SELECT count(*) FROM quarantine.silver_orders") == [(2,)]


def test_a_suspended_vacuum_deletes_nothing_of_a_later_run(shop: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", 0.0)
    monkeypatch.setattr(lease.Leases, "_renew", lambda *_: False)

    def watcher(place: str, _about: str) -> None:
        if place == "table.fenced":
            failpoints.watch(None)
            shop.land("orders/3.json", row(30))
            shop.run("bronze.orders")

    leave_stray(shop)
    with watched(watcher):
        report = shop.lake().vacuum(("bronze.orders",), older_than=0.0, force=True, session=shop.spark)
    assert [error.code for error in report.errors] == ["vacuum-overtaken"]
    shop.run()
    assert shop.rows("SELECT count(*) FROM bronze.orders") == [(5,)]


def test_a_restore_returns_archived_files_and_reports_missing_ones(
    orders: Written,
) -> None:
    orders.declare({"bronze/orders.yml": "source: {files: landing/orders/*.json, archive: done}\n"})
    orders.land("orders/1.json", row(1))
    orders.run("bronze.orders")
    first = newest(orders, "bronze.orders")
    orders.land("orders/2.json", row(2))
    orders.run("bronze.orders")
    archived = next(orders.folder.rglob("done/**/2.json"))
    archived_bytes = archived.read_bytes()
    archived.unlink()
    report = orders.lake().restore("bronze.orders", first)
    assert [error.code for error in report.errors] == ["restore-loses-files"]
    archived.write_bytes(archived_bytes)
    another = orders.land("orders/2.json", row(3))
    report = orders.lake().restore("bronze.orders", first)
    assert [error.code for error in report.errors] == ["restore-blocked"]
    another.unlink()
    only(orders.lake().restore("bronze.orders", first))
    assert orders.rows("SELECT id FROM bronze.orders") == [(1,)]
    orders.run("bronze.orders")
    assert orders.rows("SELECT id FROM bronze.orders ORDER BY id") == [(1,), (2,)]


def test_a_discard_does_not_hide_a_changed_query(orders: Written) -> None:
    orders.land("orders/1.json", row(1), row(2, -1))
    orders.run()
    text = (orders.folder / "silver/orders.sql").read_text()
    orders.declare({"silver/orders.sql": text.replace("amount, day", "amount + 1 AS amount, day")})
    assert not orders.lake().discard("silver.orders", QuarantineFilter(), why="wrong", session=orders.spark).errors
    orders.run()
    assert orders.rows("SELECT id, amount FROM silver.orders ORDER BY id") == [(1, 2), (2, 0)]
