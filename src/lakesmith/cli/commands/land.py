"""`lakesmith land`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from lakesmith.cli.call import Call, Command, complete_tables
from lakesmith.cli.failures import Termination, show_errors
from lakesmith.cli.formatting import size
from lakesmith.cli.output import Style, Styled, is_terminal, page, print_json, terminal_console

if TYPE_CHECKING:
    from lakesmith.store import LandingProgress

_STYLES: dict[str, Style] = {"landed": "good", "already landed": "quiet", "rejected": "bad"}


@click.command("land", cls=Command)
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@click.option("--to", required=True, metavar="TABLE", shell_complete=complete_tables, help="The bronze table.")
@click.option("--as", "name", metavar="NAME", help="Land one file under another name.")
def land(call: Call, files: tuple[str, ...], to: str, name: str | None) -> int:
    """Copy files into a bronze table's landing folder.

    A file lands completely or not at all, and its SHA-256 is recorded. Landing the same file twice has no effect.
    A different file with the same name is rejected.
    """
    lake = call.open()
    with Termination(), ExitStack() as shown:
        landing = lake.land(files, to=to, name=name, on_progress=_progress(shown))
    if call.as_json:
        print_json({"table": landing.table, "files": landing.files, "errors": landing.errors})
    else:
        out = page()
        for file in landing.files:
            details = f"  {file.location}  {size(file.bytes)}  sha256 {file.sha256[:12]}…"
            out.line(Styled(file.state, _STYLES[file.state]), details)
        show_errors(landing.errors)
    return max((error.exit_code for error in landing.errors), default=0)


def _progress(shown: ExitStack) -> Callable[[LandingProgress], None] | None:
    """A progress bar for each file, on stderr if that is a terminal."""
    if not is_terminal(sys.stderr):
        return None
    from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

    bars = shown.enter_context(
        Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            console=terminal_console(sys.stderr),
            transient=True,
        )
    )
    tasks: dict[str, TaskID] = {}

    def show(sending: LandingProgress) -> None:
        if sending.file not in tasks:
            tasks[sending.file] = bars.add_task(sending.file, total=sending.bytes)
        bars.update(tasks[sending.file], completed=sending.sent)

    return show
