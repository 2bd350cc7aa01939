"""`lakesmith releases`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command
from lakesmith.cli.formatting import moment
from lakesmith.cli.output import Columns, Grid, page, print_json
from lakesmith.reports import Release

_COLUMNS: Columns[Release] = {
    "release": lambda release: release.release,
    "released": lambda release: moment(release.released_at),
    "tables": lambda release: " ".join(f"{table}={version}" for table, version in release.tables.items()),
}


@click.command("releases", cls=Command)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Maximum number, newest first.")
def releases(call: Call, limit: int) -> None:
    """List consistent versions of all tables. Needs no Java.

    A successful run records a release if every table was built from the current versions of its inputs.
    """
    releases = call.open().releases(limit=limit)
    if call.as_json:
        print_json({"releases": releases})
    elif not releases:
        page().line("there is no release yet; a successful run creates one")
    else:
        page().grid(Grid.of(releases, _COLUMNS))
