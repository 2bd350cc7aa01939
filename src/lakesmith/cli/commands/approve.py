"""`lakesmith approve`."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from lakesmith.cli.call import Call, Command
from lakesmith.cli.commands.run import show_report
from lakesmith.cli.formatting import count
from lakesmith.cli.output import Styled, page, print_json
from lakesmith.cli.progress import progress
from lakesmith.errors import UsageError
from lakesmith.ledger.held import HeldBatch


@click.command("approve", cls=Command)
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--reason", help="Why the batch may pass; the ledger records it.")
@click.option("--by", help="Who approves [default: the operating system's user].")
def approve(call: Call, run_id: str | None, reason: str | None, by: str | None) -> int:
    """List held batches, or commit one.

    Commits exactly the held batch. The batch and system.audit record who approved it, and why.
    """
    lake = call.open()
    if run_id is None:
        _show_held(call, lake.held())
        return 0
    if not (reason or "").strip():
        raise UsageError(
            "missing-reason", "an approval needs a reason", hint=f'lakesmith approve {run_id} --reason "…"'
        )
    with progress(quiet_stdout=call.as_json) as on_event:
        report = lake.approve(run_id, reason=reason or "", by=by, on_event=on_event)
    return show_report(call, report)


def _show_held(call: Call, held: tuple[HeldBatch, ...]) -> None:
    if call.as_json:
        print_json({"held": held})
        return
    out = page()
    if not held:
        out.line("no held batches")
    for batch in held:
        at = datetime.fromtimestamp(batch.held_at / 1000, UTC)
        out.line(
            Styled(batch.table, "strong"), f": {count(batch.rows)} rows of run {batch.run_id}, {at:%Y-%m-%d %H:%M} UTC"
        )
        for failure in batch.failures:
            out.line("  ", Styled(failure, "bad"))
        out.line("  ", Styled(f'lakesmith query "FROM held.{batch.table.replace(".", "_")}"', "quiet"))
