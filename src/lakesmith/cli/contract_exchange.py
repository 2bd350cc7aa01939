"""`lakesmith contract export`, `import` and `publish`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakesmith.cli.call import Call, Command, complete_tables, json_option
from lakesmith.cli.failures import show_errors
from lakesmith.cli.output import Style, Styled, page, print_json
from lakesmith.declare.names import LAYERS
from lakesmith.errors import UsageError

if TYPE_CHECKING:
    from lakesmith.exchange import Format

_STYLES: dict[str, Style] = {"registered": "good", "unchanged": "quiet", "agrees": "good"}
_force_option = click.option("--force", is_flag=True, help="Overwrite an existing file.")


@click.command("export", cls=Command)
@click.argument("table", shell_complete=complete_tables)
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
@click.pass_obj
def export_command(call: Call, table: str, form: Format, output: str | None, force: bool) -> None:
    """Print a table's contract as an exchange document.

    The document is an Open Data Contract (YAML), or an Avro schema or JSON Schema of a row.
    """
    _put(call.open().export_contract(table, form), output, force=force)


@click.command("import", cls=Command)
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--layer", type=click.Choice(LAYERS), help="The table's layer [default: from the document, or bronze].")
@click.option("--name", metavar="NAME", help="The table's name [default: from the document].")
@click.option("--object", "part", metavar="NAME", help="The table to import when the document describes several.")
@click.option("--write", is_flag=True, help="Write the declaration to its place in the lake.")
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False), metavar="FILE", help="Write the declaration to this file."
)
@_force_option
@json_option
@click.pass_obj
def import_command(
    call: Call,
    file: str,
    layer: str | None,
    name: str | None,
    part: str | None,
    write: bool,
    output: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Convert an Open Data Contract or a Great Expectations suite into a declaration.

    Prints the declaration unless --write or --output is given. Warnings on standard error list what the
    declaration cannot express. Paste the columns and checks of a suite into the table that they describe.
    """
    from lakesmith.lake import Lake

    found = Lake.import_contract(file, layer=layer, name=name, part=part)
    if write and output is None and not found.complete:
        raise UsageError(
            "incomplete-declaration",
            f"{file} is a Great Expectations suite: it has columns and checks, but no source of rows",
            hint=f"leave --write out and paste the output into the table, such as {found.file}, or write it to its own "
            "file: --output FILE",
        )
    target = output or (str(call.lake_folder() / found.file) if write else None)
    if target is not None or not as_json:
        _put(found.text, target, force=force, quiet=as_json)
    if as_json:
        print_json(found)
        return
    for warning in found.warnings:
        click.echo(f"warning: {warning}", err=True)


@click.command("publish", cls=Command)
@click.argument("tables", nargs=-1, metavar="[TABLE]...", shell_complete=complete_tables)
@json_option
@click.pass_obj
def publish_command(call: Call, tables: tuple[str, ...], as_json: bool) -> int:
    """Register contracts in their schema registries.

    Without tables, registers the contracts of all tables that name a registry. Where the registry is the
    source of truth, compares the declaration with the registered schema.
    """
    found = call.open().publish_contract(tables)
    if as_json:
        print_json(found)
    else:
        out = page()
        for each in found.contracts:
            version = f" version {each.version}" if each.version else ""
            details = f"{each.subject}{version}, id {each.id}, {each.compatibility}"
            out.line(Styled(each.state, _STYLES[each.state]), f"  {each.table}: {details}")
        show_errors(found.errors, as_json=False)
    return max((error.exit_code for error in found.errors), default=0)


def _put(text: str, target: str | None, *, force: bool, quiet: bool = False) -> None:
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
