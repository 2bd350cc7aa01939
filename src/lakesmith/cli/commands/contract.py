"""`lakesmith contract` and its commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakesmith.cli.call import LAKE_OPTIONS, Call, Command, Commands, table_argument, tables_argument
from lakesmith.cli.failures import show_errors
from lakesmith.cli.formatting import plural
from lakesmith.cli.output import Cell, Columns, Grid, Style, Styled, page, print_json
from lakesmith.declare.names import LAYERS
from lakesmith.errors import UsageError
from lakesmith.reports import ColumnDifference, ContractChange, ContractCheck, ContractDiff

if TYPE_CHECKING:
    from lakesmith.exchange import Format

_STATES: dict[str, Style] = {"agrees": "good", "differs": "bad", "registered": "good"}
_CHANGES: Columns[tuple[ContractDiff, ContractChange]] = {
    "table": lambda row: row[0].table,
    "what": lambda row: row[1].what,
    "backward": lambda row: _yes(row[1].backward),
    "forward": lambda row: _yes(row[1].forward),
    "version": lambda row: Styled(row[1].version, "bad" if row[1].breaking and not row[0].acknowledged else ""),
    "affected consumers": lambda row: ", ".join(row[1].consumers) or "–",
}
_DIFFERENCES: Columns[tuple[ContractCheck, ColumnDifference]] = {
    "table": lambda row: row[0].table,
    "column": lambda row: row[1].column,
    "declared": lambda row: row[1].declared or "–",
    "stored": lambda row: row[1].stored or "–",
    "what": lambda row: row[1].what,
}
_force_option = click.option("--force", is_flag=True, help="Overwrite an existing file.")


@click.group("contract", cls=Commands)
def contract() -> None:
    """Compare, export, import and publish contracts.

    A contract consists of a table's declared columns and its terms. A run records each new version in
    system.contracts.
    """


@contract.command("diff", cls=Command)
@tables_argument
def diff(call: Call, tables: tuple[str, ...]) -> None:
    """Show how contracts have changed since they were recorded, and which readers that affects.

    Compares declarations with the newest recorded version. Without tables, compares all tables with columns.
    """
    diffs = call.open().contract_diff(tables)
    if call.as_json:
        print_json({"tables": diffs})
        return
    out = page()
    changes = [(each, change) for each in diffs for change in each.changes]
    if changes:
        out.grid(Grid.of(changes, _CHANGES))
    for each in diffs:
        out.line(*_summary(each))


def _yes(holds: bool) -> Cell:
    return Styled("yes", "good") if holds else Styled("no", "bad")


def _summary(diff: ContractDiff) -> tuple[Cell, ...]:
    name = Styled(diff.table, "strong")
    if diff.removed:
        return name, f": {diff.recorded}, ", Styled("removed: no file declares the table", "warn")
    if diff.recorded is None:
        return name, f": no version is recorded; the next run records {diff.version}"
    if diff.recorded == diff.version:
        return name, f": {diff.recorded}, unchanged"
    versions = f": {diff.recorded} → {diff.version} ({diff.compatibility})"
    if not any(change.breaking for change in diff.changes):
        return name, versions
    if diff.acknowledged:
        return name, versions, Styled(", breaking and acknowledged", "warn")
    return name, versions, Styled("; breaking: `lakesmith validate` shows what to do", "bad")


@contract.command("check", cls=Command)
@tables_argument
def check(call: Call, tables: tuple[str, ...]) -> int:
    """Compare stored tables with their contracts. Needs no Java.

    Columns and types come from the tables' Delta logs. A table that is not built yet passes.
    """
    checks = call.open().contract_check(tables)
    if call.as_json:
        print_json({"tables": checks})
    else:
        _show_checks(checks)
    return 1 if any(each.state == "differs" for each in checks) else 0


def _show_checks(checks: Sequence[ContractCheck]) -> None:
    out = page()
    for each in checks:
        state = Styled(each.state, _STATES.get(each.state, "quiet"))
        out.line(Styled(each.table, "strong"), ": ", state, f", {plural(each.columns, 'declared column')}")
    differences = [(each, difference) for each in checks for difference in each.differences]
    if differences:
        out.grid(Grid.of(differences, _DIFFERENCES))


@contract.command("export", cls=Command, shared=LAKE_OPTIONS)
@table_argument
@click.option(
    "--format",
    "form",
    type=click.Choice(["odcs", "avro", "json-schema"]),
    default="odcs",
    show_default=True,
    help="The format of the document.",
)
@click.option("--output", "-o", type=click.Path(dir_okay=False), metavar="FILE", help="Write the document to a file.")
@_force_option
def export_contract(call: Call, table: str, form: Format, output: str | None, force: bool) -> None:
    """Print a table's contract as an exchange document.

    The document is an Open Data Contract (YAML), or an Avro schema or JSON Schema of a row.
    """
    _write(call.open().export_contract(table, form), output, force=force)


@contract.command("import", cls=Command)
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--layer", type=click.Choice(LAYERS), help="The table's layer [default: from the document, or bronze].")
@click.option("--name", metavar="NAME", help="The table's name [default: from the document].")
@click.option("--object", "part", metavar="NAME", help="The table to import when the document describes several.")
@click.option("--write", is_flag=True, help="Write the declaration to its place in the lake.")
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False), metavar="FILE", help="Write the declaration to this file."
)
@_force_option
def import_contract(
    call: Call,
    file: str,
    layer: str | None,
    name: str | None,
    part: str | None,
    write: bool,
    output: str | None,
    force: bool,
) -> None:
    """Convert an Open Data Contract or a Great Expectations suite into a declaration.

    Prints the declaration unless --write or --output is given. Warnings on standard error list what the
    declaration cannot express. Paste the columns and checks of a suite into the table that they describe.
    """
    from lakesmith.lake import Lake

    imported = Lake.import_contract(file, layer=layer, name=name, part=part)
    if write and output is None and not imported.complete:
        raise UsageError(
            "incomplete-declaration",
            f"{file} is a Great Expectations suite: it has columns and checks, but no source of rows",
            hint=f"leave --write out and paste the output into the table, such as {imported.file}, or write it to its "
            "own file: --output FILE",
        )
    target = output or (str(call.lake_folder() / imported.file) if write else None)
    if target is not None or not call.as_json:
        _write(imported.text, target, force=force, quiet=call.as_json)
    if call.as_json:
        print_json(imported)
        return
    for warning in imported.warnings:
        click.echo(f"warning: {warning}", err=True)


@contract.command("publish", cls=Command)
@tables_argument
def publish(call: Call, tables: tuple[str, ...]) -> int:
    """Register contracts in their schema registries.

    Without tables, registers the contracts of all tables that name a registry. Where the registry is the
    source of truth, compares the declaration with the registered schema.
    """
    publication = call.open().publish_contract(tables)
    if call.as_json:
        print_json(publication)
    else:
        out = page()
        for each in publication.contracts:
            version = f" version {each.version}" if each.version else ""
            details = f"{each.subject}{version}, id {each.id}, {each.compatibility}"
            out.line(Styled(each.state, _STATES.get(each.state, "quiet")), f"  {each.table}: {details}")
        show_errors(publication.errors)
    return max((error.exit_code for error in publication.errors), default=0)


def _write(text: str, target: str | None, *, force: bool, quiet: bool = False) -> None:
    """Write the text to a file, or print it."""
    if target is None:
        sys.stdout.write(text)
        return
    path = Path(target)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        what, hint = f"{target} exists; nothing was written", "name another file, or use --force"
        raise UsageError("would-overwrite", what, hint=hint) from None
    except OSError as error:
        what = f"{target} cannot be written: {error.strerror}"
        raise UsageError("not-writable", what, hint="name another file, or fix the permissions") from None
    if not quiet:
        page().line(Styled("written", "good"), f"  {target}")
