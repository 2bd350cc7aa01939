"""A release is a consistent version of all tables: it can be queried and restored."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.marks import chosen_only
from tests.run.lakes import ORDERS, Cut, Written, cut_at

from lakesmith import failpoints
from lakesmith.errors import LakesmithError, UsageError
from lakesmith.jvm.session import isolated
from lakesmith.plan.steps import QuarantineFilter, Restore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SALES = "SELECT day, orders, amount FROM gold.sales ORDER BY day"
BEHIND = "SELECT count(*) FROM silver.orders s LEFT JOIN gold.sales g USING (day) WHERE g.day IS NULL"


@pytest.fixture(scope="module")
def first_day(shared_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """A lake after its first run. Tests copy it: a lake can be moved."""
    made = Written(tmp_path_factory.mktemp("first") / "shop", isolated(shared_spark))
    made.declare({"lakesmith.yml": "name: shop\n", **ORDERS})
    land(made, 1)
    made.run()
    return made


@pytest.fixture
def lake(first_day: Written, tmp_path: Path, spark: SparkSession) -> Written:
    folder = shutil.copytree(first_day.folder, tmp_path / "shop")
    return Written(folder, spark, list(first_day.reports))


def land(lake: Written, day: int, amount: int = 10) -> None:
    lake.land(f"orders/{day}.json", {"id": day, "amount": amount, "day": f"d{day}", "at": day})


def ran(lake: Written) -> str:
    run = lake.reports[-1].run
    assert run is not None
    return run.run_id


def test_a_successful_run_is_a_release_and_one_with_an_outdated_table_is_not(lake: Written) -> None:
    first = ran(lake)
    [release] = lake.lake().releases()
    assert (release.release, release.tables) == (first, {"bronze.orders": 0, "gold.sales": 0, "silver.orders": 0})
    land(lake, 2)
    lake.run("+silver.orders")
    assert [each.release for each in lake.lake().releases()] == [first]
    lake.run()
    assert [each.release for each in lake.lake().releases()] == [ran(lake), first]
    assert [each.release for each in lake.lake().releases(limit=1)] == [ran(lake)]
    assert lake.rows(f"SELECT count(*) FROM system.releases WHERE release = '{first}'") == [(3,)]
    assert lake.run() == {}
    assert len(lake.lake().releases()) == 2


def test_maintenance_of_an_up_to_date_lake_is_a_release_and_unread_rows_prevent_one(lake: Written) -> None:
    lake.land("orders/bad.json", {"id": 7, "amount": -1, "day": "d7", "at": 7})
    land(lake, 2)
    lake.run()
    assert not lake.lake().compact(session=lake.spark).errors
    assert len(lake.lake().releases()) == 3
    set = {"amount": "abs(amount)"}
    report = lake.lake().replay(
        "silver.orders", QuarantineFilter(), set=set, why="a sign", by="test", session=lake.spark
    )
    assert not report.errors
    assert len(lake.lake().releases()) == 3
    lake.run()
    assert len(lake.lake().releases()) == 4


def test_a_query_reads_all_tables_as_they_were_in_a_release(lake: Written) -> None:
    first = ran(lake)
    land(lake, 2)
    lake.run("+silver.orders")
    opened = lake.lake()
    assert lake.rows(BEHIND) == [(1,)]
    assert list(opened.query(BEHIND, release=first).rows) == [(0,)]
    assert list(opened.query(BEHIND, release="latest").rows) == [(0,)]
    assert list(opened.query("SELECT count(*) FROM silver.orders", release=first).rows) == [(1,)]
    assert list(opened.query("SELECT count(*) FROM system.runs", release=first).rows) == [(2,)]
    for arguments, code in (
        ({"release": "never"}, "unknown-release"),
        ({"release": first, "at": ("0",)}, "conflicting-options"),
    ):
        with pytest.raises(UsageError) as rejected:
            opened.query(SALES, **arguments)
        assert rejected.value.code == code
        assert rejected.value.hint
    lake.declare({"gold/late.sql": "SELECT count(*) AS n FROM silver.orders\n"})
    lake.run()
    with pytest.raises(UsageError, match=r"does not have the current gold\.late"):
        lake.lake().query("FROM gold.late", release=first)


def test_a_lake_is_rolled_back_to_a_release_and_the_next_run_updates_it(lake: Written) -> None:
    first = ran(lake)
    before = lake.rows(SALES)
    for day in (2, 3):
        land(lake, day)
        lake.land(f"orders/bad{day}.json", {"id": 90 + day, "amount": -1, "day": "d9", "at": day})
        lake.run()
    after = lake.rows(SALES)
    plan = lake.lake().plan_rollback(first)
    assert [(str(each.table), list(map(str, each.after))) for each in plan.tables] == [
        ("bronze.orders", []),
        ("silver.orders", ["bronze.orders"]),
        ("gold.sales", ["bronze.orders", "silver.orders"]),
    ]
    report = lake.lake().rollback(first, session=lake.spark)
    assert not report.errors
    assert [step.outcome for step in report.steps] == ["ok"] * 3
    assert lake.rows(SALES) == before
    assert lake.rows("SELECT id FROM bronze.orders") == lake.rows("SELECT id FROM silver.orders") == [(1,)]
    assert lake.rows("SELECT count(*) FROM quarantine.silver_orders") == [(0,)]
    audit = lake.rows("SELECT action, reason, outcome FROM system.audit")
    assert audit == [("rollback", f"release {first}", "ok")] * 3
    assert report.run is not None
    assert [each.release for each in lake.lake().releases(limit=1)] == [report.run.run_id]
    assert list(lake.lake().query(SALES, release="latest").rows) == before
    assert lake.lake().rollback(first, session=lake.spark).run is None
    lake.run()
    modes = {step.table: step.mode for step in lake.reports[-1].steps}
    assert modes == {"bronze.orders": "files", "silver.orders": "changes", "gold.sales": "partitions"}
    assert lake.rows(SALES) == after
    assert lake.rows("SELECT count(*) FROM quarantine.silver_orders") == [(2,)]
    assert lake.run() == {}
    assert lake.lake().releases()[0].release == ran_before(lake)
    assert lake.lake().rollback("latest", session=lake.spark).run is None


def test_a_rollback_reverts_rejections_and_decisions_without_changed_rows(lake: Written) -> None:
    lake.land("orders/bad2.json", {"id": 92, "amount": -1, "day": "d9", "at": 2})
    lake.run()
    rejected = ran(lake)
    assert not lake.lake().discard("silver.orders", QuarantineFilter(), why="no", by="test", session=lake.spark).errors
    lake.land("orders/bad3.json", {"id": 93, "amount": -1, "day": "d9", "at": 3})
    lake.run()
    quarantined = "SELECT CAST(json_extract(raw, '$.id') AS INT) FROM quarantine.silver_orders ORDER BY 1"
    assert lake.rows(quarantined) == [(93,)]
    assert not lake.lake().rollback(rejected, session=lake.spark).errors
    assert lake.rows(quarantined) == [(92,)]
    assert lake.rows("SELECT count(*) FROM quarantine_decisions.silver_orders") == [(0,)]
    assert lake.lake().rollback(rejected, session=lake.spark).run is None
    lake.run()
    modes = {step.table: step.mode for step in lake.reports[-1].steps}
    assert modes == {"bronze.orders": "files", "silver.orders": "changes", "gold.sales": "partitions"}
    assert lake.rows(quarantined) == [(92,), (93,)]
    assert lake.run() == {}


def ran_before(lake: Written) -> str:
    """Return the newest run with steps."""
    return next(report.run.run_id for report in reversed(lake.reports) if report.run is not None)


def test_an_interrupted_rollback_is_completed_by_the_next_one_or_undone_by_a_run(lake: Written) -> None:
    first = ran(lake)
    before = lake.rows(SALES)
    land(lake, 2)
    lake.run()
    after = lake.rows(SALES)
    for again in (True, False):
        with cut_at("table.committed", "silver.orders"), pytest.raises(Cut):
            lake.lake().rollback(first, session=lake.spark)
        if again:
            assert not lake.lake().rollback(first, session=lake.spark).errors
            assert lake.rows(SALES) == before
        lake.run()
        lake.run()
        assert lake.rows(SALES) == after
        assert lake.rows("SELECT id FROM bronze.orders ORDER BY id") == [(1,), (2,)]
        assert lake.run() == {}


def test_no_table_is_rolled_back_if_one_cannot(lake: Written) -> None:
    lake.declare({"bronze/notes.yml": "source: {files: landing/notes/*.json}\n"})
    lake.land("notes/1.json", {"id": 1})
    lake.run()
    first = ran(lake)
    lake.land("notes/2.json", {"id": 2})
    land(lake, 2)
    lake.run()
    tables = ("bronze.orders", "bronze.notes", "silver.orders", "gold.sales")
    versions = {table: lake.version(table) for table in tables}
    (lake.folder / "landing/orders/2.json").rename(lake.folder / "kept.json")
    with pytest.raises(LakesmithError) as rejected:
        lake.lake().rollback(first, session=lake.spark)
    assert rejected.value.code == "restore-loses-files"
    assert {table: lake.version(table) for table in tables} == versions
    (lake.folder / "kept.json").rename(lake.folder / "landing/orders/2.json")
    shutil.rmtree(lake.folder / ".lakesmith/warehouse/gold/sales")
    with pytest.raises(LakesmithError) as rejected:
        lake.lake().plan_rollback(first)
    assert rejected.value.code == "released-table-dropped"
    for arguments in (first[:-1], ""):
        with pytest.raises(UsageError) as unknown:
            lake.lake().rollback(arguments, session=lake.spark)
        assert unknown.value.code == "unknown-release"
        assert first in (unknown.value.hint or "")


@pytest.mark.parametrize(
    ("behind", "stays"),
    chosen_only([("silver.orders", "gold.sales"), ("bronze.orders", "silver.orders")], ("silver.orders", "gold.sales")),
)
def test_an_unchanged_table_moves_its_bookmarks_back_and_is_not_recomputed(
    lake: Written, behind: str, stays: str
) -> None:
    first = ran(lake)
    before = lake.rows(SALES)
    land(lake, 2)
    lake.run(f"+{behind}")
    lake.lake().compact((stays,), session=lake.spark)
    plan = lake.lake().plan_rollback(first)
    assert [step.keeps_rows for step in plan.steps if isinstance(step, Restore) and str(step.table) == stays] == [True]
    with cut_at("table.committed", stays), pytest.raises(Cut):
        lake.lake().rollback(first, session=lake.spark)
    report = lake.lake().rollback(first, session=lake.spark)
    assert not report.errors
    assert report.run is not None
    assert lake.lake().releases()[0].release == report.run.run_id
    assert lake.lake().rollback(first, session=lake.spark).run is None
    assert lake.rows(SALES) == before
    steps = lake.run()
    modes = {table: (step.mode, step.rows_in) for table, step in steps.items()}
    assert modes == {"bronze.orders": ("files", 1), "silver.orders": ("changes", 1), "gold.sales": ("partitions", 1)}
    assert lake.rows(SALES) == [*before, ("d2", 1, 10)]
    assert lake.run() == {}


def test_a_held_batch_is_discarded_when_its_inputs_are_rolled_back(lake: Written) -> None:
    lake.declare(
        {
            "silver/few.sql": "/* lakesmith\nload: append\nchecks:\n  few: {expect: count(*) < 2, on_fail: fail}\n*/\n"
            "SELECT id FROM bronze.orders\n"
        }
    )
    lake.run()
    first = ran(lake)
    land(lake, 2)
    land(lake, 3)
    lake.run(ok=False)
    held = lake.reports[-1].run
    assert held is not None
    assert not lake.lake().rollback(first, session=lake.spark).errors
    with pytest.raises(LakesmithError):
        lake.lake().approve(held.run_id, reason="a busy day", by="test", session=lake.spark)
    assert lake.rows("SELECT id FROM silver.few") == [(1,)]


def test_an_interrupted_rollback_is_completed_after_a_changed_declaration(lake: Written) -> None:
    first = ran(lake)
    land(lake, 2)
    lake.run("+silver.orders")
    changed = lake.folder / "gold/sales.sql"
    changed.write_text(changed.read_text().replace("count(*)", "count(id)"))
    with cut_at("table.committed", "gold.sales"), pytest.raises(Cut):
        lake.lake().rollback(first, session=lake.spark)
    lake.run()
    assert lake.run() == {}
    assert lake.rows(SALES) == [("d1", 1, 10), ("d2", 1, 10)]


def test_a_table_written_during_a_rollback_is_rolled_back_or_reported(lake: Written) -> None:
    lake.declare({"bronze/notes.yml": "source: {files: landing/notes/*.json}\n"})
    lake.land("notes/1.json", {"id": 1})
    lake.run()
    first = ran(lake)
    land(lake, 2)
    lake.run("+silver.orders")
    lake.land("notes/2.json", {"id": 2})

    def beside(place: str, about: str) -> None:
        if (place, about) == ("table.committing", "bronze.orders"):
            failpoints.watch(None)
            lake.run("gold.sales", "bronze.notes")

    failpoints.watch(beside)
    try:
        report = lake.lake().rollback(first, session=lake.spark)
    finally:
        failpoints.watch(None)
    assert [(error.code, error.table) for error in report.errors] == [("rollback-conflict", "bronze.notes")]
    assert lake.rows("SELECT count(*) FROM gold.sales") == [(1,)]
    assert report.run is not None
    assert lake.rows(f"SELECT outcome FROM system.runs WHERE run_id = '{report.run.run_id}'") == [("failed",)]
    assert report.run.run_id not in [each.release for each in lake.lake().releases()]
    assert not lake.lake().rollback(first, session=lake.spark).errors
    assert lake.rows("SELECT count(*) FROM bronze.notes") == [(1,)]


def test_unused_or_unreadable_tables_do_not_prevent_a_release(lake: Written) -> None:
    lake.declare({"gold/sales.sql": ORDERS["gold/sales.sql"].replace("load:", "enabled: false\nload:")})
    land(lake, 2)
    lake.run()
    newest = lake.lake().releases()[0]
    assert (newest.release, sorted(newest.tables)) == (ran(lake), ["bronze.orders", "silver.orders"])
    lake.declare({**ORDERS, "silver/orders.sql": ORDERS["silver/orders.sql"].replace("load:", "enabled: false\nload:")})
    land(lake, 3)
    lake.run()
    newest = lake.lake().releases()[0]
    assert (newest.release, newest.tables) == (ran(lake), {"bronze.orders": 2, "silver.orders": 1, "gold.sales": 1})
    for file in (lake.folder / ".lakesmith/warehouse/system/releases").glob("*.parquet"):
        file.unlink()
    with pytest.raises(LakesmithError) as rejected:
        lake.lake().releases()
    assert rejected.value.code == "ledger-unreadable"
