"""Files are put together or deleted while others read and write: nobody loses a row, and nobody sees half a version."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.run.lakes import ORDERS, Written

from lakesmith.errors import LakesmithError
from lakesmith.reports import RunReport
from lakesmith.spark.session import isolated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SLOW = "levenshtein(repeat('a', 4000), repeat('b', 4000 + id)) > 0"


def row(id: int, amount: int, at: int) -> dict[str, object]:
    return {"id": id, "amount": amount, "day": "d", "at": at}


@pytest.fixture
def orders(tmp_path: Path, spark: SparkSession) -> Written:
    """Three files in a silver table whose rows take their time."""
    lake = Written(tmp_path / "shop", spark)
    merged = ORDERS["silver/orders.sql"].replace("FROM bronze.orders", f"FROM bronze.orders WHERE {SLOW}")
    lake.declare({"lakesmith.yml": "name: shop\n", **ORDERS, "silver/orders.sql": merged})
    for number in (1, 2, 3):
        lake.land(f"orders/{number}.json", *(row(number * 10 + each, each, 1) for each in range(5)))
        lake.run("silver.orders+", "bronze.orders")
    return lake


def silver(lake: Written) -> str:
    return f"{lake.folder}/.lakesmith/warehouse/silver/orders"


def test_a_merge_and_compactions_beside_it_lose_nothing(orders: Written) -> None:
    orders.land("orders/4.json", *(row(10 + each, 100 + each, 2) for each in range(5)), row(40, 40, 2))
    reports: list[RunReport] = []
    merging = threading.Thread(target=lambda: reports.append(orders.lake().run(jobs=1, session=isolated(orders.spark))))
    merging.start()
    compactions, codes = 0, set()
    beside = isolated(orders.spark)
    while merging.is_alive():
        # By somebody who asks for no lease, and then by Lakesmith.
        beside.sql(f"OPTIMIZE delta.`{silver(orders)}`").collect()
        codes |= {error.code for error in orders.lake().compact(("silver.orders",), session=beside).errors}
        compactions += 1
    merging.join()
    assert compactions > 1
    assert codes <= {"table-leased", "commit-conflict"}
    assert {error.code for report in reports for error in report.errors} <= {"table-leased", "commit-conflict"}
    orders.run()
    assert orders.run() == {}
    found = orders.rows("SELECT id, amount FROM silver.orders ORDER BY id")
    changed = [(10 + each, 100 + each) for each in range(5)]
    kept = [(number * 10 + each, each) for number in (2, 3) for each in range(5)]
    assert found == [*changed, *kept, (40, 40)]
    assert orders.rows("SELECT orders FROM gold.sales") == [(16,)]


def test_a_slow_reader_sees_the_whole_of_its_version_through_a_vacuum_or_is_told(orders: Written) -> None:
    version = orders.version("silver.orders")
    assert version is not None
    before = orders.rows("SELECT * FROM silver.orders ORDER BY id")
    orders.land("orders/4.json", *(row(10 + each, 100 + each, 2) for each in range(5)))
    orders.run()
    orders.lake().compact(("silver.orders",), session=orders.spark)
    reader = orders.spark.read.format("delta").option("versionAsOf", version).load(silver(orders))
    reading = reader.toLocalIterator()
    seen = 1 if next(reading) else 0
    assert not orders.lake().vacuum(("silver.orders",), session=orders.spark).errors
    assert orders.rows("SELECT * FROM silver.orders ORDER BY id", f"silver.orders={version}") == before
    assert seen + sum(1 for _ in reading) == len(before)
    assert not orders.lake().vacuum(("silver.orders",), older_than=0.0, force=True, session=orders.spark).errors
    with pytest.raises(LakesmithError) as told:
        orders.rows("SELECT * FROM silver.orders", f"silver.orders={version}")
    assert told.value.code == "unknown-version"
    assert told.value.hint
    assert len(orders.rows("SELECT * FROM silver.orders")) == 15
