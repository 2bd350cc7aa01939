"""Somebody rolls a table back by Spark, without asking for its lease, while a run is about to add to it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.faults.lakes import assert_typed
from tests.faults.test_rivals import LAKE, land, row
from tests.run.lakes import Written

from lakesmith import failpoints
from lakesmith.ports import Write
from lakesmith.spark.session import isolated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

TABLES = ("bronze.clicks", "bronze.paid", "silver.copy", "silver.orders")
PLACES = ("batch.pinned", "table.committing", "table.committed")


@pytest.fixture(scope="module")
def two_days(shared_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake after two runs, to be copied."""
    lake = Written(tmp_path_factory.mktemp("restored") / "shop", isolated(shared_spark))
    lake.declare(LAKE)
    for number in (1, 2):
        land(lake, str(number), row(number), row(10 + number, -1))
        lake.run()
    return lake.folder


@pytest.mark.parametrize("place", PLACES)
def test_rows_that_a_rollback_took_out_beneath_a_run_are_read_again(
    two_days: Path, tmp_path: Path, spark: SparkSession, place: str
) -> None:
    lake = Written(shutil.copytree(two_days, tmp_path / "shop"), spark)
    land(lake, "3", row(3), row(13, -1))
    beside = isolated(spark)
    left = set(TABLES)

    def rolled_back(reached: str, about: str) -> None:
        table = next((each for each in left if about == each), None)
        if reached == place and table is not None:
            left.remove(table)
            folder = lake.folder / ".lakesmith/warehouse" / table.replace(".", "/")
            # To the version that the first batch made.
            beside.sql(f"RESTORE TABLE delta.`{folder}` TO VERSION AS OF 0")

    failpoints.watch(rolled_back)
    try:
        lake.run(ok=False)
    finally:
        failpoints.watch(None)
    assert left == set()
    codes = {error.code for error in lake.reports[-1].errors}
    assert codes <= {"commit-conflict", "commit-lost"}, lake.reports[-1].errors
    lake.run()
    assert lake.run() == {}
    assert_all_there(lake)


def test_a_rollback_in_the_moment_before_spark_commits_is_told_with_the_way_out(
    two_days: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Written(shutil.copytree(two_days, tmp_path / "shop"), spark)
    land(lake, "3", row(3), row(13, -1))
    folder = lake.folder / ".lakesmith/warehouse/silver/orders"

    def too_early(table: object, write: Write) -> None:
        if write.flow == "lakesmith.silver.orders" and write.since is not None:
            isolated(spark).sql(f"RESTORE TABLE delta.`{folder}` TO VERSION AS OF 0")

    with monkeypatch.context() as patched:
        patched.setattr("lakesmith.formats.delta.rows.check_ground", too_early)
        lake.run(ok=False)
    [error] = lake.reports[-1].errors
    assert_typed(error, "committed-on-rollback")
    [version] = re.findall(r"restore TABLE --to (\d+)", error.hint or "")
    assert not lake.lake().restore("silver.orders", int(version), session=spark).errors
    lake.run()
    assert lake.run() == {}
    assert_all_there(lake)


def assert_all_there(lake: Written) -> None:
    good = [(1,), (2,), (3,)]
    assert lake.rows("SELECT id FROM bronze.clicks ORDER BY id") == [*good, (11,), (12,), (13,)]
    for table in TABLES[1:]:
        assert lake.rows(f"SELECT id FROM {table} ORDER BY id") == good, table
        assert lake.rows(f"SELECT count(*) FROM quarantine.{table.replace('.', '_')}") == [(3,)], table
