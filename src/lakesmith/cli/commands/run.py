"""`lakesmith run`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import click

from lakesmith.cli.call import Call, Command, PlanOptions, plan_options
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
@plan_options
@click.option("--jobs", type=click.IntRange(1), help="How many tables run at the same time.")
@click.option("--dry-run", is_flag=True, help="Show the plan without executing it.")
@click.option("--continuous", is_flag=True, help="Run repeatedly on new input, until SIGTERM or Ctrl-C.")
@click.option(
    "--every",
    type=click.FloatRange(0),
    default=10.0,
    show_default=True,
    help="With --continuous, seconds between the starts of two runs.",
)
def run(call: Call, options: PlanOptions, jobs: int | None, dry_run: bool, continuous: bool, every: float) -> int:
    """Bring the tables up to date.

    Reads new input, puts invalid rows into quarantine, and commits each table once. An interrupted run loses
    nothing: the next run continues where it stopped.
    """
    lake = call.open()
    if dry_run:
        return show_plan(call, lake.plan(**options))
    if continuous:
        if options["full_refresh"] or options["days"]:
            once = "--full-refresh" if options["full_refresh"] else "--from"
            raise UsageError(
                "conflicting-options", f"--continuous and {once} exclude each other", hint=f"run once with {once} first"
            )
        return _continuously(call, lake, options, every=every, jobs=jobs)
    with Termination() as termination, progress(quiet_stdout=call.as_json) as on_event:
        report = lake.run(**options, jobs=jobs, on_event=on_event)
    return show_report(call, report, terminated=termination.received)


def show_report(
    call: Call, report: RunReport, *, idle: str = "every table is up to date", terminated: bool = False
) -> int:
    """Show what a run did, or why it had nothing to do. Returns the exit code of the worst error."""
    if call.as_json:
        shown = ("outcome", "run", "steps", "checks", "files", "skipped", "errors")
        print_json({name: getattr(report, name) for name in shown})
    else:
        _show(page(), report, idle)
        show_errors(report.errors)
    return _exit_code(report, terminated=terminated)


def _continuously(call: Call, lake: Lake, options: PlanOptions, *, every: float, jobs: int | None) -> int:
    """Run in rounds until a signal arrives. The first signal lets the current round end. Returns the last exit code."""
    stop, codes = threading.Event(), [0]
    shown: set[str] = set()

    def show(report: RunReport) -> None:
        codes.append(_exit_code(report))
        errors = {str(error) for error in report.errors}
        # A table whose data waits for a fix would repeat the same error in every round.
        if report.run is not None or errors - shown:
            show_report(call, report)
        shown.clear()
        shown.update(errors)

    tables = options["select"], options["exclude"]
    with StopOnSignal(stop), progress(quiet_stdout=call.as_json) as on_event:
        lake.run_continuously(*tables, every=every, stop=stop, jobs=jobs, on_event=on_event, on_report=show)
    return codes[-1]


def _exit_code(report: RunReport, *, terminated: bool = False) -> int:
    if report.outcome == "interrupted":
        return TERMINATED if terminated else INTERRUPTED
    if report.outcome == "failed" or report.errors:
        return max((error.exit_code for error in report.errors), default=DataError.exit_code)
    return 0


def _show(out: Page, report: RunReport, idle: str) -> None:
    for entry in report.skipped[:_SHOWN]:
        out.line(Styled("skipped: ", "warn"), f"{entry.table}: {entry.file}: {entry.reason} ({entry.code})")
    if len(report.skipped) > _SHOWN:
        out.line(Styled("skipped: ", "warn"), f"{len(report.skipped) - _SHOWN:,} more, all in system.skipped")
    if report.run is None or not report.steps:
        if not report.errors:
            out.line("nothing to do" if report.not_built else f"nothing to do: {idle}")
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
