"""`lakesmith validate`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Verb, json_option
from lakesmith.cli.output import Styled, page, print_json
from lakesmith.cli.words import plural


@click.command("validate", cls=Verb)
@json_option
@click.pass_obj
def verb(call: Call, as_json: bool) -> None:
    """Read all declarations and say what is wrong with them.

    Every problem is listed with its file, its line and what to do about it. Needs no Java, touches
    no data.
    """
    found = call.open().validate()
    if as_json:
        print_json(found)
        return
    out = page()
    layers = ", ".join(f"{number} {layer}" for layer, number in found.by_layer.items())
    out.line(
        Styled("valid", "good"),
        f": {found.lake} ({found.environment}), {plural(found.tables, 'table')} ({layers}), "
        f"{plural(found.checks, 'check')}",
    )
    for warning in found.warnings:
        out.line(Styled("warning: ", "warn"), warning)
