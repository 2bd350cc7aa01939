"""`lakesmith rollback`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command, json_option
from lakesmith.cli.maintenance import carry_out, dry_run_option


@click.command("rollback", cls=Command)
@click.argument("release")
@dry_run_option
@json_option
@click.pass_obj
def verb(call: Call, release: str, dry_run: bool, as_json: bool) -> int:
    """Give all tables the rows of a release again. Needs no Java.

    RELEASE is one that `lakesmith releases` lists, or `latest`. The quarantines go back with the tables. The next run
    takes in again what came since.
    """
    lake = call.open()
    return carry_out(
        lambda: lake.plan_rollback(release),
        lambda told: lake.rollback(release, on_event=told),
        dry_run=dry_run,
        as_json=as_json,
    )
