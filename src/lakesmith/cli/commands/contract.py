"""`lakesmith contract` and its commands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from lakesmith.cli.call import Call, Command, complete_tables, json_option, lake_options
from lakesmith.cli.command_groups import Commands
from lakesmith.cli.contract_exchange import export_command, import_command, publish_command
from lakesmith.cli.formatting import plural
from lakesmith.cli.output import Cell, Grid, Styled, page, print_json
from lakesmith.reports import ContractCheck, ContractDiff

_tables = click.argument("tables", nargs=-1, metavar="[TABLE]...", shell_complete=complete_tables)


@click.group("contract", cls=Commands, subcommand_metavar="COMMAND [ARGS]...")
@lake_options
def command() -> None:
    """Compare, export, import and publish contracts.

    A contract consists of a table's declared columns and its terms. A run records each new version in
    system.contracts.
    """


@click.command("diff", cls=Command)
@_tables
@json_option
@click.pass_obj
def diff(call: Call, tables: tuple[str, ...], as_json: bool) -> None:
    """Show how contracts have changed since they were recorded, and which readers that affects.

    Compares declarations with the newest recorded version. Without tables, compares all tables with columns.
    """
    found = call.open().contract_diff(tables)
    if as_json:
        print_json({"tables": found})
        return
    out = page()
    changed = [each for each in found if each.changes]
    if changed:
        rows = tuple(row for each in changed for row in _changes(each))
        out.grid(Grid(titles=("table", "what", "backward", "forward", "version", "affected consumers"), rows=rows))
    for each in found:
        out.line(*_summary(each))


def _changes(found: ContractDiff) -> Iterator[tuple[Cell, ...]]:
    for change in found.changes:
        yield (
            found.table,
            change.what,
            _yes(change.backward),
            _yes(change.forward),
            Styled(change.version, "bad" if change.breaking and not found.acknowledged else ""),
            ", ".join(change.consumers) or "–",
        )


def _yes(holds: bool) -> Cell:
    return Styled("yes", "good") if holds else Styled("no", "bad")


def _summary(found: ContractDiff) -> tuple[Cell, ...]:
    name = Styled(found.table, "strong")
    if found.removed:
        return name, f": {found.recorded}, ", Styled("removed: no file declares the table", "warn")
    if found.recorded is None:
        return name, f": no version is recorded; the next run records {found.version}"
    if found.recorded == found.version:
        return name, f": {found.recorded}, unchanged"
    change = f": {found.recorded} → {found.version} ({found.compatibility})"
    if any(change.breaking for change in found.changes):
        if found.acknowledged:
            return name, change, Styled(", breaking and acknowledged", "warn")
        return name, change, Styled("; breaking: `lakesmith validate` shows what to do", "bad")
    return name, change


@click.command("check", cls=Command)
@_tables
@json_option
@click.pass_obj
def check(call: Call, tables: tuple[str, ...], as_json: bool) -> int:
    """Compare stored tables with their contracts. Needs no Java.

    Columns and types come from the tables' Delta logs. A table that is not built yet passes.
    """
    found = call.open().contract_check(tables)
    if as_json:
        print_json({"tables": found})
    else:
        _show_checks(found)
    return 1 if any(each.state == "differs" for each in found) else 0


def _show_checks(found: Sequence[ContractCheck]) -> None:
    out = page()
    for each in found:
        style: Cell = Styled(each.state, "good" if each.state == "agrees" else "quiet")
        if each.state == "differs":
            style = Styled(each.state, "bad")
        out.line(Styled(each.table, "strong"), ": ", style, f", {plural(each.columns, 'declared column')}")
    wrong = [(each.table, one) for each in found for one in each.differences]
    if wrong:
        out.grid(
            Grid(
                titles=("table", "column", "declared", "stored", "what"),
                rows=tuple((t, one.column, one.declared or "–", one.stored or "–", one.what) for t, one in wrong),
            )
        )


for _command in (diff, check, export_command, import_command, publish_command):
    command.add_command(_command)
