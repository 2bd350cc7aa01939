"""Compaction and vacuum beside readers and writers: no row is lost, and readers see complete versions."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable
from tests.faults.lakes import age
from tests.run.lakes import ORDERS, Written

from lakesmith import failpoints
from lakesmith.errors import LakesmithError
from lakesmith.jvm.session import isolated
from lakesmith.lake.maintenance import WEEK
from lakesmith.spark import write

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.verify, pytest.mark.timeout(900)]

LONGEST = 60.0
"""Seconds that a merge may take before it writes its first file."""


def row(id: int, amount: int, at: int) -> dict[str, object]:
    return {"id": id, "amount": amount, "day": "d", "at": at}


@pytest.fixture(scope="module")
def three_runs(shared_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with several files in its silver table, to be copied."""
    lake = Written(tmp_path_factory.mktemp("three") / "shop", isolated(shared_spark))
    lake.declare({"lakesmith.yml": "name: shop\n", **ORDERS})
    land_each(lake, 1, 2, 3)
    return lake.folder


@pytest.fixture
def orders(three_runs: Path, tmp_path: Path, spark: SparkSession) -> Written:
    return copied(Written(three_runs, spark), tmp_path / "shop")


def copied(lake: Written, to: Path) -> Written:
    """Return a copy that Spark has not read yet."""
    shutil.copytree(lake.folder, to)
    return Written(to, lake.spark)


def land_each(lake: Written, *numbers: int) -> None:
    """Land five rows and run, for each number."""
    for number in numbers:
        lake.land(f"orders/{number}.json", *(row(number * 10 + each, each, 1) for each in range(5)))
        lake.run()


def change_first(lake: Written) -> None:
    """Land other amounts for the first rows."""
    lake.land("orders/changed.json", *(row(10 + each, 100 + each, 2) for each in range(5)))


def silver(lake: Written) -> Path:
    return lake.folder / ".lakesmith/warehouse/silver/orders"


def in_folder(lake: Written) -> set[Path]:
    while True:
        with suppress(FileNotFoundError):  # Spark has just deleted a folder
            return {path for path in silver(lake).rglob("*.parquet") if "_delta_log" not in path.parts}


def in_version(lake: Written, version: int) -> set[Path]:
    return {Path(uri.removeprefix("file://")) for uri in DeltaTable(silver(lake), version=version).file_uris()}


@dataclass
class Compaction:
    """A compaction without a lease that has written its files and has not committed."""

    commit: Path
    log: Path
    was_first: bool = False

    def commit_beneath(self, lake: Written) -> threading.Thread:
        """Commit as soon as another writer has files in the table's folder."""
        known = in_folder(lake)

        def wait() -> None:
            until = time.monotonic() + LONGEST
            while in_folder(lake) == known and time.monotonic() < until:
                time.sleep(0.001)
            with suppress(FileExistsError):
                os.link(self.commit, self.log / self.commit.name)
                self.was_first = True

        waiting = threading.Thread(target=wait)
        waiting.start()
        return waiting


def about_to_compact(orders: Written, to: Path) -> tuple[Written, Compaction]:
    """Return a copy of the lake, and an uncommitted compaction of its silver table."""
    before = orders.version("silver.orders")
    assert before is not None
    orders.spark.sql(f"OPTIMIZE delta.`{silver(orders)}`").collect()
    lake = copied(orders, to / "copy")
    log, name = silver(lake) / "_delta_log", f"{before + 1:020}"
    (log / f"{name}.crc").unlink()
    return lake, Compaction((log / f"{name}.json").rename(to / f"{name}.json"), log)


