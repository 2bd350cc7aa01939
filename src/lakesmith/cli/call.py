"""What commands share: their options, which may stand before or after the command, and how they end."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import click
from click.shell_completion import CompletionItem

from lakesmith.cli.failures import show_failure
from lakesmith.declare.names import LAYERS
from lakesmith.errors import LakesmithError, UsageError, did_you_mean

if TYPE_CHECKING:
    from lakesmith.lake import Lake
    from lakesmith.reports import Validation

LAKE_FILE = "lakesmith.yml"
_ENVIRONMENT = "lakesmith.environment"
"""The environment of the lake that a command has opened: its secrets are masked in errors."""
CommandFunction = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The options that all commands share."""

    folder: str | None = None
    environment: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    as_json: bool = False
    """Print JSON, and nothing else on standard output."""

    def open(self) -> Lake:
        folder = self.lake_folder()
        # Not needed for `--help`, so not loaded for it.
        from lakesmith.lake import Lake

        lake = Lake.open(folder, environment=self.environment, variables=self.variables)
        if context := click.get_current_context(silent=True):
            context.meta[_ENVIRONMENT] = lake.declaration.environment
        return lake

    def review(self) -> Validation:
        """Validate the lake without running its Python files."""
        folder = self.lake_folder()
        from lakesmith.lake import Lake

        return Lake.review(folder, environment=self.environment, variables=self.variables)

    def table_names(self) -> list[str]:
        """The lake's tables, without running its Python files."""
        folder = self.lake_folder()
        from lakesmith.load import load_lake

        lake = load_lake(folder, environment=self.environment, variables=self.variables, run_python=False)
        return [str(name) for name in (*lake.tables, *lake.unrun.tables)]

    def lake_folder(self) -> Path:
        """The folder given with --lake, or the nearest lake in this folder or above."""
        if self.folder is not None:
            folder = Path(self.folder)
            folder = folder.parent if folder.name == LAKE_FILE else folder
            if os.path.isfile(folder / LAKE_FILE):
                return folder
            raise UsageError(
                "no-lake", f"there is no {LAKE_FILE} in {self.folder}", hint=f"lakesmith init {self.folder}"
            )
        for folder in (Path.cwd(), *Path.cwd().parents):
            if os.path.isfile(folder / LAKE_FILE):
                return folder
        raise UsageError(
            "no-lake",
            f"there is no {LAKE_FILE} in this folder or above it",
            hint="pass --lake PATH, or create a lake with `lakesmith init PATH`",
        )


def _set_field(ctx: click.Context, option: click.Parameter, value: object) -> None:
    """Set the field of the `Call` that has the option's name."""
    if value is not None:
        ctx.obj = replace(ctx.obj, **{str(option.name): value})


def _add_variables(ctx: click.Context, option: click.Parameter, values: tuple[str, ...]) -> None:
    variables = dict(ctx.obj.variables)
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"'{value}' is not NAME=VALUE", ctx, option)
        variables[name] = text
    ctx.obj = replace(ctx.obj, variables=variables)


LAKE_OPTIONS = (
    click.Option(
        ["--lake", "-C", "folder"],
        metavar="PATH",
        expose_value=False,
        callback=_set_field,
        help="The lake's folder [default: this folder or the nearest above that has a lakesmith.yml].",
    ),
    click.Option(
        ["--env", "-e", "environment"],
        metavar="NAME",
        expose_value=False,
        callback=_set_field,
        help="The environment.",
    ),
    click.Option(
        ["--var"],
        metavar="NAME=VALUE",
        multiple=True,
        expose_value=False,
        callback=_add_variables,
        help="Set a variable; may be repeated.",
    ),
)
_JSON_OPTION = click.Option(
    ["--json", "as_json"], is_flag=True, expose_value=False, callback=_set_field, help="Print JSON."
)


class Command(click.Command):
    """A command that gets the `Call`, returns its exit code, and shows errors as text or JSON."""

    def __init__(
        self,
        *,
        callback: CommandFunction,
        shared: Sequence[click.Parameter] = (_JSON_OPTION, *LAKE_OPTIONS),
        **extra: Any,
    ) -> None:
        super().__init__(callback=click.pass_obj(callback), **extra)
        self.params.extend(shared)

    def invoke(self, ctx: click.Context) -> None:
        as_json = ctx.obj.as_json or ctx.params.get("format") == "json"
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BaseException as error:  # noqa: BLE001 - every failure becomes a message and an exit code
            code = show_failure(error, as_json=as_json, environment=ctx.meta.get(_ENVIRONMENT))
        ctx.exit(code or 0)


