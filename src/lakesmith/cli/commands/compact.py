"""`lakesmith compact`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command, complete_tables, json_option
from lakesmith.cli.maintenance import dry_run_option, run_maintenance


@click.command("compact", cls=Command)
@click.argument("tables", nargs=-1, metavar="[TABLE]...", shell_complete=complete_tables)
@dry_run_option
@json_option
@click.pass_obj
def command(call: Call, tables: tuple[str, ...], dry_run: bool, as_json: bool) -> int:
    """Merge small files into larger files.

    In the named tables, or in all. No row changes, and no table downstream is recomputed.
    """
    lake = call.open()
    return run_maintenance(
        lambda: lake.plan_compact(tables),
        lambda on_event: lake.compact(tables, on_event=on_event),
        dry_run=dry_run,
        as_json=as_json,
    )
