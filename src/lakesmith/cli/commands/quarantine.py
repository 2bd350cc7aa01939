"""`lakesmith quarantine`: list, show, stats, replay, discard."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from lakesmith.cli.call import Call, Command, complete_tables, json_option, lake_options, with_options
from lakesmith.cli.command_groups import Commands
from lakesmith.cli.commands.run import show_report
from lakesmith.cli.formatting import age, count, plural
from lakesmith.cli.output import Cell, Grid, Styled, page, print_json
from lakesmith.cli.progress import progress
from lakesmith.cli.quantities import seconds
from lakesmith.errors import UsageError
from lakesmith.plan.steps import QuarantineFilter
from lakesmith.quarantine import read_edits, refuse_empty_selection
from lakesmith.reports import RunReport


@click.group("quarantine", cls=Commands, subcommand_metavar="COMMAND [ARGS]...")
@lake_options
def command() -> None:
    """List quarantined rows, replay them or discard them.

    A row that breaks a rule is stored with its payload and every reason. Once the rule or the row is fixed, `replay`
    loads the row into its table exactly once.
    """


def chosen_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options that select rows. The command gets them as `chosen`."""

    @functools.wraps(function)
    def command(
        *arguments: object,
        ids: tuple[str, ...],
        rule: str | None,
        reason: str | None,
        batch: int | None,
        older_than: str | None,
        **others: object,
    ) -> object:
        age = None if older_than is None else seconds(older_than)
        chosen = QuarantineFilter(ids=ids, rule=rule, reason=reason, batch=batch, older_than=age)
        return function(*arguments, chosen=chosen, **others)

    options = (
        click.option("--id", "ids", multiple=True, metavar="ID", help="This row; may be repeated."),
        click.option("--rule", help="Rows that broke this rule."),
        click.option("--reason", metavar="TEXT", help="Rows with a reason that contains TEXT."),
        click.option("--batch", type=int, help="Rows of one batch."),
        click.option("--older-than", metavar="TIME", help="Rows in quarantine for longer than this, such as 7d."),
    )
    return with_options(command, options)


_table = click.argument("table", shell_complete=complete_tables)
_tables = click.argument("tables", nargs=-1, metavar="[TABLE]...", shell_complete=complete_tables)
_everything = click.option("--all", "everything", is_flag=True, help="All rows of the table's quarantine.")
_by = click.option("--by", help="Who decides [default: the operating system's user].")


@command.command("list", cls=Command)
@_tables
@chosen_options
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Maximum number of rows.")
@json_option
@click.pass_obj
def list_rows(
    call: Call,
    tables: tuple[str, ...],
    chosen: QuarantineFilter,
    limit: int,
    as_json: bool,
) -> None:
    """List quarantined rows, the oldest first. Needs no Java."""
    found = call.open().quarantine_rows(tables, chosen, limit=limit)
    if as_json:
        print_json({"rows": found})
        return
    out = page()
    if not found:
        out.line(_nothing(chosen))
        return
    rows: list[tuple[Cell, ...]] = [
        (row.table, row.id[:8], "; ".join(row.reasons), count(row.batch), age(_age(row.quarantined_at)))
        for row in found
    ]
    out.grid(Grid(titles=("table", "id", "reasons", "batch", "since"), rows=tuple(rows), right=frozenset({"batch"})))
    if len(found) == limit:
        out.line(Styled(f"the first {limit}; --limit shows more", "quiet"))
    out.line("the full row: ", Styled(f"lakesmith quarantine show {found[0].table} {found[0].id[:8]}", "strong"))


@command.command("show", cls=Command)
@_table
@click.argument("row_id", metavar="[ID]", required=False)
@json_option
@click.pass_obj
def show(call: Call, table: str, row_id: str | None, as_json: bool) -> None:
    """Show one row with its payload, fields, rules and position. Without a prefix of its ID, the oldest row."""
    row = call.open().quarantine_row(table, row_id)
    if as_json:
        print_json(row)
        return
    out = page()
    out.line(Styled(f"{row.table} {row.id}", "strong"))
    versions = row.rule_versions or [""] * len(row.rules)
    for rule, reason, version in zip(row.rules, row.reasons, versions, strict=False):
        out.line(
            "  ", Styled(rule, "warn"), f": {reason}", Styled(f"  (version {version})" if version else "", "quiet")
        )
    for name, value in (
        ("raw", row.raw),
        ("fields", row.fields),
        ("position", row.position),
        ("batch", str(row.batch)),
        ("run", row.run_id),
        ("contract", row.contract),
        ("since", row.quarantined_at.isoformat(sep=" ", timespec="seconds")),
    ):
        if value:
            out.line(Styled(f"  {name:<9}", "quiet"), value)


