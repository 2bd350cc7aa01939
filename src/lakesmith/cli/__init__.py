"""The command `lakesmith`: parses, calls `Lake`, shows. A verb's module is loaded when the verb is called."""

from __future__ import annotations

import importlib
from typing import Any

import click

from lakesmith.cli.call import Call, lake_options
from lakesmith.cli.command_groups import Commands
from lakesmith.cli.failures import exit_code_of, tolerate_narrow_encodings

COMMANDS = {
    "init": "Make a small working lake to start from.",
    "validate": "Read all declarations and say what is wrong with them.",
    "plan": "Show what a run would do, and why. Needs no Java.",
    "test": "Try the tables out on rows that are given, or on none.",
    "run": "Bring the tables up to date.",
    "adopt": "Make a folder of Parquet files a table, where it lies.",
    "land": "Put files where a bronze table takes them in.",
    "status": "Show the tables as they are now.",
    "history": "List the runs, or the versions of one table.",
    "releases": "List versions of all tables that fit together. Needs no Java.",
    "query": "Answer a SELECT over the lake's tables. Needs no Java.",
    "profile": "Propose checks from a table's values. Needs no Java.",
    "lineage": "Show where tables come from and where they go.",
    "contract": "Compare, export, import and publish contracts.",
    "approve": "List batches that gates hold back, or publish one.",
    "quarantine": "Look at refused rows, take them back or give them up.",
    "compact": "Put the rows of small files together.",
    "vacuum": "Delete files that no version of late needs.",
    "restore": "Give a table the rows of an earlier version again. Needs no Java.",
    "rollback": "Give all tables the rows of a release again. Needs no Java.",
    "doctor": "Check Java, jars, Spark, storage and versions.",
    "completion": "Print the completion script for a shell.",
}
"""Each verb with its first line of help, so that `--help` need not load them."""

EXIT_CODES = """\b
Exit codes:
  0    fine
  1    the data broke a promise: a gate, a contract, a changed file
  2    wrong usage, or a declaration that does not make sense
  4    Java, Spark, storage or another process is in the way
  70   a bug in Lakesmith
  130  interrupted (141: the reader of a pipe went away; 143: terminated)"""


class CommandGroup(Commands):
    """Knows the verbs by name and imports the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        verb = importlib.import_module(f"lakesmith.cli.commands.{cmd_name}").verb
        assert isinstance(verb, click.Command)
        return verb

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
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
    subcommand_metavar="VERB [ARGS]...",
    context_settings={"obj": Call(), "help_option_names": ["-h", "--help"]},
)
@lake_options
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Print the version.",
)
def app() -> None:
    """Declare a lakehouse; Lakesmith plans it, runs it on Spark, proves it right and shows it."""


def main() -> None:
    app.main(prog_name="lakesmith")
