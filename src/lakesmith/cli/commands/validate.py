"""`lakesmith validate`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command, json_option
from lakesmith.cli.formatting import plural
from lakesmith.cli.output import Styled, page, print_json


@click.command("validate", cls=Command)
@click.option("--no-python", is_flag=True, help="Run none of the lake's Python files, and read only the lake's folder.")
@json_option
@click.pass_obj
def command(call: Call, no_python: bool, as_json: bool) -> None:
    """Check all declarations and report every problem.

    Each problem comes with its file, its line and a hint. Needs no Java and reads no data. Runs the lake's
    Python declarations, unless --no-python is given.
    """
    found = call.review() if no_python else call.open().validate()
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
    if found.not_run:
        out.line(
            Styled("not run: ", "warn"), f"{plural(len(found.not_run), 'Python file')}: {', '.join(found.not_run)}"
        )
    for left_out in found.not_checked:
        out.line(Styled("not checked: ", "warn"), left_out)
