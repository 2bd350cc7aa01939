"""Full, read-only or failing disks: the error helps, tables stay unchanged, and a rerun is correct."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.faults.disks import Disk, disk_at
from tests.faults.lakes import (
    assert_right_after_a_rerun,
    assert_typed,
    content,
    failing,
    land_second_day,
    run_first_day,
    warehouse,
)
from tests.run.lakes import Written
from tests.servers.fetch import strace

from lakesmith import failpoints
from lakesmith.errors import InfrastructureError
from lakesmith.spark import batch_counts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
mounts = pytest.mark.mounts


@pytest.fixture(scope="module")
def first_day(shared_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = Written(tmp_path_factory.mktemp("first") / "shop", shared_spark)
    run_first_day(lake)
    return lake.folder


@pytest.fixture
def lake(first_day: Path, tmp_path: Path, spark: SparkSession) -> Iterator[Written]:
    """A lake on its second day."""
    lake = Written(tmp_path / "shop", spark)
    shutil.copytree(first_day, lake.folder)
    land_second_day(lake)
    yield lake
    failpoints.watch(None)


@pytest.fixture
def disk(lake: Written) -> Iterator[Disk]:
    """The disk of its warehouse."""
    with disk_at(warehouse(lake)) as disk:
        yield disk


def when(place: str, about: str, act: Callable[[], None]) -> None:
    """Act once when a run reaches the failpoint."""

    def watcher(reached: str, of: str) -> None:
        if (reached, of) == (place, about):
            failpoints.watch(None)
            act()

    failpoints.watch(watcher)


def codes(lake: Written) -> list[str]:
    """Return the codes of a failing run."""
    return [error.code for error in failing(lake).errors]


@mounts
def test_a_disk_that_fills_up_during_writes_loses_nothing(lake: Written, disk: Disk) -> None:
    written_by = [
        ("batch.pinned", "bronze.orders", "disk-full"),  # a worker of Python
        ("table.committed", "bronze.orders", "commit-unknown"),  # Spark, the rejected rows
        ("table.committing", "silver.orders", "disk-full"),  # Spark, a merge
        ("table.committing", "gold.sales", "disk-full"),  # Spark, partitions
    ]
    for place, table, code in written_by:
        before = content(lake)
        when(place, table, disk.fill)
        report = failing(lake)
        assert [(error.code, error.table) for error in report.errors] == [(code, table), ("ledger-write-failed", None)]
        assert "disk is full" in report.errors[0].what
        disk.free()
        if place == "table.committing":
            assert content(lake)[table] == before[table]
    assert_right_after_a_rerun(lake)


LOGS = [
    ("bronze/orders", "bronze.orders", "disk-full"),  # by delta-rs
    ("silver/orders", "silver.orders", "disk-full"),  # by the log store of Java
    ("quarantine/silver/orders", "silver.orders", "commit-unknown"),  # by Delta's writer
    ("gold/sales", "gold.sales", "disk-full"),  # by Lakesmith itself
]


@mounts
@pytest.mark.parametrize("few", [False, True], ids=["by Spark", "few"])
def test_a_full_disk_of_a_log_leaves_the_table_unchanged(
    lake: Written, monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    if not few:
        monkeypatch.setattr(batch_counts, "FEW_ROWS", -1)
    for table, stopped, code in LOGS:
        log = warehouse(lake) / table / "_delta_log"
        before = sorted(os.listdir(log))
        with disk_at(log, "256k") as disk:
            disk.fill()
            [error] = failing(lake).errors
            assert (error.table, error.code) == (stopped, "disk-full" if few else code)
            assert "disk is full" in error.what
            disk.free()
            assert sorted(os.listdir(log)) == before
    assert_right_after_a_rerun(lake)


@mounts
@pytest.mark.verify
def test_a_full_disk_of_batch_records_loses_no_batch(lake: Written, disk: Disk) -> None:
    before = content(lake)
    disk.fill()
    with pytest.raises(InfrastructureError) as caught:
        lake.lake().run(session=lake.spark)
    assert_typed(caught.value, "disk-full")
    assert content(lake) == before
    disk.free()
    for place, table in (
        ("lease.taken", "bronze.orders"),  # the inputs of the batch
        ("batch.finishing", "bronze.orders"),  # its completion record
        ("lease.taken", "silver.orders"),
        ("batch.finishing", "silver.orders"),
    ):
        when(place, table, disk.fill)
        assert codes(lake) == ["disk-full", "ledger-write-failed"]
        disk.free()
    assert_right_after_a_rerun(lake)


@mounts
def test_a_ledger_that_cannot_be_written_hides_neither_results_nor_errors(lake: Written, disk: Disk) -> None:
    when("ledger.recording", "", disk.fill)
    report = failing(lake)
    assert [step.outcome for step in report.steps] == ["ok", "ok", "ok"]
    assert [error.code for error in report.errors] == ["ledger-write-failed"]
    disk.free()
    assert_right_after_a_rerun(lake)


@mounts
def test_a_read_only_warehouse_is_readable_and_stays_unchanged(lake: Written, disk: Disk) -> None:
    before = content(lake)
    disk.lock()
    with pytest.raises(InfrastructureError) as caught:
        lake.lake().run(session=lake.spark)
    assert_typed(caught.value, "storage-write")
    assert len(list(lake.lake().plan().steps)) == 3
    assert content(lake) == before
    disk.unlock()
    for place, table in (("batch.pinned", "bronze.orders"), ("table.committed", "silver.orders")):
        when(place, table, disk.lock)
        assert codes(lake) in (["storage-write", "ledger-write-failed"], ["commit-unknown", "ledger-write-failed"])
        disk.unlock()
    assert_right_after_a_rerun(lake)


def test_a_read_error_of_the_disk_names_the_file(lake: Written, tmp_path: Path) -> None:
    [data] = sorted((warehouse(lake) / "bronze/orders").glob("*.parquet"))
    log = warehouse(lake) / "bronze/orders/_delta_log/00000000000000000000.json"
    batch = warehouse(lake) / "_lakesmith/batches/bronze.orders/00000001.01.json"
    before = content(lake)
    for file, words in (
        (data, ["query", "SELECT * FROM bronze.orders"]),
        (log, ["query", "SELECT * FROM bronze.orders"]),
        (batch, ["plan"]),
    ):
        code, output = _with_read_errors(lake, file, tmp_path, *words)
        assert (code, "disk-failed" in output, file.name in output) == (4, True, True), output
        assert "Traceback" not in output
    assert content(lake) == before


@pytest.mark.verify
def test_a_run_with_a_read_error_changes_nothing_and_the_next_one_is_correct(lake: Written, tmp_path: Path) -> None:
    lake.run("bronze.orders")
    data = sorted((warehouse(lake) / "bronze/orders").glob("*.parquet"), key=os.path.getmtime)[-1]
    before = content(lake)
    code, output = _with_read_errors(lake, data, tmp_path, "run")
    assert (code, "disk-failed" in output, data.name in output) == (4, True, True), output
    assert "Traceback" not in output
    assert content(lake) == before
    assert_right_after_a_rerun(lake)


def _with_read_errors(lake: Written, file: Path, folder: Path, *words: str) -> tuple[int, str]:
    """Run a command whose reads of one file all fail; return its exit code and output."""
    calls = "read,pread64,preadv,readv"
    command = [str(strace()), "-f", "--seccomp-bpf", "-o", "/dev/null", "-P", str(file)]
    command += ["-e", f"trace={calls}", "-e", f"inject={calls}:error=EIO", sys.executable, "-m", "lakesmith"]
    answer = subprocess.run([*command, *words, "-C", str(lake.folder)], capture_output=True, text=True, check=False)
    return answer.returncode, answer.stdout + answer.stderr
