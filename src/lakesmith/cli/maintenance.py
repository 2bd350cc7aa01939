"""Code that `compact`, `vacuum`, `restore` and `rollback` share."""

from __future__ import annotations

from collections.abc import Callable

import click

from lakesmith.cli.commands.plan import show_plan
from lakesmith.cli.commands.run import show_report
from lakesmith.cli.output import page
from lakesmith.cli.progress import progress
from lakesmith.plan.steps import Plan
from lakesmith.reports import Event, RunReport

dry_run_option = click.option("--dry-run", is_flag=True, help="Show the steps without executing them. Needs no Java.")


def run_maintenance(
    plan: Callable[[], Plan],
    execute: Callable[[Callable[[Event], None]], RunReport],
    *,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Show the plan, or execute it and show the report. Returns the exit code of the worst error."""
    if dry_run:
        return show_plan(plan(), as_json=as_json)
    with progress(quiet_stdout=as_json) as on_event:
        report = execute(on_event)
    if report.run is None and not as_json:
        page().line("nothing to do: no table needs maintenance")
        return 0
    return show_report(report, as_json=as_json)
