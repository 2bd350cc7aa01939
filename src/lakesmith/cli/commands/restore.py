"""`lakesmith restore`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command, table_argument
from lakesmith.cli.maintenance import dry_run_option, run_maintenance


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
@dry_run_option
def command(call: Call, table: str, version: int, dry_run: bool) -> int:
    """Restore a table to an earlier version. Needs no Java.

    Also restores its quarantine. The next run re-ingests later data and recomputes the downstream tables.
    """
    lake = call.open()
    return run_maintenance(call, dry_run, lake.plan_restore, lake.restore, table, version)
