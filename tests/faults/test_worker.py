"""A process of Spark's that reads files is killed, as a machine without memory does it."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from tests.faults.lakes import assert_typed
from tests.plan.lakes import made
from tests.run.lakes import Written

from lakesmith.run.failures import translate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 400_000


def test_what_spark_says_of_a_worker_that_died_is_told_with_a_next_step() -> None:
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
