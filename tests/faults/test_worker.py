"""A Python worker of Spark is killed, as if memory ran out, or has too little memory."""

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


def test_a_dead_worker_is_reported_with_a_next_step() -> None:
    for message in (
        "Job aborted due to stage failure: Python worker exited unexpectedly (crashed).",
        "An exception was thrown from the Python worker.\nMemoryError",
    ):
        error = translate(PySparkException(message), made("gold.sales", "SELECT 1 FROM silver.orders"))
        assert_typed(error, "worker-died")
        assert error.hint
        assert "max_bytes" in error.hint


@pytest.mark.spark
def test_a_killed_reader_loses_nothing(tmp_path: Path, spark: SparkSession) -> None:
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

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        lake.run(ok=False)
    finally:
        ended.set()
        killer.join()
    assert killed.is_set()
    [error] = lake.reports[-1].errors
    assert_typed(error, "worker-died")
    assert lake.rows("SELECT count(*) FROM bronze.orders") == [(1,)]
    step = lake.run()["bronze.orders"]
    assert (step.rows_in, step.rows_written) == (ROWS, ROWS)
    assert lake.rows("SELECT count(*), count(DISTINCT id) FROM bronze.orders") == [(ROWS + 1, ROWS + 1)]
    assert lake.run() == {}


@pytest.mark.spark
def test_a_reader_without_memory_rejects_no_file(tmp_path: Path, spark: SparkSession) -> None:
    lake = Written(tmp_path / "shop", spark)
    source = "source: {files: landing/*.parquet, format: parquet}\n"
    lake.declare({"lakesmith.yml": "name: shop\n", "bronze/notes.yml": source})
    (lake.folder / "landing").mkdir()
    _land_text(lake.folder / "landing/0.parquet", 10)
    _end_workers()  # workers of other tests may have unused memory
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
    """Limit the memory of Spark's Python workers, as `spark.executor.pyspark.memory` does."""
    # Attached drivers have left daemons without workers.
    daemons = {daemon: found for daemon in _processes(b"pyspark.daemon", os.getpid()) if (found := _children(daemon))}
    assert daemons
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    for daemon, workers in daemons.items():
        limit = max(map(_mapped, workers)) + SPARE
        for process in (daemon, *workers):  # forked workers inherit it
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
    """Return the topmost processes below one whose command contains the word."""
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
    """Return the other processes that have the file open."""
    found = []
    for folder in Path("/proc").glob("[0-9]*/fd"):
        process = int(folder.parent.name)
        try:
            if process != os.getpid() and any(os.readlink(each) == str(file) for each in folder.iterdir()):
                found.append(process)
        except OSError:  # the process has ended
            continue
    return found
