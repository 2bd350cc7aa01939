"""`lakesmith history`."""

from __future__ import annotations

from typing import cast

import click

from lakesmith.cli.call import Call, Command, complete_tables
from lakesmith.cli.formatting import count, duration, moment
from lakesmith.cli.output import Columns, Grid, page, print_json
from lakesmith.cli.steps import outcome_cell, show_steps
from lakesmith.errors import UsageError
from lakesmith.records import RunRecord
from lakesmith.reports import Version

_RUNS: Columns[RunRecord] = {
    "run": lambda run: run.run_id,
    "started": lambda run: moment(run.started_at),
    "outcome": lambda run: outcome_cell(run.outcome),
    "tables": lambda run: count(run.tables),
    "in": lambda run: count(run.rows_in),
    "written": lambda run: count(run.rows_written),
    "quarantined": lambda run: count(run.rows_quarantined),
    "deduplicated": lambda run: count(run.rows_deduplicated),
    "time": lambda run: duration(run.seconds),
    "environment": lambda run: run.environment,
}
_VERSIONS: Columns[Version] = {
    "version": lambda version: str(version.version),
    "committed": lambda version: moment(version.committed_at),
    "operation": lambda version: version.operation,
    "written": lambda version: count(version.rows_written),
    "run": lambda version: version.run_id or "–",
}
_NUMBERS = ("tables", "in", "written", "quarantined", "deduplicated", "time")


@click.command("history", cls=Command)
@click.argument("table", required=False, shell_complete=complete_tables)
@click.option("--run", "run_id", metavar="RUN_ID", help="Show the steps of one run.")
@click.option(
    "--limit", type=click.IntRange(1), default=20, show_default=True, help="Maximum number of entries, newest first."
)
def history(call: Call, table: str | None, run_id: str | None, limit: int) -> None:
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
        if call.as_json:
            print_json({"run_id": run_id, "steps": steps})
        else:
            show_steps(page(), steps)
        return
    entries = lake.history(table, limit=limit)
    if call.as_json:
        print_json({"table": table, "versions": entries} if table else {"runs": entries})
    elif not entries:
        page().line("no run yet; `lakesmith run` builds the tables")
    elif table:
        page().grid(Grid.of(cast(tuple[Version, ...], entries), _VERSIONS, right=("version", "written")))
    else:
        page().grid(Grid.of(cast(tuple[RunRecord, ...], entries), _RUNS, right=_NUMBERS))
