"""`lakesmith adopt`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command
from lakesmith.cli.formatting import plural
from lakesmith.cli.output import Styled, page, print_json


@click.command("adopt", cls=Command)
@click.argument("table")
def adopt(call: Call, table: str) -> None:
    """Turn a folder of Parquet files into a Delta table in place.

    Writes a Delta log beside the files. No file is copied or changed. Needed once, and only if the folder is
    not a Delta table yet. Needs no Java.
    """
    adopted = call.open().adopt(table)
    if call.as_json:
        print_json(adopted)
        return
    state = "adopted" if adopted.created else "already a Delta table"
    files = f"{plural(adopted.files, 'file')}, {plural(adopted.rows, 'row')}"
    page().line(Styled(adopted.table, "good"), f": {state}: {adopted.location} ({files})")
