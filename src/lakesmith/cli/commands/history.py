"""`lakesmith history`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from lakesmith.cli.call import Call, Command, complete_tables, json_option
from lakesmith.cli.formatting import count, duration, moment
from lakesmith.cli.output import Grid, Page, page, print_json
from lakesmith.cli.steps import outcome_cell, show_steps
from lakesmith.errors import UsageError
from lakesmith.records import RunRecord
from lakesmith.reports import Version


@click.command("history", cls=Command)
@click.argument("table", required=False, shell_complete=complete_tables)
@click.option("--run", "run_id", metavar="RUN_ID", help="Show the steps of one run.")
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="Maximum number of entries, newest first."
)
@json_option
@click.pass_obj
def command(call: Call, table: str | None, run_id: str | None, limit: int, as_json: bool) -> None:
    """List the runs, or the versions of one table.

    With --run, list the steps of that run with rows in, written, quarantined and deduplicated.
    """
    if table and run_id:
        raise UsageError(
            "conflicting-options", "history accepts a table or --run, not both", hint="leave one of them out"
        )
    lake = call.open()
    if run_id:
        steps = lake.run_steps(run_id)
        if as_json:
            print_json({"run_id": run_id, "steps": steps})
        else:
            show_steps(page(), steps)
        return
    found = lake.history(table, limit=limit)
    if as_json:
        print_json({"table": table, "versions": found} if table else {"runs": found})
    elif not found:
        page().line("no run yet; `lakesmith run` builds the tables")
    elif table:
        _show_versions(page(), [version for version in found if isinstance(version, Version)])
    else:
        _show_runs(page(), [run for run in found if isinstance(run, RunRecord)])


def _show_runs(out: Page, runs: Sequence[RunRecord]) -> None:
    out.grid(
        Grid(
            titles=(
                *("run", "started", "outcome", "tables"),
                *("in", "written", "quarantined", "deduplicated", "time", "environment"),
            ),
            rows=tuple(
                (
                    run.run_id,
                    moment(run.started_at),
                    outcome_cell(run.outcome),
                    count(run.tables),
                    count(run.rows_in),
                    count(run.rows_written),
                    count(run.rows_quarantined),
                    count(run.rows_deduplicated),
                    duration(run.seconds),
                    run.environment,
                )
                for run in runs
            ),
            right=frozenset({"tables", "in", "written", "quarantined", "deduplicated", "time"}),
        )
    )


def _show_versions(out: Page, versions: Sequence[Version]) -> None:
    out.grid(
        Grid(
            titles=("version", "committed", "operation", "written", "run"),
            rows=tuple(
                (
                    str(version.version),
                    moment(version.committed_at),
                    version.operation,
                    count(version.rows_written),
                    version.run_id or "–",
                )
                for version in versions
            ),
            right=frozenset({"version", "written"}),
        )
    )
