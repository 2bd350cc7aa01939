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
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many, the newest first.")
def command(call: Call, limit: int) -> None:
    """List consistent versions of all tables. Needs no Java.

    A run that succeeds records a release, if every table was made from the other tables' current versions.
    """
    releases = call.open().releases(limit=limit)
    if call.as_json:
        print_json({"releases": releases})
    elif not releases:
        page().line("there is no release yet; a run that succeeds creates one")
    else:
        page().grid(Grid.of(releases, _COLUMNS))
