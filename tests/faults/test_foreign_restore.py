"""Spark restores a table without its lease while a run is about to add to it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.faults.lakes import assert_typed
from tests.faults.test_concurrent_runs import LAKE, land, row
from tests.run.lakes import Cut, Written

from lakesmith import failpoints
from lakesmith.jvm.session import isolated
from lakesmith.ports import Write
from lakesmith.spark import batch_counts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.verify, pytest.mark.timeout(900)]

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
def test_rows_that_a_restore_removed_during_a_run_are_read_again(
    two_days: Path, tmp_path: Path, spark: SparkSession, place: str
) -> None:
    lake = Written(shutil.copytree(two_days, tmp_path / "shop"), spark)
    land(lake, "3", row(3), row(13, -1))
    beside = isolated(spark)
    left = set(TABLES)

    def rolled_back(reached: str, about: str) -> None:
        if reached == place and about in left:
            left.remove(about)
            folder = lake.folder / ".lakesmith/warehouse" / about.replace(".", "/")
            # To the version of the first batch.
            beside.sql(f"RESTORE TABLE delta.`{folder}` TO VERSION AS OF 0")

    failpoints.watch(rolled_back)
    try:
        lake.run(ok=False)
    finally:
        failpoints.watch(None)
    assert left == set()
    rejected = dict.fromkeys(TABLES, "commit-conflict") if place != "table.committed" else {}
    assert {error.table: error.code for error in lake.reports[-1].errors} == rejected
    lake.run()
    assert lake.run() == {}
    assert_no_row_lost(lake)


@pytest.mark.parametrize("cut", [False, True])
def test_a_restore_just_before_a_commit_of_spark_is_reported_with_a_next_step(
    two_days: Path, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, cut: bool
) -> None:
    lake = Written(shutil.copytree(two_days, tmp_path / "shop"), spark)
    land(lake, "3", row(3), row(13, -1))
    folder = lake.folder / ".lakesmith/warehouse/silver/orders"
    rolled_back: list[object] = []

    def check_before_restore(table: object, location: str, write: Write) -> None:
        if write.flow == "lakesmith.silver.orders" and not rolled_back:
            rolled_back.append(isolated(spark).sql(f"RESTORE TABLE delta.`{folder}` TO VERSION AS OF 0"))

    def killed(place: str, about: str) -> None:
        if (place, about) == ("table.committed", "silver.orders"):
            raise Cut

    monkeypatch.setattr(batch_counts, "FEW_ROWS", -1)
    monkeypatch.setattr("lakesmith.formats.delta.spark_writes.refuse_if_rolled_back", check_before_restore)
    if cut:
        failpoints.watch(killed)
        try:
            with pytest.raises(Cut):
                lake.run()
        finally:
            failpoints.watch(None)
    for _ in range(2):  # another run is not enough, and changes nothing
        lake.run(ok=False)
        [error] = lake.reports[-1].errors
        assert_typed(error, "committed-on-rollback")
    assert rolled_back
    [version] = re.findall(r"restore silver.orders --to (\d+)", error.hint or "")
    assert not lake.lake().restore("silver.orders", int(version), session=spark).errors
    lake.run()
    assert lake.run() == {}
    assert_no_row_lost(lake)


def test_a_vacuum_does_not_hide_a_restore(two_days: Path, tmp_path: Path, spark: SparkSession) -> None:
    lake = Written(shutil.copytree(two_days, tmp_path / "shop"), spark)
    land(lake, "3", row(3), row(13, -1))
    lake.run()
    folder = lake.folder / ".lakesmith/warehouse/silver/orders"
    (folder / "part-unused.parquet").touch()  # without it, the vacuum has nothing to do
    rolled_back: list[object] = []

    def restored(place: str, _: str) -> None:
        if place == "batch.pinned":
            rolled_back.append(isolated(spark).sql(f"RESTORE TABLE delta.`{folder}` TO VERSION AS OF 0"))

    failpoints.watch(restored)
    try:
        report = lake.lake().vacuum(("silver.orders",), older_than=0.0, force=True, session=spark)
    finally:
        failpoints.watch(None)
    assert rolled_back
    assert [error.code for error in report.errors] == ["commit-conflict"]
    lake.run()
    assert lake.run() == {}
    assert_no_row_lost(lake)


def assert_no_row_lost(lake: Written) -> None:
    good = [(1,), (2,), (3,)]
    assert lake.rows("SELECT id FROM bronze.clicks ORDER BY id") == [*good, (11,), (12,), (13,)]
    for table in TABLES[1:]:
        assert lake.rows(f"SELECT id FROM {table} ORDER BY id") == good, table
        assert lake.rows(f"SELECT count(*) FROM quarantine.{table.replace('.', '_')}") == [(3,)], table
