"""A process of Spark's that reads files is killed, as a machine without memory does it, or is given too little."""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from tests.faults.lakes import assert_typed
from tests.plan.lakes import made
from tests.run.lakes import Written

from lakesmith.run.failures import translate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 400_000
WIDE = 200 << 20
SPARE = 50 << 20


def test_what_spark_says_of_a_worker_that_died_is_reported_with_a_next_step() -> None:
    for said in (
        "Job aborted due to stage failure: Python worker exited unexpectedly (crashed).",
        "An exception was thrown from the Python worker.\nMemoryError",
    ):
        error = translate(PySparkException(said), made("gold.sales", "SELECT 1 FROM silver.orders"))
        assert_typed(error, "worker-died")
        assert error.hint
        assert "max_bytes" in error.hint


@pytest.mark.spark
def test_a_reader_that_is_killed_for_its_memory_costs_nothing_but_a_rerun(tmp_path: Path, spark: SparkSession) -> None:
    lake = Written(tmp_path / "shop", spark)
    lake.declare({"lakesmith.yml": "name: shop\n", "bronze/orders.yml": "source: {files: landing/*.json}\n"})
    lake.land("0.json", {"id": -1, "text": ""})
    lake.run()
    file = lake.folder / "landing/1.json"
    with file.open("w") as lines:
        lines.writelines(f'{{"id": {number}, "text": "{"x" * 60}"}}\n' for number in range(ROWS))
    killed, ended = threading.Event(), threading.Event()

    def kill() -> None:
        while not ended.is_set():
            for process in _readers(file):
                os.kill(process, signal.SIGKILL)
                killed.set()
                return

    hunter = threading.Thread(target=kill)
    hunter.start()
    try:
        lake.run(ok=False)
    finally:
        ended.set()
        hunter.join()
    assert killed.is_set()
    [error] = lake.reports[-1].errors
    assert_typed(error, "worker-died")
    assert lake.rows("SELECT count(*) FROM bronze.orders") == [(1,)]
    step = lake.run()["bronze.orders"]
    assert (step.rows_in, step.rows_written) == (ROWS, ROWS)
    assert lake.rows("SELECT count(*), count(DISTINCT id) FROM bronze.orders") == [(ROWS + 1, ROWS + 1)]
    assert lake.run() == {}


@pytest.mark.spark
def test_a_reader_under_a_limit_of_memory_blames_no_file(tmp_path: Path, spark: SparkSession) -> None:
    lake = Written(tmp_path / "shop", spark)
    source = "source: {files: landing/*.parquet, format: parquet}\n"
    lake.declare({"lakesmith.yml": "name: shop\n", "bronze/notes.yml": source})
    (lake.folder / "landing").mkdir()
    _land_text(lake.folder / "landing/0.parquet", 10)
    _end_workers()  # those of other tests may have more memory than they use
    lake.run()
    _land_text(lake.folder / "landing/1.parquet", WIDE)
    with _limited_workers():
        lake.run(ok=False)
    [error] = lake.reports[-1].errors
    assert_typed(error, "worker-died")
    assert lake.rows("SELECT length(text) FROM bronze.notes") == [(10,)]
    step = lake.run()["bronze.notes"]
    assert (step.rows_in, step.rows_written) == (1, 1)
    assert lake.rows("SELECT length(text) FROM bronze.notes ORDER BY 1") == [(10,), (WIDE,)]


def _land_text(file: Path, width: int) -> None:
    pq.write_table(pa.table({"text": ["x" * width]}), file)


@contextmanager
def _limited_workers() -> Iterator[None]:
    """Give Spark's Python workers hardly more memory than they have, as `spark.executor.pyspark.memory` does it."""
    # Drivers that were attached to this Spark have left daemons without workers.
    daemons = {daemon: found for daemon in _processes(b"pyspark.daemon", os.getpid()) if (found := _children(daemon))}
    assert daemons
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    for daemon, workers in daemons.items():
        limit = max(map(_mapped, workers)) + SPARE
        for process in (daemon, *workers):  # those that are forked inherit it
            resource.prlimit(process, resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        for daemon in daemons:
            resource.prlimit(daemon, resource.RLIMIT_AS, (soft, hard))
        _end_workers()


def _end_workers() -> None:
    for daemon in _processes(b"pyspark.daemon", os.getpid()):
        for worker in _children(daemon):
            os.kill(worker, signal.SIGKILL)


def _processes(word: bytes, below: int) -> list[int]:
    """The topmost processes below one whose command has the word."""
    found = []
    for child in _children(below):
        if word in Path(f"/proc/{child}/cmdline").read_bytes():
            found.append(child)
        else:
            found += _processes(word, child)
    return found


def _children(process: int) -> list[int]:
    lists = Path(f"/proc/{process}/task").glob("*/children")
    return [int(child) for each in lists for child in each.read_text().split()]


def _mapped(process: int) -> int:
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def _readers(file: Path) -> list[int]:
    """The processes, other than this, that have the file open."""
    found = []
    for folder in Path("/proc").glob("[0-9]*/fd"):
        process = int(folder.parent.name)
        try:
            if process != os.getpid() and any(os.readlink(each) == str(file) for each in folder.iterdir()):
                found.append(process)
        except OSError:  # it has ended
            continue
    return found
