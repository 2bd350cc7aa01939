"""`run --continuous`: repeated rounds of a run, and a clean end."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.run.lakes import Written

from lakesmith.lake import Lake
from lakesmith.reports import RunReport

pytestmark = pytest.mark.spark

JSON = {"bronze/orders.yml": "source: {files: landing/orders/*.json}\n"}


def test_each_round_ingests_new_files_until_the_end_is_requested(written: Written) -> None:
    written.declare(JSON)
    written.land("orders/a.json", {"id": 1})
    stop = threading.Event()
    rounds: list[RunReport] = []

    def on_report(report: RunReport) -> None:
        rounds.append(report)
        if len(rounds) == 1:
            written.land("orders/b.json", {"id": 2})
        if len(rounds) == 3:
            stop.set()

    written.lake().run_continuously(every=0.01, stop=stop, on_report=on_report, session=written.spark)
    assert [sum(step.rows_in for step in report.steps) for report in rounds] == [1, 1, 0]
    assert rounds[2].run is None
    assert written.rows("SELECT id FROM bronze.orders ORDER BY id") == [(1,), (2,)]


@pytest.mark.verify
def test_sigterm_completes_the_round_and_the_next_run_duplicates_nothing(tmp_path: Path) -> None:
    """Slow: a separate process with its own JVM."""
    lake = tmp_path / "shop"
    landing = lake / "landing" / "orders"
    landing.mkdir(parents=True)
    (lake / "bronze").mkdir()
    (lake / "lakesmith.yml").write_text("name: shop\n")
    (lake / "bronze" / "orders.yml").write_text(JSON["bronze/orders.yml"])
    (landing / "a.json").write_text('{"id": 1}\n')
    command = [sys.executable, "-m", "lakesmith", "--lake", str(lake), "run", "--continuous", "--every", "0.5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        _until(lake, 1)
        (landing / "b.json").write_text('{"id": 2}\n')
        _until(lake, 2)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=120)[0]
    assert process.returncode == 0, said
    assert "stopping after the current run" in said
    opened = Lake.open(lake)
    assert opened.query("SELECT id FROM bronze.orders ORDER BY id").rows == ((1,), (2,))
    assert opened.run().run is None


def _until(lake: Path, rows: int) -> None:
    """Wait until the table has this number of rows."""
    deadline = time.monotonic() + 150
    while time.monotonic() < deadline:
        (status,) = Lake.open(lake).status()
        if (status.rows or 0) >= rows:
            return
        time.sleep(0.5)
    raise AssertionError(f"there are not {rows} rows after 150 seconds")
