"""`lakesmith adopt`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command, json_option
from lakesmith.cli.output import Styled, page, print_json
from lakesmith.cli.words import plural


@click.command("adopt", cls=Command)
@click.argument("table")
@json_option
@click.pass_obj
def verb(call: Call, table: str, as_json: bool) -> None:
    """Make a folder of Parquet files a table, where it lies.

    A log is written beside the files; no file is copied or changed. Needed once, and only where the
    folder is no Delta table yet. Needs no Java.
    """
    found = call.open().adopt(table)
    if as_json:
        print_json(found)
        return
    told = "adopted" if found.made else "is a Delta table already"
    files = f"{plural(found.files, 'file')}, {plural(found.rows, 'row')}"
    page().line(Styled(found.table, "good"), f": {told}: {found.location} ({files})")
