"""`lakesmith status`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from lakesmith.cli.call import Call, Command, json_option, selection
from lakesmith.cli.formatting import age, count, plural, size
from lakesmith.cli.output import Cell, Grid, Page, Style, Styled, page, print_json
from lakesmith.reports import QuarantineCount, TableStatus

_STATES: dict[str, Style] = {"fresh": "good", "ok": "", "late": "bad", "missing": "warn"}


@click.command("status", cls=Command)
@selection
@click.option("--quarantine", "reasons", is_flag=True, help="Show which rules rows have broken, with an example.")
@json_option
@click.pass_obj
def command(
    call: Call,
    select: tuple[str, ...],
    exclude: tuple[str, ...],
    reasons: bool,
    as_json: bool,
) -> None:
    """Show the current state of the tables.

    Rows, size, version and age come from the tables' Delta logs.
    """
    lake = call.open()
    tables = lake.status(select, exclude)
    shown = {table.table for table in tables}
    # Counting reasons reads rows; everything else here reads logs only.
    quarantine = [found for found in lake.quarantine() if found.table in shown] if reasons else None
    if as_json:
        print_json({"lake": lake.name, "environment": lake.environment, "tables": tables, "quarantine": quarantine})
        return
    out = page()
    out.line(Styled(lake.name, "strong"), f" ({lake.environment})")
    show_tables(out, tables)
    quarantined = sum(table.quarantined or 0 for table in tables)
    if quarantine:
        out.line()
        show_quarantine(out, quarantine)
    elif quarantined:
        out.line(
            f"{plural(quarantined, 'row')} in quarantine; why: ",
            Styled("lakesmith quarantine list", "strong"),
        )


def show_tables(out: Page, tables: Sequence[TableStatus]) -> None:
    rows: list[tuple[Cell, ...]] = []
    breaks: set[int] = set()
    for number, table in enumerate(tables):
        if number and table.layer != tables[number - 1].layer:
            breaks.add(number)
        quarantined = count(table.quarantined)
        rows.append(
            (
                table.table,
                Styled(table.state, _STATES[table.state]),
                count(table.rows),
                Styled(quarantined, "warn") if table.quarantined else quarantined,
                size(table.bytes),
                count(table.version),
                age(table.age_seconds),
                table.load,
                table.owner or "–",
            )
        )
    out.grid(
        Grid(
            titles=("table", "state", "rows", "quarantined", "size", "version", "updated", "load", "owner"),
            rows=tuple(rows),
            right=frozenset({"rows", "quarantined", "size", "version", "updated"}),
            breaks=frozenset(breaks),
        )
    )


def show_quarantine(out: Page, quarantine: Sequence[QuarantineCount]) -> None:
    out.line(Styled("In quarantine", "strong"))
    out.grid(
        Grid(
            titles=("table", "reason", "rows", "example"),
            rows=tuple((found.table, found.reason, count(found.rows), found.example) for found in quarantine),
            right=frozenset({"rows"}),
        )
    )
    out.line("look at the rows: ", Styled(f"lakesmith quarantine list {quarantine[0].table}", "strong"))
