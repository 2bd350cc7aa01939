"""`lakesmith restore`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Verb, complete_tables, json_option
from lakesmith.cli.progress import progress
from lakesmith.cli.upkeep import dry_run_option, show_upkeep
from lakesmith.cli.verbs.plan import show_plan


@click.command("restore", cls=Verb)
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
    if dry_run:
        return show_plan(lake.plan_restore(table, version), as_json=as_json)
    with progress(quiet_stdout=as_json) as told:
        report = lake.restore(table, version, on_event=told)
    return show_upkeep(report, as_json=as_json)
