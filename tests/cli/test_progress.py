from __future__ import annotations

import io
import threading
from datetime import UTC, datetime

from rich.console import Console

from lakesmith.cli.progress import LineProgress, LiveProgress, event_line
from lakesmith.records import Outcome, StepRecord
from lakesmith.reports import SparkStarting, StepStarted


def step(table: str, outcome: Outcome = "ok", error: str | None = None) -> StepRecord:
    return StepRecord(
        run_id="r",
        table=table,
        step="ingest",
        mode="files",
        reason="1 new file",
        outcome=outcome,
        sequence=1,
        rows_in=1,
        rows_written=1,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        seconds=0.5,
        error=error,
    )


def test_a_failed_step_prints_its_error() -> None:
    show = event_line(step("bronze.orders", "failed", "too few rows [gate]"))
    assert show == "bronze.orders: ingest failed in 0.5 s: too few rows [gate]"


def test_a_step_without_rejected_rows_does_not_mention_quarantine() -> None:
    assert event_line(step("bronze.orders")) == "bronze.orders: ingest ok in 0.5 s: 1 row in, 1 written"


def test_lines_of_several_threads_are_not_mixed() -> None:
    stream = io.StringIO()
    with LineProgress(stream) as show:
        threads = [threading.Thread(target=show, args=(step(f"bronze.t{n}"),)) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(stream.getvalue().splitlines()) == 20
    assert all(line.endswith("1 row in, 1 written") for line in stream.getvalue().splitlines())


def test_a_terminal_shows_running_and_finished_steps_and_then_clears_them() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120)
    with LiveProgress(console) as show:
        show(SparkStarting())
        show(StepStarted(table="bronze.orders", step="ingest", reason="1 new file"))
        show(step("bronze.customers"))
        console.print(show._render())
    drawn = stream.getvalue()
    assert "starting Spark…" in drawn
    assert "bronze.customers" in drawn
    assert "running" in drawn
    assert drawn.endswith("\x1b[2K")


def test_a_run_without_events_prints_nothing() -> None:
    stream = io.StringIO()
    with LiveProgress(Console(file=stream, force_terminal=True)):
        pass
    assert stream.getvalue() == ""
