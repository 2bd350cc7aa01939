"""`lakesmith quarantine`: list, show, stats, replay, discard."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click

from lakesmith.cli.call import Call, Command, CommandFunction, Commands, table_argument, tables_argument
from lakesmith.cli.commands.run import show_report
from lakesmith.cli.formatting import age, count, plural
from lakesmith.cli.output import Columns, Grid, Styled, page, print_json
from lakesmith.cli.progress import progress
from lakesmith.cli.quantities import seconds
from lakesmith.errors import UsageError
from lakesmith.plan.steps import QuarantineFilter
from lakesmith.quarantine import read_edits, refuse_empty_selection
from lakesmith.reports import Facet, FacetCount, QuarantinedRow, RunReport


@click.group("quarantine", cls=Commands)
def quarantine() -> None:
    """List quarantined rows, replay them or discard them.

    A row that breaks a rule is stored with its payload and every reason. Once the rule or the row is fixed, `replay`
    loads the row into its table exactly once.
    """


def filter_options(function: CommandFunction) -> CommandFunction:
    """Options that select rows. The command gets them as `chosen`."""

    @click.option("--id", "ids", multiple=True, metavar="ID", help="This row; may be repeated.")
    @click.option("--rule", help="Rows that broke this rule.")
    @click.option("--reason", metavar="TEXT", help="Rows with a reason that contains TEXT.")
    @click.option("--batch", type=int, help="Rows of one batch.")
    @click.option("--older-than", metavar="TIME", help="Rows in quarantine for longer than this, such as 7d.")
    @functools.wraps(function)
    def command(
        call: Call,
        *,
        ids: tuple[str, ...],
        rule: str | None,
        reason: str | None,
        batch: int | None,
        older_than: str | None,
        **others: object,
    ) -> object:
        age = None if older_than is None else seconds(older_than)
        chosen = QuarantineFilter(ids=ids, rule=rule, reason=reason, batch=batch, older_than=age)
        return function(call, chosen=chosen, **others)

    return command


_ROWS: Columns[QuarantinedRow] = {
    "table": lambda row: row.table,
    "id": lambda row: row.id[:8],
    "reasons": lambda row: "; ".join(row.reasons),
    "batch": lambda row: count(row.batch),
    "since": lambda row: age(_age(row.quarantined_at)),
}
_everything = click.option("--all", "everything", is_flag=True, help="All rows of the table's quarantine.")
_by = click.option("--by", help="Who decides [default: the operating system's user].")


@quarantine.command("list", cls=Command)
@tables_argument
@filter_options
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="Maximum number of rows.")
def list_rows(call: Call, tables: tuple[str, ...], chosen: QuarantineFilter, limit: int) -> None:
    """List quarantined rows, the oldest first. Needs no Java."""
    rows = call.open().quarantine_rows(tables, chosen, limit=limit)
    if call.as_json:
        print_json({"rows": rows})
        return
    out = page()
    if not rows:
        out.line(_nothing(chosen))
        return
    out.grid(Grid.of(rows, _ROWS, right=("batch",)))
    if len(rows) == limit:
        out.line(Styled(f"the first {limit}; --limit shows more", "quiet"))
    out.line("the full row: ", Styled(f"lakesmith quarantine show {rows[0].table} {rows[0].id[:8]}", "strong"))


@quarantine.command("show", cls=Command)
@table_argument
@click.argument("row_id", metavar="[ID]", required=False)
def show(call: Call, table: str, row_id: str | None) -> None:
    """Show one row with its payload, fields, rules and position. Without a prefix of its ID, the oldest row."""
    row = call.open().quarantine_row(table, row_id)
    if call.as_json:
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


@quarantine.command("stats", cls=Command)
@tables_argument
@click.option(
    "--by",
    "facet",
    type=click.Choice(["table", "rule", "reason", "batch", "age"]),
    default="rule",
    show_default=True,
    help="Group the counts by this.",
)
@filter_options
def stats(call: Call, tables: tuple[str, ...], facet: Facet, chosen: QuarantineFilter) -> None:
    """Count rows by table, rule, reason, batch or age. Needs no Java."""
    counts = call.open().quarantine_stats(tables, by=facet, chosen=chosen)
    if call.as_json:
        print_json({"by": facet, "counts": counts})
        return
    out = page()
    if not counts:
        out.line(_nothing(chosen))
        return
    columns: dict[str, Callable[[FacetCount], str]] = {
        "table": lambda each: each.table,
        facet: lambda each: each.table if facet == "table" else each.value,
        "rows": lambda each: count(each.rows),
        "oldest": lambda each: age(_age(each.oldest)),
    }
    out.grid(Grid.of(counts, columns, right=("rows", "oldest")))


@quarantine.command("replay", cls=Command)
@table_argument
@filter_options
@_everything
@click.option("--set", "sets", multiple=True, metavar="COLUMN=SQL", help="Fix a column of rows that do not pass.")
@click.option("--edits", type=click.Path(path_type=Path), help="A JSON or CSV file with new values by row id.")
@click.option("--why", default="", help="The reason, for the ledger.")
@_by
def replay(
    call: Call,
    table: str,
    chosen: QuarantineFilter,
    everything: bool,
    sets: tuple[str, ...],
    edits: Path | None,
    why: str,
    by: str | None,
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
    with progress(quiet_stdout=call.as_json) as on_event:
        report = lake.replay(table, chosen, set=_sets(sets), edits=row_edits, why=why, by=by, on_event=on_event)
    return _show_replay(call, report)


@quarantine.command("discard", cls=Command)
@table_argument
@filter_options
@_everything
@click.option("--why", required=True, help="The reason, for the ledger.")
@_by
def discard(call: Call, table: str, chosen: QuarantineFilter, everything: bool, why: str, by: str | None) -> int:
    """Discard quarantined rows. They stay stored with who discarded them and why, and count as discarded."""
    if not why.strip():
        raise UsageError("missing-reason", "discarding rows needs a reason", hint='--why "…"')
    lake = call.open()
    chosen = replace(chosen, ids=lake.quarantine_ids(table, chosen.ids))
    refuse_empty_selection(chosen, everything=everything)
    with progress(quiet_stdout=call.as_json) as on_event:
        report = lake.discard(table, chosen, why=why, by=by, on_event=on_event)
    return _show_replay(call, report)


def _show_replay(call: Call, report: RunReport) -> int:
    code = show_report(call, report, idle="no quarantined row matches")
    still_bad = sum(step.rows_quarantined for step in report.steps)
    if still_bad and not call.as_json:
        page().line(Styled(f"{plural(still_bad, 'row')} still break a rule and stay in quarantine", "warn"))
    return code


def _nothing(chosen: QuarantineFilter) -> str:
    if chosen != QuarantineFilter():
        return "no quarantined row matches; `lakesmith quarantine stats` counts all rows"
    return "the quarantine is empty"


def _sets(texts: tuple[str, ...]) -> dict[str, str]:
    sets = {}
    for text in texts:
        name, equals, sql = text.partition("=")
        if not equals or not name.strip() or not sql.strip():
            raise UsageError("invalid-setting", f"'{text}' is not COLUMN=SQL", hint='--set "amount = abs(amount)"')
        sets[name.strip()] = sql.strip()
    return sets


def _age(moment: datetime) -> float:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return float((datetime.now(UTC) - aware).total_seconds())