@pytest.mark.parametrize("vectors", [False, True], ids=["files are rewritten", "rows are marked"])
def test_a_merge_after_a_concurrent_compaction_is_rejected_and_the_next_run_commits_it(
    orders: Written, tmp_path: Path, vectors: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if vectors:
        monkeypatch.setattr(write, "_DV_MERGE_BYTES", 0)
        setting = "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
        orders.spark.sql(f"ALTER TABLE delta.`{silver(orders)}` {setting}").collect()
    lake, beside = about_to_compact(orders, tmp_path)
    change_first(lake)
    waiting: list[threading.Thread] = []

    def compact_during_merge(place: str, about: str) -> None:
        if (place, about) == ("table.committing", "silver.orders"):
            waiting.append(beside.commit_beneath(lake))

    failpoints.watch(compact_during_merge)
    try:
        lake.run(ok=False)
    finally:
        failpoints.watch(None)
    waiting[0].join()
    assert beside.was_first
    assert [(error.table, error.code) for error in lake.reports[-1].errors] == [("silver.orders", "commit-conflict")]
    assert lake.rows("SELECT sum(amount) FROM silver.orders") == [(30,)]
    assert lake.run()["silver.orders"].rows_written == 5
    assert lake.run() == {}
    changed = [(10 + each, 100 + each) for each in range(5)]
    unchanged = [(number * 10 + each, each) for number in (2, 3) for each in range(5)]
    assert lake.rows("SELECT id, amount FROM silver.orders ORDER BY id") == [*changed, *unchanged]
    assert lake.rows("SELECT orders, amount FROM gold.sales") == [(15, 530)]


def test_a_compaction_cannot_lease_a_table_during_a_merge(orders: Written) -> None:
    change_first(orders)
    codes: list[str] = []

    def compact_during_merge(place: str, about: str) -> None:
        if (place, about) == ("table.committing", "silver.orders"):
            report = orders.lake().compact(("silver.orders",), session=isolated(orders.spark))
            codes.extend(error.code for error in report.errors)

    failpoints.watch(compact_during_merge)
    try:
        orders.run()
    finally:
        failpoints.watch(None)
    assert codes == ["table-leased"]
    assert orders.run() == {}


def slow_reader(lake: Written, version: int) -> Iterator[Row]:
    """Return rows lazily: a file is opened when its first row is read."""
    session = isolated(lake.spark)
    # Each task opens one file.
    session.conf.set("spark.sql.files.openCostInBytes", "128m")
    session.conf.set("spark.sql.files.maxPartitionBytes", "128m")
    rows = session.read.format("delta").option("versionAsOf", version).load(str(silver(lake)))
    return rows.toLocalIterator()


def test_a_slow_reader_of_vacuumed_files_fails_instead_of_missing_rows(
    orders: Written,
) -> None:
    version = orders.version("silver.orders")
    assert version is not None
    change_first(orders)
    orders.run()
    orders.lake().compact(("silver.orders",), session=orders.spark)
    needed = in_version(orders, version)
    assert len(needed) > 2
    reading = slow_reader(orders, version)
    seen = [next(reading)]
    assert not orders.lake().vacuum(("silver.orders",), older_than=0.0, force=True, session=orders.spark).errors
    assert not needed & in_folder(orders)
    with pytest.raises(Exception, match=r"FAILED_READ_FILE|FileNotFound|does not exist"):
        seen.extend(reading)
    assert len(seen) < 15
    with pytest.raises(LakesmithError) as raised:
        orders.rows("SELECT * FROM silver.orders", f"silver.orders={version}")
    assert raised.value.code == "unknown-version"
    assert raised.value.hint
    assert len(orders.rows("SELECT * FROM silver.orders")) == 15


def test_a_slow_reader_completes_beside_a_vacuum_of_unused_files(orders: Written, tmp_path: Path) -> None:
    orders.lake().compact(("silver.orders",), session=orders.spark)
    lake = copied(orders, tmp_path / "later")
    age(silver(lake), WEEK + 3600)
    outdated = in_folder(lake)
    land_each(lake, 4, 5)
    version = lake.version("silver.orders")
    assert version is not None
    needed = in_version(lake, version)
    assert len(needed & outdated) == 1, "one of its files is older than a week, and was needed until today"
    lake.lake().compact(("silver.orders",), session=lake.spark)
    reading = slow_reader(lake, version)
    seen = [next(reading)]
    assert not lake.lake().vacuum(("silver.orders",), session=lake.spark).errors
    assert outdated - in_folder(lake) == outdated - needed
    assert outdated - needed
    seen.extend(reading)
    assert sorted(each["id"] for each in seen) == [number * 10 + each for number in range(1, 6) for each in range(5)]
