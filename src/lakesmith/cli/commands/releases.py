"""`lakesmith releases`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command, json_option
from lakesmith.cli.formatting import moment
from lakesmith.cli.output import Grid, page, print_json


@click.command("releases", cls=Command)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many, the newest first.")
@json_option
@click.pass_obj
def command(call: Call, limit: int, as_json: bool) -> None:
    """List consistent versions of all tables. Needs no Java.

    A run that succeeds records a release, if every table was made from the other tables' current versions.
    """
    found = call.open().releases(limit=limit)
    if as_json:
        print_json({"releases": found})
    elif not found:
        page().line("there is no release yet; a run that succeeds creates one")
    else:
        page().grid(
            Grid(
                titles=("release", "released", "tables"),
                rows=tuple(
                    (
                        each.release,
                        moment(each.released_at),
                        " ".join(f"{table}={version}" for table, version in each.tables.items()),
                    )
                    for each in found
                ),
            )
        )
