"""`lakesmith compact`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Verb, complete_tables, json_option
from lakesmith.cli.progress import progress
from lakesmith.cli.upkeep import dry_run_option, show_upkeep
from lakesmith.cli.verbs.plan import show_plan


@click.command("compact", cls=Verb)
@click.argument("tables", nargs=-1, metavar="[TABLE]...", shell_complete=complete_tables)
@dry_run_option
@json_option
@click.pass_obj
def verb(call: Call, tables: tuple[str, ...], dry_run: bool, as_json: bool) -> int:
    """Put the rows of small files together.

    In the tables that are named, or in all. No row changes, and nothing is computed again because of it.
    """
    lake = call.open()
    if dry_run:
        return show_plan(lake.plan_compact(tables), as_json=as_json)
    with progress(quiet_stdout=as_json) as told:
        report = lake.compact(tables, on_event=told)
    return show_upkeep(report, as_json=as_json)
