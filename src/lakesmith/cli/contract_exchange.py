"""`lakesmith contract export`, `import` and `publish`: contracts go to others, and come from them."""

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
_force_option = click.option("--force", is_flag=True, help="Write over a file that is there.")


@click.command("export", cls=Command)
@click.argument("table", shell_complete=complete_tables)
@click.option(
    "--format",
    "form",
    type=click.Choice(["odcs", "avro", "json-schema"]),
    default="odcs",
    show_default=True,
    help="The language of the document.",
)
@click.option("--output", "-o", type=click.Path(dir_okay=False), metavar="FILE", help="Write it to a file.")
@_force_option
@click.pass_obj
def export_command(call: Call, table: str, form: Format, output: str | None, force: bool) -> None:
    """Print a table's contract as a document for others.

    As an Open Data Contract (YAML), as the Avro schema of a row, or as a JSON Schema of it.
    """
    _put(call.open().export_contract(table, form), output, force=force)


@click.command("import", cls=Command)
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--layer", type=click.Choice(LAYERS), help="The table's layer [default: what the document says, bronze].")
@click.option("--name", metavar="NAME", help="The table's name [default: what the document says].")
@click.option("--object", "part", metavar="NAME", help="Which table, where the document describes several.")
@click.option("--write", is_flag=True, help="Write it where it belongs in the lake.")
@click.option("--output", "-o", type=click.Path(dir_okay=False), metavar="FILE", help="Write it to this file.")
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
    """Make a table's declaration of an Open Data Contract, or its checks of a suite of Great Expectations.

    Printed, unless it is to be written. What of the document is not in the declaration is told on
    standard error. The columns and checks of a suite are to be pasted into the table that they are for.
    """
    from lakesmith.lake import Lake

    found = Lake.import_contract(file, layer=layer, name=name, part=part)
    if write and output is None and not found.complete:
        raise UsageError(
            "part-of-a-table",
            f"{file} is a suite of Great Expectations: it tells columns and checks, but not where rows come from",
            hint=f"leave --write out and paste what is printed into the table, such as {found.file}, or write it to a "
            "file of its own: --output FILE",
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
    """Put contracts into their schema registries.

    Those of all tables that name a registry, unless some are named. Where the registry is the source
    of truth, the declaration is compared with what is there.
    """
    found = call.open().publish_contract(tables)
    if as_json:
        print_json(found)
    else:
        out = page()
        for each in found.contracts:
            version = f" version {each.version}" if each.version else ""
            told = f"{each.subject}{version}, id {each.id}, {each.compatibility}"
            out.line(Styled(each.state, _STYLES[each.state]), f"  {each.table}: {told}")
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
        what, hint = f"{target} is there already, and nothing was written", "name another file, or use --force"
        raise UsageError("would-overwrite", what, hint=hint) from None
    except OSError as error:
        what = f"{target} cannot be written: {error.strerror}"
        raise UsageError("not-writable", what, hint="name another file, or mend the permissions") from None
    if not quiet:
        page().line(Styled("written", "good"), f"  {target}")
