"""`lakesmith run`."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING

import click

from lakesmith.cli.call import Call, Command, backfill_options, json_option, selection
from lakesmith.cli.commands.plan import show_plan
from lakesmith.cli.failures import INTERRUPTED, TERMINATED, StopOnSignal, Termination, show_errors
from lakesmith.cli.formatting import count, duration, plural
from lakesmith.cli.output import Page, Styled, page, print_json
from lakesmith.cli.progress import progress
from lakesmith.cli.steps import show_steps
from lakesmith.errors import DataError, UsageError
from lakesmith.records import RunRecord
from lakesmith.reports import RunReport

if TYPE_CHECKING:
    from lakesmith.lake import Lake

_SHOWN = 20
"""How many skipped files are shown."""


@click.command("run", cls=Command)
@selection
@click.option("--full-refresh", is_flag=True, help="Rebuild the tables from all their rows.")
@backfill_options
@click.option("--jobs", type=click.IntRange(1), help="How many tables run at the same time.")
@click.option("--dry-run", is_flag=True, help="Show the plan without executing it.")
@click.option("--continuous", is_flag=True, help="Run repeatedly on new input, until SIGTERM or Ctrl-C.")
@click.option("--every", type=click.FloatRange(0), default=10.0, show_default=True, help="Seconds between rounds.")
@json_option
@click.pass_obj
def command(
    call: Call,
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    full_refresh: bool,
    days: tuple[date, date] | None,
    chunk: int,
    jobs: int | None,
    dry_run: bool,
    continuous: bool,
    every: float,
    as_json: bool,
) -> int:
    """Bring the tables up to date.

    Reads new input, puts invalid rows into quarantine, and commits each table once. An interrupted run loses
    nothing: the next run continues where it stopped.
    """
    lake = call.open()
    if dry_run:
        plan = lake.plan(select, exclude, full_refresh=full_refresh, days=days, chunk=chunk)
        return show_plan(plan, as_json=as_json)
    if continuous:
        if full_refresh or days:
            once = "--full-refresh" if full_refresh else "--from"
            raise UsageError(
                "conflicting-options", f"--continuous and {once} exclude each other", hint=f"run once with {once} first"
            )
        return _continuously(lake, select, exclude, every=every, jobs=jobs, as_json=as_json)
    with Termination() as termination, progress(quiet_stdout=as_json) as on_event:
        report = lake.run(
            select, exclude, full_refresh=full_refresh, days=days, chunk=chunk, jobs=jobs, on_event=on_event
        )
    _show_report(report, as_json=as_json)
    return _exit_code(report, terminated=termination.received)


def show_report(report: RunReport, *, as_json: bool) -> int:
    """Show what a run did. Returns the exit code of the worst error."""
    _show_report(report, as_json=as_json)
    return _exit_code(report, terminated=False)


def _show_report(report: RunReport, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "outcome": report.outcome,
                "run": report.run,
                "steps": report.steps,
                "checks": report.checks,
                "files": report.files,
                "skipped": report.skipped,
                "errors": report.errors,
            }
        )
    else:
        _show(page(), report)
        show_errors(report.errors, as_json=False)


def _continuously(
    lake: Lake, select: Sequence[str], exclude: Sequence[str], *, every: float, jobs: int | None, as_json: bool
) -> int:
    """Run in rounds until a signal arrives. The first signal lets the current round end. Returns the last exit code."""
    stop, codes = threading.Event(), [0]
    shown: set[str] = set()

    def show(report: RunReport) -> None:
        codes.append(_exit_code(report, terminated=False))
        errors = {str(error) for error in report.errors}
        # A table whose data waits for a fix would repeat the same error in every round.
        if report.run is not None or errors - shown:
            _show_report(report, as_json=as_json)
        shown.clear()
        shown.update(errors)

    with StopOnSignal(stop), progress(quiet_stdout=as_json) as on_event:
        lake.run_continuously(select, exclude, every=every, stop=stop, jobs=jobs, on_event=on_event, on_report=show)
    return codes[-1]


def _exit_code(report: RunReport, *, terminated: bool) -> int:
    if report.outcome == "interrupted":
        return TERMINATED if terminated else INTERRUPTED
    if report.outcome == "failed" or report.errors:
        return max((error.exit_code for error in report.errors), default=DataError.exit_code)
    return 0


def _show(out: Page, report: RunReport) -> None:
    for entry in report.skipped[:_SHOWN]:
        out.line(Styled("skipped: ", "warn"), f"{entry.table}: {entry.file}: {entry.reason} ({entry.code})")
    if len(report.skipped) > _SHOWN:
        out.line(Styled("skipped: ", "warn"), f"{len(report.skipped) - _SHOWN:,} more, all in system.skipped")
    if report.run is None or not report.steps:
        if not report.errors:
            out.line("nothing to do" if report.not_built else "nothing to do: every table is up to date")
        for reason in report.not_built:
            out.line(Styled("not built: ", "warn"), reason)
        return
    show_steps(out, report.steps)
    for file in report.files:
        if file.code:
            out.line(Styled("rejected file: ", "warn"), f"{file.table}: {file.file} ({file.code})")
    out.line(_summary(report.run))
    for check in report.checks:
        if not check.passed and check.severity == "warn":
            seen = plural(check.failed_rows, "row") if check.failed_rows else check.observed or "failed"
            out.line(Styled("warning: ", "warn"), f"{check.table}: {check.check}: {seen}")
    for advice in _advice(report):
        out.line(Styled("next: ", "quiet"), advice)


def _summary(run: RunRecord) -> str:
    return (
        f"run {run.run_id} {run.outcome}: {plural(run.tables, 'table')} in {duration(run.seconds)}, "
        f"{plural(run.rows_in, 'row')} in = {count(run.rows_written)} written + "
        f"{count(run.rows_quarantined)} quarantined + {count(run.rows_deduplicated)} deduplicated"
        + (f" + {count(run.rows_discarded)} discarded" if run.rows_discarded else "")
    )


def _advice(report: RunReport) -> list[str]:
    advice = [
        f"lakesmith quarantine list {table}"
        for table in dict.fromkeys(step.table for step in report.steps if step.rows_quarantined)
    ]
    if report.outcome == "failed" and report.run:
        advice.append(f"fix the cause and run again; details: lakesmith history --run {report.run.run_id}")
    elif report.outcome == "interrupted":
        advice.append("`lakesmith run` continues where this run stopped")
    return advice
