"""What `compact`, `vacuum`, `restore` and `rollback` have in common."""

from __future__ import annotations

from collections.abc import Callable

import click

from lakesmith.cli.commands.plan import show_plan
from lakesmith.cli.commands.run import show_report
from lakesmith.cli.output import page
from lakesmith.cli.progress import progress
from lakesmith.plan.steps import Plan
from lakesmith.reports import Event, RunReport

dry_run_option = click.option("--dry-run", is_flag=True, help="Show the steps and do nothing. Needs no Java.")


def carry_out(
    plan: Callable[[], Plan],
    do: Callable[[Callable[[Event], None]], RunReport],
    *,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Show the plan, or do it and show what was done; the exit code is that of the gravest error."""
    if dry_run:
        return show_plan(plan(), as_json=as_json)
    with progress(quiet_stdout=as_json) as told:
        report = do(told)
    if report.run is None and not as_json:
        page().line("nothing to do: every table is in order")
        return 0
    return show_report(report, as_json=as_json)
