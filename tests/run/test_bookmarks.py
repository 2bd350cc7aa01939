"""The pitfalls of a bookmark in the table itself."""

from __future__ import annotations

import errno
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.run.lakes import ORDERS, Cut, Written

from lakesmith.errors import LakesmithError
from lakesmith.formats import Delta
from lakesmith.formats.delta.spark_settings import FENCE
from lakesmith.jvm.session import isolated
from lakesmith.ledger.batch import Batch
from lakesmith.ledger.batches import Batches
from lakesmith.ledger.lease import Lease
from lakesmith.plan.steps import QuarantineFilter
from lakesmith.spark import batch_counts
from lakesmith.spark.incoming import IncomingBatch
from lakesmith.spark.write import BatchWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

LOG = {"silver/log.sql": "/* lakesmith\nload: append\n*/\nSELECT id, amount FROM bronze.orders\n"}
APP, VERSION = FENCE


def row(id: int, amount: object = 1, at: int = 1) -> dict[str, object]:
    return {"id": id, "amount": amount, "day": "d", "at": at}


def path(lake: Written, table: str) -> Path:
    return lake.folder / ".lakesmith/warehouse" / table.replace(".", "/")


def ids(lake: Written, table: str) -> list[object]:
    return [id for (id,) in lake.rows(f"SELECT id FROM {table} ORDER BY id")]


def rejection(lake: Written, *select: str) -> LakesmithError:
    """Return the only error of a run."""
    lake.run(*select, ok=False)
    (error,) = lake.reports[-1].errors
    return error