@command.command("stats", cls=Command)
@_tables
@click.option(
    "--by",
    "facet",
    type=click.Choice(["table", "rule", "reason", "batch", "age"]),
    default="rule",
    show_default=True,
    help="Group the counts by this.",
)
@chosen_options
@json_option
@click.pass_obj
def stats(
    call: Call,
    tables: tuple[str, ...],
    facet: Any,
    chosen: QuarantineFilter,
    as_json: bool,
) -> None:
    """Count rows by table, rule, reason, batch or age. Needs no Java."""
    found = call.open().quarantine_stats(tables, by=facet, chosen=chosen)
    if as_json:
        print_json({"by": facet, "counts": found})
        return
    out = page()
    if not found:
        out.line(_nothing(chosen))
        return
    if facet == "table":
        by_table = tuple((each.table, count(each.rows), age(_age(each.oldest))) for each in found)
        out.grid(Grid(titles=("table", "rows", "oldest"), rows=by_table, right=frozenset({"rows", "oldest"})))
        return
    rows = tuple((each.table, each.value, count(each.rows), age(_age(each.oldest))) for each in found)
    out.grid(Grid(titles=("table", facet, "rows", "oldest"), rows=rows, right=frozenset({"rows", "oldest"})))


@command.command("replay", cls=Command)
@_table
@chosen_options
@_everything
@click.option("--set", "sets", multiple=True, metavar="COLUMN=SQL", help="Fix a column of rows that do not pass.")
@click.option("--edits", type=click.Path(path_type=Path), help="A JSON or CSV file with values by row id.")
@click.option("--why", default="", help="The reason, for the ledger.")
@_by
@json_option
@click.pass_obj
def replay(
    call: Call,
    table: str,
    chosen: QuarantineFilter,
    everything: bool,
    sets: tuple[str, ...],
    edits: Path | None,
    why: str,
    by: str | None,
    as_json: bool,
) -> int:
    """Check quarantined rows against today's rules, and load the rows that pass.

    The table's own load writes them exactly once. Rows that still break a rule stay in quarantine.
    """
    lake = call.open()
    chosen = replace(chosen, ids=lake.quarantine_ids(table, chosen.ids))
    row_edits = read_edits(edits) if edits else {}
    refuse_empty_selection(chosen, everything=everything or bool(row_edits))
    if row_edits and chosen == QuarantineFilter() and not everything:
        chosen = QuarantineFilter(ids=lake.quarantine_ids(table, tuple(row_edits)))
    with progress(quiet_stdout=as_json) as on_event:
        report = lake.replay(table, chosen, set=_sets(sets), edits=row_edits, why=why, by=by, on_event=on_event)
    return _shown(report, as_json=as_json)


@command.command("discard", cls=Command)
@_table
@chosen_options
@_everything
@click.option("--why", required=True, help="The reason; it is stored.")
@_by
@json_option
@click.pass_obj
def discard(
    call: Call,
    table: str,
    chosen: QuarantineFilter,
    everything: bool,
    why: str,
    by: str | None,
    as_json: bool,
) -> int:
    """Discard quarantined rows. They count as discarded, and stay stored with who decided it and why."""
    if not why.strip():
        raise UsageError("missing-reason", "discarding rows needs a reason", hint='--why "…"')
    lake = call.open()
    chosen = replace(chosen, ids=lake.quarantine_ids(table, chosen.ids))
    refuse_empty_selection(chosen, everything=everything)
    with progress(quiet_stdout=as_json) as on_event:
        report = lake.discard(table, chosen, why=why, by=by, on_event=on_event)
    return _shown(report, as_json=as_json)


def _shown(report: RunReport, *, as_json: bool) -> int:
    if report.run is None and not as_json:
        page().line("nothing to do: no quarantined row matches")
        return 0
    code = show_report(report, as_json=as_json)
    still_bad = sum(step.rows_quarantined for step in report.steps)
    if still_bad and not as_json:
        page().line(Styled(f"{plural(still_bad, 'row')} still break a rule and stay in quarantine", "warn"))
    return code


def _nothing(chosen: QuarantineFilter) -> str:
    if chosen != QuarantineFilter():
        return "no quarantined row matches; `lakesmith quarantine stats` counts all rows"
    return "the quarantine is empty"


def _sets(texts: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in texts:
        name, equals, sql = text.partition("=")
        if not equals or not name.strip() or not sql.strip():
            raise UsageError("invalid-setting", f"'{text}' is not COLUMN=SQL", hint='--set "amount = abs(amount)"')
        found[name.strip()] = sql.strip()
    return found


def _age(moment: datetime) -> float:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return float((datetime.now(UTC) - aware).total_seconds())
