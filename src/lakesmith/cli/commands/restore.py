"""`lakesmith restore`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command, complete_tables, json_option
from lakesmith.cli.maintenance import carry_out, dry_run_option


@click.command("restore", cls=Command)
@click.argument("table", shell_complete=complete_tables)
@click.option("--to", "version", type=int, required=True, metavar="VERSION", help="As `lakesmith history` tells it.")
@dry_run_option
@json_option
@click.pass_obj
def verb(call: Call, table: str, version: int, dry_run: bool, as_json: bool) -> int:
    """Give a table the rows of an earlier version again. Needs no Java.

    Its quarantine goes back with it. The next run takes in again what came since, and computes again the tables
    that are made from it.
    """
    lake = call.open()
    return carry_out(
        lambda: lake.plan_restore(table, version),
        lambda told: lake.restore(table, version, on_event=told),
        dry_run=dry_run,
        as_json=as_json,
    )
