"""`lakesmith validate`."""

from __future__ import annotations

import click

from lakesmith.cli.call import Call, Command
from lakesmith.cli.formatting import plural
from lakesmith.cli.output import Styled, page, print_json


@click.command("validate", cls=Command)
@click.option("--no-python", is_flag=True, help="Run none of the lake's Python files, and read only the lake's folder.")
def validate(call: Call, no_python: bool) -> None:
    """Check all declarations and report every problem.

    Each problem comes with its file, its line and a hint. Needs no Java and reads no data. Runs the lake's
    Python declarations, unless --no-python is given.
    """
    validation = call.review() if no_python else call.open().validate()
    if call.as_json:
        print_json(validation)
        return
    out = page()
    layers = ", ".join(f"{number} {layer}" for layer, number in validation.by_layer.items())
    tables = f"{plural(validation.tables, 'table')} ({layers}), {plural(validation.checks, 'check')}"
    out.line(Styled("valid", "good"), f": {validation.lake} ({validation.environment}), {tables}")
    for warning in validation.warnings:
        out.line(Styled("warning: ", "warn"), warning)
    if files := validation.not_run:
        out.line(Styled("not run: ", "warn"), f"{plural(len(files), 'Python file')}: {', '.join(files)}")
    for left_out in validation.not_checked:
        out.line(Styled("not checked: ", "warn"), left_out)
