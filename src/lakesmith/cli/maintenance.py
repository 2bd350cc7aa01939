"""Code that `compact`, `vacuum`, `restore` and `rollback` share."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

import click

from lakesmith.cli.call import Call
from lakesmith.cli.commands.plan import show_plan
from lakesmith.cli.commands.run import show_report
from lakesmith.cli.progress import progress
from lakesmith.plan.steps import Plan
from lakesmith.reports import RunReport

P = ParamSpec("P")

dry_run_option = click.option("--dry-run", is_flag=True, help="Show the steps without executing them. Needs no Java.")


def run_maintenance(
    call: Call,
    dry_run: bool,
    plan: Callable[P, Plan],
    execute: Callable[..., RunReport],
    *arguments: P.args,
    **options: P.kwargs,
) -> int:
    """Show the plan, or execute it and show the report. Returns the exit code of the worst error."""
    if dry_run:
        return show_plan(call, plan(*arguments, **options))
    with progress(quiet_stdout=call.as_json) as on_event:
        report = execute(*arguments, **options, on_event=on_event)
    return show_report(call, report, idle="no table needs maintenance")
