"""Lakes on Spark Connect: the session is in another process, which may be on another machine."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from tests.run.lakes import ORDERS, Written
from tests.servers.connect import ConnectServer, start_connect
from tests.servers.maven import stop

from lakesmith.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.servers]

SHOP = Path(__file__).parents[2] / "examples" / "shop"
CLIENT = """
import json, shutil, sys
from pathlib import Path
from lakesmith.lake import Lake

folder = Path(sys.argv[1])
for day in sorted(Path(folder, "days").iterdir()):
    shutil.copytree(day, folder / "landing", dirs_exist_ok=True)
    report = Lake.open(folder).run()
    assert not report.errors, report.errors
    print(json.dumps({step.table: [step.mode, step.rows_in, step.rows_written] for step in report.steps}))
"""
"""Runs a lake once a day. In a process of its own, because the tests' process has a local Spark."""
JOINED = """/* lakesmith
load: {merge: {key: country}}
*/
SELECT c.country, count(*) AS orders, sum(o.amount) AS sales
FROM silver.orders AS o JOIN silver.customers AS c ON c.customer_id = o.customer_id
GROUP BY c.country
"""
"""Two inputs, and keys that changes of either touch."""


def declare(folder: Path, connect: ConnectServer) -> None:
    environment = {"warehouse": ".lakesmith/warehouse", "spark": {"remote": connect.remote}}
    (folder / "lakesmith.yml").write_text(yaml.safe_dump({"name": "far", "environments": {"dev": environment}}))


def run_days(folder: Path) -> list[dict[str, list[object]]]:
    """Return mode, rows in and rows written of each table, by day."""
    ended = subprocess.run([sys.executable, "-c", CLIENT, str(folder)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_an_incremental_build_reads_the_changed_rows_only(
    tmp_path: Path, connect: ConnectServer, spark: SparkSession
) -> None:
    shop = Written(tmp_path, spark)
    shop.declare(ORDERS)
    declare(tmp_path, connect)
    order = {"id": 1, "amount": 5, "day": "d1", "at": 1}
    shop.land("../days/1/orders/1.json", {**order}, {**order, "id": 2})
    shop.land("../days/2/orders/2.json", {**order, "id": 2, "amount": 8, "at": 2}, {**order, "id": 3, "amount": -1})
    (_, day) = run_days(tmp_path)
    assert day["silver.orders"] == ["changes", 2, 1]
    assert shop.rows("SELECT id, amount FROM silver.orders ORDER BY id") == [(1, 5), (2, 8)]
    assert shop.rows("SELECT day, orders, amount FROM gold.sales") == [("d1", 2, 13)]


@pytest.mark.verify
def test_the_shop_is_what_a_local_spark_makes_of_it(
    tmp_path: Path, connect: ConnectServer, spark: SparkSession
) -> None:
    write_day = runpy.run_path(str(SHOP / "data.py"))["write_day"]
    near, far = (Written(tmp_path / name, spark) for name in ("near", "far"))
    for shop in (near, far):
        shutil.copytree(SHOP, shop.folder, ignore=shutil.ignore_patterns("__pycache__", ".lakesmith", "landing"))
        shop.declare({"gold/countries.sql": JOINED})
    declare(far.folder, connect)
    here = []
    for day in (1, 2):
        write_day(far.folder / "days" / str(day), day)
        write_day(near.folder / "landing", day)
        here.append({name: [s.mode, s.rows_in, s.rows_written] for name, s in near.run().items()})
    assert run_days(far.folder) == here
    for table in map(str, Lake.open(near.folder).tables):
        columns = (
            "* EXCLUDE (_ingested_at, _run_id, _source_file, _source_modified)" if table.startswith("bronze") else "*"
        )
        rows = [sorted(map(str, shop.rows(f"SELECT {columns} FROM {table}"))) for shop in (near, far)]
        assert rows[0] == rows[1], table


@pytest.mark.verify
def test_a_server_with_another_log_store_is_refused(tmp_path: Path) -> None:
    server, process = start_connect(tmp_path, **{"spark.delta.logStore.file.impl": "io.delta.storage.HDFSLogStore"})
    try:
        declare(tmp_path, server)
        (tmp_path / "days" / "1").mkdir(parents=True)
        Written(tmp_path, None).declare({"silver/one.sql": "SELECT 1 AS id\n"})  # type: ignore[arg-type]
        with pytest.raises(AssertionError, match="the server of Spark Connect commits without Lakesmith's log store"):
            run_days(tmp_path)
    finally:
        stop(process)
