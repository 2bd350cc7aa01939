"""`lakesmith compact`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command, complete_tables, json_option
from lakesmith.cli.maintenance import carry_out, dry_run_option


@click.command("compact", cls=Command)
@click.argument("tables", nargs=-1, metavar="[TABLE]...", shell_complete=complete_tables)
@dry_run_option
@json_option
@click.pass_obj
def verb(call: Call, tables: tuple[str, ...], dry_run: bool, as_json: bool) -> int:
    """Put the rows of small files together.

    In the tables that are named, or in all. No row changes, and nothing is computed again because of it.
    """
    lake = call.open()
    return carry_out(
        lambda: lake.plan_compact(tables),
        lambda told: lake.compact(tables, on_event=told),
        dry_run=dry_run,
        as_json=as_json,
    )
