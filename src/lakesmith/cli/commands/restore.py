"""`lakesmith restore`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command, complete_tables, json_option
from lakesmith.cli.maintenance import dry_run_option, run_maintenance


@click.command("restore", cls=Command)
@click.argument("table", shell_complete=complete_tables)
@click.option(
    "--to",
    "version",
    type=int,
    required=True,
    metavar="VERSION",
    help="A version that `lakesmith history TABLE` lists.",
)
@dry_run_option
@json_option
@click.pass_obj
def command(call: Call, table: str, version: int, dry_run: bool, as_json: bool) -> int:
    """Restore a table to an earlier version. Needs no Java.

    Its quarantine is restored too. The next run ingests again what came since, and recomputes the tables downstream.
    """
    lake = call.open()
    return run_maintenance(
        lambda: lake.plan_restore(table, version),
        lambda on_event: lake.restore(table, version, on_event=on_event),
        dry_run=dry_run,
        as_json=as_json,
    )
