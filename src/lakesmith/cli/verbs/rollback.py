"""`lakesmith rollback`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Verb, json_option
from lakesmith.cli.progress import progress
from lakesmith.cli.upkeep import dry_run_option, show_upkeep
from lakesmith.cli.verbs.plan import show_plan


@click.command("rollback", cls=Verb)
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
    if dry_run:
        return show_plan(lake.plan_rollback(release), as_json=as_json)
    with progress(quiet_stdout=as_json) as told:
        report = lake.rollback(release, on_event=told)
    return show_upkeep(report, as_json=as_json)
