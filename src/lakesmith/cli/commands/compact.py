"""`lakesmith compact`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command, tables_argument
from lakesmith.cli.maintenance import dry_run_option, run_maintenance


@click.command("compact", cls=Command)
@tables_argument
@dry_run_option
def command(call: Call, tables: tuple[str, ...], dry_run: bool) -> int:
    """Merge small files into larger files.

    Compacts the named tables, or all tables. Changes no row, so no downstream table is recomputed.
    """
    lake = call.open()
    return run_maintenance(call, dry_run, lake.plan_compact, lake.compact, tables)