class Commands(click.Group):
    """A group of commands. Says which commands exist when one is unknown."""

    def __init__(self, *, params: Sequence[click.Parameter] = (), **extra: Any) -> None:
        super().__init__(params=[*LAKE_OPTIONS, *params], subcommand_metavar="COMMAND [ARGS]...", **extra)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        commands = self.list_commands(ctx)
        if args and args[0] not in commands and not ctx.resilient_parsing:
            hint = did_you_mean(args[0], commands, label="commands")
            typed = f"{ctx.info_name} {args[0]}" if ctx.parent else args[0]
            raise click.UsageError(f"there is no command '{typed}'\n  hint: {hint}", ctx)
        return super().resolve_command(ctx, args)


def complete_tables(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The lake's tables, for shell completion; none when the lake cannot be read.

    Pressing Tab in a folder must not run code from it.
    """
    try:
        names = ctx.obj.table_names()
    except LakesmithError:
        return []
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]


def _complete_selectors(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    plus = "+" if incomplete.startswith("+") else ""
    word = incomplete.removeprefix("+")
    tables = [item.value for item in complete_tables(ctx, parameter, word)]
    layers = [f"layer:{layer}" for layer in LAYERS if f"layer:{layer}".startswith(word)]
    return [CompletionItem(plus + name) for name in (*tables, *layers)]


table_argument = click.argument("table", shell_complete=complete_tables)
tables_argument = click.argument("tables", nargs=-1, metavar="[TABLE]...", shell_complete=complete_tables)


class Selection(TypedDict):
    """Which tables a command works on."""

    select: tuple[str, ...]
    exclude: tuple[str, ...]


class PlanOptions(Selection):
    """What `plan` shows and `run` executes."""

    full_refresh: bool
    days: tuple[date, date] | None
    chunk: int


def selection(function: CommandFunction) -> CommandFunction:
    """Selectors as arguments or with `--select`, and `--exclude`. The command gets a `Selection`."""
    option = functools.partial(click.option, metavar="SELECTOR", multiple=True, shell_complete=_complete_selectors)
    select = "Select tables: orders, +orders, orders+2, tag:daily, layer:silver; a comma means 'and'."

    @click.argument("selectors", nargs=-1, metavar="[SELECTOR]...", shell_complete=_complete_selectors)
    @option("--select", "-s", "selected", help=select)
    @option("--exclude", help="Exclude these tables.")
    @functools.wraps(function)
    def command(
        call: Call, *, selectors: tuple[str, ...], selected: tuple[str, ...], exclude: tuple[str, ...], **others: object
    ) -> object:
        return function(call, Selection(select=(*selectors, *selected), exclude=exclude), **others)

    return command


def plan_options(function: CommandFunction) -> CommandFunction:
    """A selection, `--full-refresh`, `--from`, `--to` and `--chunk`. The command gets `PlanOptions`."""
    day = click.DateTime(["%Y-%m-%d"])

    @selection
    @click.option("--full-refresh", is_flag=True, help="Rebuild the tables from all their rows.")
    @click.option("--from", "start", type=day, metavar="DAY", help="Backfill from this day on.")
    @click.option("--to", "end", type=day, metavar="DAY", help="The last day of the backfill.")
    @click.option(
        "--chunk",
        type=click.IntRange(1),
        metavar="DAYS",
        default=7,
        show_default=True,
        help="Days of a backfill in one commit.",
    )
    @functools.wraps(function)
    def command(
        call: Call,
        tables: Selection,
        *,
        full_refresh: bool,
        start: datetime | None,
        end: datetime | None,
        chunk: int,
        **others: object,
    ) -> object:
        days = _backfill_days(start, end)
        return function(call, PlanOptions(**tables, full_refresh=full_refresh, days=days, chunk=chunk), **others)

    return command


def _backfill_days(start: datetime | None, end: datetime | None) -> tuple[date, date] | None:
    """The first and last day of a backfill; None without one."""
    if start is None and end is None:
        return None
    if start is None or end is None:
        given, other = ("--to", "--from") if start is None else ("--from", "--to")
        raise UsageError(
            "invalid-days", f"{given} needs {other} too", hint="a backfill needs its first and its last day"
        )
    return start.date(), end.date()
