"""`lakesmith vacuum`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command, tables_argument
from lakesmith.cli.maintenance import dry_run_option, run_maintenance
from lakesmith.cli.quantities import seconds


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
@dry_run_option
def command(call: Call, tables: tuple[str, ...], older_than: str, force: bool, dry_run: bool) -> int:
    """Delete data files that no recent version references.

    Vacuums the named tables, or all tables. Also deletes what killed runs left behind. Keeps versions that another
    table of the lake has not read yet, however old they are.
    """
    lake = call.open()
    return run_maintenance(
        call, dry_run, lake.plan_vacuum, lake.vacuum, tables, older_than=seconds(older_than), force=force
    )
