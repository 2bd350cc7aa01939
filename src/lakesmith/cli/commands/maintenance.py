"""`lakesmith compact`, `vacuum`, `restore` and `rollback`."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec

import click

from lakesmith.cli.call import Call, Command, table_argument, tables_argument
from lakesmith.cli.commands.plan import show_plan
from lakesmith.cli.commands.run import show_report
from lakesmith.cli.progress import progress
from lakesmith.cli.quantities import seconds
from lakesmith.plan.steps import Plan
from lakesmith.reports import RunReport

P = ParamSpec("P")

_dry_run_option = click.option("--dry-run", is_flag=True, help="Show the steps without executing them. Needs no Java.")


def _plan_or_run(
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


@click.command("compact", cls=Command)
@tables_argument
@_dry_run_option
def compact(call: Call, tables: tuple[str, ...], dry_run: bool) -> int:
    """Merge small files into larger files.

    Compacts the named tables, or all tables. Changes no row, so no downstream table is recomputed.
    """
    lake = call.open()
    return _plan_or_run(call, dry_run, lake.plan_compact, lake.compact, tables)


@click.command("vacuum", cls=Command)
@tables_argument
@click.option(
    "--older-than",
    metavar="TIME",
    default="7d",
    show_default=True,
    help="Keep the files of versions that were current within this time.",
)
@click.option("--force", is_flag=True, help="Allow a time of less than an hour.")
@_dry_run_option
def vacuum(call: Call, tables: tuple[str, ...], older_than: str, force: bool, dry_run: bool) -> int:
    """Delete data files that no recent version references.

    Vacuums the named tables, or all tables. Also deletes what killed runs left behind. Keeps versions that another
    table of the lake has not read yet, however old they are.
    """
    lake = call.open()
    return _plan_or_run(
        call, dry_run, lake.plan_vacuum, lake.vacuum, tables, older_than=seconds(older_than), force=force
    )


@click.command("restore", cls=Command)
@table_argument
@click.option(
    "--to",
    "version",
    type=int,
    required=True,
    metavar="VERSION",
    help="A version that `lakesmith history TABLE` lists.",
)
@_dry_run_option
def restore(call: Call, table: str, version: int, dry_run: bool) -> int:
    """Restore a table to an earlier version. Needs no Java.

    Also restores its quarantine. The next run re-ingests later data and recomputes the downstream tables.
    """
    lake = call.open()
    return _plan_or_run(call, dry_run, lake.plan_restore, lake.restore, table, version)


@click.command("rollback", cls=Command)
@click.argument("release")
@_dry_run_option
def rollback(call: Call, release: str, dry_run: bool) -> int:
    """Restore all tables to a release. Needs no Java.

    RELEASE is one that `lakesmith releases` lists, or `latest`. Also restores the quarantines. The next run re-ingests
    later data.
    """
    lake = call.open()
    return _plan_or_run(call, dry_run, lake.plan_rollback, lake.rollback, release)