@contextmanager
def set_for_all(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Apply settings to all later sessions, as if Spark had been started with them."""
    conf = spark.sparkContext._jsc.sc().conf()
    for name, value in settings.items():
        conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            conf.remove(name)


def unheard(commit: Callable[..., object], lost: Exception) -> Callable[..., None]:
    """Make commits succeed and lose their replies."""

    def made(*given: object, **named: object) -> None:
        commit(*given, **named)
        raise lost

    return made


def clean_log(lake: Written, table: str) -> None:
    """Checkpoint a table, and delete the earlier commits from its log."""
    from deltalake import DeltaTable

    found = DeltaTable(str(path(lake, table)))
    found.create_checkpoint()
    for version in range(found.version()):
        (path(lake, table) / f"_delta_log/{version:020}.json").unlink()


@pytest.fixture(scope="module")
def three_days(shared_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake after three runs, each with a row that silver rejects. Tests copy it: a lake can be moved."""
    lake = Written(tmp_path_factory.mktemp("three") / "shop", isolated(shared_spark))
    lake.declare({"lakesmith.yml": "name: shop\n", **ORDERS, **LOG})
    for number in (1, 2, 3):
        lake.land(f"orders/{number}.json", row(number, number), row(10 + number, -1))
        lake.run()
    return lake.folder


@pytest.fixture(scope="module")
def bronze_ahead(shared_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake whose bronze table has two batches that silver has not read."""
    lake = Written(tmp_path_factory.mktemp("ahead") / "shop", isolated(shared_spark))
    lake.declare({"lakesmith.yml": "name: shop\n", **ORDERS})
    for number in (1, 2, 3):
        lake.land(f"orders/{number}.json", row(number))
        lake.run("bronze.orders") if number > 1 else lake.run()
    return lake.folder


def copied(made: Path, lake: Written) -> Written:
    shutil.copytree(made, lake.folder, dirs_exist_ok=True)
    return lake


def test_a_manual_rollback_and_a_rerun_lose_and_duplicate_no_row(
    written: Written, spark: SparkSession, three_days: Path
) -> None:
    orders = copied(three_days, written)

    def rejected() -> list[tuple[object, ...]]:
        return orders.rows("SELECT raw->>'$.id' FROM quarantine.silver_orders ORDER BY 1")

    for table in ("silver.orders", "silver.log"):
        spark.sql(f"RESTORE delta.`{path(orders, table)}` TO VERSION AS OF 0").collect()
    steps = orders.run()
    assert {(steps[table].mode, steps[table].rows_in) for table in ("silver.orders", "silver.log")} == {("changes", 4)}
    assert ids(orders, "bronze.orders") == ids(orders, "silver.log") == [1, 2, 3, 11, 12, 13]
    assert ids(orders, "silver.orders") == [1, 2, 3]
    assert orders.rows("SELECT orders, amount FROM gold.sales") == [(3, 6)]
    assert steps["silver.orders"].rows_quarantined == 2
    assert rejected() == [("11",), ("12",), ("13",)]

    # Rows of a batch that was rolled back are in quarantine once, also after a decision.
    spark.sql(f"RESTORE delta.`{path(orders, 'silver.orders')}` TO VERSION AS OF 0").collect()
    report = orders.lake().discard("silver.orders", QuarantineFilter(), why="wrong", session=orders.spark)
    assert [step.rows_discarded for step in report.steps] == [1]
    orders.run()
    assert rejected() == [("12",), ("13",)]
    assert ids(orders, "silver.orders") == [1, 2, 3]


def test_leftover_fence_settings_skip_no_write(orders: Written) -> None:
    leave = f"orders.sparkSession.conf.set({APP!r}, app); orders.sparkSession.conf.set({VERSION!r}, '0')"
    for name, app in (("aside", "lakesmith.silver.orders"), ("tail", "lakesmith.silver.tail")):
        orders.declare(
            {
                f"silver/{name}.py": (
                    "import lakesmith as lake\n\n\n"
                    "@lake.silver(load=lake.append(), rowwise=True)\n"
                    f"def {name}(orders=lake.ref('bronze.orders')):\n"
                    f"    app = {app!r}\n"
                    f"    {leave}\n"
                    "    return orders.select('id')\n"
                )
            }
        )
    for number in (1, 2):
        orders.land(f"orders/{number}.json", row(number), row(-number, -1))
        with set_for_all(orders.spark, {APP: "lakesmith.bronze.orders", VERSION: "0"}):
            # One thread, so that the next table gets leftover settings.
            report = orders.lake().run(jobs=1, session=orders.spark)
        assert not report.errors
        built = [step.table for step in report.steps if step.table.startswith("silver")]
        assert built == ["silver.aside", "silver.orders", "silver.tail"]
    assert ids(orders, "silver.aside") == ids(orders, "silver.tail") == [-2, -1, 1, 2]
    assert ids(orders, "silver.orders") == [1, 2]
    assert orders.rows("SELECT batch FROM quarantine.silver_orders ORDER BY batch") == [(1,), (2,)]
    assert orders.rows("SELECT orders FROM gold.sales") == [(2,)]


def test_one_of_two_runs_of_a_table_wins_and_the_other_reports_it(
    orders: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.land("orders/1.json", row(1), row(2, -1))
    orders.run()
    orders.land("orders/2.json", row(1, 10, at=2), row(3), row(4, -1))
    orders.run("bronze.orders")
    pin, pinned, go_on = Batches.pin, threading.Event(), threading.Event()

    def pin_and_wait(batches: Batches, batch: Batch) -> Batch:
        found = pin(batches, batch)
        if not pinned.is_set():
            pinned.set()
            assert go_on.wait(60)
        return found

    monkeypatch.setattr(Batches, "pin", pin_and_wait)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(orders.lake().run, ["silver.orders"], session=orders.spark)
        try:
            assert pinned.wait(60)
            leased = rejection(orders, "silver.orders")
            monkeypatch.setattr(Lease, "is_dead", lambda lease, now: True)
            orders.run("silver.orders")
        finally:
            go_on.set()
        report = slow.result()
    assert report.run
    assert (leased.code, leased.exit_code) == ("table-leased", 4)
    assert report.run.run_id in leased.what
    (lost,) = report.errors
    assert (lost.code, lost.exit_code) == ("commit-lost", 4)
    monkeypatch.undo()
    assert orders.version("silver.orders") == 1
    assert "silver.orders" not in orders.run()
    assert orders.rows("SELECT id, amount FROM silver.orders ORDER BY id") == [(1, 10), (3, 1)]
    assert orders.rows("SELECT batch FROM quarantine.silver_orders ORDER BY batch") == [(1,), (2,)]


def test_a_position_survives_a_log_cleanup(written: Written, three_days: Path) -> None:
    from deltalake import DeltaTable

    orders = copied(three_days, written)
    tables = ("bronze.orders", "silver.orders", "silver.log")
    for table in tables:
        # A foreign commit, so that the log does not start with the last batch.
        DeltaTable(str(path(orders, table))).alter.set_table_properties({"delta.checkpointInterval": "5"})
        clean_log(orders, table)
    orders.land("orders/4.json", row(4))
    steps = orders.run()
    assert {table: (steps[table].mode, steps[table].rows_in) for table in tables} == {
        "bronze.orders": ("files", 1),
        "silver.orders": ("changes", 1),
        "silver.log": ("changes", 1),
    }
    assert ids(orders, "bronze.orders") == ids(orders, "silver.log") == [1, 2, 3, 4, 11, 12, 13]
    assert ids(orders, "silver.orders") == [1, 2, 3, 4]


def test_an_input_that_was_vacuumed_past_the_bookmark_is_an_error_with_a_next_step(
    written: Written, bronze_ahead: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deltalake import DeltaTable

    orders = copied(bronze_ahead, written)
    bronze = DeltaTable(str(path(orders, "bronze.orders")))
    bronze.optimize.compact()
    bronze.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with set_for_all(orders.spark, {"spark.sql.files.ignoreMissingFiles": "true"}):
        error = rejection(orders)
    assert (error.code, error.exit_code, error.table) == ("source-vacuumed", 1, "silver.orders")
    assert error.what.startswith("bronze.orders has lost part-")
    assert "lakesmith run silver.orders --full-refresh" in str(error.hint)
    assert (orders.version("silver.orders"), ids(orders, "silver.orders")) == (0, [1])
    orders.run("silver.orders", full_refresh=True)
    orders.run()
    assert ids(orders, "silver.orders") == [1, 2, 3]

    monkeypatch.setattr(batch_counts, "FEW_ROWS", -1)  # Delta's MERGE writes change data
    orders.land("orders/4.json", row(1, 10, at=2), row(4))
    orders.run("bronze.orders", "silver.orders")
    shutil.rmtree(path(orders, "silver.orders") / "_change_data")
    error = rejection(orders)
    assert (error.code, error.table) == ("source-vacuumed", "gold.sales")
    assert error.what.startswith("silver.orders has lost cdc-")
    orders.run("gold.sales", full_refresh=True)
    assert orders.rows("SELECT orders, amount FROM gold.sales") == [(4, 13)]


def test_an_input_whose_log_was_cleaned_past_the_bookmark_is_an_error_with_a_next_step(
    written: Written, bronze_ahead: Path
) -> None:
    orders = copied(bronze_ahead, written)
    clean_log(orders, "bronze.orders")
    error = rejection(orders)
    assert (error.code, error.exit_code, error.table) == ("source-gap", 1, "silver.orders")
    assert "--full-refresh" in str(error.hint)
    assert ids(orders, "silver.orders") == [1]
    orders.run("silver.orders+", full_refresh=True)
    assert ids(orders, "silver.orders") == [1, 2, 3]


def test_a_batch_interrupted_between_table_and_quarantine_is_completed_from_its_pinned_inputs(
    orders: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.land("orders/1.json", row(1), row(10, -1), '{"id": 4, "am')
    orders.run()
    quarantine = BatchWriter._quarantine
    for number, doomed in ((2, "bronze.orders"), (3, "silver.orders")):

        def cut(
            writer: BatchWriter, incoming: IncomingBatch, checked: DataFrame, rejected: int, doomed: str = doomed
        ) -> int:
            if str(incoming.table.name) == doomed:
                raise Cut
            return quarantine(writer, incoming, checked, rejected)

        monkeypatch.setattr(BatchWriter, "_quarantine", cut)
        orders.land(f"orders/{number}.json", row(number), row(10 * number, -1), '{"id": 4, "am')
        with pytest.raises(Cut):
            orders.run()
    monkeypatch.undo()
    versions = [orders.version(table) for table in ("bronze.orders", "silver.orders")]
    orders.land("orders/4.json", row(4), row(40, -1), '{"id": 4, "am')
    orders.run()
    steps = [(step.table, step.step) for step in orders.reports[-1].steps]
    assert steps[:3] == [("bronze.orders", "ingest"), ("silver.orders", "finish"), ("silver.orders", "build")]
    assert [orders.version(table) for table in ("bronze.orders", "silver.orders")] == [n + 1 for n in versions if n]
    assert ids(orders, "bronze.orders") == [1, 2, 3, 4, 10, 20, 30, 40]
    assert ids(orders, "silver.orders") == [1, 2, 3, 4]
    assert orders.rows("SELECT count(*), count(DISTINCT position) FROM quarantine.bronze_orders") == [(4, 4)]
    quarantined = orders.rows(
        "SELECT batch, raw LIKE '%\"id\":20,%', raw LIKE '%\"id\":30,%' FROM quarantine.silver_orders"
    )
    assert sorted(quarantined) == [(1, False, False), (2, False, True), (2, True, False), (3, False, False)]


def test_a_commit_with_a_lost_reply_is_found_in_the_log_and_nothing_is_deleted(
    orders: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    from py4j.protocol import Py4JNetworkError

    orders.land("orders/1.json", row(1), row(2, -1))
    orders.run()
    orders.land("orders/2.json", row(1, 10, at=2), row(3), row(4, -1))
    for owner, method, lost, table in (
        (Delta, "add", OSError(errno.EIO, "Input/output error"), "bronze.orders"),
        (Delta, "merge", Py4JNetworkError("Answer from Java side is empty"), "silver.orders"),
    ):
        monkeypatch.setattr(owner, method, unheard(getattr(owner, method), lost))
        error = rejection(orders)
        assert (error.code, error.exit_code, error.table) == ("commit-unknown", 4, table)
        monkeypatch.undo()
        assert orders.version(table) == 1
    files = set(path(orders, "silver.orders").rglob("*.parquet"))
    orders.run()
    assert [(step.table, step.step) for step in orders.reports[-1].steps][:1] == [("silver.orders", "finish")]
    assert files <= set(path(orders, "silver.orders").rglob("*.parquet"))
    assert orders.run() == {}
    assert (orders.version("bronze.orders"), orders.version("silver.orders")) == (1, 1)
    assert ids(orders, "bronze.orders") == [1, 1, 2, 3, 4]
    assert orders.rows("SELECT id, amount FROM silver.orders ORDER BY id") == [(1, 10), (3, 1)]
    assert orders.rows("SELECT batch FROM quarantine.silver_orders ORDER BY batch") == [(1,), (2,)]
