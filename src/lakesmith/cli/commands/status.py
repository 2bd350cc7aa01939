"""`lakesmith status`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click

from lakesmith.cli.call import Call, Command, Selection, selection
from lakesmith.cli.formatting import age, count, plural, size
from lakesmith.cli.output import Columns, Grid, Page, Style, Styled, page, print_json
from lakesmith.reports import QuarantineCount, TableStatus

_STATES: dict[str, Style] = {"fresh": "good", "ok": "", "late": "bad", "missing": "warn"}
_TABLES: Columns[TableStatus] = {
    "table": lambda table: table.table,
    "state": lambda table: Styled(table.state, _STATES[table.state]),
    "rows": lambda table: count(table.rows),
    "quarantined": lambda table: Styled(count(table.quarantined), "warn" if table.quarantined else ""),
    "size": lambda table: size(table.bytes),
    "version": lambda table: count(table.version),
    "updated": lambda table: age(table.age_seconds),
    "load": lambda table: table.load,
    "owner": lambda table: table.owner or "–",
}
_REASONS: Columns[QuarantineCount] = {
    "table": lambda each: each.table,
    "reason": lambda each: each.reason,
    "rows": lambda each: count(each.rows),
    "example": lambda each: each.example,
}


@click.command("status", cls=Command)
@selection
@click.option("--quarantine", "reasons", is_flag=True, help="Show which rules rows have broken, with an example.")
def status(call: Call, selected: Selection, reasons: bool) -> None:
    """Show the current state of the tables.

    Rows, size, version and age come from the tables' Delta logs.
    """
    lake = call.open()
    tables = lake.status(**selected)
    shown = {table.table for table in tables}
    # Counting reasons reads rows; everything else here reads logs only.
    quarantine = [each for each in lake.quarantine() if each.table in shown] if reasons else None
    if call.as_json:
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
        out.line(f"{plural(quarantined, 'row')} in quarantine; why: ", Styled("lakesmith quarantine list", "strong"))


def show_tables(out: Page, tables: Sequence[TableStatus]) -> None:
    grid = Grid.of(tables, _TABLES, right=("rows", "quarantined", "size", "version", "updated"))
    breaks = (number for number in range(1, len(tables)) if tables[number].layer != tables[number - 1].layer)
    out.grid(replace(grid, breaks=frozenset(breaks)))


def show_quarantine(out: Page, quarantine: Sequence[QuarantineCount]) -> None:
    out.line(Styled("In quarantine", "strong"))
    out.grid(Grid.of(quarantine, _REASONS, right=("rows",)))
    out.line("look at the rows: ", Styled(f"lakesmith quarantine list {quarantine[0].table}", "strong"))
