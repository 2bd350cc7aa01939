"""A run that is interrupted anywhere loses and duplicates nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.marks import chosen_only
from tests.run.lakes import ORDERS, Cut, Written

from lakesmith.declare import TableName
from lakesmith.ledger.batches import Batches
from lakesmith.reports import Version
from lakesmith.spark.write import BatchWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def row(id: int, amount: object = 1, at: int = 1) -> dict[str, object]:
    return {"id": id, "amount": amount, "day": "d", "at": at}


CUTS = {
    "after the batch was pinned": (Batches, "pin", "after"),
    "before the commit": (BatchWriter, "_commit", "before"),
    "after the quarantine": (BatchWriter, "_reconcile", "before"),
    "before the batch is noted as done": (Batches, "finish", "before"),
    "after the batch is noted as done": (Batches, "finish", "after"),
}


@pytest.fixture(scope="module")
def first_day(shared_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake after its first run. Tests copy it, because a lake can be moved."""
    lake = Written(tmp_path_factory.mktemp("first") / "shop", shared_spark)
    lake.declare({"lakesmith.yml": "name: shop\n", **ORDERS})
    lake.land("orders/1.json", row(1, 1), row(2, 2), row(3, -1), '{"id": 4, "am')
    lake.run()
    return lake.folder


@pytest.mark.parametrize(
    ("table", "cut"),
    chosen_only(
        [
            *(("bronze.orders", cut) for cut in CUTS),
            *(("silver.orders", cut) for cut in CUTS if not cut.startswith("after the batch")),
            ("gold.sales", "before the batch is noted as done"),
        ],
        ("bronze.orders", "before the commit"),
        ("bronze.orders", "after the quarantine"),
        ("silver.orders", "before the batch is noted as done"),
    ),
)
def test_after_an_interruption_and_a_rerun_every_row_is_in_one_place_once(
    orders: Written, first_day: Path, monkeypatch: pytest.MonkeyPatch, cut: str, table: str
) -> None:
    owner, method, when = CUTS[cut]
    shutil.copytree(first_day, orders.folder, dirs_exist_ok=True)
    orders.land("orders/2.json", row(1, 10, at=2), row(5, 5), row(6, -6), '{"id": 7, "am', row(5, 5))
    original = getattr(owner, method)

    def interrupted(self: object, *rest: object) -> object:
        if table not in _tables_in(self, rest):
            return original(self, *rest)
        if when == "before":
            raise Cut
        original(self, *rest)
        raise Cut

    monkeypatch.setattr(owner, method, interrupted)
    with pytest.raises(Cut):
        orders.run()
    monkeypatch.undo()
    orders.run()
    assert orders.run() == {}
    assert orders.rows("SELECT id FROM bronze.orders ORDER BY id") == [(i,) for i in (1, 1, 2, 3, 5, 5, 6)]
    assert orders.rows("SELECT count(*) FROM quarantine.bronze_orders") == [(2,)]
    assert orders.rows("SELECT id, amount FROM silver.orders ORDER BY id") == [(1, 10), (2, 2), (5, 5)]
    assert sorted(orders.rows("SELECT raw LIKE '%-6%', batch FROM quarantine.silver_orders")) == [
        (False, 1),
        (True, 2),
    ]
    assert orders.rows("SELECT orders, amount FROM gold.sales") == [(3, 17)]


def _tables_in(owner: object, arguments: tuple[object, ...]) -> set[str]:
    """Return the table of a call, from any argument."""
    held = [getattr(owner, "_table", None)]
    held += [getattr(getattr(argument, "table", None), "name", None) for argument in arguments]
    return {str(name) for name in held if isinstance(name, TableName)}


def test_a_rollback_to_a_time_and_a_rerun_lose_nothing(orders: Written, spark: SparkSession) -> None:
    for number in (1, 2):
        orders.land(f"orders/{number}.json", row(number, number))
        orders.run("bronze.orders")
    first = orders.lake().history("bronze.orders")[-1]
    assert isinstance(first, Version)
    when = f"{first.committed_at + timedelta(milliseconds=100):%Y-%m-%d %H:%M:%S.%f}"
    spark.sql(
        f"RESTORE delta.`{orders.folder}/.lakesmith/warehouse/bronze/orders` TO TIMESTAMP AS OF '{when}'"
    ).collect()
    assert orders.run("bronze.orders")["bronze.orders"].rows_written == 1
    assert orders.rows("SELECT id FROM bronze.orders ORDER BY id") == [(1,), (2,)]


def test_a_dropped_table_is_rebuilt_with_every_row_once(orders: Written) -> None:
    orders.land("orders/1.json", row(1), row(9, -1))
    orders.run()
    warehouse = orders.folder / ".lakesmith/warehouse"
    shutil.rmtree(warehouse / "bronze/orders")
    shutil.rmtree(warehouse / "silver/orders")
    orders.land("orders/2.json", row(2))
    orders.run()
    orders.land("orders/3.json", row(3), row(8, -1))
    orders.run()
    assert orders.run() == {}
    assert orders.rows("SELECT id FROM bronze.orders ORDER BY id") == [(1,), (2,), (3,), (8,), (9,)]
    assert orders.rows("SELECT id FROM silver.orders ORDER BY id") == [(1,), (2,), (3,)]
    assert orders.rows("SELECT count(*) FROM quarantine.silver_orders") == [(2,)]
    assert orders.rows("SELECT orders FROM gold.sales") == [(3,)]


@pytest.mark.verify
def test_the_next_run_completes_a_killed_run(orders: Written) -> None:
    orders.land("orders/1.json", *(row(number, number) for number in range(50)))
    code = f"from lakesmith.lake import Lake; Lake.open({str(orders.folder)!r}).run()"
    process = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    pinned = orders.folder / ".lakesmith/warehouse/_lakesmith/batches/silver.orders"
    deadline = time.monotonic() + 120
    while not pinned.is_dir() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert pinned.is_dir()
    orders.run()
    assert orders.run() == {}
    assert orders.rows("SELECT count(*), sum(id) FROM bronze.orders") == [(50, 1225)]
    assert orders.rows("SELECT count(*), sum(amount) FROM silver.orders") == [(50, 1225)]
    assert orders.rows("SELECT orders, amount FROM gold.sales") == [(50, 1225)]


def test_manually_changed_rows_of_an_append_only_input_are_not_duplicated_downstream(
    orders: Written, spark: SparkSession
) -> None:
    orders.declare({"silver/log.sql": "/* lakesmith\nload: append\n*/\nSELECT id, amount FROM bronze.orders\n"})
    orders.land("orders/1.json", row(1, 1), row(2, 2))
    orders.run()
    spark.sql(f"UPDATE delta.`{orders.folder}/.lakesmith/warehouse/bronze/orders` SET amount = 7 WHERE id = 1")
    assert orders.run()["silver.log"].mode == "full"
    assert orders.rows("SELECT id, amount FROM silver.log ORDER BY id") == [(1, 7), (2, 2)]


def test_manually_deleted_rows_of_an_input_are_deleted_downstream(orders: Written, spark: SparkSession) -> None:
    orders.land("orders/1.json", row(1, 1), row(2, 2))
    orders.run()
    spark.sql(f"DELETE FROM delta.`{orders.folder}/.lakesmith/warehouse/bronze/orders` WHERE id = 1")
    steps = orders.run()
    assert steps["silver.orders"].mode == "full"
    assert "DELETE" in steps["silver.orders"].reason
    assert orders.rows("SELECT id FROM silver.orders") == [(2,)]
    assert orders.rows("SELECT orders FROM gold.sales") == [(1,)]
