"""`lakesmith vacuum`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command, complete_tables, json_option
from lakesmith.cli.maintenance import dry_run_option, run_maintenance
from lakesmith.cli.quantities import seconds


@click.command("vacuum", cls=Command)
@click.argument("tables", nargs=-1, metavar="[TABLE]...", shell_complete=complete_tables)
@click.option(
    "--older-than",
    metavar="TIME",
    default="7d",
    show_default=True,
    help="Keep files of versions that were current within this time.",
)
@click.option("--force", is_flag=True, help="Allow less than an hour.")
@dry_run_option
@json_option
@click.pass_obj
def command(call: Call, tables: tuple[str, ...], older_than: str, force: bool, dry_run: bool, as_json: bool) -> int:
    """Delete data files that no recent version references.

    In the named tables, or in all. Also deletes what killed runs have left behind. Versions that another table of the
    lake has not read yet stay, however old they are.
    """
    lake, age = call.open(), seconds(older_than)
    return run_maintenance(
        lambda: lake.plan_vacuum(tables, older_than=age, force=force),
        lambda on_event: lake.vacuum(tables, older_than=age, force=force, on_event=on_event),
        dry_run=dry_run,
        as_json=as_json,
    )
