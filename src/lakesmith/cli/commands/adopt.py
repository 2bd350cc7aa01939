"""`lakesmith adopt`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command, json_option
from lakesmith.cli.formatting import plural
from lakesmith.cli.output import Styled, page, print_json


@click.command("adopt", cls=Command)
@click.argument("table")
@json_option
@click.pass_obj
def command(call: Call, table: str, as_json: bool) -> None:
    """Turn a folder of Parquet files into a Delta table in place.

    Writes a Delta log beside the files. No file is copied or changed. Needed once, and only if the folder is
    not a Delta table yet. Needs no Java.
    """
    found = call.open().adopt(table)
    if as_json:
        print_json(found)
        return
    state = "adopted" if found.created else "already a Delta table"
    files = f"{plural(found.files, 'file')}, {plural(found.rows, 'row')}"
    page().line(Styled(found.table, "good"), f": {state}: {found.location} ({files})")
