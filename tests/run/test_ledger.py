"""The ledger's records of a run; a run with nothing to do records nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.run.lakes import Written

pytestmark = pytest.mark.spark


def order(id: int, amount: int) -> dict[str, object]:
    return {"id": id, "amount": amount, "day": "d", "at": 1}


def test_the_ledger_records_runs_steps_and_checks_with_matching_row_counts(orders: Written) -> None:
    orders.land("orders/1.json", order(1, 1), order(1, 1), order(2, -1))
    plan_hash = orders.lake().plan().hash
    orders.run()
    report = orders.reports[-1]
    assert report.run
    runs = orders.lake().history()
    assert [run.run_id for run in runs] == [report.run.run_id]
    assert (report.run.plan_hash, report.run.outcome, report.run.tables) == (plan_hash, "ok", 3)
    steps = {step.table: step for step in orders.lake().run_steps(report.run.run_id)}
    assert set(steps) == {"bronze.orders", "silver.orders", "gold.sales"}
    for step in steps.values():
        assert step.rows_in == step.rows_written + step.rows_quarantined + step.rows_deduplicated
        assert step.bytes > 0
        assert step.seconds > 0
        assert step.version == 0
        assert step.version_before is None
    silver = steps["silver.orders"]
    assert (silver.rows_in, silver.rows_written, silver.rows_quarantined, silver.rows_deduplicated) == (
        3,
        1,
        1,
        1,
    )
    assert orders.rows(
        'SELECT "check", failed_rows FROM system.checks WHERE "table" = \'silver.orders\' ORDER BY 1'
    ) == [("amount.check", 1), ("amount.type", 0), ("id.required", 0)]
    assert orders.rows("SELECT sum(rows_in) FROM system.steps") == [(3 + 3 + 1,)]


def test_a_run_with_nothing_new_reads_only_the_logs(orders: Written) -> None:
    orders.land("orders/1.json", order(1, 1))
    orders.run()

    def files() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in Path(orders.folder).rglob("*") if path.is_file()}

    before = files()
    code = (
        "import sys\nfrom lakesmith.lake import Lake\n"
        f"report = Lake.open({str(orders.folder)!r}).run()\n"
        "assert report.run is None and report.steps == () and report.outcome == 'ok'\n"
        "assert 'pyspark' not in sys.modules, 'Spark was imported'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert files() == before


def test_the_quarantine_report_counts_by_reason_with_an_example(orders: Written) -> None:
    orders.land("orders/1.json", order(1, -1), order(2, -2), order(3, 3))
    orders.run()
    (count,) = orders.lake().quarantine()
    assert (count.table, count.reason, count.rows) == ("silver.orders", "not amount >= 0", 2)
    assert '"amount":-' in count.example
