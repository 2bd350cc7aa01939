"""`lakesmith rollback`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command
from lakesmith.cli.maintenance import dry_run_option, run_maintenance


@click.command("rollback", cls=Command)
@click.argument("release")
@dry_run_option
def command(call: Call, release: str, dry_run: bool) -> int:
    """Restore all tables to a release. Needs no Java.

    RELEASE is one that `lakesmith releases` lists, or `latest`. Also restores the quarantines. The next run re-ingests
    later data.
    """
    lake = call.open()
    return run_maintenance(call, dry_run, lake.plan_rollback, lake.rollback, release)
