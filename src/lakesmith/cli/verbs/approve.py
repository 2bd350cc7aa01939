"""`lakesmith approve`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Verb, json_option
from lakesmith.cli.verbs.run import show_report


@click.command("approve", cls=Verb)
@click.argument("run_id", metavar="RUN")
@click.option("--reason", required=True, help="Why the batch may pass; it is kept in the ledger.")
@click.option("--by", help="Who says so; the user of this machine by default.")
@json_option
@click.pass_obj
def verb(call: Call, run_id: str, reason: str, by: str | None, as_json: bool) -> int:
    """Publish the batches that a run's gates have held back.

    The very inputs of the held batch are committed, and nothing else. Who approved it and why is kept with the batch
    and in system.audit.
    """
    return show_report(call.open().approve(run_id, reason=reason, by=by), as_json=as_json)
