"""`lakesmith rollback`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command, json_option
from lakesmith.cli.maintenance import dry_run_option, run_maintenance


@click.command("rollback", cls=Command)
@click.argument("release")
@dry_run_option
@json_option
@click.pass_obj
def command(call: Call, release: str, dry_run: bool, as_json: bool) -> int:
    """Restore all tables to a release. Needs no Java.

    RELEASE is one that `lakesmith releases` lists, or `latest`. The quarantines are restored too. The next run ingests
    again what came since.
    """
    lake = call.open()
    return run_maintenance(
        lambda: lake.plan_rollback(release),
        lambda on_event: lake.rollback(release, on_event=on_event),
        dry_run=dry_run,
        as_json=as_json,
    )
