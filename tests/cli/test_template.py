"""The lake of `init` behaves as its README says."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakesmith.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.cli.conftest import Invoke


# PySpark leaves the socket of a worker thread to the garbage collector.
@pytest.mark.verify
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.spark
def test_the_new_lake_runs_and_rejects_the_row_that_is_invalid_on_purpose(
    invoke: Invoke, tmp_path: Path, spark: SparkSession
) -> None:
    assert invoke("init", str(tmp_path), "--name", "shop").exit_code == 0
    report = Lake.open(tmp_path).run(session=spark)
    assert report.outcome == "ok", report.errors
    lake = Lake.open(tmp_path)
    sales = lake.query("SELECT currency, orders, revenue FROM gold.daily_sales ORDER BY currency")
    assert sales.rows == (("EUR", 2, Decimal("67.40")), ("USD", 1, Decimal("250.00")))
    assert [(found.table, found.rows) for found in lake.quarantine()] == [("silver.orders", 1)]

    again = invoke("run", "--lake", str(tmp_path))
    assert (again.exit_code, again.stdout) == (0, "nothing to do: every table is up to date\n")
    rejected = invoke("query", "SELECT rules FROM quarantine.silver_orders", "--lake", str(tmp_path))
    assert "amount.check" in rejected.stdout
