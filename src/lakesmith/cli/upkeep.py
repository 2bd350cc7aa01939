"""What `compact`, `vacuum`, `restore` and `rollback` have in common."""

from __future__ import annotations

import click

from lakesmith.cli.output import page
from lakesmith.cli.verbs.run import show_report
from lakesmith.reports import RunReport

dry_run_option = click.option("--dry-run", is_flag=True, help="Show the steps and do nothing. Needs no Java.")


def show_upkeep(report: RunReport, *, as_json: bool) -> int:
    """Show what was done; the exit code is that of the gravest error."""
    if report.run is None and not as_json:
        page().line("nothing to do: every table is in order")
        return 0
    return show_report(report, as_json=as_json)
