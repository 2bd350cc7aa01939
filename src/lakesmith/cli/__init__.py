"""The command line: parse, call `Lake`, show the result. Each command's module is loaded when it is called."""

from __future__ import annotations

import importlib
from typing import Any

import click

from lakesmith.cli.call import Call, Commands
from lakesmith.cli.failures import exit_code_of, tolerate_narrow_encodings

COMMANDS = {
    "init": "Create a small working lake to start from.",
    "validate": "Check all declarations and report every problem.",
    "plan": "Show what a run would do, and why. Needs no Java.",
    "test": "Run unit tests for tables.",
    "run": "Bring the tables up to date.",
    "adopt": "Turn a folder of Parquet files into a Delta table in place.",
    "land": "Copy files into a bronze table's landing folder.",
    "status": "Show the current state of the tables.",
    "history": "List the runs, or the versions of one table.",
    "releases": "List consistent versions of all tables. Needs no Java.",
    "query": "Answer a SELECT over the lake's tables. Needs no Java.",
    "profile": "Propose checks from a table's values. Needs no Java.",
    "lineage": "Show where tables come from and where they go.",
    "contract": "Compare, export, import and publish contracts.",
    "approve": "List held batches, or commit one.",
    "quarantine": "List quarantined rows, replay them or discard them.",
    "compact": "Merge small files into larger files.",
    "vacuum": "Delete data files that no recent version references.",
    "restore": "Restore a table to an earlier version. Needs no Java.",
    "rollback": "Restore all tables to a release. Needs no Java.",
    "doctor": "Check Java, jars, Spark, storage and versions.",
    "completion": "Print the completion script for a shell.",
}
"""Each command with its first line of help, so that `--help` does not load their modules."""

SHARED_MODULES = dict.fromkeys(("compact", "vacuum", "restore", "rollback"), "maintenance")
"""The modules of commands that share one; each other command has a module of its name."""

EXIT_CODES = """\b
Exit codes:
  0    success
  1    the data broke a rule: a gate, a contract, a changed file
  2    wrong usage, or an invalid declaration
  4    Java, Spark, storage or another process failed
  70   a bug in Lakesmith
  130  interrupted (141: the reader closed the pipe; 143: terminated)"""


class CommandGroup(Commands):
    """Imports a command's module when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"lakesmith.cli.commands.{SHARED_MODULES.get(cmd_name, cmd_name)}")
        command = getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(self, *args: Any, **extra: Any) -> Any:
        tolerate_narrow_encodings()
        extra["standalone_mode"] = False
        run = super().main
        raise SystemExit(exit_code_of(lambda: run(*args, **extra)))


def _show_version(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from lakesmith import __version__

        click.echo(f"lakesmith {__version__}")
        ctx.exit()


@click.command(
    cls=CommandGroup,
    epilog=EXIT_CODES,
    context_settings={"obj": Call(), "help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Print the version.",
)
def app() -> None:
    """Build a lakehouse from declarations: plan it, run it on Spark, check it and query it."""


def main() -> None:
    app.main(prog_name="lakesmith")
