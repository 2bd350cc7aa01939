"""`lakesmith vacuum`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command, complete_tables, json_option
from lakesmith.cli.maintenance import carry_out, dry_run_option
from lakesmith.cli.quantities import seconds


@click.command("vacuum", cls=Command)
@click.argument("tables", nargs=-1, metavar="[TABLE]...", shell_complete=complete_tables)
@click.option(
    "--older-than",
    metavar="TIME",
    default="7d",
    show_default=True,
    help="Keep what a version needs that was current since.",
)
@click.option("--force", is_flag=True, help="Keep less than an hour.")
@dry_run_option
@json_option
@click.pass_obj
def verb(call: Call, tables: tuple[str, ...], older_than: str, force: bool, dry_run: bool, as_json: bool) -> int:
    """Delete files that no version of late needs.

    In the tables that are named, or in all, with what killed runs have left. What a table of the lake has not read yet
    is kept, however old it is.
    """
    lake, age = call.open(), seconds(older_than)
    return carry_out(
        lambda: lake.plan_vacuum(tables, older_than=age, force=force),
        lambda told: lake.vacuum(tables, older_than=age, force=force, on_event=told),
        dry_run=dry_run,
        as_json=as_json,
    )
